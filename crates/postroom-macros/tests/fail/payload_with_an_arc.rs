use postroom::Signal;
use std::sync::Arc;

#[derive(Signal)]
#[signal("tree.grown")]
enum Tree {
    Leaf,
    Branch(Arc<Tree>, std::sync::Weak<Tree>),
}

fn main() {}
