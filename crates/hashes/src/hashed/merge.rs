//! A merge: what hash stores say of the hashes of one part becomes the part's next run, or several
//! of them become one. It is written beside the structure, and shown at once.
//!
//! A part is the oldest that there is of its hashes. So deletes that no reader can tell from
//! nothing go, as SILT's do (Lim's thesis, table 2.3), and a deleted range becomes a delete of each
//! key of the part that it covers. Below hash stores that are joined there is more: their deletes
//! stay. What parts have taken of them already is left out.

use super::options::{HashedOptions, IndexKind};
use super::policy::{Choice, choose};
use super::rules::RulesCache;
use super::run::{Builder, Cursor, Message, Owned, Run, RunOptions, Written};
use super::state::{Age, Job, Kept, Part, Version, Young};
use super::structure::Hashed;
use alluvium_base::message::LAST;
use alluvium_base::{Message as Said, Purpose};
use alluvium_dictionary::contract::{Progress, Step};
use alluvium_dictionary::deletes::{Draft, RangeDeletes};
use alluvium_dictionary::merge::{Folder, Older, Rule};
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A merge under way. Dropped, it gives up what it wrote.
#[derive(Debug)]
pub struct MergeStep {
    hashed: Hashed,
    job: Job,
    choice: Choice,
    /// Whether a user wants it.
    is_wanted: bool,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Due,
    Merging(Box<Merging>),
    Over,
}

/// Deleted ranges of a merge's sources.
#[derive(Debug)]
enum Deletes {
    /// Of each source, newest first: they become deletes of keys.
    OfEach(Vec<Arc<RangeDeletes>>),
    /// All together: they stay, and what they cover goes.
    Kept(Arc<RangeDeletes>),
}

/// The sources of a merge and its result.
#[derive(Debug)]
struct Merging {
    /// Newest first.
    sources: Vec<Cursor>,
    /// Those of the sources.
    deletes: Deletes,
    options: HashedOptions,
    /// Where hash stores are joined: up to which age each part has taken them, and the ages of the
    /// sources.
    taken: Option<(Vec<Age>, Vec<Age>)>,
    rule: Rule,
    rules: RulesCache,
    asks_filters: bool,
    builder: Builder,
    group: Vec<Owned>,
}

impl Hashed {
    fn due(&self, kept: &Kept, version: &Version) -> Option<Choice> {
        match kept.job {
            Some(_) => None,
            None => choose(&version.view(&kept.wanted), &self.shared.options),
        }
    }

    /// Begins the merge that is due, if one is.
    pub(super) fn next_merge(&self) -> Option<MergeStep> {
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let choice = self.due(&kept, &version)?;
        let job = Job {
            number: kept.next_job,
        };
        kept.next_job += 1;
        kept.job = Some(job);
        let is_wanted = match choice {
            Choice::Part { part, .. } => std::mem::take(&mut kept.wanted[part]),
            Choice::Join { .. } => false,
        };
        Some(MergeStep {
            hashed: self.clone(),
            job,
            choice,
            is_wanted,
            phase: Phase::Due,
        })
    }

    /// All parts are to be rewritten.
    pub(super) fn want_all(&self) {
        self.shared.kept.lock().wanted.fill(true);
    }

    /// Returns how many merges are due or under way.
    pub(super) fn steps(&self) -> u64 {
        let kept = self.shared.kept.lock();
        let version = self.version();
        u64::from(kept.job.is_some() || self.due(&kept, &version).is_some())
    }

    /// Returns whether a merge is under way, or due and not known to need more space than there is.
    #[must_use]
    pub fn may_compact(&self) -> bool {
        let kept = self.shared.kept.lock();
        let version = self.version();
        let is_due = self.due(&kept, &version).is_some();
        kept.job.is_some() || (is_due && !kept.is_cramped)
    }
}

