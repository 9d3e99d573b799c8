//! Splits Rust text into code, strings and comments.
//!
//! Each layer keeps the lines and columns of the whole text; what belongs to another layer is blank. A rule can thus
//! look for a word in code without finding it in a comment.

use super::source::is_identifier;

/// The three layers of a Rust file.
#[derive(Default)]
pub(super) struct Layers {
    pub(super) code: String,
    pub(super) strings: String,
    pub(super) comments: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Text,
    Comment,
}

impl Layers {
    pub(super) fn of(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let mut layers = Self::default();
        let mut rest = characters.as_slice();
        while !rest.is_empty() {
            let (kind, length) = token(rest);
            let (token, after) = rest.split_at(length.clamp(1, rest.len()));
            layers.push(kind, token);
            rest = after;
        }
        layers
    }

    fn push(&mut self, kind: Kind, token: &[char]) {
        let layers =
            [(Kind::Code, &mut self.code), (Kind::Text, &mut self.strings), (Kind::Comment, &mut self.comments)];
        for (own, layer) in layers {
            let blank = |character: &char| if *character == '\n' { '\n' } else { ' ' };
            layer.extend(token.iter().map(|character| if own == kind { *character } else { blank(character) }));
        }
    }
}

/// Returns the kind and length of the token at the start of `rest`.
fn token(rest: &[char]) -> (Kind, usize) {
    match rest {
        ['/', '/', ..] => (Kind::Comment, length_until(rest, |character| character == '\n')),
        ['/', '*', ..] => (Kind::Comment, block_comment(rest)),
        ['"', ..] => (Kind::Text, quoted(rest)),
        ['\'', ..] => character_or_lifetime(rest),
        [first, ..] if is_identifier(*first) => word_or_prefixed_string(rest),
        _ => (Kind::Code, 1),
    }
}

fn length_until(rest: &[char], stop: impl Fn(char) -> bool) -> usize {
    rest.iter().position(|character| stop(*character)).unwrap_or(rest.len())
}

/// Returns the length of a block comment, which may contain others.
fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth.saturating_sub(1), at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Returns the length of a literal between two equal quotes, in which a backslash escapes the next character.
fn quoted(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            character if character == rest[0] => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn character_or_lifetime(rest: &[char]) -> (Kind, usize) {
    match rest {
        ['\'', '\\', ..] => (Kind::Text, quoted(rest)),
        ['\'', _, '\'', ..] => (Kind::Text, 3),
        _ => (Kind::Code, 1),
    }
}

fn word_or_prefixed_string(rest: &[char]) -> (Kind, usize) {
    let length = length_until(rest, |character| !is_identifier(character));
    let (word, after) = rest.split_at(length);
    let hashes = length_until(after, |character| character != '#');
    match (word, after) {
        (['r'] | ['b' | 'c', 'r'], _) if after.get(hashes) == Some(&'"') => {
            (Kind::Text, length + raw_string(after, hashes))
        }
        (['b' | 'c'], ['"', ..]) | (['b'], ['\'', ..]) => (Kind::Text, length + quoted(after)),
        _ => (Kind::Code, length),
    }
}

/// Returns the length of `#"…"#` with the given number of hashes.
fn raw_string(rest: &[char], hashes: usize) -> usize {
    let closes = |at: usize| rest[at] == '"' && rest[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    let end = (hashes + 1..rest.len()).find(|at| closes(*at));
    end.map_or(rest.len(), |at| at + 1 + hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squeezed(layer: &str) -> String {
        layer.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn layers_keep_lines_and_columns() {
        let layers = Layers::of("let a = \"b\"; // c\nnext();\n");
        assert_eq!(layers.code, "let a =    ;     \nnext();\n");
        assert_eq!(layers.strings, "        \"b\"      \n       \n");
        assert_eq!(layers.comments, "             // c\n       \n");
    }

    #[test]
    fn strings_may_hold_anything() {
        let layers = Layers::of(r####"f(r#"a " // {"#, b"\" /*", '{', '\'', b'}', c"x", "\\"); g()"####);
        assert_eq!(squeezed(&layers.code), "f( , , , , , , ); g()");
        assert_eq!(squeezed(&layers.comments), "");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        let text = "fn f<'a>(r#type: &'a str) -> &'static str { r#type }";
        assert_eq!(Layers::of(text).code, text);
    }

    #[test]
    fn block_comments_nest() {
        assert_eq!(squeezed(&Layers::of("a /* b /* c */ \" */ d").code), "a d");
    }

    #[test]
    fn unfinished_text_ends_with_the_file() {
        for text in ["\"abc", "r#\"abc", "/* abc", "'\\", "b'", "\"\\"] {
            assert_eq!(squeezed(&Layers::of(text).code), "", "{text}");
        }
    }
}
