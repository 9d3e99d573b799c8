use std::sync::Arc;

use postroom::Signal;

#[derive(Signal)]
#[signal("tree.grown")]
struct Tree {
    children: Box<[Arc<Tree>]>,
}

fn main() {}
