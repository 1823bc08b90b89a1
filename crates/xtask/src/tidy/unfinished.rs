//! Rule 17: no unfinished code, no disabled tests, no untested features.

use super::{TidyFinding, Workspace};

/// Macros that are placeholders or debugging aids.
const MACROS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];

const MARKS: [&str; 4] = ["FIXME", "XXX", "TODO", "HACK"];

/// Checks every file and every feature.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for source in &workspace.sources {
        let mut find = |line: usize, text: String| findings.push(TidyFinding::new(&source.path, line, text));
        for code in MACROS {
            for line in source.find(code) {
                find(
                    line,
                    format!("{code} stands here: write the code, or leave the item out"),
                );
            }
        }
        for line in source.find("#[ignore") {
            find(line, "an ignored test: make it run, or delete it".to_owned());
        }
        for comment in &source.comments {
            let word = |c: char| !c.is_alphanumeric();
            if let Some(mark) = comment.text.split(word).find(|word| MARKS.contains(word)) {
                find(
                    comment.line,
                    format!("{mark}: do it now, or open an issue and say why it can wait"),
                );
            }
            let fence = comment
                .text
                .trim_start_matches(['/', '!'])
                .trim_start()
                .strip_prefix("```");
            if fence.is_some_and(|words| words.split(',').any(|word| word.trim() == "ignore")) {
                find(
                    comment.line,
                    "an example that does not run: make it run, or mark it `text`".to_owned(),
                );
            }
        }
    }
    for package in &workspace.packages {
        let untested = |feature: &&String| {
            *feature != "default"
                && !workspace
                    .ci
                    .split(|c: char| c != '-' && c != '_' && !c.is_alphanumeric())
                    .any(|word| word == *feature)
        };
        for feature in package.features.iter().filter(untested) {
            let text = format!(
                "nothing tests the feature {feature}: name it in a command of .ci/run or .ci/nightly"
            );
            findings.push(TidyFinding::new(
                &format!("{}/Cargo.toml", package.folder),
                1,
                text,
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    #[test]
    fn every_mark_of_unfinished_work_is_found_with_its_line() {
        let planted = [
            "fn f() { todo!() }",
            "fn f() { unimplemented!(\"x\") }",
            "fn f() { dbg!(1); }",
            "#[ignore = \"slow\"] fn f() {}",
            "// FIXME later",
            "// (XXX)",
            "/// ```ignore",
        ];
        for text in planted {
            let text = format!("\n{text}");
            let found = lines(&check(&Workspace::planted(&[("crates/base/src/lib.rs", &text)])));
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with("crates/base/src/lib.rs:2: "), "{found:?}");
        }
    }

    #[test]
    fn words_that_only_look_like_it_are_free() {
        let text = "/// ```text\n/// A todo list: todo!() is refused; \"dbg!\".\n/// ```\nfn todo() { let ignore = \"todo!()\"; }";
        assert_eq!(
            lines(&check(&Workspace::planted(&[("crates/base/src/lib.rs", text)]))),
            [""; 0]
        );
    }

    #[test]
    fn a_feature_must_be_named_by_the_commands_that_gate() {
        let with = |ci: &str| {
            let mut workspace =
                Workspace::planted(&[(".ci/run", ci)]).with_package("crates/files", "alluvium-files", &[]);
            workspace.packages[0].features = vec!["default".to_owned(), "mount".to_owned()];
            lines(&check(&workspace))
        };
        assert_eq!(with("cargo test -p alluvium-files --features mount"), [""; 0]);
        assert!(
            with("cargo test # amounts")[0]
                .starts_with("crates/files/Cargo.toml:1: nothing tests the feature mount")
        );
    }
}