impl Merging {
    /// Merges what there is of the next hash; none left.
    fn next(&mut self) -> Result<Option<usize>> {
        let heads = self.sources.iter().filter_map(|source| source.head());
        let Some(hash) = heads.map(|head| head.hash).min() else {
            return Ok(None);
        };
        self.group.clear();
        // Newest source first, so that a stable sort leaves the messages of a key newest first.
        let part = self.options.part_of(hash);
        for (number, source) in self.sources.iter_mut().enumerate() {
            let taken = self.taken.as_ref();
            let is_taken = taken.is_some_and(|(upto, ages)| ages[number] < upto[part]);
            while source.head().is_some_and(|head| head.hash == hash) {
                match is_taken {
                    true => source.skip()?,
                    false => self.group.extend(source.take()?),
                }
            }
        }
        self.group.sort_by(|one, other| one.key.cmp(&other.key));
        let group = std::mem::take(&mut self.group);
        for records in group.chunk_by(|one, other| one.key == other.key) {
            self.fold(hash, records)?;
        }
        let taken = group.len();
        self.group = group;
        Ok(Some(taken))
    }

    /// What remains of a key goes into the result.
    fn fold(&mut self, hash: u64, records: &[Owned]) -> Result<()> {
        let key = &*records[0].key;
        let rules = self.rules.of(key);
        let mut folder = Folder::new(&self.rule, rules.operator.as_deref());
        if let Some(filter) = rules.filter.as_deref().filter(|_| self.asks_filters) {
            folder = folder.filtered(filter, self.rules.user_key(key));
        }
        let mut messages: Vec<Said<'_>> = records.iter().map(Owned::message).collect();
        let nothing = Arc::default();
        let (of_each, kept) = match &self.deletes {
            Deletes::OfEach(deletes) => (&deletes[..], &nothing),
            Deletes::Kept(deletes) => (&[][..], deletes),
        };
        for deletes in of_each.iter().filter(|deletes| !deletes.is_empty()) {
            let mut at = LAST;
            while let Some(sequence) = deletes.covering(key, at) {
                messages.push(Said::delete(sequence));
                // Of those that every reader sees the newest is enough.
                if sequence <= self.rule.horizon {
                    break;
                }
                at = sequence - 1;
            }
        }
        if messages.len() > records.len() {
            messages.sort_by_key(|message| std::cmp::Reverse(message.sequence));
        }
        debug_assert!(
            messages.is_sorted_by(|newer, older| newer.sequence >= older.sequence),
            "messages of a key come newest first"
        );
        let (builder, mut pushed) = (&mut self.builder, Ok(()));
        folder.fold(
            messages,
            |reader| kept.covering(key, reader),
            |folded| {
                if pushed.is_ok() {
                    let message = Message {
                        sequence: folded.sequence,
                        kind: folded.kind,
                        expires_ms: folded.expires_ms,
                        operand: folded.operand,
                    };
                    pushed = builder.push(hash, key, message, &rules);
                }
            },
        );
        pushed
    }
}

impl MergeStep {
    fn class(&self) -> Class {
        match self.hashed.shared.is_scarce.load(Ordering::Relaxed) {
            _ if self.is_wanted => Class::Freeing,
            true => Class::Essential,
            false => Class::Normal,
        }
    }

