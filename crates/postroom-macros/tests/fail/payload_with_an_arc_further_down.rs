use postroom::Signal;
use std::sync::{Arc, Mutex};

#[derive(Signal, serde::Serialize, serde::Deserialize)]
#[signal("tree.grown")]
struct TreeGrown {
    branches: Vec<Branch>,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Branch {
    above: Arc<Mutex<Option<Branch>>>,
}

fn main() {}
