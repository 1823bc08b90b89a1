//! The features of the systems of Spillane (2012), Tables 3.1, 4.1, 5.2 and 6.4, and those of
//! Alluvium. Each of ours names the test that proves it.

use std::fmt::Write;

/// The columns of the thesis.
pub const COLUMNS: [&str; 10] = [
    "type",
    "writes",
    "log-structured",
    "transactions",
    "concurrent and durable",
    "asynchronous",
    "write order",
    "random",
    "stitching",
    "sequential",
];

/// A system of the thesis, with what it states in each column.
#[derive(Clone, Copy, Debug)]
pub struct PublishedSystem {
    pub name: &'static str,
    pub features: [&'static str; 10],
}

/// A feature of Alluvium and its proof.
#[derive(Clone, Copy, Debug)]
pub struct ProvenFeature {
    pub value: &'static str,
    /// The source file, from the root of the repository.
    pub file: &'static str,
    pub test: &'static str,
}

/// The rows of the thesis.
pub const PUBLISHED: [PublishedSystem; 7] = [
    published(
        "Ext3",
        [
            "FS", "1", "no", "metadata", "no", "yes", "kernel", "R", "no", "R,W",
        ],
    ),
    published(
        "SchemaFS",
        ["FS", "3", "no", "logical", "yes", "yes", "user", "R", "no", "R"],
    ),
    published(
        "LSMFS",
        [
            "FS", "1", "yes", "metadata", "no", "yes", "mmap", "S,W", "no", "R,W",
        ],
    ),
    published(
        "Valor",
        ["FS", "2", "no", "POSIX", "no", "yes", "kernel", "R", "no", "R"],
    ),
    published(
        "Cassandra",
        [
            "KVS", "2", "yes", "single", "yes", "yes", "mmap", "P,S,W", "no", "R",
        ],
    ),
    published(
        "GTSSLv1",
        [
            "KVS", "1-2", "yes", "values", "yes", "yes", "mmap", "P,S,W", "no", "R",
        ],
    ),
    published(
        "GTSSLv2",
        [
            "KVS",
            "1-2",
            "yes",
            "values > RAM",
            "yes",
            "yes",
            "mmap",
            "P,S,W",
            "yes",
            "R,W",
        ],
    ),
];

const fn published(name: &'static str, features: [&'static str; 10]) -> PublishedSystem {
    PublishedSystem { name, features }
}

const fn proven(value: &'static str, file: &'static str, test: &'static str) -> ProvenFeature {
    ProvenFeature { value, file, test }
}

/// The row of Alluvium, in the order of the columns.
pub const OURS: [ProvenFeature; 10] = [
    proven(
        "KVS, FS",
        "crates/cli/tests/it/files.rs",
        "an_import_and_an_export_keep_everything",
    ),
    proven(
        "1 for loads, else 2",
        "crates/db/tests/it/ingest.rs",
        "a_load_is_written_once_and_not_to_the_log",
    ),
    proven(
        "yes, copy-on-write",
        "crates/trees/src/paged/buffer/tests/hosted.rs",
        "every_root_that_may_be_durable_opens_as_it_was_whenever_the_power_fails",
    ),
    proven(
        "values > RAM",
        "crates/cli/tests/it/files.rs",
        "a_killed_transaction_larger_than_memory_leaves_the_files_as_before_or_as_after",
    ),
    proven(
        "yes",
        "crates/db/tests/it/handles.rs",
        "asynchronous_writes_share_syncs_and_are_durable_when_ready",
    ),
    proven(
        "yes",
        "crates/db/tests/it/transactions.rs",
        "asynchronous_commits_are_validated_and_durable",
    ),
    proven(
        "user",
        "crates/server/tests/it/restart.rs",
        "replies_of_a_durable_store_come_after_the_sync",
    ),
    proven(
        "P,S,W",
        "crates/trees/tests/it/model.rs",
        "the_tree_reads_what_the_reference_reads",
    ),
    proven(
        "yes, in levels",
        "crates/trees/tests/it/stitched.rs",
        "what_comes_in_order_is_taken_over_and_never_read",
    ),
    proven(
        "R,W",
        "crates/trees/src/tiered/scan/iter/tests.rs",
        "scans_read_at_once_what_such_scans_usually_take",
    ),
];

/// Returns the table as Markdown, and below it the tests of our row.
#[must_use]
pub fn page() -> String {
    let mut text = format!(
        "| system | {} |\n|---|{}\n",
        COLUMNS.join(" | "),
        "---|".repeat(COLUMNS.len())
    );
    let ours = PublishedSystem {
        name: "Alluvium",
        features: OURS.map(|feature| feature.value),
    };
    for system in PUBLISHED.iter().chain([&ours]) {
        let _ = writeln!(text, "| {} | {} |", system.name, system.features.join(" | "));
    }
    text.push_str("\nR read, W write, S scan, P point; \"writes\" is how often data is written.\n\n");
    text.push_str("| feature of Alluvium | value | test |\n|---|---|---|\n");
    for (column, feature) in COLUMNS.iter().zip(OURS) {
        let _ = writeln!(
            text,
            "| {column} | {} | `{}` in {} |",
            feature.value, feature.test, feature.file
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_feature_of_ours_has_a_test() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for feature in OURS {
            let text = std::fs::read_to_string(root.join(feature.file)).unwrap();
            let is_test = text
                .split("#[test]")
                .skip(1)
                .any(|part| part.contains(&format!("fn {}()", feature.test)));
            assert!(is_test, "{feature:?}");
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_system_and_a_cell_for_each_column() {
        let text = page();
        let rows: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        assert_eq!(rows.len(), 2 + PUBLISHED.len() + 1);
        for row in rows {
            assert_eq!(row.matches('|').count(), COLUMNS.len() + 2, "{row}");
        }
    }
}
