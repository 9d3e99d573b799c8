//! Rule: a function fits on a page.

use super::{
    Violation,
    source::{Source, is_identifier},
    test_code::{closing_brace, line_of},
};

const LONGEST_FUNCTION: usize = 70;

pub(super) fn long_functions(source: &Source) -> Vec<Violation> {
    let Some(rust) = &source.rust else { return Vec::new() };
    let code = &rust.layers.code;
    let mut violations = Vec::new();
    for (start, name) in functions(code) {
        let Some(end) = end_of_body(code, start) else { continue };
        let (first, last) = (line_of(code, start), line_of(code, end));
        let lines = last - first + 1;
        if lines > LONGEST_FUNCTION {
            let advice = format!("`{name}` has {lines} lines, at most {LONGEST_FUNCTION}: take a step out of it");
            violations.push(Violation::new(source, first, "long-function", advice));
        }
    }
    violations
}

/// Finds the start and name of each function. Function pointer types have no name and do not count.
fn functions(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.match_indices("fn ").filter_map(|(start, keyword)| {
        let after = &code[start + keyword.len()..];
        let name = &after[..after.find(|character| !is_identifier(character)).unwrap_or(after.len())];
        let is_function = !name.is_empty() && !code[..start].ends_with(is_identifier);
        is_function.then_some((start, name))
    })
}

/// Finds the closing brace of the function's body. A function that is only declared has none.
fn end_of_body(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, character) in code[start..].char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return None,
            '{' if depth == 0 => return closing_brace(code, start + at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(lines: usize) -> Source {
        let body = "    step(\"}\"); // }\n".repeat(lines - 2);
        Source::new("src/a.rs", &format!("\nimpl A {{\npub async fn long<'a>(x: [u8; 3]) {{\n{body}}}\n}}\n"))
    }

    #[test]
    fn a_function_longer_than_a_page_is_refused() {
        let found = long_functions(&function_of(LONGEST_FUNCTION + 1));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 3);
        assert!(found[0].advice.starts_with("`long` has 71 lines"), "{}", found[0].advice);
    }

    #[test]
    fn a_page_is_allowed() {
        assert!(long_functions(&function_of(LONGEST_FUNCTION)).is_empty());
    }

    #[test]
    fn declarations_and_pointers_have_no_body() {
        let body = "    step();\n".repeat(LONGEST_FUNCTION + 10);
        let text = format!("trait A {{ fn declared(&self, x: [u8; 3]); }}\nstatic F: fn (u8);\nmod b {{\n{body}}}\n");
        assert!(long_functions(&Source::new("src/a.rs", &text)).is_empty());
    }
}
