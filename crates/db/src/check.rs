//! What a check of the store has read, and what it has found.

use alluvium_dictionary::read::Amount;
use alluvium_trees::tiered::Findings;
use std::fmt;

/// What [`Db::check_report`](crate::Db::check_report) has read and found. It can be shown as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Everything that is wrong, a sentence each, with the file and the offset; nothing if the
    /// store is whole.
    ///
    /// These are the first thousand, [`CheckReport::unlisted`] counts the others.
    pub findings: Vec<String>,
    /// How many findings are not listed.
    pub unlisted: u64,
    /// The further tiers that could not be read, a sentence each with what their devices said.
    /// What lies there was not checked: whether it is damaged is not known.
    pub unreadable: Vec<String>,
    /// What is worth knowing and is not wrong by itself, a sentence each: commits that the opening
    /// missed ([`Db::lost_commits`](crate::Db::lost_commits)).
    pub notes: Vec<String>,
    /// What was read, structure by structure.
    pub read: Vec<CheckedStructure>,
    /// Records in the leaves that were read.
    pub records: u64,
    /// Values that are kept apart from their leaves; each was read.
    pub values_apart: u64,
}

/// How much of one kind of structure was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedStructure {
    /// Its name.
    pub name: &'static str,
    /// How many nodes or pages, or files where it has none.
    pub nodes: u64,
    /// Their bytes on the device.
    pub bytes: u64,
}

impl CheckReport {
    pub(crate) fn new(
        Findings {
            found,
            unlisted,
            unread: _,
            read,
        }: Findings,
        unreadable: Vec<String>,
        notes: Vec<String>,
        files: [(&'static str, Amount); 3],
    ) -> CheckReport {
        let structures = [
            // A short one is in the superblock.
            ("manifest", read.manifest),
            ("trunk", read.trunk),
            ("run footers", read.footers),
            ("index nodes", read.index),
            ("leaves", read.leaves),
            ("values apart", read.values),
            ("maplet directories", read.directories),
            ("maplet pages", read.maplets),
        ];
        let read_of = |(name, amount): (&'static str, Amount)| CheckedStructure {
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

    /// Returns whether everything was read, and nothing is wrong.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty() && self.unreadable.is_empty()
    }

    /// Returns how many findings there are, listed or not.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.findings.len() as u64 + self.unlisted
    }

    /// Returns what is wrong or could not be read, and a last sentence for what is not listed.
    pub(crate) fn into_sentences(self) -> Vec<String> {
        let mut findings = self.findings;
        findings.extend(self.unreadable);
        if self.unlisted > 0 {
            findings.push(format!("and {} findings more", self.unlisted));
        }
        findings
    }

    /// All bytes that were read.
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
            writeln!(f, "and {} findings more", self.unlisted)?;
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
            "read: {} records, {} values that are kept apart",
            self.records, self.values_apart
        )
    }
}
