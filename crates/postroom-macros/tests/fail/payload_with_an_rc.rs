use postroom::Signal;
use std::rc::Rc;

#[derive(Signal)]
#[signal("tree.grown")]
struct Tree {
    children: Vec<Rc<Tree>>,
}

fn main() {}
