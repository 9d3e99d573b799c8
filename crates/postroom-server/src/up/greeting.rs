//! The first lines of `postroom up`: what it does, and how to try it.

/// Prints the database, what the node does, and commands to paste into another terminal.
pub(crate) fn greet(database: &str, option: &str, doing: &str, parts: &[String]) {
    let (program, shown) = (program(), quoted(database));
    eprintln!("postroom {} runs on {shown}: it {doing}", env!("CARGO_PKG_VERSION"));
    for part in parts {
        eprintln!("{part}");
    }
    eprintln!("Try it in another terminal:");
    eprintln!("  {program} send order.placed '{{\"order\":7}}' {option}");
    eprintln!("  {program} stats {option}");
    eprintln!("  {program} failed {option}");
    eprintln!("Press Ctrl-C to stop.");
}

/// `a`, `a and b`, `a, b and c`; `no service` for an empty list.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    match names.as_slice() {
        [] => "no service".into(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// How to call this program from any folder: by its name if PATH finds it, otherwise by its path.
fn program() -> String {
    let Ok(this) = std::env::current_exe() else { return "postroom".into() };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&folders).map(|folder| folder.join("postroom")).find(|path| path.is_file());
    match first.and_then(|path| path.canonicalize().ok()) {
        Some(found) if found == this => "postroom".into(),
        _ => quoted(&this.to_string_lossy()),
    }
}

/// The text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_in_a_row() {
        assert_eq!(listed([]), "no service");
        assert_eq!(listed(["a"]), "a");
        assert_eq!(listed(["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn a_path_stays_one_word() {
        assert_eq!(quoted("/a/b-1.db"), "/a/b-1.db");
        assert_eq!(quoted("/my files/it's.db"), r"'/my files/it'\''s.db'");
    }
}
