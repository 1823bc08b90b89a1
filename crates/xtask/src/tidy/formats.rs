//! Rule 3: only files called `format.rs` encode or decode bytes. Each opens with a table, is locked
//! by a snapshot test and is listed in `docs/formats.md`. Rule 15: formats contain neither `usize`
//! nor host byte order.

use super::{SourceFile, TidyFinding, Workspace, crates};

/// Keyword of an allowance: `tidy: allow format: <why>`.
pub const RULE: &str = "format";

/// The file that defines the readers and writers that formats use.
const BYTES: &str = "crates/base/src/bytes.rs";

/// The page that lists every format.
const INDEX: &str = "docs/formats.md";

/// Calls that only formats may make, and what each does.
const CODING: [&str; 5] = [
    "to_le_bytes",
    "from_le_bytes",
    "to_be_bytes",
    "from_be_bytes",
    "transmute",
];

/// Types and calls that make an encoding depend on the host.
const HOST: [&str; 4] = [
    "to_ne_bytes",
    "from_ne_bytes",
    "usize::from_le_bytes",
    "size_of::<usize>",
];

/// Checks every file of the product. The workshop and tests are exempt.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for source in &workspace.sources {
        if crates::is_workshop(Workspace::crate_of(&source.path)) || source.path == BYTES {
            continue;
        }
        if source.file_name() == "format.rs" && !source.is_test(1) {
            check_format(workspace, source, &mut findings);
        } else {
            check_other(source, &mut findings);
        }
    }
    findings
}

fn check_other(source: &SourceFile, findings: &mut Vec<TidyFinding>) {
    let coding = CODING
        .iter()
        .flat_map(|code| source.find(code).into_iter().map(move |line| (line, *code)));
    let cursors = cursors(source)
        .into_iter()
        .map(|line| (line, "a byte reader or writer"));
    for (line, what) in coding.chain(cursors) {
        if !source.is_test(line) && !source.allows(RULE, line) {
            let text = format!(
                "{what} outside a format.rs: move the encoding there, or say `// tidy: allow {RULE}: <why these bytes \
                 never reach a device>`"
            );
            findings.push(TidyFinding::new(&source.path, line, text));
        }
    }
}

/// Returns the lines that import `bytes::{Reader, Writer}` or refer to one of them by its path.
fn cursors(source: &SourceFile) -> Vec<usize> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for at in 0..tokens.len().saturating_sub(3) {
        if tokens[at].word() != Some("bytes") || !tokens[at + 1].is(':') || !tokens[at + 2].is(':') {
            continue;
        }
        let group = tokens[at + 3..]
            .iter()
            .take_while(|token| !token.is('}') && !token.is(';'));
        let named = if tokens[at + 3].is('{') {
            group.take(16).collect()
        } else {
            vec![&tokens[at + 3]]
        };
        if named
            .iter()
            .any(|token| matches!(token.word(), Some("Reader" | "Writer")) || token.is('*'))
        {
            found.push(tokens[at].line);
        }
    }
    found
}

fn check_format(workspace: &Workspace, source: &SourceFile, findings: &mut Vec<TidyFinding>) {
    let mut find = |line: usize, text: String| findings.push(TidyFinding::new(&source.path, line, text));
    let table = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        words
            .windows(3)
            .any(|words| words == ["OFFSET", "SIZE", "MEANING"])
    };
    if !source
        .comments
        .iter()
        .any(|comment| comment.text.starts_with('!') && table(&comment.text))
    {
        find(
            1,
            "the header has no OFFSET / SIZE / MEANING table: say what each byte means".to_owned(),
        );
    }
    // A table has one row per line. A tool that wraps comments would join the head with the first
    // row.
    for comment in source.comments.iter().filter(|comment| table(&comment.text)) {
        if !comment.text.trim_end().ends_with("MEANING") {
            let text = "the head of a table has text after MEANING: write one row a line, in a fenced block";
            find(comment.line, text.to_owned());
        }
    }
    if !has_snapshot(workspace, source) {
        let text = "no snapshot test: add one called `the_bytes_of_…`, here or in the tests beside it";
        find(1, text.to_owned());
    }
    for code in HOST.iter().chain(&["transmute"]) {
        for line in source
            .find(code)
            .into_iter()
            .filter(|line| !source.is_test(*line) && !source.allows(RULE, *line))
        {
            find(
                line,
                format!("{code} in a format: use a type of fixed width, little-endian"),
            );
        }
    }
    let index = workspace.documents.iter().find(|document| document.path == INDEX);
    if index.is_none_or(|index| !index.text.contains(&source.path)) {
        find(1, format!("{INDEX} does not point to this format: add a line"));
    }
}

