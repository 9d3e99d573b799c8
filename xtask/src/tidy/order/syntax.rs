//! Finds what a file declares, imports and names, module by module.

use super::tokens::{Token, behind_brackets, behind_item, is_test_attribute, text_at};

/// A module: a file, or a `mod name { … }` in one.
#[derive(Debug, Default)]
pub(in crate::tidy) struct Module {
    pub(in crate::tidy) path: Vec<String>,
    pub(in crate::tidy) children: Vec<Named>,
    pub(in crate::tidy) items: Vec<Named>,
    pub(in crate::tidy) uses: Vec<Use>,
    /// Macros that `#[macro_export]` puts at the root of the crate.
    pub(in crate::tidy) exported_macros: Vec<Named>,
    /// Files that only tests see.
    pub(super) test_children: Vec<String>,
    pub(super) paths: Vec<Path>,
    /// Whether it contains anything other than `mod` and `use`.
    pub(super) has_code: bool,
}

/// The visibility of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tidy) enum Shown {
    Nobody,
    /// `pub(crate)` and the like.
    Crate,
    Everybody,
    /// `pub` under `#[doc(hidden)]`.
    Hidden,
}

#[derive(Debug)]
pub(in crate::tidy) struct Named {
    pub(in crate::tidy) name: String,
    pub(in crate::tidy) shown: Shown,
}

