//! Incorporation of a memtable's share as the newest hash store: keys are sorted by hash and then
//! written sequentially.

use super::rules::RulesCache;
use super::run::{Builder, Message, RunOptions, Written};
use super::state::{Version, Young};
use super::structure::Hashed;
use alluvium_base::Purpose;
use alluvium_base::message::LAST;
use alluvium_dictionary::contract::{Incorporate, Progress};
use alluvium_dictionary::key::{Key, SEED};
use alluvium_dictionary::merge::{Folder, Older, Rule};
use alluvium_dictionary::share::Share;
use alluvium_storage::extents::Class;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// Keys to be sorted by hash: the hash of each, and its offset and length in `bytes`.
#[derive(Debug, Default)]
struct Order {
    keys: Vec<(u64, u32, u32)>,
    bytes: Vec<u8>,
}

impl Order {
    fn add(&mut self, key: Key<'_>, hash: u64) {
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

/// The incorporation of a memtable's share. If it is dropped unfinished, it has no effect.
#[derive(Debug)]
pub struct Incorporation {
    hashed: Hashed,
    share: Share,
    rule: Rule,
    rules: RulesCache,
    taken: usize,
    state: State,
}

/// Progress of an incorporation.
#[derive(Debug)]
enum State {
    /// Collecting keys; contains the last key collected.
    Collecting(Box<Builder>, Order, Option<Vec<u8>>),
    /// Writing records; contains the number of keys written.
    Writing(Box<Builder>, Order, usize),
    /// All records are written; `None` if there were none.
    Taken(Option<Box<Written>>),
    Published,
    /// It was aborted: only the memtable contains the messages.
    Broken,
}

impl Hashed {
    /// Returns the options for a hash store of about `bytes` bytes.
    pub(super) fn young_options(&self, class: Class, bytes: u64) -> RunOptions {
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

impl Incorporation {
    pub(super) fn new(hashed: &Hashed, share: Share, class: Class) -> Result<Incorporation> {
        let home = &hashed.shared.home;
        debug_assert!(
            share.cut >= hashed.version().stamp.cut,
            "shares come in commit order"
        );
        let rule = home.horizon.rule(Older::Elsewhere);
        let most = share.memtable.len() as u64;
        let options = hashed.young_options(class, share.memtable.bytes() as u64);
        let mut builder = Builder::new(&home.store, &options, most)?;
        if share.memtable.has_range_deletes() {
            // The deletes are clipped to this share before they are levelled; otherwise a delete
            // that ends where that of another share begins would be joined with it.
            let mut deletes = share.range_deletes();
            // Levelling is valid because the dictionary contains nothing as new as the memtable's
            // oldest message, and the memtable's deletes are applied to its own records below.
            deletes.level(rule.horizon);
            deletes.fold(&[rule.horizon]);
            let is_empty = hashed.version().runs().next().is_none();
            deletes.retain(|_, _, sequence| sequence > rule.horizon || !is_empty);
            builder.delete_ranges(Arc::new(deletes.finish()));
        }
        Ok(Incorporation {
            rules: RulesCache::new(&home.schema),
            hashed: hashed.clone(),
            share,
            rule,
            taken: 0,
            state: State::Collecting(Box::new(builder), Order::default(), None),
        })
    }

    fn go_on(&mut self, records: usize) -> Result<Progress> {
        self.rules.clear();
        match std::mem::replace(&mut self.state, State::Broken) {
            State::Collecting(builder, order, last) => {
                self.collect(builder, order, last.as_deref(), records);
                Ok(Progress::More)
            }
            State::Writing(builder, order, done) => self.write(builder, order, done, records),
            State::Broken => Err(broken()),
            done => {
                self.state = done;
                Ok(Progress::Done)
            }
        }
    }

    fn collect(&mut self, builder: Box<Builder>, mut order: Order, last: Option<&[u8]>, records: usize) {
        let share = &self.share;
        let mut cursor = match last {
            None => share.first(),
            Some(last) => share.behind(last),
        };
        // Collecting a key is cheap compared with writing its records.
        for _ in 0..records.saturating_mul(8).max(1) {
            let Some(key) = cursor.key() else {
                order.sort();
                self.state = State::Writing(builder, order, 0);
                return;
            };
            let key = Key::new(key);
            order.add(key, self.hashed.hash_of(key));
            share.next(&mut cursor);
        }
        let last = order.keys.last().map(|&last| order.key(last).to_vec());
        self.state = State::Collecting(builder, order, last);
    }

    fn write(
        &mut self,
        mut builder: Box<Builder>,
        order: Order,
        done: usize,
        records: usize,
    ) -> Result<Progress> {
        let memtable = &self.share.memtable;
        let until = self.taken.saturating_add(records.max(1));
        let mut done = done;
        while let Some(&place) = order.keys.get(done) {
            if self.taken >= until {
                self.state = State::Writing(builder, order, done);
                return Ok(Progress::More);
            }
            // If the structure uses the standard seed, the hash is also the key's hash in
            // memtables.
            let key = match self.hashed.shared.options.own_seed() {
                SEED => Key::hashed(order.key(place), place.0),
                _ => Key::new(order.key(place)),
            };
            let rules = self.rules.of(key.bytes());
            let mut folder = Folder::new(&self.rule, rules.operator.as_deref());
            let mut pushed = Ok(());
            let deleted = |reader| memtable.range_deleted(key.bytes(), reader);
            folder.fold(memtable.get(key, LAST), deleted, |folded| {
                if pushed.is_ok() {
                    let message = Message {
                        sequence: folded.sequence,
                        kind: folded.kind,
                        expires_ms: folded.expires_ms,
                        operand: folded.operand,
                    };
                    pushed = builder.push(place.0, key.bytes(), message, &rules);
                }
            });
            pushed?;
            self.taken += memtable.get(key, LAST).count();
            done += 1;
        }
        self.state = State::Taken(builder.finish()?.map(Box::new));
        Ok(Progress::Done)
    }
}

impl Incorporate for Incorporation {
    fn poll(&mut self, records: usize) -> Result<Progress> {
        let result = self.go_on(records);
        self.hashed.judge(result)
    }

    fn publish(&mut self) -> Result<()> {
        let written = match std::mem::replace(&mut self.state, State::Broken) {
            State::Taken(written) => written,
            State::Published => {
                self.state = State::Published;
                return Ok(());
            }
            State::Broken => return Err(broken()),
            State::Collecting(..) | State::Writing(..) => {
                unreachable!("it is published once all of it was taken")
            }
        };
        match written {
            None => self.hashed.raise(self.share.cut),
            Some(written) => {
                let mut kept = self.hashed.shared.kept.lock();
                let version = self.hashed.version();
                let run = written.install();
                let age = version.next_age;
                let mut young = version.young.clone();
                young.insert(0, Arc::new(Young { age, run }));
                let version = Version {
                    stamp: version.stamp.changed(self.share.cut),
                    young,
                    parts: version.parts.clone(),
                    next_age: age + 1,
                };
                self.hashed.publish(&mut kept, version);
            }
        }
        self.state = State::Published;
        Ok(())
    }

    fn taken(&self) -> usize {
        self.taken
    }
}

#[cold]
fn broken() -> Error {
    let cause = "writing a memtable out was broken off on its way into a hashed structure".to_owned();
    Error::Poisoned { cause }
}
