//! Consistency check of a routing tree list, which reads all runs below the list and compares their
//! hashes with the entries.

use super::{RoutingList, RoutingListCursor, RoutingListDescription};
use crate::hashed::leaf::LeafEntryIter;
use crate::hashed::lists::{PageSource, PrefixSketch, StoredList};
use crate::hashed::run::HashRun;
use alluvium_base::Purpose;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::{Error, NodePointer, Result};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Maximum number of errors reported for one list.
const MOST_TOLD: usize = 20;
/// Total number of leaves to read ahead, over all runs.
const AHEAD: u64 = 256;

/// Iterator over the distinct hashes of a run, in ascending order.
struct DistinctHashIter<'c> {
    files: DataFiles<'c>,
    run: &'c HashRun,
    child: usize,
    next: u64,
    ahead: u64,
    ready: VecDeque<u64>,
    last: Option<u64>,
}

impl DistinctHashIter<'_> {
    fn next(&mut self) -> Result<Option<u64>> {
        while self.ready.is_empty() && self.next < self.run.leaves() {
            self.fill()?;
        }
        Ok(self.ready.pop_front())
    }

    fn fill(&mut self) -> Result<()> {
        let end = self.run.leaves().min(self.next + self.ahead);
        let pointers: Result<Vec<NodePointer>> = (self.next..end).map(|leaf| self.run.leaf(leaf)).collect();
        let (pointers, mut failed) = (pointers?, Ok(()));
        let (run, ready, last) = (self.run, &mut self.ready, &mut self.last);
        self.files.nodes(&pointers, &mut |index, leaf| {
            if failed.is_err() {
                return;
            }
            let place = || pointers[index].place();
            failed = leaf.and_then(|leaf| {
                let mut entries = LeafEntryIter::open(&leaf, place, run.page_size())?;
                while let Some(entry) = entries.next(place)? {
                    let hash = entry.key.hash(run.seed());
                    if last.replace(hash) != Some(hash) {
                        ready.push_back(hash);
                    }
                }
                Ok(())
            });
        });
        failed?;
        self.next = end;
        Ok(())
    }
}

/// Iterator over the entries that a list must have, given the runs below it (V2, V3).
struct ExpectedEntries<'c> {
    runs: Vec<DistinctHashIter<'c>>,
    next: BinaryHeap<Reverse<(u64, usize, u64)>>,
    list: &'c RoutingList,
    count: u64,
}

impl<'c> ExpectedEntries<'c> {
    fn new(
        files: DataFiles<'c>,
        list: &'c RoutingList,
        runs: &'c [(HashRun, usize)],
    ) -> Result<ExpectedEntries<'c>> {
        let ahead = (AHEAD / runs.len().max(1) as u64).clamp(1, 8);
        let of_run = |(run, child): &'c (HashRun, usize)| DistinctHashIter {
            files,
            run,
            child: *child,
            next: 0,
            ahead,
            ready: VecDeque::new(),
            last: None,
        };
        let mut wanted = ExpectedEntries {
            runs: runs.iter().map(of_run).collect(),
            next: BinaryHeap::new(),
            list,
            count: 0,
        };
        for run in 0..wanted.runs.len() {
            wanted.advance(run)?;
        }
        Ok(wanted)
    }

    fn advance(&mut self, run: usize) -> Result<()> {
        if let Some(hash) = self.runs[run].next()? {
            let head = self.list.head();
            let prefix = head.cut.first(hash, head.prefix_bits());
            self.next.push(Reverse((prefix, run, hash)));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<PrefixSketch>> {
        let Some(Reverse((_, run, hash))) = self.next.pop() else {
            return Ok(None);
        };
        self.count += 1;
        self.advance(run)?;
        Ok(Some(self.list.head().entry(hash, self.runs[run].child)))
    }
}

impl StoredList<RoutingListDescription> {
    /// Returns whether all pages can be read and decoded. Passes on I/O errors.
    pub(in crate::hashed) fn is_readable(&self, files: DataFiles<'_>) -> Result<bool> {
        let mut all = RoutingListCursor::new(PageSource::Files(files), self, Purpose::Check, 16);
        loop {
            match all.next() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(true),
                Err(Error::Corrupt { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Compares the list with the runs below it and returns the differences (V2 to V4). The runs
    /// must be given oldest first, each with the index of the child that contains it.
    pub(in crate::hashed) fn check(&self, files: DataFiles<'_>, runs: &[(HashRun, usize)]) -> Vec<String> {
        let mut found = Vec::new();
        if let Err(error) = self.compare(files, runs, &mut found) {
            found.push(error.to_string());
        }
        found
    }

    fn compare(
        &self,
        files: DataFiles<'_>,
        runs: &[(HashRun, usize)],
        found: &mut Vec<String>,
    ) -> Result<()> {
        let mut all = RoutingListCursor::new(PageSource::Files(files), self, Purpose::Check, 16);
        let mut wanted = ExpectedEntries::new(files, self, runs)?;
        let mut next = wanted.next()?;
        let children = u64::from(self.head().children);
        let child_bits = 2 * self.head().cut.character_bits;
        while let Some(entry) = all.next()? {
            if children > 0 && entry.payload >> child_bits >= children {
                found.push(format!("{entry:?}, of {children} children (V2)"));
            }
            // Ignore extra entries, because a repair may have removed their hashes from the runs
            // (V4).
            if next == Some(entry) {
                next = wanted.next()?;
            }
            if found.len() >= MOST_TOLD {
                return Ok(());
            }
        }
        if let Some(missing) = next {
            found.push(format!(
                "{missing:?} is not where the runs below have it (V2, V3)"
            ));
        }
        Ok(())
    }
}
