//! Dead files: every Rust file is reachable from a target of its package through `mod`
//! declarations, and no `mod` declaration is commented out.

use super::source::TokenKind;
use super::{SourceFile, TidyFinding, Workspace};
use std::collections::{BTreeMap, BTreeSet};

/// Finds unreachable Rust files and commented-out `mod` declarations.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let sources: BTreeMap<&str, &SourceFile> = workspace
        .sources
        .iter()
        .map(|source| (source.path.as_str(), source))
        .collect();
    let mut reached = BTreeSet::new();
    for package in &workspace.packages {
        for root in &package.roots {
            reach(&sources, root, &folder_of(root), &mut reached);
        }
    }
    let mut findings = Vec::new();
    for source in &workspace.sources {
        if !reached.contains(&source.path) {
            let text = "no target of its package reaches this file: declare it with `mod`, or delete it";
            findings.push(TidyFinding::new(&source.path, 1, text));
        }
        for comment in &source.comments {
            if is_commented_out(&comment.text) {
                let text = "a commented-out module: declare it or delete the line";
                findings.push(TidyFinding::new(&source.path, comment.line, text));
            }
        }
    }
    findings
}

fn folder_of(path: &str) -> String {
    path.rsplit_once('/')
        .map_or_else(String::new, |(folder, _)| folder.to_owned())
}

/// Marks a file and, recursively, the files of its modules, which are looked up in `folder`.
fn reach(sources: &BTreeMap<&str, &SourceFile>, path: &str, folder: &str, reached: &mut BTreeSet<String>) {
    let Some(source) = sources.get(path) else { return };
    if !reached.insert(path.to_owned()) {
        return;
    }
    for child in children(source, folder) {
        for candidate in child.candidates {
            let stem = candidate.strip_suffix(".rs").unwrap_or(&candidate);
            let below = match stem.strip_suffix("/mod") {
                Some(folder) => folder.to_owned(),
                None if child.plain => stem.to_owned(),
                None => folder_of(&candidate),
            };
            reach(sources, &candidate, &below, reached);
        }
    }
}

/// A file that another file refers to: the candidate paths, and whether a plain `mod name;` refers
/// to it.
struct ModuleFile {
    candidates: Vec<String>,
    plain: bool,
}

/// Returns the files that `mod name;`, `#[path = "…"] mod name;` and `include!("…")` refer to.
fn children(source: &SourceFile, folder: &str) -> Vec<ModuleFile> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    // Name and brace depth of the enclosing inline modules.
    let mut inline: Vec<(String, usize)> = Vec::new();
    let mut depth = 0;
    let mut named: Option<&str> = None; // by a `#[path = "…"]` that waits for its `mod`
    let named_file = |text: &str| ModuleFile {
        candidates: vec![normal(&format!("{}/{text}", folder_of(&source.path)))],
        plain: false,
    };
    for (at, token) in tokens.iter().enumerate() {
        match &token.kind {
            TokenKind::Mark('{') => depth += 1,
            TokenKind::Mark('}') => {
                depth -= 1;
                inline.retain(|(_, opened)| *opened <= depth);
            }
            TokenKind::Text(text)
                if at >= 2 && tokens[at - 1].is('=') && tokens[at - 2].word() == Some("path") =>
            {
                named = Some(text);
            }
            TokenKind::Text(text)
                if at >= 3 && tokens[at - 3].word() == Some("include") && tokens[at - 2].is('!') =>
            {
                found.push(named_file(text));
            }
            TokenKind::Word(word) if word == "mod" => {
                let (Some(name), Some(next)) = (
                    tokens.get(at + 1).and_then(|token| token.word()),
                    tokens.get(at + 2),
                ) else {
                    continue;
                };
                if next.is('{') {
                    inline.push((name.to_owned(), depth + 1));
                } else if let Some(text) = named.take() {
                    found.push(named_file(text));
                } else {
                    let around: String = inline.iter().map(|(name, _)| format!("{name}/")).collect();
                    let stem = format!("{folder}/{around}{name}");
                    let candidates = vec![format!("{stem}.rs"), format!("{stem}/mod.rs")];
                    found.push(ModuleFile {
                        candidates,
                        plain: true,
                    });
                }
            }
            _ => {}
        }
    }
    found
}

/// Normalises a path: removes `.` and resolves `..`.
fn normal(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn is_commented_out(comment: &str) -> bool {
    let code = comment.trim();
    let code = code
        .strip_prefix("pub ")
        .or_else(|| code.strip_prefix("pub(crate) "))
        .unwrap_or(code);
    let name = code.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
    name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c == '_' || c.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    #[test]
    fn files_are_reached_through_every_kind_of_module() {
        let workspace = Workspace::planted(&[
            (
                "crates/base/src/lib.rs",
                "mod a; mod b { mod c; } mod d; #[path = \"odd.rs\"] mod e; include!(\"f.rs\");",
            ),
            ("crates/base/src/a.rs", "#[cfg(test)] mod tests;"),
            ("crates/base/src/a/tests.rs", ""),
            ("crates/base/src/b/c.rs", ""),
            ("crates/base/src/d/mod.rs", "pub(crate) mod inner;"),
            ("crates/base/src/d/inner.rs", ""),
            ("crates/base/src/odd.rs", ""),
            ("crates/base/src/f.rs", ""),
            ("crates/base/tests/it/main.rs", "mod one;"),
            ("crates/base/tests/it/one.rs", ""),
        ]);
        assert_eq!(
            lines(&check(&workspace.with_package(
                "crates/base",
                "alluvium-base",
                &[]
            ))),
            [""; 0]
        );
    }

    #[test]
    fn a_file_that_nothing_declares_is_found() {
        let workspace = Workspace::planted(&[
            (
                "crates/base/src/lib.rs",
                "mod a; // mod b;\n// the words \"mod d;\" in a sentence do no harm",
            ),
            ("crates/base/src/a.rs", "mod c { }"),
            ("crates/base/src/b.rs", ""),
            ("crates/base/src/a/c.rs", ""),
        ]);
        let found = check(&workspace.with_package("crates/base", "alluvium-base", &[]));
        let found: Vec<_> = found
            .iter()
            .map(|finding| (finding.path.as_str(), finding.line))
            .collect();
        assert_eq!(
            found,
            [
                ("crates/base/src/lib.rs", 1),
                ("crates/base/src/b.rs", 1),
                ("crates/base/src/a/c.rs", 1)
            ]
        );
    }
}
