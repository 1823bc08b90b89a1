//! Type names: few single words, no bare participles, few names shared by several types
//! (`docs/style.md`). The shares may not grow beyond the ratchet's numbers.

use super::{SourceFile, TidyFinding, Workspace};
use std::collections::BTreeMap;

/// A name with at least this number of definitions counts as shared.
const SHARED: usize = 4;

/// Participles that do not end in "ed" or "ing".
const IRREGULAR: [&str; 9] = [
    "Kept", "Held", "Found", "Seen", "Taken", "Written", "Grown", "Lost", "Said",
];

/// Shares of the names of all types outside tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameShares {
    /// Names of one word, in thousandths of all names.
    pub one_word_permille: usize,
    /// Bare participles, in thousandths of all names.
    pub participle_permille: usize,
    /// Number of names with four definitions or more.
    pub shared: usize,
}

/// Checks the shares against the ratchet.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let (found, allowed) = (measure(workspace), &workspace.ratchet);
    let names = type_names(workspace);
    let mut findings = Vec::new();
    let mut report = |is_over: bool, what: String, bad: &dyn Fn(&str, usize) -> bool| {
        let example = names.iter().find(|(name, places)| bad(name, places.len()));
        if let (true, Some((_, places))) = (is_over, example) {
            let (path, line) = places[0];
            findings.push(TidyFinding::new(path, line, what));
        }
    };
    report(
        found.one_word_permille > allowed.one_word_types,
        format!(
            "{} of 1000 types have a name of one word, {} may: add a qualifier (docs/style.md)",
            found.one_word_permille, allowed.one_word_types
        ),
        &|name, _| is_one_word(name),
    );
    report(
        found.participle_permille > allowed.participle_types,
        format!(
            "{} of 1000 types are named by a participle, {} may: use a noun (docs/style.md)",
            found.participle_permille, allowed.participle_types
        ),
        &|name, _| is_participle(name),
    );
    report(
        found.shared > allowed.shared_type_names,
        format!(
            "{} names have {SHARED} types or more, {} may: give each its own name (docs/style.md)",
            found.shared, allowed.shared_type_names
        ),
        &|_, count| count >= SHARED,
    );
    findings
}

/// Measures the shares.
#[must_use]
pub fn measure(workspace: &Workspace) -> NameShares {
    let names = type_names(workspace);
    let permille = |is: &dyn Fn(&str) -> bool| {
        let count = names.keys().filter(|name| is(name)).count();
        (1000 * count).div_ceil(names.len().max(1))
    };
    NameShares {
        one_word_permille: permille(&is_one_word),
        participle_permille: permille(&is_participle),
        shared: names.values().filter(|places| places.len() >= SHARED).count(),
    }
}

/// Returns the names of structs, enums, traits and type aliases outside tests, and where they are
/// defined.
fn type_names(workspace: &Workspace) -> BTreeMap<&str, Vec<(&str, usize)>> {
    let mut names: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    let is_ours = |source: &&SourceFile| source.path.contains("/src/");
    for source in workspace.sources.iter().filter(is_ours) {
        for pair in source.tokens.windows(2) {
            let defines = ["struct", "enum", "trait", "type"].contains(&pair[0].word().unwrap_or(""));
            if let Some(name) = pair[1]
                .word()
                .filter(|_| defines && !source.is_test(pair[0].line))
            {
                names.entry(name).or_default().push((&source.path, pair[0].line));
            }
        }
    }
    names.retain(|name, _| name.starts_with(|c: char| c.is_ascii_uppercase()));
    names
}

/// Returns whether a name is one capitalised word.
fn is_one_word(name: &str) -> bool {
    name.len() > 1 && name.chars().skip(1).all(|c| c.is_ascii_lowercase())
}

/// Returns whether a name is one participle.
fn is_participle(name: &str) -> bool {
    let regular = name.len() > 3 && (name.ends_with("ed") || name.ends_with("ing"));
    IRREGULAR.contains(&name) || (is_one_word(name) && regular)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchet::Ratchet;
    use crate::tidy::workspace::lines;

    const TYPES: &str = "//! Words.\nstruct Kept;\nstruct RunWriter;\nenum Leaf {}\ntrait LeafReader {}\n\
        #[cfg(test)]\nmod tests {\n    struct Found;\n}\n";

    #[test]
    fn shares_count_types_outside_tests() {
        let workspace = Workspace::planted(&[("crates/base/src/a.rs", TYPES)]);
        let shares = measure(&workspace);
        assert_eq!(shares.one_word_permille, 500);
        assert_eq!(shares.participle_permille, 250);
        assert_eq!(shares.shared, 0);
    }

    #[test]
    fn shares_above_the_ratchet_are_found_and_others_are_not() {
        let files = ["a", "b", "c", "d"].map(|name| format!("crates/base/src/{name}.rs"));
        let planted = files.each_ref().map(|path| (path.as_str(), TYPES));
        let mut workspace = Workspace::planted(&planted);
        workspace.ratchet = Ratchet {
            one_word_types: 499,
            participle_types: 249,
            shared_type_names: 3,
            ..Ratchet::default()
        };
        let found = lines(&check(&workspace));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].contains("500 of 1000 types have a name of one word, 499 may"),
            "{found:?}"
        );
        assert!(
            found[1].contains("250 of 1000 types are named by a participle, 249 may"),
            "{found:?}"
        );
        assert!(
            found[2].contains("4 names have 4 types or more, 3 may"),
            "{found:?}"
        );
        workspace.ratchet.one_word_types = 500;
        workspace.ratchet.participle_types = 250;
        workspace.ratchet.shared_type_names = 4;
        assert_eq!(lines(&check(&workspace)), [""; 0]);
    }
}
