//! Flushes a structure's share of a memtable to the newest hash store. The keys are sorted by hash
//! first, so that their records can be written sequentially.

use super::rules::RulesCache;
use super::run::{HashRunBuilder, RunMessage, RunOptions, WrittenHashRun};
use super::state::{HashStore, HashedVersion};
use super::structure::HashedStructure;
use alluvium_base::Purpose;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::contract::{MemtableIncorporation, StepProgress};
use alluvium_dictionary::key::{LookupKey, SEED};
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::merge::{FoldRule, MessageFolder, OlderData};
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// Buffer for sorting the keys of a memtable by hash. `keys` contains the hash of each key, and the
/// key's offset and length in `bytes`.
#[derive(Debug, Default)]
struct KeySortBuffer {
    keys: Vec<(u64, u32, u32)>,
    bytes: Vec<u8>,
}

impl KeySortBuffer {
    fn add(&mut self, key: LookupKey<'_>, hash: u64) {
        self.keys
            .push((hash, self.bytes.len() as u32, key.bytes().len() as u32));
        self.bytes.extend_from_slice(key.bytes());
        assert!(
            u32::try_from(self.bytes.len()).is_ok(),
            "a memtable has less than 4 GiB of keys"
        );
    }

    fn key(&self, (_, at, len): (u64, u32, u32)) -> &[u8] {
        &self.bytes[at as usize..][..len as usize]
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |at: u32, len: u32| &bytes[at as usize..][..len as usize];
        self.keys.sort_unstable_by(|one, other| {
            one.0
                .cmp(&other.0)
                .then_with(|| key(one.1, one.2).cmp(key(other.1, other.2)))
        });
    }
}

/// A flush of a memtable's share to a hash store. If it is dropped before it is complete, the
/// structure does not change.
#[derive(Debug)]
pub struct HashStoreFlush {
    hashed: HashedStructure,
    share: MemtableSlice,
    rule: FoldRule,
    rules: RulesCache,
    taken: usize,
    state: HashStoreFlushState,
}

#[derive(Debug)]
enum HashStoreFlushState {
    /// The keys are being collected. The last field is the most recently collected key, or `None`
    /// at the start.
    Collecting(Box<HashRunBuilder>, KeySortBuffer, Option<Vec<u8>>),
    /// The records are being written. The last field is the number of keys already written.
    Writing(Box<HashRunBuilder>, KeySortBuffer, usize),
    /// All records have been written. `None` if the share had neither records nor range deletes.
    Taken(Option<Box<WrittenHashRun>>),
    Published,
    /// The flush was aborted. Its messages are still only in the memtable.
    Broken,
}

impl HashedStructure {
    /// Returns the options for writing a hash store of about `bytes` bytes.
    pub(super) fn young_options(&self, class: AllocationClass, bytes: u64) -> RunOptions {
        RunOptions {
            index: super::IndexKind::PaCHash,
            filter_bits: Some(self.shared.options.filter_bits),
            seed: self.shared.options.own_seed(),
            purpose: Purpose::Incorporate,
            class,
            tier: self.incoming_tier(bytes),
        }
    }
}

impl HashStoreFlush {
    pub(super) fn new(
        hashed: &HashedStructure,
        share: MemtableSlice,
        class: AllocationClass,
    ) -> Result<HashStoreFlush> {
        let home = &hashed.shared.home;
        debug_assert!(
            share.cut >= hashed.version().stamp.cut,
            "shares come in commit order"
        );
        let rule = home.horizon.rule(OlderData::Elsewhere);
        let most = share.memtable.len() as u64;
        let options = hashed.young_options(class, share.memtable.bytes() as u64);
        let mut builder = HashRunBuilder::new(&home.store, &options, most)?;
        if share.memtable.has_range_deletes() {
            // Clip the deletes to this share before making their sequence numbers equal. Otherwise
            // a delete would be joined with one of another share that starts where it ends.
            let mut deletes = share.range_deletes();
            // Equal sequence numbers are safe because everything in the dictionary is older than
            // the memtable's oldest message, and because the memtable's deletes are applied to its
            // own records below.
            deletes.equalize_sequences(rule.horizon);
            deletes.fold(&[rule.horizon]);
            let is_empty = hashed.version().runs().next().is_none();
            deletes.retain(|_, _, sequence| sequence > rule.horizon || !is_empty);
            builder.delete_ranges(Arc::new(deletes.finish()));
        }
        Ok(HashStoreFlush {
            rules: RulesCache::new(&home.schema),
            hashed: hashed.clone(),
            share,
            rule,
            taken: 0,
            state: HashStoreFlushState::Collecting(Box::new(builder), KeySortBuffer::default(), None),
        })
    }

