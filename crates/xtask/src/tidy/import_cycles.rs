//! Import cycles: in the folders listed here, modules must not import each other, directly or
//! indirectly.
//!
//! An import is a path that starts with `crate` or `super`, outside tests. A name that the folder's
//! `mod.rs` or `lib.rs` re-exports counts as an import of the module that defines it.

use super::source::{SourceToken, TokenKind};
use super::{SourceFile, TidyFinding, Workspace};
use std::collections::{BTreeMap, BTreeSet};

/// Folders whose modules must form an acyclic import graph.
const ORDERED: [&str; 4] = [
    "crates/dictionary/src",
    "crates/db/src",
    "crates/db/src/engine",
    "crates/trees/src/tiered",
];

/// Finds modules of a folder that are part of an import cycle.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let circles = ORDERED.iter().flat_map(|folder| find_cycles(workspace, folder));
    circles.collect()
}

/// Pairs of importing and imported module, with the file and line of one such import.
type ImportEdges<'w> = BTreeMap<(&'w str, &'w str), (&'w str, usize)>;

fn find_cycles(workspace: &Workspace, folder: &str) -> Vec<TidyFinding> {
    let imports = imports(workspace, folder);
    // Transitive closure of the imports.
    let mut reached: BTreeSet<(&str, &str)> = imports.keys().copied().collect();
    loop {
        let further = reached.iter().flat_map(|&(from, by)| {
            let next = reached.iter().filter(move |(first, _)| *first == by);
            next.map(move |&(_, to)| (from, to))
        });
        let more: BTreeSet<_> = further.collect();
        let before = reached.len();
        reached.extend(more);
        if reached.len() == before {
            break;
        }
    }
    let is_circle = |(from, to): &(&str, &str)| reached.contains(&(*to, *from));
    let circles = imports.iter().filter(|(import, _)| is_circle(import));
    let finding = |((from, to), (path, line)): (&(&str, &str), &(&str, usize))| {
        let text = format!("`{from}` imports `{to}`, which imports `{from}`: move what both need below them");
        TidyFinding::new(path, *line, text)
    };
    circles.map(finding).collect()
}

fn imports<'w>(workspace: &'w Workspace, folder: &str) -> ImportEdges<'w> {
    let within: Vec<(&str, &SourceFile)> = workspace
        .sources
        .iter()
        .filter_map(|source| Some((source.path.strip_prefix(folder)?.strip_prefix('/')?, source)))
        .collect();
    let is_root = |path: &str| path == "mod.rs" || path == "lib.rs";
    let module_of = |path: &'w str| {
        path.split('/')
            .next()
            .map_or("", |name| name.trim_end_matches(".rs"))
    };
    let modules: BTreeSet<&str> = within
        .iter()
        .filter(|(path, _)| !is_root(path))
        .map(|(path, _)| module_of(path))
        .collect();
    // Maps the folder's re-exported names to their modules.
    let mut passed: BTreeMap<&str, &str> = BTreeMap::new();
    for (_, root) in within.iter().filter(|(path, _)| is_root(path)) {
        for (at, _) in uses(&root.tokens) {
            let paths = paths(&root.tokens, at + 1);
            let named = paths
                .iter()
                .filter(|path| path.len() > 1 && modules.contains(path[0]));
            passed.extend(named.map(|path| (path[path.len() - 1], path[0])));
        }
    }
    let home: Vec<&str> = folder.split('/').skip(3).collect();
    let mut imports = ImportEdges::new();
    for (path, source) in within.iter().filter(|(path, _)| !is_root(path)) {
        let from = module_of(path);
        for (at, line) in starts(&source.tokens) {
            if source.is_test(line) {
                continue;
            }
            for mut named in paths(&source.tokens, at) {
                // The path starts at the crate root.
                if named[0] == "super" {
                    let ups = named.iter().take_while(|word| **word == "super").count();
                    let depth = path.split('/').count() - usize::from(path.ends_with("/mod.rs"));
                    if ups != depth {
                        continue;
                    }
                    named.drain(..ups);
                } else {
                    named.remove(0);
                    if !named.starts_with(&home) {
                        continue;
                    }
                    named.drain(..home.len());
                }
                let Some(first) = named.first() else { continue };
                let to = modules.get(first).or_else(|| passed.get(first));
                if let Some(&to) = to.filter(|&&to| to != from) {
                    imports.entry((from, to)).or_insert((&source.path, line));
                }
            }
        }
    }
    imports
}

