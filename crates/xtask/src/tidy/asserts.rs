//! Rule 11: in the crates that keep what is on disk, functions assert their invariants. Counted: `assert!`, its
//! relatives and their debug forms, constant ones too, against functions with a body; tests count for neither.

use super::{Finding, Source, Workspace};
use std::collections::BTreeSet;

/// The crates that are held to it.
pub const CRATES: [&str; 3] = ["storage", "dictionary", "trees"];

/// So many functions may come to a hundred asserts: three asserts in ten functions.
pub const AIM: usize = 333;

/// What counts as an assert.
const ASSERTS: [&str; 6] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
];

/// Checks that no crate has more functions to its asserts than the aim, or than it had.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let allowed = [
        workspace.ratchet.storage_functions_per_100_asserts,
        workspace.ratchet.dictionary_functions_per_100_asserts,
        workspace.ratchet.trees_functions_per_100_asserts,
    ];
    let mut findings = Vec::new();
    for (name, allowed) in CRATES.into_iter().zip(allowed) {
        let (found, most) = (measure(workspace, name), allowed.max(AIM));
        if found > most {
            let (functions, asserts) = count(workspace, name);
            let text = format!(
                "{functions} functions have {asserts} asserts; {} are wanted: assert invariants where state \
                 changes, and cite their numbers",
                (functions * 100).div_ceil(most)
            );
            findings.push(Finding::new(&format!("crates/{name}/src/lib.rs"), 1, text));
        }
    }
    findings
}

/// How many functions there are to a hundred asserts of a crate.
#[must_use]
pub fn measure(workspace: &Workspace, name: &str) -> usize {
    let (functions, asserts) = count(workspace, name);
    (functions * 100).div_ceil(asserts.max(1))
}

/// Functions and asserts of a crate.
fn count(workspace: &Workspace, name: &str) -> (usize, usize) {
    let folder = format!("crates/{name}/src/");
    let tests = test_files(workspace);
    let sources = workspace
        .sources
        .iter()
        .filter(|source| source.path.starts_with(&folder) && !tests.contains(&source.path));
    sources.fold((0, 0), |(functions, asserts), source| {
        let (more_functions, more_asserts) = of_file(source);
        (functions + more_functions, asserts + more_asserts)
    })
}

/// The files of modules that are declared for tests alone: `#[cfg(all(test, …))] mod model;`.
fn test_files(workspace: &Workspace) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for source in &workspace.sources {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for declared in source.tokens.windows(3) {
            let is_declaration = declared[0].word() == Some("mod") && declared[2].is(';');
            if let Some(name) = declared[1]
                .word()
                .filter(|_| is_declaration && source.is_test(declared[0].line))
            {
                files.insert(format!("{folder}/{name}.rs"));
            }
        }
    }
    files
}

/// Functions and asserts of a file.
fn of_file(source: &Source) -> (usize, usize) {
    let functions = source.functions();
    let functions = functions
        .iter()
        .filter(|(_, line, _)| !source.is_test(*line))
        .count();
    let asserts = source.tokens.windows(2).filter(|pair| {
        let is_assert = pair[0].word().is_some_and(|word| ASSERTS.contains(&word));
        is_assert && pair[1].is('!') && !source.is_test(pair[0].line)
    });
    (functions, asserts.count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchet::Ratchet;
    use crate::tidy::workspace::lines;

    const FILE: &str = "// assert!(not code)\nfn a() { assert!(true); debug_assert_eq!(1, 1, \"assert!\") }\n\
        fn b() {}\n#[cfg(test)]\nmod tests { fn t() { assert!(true); } }\nconst _: () = assert!(true);";

    #[test]
    fn asserts_outside_of_tests_are_counted_by_crate() {
        let planted = [
            ("crates/trees/src/a.rs", FILE),
            ("crates/trees/src/tests.rs", FILE),
            ("crates/trees/tests/it/a.rs", FILE),
            ("crates/trees/src/mod.rs", "#[cfg(all(test, loom))]\nmod model;"),
            ("crates/trees/src/model.rs", FILE),
            ("crates/device/src/a.rs", FILE),
        ];
        let workspace = Workspace::planted(&planted);
        assert_eq!(count(&workspace, "trees"), (2, 3));
        assert_eq!(measure(&workspace, "trees"), 67);
        assert_eq!(lines(&check(&workspace)), [""; 0]);
    }

    #[test]
    fn fewer_asserts_than_the_aim_and_than_there_were_are_found() {
        let bare = "fn a() {}\n".repeat(20) + "fn b() { assert!(true); assert!(true); }";
        let found = |allowed: usize| {
            let mut workspace = Workspace::planted(&[("crates/storage/src/lib.rs", &bare)]);
            workspace.ratchet = Ratchet {
                storage_functions_per_100_asserts: allowed,
                ..Ratchet::default()
            };
            lines(&check(&workspace))
        };
        assert_eq!(found(1050), [""; 0], "as it was");
        assert!(
            found(1049)[0].contains("21 functions have 2 asserts; 3 are wanted"),
            "{:?}",
            found(1049)
        );
        assert!(found(0)[0].contains("7 are wanted"));
    }
}
