//! Documents: every link target and every mentioned path exists, every page of `docs/` is linked
//! from another document, and the architecture page names every crate.

use super::workspace::MarkdownDocument;
use super::{TidyFinding, Workspace};
use std::collections::BTreeSet;

/// The page that must name every crate.
const MAP: &str = "docs/architecture.md";

/// Checks links, paths and the architecture page.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut linked = BTreeSet::new();
    for document in &workspace.documents {
        for (index, line) in document.text.lines().enumerate() {
            for target in links(line) {
                let path = resolve(&document.path, target);
                if !exists(workspace, &path) {
                    let text = format!("the link to {target} leads nowhere: correct it or remove it");
                    findings.push(TidyFinding::new(&document.path, index + 1, text));
                }
                if path != document.path {
                    linked.insert(path);
                }
            }
            for path in paths(line).filter(|path| !exists(workspace, path)) {
                let text = format!("there is no {path}: correct the path or remove it");
                findings.push(TidyFinding::new(&document.path, index + 1, text));
            }
        }
    }
    let lost =
        |document: &&MarkdownDocument| document.path.starts_with("docs/") && !linked.contains(&document.path);
    for document in workspace.documents.iter().filter(lost) {
        let text = "no other document links to this page: link it where its reader comes from, or delete it";
        findings.push(TidyFinding::new(&document.path, 1, text));
    }
    if let Some(map) = workspace.documents.iter().find(|document| document.path == MAP) {
        for package in workspace.packages.iter().filter(|package| {
            // `research/` has a map of its own, to which this page links.
            !package.folder.starts_with("research/") && !map.text.contains(&package.folder)
        }) {
            let text = format!(
                "the map does not name {}: add the crate and its one sentence",
                package.folder
            );
            findings.push(TidyFinding::new(MAP, 1, text));
        }
    }
    findings
}

fn exists(workspace: &Workspace, path: &str) -> bool {
    let folder = format!("{}/", path.trim_end_matches('/'));
    workspace.files.contains(path)
        || workspace
            .files
            .range(folder.clone()..)
            .next()
            .is_some_and(|file| file.starts_with(&folder))
}

/// Returns the file links of a line, without their `#` fragments.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .map(|target| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty())
}

/// Returns the workspace paths that a line mentions outside links.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let word = |c: char| c.is_alphanumeric() || "/._-*<>{}".contains(c);
    line.split(move |c| !word(c))
        .map(|path| path.trim_end_matches('.'))
        .filter(|path| {
            ["crates/", "docs/", "fuzz/", "research/", ".ci/"]
                .iter()
                .any(|start| path.starts_with(start))
        })
        .filter(|path| !path.contains(['*', '<', '{', '}']))
        .filter(|path| {
            !["fuzz/corpus", "fuzz/artifacts", "fuzz/target"]
                .iter()
                .any(|built| path.starts_with(built))
        })
}

/// Resolves a link target to a path in the workspace.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    #[test]
    fn linked_pages_and_paths_that_exist_are_in_order() {
        let workspace = Workspace::planted(&[
            (
                "README.md",
                "[map](docs/architecture.md#crates) [out](https://example.org/x) `crates/base/src`, crates/*/src.",
            ),
            (
                "docs/architecture.md",
                "[back](../README.md) crates/base: words. See `crates/base/src/lib.rs`.",
            ),
            ("crates/base/src/lib.rs", ""),
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
    fn lost_pages_broken_links_wrong_paths_and_missing_crates_are_found() {
        let workspace = Workspace::planted(&[
            ("README.md", "\n[map](docs/map.md) and `crates/base/src/gone.rs`"),
            ("docs/architecture.md", "[self](architecture.md)"),
            ("crates/base/src/lib.rs", ""),
        ]);
        let found = lines(&check(&workspace.with_package(
            "crates/base",
            "alluvium-base",
            &[],
        )));
        assert_eq!(found.len(), 5, "{found:#?}");
        assert!(found[0].starts_with("README.md:2: the link to docs/map.md leads nowhere"));
        assert!(found[1].starts_with("README.md:2: there is no docs/map.md"));
        assert!(found[2].starts_with("README.md:2: there is no crates/base/src/gone.rs"));
        assert!(found[3].starts_with("docs/architecture.md:1: no other document links to this page"));
        assert!(found[4].contains("does not name crates/base"));
    }
}
