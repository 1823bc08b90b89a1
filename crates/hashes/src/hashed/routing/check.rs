//! Consistency check of a routing filter, which reads all runs of the level and compares their
//! records with the filter.

use super::characters::{AT_ONCE, CharacterReader};
use super::{RoutingFilter, RoutingFilterDescription, RoutingFilterShape};
use crate::hashed::leaf::LeafEntryIter;
use crate::hashed::lists::{PageSource, PrefixSketch, SketchCursor, StoredList};
use crate::hashed::run::HashRun;
use alluvium_base::Purpose;
use alluvium_dictionary::read::DataFiles;
use alluvium_filters::golomb::{BitReader, ByteSource};
use alluvium_storage::{Error, NodePointer, Result};
use std::collections::{BTreeSet, VecDeque};

/// Number of leaves of a run that are read in one batch.
const LEAVES_AT_ONCE: u64 = 8;
/// Maximum number of errors reported for one filter.
const MOST_TOLD: usize = 20;

/// The hash of a record, and the earlier run that the record names, if any.
type RecordLink = (u64, Option<u8>);

/// Iterator over the hashes in a run's records.
struct RecordLinkCursor<'c> {
    files: DataFiles<'c>,
    run: &'c HashRun,
    shape: RoutingFilterShape,
    next: u64,
    ready: VecDeque<RecordLink>,
    /// Errors found so far: records in leaves that a lookup of their prefix would not read (U6).
    wrong: Vec<String>,
}

impl RecordLinkCursor<'_> {
    fn fill(&mut self) -> Result<()> {
        while self.ready.is_empty() && self.next < self.run.leaves() {
            let end = self.run.leaves().min(self.next + LEAVES_AT_ONCE);
            let pointers: Result<Vec<NodePointer>> =
                (self.next..end).map(|leaf| self.run.leaf(leaf)).collect();
            let (pointers, mut failed) = (pointers?, Ok(()));
            let (run, shape, first) = (self.run, self.shape, self.next);
            let (ready, wrong) = (&mut self.ready, &mut self.wrong);
            self.files.nodes(&pointers, &mut |index, leaf| {
                if failed.is_err() {
                    return;
                }
                let place = || pointers[index].place();
                failed = leaf.and_then(|leaf| {
                    let mut entries = LeafEntryIter::open(&leaf, place, run.page_size())?;
                    while let Some(entry) = entries.next(place)? {
                        let hash = entry.key.hash(run.seed());
                        let (group, leaf) = (shape.group(hash), first + index as u64);
                        let (low, high) = (run.leaves_of(group.first)?, run.leaves_of(group.last)?);
                        if !(low.start..high.end).contains(&leaf) && wrong.len() < MOST_TOLD {
                            wrong.push(format!("leaf {leaf} has {hash:016x}, not within its group (U6)"));
                        }
                        ready.push_back((hash, entry.previous));
                    }
                    Ok(())
                });
            });
            failed?;
            self.next = end;
        }
        Ok(())
    }

    /// Returns the prefix of the next record, or `None` after the last one.
    fn prefix(&mut self) -> Result<Option<u64>> {
        self.fill()?;
        Ok(self.ready.front().map(|(hash, _)| self.shape.prefix(*hash)))
    }
}

/// What the runs of a level contain for one prefix: the sketches and, for each run with the prefix,
/// the earlier runs that its records name.
#[derive(Default)]
struct PrefixContents {
    named: Vec<(usize, BTreeSet<Option<u8>>)>,
    sketches: BTreeSet<u64>,
}

/// Iterator over the entries of a filter of latest runs.
struct LatestRuns<'c> {
    filter: &'c RoutingFilter,
    bits: BitReader<CharacterReader<'c>>,
    /// Prefix of the next character.
    next: u64,
}

impl LatestRuns<'_> {
    fn take(&mut self) -> Result<Option<u8>> {
        let bits = u32::from(self.filter.shape().character_bits);
        let character = self.bits.get(bits).map_err(|fault| fault.of(self.filter))?;
        self.next += 1;
        Ok((character != (1 << bits) - 1).then_some(character as u8))
    }

    /// Skips to `prefix`. A skipped prefix for which the filter returns a run is an error, because
    /// no run contains it.
    fn skip_to(&mut self, prefix: u64, found: &mut Vec<String>) -> Result<()> {
        while self.next < prefix {
            let at = self.next;
            if let Some(run) = self.take()?
                && found.len() < MOST_TOLD
            {
                found.push(format!(
                    "prefix {at:x} leads to run {run}, which does not contain it (U4)"
                ));
            }
        }
        Ok(())
    }
}

/// Callback that receives a prefix and what the runs contain for it, and appends any errors.
type PrefixVisitor<'v> = &'v mut dyn FnMut(u64, PrefixContents, &mut Vec<String>) -> Result<()>;

