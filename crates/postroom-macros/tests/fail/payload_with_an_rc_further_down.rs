use postroom::Signal;
use std::cell::RefCell;
use std::rc::Rc;

#[derive(Signal, serde::Serialize, serde::Deserialize)]
#[signal("tree.grown")]
struct TreeGrown {
    branches: Vec<Branch>,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Branch {
    leaf: Leaf,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Leaf {
    #[serde(skip)]
    branch: RefCell<Option<Rc<Branch>>>,
}

fn main() {}
