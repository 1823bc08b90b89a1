//! Repairs runs with damaged leaves by rewriting them without their unreadable records.
//!
//! An unreadable leaf would block every merge of its part and every scan, so a repair replaces the
//! run with a new run of the intact records. An unreadable filter is dropped, and its level is used
//! without a filter.

use super::leaf::{KeyAt, LeafEntryIter};
use super::options::HashedOptions;
use super::rules::RulesCache;
use super::run::{HashRun, HashRunBuilder, OwnedHashRecord, RunMessage, RunOptions, WrittenHashRun};
use super::salvage::ObjectName;
use super::state::{HashPartition, HashStore, HashedVersion};
use super::structure::HashedStructure;
use super::trees::LevelTree;
use alluvium_base::Purpose;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::nodes::DirectNodeReader;
use alluvium_dictionary::read::DataFiles;
use alluvium_dictionary::record::RecordValue;
use alluvium_dictionary::value_log::read_from;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::{Error, NodePointer, Result};
use std::sync::Arc;

/// Number of leaves that are read from the device in one batch.
const AT_ONCE: u64 = 64;

/// Records that were dropped because they could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostData {
    /// The record's key, if only its value is unreadable.
    pub key: Option<Box<[u8]>>,
    /// What was lost and why, for the user.
    pub what: String,
}

/// Result of repairing a structure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashRepairResult {
    /// Number of runs that were rewritten without their damaged records.
    pub runs: u64,
    /// Number of filters and tree lists that were dropped. A level does without its filter until
    /// its runs are merged.
    pub filters: u64,
    pub gone: Vec<LostData>,
    /// The error that kept some damage from being repaired for want of free space, if any.
    pub left: Option<String>,
}

/// Result of reading one record of a run.
enum RecordReadResult {
    Record(OwnedHashRecord),
    /// The record's value is unreadable, but its key is known.
    Valueless(Box<[u8]>, Error),
    /// The record's key is unreadable, but its hash is known.
    Keyless(u64, Error),
    /// A leaf, or the rest of one, is unreadable.
    Leaf(Error),
}

/// A gap of consecutive unreadable records in a run.
struct DamagedRange {
    /// Hashes of the intact records before and after the gap or, at either end of the run, the
    /// lowest or highest hash that the run may contain.
    from: u64,
    to: u64,
    why: String,
}

/// Describes the data lost in the gaps of a run. Only gaps within `asked` matter, because lookups
/// do not use the run for other hashes. `lost` and `all` are the numbers of lost records and of all
/// records in the run. Returns `None` if parts already contain the data of all gaps.
fn lasting(
    gaps: &[DamagedRange],
    asked: &QueriedHashRanges,
    (lost, all): (u64, u64),
    place: &str,
) -> Option<LostData> {
    let lasting: Vec<&DamagedRange> = gaps.iter().filter(|gap| !asked.within(gap).is_empty()).collect();
    let first = lasting.first()?;
    let ranges = lasting.iter().flat_map(|gap| asked.within(gap));
    let ranges = ranges.map(|(from, to)| format!("{from:016x} to {to:016x}"));
    let ranges: Vec<String> = ranges.collect();
    // A part may already contain some of the data in a gap, so the number of lost records is an
    // upper bound.
    let is_exact = gaps.iter().all(|gap| asked.within(gap) == [(gap.from, gap.to)]);
    let most = if is_exact { "" } else { "up to " };
    let what = format!(
        "{most}{lost} of {all} records of {place}, in this or another hashed keyspace, of keys with hashes from {} ({})",
        ranges.join(", "),
        first.why
    );
    Some(LostData { key: None, what })
}

/// The hashes for which lookups use a run, as ascending, disjoint and inclusive ranges.
struct QueriedHashRanges(Vec<(u64, u64)>);

impl QueriedHashRanges {
    fn has(&self, hash: u64) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&hash))
    }

    /// Returns the intersection of the ranges with a gap.
    fn within(&self, gap: &DamagedRange) -> Vec<(u64, u64)> {
        let common = |&(first, last): &(u64, u64)| (first.max(gap.from), last.min(gap.to));
        let ranges = self.0.iter().map(common);
        ranges.filter(|(first, last)| first <= last).collect()
    }
}