#[derive(Debug)]
pub(super) struct Path {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

/// One leaf of a `use` tree.
#[derive(Debug)]
pub(in crate::tidy) struct Use {
    pub(in crate::tidy) segments: Vec<String>,
    pub(in crate::tidy) as_what: Bound,
    pub(in crate::tidy) shown: Shown,
    pub(super) line: usize,
    /// Whether it is in a function.
    pub(super) is_local: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::tidy) enum Bound {
    Name(String),
    Nothing,
    Everything,
}

/// Returns the module at `path` and those inside it.
pub(super) fn modules(tokens: &[Token<'_>], path: Vec<String>) -> Vec<Module> {
    let mut found = Vec::new();
    let module = Parser { tokens, at: 0, end: tokens.len(), found: &mut found }.module(path);
    found.insert(0, module);
    found
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    end: usize,
    found: &'a mut Vec<Module>,
}

/// The attributes and visibility in front of an item.
struct Head {
    is_test: bool,
    is_exported_macro: bool,
    shown: Shown,
}

impl Parser<'_> {
    fn module(mut self, path: Vec<String>) -> Module {
        let mut module = Module { path, ..Module::default() };
        while self.at < self.end {
            let start = self.at;
            let head = self.head();
            // Attributes of the file have no item.
            if self.at < self.end {
                self.item(&head, start, &mut module);
            }
            self.at = self.at.max(start + 1);
        }
        module
    }

    fn text(&self, ahead: usize) -> &str {
        text_at(self.tokens, self.at + ahead)
    }

    fn head(&mut self) -> Head {
        let (mut is_test, mut is_exported_macro, mut is_hidden) = (false, false, false);
        while self.text(0) == "#" {
            let open = self.at + if self.text(1) == "!" { 2 } else { 1 };
            let end = behind_brackets(self.tokens, open);
            let words: Vec<_> = self.tokens[open..end].iter().map(|token| token.text).collect();
            is_test |= is_test_attribute(self.tokens, self.at, end);
            is_exported_macro |= words.contains(&"macro_export");
            is_hidden |= words.concat().contains("doc(hidden)");
            self.at = end;
        }
        let mut shown = Shown::Nobody;
        if self.text(0) == "pub" {
            self.at += 1;
            shown = if is_hidden { Shown::Hidden } else { Shown::Everybody };
            if self.text(0) == "(" {
                shown = Shown::Crate;
                self.at = behind_brackets(self.tokens, self.at);
            }
        } else if is_exported_macro {
            shown = if is_hidden { Shown::Hidden } else { Shown::Everybody };
        }
        Head { is_test, is_exported_macro, shown }
    }

    fn item(&mut self, head: &Head, start: usize, module: &mut Module) {
        let end = behind_item(self.tokens, self.at);
        match self.text(0) {
            "mod" => {
                let name = self.text(1).to_owned();
                if head.is_test {
                    module.test_children.push(name);
                } else {
                    self.inline_module(&name, end, module);
                    module.children.push(Named { name, shown: head.shown });
                }
            }
            _ if head.is_test => {}
            "use" => module.uses.extend(use_tree(self.tokens, self.at + 1, head.shown, false)),
            "extern" if self.text(1) == "crate" => {
                let name = if self.text(3) == "as" { self.text(4) } else { self.text(2) };
                module.items.push(Named { name: name.to_owned(), shown: head.shown });
            }
            _ => {
                module.has_code = true;
                let named = self.declared().map(|name| Named { name: name.to_owned(), shown: head.shown });
                let list = if head.is_exported_macro { &mut module.exported_macros } else { &mut module.items };
                list.extend(named);
                scan(self.tokens, start, end, module);
            }
        }
        self.at = end;
    }

    fn inline_module(&mut self, name: &str, end: usize, outer: &Module) {
        if self.text(2) != "{" {
            return;
        }
        let path = outer.path.iter().cloned().chain([name.to_owned()]).collect();
        let inner = Parser { tokens: self.tokens, at: self.at + 3, end: end - 1, found: &mut *self.found };
        let module = inner.module(path);
        self.found.push(module);
    }

    /// Returns the name of the item here; an `impl` has none.
    fn declared(&self) -> Option<&str> {
        if self.text(0) == "macro_rules" {
            return Some(self.text(2));
        }
        let modifiers = ["const", "async", "unsafe", "extern"];
        let may_follow = |text: &str| modifiers.contains(&text) || ["fn", "trait"].contains(&text);
        let is_modifier = |ahead: &usize| modifiers.contains(&self.text(*ahead)) && may_follow(self.text(ahead + 1));
        let ahead = (0..4).find(|ahead| !is_modifier(ahead))?;
        let keywords = ["struct", "enum", "trait", "fn", "type", "const", "union", "static"];
        let is_mutable = self.text(ahead + 1) == "mut";
        keywords.contains(&self.text(ahead)).then(|| self.text(ahead + if is_mutable { 2 } else { 1 }))
    }
}

/// Collects the paths and the `use` lines inside an item.
fn scan(tokens: &[Token<'_>], start: usize, end: usize, module: &mut Module) {
    let mut at = start;
    while at < end {
        match tokens[at].text {
            "#" if text_at(tokens, at + 1) == "[" => {
                let behind = behind_brackets(tokens, at + 1);
                at = if is_test_attribute(tokens, at, behind) { behind_item(tokens, behind) } else { at + 1 };
            }
            // `impl Trait + use<'a>` is not an import.
            "use" if text_at(tokens, at + 1) != "<" => {
                module.uses.extend(use_tree(tokens, at + 1, Shown::Nobody, true));
                at = behind_item(tokens, at);
            }
            _ => at = path(tokens, at, module),
        }
    }
}

/// Records the path at `at`, if there is one, and returns where to continue.
fn path(tokens: &[Token<'_>], at: usize, module: &mut Module) -> usize {
    let before = |steps: usize| at.checked_sub(steps).map_or("", |at| tokens[at].text);
    let is_part = before(1) == "::" || before(1) == "$" && tokens[at].text != "crate";
    let is_visibility = before(1) == "in" && before(2) == "(" && before(3) == "pub";
    let mut segments = vec![tokens[at].text.to_owned()];
    let mut next = at + 1;
    while text_at(tokens, next) == "::" && tokens.get(next + 1).is_some_and(Token::is_word) {
        segments.push(tokens[next + 1].text.to_owned());
        next += 2;
    }
    if tokens[at].is_word() && segments.len() > 1 && !is_part && !is_visibility {
        module.paths.push(Path { segments, line: tokens[at].line });
    }
    next
}

fn use_tree(tokens: &[Token<'_>], at: usize, shown: Shown, is_local: bool) -> Vec<Use> {
    let mut leaves = Vec::new();
    // `::name` always refers to another crate.
    if text_at(tokens, at) != "::" {
        branch(tokens, at, &[], &mut |segments, as_what, line| {
            leaves.push(Use { segments, as_what, shown, line, is_local });
        });
    }
    leaves
}

/// Calls `leaf` for each path of the tree at `at`, and returns where it ends.
fn branch(
    tokens: &[Token<'_>],
    mut at: usize,
    prefix: &[String],
    leaf: &mut impl FnMut(Vec<String>, Bound, usize),
) -> usize {
    let mut segments = prefix.to_vec();
    let mut bound = None;
    let line = tokens.get(at).map_or(1, |token| token.line);
    while let Some(token) = tokens.get(at) {
        match token.text {
            "," | "}" | ";" => break,
            "{" => {
                at += 1;
                while at < tokens.len() && !["}", ";"].contains(&tokens[at].text) {
                    at = branch(tokens, at, &segments, leaf);
                    at += usize::from(text_at(tokens, at) == ",");
                }
                return at + 1;
            }
            "*" => bound = Some(Bound::Everything),
            "as" => {
                at += 1;
                let name = text_at(tokens, at);
                bound = Some(if name == "_" { Bound::Nothing } else { Bound::Name(name.to_owned()) });
            }
            // `a::{self}` is `a`.
            "self" if !segments.is_empty() => {}
            name if token.is_word() => segments.push(name.to_owned()),
            _ => {}
        }
        at += 1;
    }
    if let Some(last) = segments.last().cloned() {
        leaf(segments, bound.unwrap_or(Bound::Name(last)), line);
    }
    at
}

#[cfg(test)]
mod tests;
