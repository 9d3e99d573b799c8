//! What the macros take, and what they say about what they do not take.

#[path = "pass/all_at_once.rs"]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod all_at_once;
#[path = "pass/trees.rs"]
mod trees;
#[path = "pass/unusual_names.rs"]
mod unusual_names;

#[test]
fn what_is_wrong_is_said_before_the_program_runs() {
    trybuild::TestCases::new().compile_fail("tests/fail/*.rs");
}

#[test]
fn what_is_right_compiles() {
    all_at_once::main();
    trees::main();
    unusual_names::main();
}
