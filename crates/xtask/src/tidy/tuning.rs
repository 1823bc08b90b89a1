//! Tuning constants are frozen: one table lists every constant of the files that control caches,
//! read-ahead and compaction, with its value, its effect and its measurement. A new constant or a
//! new value requires a row and a measurement there.

use super::source::{Kind, Token};
use super::workspace::Document;
use super::{Finding, Source, Workspace};

/// Path of the table.
const TABLE: &str = "docs/tuning-constants.md";

/// Checks the files that have a heading in the table: `## crates/…/share.rs`.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(table) = workspace.documents.iter().find(|document| document.path == TABLE) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (line, path, rows) in sections(table) {
        let Some(source) = workspace.sources.iter().find(|source| source.path == path) else {
            findings.push(Finding::new(
                TABLE,
                line,
                format!("{path} is not there: name the file that has its constants"),
            ));
            continue;
        };
        let constants = constants(source);
        for (name, value, at) in &constants {
            let row = rows.iter().find(|row| row.name == *name);
            let text = match row {
                None => format!(
                    "{name} = {value} is not in {TABLE}: add its line, with what was measured (5 % or more)"
                ),
                Some(row) if row.value != *value => format!(
                    "{name} is {value}, and {} in {TABLE}: tuning is frozen; measure, and write down what came of it",
                    row.value
                ),
                Some(_) => continue,
            };
            findings.push(Finding::new(&source.path, *at, text));
        }
        for row in rows
            .iter()
            .filter(|row| !constants.iter().any(|(name, ..)| *name == row.name))
        {
            let text = format!("{} is not a constant of {path}: take its line out", row.name);
            findings.push(Finding::new(TABLE, row.line, text));
        }
    }
    findings
}

/// A row of the table: `| NAME | value | what | measured |`.
struct Row {
    line: usize,
    name: String,
    value: String,
}

/// Returns the sections of the table: line, file, rows.
fn sections(table: &Document) -> Vec<(usize, String, Vec<Row>)> {
    let mut sections: Vec<(usize, String, Vec<Row>)> = Vec::new();
    for (index, text) in table.text.lines().enumerate() {
        if let Some(heading) = text.strip_prefix("## ") {
            let path = heading.trim().trim_matches('`').to_owned();
            sections.push((index + 1, path, Vec::new()));
        }
        let mut cells = text
            .strip_prefix("| `")
            .into_iter()
            .flat_map(|row| row.split('|'));
        if let (Some(name), Some(value), Some((_, _, rows))) =
            (cells.next(), cells.next(), sections.last_mut())
        {
            rows.push(Row {
                line: index + 1,
                name: name.trim().trim_matches('`').to_owned(),
                value: written(&super::lexer::cut(value.trim().trim_matches('`')).0),
            });
        }
    }
    sections.retain(|(_, path, _)| path.starts_with("crates/"));
    sections
}

/// Returns the constants of a file outside its tests: name, value as written, line.
fn constants(source: &Source) -> Vec<(String, String, usize)> {
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
fn written(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        match &token.kind {
            Kind::Word(word) => {
                if text.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    text.push(' ');
                }
                text.push_str(word);
            }
            Kind::Text(literal) => text.push_str(literal),
            Kind::Mark(mark) => text.push(*mark),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    const FILE: &str = "//! Words.\npub(super) const PARTS: u64 = 1 << 10; // Why.\nconst TIMES: [u64; 2] = [1, 2];\n\
        #[cfg(test)]\nconst SEED: u64 = 7;\nconst _: () = assert!(PARTS > 0);\n";

    fn found(rows: &str) -> Vec<String> {
        let table =
            format!("# Constants\n\n## `crates/db/src/share.rs`\n\n| constant | value |\n|---|---|\n{rows}");
        lines(&check(&Workspace::planted(&[
            ("crates/db/src/share.rs", FILE),
            (TABLE, &table),
        ])))
    }

    #[test]
    fn a_table_with_every_constant_and_its_value_is_in_order() {
        assert_eq!(
            found("| `PARTS` | `1 << 10` | why |\n| `TIMES` | `[1, 2]` | why |\n"),
            [""; 0]
        );
    }

    #[test]
    fn a_constant_that_is_missing_changed_or_gone_is_found() {
        let missing = found("| `PARTS` | `1<<10` | why |\n");
        assert!(
            missing[0].starts_with("crates/db/src/share.rs:3: TIMES = [1,2] is not in docs/tuning"),
            "{missing:?}"
        );
        let changed = found("| `PARTS` | `1<<9` | why |\n| `TIMES` | `[1,2]` | why |\n");
        assert!(
            changed[0].contains("PARTS is 1<<10, and 1<<9 in docs/tuning-constants.md"),
            "{changed:?}"
        );
        let gone = found("| `PARTS` | `1<<10` | why |\n| `TIMES` | `[1,2]` | why |\n| `OLD` | `1` | why |\n");
        assert!(
            gone[0].starts_with("docs/tuning-constants.md:9: OLD is not a constant"),
            "{gone:?}"
        );
        let table = (TABLE, "## `crates/db/src/gone.rs`\n");
        assert!(lines(&check(&Workspace::planted(&[table])))[0].contains("is not there"));
    }
}