/// Returns whether the file or its test modules contain a test whose name states that the bytes do
/// not change.
fn has_snapshot(workspace: &Workspace, format: &SourceFile) -> bool {
    let folder = format.path.trim_end_matches("format.rs");
    let belongs = |source: &&SourceFile| {
        let within = source.path.strip_prefix(folder);
        let tests = |path: &str| {
            ["tests.rs", "tests/", "format/tests.rs"]
                .iter()
                .any(|start| path.starts_with(start))
        };
        source.path == format.path || within.is_some_and(tests)
    };
    let snapshot = |name: &str| {
        let fixed = name.contains("change") && (name.contains("bytes") || name.contains("version"));
        fixed || name.starts_with("the_bytes_of")
    };
    let named = |source: &SourceFile| {
        let mut functions = source.functions().into_iter();
        functions.any(|(name, line, _)| source.is_test(line) && snapshot(name))
    };
    workspace.sources.iter().filter(belongs).any(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    const FORMAT: &str = "//! OFFSET  SIZE  MEANING\n//!   0 8 x\nfn f() { 1u64.to_le_bytes(); }\n#[cfg(test)]\nmod tests {\n#[test]\nfn the_bytes_of_version_1_do_not_change() {}\n}";
    const PAGE: (&str, &str) = ("docs/formats.md", "crates/storage/src/log/format.rs");

    #[test]
    fn a_format_with_table_snapshot_and_page_is_in_order() {
        let files = [
            ("crates/storage/src/log/format.rs", FORMAT),
            PAGE,
            ("crates/base/src/bytes.rs", "to_le_bytes()"),
        ];
        assert_eq!(lines(&check(&Workspace::planted(&files))), [""; 0]);
        let tests = (
            "crates/storage/src/log/tests.rs",
            "#[test] fn the_bytes_do_not_change() {}",
        );
        let bare = ("crates/storage/src/log/format.rs", "//! OFFSET SIZE MEANING\n");
        assert_eq!(lines(&check(&Workspace::planted(&[bare, PAGE, tests]))), [""; 0]);
    }

    #[test]
    fn a_format_without_table_snapshot_or_page_is_found() {
        let text = "//! Bytes.\nfn f(x: usize) { x.to_ne_bytes(); std::mem::size_of::<usize>() }";
        let found = lines(&check(&Workspace::planted(&[(
            "crates/storage/src/format.rs",
            text,
        )])));
        assert_eq!(found.len(), 5, "{found:#?}");
        assert!(found.iter().any(|line| line.contains("format.rs:2: to_ne_bytes")));
    }

    #[test]
    fn a_table_whose_rows_a_tool_has_joined_is_found() {
        let joined = FORMAT.replace("MEANING\n//!   0 8 x", "MEANING 0 8 x");
        let path = "crates/storage/src/log/format.rs";
        let found = lines(&check(&Workspace::planted(&[(path, &joined), PAGE])));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with("crates/storage/src/log/format.rs:1: the head of a table"));
    }

    #[test]
    fn coding_elsewhere_is_found_but_not_in_tests_the_workshop_or_where_it_is_allowed() {
        let text = "fn a() { x.to_le_bytes(); }\nuse alluvium_base::bytes::{self, Reader};\nuse alluvium_base::bytes::Truncated;\n\
                    // tidy: allow format: a hash of two words that stays in memory\nfn b() {
                    // y.to_be_bytes(); }\n\
                    #[cfg(test)]\nmod tests { fn c() { z.to_le_bytes(); } }";
        let found = lines(&check(&Workspace::planted(&[(
            "crates/storage/src/log/lane.rs",
            text,
        )])));
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found[0].starts_with("crates/storage/src/log/lane.rs:1: to_le_bytes outside a format.rs"));
        assert!(found[1].starts_with("crates/storage/src/log/lane.rs:2: a byte reader or writer"));
        assert_eq!(
            lines(&check(&Workspace::planted(&[("crates/sim/src/a.rs", text)]))),
            [""; 0]
        );
    }
}