impl StoredList<RoutingFilterDescription> {
    /// Returns whether all pages can be read and decoded. Passes on I/O errors.
    pub(in crate::hashed) fn is_readable(&self, files: DataFiles<'_>) -> Result<bool> {
        let read = match self.shape().is_refined() {
            true => {
                let mut all = SketchCursor::new(PageSource::Files(files), self, Purpose::Check, AT_ONCE);
                std::iter::from_fn(|| all.next().transpose()).try_for_each(|sketch| sketch.map(|_| ()))
            }
            false => {
                let mut all = CharacterReader::new(PageSource::Files(files), self, Purpose::Check);
                let bytes = std::iter::from_fn(|| all.byte().transpose());
                let mut bytes = bytes.map(|byte| byte.map_err(|fault| fault.of(self)));
                bytes.try_for_each(|byte| byte.map(|_| ()))
            }
        };
        match read {
            Ok(()) => Ok(true),
            Err(Error::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Compares the filter with all runs of its level, which must be given oldest first, and
    /// returns the differences (U4 to U6).
    pub(in crate::hashed) fn check(&self, files: DataFiles<'_>, runs: &[HashRun]) -> Vec<String> {
        if runs.len() != usize::from(self.runs()) {
            return vec![format!(
                "of {} runs, but the level has {}",
                self.runs(),
                runs.len()
            )];
        }
        let mut found = Vec::new();
        let checked = match self.shape().is_refined() {
            true => self.check_sketches(files, runs, &mut found),
            false => self.check_latest(files, runs, &mut found),
        };
        if let Err(error) = checked {
            found.push(error.to_string());
        }
        found.truncate(MOST_TOLD);
        found
    }

    /// Calls `visit` for every prefix in the runs, in ascending order.
    fn each_prefix(
        &self,
        files: DataFiles<'_>,
        runs: &[HashRun],
        found: &mut Vec<String>,
        visit: PrefixVisitor<'_>,
    ) -> Result<()> {
        let shape = self.shape();
        let mut all: Vec<RecordLinkCursor<'_>> = runs
            .iter()
            .map(|run| RecordLinkCursor {
                files,
                run,
                shape,
                next: 0,
                ready: VecDeque::new(),
                wrong: Vec::new(),
            })
            .collect();
        loop {
            let mut least: Option<u64> = None;
            for hashes in &mut all {
                least = match (least, hashes.prefix()?) {
                    (Some(least), Some(prefix)) => Some(least.min(prefix)),
                    (least, prefix) => least.or(prefix),
                };
            }
            let Some(least) = least else { break };
            let mut said = PrefixContents::default();
            for (number, hashes) in all.iter_mut().enumerate() {
                let mut named = BTreeSet::new();
                while hashes.prefix()? == Some(least) {
                    let (hash, previous) = hashes.ready.pop_front().expect("it has a prefix");
                    named.insert(previous);
                    let check = u64::from(shape.check(hash));
                    said.sketches
                        .insert((number as u64) << shape.character_bits | check);
                }
                if !named.is_empty() {
                    said.named.push((number, named));
                }
            }
            visit(least, said, found)?;
            if found.len() >= MOST_TOLD {
                return Ok(());
            }
        }
        found.extend(all.into_iter().flat_map(|hashes| hashes.wrong));
        Ok(())
    }

    fn check_latest(&self, files: DataFiles<'_>, runs: &[HashRun], found: &mut Vec<String>) -> Result<()> {
        let mut latest = LatestRuns {
            filter: self,
            bits: BitReader::new(CharacterReader::new(
                PageSource::Files(files),
                self,
                Purpose::Check,
            )),
            next: 0,
        };
        let mut entries = 0;
        self.each_prefix(files, runs, found, &mut |prefix, said, found| {
            entries += 1;
            let mut before: Option<u8> = None;
            for (run, named) in &said.named {
                if named.iter().any(|named| *named != before) {
                    found.push(format!(
                        "prefix {prefix:x} in run {run} names {named:?}, not {before:?} (U4)"
                    ));
                }
                before = Some(*run as u8);
            }
            latest.skip_to(prefix, found)?;
            let leads = latest.take()?;
            if leads != before {
                found.push(format!(
                    "prefix {prefix:x} leads to run {leads:?}, not {before:?} (U4)"
                ));
            }
            Ok(())
        })?;
        if found.len() < MOST_TOLD {
            latest.skip_to(self.shape().last_prefix() + 1, found)?;
        }
        if entries != self.entries() && found.is_empty() {
            found.push(format!("{entries} prefixes, not {} (U4)", self.entries()));
        }
        Ok(())
    }

    fn check_sketches(&self, files: DataFiles<'_>, runs: &[HashRun], found: &mut Vec<String>) -> Result<()> {
        let mut all = SketchCursor::new(PageSource::Files(files), self, Purpose::Check, AT_ONCE);
        let mut entries = 0;
        self.each_prefix(files, runs, found, &mut |prefix, said, found| {
            for payload in said.sketches {
                entries += 1;
                let (expected, next) = (PrefixSketch { prefix, payload }, all.next()?);
                if next != Some(expected) {
                    found.push(format!("{next:?}, but {expected:?} is expected (U5)"));
                    return Ok(());
                }
            }
            Ok(())
        })?;
        if found.is_empty()
            && let Some(more) = all.next()?
        {
            found.push(format!("{more:?}, which no run has (U5)"));
        }
        Ok(())
    }
}
