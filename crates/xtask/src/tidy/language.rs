//! Plain language: refused words, comment lines that are too wide, and commit subjects that are too
//! long.
//!
//! Findings in comments and documents are counted per crate; `crates/xtask/language.toml` holds the
//! limit of each crate.

use super::source::CommentLine;
use super::{TidyFinding, Workspace};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;

/// Maximum width in columns of a line that ends in a comment.
const WIDTH: usize = 100;

/// Maximum width of fenced examples and drawings in comments; the same as for code.
const CODE: usize = 110;

/// Maximum length of a commit subject, in characters.
const SUBJECT: usize = 72;

/// Key under which findings in commit subjects are counted.
const COMMITS: &str = "commits";

/// Words that obscure the actor or the meaning, with advice for each.
const WORDS: [(&[&str], &str); 11] = [
    (&["whoever"], ACTOR),
    (&["somebody"], ACTOR),
    (&["nobody"], ACTOR),
    (&["he"], ACTOR),
    (&["his"], ACTOR),
    (&["him"], ACTOR),
    (&["so", "many"], "name the number"),
    (&["that", "one"], "name the thing"),
    (&["anew"], "say `again` or `new`"),
    (&["by", "far"], "give the figure, or leave it out"),
    (&["lacks"], "say `has no` or `is missing`"),
];

const ACTOR: &str = "name the reader, writer, compaction, cache or client";

/// Internal jargon of the project, refused in text for users.
const PARTS: [&str; 6] = ["room", "rooms", "floor", "floors", "house", "houses"];

/// Limits on findings per crate, and the commit from which subjects are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanguageLimits {
    /// Hash of the last commit whose subject is not checked. Empty if all are checked.
    pub since: String,
    /// Maximum number of findings by crate. A crate without an entry may have none.
    pub findings: BTreeMap<String, usize>,
}

impl LanguageLimits {
    /// Path of the file with the limits.
    pub const PATH: &str = "crates/xtask/language.toml";

    /// Parses limits. Each line is a comment, `since = "<hash>"` or `<crate> = <number>`.
    ///
    /// # Errors
    /// A line of any other form.
    pub fn parse(text: &str) -> Result<LanguageLimits> {
        let mut limits = LanguageLimits::default();
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = || format!("{}:{}: {line:?} is not `name = number`", Self::PATH, index + 1);
            let (name, value) = line.split_once('=').with_context(at)?;
            let (name, value) = (name.trim(), value.trim());
            if name == "since" {
                value.trim_matches('"').clone_into(&mut limits.since);
                continue;
            }
            let value = value.parse().with_context(at)?;
            if limits.findings.insert(name.to_owned(), value).is_some() {
                bail!("{}:{}: {name} is there twice", Self::PATH, index + 1);
            }
        }
        Ok(limits)
    }

    /// Returns `text` with each number lowered to the measured one. Removes crates without
    /// findings.
    #[must_use]
    pub fn lower_in(text: &str, measured: &BTreeMap<String, usize>) -> String {
        let lowered = |line: &str| {
            let name = line.split('=').next().unwrap_or(line).trim();
            let number = line
                .split('=')
                .nth(1)
                .and_then(|value| value.trim().parse::<usize>().ok());
            let Some(number) = number.filter(|_| !line.starts_with('#')) else {
                return Some(format!("{line}\n"));
            };
            let number = number.min(measured.get(name).copied().unwrap_or(0));
            (number > 0).then(|| format!("{name} = {number}\n"))
        };
        text.lines().filter_map(lowered).collect()
    }
}

/// Checks that no crate exceeds its limit.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let mut all = Vec::new();
    for (name, findings) in findings(workspace) {
        let (found, limit) = (
            findings.len(),
            workspace.language.findings.get(&name).copied().unwrap_or(0),
        );
        if found <= limit {
            continue;
        }
        all.extend(findings.into_iter().map(|mut finding| {
            if limit > 0 {
                finding.text += &format!(" ({name} has {found} findings of language, {limit} are allowed)");
            }
            finding
        }));
    }
    all
}

/// Lowers the limits in the file to the current counts. Never raises one (X3).
///
/// # Errors
/// I/O errors of the file.
pub fn lower(workspace: &mut Workspace) -> Result<()> {
    let path = workspace.root.join(LanguageLimits::PATH);
    if !path.exists() {
        return Ok(());
    }
    let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let measured = findings(workspace)
        .into_iter()
        .map(|(name, findings)| (name, findings.len()))
        .collect();
    let lowered = LanguageLimits::lower_in(&text, &measured);
    fs::write(&path, &lowered).with_context(|| format!("{} cannot be written", path.display()))?;
    workspace.language = LanguageLimits::parse(&lowered)?;
    Ok(())
}