    fn begin(&self) -> Result<Merging> {
        let shared = &self.hashed.shared;
        let version = self.hashed.version();
        let (wanted, part) = match self.choice {
            Choice::Part { part, upto } => (version.parts[part].upto..upto, Some(part)),
            Choice::Join { oldest, newest } => (oldest..newest + 1, None),
        };
        let young = version.young.iter().filter(|young| wanted.contains(&young.age));
        let ages: Vec<Age> = young.clone().map(|young| young.age).collect();
        let young = young.map(|young| young.run.clone());
        let runs: Vec<Run> = match part {
            Some(part) => young.chain(version.parts[part].run.clone()).collect(),
            None => young.collect(),
        };
        let deletes: Vec<_> = runs.iter().map(|run| Arc::clone(run.range_deletes())).collect();
        let hashes = part.map_or((0, u64::MAX), |part| shared.options.hashes_of(part));
        let open = |run| Cursor::open(&shared.home.store, run, hashes, Purpose::Compact);
        let sources: Result<Vec<Cursor>> = runs.into_iter().map(open).collect();
        let is_join = part.is_none();
        let options = RunOptions {
            index: if is_join {
                IndexKind::PaCHash
            } else {
                shared.options.index
            },
            filter_bits: is_join.then_some(shared.options.filter_bits),
            purpose: Purpose::Compact,
            class: self.class(),
        };
        let mut builder = Builder::new(&shared.home.store, &options)?;
        let deletes = match is_join {
            false => Deletes::OfEach(deletes),
            true => {
                let all = KeyRange::new(b"", None);
                let sources: Vec<_> = deletes.iter().map(|deletes| (&**deletes, &all)).collect();
                let deletes = Arc::new(Draft::merged(&sources).finish());
                builder.delete_ranges(Arc::clone(&deletes));
                Deletes::Kept(deletes)
            }
        };
        let upto = || version.parts.iter().map(|part| part.upto).collect();
        Ok(Merging {
            sources: sources?,
            deletes,
            options: shared.options.clone(),
            taken: is_join.then(|| (upto(), ages)),
            rule: shared.home.horizon.rule(match is_join {
                true => Older::Elsewhere,
                false => Older::None,
            }),
            rules: RulesCache::new(&shared.home.schema),
            asks_filters: !is_join && shared.home.horizon.asks_filters(),
            builder,
            group: Vec::new(),
        })
    }

    fn go_on(&mut self, records: usize) -> Result<Progress> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Due => {
                self.phase = Phase::Merging(Box::new(self.begin()?));
                Ok(Progress::More)
            }
            Phase::Merging(mut merging) => {
                let mut left = records.max(1);
                merging.rules.clear();
                while left > 0 {
                    let Some(taken) = merging.next()? else {
                        let written = merging.builder.finish()?;
                        self.install(written);
                        return Ok(Progress::Done);
                    };
                    left = left.saturating_sub(taken);
                }
                self.phase = Phase::Merging(merging);
                Ok(Progress::More)
            }
            Phase::Over => Ok(Progress::Done),
        }
    }

    /// Puts the result in the place of the part, or of the hash stores that were joined.
    fn install(&self, written: Option<Written>) {
        let mut kept = self.hashed.shared.kept.lock();
        assert_eq!(kept.job, Some(self.job), "one merge runs at a time (W4)");
        let records = written.as_ref().map_or(0, |written| written.run().records());
        kept.merged = (kept.merged.0 + 1, kept.merged.1 + records);
        let version = self.hashed.version();
        let (mut young, mut parts) = (version.young.clone(), version.parts.clone());
        let run = written.map(Written::install);
        match self.choice {
            Choice::Part { part, upto } => parts[part] = Arc::new(Part { run, upto }),
            Choice::Join { oldest, newest } => {
                let at = young.partition_point(|young| young.age > newest);
                young.retain(|young| !(oldest..=newest).contains(&young.age));
                let joined = run.map(|run| Arc::new(Young { age: newest, run }));
                young.splice(at..at, joined);
                kept.joins += 1;
            }
        }
        let version = Version {
            young,
            parts,
            cut: version.cut,
            next_age: version.next_age,
            ..Version::default()
        };
        self.hashed.publish(&mut kept, version);
        kept.is_cramped = false;
        kept.job = None;
    }

    /// Gives up what was written and not installed.
    fn give_up(&mut self) {
        self.phase = Phase::Over;
        let mut kept = self.hashed.shared.kept.lock();
        if kept.job == Some(self.job) {
            kept.job = None;
            if let Choice::Part { part, .. } = self.choice {
                kept.wanted[part] |= self.is_wanted;
            }
        }
    }
}

impl Step for MergeStep {
    fn poll(&mut self, records: usize) -> Result<Progress> {
        let result = self.go_on(records);
        let result = self.hashed.judge(result);
        if let Err(error) = &result {
            self.hashed.shared.kept.lock().is_cramped |= error.is_full();
            self.give_up();
        }
        result
    }

    fn number(&self) -> Option<u64> {
        Some(self.job.number)
    }
}

impl Drop for MergeStep {
    fn drop(&mut self) {
        self.give_up();
    }
}
