//! The report of a store's consistency check.

use alluvium_dictionary::read::NodeTotals;
use alluvium_trees::tiered::CheckFindings;
use std::fmt;

/// Result of [`Db::check_report`](crate::Db::check_report). It can be displayed as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Defects found by the check, one sentence each, with the file and the offset. Empty if the
    /// store is intact.
    ///
    /// Only the first thousand defects are listed; [`CheckReport::unlisted`] counts the rest.
    pub findings: Vec<String>,
    /// Number of defects not listed in `findings`.
    pub unlisted: u64,
    /// Tiers other than the first that could not be read, one sentence each, with the device's
    /// error. The data on these tiers was not checked.
    pub unreadable: Vec<String>,
    /// Observations that are not defects in themselves, one sentence each, such as commits that
    /// were missing when the store was opened ([`Db::lost_commits`](crate::Db::lost_commits)).
    pub notes: Vec<String>,
    /// Amount of data read, by kind of structure.
    pub read: Vec<CheckedStructure>,
    /// Number of records in the leaves that were read.
    pub records: u64,
    /// Number of values stored outside leaves. All of them were read.
    pub values_apart: u64,
}

/// Amount of data read from one kind of structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedStructure {
    /// Name of the kind of structure, for example "run footers".
    pub name: &'static str,
    /// Number of nodes or pages, or number of files for a structure without nodes.
    pub nodes: u64,
    /// Total size of the nodes or files on the device, in bytes.
    pub bytes: u64,
}

impl CheckReport {
    pub(crate) fn new(
        CheckFindings {
            found,
            unlisted,
            unread: _,
            read,
        }: CheckFindings,
        unreadable: Vec<String>,
        notes: Vec<String>,
        files: [(&'static str, NodeTotals); 3],
    ) -> CheckReport {
        let structures = [
            // A manifest that fits into the superblock has no nodes of its own.
            ("manifest", read.manifest),
            ("trunk", read.trunk),
            ("run footers", read.footers),
            ("index nodes", read.index),
            ("leaves", read.leaves),
            ("values apart", read.values),
            ("maplet directories", read.directories),
            ("maplet pages", read.maplets),
        ];
        let read_of = |(name, amount): (&'static str, NodeTotals)| CheckedStructure {
            name,
            nodes: amount.nodes,
            bytes: amount.bytes,
        };
        CheckReport {
            findings: found,
            unlisted,
            unreadable,
            notes,
            read: files.into_iter().chain(structures).map(read_of).collect(),
            records: read.records,
            values_apart: read.values_apart,
        }
    }

    /// Returns whether everything was read and no defect was found.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty() && self.unreadable.is_empty()
    }

    /// Returns the total number of findings, including unlisted ones.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.findings.len() as u64 + self.unlisted
    }

    /// Returns all listed findings and all unreadable tiers as sentences. If some findings are
    /// unlisted, a final sentence gives their number.
    pub(crate) fn into_sentences(self) -> Vec<String> {
        let mut findings = self.findings;
        findings.extend(self.unreadable);
        if self.unlisted > 0 {
            findings.push(format!("and {} more findings", self.unlisted));
        }
        findings
    }

    /// Returns the total number of bytes read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.read.iter().map(|structure| structure.bytes).sum()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        if self.unlisted > 0 {
            writeln!(f, "and {} more findings", self.unlisted)?;
        }
        for tier in &self.unreadable {
            writeln!(f, "not checked: {tier}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        for CheckedStructure { name, nodes, bytes } in &self.read {
            writeln!(f, "read: {name}, {nodes}, {bytes} bytes")?;
        }
        writeln!(
            f,
            "read: {} records, {} separately stored values",
            self.records, self.values_apart
        )
    }
}