    fn go_on(&mut self, records: usize) -> Result<StepProgress> {
        self.rules.clear();
        match std::mem::replace(&mut self.state, HashStoreFlushState::Broken) {
            HashStoreFlushState::Collecting(builder, order, last) => {
                self.collect(builder, order, last.as_deref(), records);
                Ok(StepProgress::More)
            }
            HashStoreFlushState::Writing(builder, order, done) => self.write(builder, order, done, records),
            HashStoreFlushState::Broken => Err(broken()),
            done => {
                self.state = done;
                Ok(StepProgress::Done)
            }
        }
    }

    fn collect(
        &mut self,
        builder: Box<HashRunBuilder>,
        mut order: KeySortBuffer,
        last: Option<&[u8]>,
        records: usize,
    ) {
        let share = &self.share;
        let mut cursor = match last {
            None => share.first(),
            Some(last) => share.behind(last),
        };
        // Collect eight keys per record of the budget, because collecting a key is much cheaper
        // than writing its records.
        for _ in 0..records.saturating_mul(8).max(1) {
            let Some(key) = cursor.key() else {
                order.sort();
                self.state = HashStoreFlushState::Writing(builder, order, 0);
                return;
            };
            let key = LookupKey::new(key);
            order.add(key, self.hashed.hash_of(key));
            share.next(&mut cursor);
        }
        let last = order.keys.last().map(|&last| order.key(last).to_vec());
        self.state = HashStoreFlushState::Collecting(builder, order, last);
    }

    fn write(
        &mut self,
        mut builder: Box<HashRunBuilder>,
        order: KeySortBuffer,
        done: usize,
        records: usize,
    ) -> Result<StepProgress> {
        let memtable = &self.share.memtable;
        let until = self.taken.saturating_add(records.max(1));
        let mut done = done;
        while let Some(&place) = order.keys.get(done) {
            if self.taken >= until {
                self.state = HashStoreFlushState::Writing(builder, order, done);
                return Ok(StepProgress::More);
            }
            // With the standard seed, the structure's hash of a key equals the hash that memtables
            // use.
            let key = match self.hashed.shared.options.own_seed() {
                SEED => LookupKey::hashed(order.key(place), place.0),
                _ => LookupKey::new(order.key(place)),
            };
            let rules = self.rules.of(key.bytes());
            let mut folder = MessageFolder::new(&self.rule, rules.operator.as_deref());
            let mut pushed = Ok(());
            let deleted = |reader| memtable.range_deleted(key.bytes(), reader);
            folder.fold(memtable.get(key, MAX_SEQUENCE), deleted, |folded| {
                if pushed.is_ok() {
                    let message = RunMessage {
                        sequence: folded.sequence,
                        kind: folded.kind,
                        expires_ms: folded.expires_ms,
                        operand: folded.operand,
                    };
                    pushed = builder.push(place.0, key.bytes(), message, &rules);
                }
            });
            pushed?;
            self.taken += memtable.get(key, MAX_SEQUENCE).count();
            done += 1;
        }
        self.state = HashStoreFlushState::Taken(builder.finish()?.map(Box::new));
        Ok(StepProgress::Done)
    }
}

impl MemtableIncorporation for HashStoreFlush {
    fn poll(&mut self, records: usize) -> Result<StepProgress> {
        let result = self.go_on(records);
        self.hashed.poison_on_error(result)
    }

    fn publish(&mut self) -> Result<()> {
        let written = match std::mem::replace(&mut self.state, HashStoreFlushState::Broken) {
            HashStoreFlushState::Taken(written) => written,
            HashStoreFlushState::Published => {
                self.state = HashStoreFlushState::Published;
                return Ok(());
            }
            HashStoreFlushState::Broken => return Err(broken()),
            HashStoreFlushState::Collecting(..) | HashStoreFlushState::Writing(..) => {
                unreachable!("it is published once all of it was taken")
            }
        };
        match written {
            None => self.hashed.raise_cut(self.share.cut),
            Some(written) => {
                let mut kept = self.hashed.shared.kept.lock();
                let version = self.hashed.version();
                let run = written.install();
                let age = version.next_age;
                let mut young = version.young.clone();
                young.insert(0, Arc::new(HashStore { age, run }));
                let version = HashedVersion {
                    stamp: version.stamp.changed(self.share.cut),
                    young,
                    parts: version.parts.clone(),
                    next_age: age + 1,
                };
                self.hashed.publish(&mut kept, version);
            }
        }
        self.state = HashStoreFlushState::Published;
        Ok(())
    }

    fn taken(&self) -> usize {
        self.taken
    }
}

#[cold]
fn broken() -> Error {
    let cause = "writing a memtable into a hashed structure was interrupted".to_owned();
    Error::Poisoned { cause }
}
