//! Builds HTML. The templates are constants; every value is escaped here, and only here.

use std::fmt::{self, Display, Write};

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

/// A piece of HTML.
#[derive(Default, Debug)]
pub(super) struct Html(String);

impl Html {
    /// Adds a constant template; each `{}` stands for a value, which is escaped.
    pub(super) fn add(&mut self, text: &'static str, values: &[&dyn Display]) -> &mut Self {
        debug_assert_eq!(text.matches("{}").count(), values.len(), "a place for each value: {text}");
        let mut values = values.iter();
        for (index, part) in text.split("{}").enumerate() {
            if let Some(value) = (index > 0).then(|| values.next()).flatten() {
                // Writing to a String cannot fail.
                let _ = write!(Escaping(&mut self.0), "{value}");
            }
            self.0.push_str(part);
        }
        self
    }

    /// Adds another piece.
    pub(super) fn append(&mut self, other: &Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }
}

impl IntoResponse for Html {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "text/html; charset=utf-8")], self.0).into_response()
    }
}

/// Writes text that is safe between tags and in quoted attributes.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for sign in text.chars() {
            match sign {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // HTML allows no other control characters, and a terminal would obey them.
                sign if sign.is_control() && !matches!(sign, '\n' | '\t') => self.0.push('\u{fffd}'),
                sign => self.0.push(sign),
            }
        }
        Ok(())
    }
}

/// A value in the query of a link.
pub(super) struct Part<'a>(pub(super) &'a str);

impl Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            match byte {
                byte if byte.is_ascii_alphanumeric() => f.write_char(char::from(byte))?,
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_escaped() {
        let mut html = Html::default();
        html.add("<a title=\"{}\">{}</a>", &[&"\" onclick='x'", &"<script>alert(1)</script>&\u{1b}[2J"]);
        assert_eq!(
            html.0,
            "<a title=\"&quot; onclick=&#39;x&#39;\">&lt;script&gt;alert(1)&lt;/script&gt;&amp;\u{fffd}[2J</a>"
        );
    }

    #[test]
    fn a_value_with_braces_takes_nobody_elses_place() {
        let mut html = Html::default();
        html.add("{} {}", &[&"{}", &"b"]);
        assert_eq!(html.0, "{} b");
    }

    #[test]
    fn a_link_keeps_what_was_looked_for() {
        assert_eq!(Part("a&b=ü #1").to_string(), "a%26b%3D%C3%BC%20%231");
    }
}
