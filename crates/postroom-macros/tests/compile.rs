//! What the macros take, and what they say about what they do not take.

#[test]
fn what_is_wrong_is_said_before_the_program_runs() {
    trybuild::TestCases::new().compile_fail("tests/fail/*.rs");
}

#[test]
fn what_is_right_compiles() {
    trybuild::TestCases::new().pass("tests/pass/*.rs");
}