impl HashedStructure {
    /// Rewrites every run that has damaged leaves, keys or values, without the unreadable data.
    /// Reads all data of the structure, which the caller must protect from concurrent changes.
    ///
    /// # Errors
    /// I/O errors. Runs that have already been rewritten stay repaired.
    ///
    /// # Panics
    /// If a repair is necessary while a merge is in progress.
    pub fn repair(&self) -> Result<HashRepairResult> {
        let mut mended = HashRepairResult {
            filters: self.drop_unreadable_filters()?,
            ..HashRepairResult::default()
        };
        let version = self.version();
        let options = &self.shared.options;
        let young = version.young.iter().map(|young| {
            let asked = QueriedHashRanges(version.waiting(young.age, options));
            (ObjectName::Young, young.run.clone(), asked)
        });
        let parts = version.parts.iter().enumerate().flat_map(|(number, part)| {
            let asked = move || QueriedHashRanges(vec![options.hashes_of(number)]);
            part.runs()
                .map(move |run| (ObjectName::Part(number), run.run.clone(), asked()))
        });
        let runs: Vec<(ObjectName, HashRun, QueriedHashRanges)> = young.chain(parts).collect();
        for (name, run, asked) in runs {
            if self.is_sound(&run)? {
                continue;
            }
            match self.write_again(name, &run, &asked, &mut mended.gone) {
                Ok(written) => {
                    self.replace(&run, written);
                    mended.runs += 1;
                }
                Err(error) if error.is_full() => {
                    mended.left = Some(error.to_string());
                    return Ok(mended);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(mended)
    }

    /// Drops the filters and tree lists that cannot be read, and returns their number.
    fn drop_unreadable_filters(&self) -> Result<u64> {
        let files = DataFiles::of(&self.shared.home.store);
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let (mut parts, mut left) = (version.parts.clone(), 0);
        for part in &mut parts {
            let mut levels = part.levels.clone();
            let before = left;
            for level in &mut levels {
                if let Some(filter) = &level.filter
                    && !filter.is_readable(files)?
                {
                    level.filter = None;
                    left += 1;
                }
                if let Some(tree) = &mut level.tree {
                    let (root, lists) = tree.root.readable(files)?;
                    tree.root = root;
                    left += lists;
                }
            }
            if left > before {
                let upto = part.upto;
                *part = Arc::new(HashPartition { levels, upto });
            }
        }
        if left > 0 {
            assert!(
                kept.job.is_none(),
                "nothing is merged while filters are mended (W4)"
            );
            let version = HashedVersion {
                stamp: version.stamp.changed(version.stamp.cut),
                young: version.young.clone(),
                parts,
                next_age: version.next_age,
            };
            self.publish(&mut kept, version);
        }
        Ok(left)
    }

    fn is_sound(&self, run: &HashRun) -> Result<bool> {
        let mut is_sound = true;
        self.each(run, &mut |found| {
            is_sound &= matches!(found, RecordReadResult::Record(_));
            Ok(())
        })?;
        Ok(is_sound)
    }

    /// Reads all records of a run in order, and passes each record, or the damage in its place, to
    /// `visit`.
    fn each(&self, run: &HashRun, visit: &mut dyn FnMut(RecordReadResult) -> Result<()>) -> Result<()> {
        let files = DataFiles::of(&self.shared.home.store);
        let direct = DirectNodeReader {
            tiers: files.tiers,
            page_size: files.page_size,
            purpose: Purpose::Check,
        };
        let mut next = 0;
        while next < run.leaves() {
            let end = run.leaves().min(next + AT_ONCE);
            let pointers: Result<Vec<NodePointer>> = (next..end).map(|leaf| run.leaf(leaf)).collect();
            let (pointers, mut result) = (pointers?, Ok(()));
            files.nodes(&pointers, &mut |index, leaf| {
                if result.is_err() {
                    return;
                }
                let read = leaf.and_then(|leaf| of_leaf(run, &pointers[index], &leaf, &direct, visit));
                result = damage(read).and_then(|damage| match damage {
                    Some(error) => visit(RecordReadResult::Leaf(error)),
                    None => Ok(()),
                });
            });
            result?;
            next = end;
        }
        Ok(())
    }

    /// Writes the intact records of a run to a new run, and appends a description of the lost data
    /// to `gone`. Unreadable records of a hash store do not count as lost if their part already
    /// contains them.
    fn write_again(
        &self,
        name: ObjectName,
        run: &HashRun,
        asked: &QueriedHashRanges,
        gone: &mut Vec<LostData>,
    ) -> Result<Option<WrittenHashRun>> {
        let shared = &self.shared;
        let options = match name {
            ObjectName::Young => self.young_options(AllocationClass::Essential, run.device_bytes()),
            ObjectName::Part(_) | ObjectName::Filter(_) | ObjectName::List(_) => RunOptions {
                index: shared.options.index,
                filter_bits: None,
                seed: shared.options.own_seed(),
                purpose: Purpose::Compact,
                class: AllocationClass::Essential,
                tier: self.tier_beside(run),
            },
        };
        let mut builder = HashRunBuilder::new(&shared.home.store, &options, run.records())?;
        builder.delete_ranges(Arc::clone(run.range_deletes()));
        let mut rules = RulesCache::new(&shared.home.schema);
        let mut gaps = DamagedRangeCollector::new(name, &shared.options);
        let place = name.told(shared.options.form, shared.options.parts());
        let (mut named, mut taken) = (0, 0);
        self.each(run, &mut |found| {
            match found {
                RecordReadResult::Record(record) => {
                    gaps.sound(record.hash);
                    let rules = rules.of(&record.key);
                    let message = RunMessage {
                        sequence: record.sequence,
                        kind: record.kind,
                        expires_ms: record.expires_ms,
                        operand: &record.operand,
                    };
                    builder.push(record.hash, &record.key, message, &rules)?;
                }
                RecordReadResult::Valueless(key, _) if !asked.has(self.hash_of(LookupKey::new(&key))) => {
                    taken += 1;
                }
                RecordReadResult::Keyless(hash, _) if !asked.has(hash) => {
                    taken += 1;
                    gaps.sound(hash);
                }
                RecordReadResult::Valueless(key, error) => {
                    named += 1;
                    let what = format!("a value in {place}; an older one may take its place ({error})");
                    gone.push(LostData { key: Some(key), what });
                }
                RecordReadResult::Keyless(hash, error) => {
                    gaps.sound(hash);
                    gaps.damaged(&error);
                    gaps.sound(hash);
                }
                RecordReadResult::Leaf(error) => gaps.damaged(&error),
            }
            Ok(())
        })?;
        let lost = run.records().saturating_sub(builder.records() + named + taken);
        let written = builder.finish()?;
        gone.extend(lasting(&gaps.end(), asked, (lost, run.records()), &place));
        Ok(written)
    }

    /// Publishes a version in which the rewritten run replaces the old one, or in which the run is
    /// gone if nothing is left of it.
    fn replace(&self, run: &HashRun, written: Option<WrittenHashRun>) {
        let mut kept = self.shared.kept.lock();
        assert!(kept.job.is_none(), "nothing is merged while runs are mended (W4)");
        let version = self.version();
        let new = written.map(|written| written.install());
        let is_it = |other: &HashRun| other.pointer() == run.pointer();
        let young = version.young.iter().filter_map(|young| match is_it(&young.run) {
            true => {
                let run = new.clone()?;
                Some(Arc::new(HashStore { age: young.age, run }))
            }
            false => Some(Arc::clone(young)),
        });
        let parts = version.parts.iter().map(|part| {
            let mut runs = part.runs();
            if !runs.any(|run| is_it(&run.run)) {
                return Arc::clone(part);
            }
            let mut changed = HashPartition::clone(part);
            for level in &mut changed.levels {
                let Some(place) = level.runs.iter().position(|run| is_it(&run.run)) else {
                    continue;
                };
                // Lost records may have named earlier runs (U4), so lookups can no longer follow
                // the filter. Drop it, so that they read all runs of the level until it is merged.
                level.filter = None;
                match &new {
                    Some(run) => level.runs[place].run = run.clone(),
                    None => drop(level.runs.remove(place)),
                }
                // The tree's lists may contain hashes of lost records (V4), but must not contain a
                // leaf whose run is removed.
                if let Some(tree) = &level.tree {
                    let root = match &new {
                        Some(_) => tree.root.clone(),
                        None => tree.root.without_leaf(place),
                    };
                    let has_runs = !level.runs.is_empty();
                    level.tree = has_runs.then(|| LevelTree::new(root, tree.is_settled, &level.runs));
                }
            }
            changed.trim();
            Arc::new(changed)
        });
        let version = HashedVersion {
            stamp: version.stamp.changed(version.stamp.cut),
            young: young.collect(),
            parts: parts.collect(),
            next_age: version.next_age,
        };
        self.publish(&mut kept, version);
    }
}

/// Returns the error if it reports damaged data, and `None` on success. Passes on any other error.
fn damage<T>(result: Result<T>) -> Result<Option<Error>> {
    match result {
        Ok(_) => Ok(None),
        Err(error @ Error::Corrupt { .. }) => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

/// Decodes the records of a leaf with their values, and passes each record, or the damage in its
/// place, to `visit`.
fn of_leaf(
    run: &HashRun,
    pointer: &NodePointer,
    leaf: &[u8],
    nodes: &DirectNodeReader<'_>,
    visit: &mut dyn FnMut(RecordReadResult) -> Result<()>,
) -> Result<()> {
    let place = || pointer.place();
    let mut entries = LeafEntryIter::open(leaf, place, nodes.page_size)?;
    let mut last: Option<(u64, Box<[u8]>)> = None;
    while let Some(entry) = entries.next(place)? {
        match entry.key {
            _ if entry.is_same_key => {}
            KeyAt::Here(key) => last = Some((entry.key.hash(run.seed()), key.into())),
            KeyAt::Apart { hash, pointer } => {
                let mut key = Vec::new();
                last = match damage(read_from(nodes, &pointer, &mut key))? {
                    None => Some((hash, key.into())),
                    Some(error) => {
                        visit(RecordReadResult::Keyless(hash, error))?;
                        None
                    }
                };
            }
        }
        // An unreadable key makes all its messages useless, so skip them.
        let Some((hash, key)) = &last else { continue };
        let (operand, apart) = match entry.record.value {
            RecordValue::Inline(value) => (value.into(), None),
            RecordValue::Separate(pointer) => (Box::default(), Some(pointer)),
        };
        let mut record = OwnedHashRecord {
            hash: *hash,
            key: key.clone(),
            sequence: entry.record.sequence + run.base(),
            kind: entry.record.kind,
            expires_ms: entry.record.expires_ms,
            operand,
            apart,
        };
        let found = match damage(record.load(nodes))? {
            None => RecordReadResult::Record(record),
            Some(error) => RecordReadResult::Valueless(record.key, error),
        };
        visit(found)?;
    }
    Ok(())
}

/// Collects the gaps in a run while its records are read in order.
struct DamagedRangeCollector {
    done: Vec<DamagedRange>,
    open: Option<DamagedRange>,
    /// `at` is the hash of the last intact record, or the lowest hash that the run may contain at
    /// the start. `end` is the highest hash that the run may contain.
    at: u64,
    end: u64,
}

impl DamagedRangeCollector {
    fn new(name: ObjectName, options: &HashedOptions) -> DamagedRangeCollector {
        let (at, end) = match name {
            ObjectName::Young => (0, u64::MAX),
            ObjectName::Part(part) | ObjectName::Filter(part) | ObjectName::List(part) => {
                options.hashes_of(part)
            }
        };
        DamagedRangeCollector {
            done: Vec::new(),
            open: None,
            at,
            end,
        }
    }

    fn damaged(&mut self, error: &Error) {
        let (from, to) = (self.at, self.end);
        self.open.get_or_insert_with(|| DamagedRange {
            from,
            to,
            why: error.to_string(),
        });
    }

    fn sound(&mut self, hash: u64) {
        self.at = hash;
        let closed = self.open.take();
        self.done
            .extend(closed.map(|gap| DamagedRange { to: hash, ..gap }));
    }

    fn end(mut self) -> Vec<DamagedRange> {
        let open = self.open.take();
        self.done.extend(open);
        self.done
    }
}
