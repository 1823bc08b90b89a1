//! Consistency check of a run, which reads all data that a lookup or a scan could reach and reports
//! every error.

use super::cursor::read_leaf;
use super::{HashRun, OwnedHashRecord};
use crate::hashed::leaf::{KeyAt, LeafEntryIter};
use alluvium_base::{MessageKind, Purpose};
use alluvium_dictionary::nodes::DirectNodeReader;
use alluvium_dictionary::read::{CheckReadTotals, DataFiles};
use alluvium_dictionary::record::RecordValue;
use alluvium_storage::NodePointer;

/// Number of leaves that are read from the device in one batch.
const AT_ONCE: u64 = 64;

/// Progress of a check: the last record read, and the counts so far.
#[derive(Default)]
struct RunCheckProgress {
    last: Option<OwnedHashRecord>,
    records: u64,
    tombstones: u64,
    hashes: u64,
}

impl HashRun {
    /// Checks that the leaves are intact and in order (N1), that all hashes are from `hashes.0` to
    /// `hashes.1`, and that each hash is in the index and in the filter (N3). Returns the errors
    /// found.
    pub(in crate::hashed) fn check(
        &self,
        files: DataFiles<'_>,
        hashes: (u64, u64),
        read: &mut CheckReadTotals,
    ) -> Vec<String> {
        let mut found = self.meta.index_errors();
        let mut seen = RunCheckProgress::default();
        let mut next = 0;
        while next < self.leaves() && found.len() < 100 {
            let end = self.leaves().min(next + AT_ONCE);
            let pointers: Vec<NodePointer> = (next..end).filter_map(|leaf| self.meta.leaf(leaf)).collect();
            if pointers.len() as u64 != end - next {
                found.push(format!("leaves {next} to {end} are in no segment (N1)"));
                return found;
            }
            files.nodes(&pointers, &mut |index, leaf| {
                read.leaves.add(&pointers[index]);
                let number = next + index as u64;
                match leaf {
                    Ok(leaf) => self.check_leaf(files, number, &leaf, hashes, &mut seen, read, &mut found),
                    Err(error) => found.push(format!("leaf {number}: {error}")),
                }
            });
            next = end;
        }
        read.records += seen.records;
        let counted = (seen.records, seen.tombstones, seen.hashes);
        let said = (self.meta.records, self.meta.tombstones, self.meta.hashes);
        if found.is_empty() && counted != said {
            found.push(format!(
                "records, deletes and hashes are {counted:?}, but {said:?} are recorded"
            ));
        }
        found
    }

    #[allow(clippy::too_many_arguments)]
    fn check_leaf(
        &self,
        files: DataFiles<'_>,
        number: u64,
        leaf: &[u8],
        hashes: (u64, u64),
        seen: &mut RunCheckProgress,
        read: &mut CheckReadTotals,
        found: &mut Vec<String>,
    ) {
        let Some(pointer) = self.meta.leaf(number) else {
            return;
        };
        let direct = DirectNodeReader {
            tiers: files.tiers,
            page_size: files.page_size,
            purpose: Purpose::Check,
        };
        let checked = read_leaf(self, &pointer, leaf, &direct, &mut |record| {
            let mut record = record.to_owned();
            record.load(&direct)?;
            if let Some(wrong) = self.wrong(&record, number, hashes, seen) {
                found.push(format!("leaf {number}: {wrong}"));
            }
            seen.records += 1;
            seen.tombstones += u64::from(record.kind == MessageKind::Delete);
            seen.hashes += u64::from(seen.last.as_ref().is_none_or(|last| last.hash != record.hash));
            seen.last = Some(OwnedHashRecord {
                operand: Box::default(),
                ..record
            });
            Ok(())
        });
        if let Err(error) = checked {
            found.push(format!("leaf {number}: {error}"));
        }
        self.count_apart(&pointer, leaf, read);
    }

    /// Checks the record after those in `seen`. Returns a description of its first error.
    fn wrong(
        &self,
        record: &OwnedHashRecord,
        leaf: u64,
        hashes: (u64, u64),
        seen: &RunCheckProgress,
    ) -> Option<String> {
        let name = record.key.escape_ascii();
        let after = |last: &OwnedHashRecord| {
            let place = (last.hash, &last.key).cmp(&(record.hash, &record.key));
            place.is_lt() || (place.is_eq() && last.sequence > record.sequence)
        };
        if !seen.last.as_ref().is_none_or(after) {
            return Some(format!("\"{name}\" is out of order (R1)"));
        }
        if record.hash != alluvium_filters::hash(self.seed, &record.key) {
            return Some(format!("\"{name}\" has another hash (R1)"));
        }
        if !(hashes.0..=hashes.1).contains(&record.hash) {
            return Some(format!("\"{name}\" belongs to another part"));
        }
        if !self
            .leaves_of(record.hash)
            .is_ok_and(|leaves| leaves.contains(&leaf))
        {
            return Some(format!("\"{name}\" is not where the index says"));
        }
        if !self.may_hold(record.hash).is_ok_and(|may| may) {
            return Some(format!("\"{name}\" is not in the filter (N3)"));
        }
        None
    }

    /// Adds the separately stored values and keys of a leaf to the totals in `read`.
    fn count_apart(&self, pointer: &NodePointer, leaf: &[u8], read: &mut CheckReadTotals) {
        let place = || pointer.place();
        let Ok(mut entries) = LeafEntryIter::open(leaf, place, self.page_size()) else {
            return;
        };
        while let Ok(Some(entry)) = entries.next(place) {
            if let RecordValue::Separate(pointer) = entry.record.value {
                read.values.add(&pointer.node);
                read.values_apart += 1;
            }
            if let KeyAt::Apart { pointer, .. } = entry.key {
                read.values.add(&pointer.node);
            }
        }
    }
}

impl super::RunDescription {
    /// Checks the index and the filter without reading leaves, and returns the errors found.
    fn index_errors(&self) -> Vec<String> {
        if self.pages.is_empty() {
            return Vec::new();
        }
        let index = self
            .index
            .check()
            .into_iter()
            .map(|what| format!("index: {what}"));
        let filter = self.filter.iter().flat_map(super::HashRunFilter::check);
        index
            .chain(filter.map(|what| format!("filter: {what}")))
            .collect()
    }
}

impl super::HashRunFilter {
    fn check(&self) -> Vec<String> {
        match self.whole() {
            Some(all) => all.check().iter().map(ToString::to_string).collect(),
            None => vec!["pages are missing".to_owned()],
        }
    }
}