/// Returns all findings, grouped by the crate they count for.
fn findings(workspace: &Workspace) -> BTreeMap<String, Vec<TidyFinding>> {
    let mut all: BTreeMap<String, Vec<TidyFinding>> = BTreeMap::new();
    for source in &workspace.sources {
        let found = all
            .entry(Workspace::crate_of(&source.path).to_owned())
            .or_default();
        found.extend(wide(&source.path, &source.comments));
        let lines = source
            .comments
            .iter()
            .map(|comment| (comment.line, comment.text.as_str()));
        found.extend(words(&source.path, lines, |text| text.starts_with(['/', '!'])));
    }
    for document in &workspace.documents {
        let name = if document.path.contains('/') {
            Workspace::crate_of(&document.path)
        } else {
            "docs"
        };
        let lines = document
            .text
            .lines()
            .enumerate()
            .map(|(index, text)| (index + 1, text));
        let found = words(&document.path, lines, |_| true);
        all.entry(name.to_owned()).or_default().extend(found);
    }
    for (commit, subject) in &workspace.subjects {
        let len = subject.chars().count();
        let wrong = if len > SUBJECT {
            format!("{len} characters, over {SUBJECT}")
        } else if subject.contains(';') {
            "two clauses".to_owned()
        } else {
            continue;
        };
        let text = format!("the subject {subject:?} has {wrong}: say one thing, the rest in the body");
        let finding = TidyFinding::new(&format!("commit {commit}"), 1, text);
        all.entry(COMMITS.to_owned()).or_default().push(finding);
    }
    all
}

/// Returns the comments that are too wide. Table rows and single long words are exempt, as they
/// cannot be wrapped.
fn wide(path: &str, comments: &[CommentLine]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let (mut is_code, mut last) = (false, 0);
    for comment in comments {
        let text = comment.text.trim_start_matches(['/', '!']).trim();
        // A fence ends with its comment block at the latest.
        is_code &= comment.line <= last + 1;
        last = comment.line;
        is_code ^= text.starts_with("```");
        let limit = if is_code { CODE } else { WIDTH };
        if comment.width > limit && text.contains(' ') && !text.starts_with('|') {
            let text = format!(
                "a comment ends in column {}, over {limit}: break the line",
                comment.width
            );
            findings.push(TidyFinding::new(path, comment.line, text));
        }
    }
    findings
}

/// Finds refused words in consecutive lines. `is_public` tells whether users see a line.
fn words<'a>(
    path: &str,
    lines: impl Iterator<Item = (usize, &'a str)>,
    is_public: impl Fn(&str) -> bool,
) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut said: Vec<(String, usize)> = Vec::new();
    let mut is_code = false;
    for (line, text) in lines {
        let is_apart = said.last().is_some_and(|(_, last)| *last + 1 < line);
        if is_apart {
            said.clear();
        }
        if text
            .trim_start_matches(['/', '!'])
            .trim_start()
            .starts_with("```")
        {
            is_code = !is_code;
            continue;
        }
        if is_code {
            continue;
        }
        // Every second part is between backticks, which mark a name.
        for part in text.split('`').step_by(2) {
            let parts = part
                .split(|c: char| !c.is_alphanumeric())
                .filter(|word| !word.is_empty());
            for word in parts.map(str::to_lowercase) {
                said.push((word, line));
                let refused = WORDS.iter().find(|(phrase, _)| ends_with(&said, phrase));
                if let Some((phrase, instead)) = refused {
                    let text = format!("\"{}\": {instead}", phrase.join(" "));
                    findings.push(TidyFinding::new(path, line, text));
                }
                let last = &said[said.len() - 1].0;
                if is_public(text) && PARTS.contains(&last.as_str()) {
                    let text = format!("\"{last}\": say crate, layer, workspace, or space if that is meant");
                    findings.push(TidyFinding::new(path, line, text));
                }
            }
            said.push((String::new(), line));
        }
        said.pop();
    }
    findings
}