/// Returns the index and the line of each `use` token.
fn uses(tokens: &[SourceToken]) -> impl Iterator<Item = (usize, usize)> {
    let all = tokens.iter().enumerate();
    all.filter(|(_, token)| token.word() == Some("use"))
        .map(|(at, token)| (at, token.line))
}

/// Returns the positions where paths into this crate begin.
fn starts(tokens: &[SourceToken]) -> impl Iterator<Item = (usize, usize)> {
    let is_start = |at: usize| {
        let is_inside = at >= 1 && tokens[at - 1].is(':');
        matches!(tokens[at].word(), Some("crate" | "super")) && !is_inside
    };
    (0..tokens.len())
        .filter(move |&at| is_start(at))
        .map(|at| (at, tokens[at].line))
}

/// Returns the paths that begin at a token. Groups in braces are expanded.
fn paths(tokens: &[SourceToken], start: usize) -> Vec<Vec<&str>> {
    let mut at = start;
    tree(tokens, &mut at)
}

fn tree<'t>(tokens: &'t [SourceToken], at: &mut usize) -> Vec<Vec<&'t str>> {
    let mut path: Vec<&str> = Vec::new();
    while let Some(token) = tokens.get(*at) {
        match &token.kind {
            TokenKind::Word(word) if word != "as" => path.push(word),
            TokenKind::Mark('{') => {
                let mut all = Vec::new();
                *at += 1;
                while tokens.get(*at).is_some_and(|token| !token.is('}')) {
                    let inner = tree(tokens, at);
                    all.extend(inner.into_iter().map(|inner| [&path[..], &inner[..]].concat()));
                    if tokens.get(*at).is_some_and(|token| !token.is('}')) {
                        *at += 1;
                    }
                }
                *at += 1;
                return all;
            }
            _ => break,
        }
        *at += 1;
        let is_followed = |ahead: usize| tokens.get(*at + ahead).is_some_and(|token| token.is(':'));
        if !(is_followed(0) && is_followed(1)) {
            break;
        }
        *at += 2;
    }
    // Skip renames and everything else that is not a path, up to the group's next element.
    while tokens
        .get(*at)
        .is_some_and(|token| matches!(token.kind, TokenKind::Word(_)))
    {
        *at += 1;
    }
    vec![path]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("crates/db/src/engine/{path}"), *text))
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        lines(&check(&Workspace::planted(&files)))
    }

    #[test]
    fn modules_that_import_each_other_are_found() {
        let both = [
            ("a.rs", "use super::b::B;"),
            ("b.rs", "fn f() { super::a::f(); }"),
        ];
        assert_eq!(found(&both).len(), 2);
        let by_a_third = [
            ("a.rs", "use super::{c, b::{B, C as D}};"),
            ("b/mod.rs", "use crate::engine::c::x;"),
            ("c.rs", "use crate::engine::{d, a};"),
        ];
        assert_eq!(found(&by_a_third).len(), 4);
        let passed_on = [
            ("mod.rs", "mod a; mod b; pub use a::{A, Other};"),
            ("a.rs", "use super::b::B;"),
            ("b/mod.rs", "mod inner;"),
            ("b/inner.rs", "use super::super::A;"),
        ];
        assert_eq!(found(&passed_on).len(), 2);
    }

    #[test]
    fn an_order_of_modules_is_in_order() {
        let files = [
            ("mod.rs", "mod a; mod b; use a::A;"),
            ("a.rs", "use super::b::{self, B}; use crate::a::b;"),
            (
                "b/mod.rs",
                "use self::inner::I; #[cfg(test)] mod tests { use crate::engine::a::A; }",
            ),
            ("b/inner.rs", "use super::a;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
