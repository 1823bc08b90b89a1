//! A merge: what hash stores say of the hashes of one part becomes the part's next run, beside the
//! structure, and is shown at once.
//!
//! The part is the oldest that there is of its hashes. So deletes that no reader can tell from
//! nothing go, as SILT's do (Lim's thesis, table 2.3), and a deleted range becomes a delete of each
//! key of the part that it covers.

use super::policy::{Choice, View, choose};
use super::rules::RulesCache;
use super::run::{Builder, Cursor, Message, Owned, Run, RunOptions, Written};
use super::state::{Job, Kept, Part, Version};
use super::structure::Hashed;
use alluvium_base::message::LAST;
use alluvium_base::{Message as Said, Purpose};
use alluvium_dictionary::contract::{Progress, Step};
use alluvium_dictionary::deletes::RangeDeletes;
use alluvium_dictionary::merge::{Folder, Older, Rule};
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

/// The sources of a merge and its result.
#[derive(Debug)]
struct Merging {
    /// Newest first.
    sources: Vec<Cursor>,
    /// Those of the sources, newest first.
    deletes: Vec<Arc<RangeDeletes>>,
    rule: Rule,
    rules: RulesCache,
    asks_filters: bool,
    builder: Builder,
    group: Vec<Owned>,
}

impl Hashed {
    fn view(&self, kept: &Kept, version: &Version) -> View {
        let young = version.young.iter();
        let parts = version.parts.iter();
        View {
            young_bytes: young.map(|young| young.run.bytes()).sum(),
            young: version.young.len() as u32,
            sorted_bytes: parts
                .clone()
                .filter_map(|part| part.run.as_ref())
                .map(Run::bytes)
                .sum(),
            upto: parts.map(|part| part.upto).collect(),
            next_age: version.next_age,
            wanted: kept.wanted.clone(),
        }
    }

    fn due(&self, kept: &Kept, version: &Version) -> Option<Choice> {
        match kept.job {
            Some(_) => None,
            None => choose(&self.view(kept, version), &self.shared.options),
        }
    }

    /// Begins the merge that is due, if one is.
    pub(super) fn next_merge(&self) -> Option<MergeStep> {
        let mut kept = self.shared.kept.lock();
        let version = self.version();
        let choice = self.due(&kept, &version)?;
        let job = Job {
            number: kept.next_job,
            part: choice.part,
        };
        kept.next_job += 1;
        kept.job = Some(job);
        Some(MergeStep {
            hashed: self.clone(),
            job,
            choice,
            is_wanted: std::mem::take(&mut kept.wanted[choice.part]),
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
        for source in &mut self.sources {
            while source.head().is_some_and(|head| head.hash == hash) {
                self.group.extend(source.take()?);
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
        for deletes in self.deletes.iter().filter(|deletes| !deletes.is_empty()) {
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
            |_| None,
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
        let part = &version.parts[self.choice.part];
        let hashes = shared.options.hashes_of(self.choice.part);
        let wanted = part.upto..self.choice.upto;
        let young = version.young.iter().filter(|young| wanted.contains(&young.age));
        let runs: Vec<Run> = young
            .map(|young| young.run.clone())
            .chain(part.run.clone())
            .collect();
        let deletes = runs.iter().map(|run| Arc::clone(run.range_deletes())).collect();
        let open = |run| Cursor::open(&shared.home.store, run, hashes, Purpose::Compact);
        let sources: Result<Vec<Cursor>> = runs.into_iter().map(open).collect();
        let options = RunOptions {
            index: shared.options.index,
            filter_bits: None,
            purpose: Purpose::Compact,
            class: self.class(),
        };
        Ok(Merging {
            sources: sources?,
            deletes,
            rule: shared.home.horizon.rule(Older::None),
            rules: RulesCache::new(&shared.home.schema),
            asks_filters: shared.home.horizon.asks_filters(),
            builder: Builder::new(&shared.home.store, &options)?,
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

    /// Puts the result in the place of the part.
    fn install(&self, written: Option<Written>) {
        let mut kept = self.hashed.shared.kept.lock();
        assert_eq!(kept.job, Some(self.job), "one merge runs at a time (W4)");
        let records = written.as_ref().map_or(0, |written| written.run().records());
        kept.merged = (kept.merged.0 + 1, kept.merged.1 + records);
        let version = self.hashed.version();
        let mut parts = version.parts.clone();
        parts[self.choice.part] = Arc::new(Part {
            run: written.map(Written::install),
            upto: self.choice.upto,
        });
        let version = Version {
            young: version.young.clone(),
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
            kept.wanted[self.choice.part] |= self.is_wanted;
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
