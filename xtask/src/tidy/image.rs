//! Rule: the image encrypts by default. Whoever runs it may allow unencrypted connections; the image must not.

use super::{
    Violation,
    source::{Source, numbered},
};

pub(super) fn unencrypted_image(source: &Source) -> Vec<Violation> {
    if source.path != "Dockerfile" {
        return Vec::new();
    }
    let advice = "leave the decision to whoever runs the image";
    let allowing = numbered(&source.text).filter(|(_, line)| line.contains("UNENCRYPTED"));
    allowing.map(|(line, _)| Violation::new(source, line, "unencrypted-image", advice)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_allows_unencrypted_connections_is_refused() {
        let text = "FROM debian\nENV POSTROOM_RECEIVER_ALLOW_UNENCRYPTED=true\nCMD [\"up\"]\n";
        let found =
            |path| unencrypted_image(&Source::new(path, text)).iter().map(|found| found.line).collect::<Vec<_>>();
        assert_eq!(found("Dockerfile"), [2]);
        assert!(found("compose.yaml").is_empty(), "whoever runs it decides");
    }
}
