//! Frozen tuning constants. A comment line next to each constant repeats its value and gives the
//! date and the measurement:
//!
//! ```text
//! /// Tuning: `64 << 10` since 2026-11-23; scans 12 % faster than with 32 KiB.
//! ```
//!
//! In a file with one such line, every constant needs one, or the line "Not a tuning parameter.". A
//! new value requires a new line, and hence a new measurement.

use super::source::{SourceToken, TokenKind};
use super::{SourceFile, TidyFinding, Workspace};

const LINE: &str = "Tuning: `";
const EXEMPT: &str = "Not a tuning parameter.";

/// The files whose constants control caches, read-ahead and compaction.
const TUNED: [&str; 22] = [
    "crates/db/src/engine/policy.rs",
    "crates/db/src/engine/record_cache/ghosts.rs",
    "crates/db/src/engine/record_cache/shard.rs",
    "crates/db/src/engine/record_cache/sizing.rs",
    "crates/db/src/engine/throttle.rs",
    "crates/dictionary/src/batch.rs",
    "crates/dictionary/src/memtable/filter.rs",
    "crates/dictionary/src/memtables/empty_ranges/dead_run.rs",
    "crates/dictionary/src/value_log/read.rs",
    "crates/storage/src/cache/frame_allocator.rs",
    "crates/storage/src/cache/ghost_queue.rs",
    "crates/storage/src/cache/read.rs",
    "crates/storage/src/cache/read_groups.rs",
    "crates/trees/src/run/device.rs",
    "crates/trees/src/run/options.rs",
    "crates/trees/src/run/readahead.rs",
    "crates/trees/src/segment_scan/segment.rs",
    "crates/trees/src/tiered/lookup/root_filter_builder.rs",
    "crates/trees/src/tiered/policy.rs",
    "crates/trees/src/tiered/scan/iter.rs",
    "crates/trees/src/tiered/trunk/miss_rate.rs",
    "crates/trees/src/tiered/trunk/root_filter.rs",
];

/// Checks the files in `TUNED`, and all others that have at least one line `Tuning:`.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let tuned = |source: &&SourceFile| {
        let mut comments = source.comments.iter();
        TUNED.contains(&source.path.as_str()) || comments.any(|comment| recorded(&comment.text).is_some())
    };
    let sources = workspace.sources.iter().filter(tuned);
    sources.flat_map(findings).collect()
}

fn findings(source: &SourceFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (name, value, line) in constants(source) {
        let comments = above(source, line);
        let text = match comments.iter().find_map(|text| recorded(text)) {
            Some(recorded) if recorded == value => continue,
            Some(recorded) => format!(
                "{name} is {value}, and {recorded} in its line \"Tuning:\": measure the new value (5 % or more) and write down the result"
            ),
            None if comments.iter().any(|text| text.contains(EXEMPT)) => continue,
            None => format!(
                "{name} = {value} has no line \"Tuning: `value` since DATE; measurement.\" and no line \"{EXEMPT}\""
            ),
        };
        findings.push(TidyFinding::new(&source.path, line, text));
    }
    findings
}

/// Returns the value that a comment line records, without whitespace.
fn recorded(comment: &str) -> Option<String> {
    let text = comment.trim_start_matches(['/', ' ']);
    let rest = text.strip_prefix(LINE)?;
    let (value, _) = rest.split_once('`')?;
    Some(written(&super::lexer::tokenize(value).0))
}

/// Returns the comment lines directly above a line.
fn above(source: &SourceFile, line: usize) -> Vec<&str> {
    let after = source.comments.partition_point(|comment| comment.line < line);
    let upwards = source.comments[..after].iter().rev();
    upwards
        .zip((0..line).rev())
        .take_while(|(comment, line)| comment.line == *line)
        .map(|(comment, _)| comment.text.as_str())
        .collect()
}

/// Returns the constants of a file outside its tests: name, value as written, and line.
fn constants(source: &SourceFile) -> Vec<(String, String, usize)> {
    let mut found = Vec::new();
    for (at, pair) in source.tokens.windows(2).enumerate() {
        let name = match (pair[0].word(), pair[1].word()) {
            (Some("const"), Some(name)) if name != "_" && name != "fn" => name,
            _ => continue,
        };
        let Some(equals) = (at..source.tokens.len()).find(|&index| source.tokens[index].is('=')) else {
            continue;
        };
        let end = (equals..source.tokens.len()).find(|&index| source.tokens[index].is(';'));
        if let Some(end) = end.filter(|_| !source.is_test(pair[0].line)) {
            found.push((
                name.to_owned(),
                written(&source.tokens[equals + 1..end]),
                pair[0].line,
            ));
        }
    }
    found
}

/// Renders tokens without whitespace, except one space between adjacent words: `64<<10`.
fn written(tokens: &[SourceToken]) -> String {
    let mut text = String::new();
    for token in tokens {
        match &token.kind {
            TokenKind::Word(word) => {
                if text.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    text.push(' ');
                }
                text.push_str(word);
            }
            TokenKind::Text(literal) => text.push_str(literal),
            TokenKind::Mark(mark) => text.push(*mark),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    fn found(file: &str) -> Vec<String> {
        lines(&check(&Workspace::planted(&[("crates/db/src/share.rs", file)])))
    }

    #[test]
    fn constants_whose_lines_record_their_values_are_in_order() {
        let file = "//! Words.\n\n/// Parts.\n/// Tuning: `1 << 10` since 2026-11-22.\npub(super) const PARTS: u64 = 1 << 10;\n\
            // Tuning: `[1, 2]` since 2026-11-22; no\n// difference.\nconst TIMES: [u64; 2] = [1, 2];\n\
            // Not a tuning parameter.\nconst WHOLE: u64 = 1;\n\
            const _: () = assert!(PARTS > 0);\n#[cfg(test)]\nconst SEED: u64 = 7;\n";
        assert_eq!(found(file), [""; 0]);
    }

    #[test]
    fn files_without_tuning_lines_are_checked_only_if_they_are_listed() {
        let text = "//! Words.\nconst PARTS: u64 = 7;\n";
        assert_eq!(found(text), [""; 0]);
        let listed = lines(&check(&Workspace::planted(&[(TUNED[0], text)])));
        assert!(listed[0].contains("PARTS = 7 has no line"), "{listed:?}");
    }

    #[test]
    fn a_constant_without_a_line_or_with_another_value_is_found() {
        let file = "//! Words.\n// Tuning: `1 << 9` since 2026-11-22.\nconst PARTS: u64 = 1 << 10;\nconst TIMES: u64 = 2;\n\
            // Tuning: `3` since 2026-11-22.\n\nconst GAP: u64 = 3;\n";
        let found = found(file);
        assert!(
            found[0].starts_with("crates/db/src/share.rs:3: PARTS is 1<<10, and 1<<9"),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("crates/db/src/share.rs:4: TIMES = 2 has no line"),
            "{found:?}"
        );
        assert!(
            found[2].starts_with("crates/db/src/share.rs:7: GAP = 3 has no line"),
            "{found:?}"
        );
        assert_eq!(found.len(), 3);
    }
}
