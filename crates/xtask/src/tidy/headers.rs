//! Module headers: one sentence, *Scope*, *Must not depend on*, numbered invariants. An invariant's
//! number is unique within its crate, so that references to it are unambiguous.

use super::{SourceFile, TidyFinding, Workspace, crates};
use std::collections::BTreeMap;

/// Parts that every header must have.
const PARTS: [&str; 2] = ["*Scope*", "*Must not depend on*"];

/// Checks the header of every library and of every folder module.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let mut findings = find_duplicate_invariants(workspace);
    for source in &workspace.sources {
        let in_product = !crates::is_workshop(Workspace::crate_of(&source.path));
        let missing: Vec<&str> = match source.file_name() {
            "lib.rs" if source.path.ends_with("src/lib.rs") => missing(source, InvariantsRequirement::Wanted),
            "mod.rs" if in_product && !source.is_test(1) => missing(source, InvariantsRequirement::AsNeeded),
            _ => Vec::new(),
        };
        if !missing.is_empty() {
            let text = format!(
                "the header has no {}: a reader of the module reads that first",
                missing.join(", ")
            );
            findings.push(TidyFinding::new(&source.path, 1, text));
        }
    }
    findings
}

/// Whether a header must state invariants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InvariantsRequirement {
    Wanted,
    AsNeeded,
}

/// Returns the parts that are missing from a header.
fn missing(source: &SourceFile, invariants: InvariantsRequirement) -> Vec<&'static str> {
    let header = || {
        source
            .comments
            .iter()
            .filter_map(|comment| comment.text.strip_prefix('!'))
    };
    let mut missing = PARTS.to_vec();
    missing.retain(|part| !header().any(|line| line.contains(part)));
    if invariants == InvariantsRequirement::Wanted && !header().any(|line| invariant(line).is_some()) {
        missing.push("numbered invariants (`- **S1** …`)");
    }
    missing
}

/// Returns the paragraph of a header that starts with a word, and its first line number.
pub(super) fn paragraph(source: &SourceFile, word: &str) -> Option<(usize, String)> {
    let header = source.comments.iter();
    let mut header = header.filter_map(|comment| Some((comment.line, comment.text.strip_prefix('!')?)));
    let (line, first) = header.find(|(_, text)| text.trim().starts_with(word))?;
    let mut paragraph = first.trim().trim_start_matches(word).to_owned();
    for (_, text) in header.take_while(|(_, text)| !text.trim().is_empty()) {
        paragraph.push(' ');
        paragraph.push_str(text.trim());
    }
    Some((line, paragraph))
}

/// Finds invariants of the same crate that share a number.
fn find_duplicate_invariants(workspace: &Workspace) -> Vec<TidyFinding> {
    let mut stated: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for source in workspace.sources.iter().filter(|source| !source.is_test(1)) {
        let name_of_crate = Workspace::crate_of(&source.path);
        for comment in &source.comments {
            let Some(name) = comment.text.strip_prefix('!').and_then(invariant) else {
                continue;
            };
            if let Some(first) = stated.insert((name_of_crate, name), &source.path) {
                let text =
                    format!("{first} states an invariant {name} too: give one of the two another letter");
                findings.push(TidyFinding::new(&source.path, comment.line, text));
            }
        }
    }
    findings
}

/// Returns the number of the invariant on a header line, such as `S1` for `- **S1** …`.
fn invariant(line: &str) -> Option<&str> {
    let (name, _) = line.trim().strip_prefix("- **")?.split_once("**")?;
    let digits = name.trim_start_matches(|c: char| c.is_ascii_uppercase());
    let numbered =
        digits.len() < name.len() && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    numbered.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    const HEADER: &str = "//! Words.\n//!\n//! *Scope*: a.\n//!\n//! *Must not depend on*: b.\n";

    #[test]
    fn a_full_header_is_in_order_and_an_empty_one_is_not() {
        let full = format!("{HEADER}//!\n//! - **B1** Words.\n");
        let found = |path: &str, text: &str| lines(&check(&Workspace::planted(&[(path, text)])));
        assert_eq!(found("crates/base/src/lib.rs", &full), [""; 0]);
        assert_eq!(found("crates/xtask/src/main.rs", "fn main() {}"), [""; 0]);
        assert_eq!(found("crates/storage/src/log/mod.rs", HEADER), [""; 0]);
        let bare = found("crates/base/src/lib.rs", "//! *Scope*: a. **B1**");
        assert!(bare[0].contains("has no *Must not depend on*, numbered invariants"));
        assert!(found("crates/base/src/lib.rs", HEADER)[0].contains("has no numbered invariants"));
    }

    #[test]
    fn two_invariants_of_one_crate_do_not_share_a_number() {
        let planted = [
            ("crates/storage/src/log/a.rs", "//! - **E1** Words."),
            ("crates/storage/src/log/b.rs", "//!\n//! - **E1** Other words."),
            ("crates/device/src/b.rs", "//! - **E1** Another crate."),
        ];
        let found = lines(&check(&Workspace::planted(&planted)));
        assert_eq!(
            found,
            [
                "crates/storage/src/log/b.rs:2: crates/storage/src/log/a.rs states an invariant E1 too: give one of the two \
              another letter"
            ]
        );
    }
}