/// Returns whether the last words form the phrase.
fn ends_with(said: &[(String, usize)], phrase: &[&str]) -> bool {
    said.len() >= phrase.len()
        && said[said.len() - phrase.len()..]
            .iter()
            .zip(phrase)
            .all(|((word, _), wanted)| word == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    fn found(path: &str, text: &str) -> Vec<String> {
        lines(&check(&Workspace::planted(&[(path, text)])))
    }

    #[test]
    fn every_refused_word_is_found_with_its_line_in_comments_and_documents() {
        for (phrase, instead) in &WORDS {
            let said = phrase.join(" ");
            for text in [
                format!("\n// A {said}, b."),
                format!("\nf(); /* A\n {said} b. */"),
            ] {
                let found = found("crates/base/src/a.rs", &text);
                assert_eq!(found.len(), 1, "{text}: {found:?}");
                assert!(found[0].starts_with("crates/base/src/a.rs:"), "{found:?}");
                assert!(
                    found[0].ends_with(&format!(": \"{said}\": {instead}")),
                    "{found:?}"
                );
            }
            let found = found("docs/a.md", &format!("# A\n\n{}'s b", said.to_uppercase()));
            assert!(found[0].starts_with("docs/a.md:3: "), "{found:?}");
        }
    }

    #[test]
    fn a_phrase_is_found_across_two_lines_and_not_across_code_or_a_gap() {
        let file = "crates/base/src/a.rs";
        assert!(
            found(file, "// It waits so\n// many times.")[0]
                .starts_with("crates/base/src/a.rs:2: \"so many\"")
        );
        assert_eq!(found(file, "// It is so\n\nf(); // many"), [""; 0]);
        assert_eq!(found(file, "// It is so `a` many"), [""; 0]);
    }

    #[test]
    fn names_code_strings_and_longer_words_are_free() {
        let text = "/// Says `nobody` and the other; history.\n/// ```\n/// // by far\n/// ```\nfn nobody() { f(\"whoever\"); }";
        assert_eq!(found("crates/base/src/a.rs", text), [""; 0]);
        assert_eq!(
            found("docs/a.md", "`whoever` there\n```text\nhis\n```\n"),
            [""; 0]
        );
    }

    #[test]
    fn words_for_parts_of_the_project_are_refused_where_users_read_and_free_elsewhere() {
        for word in PARTS {
            assert_eq!(found("docs/a.md", &format!("A {word}.")).len(), 1);
            assert_eq!(found("crates/base/src/a.rs", &format!("//! A {word}.")).len(), 1);
            assert_eq!(
                found("crates/base/src/a.rs", &format!("/// A {word}.\nfn f() {{}}")).len(),
                1
            );
            assert_eq!(found("crates/base/src/a.rs", &format!("// A {word}.")), [""; 0]);
        }
    }

    #[test]
    fn wide_comments_are_found_and_wide_code_tables_and_addresses_are_free() {
        let file = "crates/base/src/a.rs";
        let words = |len: usize| format!("// {}z", "ab ".repeat(len).get(..len - 4).unwrap_or_default());
        assert_eq!(found(file, &words(100)), [""; 0]);
        assert_eq!(
            found(file, &words(101)),
            ["crates/base/src/a.rs:1: a comment ends in column 101, over 100: break the line"]
        );
        assert_eq!(found(file, &format!("f(); {}", words(96))).len(), 1);
        assert_eq!(found(file, &format!("f(\"{}\");", "ab ".repeat(40))), [""; 0]);
        let fenced = |len: usize| format!("//! ```\n{}\n//! ```", words(len).replace("//", "//!"));
        assert_eq!(found(file, &fenced(109)), [""; 0]);
        assert_eq!(found(file, &fenced(110)).len(), 1);
        assert_eq!(found(file, &format!("//! ```\nf();\n{}", words(101))).len(), 1);
        assert_eq!(found(file, &format!("//! | {} |", "ab ".repeat(40))), [""; 0]);
        assert_eq!(found(file, &format!("// <{}>", "x".repeat(100))), [""; 0]);
    }

    #[test]
    fn subjects_of_commits_are_short_and_say_one_thing() {
        let with = |subject: &str| {
            let subjects = vec![("1a2b".to_owned(), subject.to_owned())];
            lines(&check(&Workspace {
                subjects,
                ..Workspace::default()
            }))
        };
        assert_eq!(with(&"x".repeat(72)), [""; 0]);
        assert!(with(&"x".repeat(73))[0].starts_with("commit 1a2b:1: the subject \"xxx"));
        assert!(with("base: add a; remove b")[0].contains("two clauses"));
    }

    #[test]
    fn a_limit_allows_what_was_there_and_nothing_more() {
        let mut workspace = Workspace::planted(&[("crates/base/src/a.rs", "// He and his.")]);
        workspace.language.findings.insert("base".to_owned(), 2);
        assert_eq!(lines(&check(&workspace)), [""; 0]);
        workspace.language.findings.insert("base".to_owned(), 1);
        let found = lines(&check(&workspace));
        assert_eq!(found.len(), 2, "all are shown: {found:?}");
        assert!(found[0].ends_with("(base has 2 findings of language, 1 are allowed)"));
    }

    #[test]
    fn limits_are_read_and_only_ever_lowered() {
        let text = "# Why.\nsince = \"1a2b\"\n\nbase = 7\ncli = 3\ndb = 5\n";
        let limits = LanguageLimits::parse(text).unwrap();
        assert_eq!((limits.since.as_str(), limits.findings["cli"]), ("1a2b", 3));
        let measured = BTreeMap::from([
            ("base".to_owned(), 9),
            ("db".to_owned(), 4),
            ("new".to_owned(), 1),
        ]);
        assert_eq!(
            LanguageLimits::lower_in(text, &measured),
            "# Why.\nsince = \"1a2b\"\n\nbase = 7\ndb = 4\n"
        );
        for wrong in ["base = many", "base", "base = 1\nbase = 2"] {
            assert!(
                LanguageLimits::parse(wrong)
                    .unwrap_err()
                    .to_string()
                    .contains("language.toml:"),
                "{wrong}"
            );
        }
    }
}
