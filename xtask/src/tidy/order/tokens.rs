//! Splits Rust code into words and signs, which is enough to find items and paths.

use crate::tidy::{
    source::{Rust, is_identifier},
    test_code,
};

#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    /// A word, `::`, or one sign.
    pub(super) text: &'a str,
    pub(super) line: usize,
}

impl Token<'_> {
    pub(super) fn is_word(&self) -> bool {
        self.text.starts_with(is_identifier)
    }
}

/// Returns the tokens outside test modules.
pub(super) fn tokens(rust: &Rust) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    for (line, code) in rust.code_lines().filter(|(line, _)| !rust.is_test(*line)) {
        let mut rest = code.trim_start();
        while let Some(first) = rest.chars().next() {
            // `r#type` is the name `type`.
            let raw = rest.strip_prefix("r#").filter(|name| name.starts_with(is_identifier));
            rest = raw.unwrap_or(rest);
            let length = match first {
                _ if rest.starts_with(is_identifier) => rest.find(|c| !is_identifier(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            let (text, after) = rest.split_at(length);
            found.push(Token { text, line });
            rest = after.trim_start();
        }
    }
    found
}

/// Returns the text at `at`, or an empty text after the end.
pub(super) fn text_at<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

/// Returns the position after the bracket that closes the one at `open`.
pub(super) fn behind_brackets(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Returns the position after the item or statement that begins at `start`, which is after its attributes and `pub`.
pub(super) fn behind_item(tokens: &[Token<'_>], start: usize) -> usize {
    let has_value = match text_at(tokens, start) {
        "const" => !["fn", "unsafe", "async", "extern"].contains(&text_at(tokens, start + 1)),
        first => ["static", "type", "use", "let"].contains(&first),
    };
    let mut at = start;
    while at < tokens.len() {
        match tokens[at].text {
            ";" => return at + 1,
            "}" | ")" | "]" => return at,
            "{" if !has_value => return behind_brackets(tokens, at),
            "(" | "[" | "{" => at = behind_brackets(tokens, at),
            _ => at += 1,
        }
    }
    tokens.len()
}

/// Returns whether the attribute between `start` and `end` restricts the following item to tests.
pub(super) fn is_test_attribute(tokens: &[Token<'_>], start: usize, end: usize) -> bool {
    let text: String = tokens[start..end].iter().map(|token| token.text).collect();
    test_code::TEST_ATTRIBUTES.iter().any(|attribute| text.starts_with(attribute))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::Source;

    fn rest_after_item(text: &str) -> String {
        let source = Source::new("src/a.rs", text);
        let tokens = tokens(source.rust.as_ref().unwrap());
        tokens[behind_item(&tokens, 0)..].iter().map(|token| token.text).collect()
    }

    #[test]
    fn words_and_signs_have_lines() {
        let source = Source::new("src/a.rs", "use a::r#type; // b\n\"c\" é;\n#[cfg(test)]\nmod tests {\n    x\n}\n");
        let found: Vec<_> = tokens(source.rust.as_ref().unwrap()).iter().map(|t| (t.text, t.line)).collect();
        assert_eq!(found, [("use", 1), ("a", 1), ("::", 1), ("type", 1), (";", 1), ("é", 2), (";", 2)]);
    }

    #[test]
    fn items_end_at_their_brace_or_semicolon() {
        for item in [
            "fn a(x: [u8; 3]) -> [u8; 2] { { b; } }",
            "struct A(u8, [u8; 2]);",
            "struct A { b: u8 }",
            "const A: B = B { c: [1; 2] };",
            "const fn a() { }",
            "static A: [u8; 2] = { b };",
            "use a::{b, c::{d}};",
            "macro_rules! a { () => { ; }; }",
            "a! { b; c }",
        ] {
            assert_eq!(rest_after_item(&format!("{item} next")), "next", "{item}");
        }
        assert_eq!(rest_after_item("last } next"), "}next");
    }
}
