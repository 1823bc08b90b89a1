//! The writes of a transaction, which several threads may change and read.
//!
//! A mutex protects the writes. It is held while a write is added, while writes are spilled, and
//! while a read copies the effect of the writes in memory on its keys. It is not held while a
//! thread waits for a lock or reads the store. A read of spilled writes therefore checks afterwards
//! whether a spill or a rollback has begun meanwhile, and starts over if so.

use super::Transaction;
use super::savepoint::SavepointStack;
use super::spilled_writes::{SpilledEffect, SpilledWrites};
use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::read::value::Value;
use crate::schema::format::KeyspaceId;
use crate::transaction::write_set::{KeyState, WriteSet};
use alluvium_dictionary::batch::LongValues;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// All writes of a transaction.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    /// The latest writes of the transaction, by keyspace.
    pub(super) sets: BTreeMap<KeyspaceId, WriteSet>,
    /// Earlier writes, which exceeded the memory limit and were moved to runs on disk.
    pub(super) spilled: SpilledWrites,
    pub(super) savepoints: SavepointStack,
    /// Memory of `sets`, in bytes.
    pub(super) in_memory: usize,
}

impl OwnWrites {
    /// Returns the effect of the writes in memory on a key.
    fn state(&self, keyspace: &Keyspace, key: &[u8]) -> KeyState {
        match self.sets.get(&keyspace.number()) {
            Some(set) if !is_planted(IsolationFault::OwnWritesAreHidden) => set.state(key),
            _ => KeyState::default(),
        }
    }
}

/// The effect of all writes of a transaction on one key, at one moment.
#[derive(Debug)]
pub(super) struct OwnEffect {
    in_memory: KeyState,
    /// The effect of the spilled writes, which is not looked up if `in_memory` decides the value.
    spilled: SpilledEffect,
    /// [`Transaction::moves`] at that moment.
    moves: u64,
}

/// A moment in the history of a transaction's writes to a key.
#[derive(Debug)]
pub(super) struct OwnMoment {
    in_memory: KeyState,
    moves: u64,
}

impl OwnEffect {
    /// Returns the combined effect of writes in memory and of older, spilled ones.
    pub(super) fn new(in_memory: KeyState, spilled: SpilledEffect) -> OwnEffect {
        OwnEffect {
            in_memory,
            spilled,
            moves: 0,
        }
    }

    /// Returns whether any write affects the key.
    pub(super) fn is_touched(&self) -> bool {
        self.in_memory.is_touched() || !matches!(self.spilled, SpilledEffect::Nothing)
    }

    /// Returns what identifies the moment of the effect.
    pub(super) fn moment(&self) -> OwnMoment {
        OwnMoment {
            in_memory: self.in_memory.clone(),
            moves: self.moves,
        }
    }

    /// Returns whether the key's value depends on its value in the store.
    pub(super) fn asks_store(&self) -> bool {
        self.in_memory.asks_store() && self.spilled.asks_store()
    }

    /// Returns a key's value after the writes, for a transaction with the time `now_ms`. Calls
    /// `read` for the value in the store only if the result depends on it.
    pub(super) fn over(
        self,
        (keyspace, now_ms): (&Keyspace, u64),
        key: &[u8],
        read: impl FnOnce() -> Result<Option<Value>>,
    ) -> Result<Option<Value>> {
        let OwnEffect {
            in_memory, spilled, ..
        } = self;
        in_memory.over((keyspace, now_ms), key, || {
            let base = if spilled.asks_store() { read()? } else { None };
            spilled.over(keyspace, key, base)
        })
    }
}

impl Transaction {
    /// Returns the effect of the transaction's writes on a key.
    pub(super) fn own_effect(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        long_values: LongValues,
    ) -> Result<OwnEffect> {
        let mut effects = self.own_effects(keyspace, std::slice::from_ref(&key), long_values)?;
        Ok(effects.pop().expect("each key has its effect"))
    }

    /// Returns the effects of the transaction's writes on keys, all at the same moment.
    pub(super) fn own_effects<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        long_values: LongValues,
    ) -> Result<Vec<OwnEffect>> {
        loop {
            let own = self.own.lock();
            let moves = self.moves.load(Ordering::Relaxed);
            let states: Vec<KeyState> = keys.iter().map(|key| own.state(keyspace, key.as_ref())).collect();
            let spilled = own.spilled.lookup(keyspace);
            drop(own);
            let effects: Result<Vec<OwnEffect>> = std::iter::zip(keys, states)
                .map(|(key, in_memory)| {
                    let spilled = match &spilled {
                        Some(spilled) if in_memory.asks_store() => {
                            spilled.effect_on(key.as_ref(), self.handle.open.now_ms, long_values)?
                        }
                        _ => SpilledEffect::Nothing,
                    };
                    Ok(OwnEffect {
                        in_memory,
                        spilled,
                        moves,
                    })
                })
                .collect();
            // The lookup may have found writes that were moved after the mutex was released.
            let is_moved = spilled.is_some() && self.moves.load(Ordering::Acquire) != moves;
            if !is_moved || is_planted(IsolationFault::SpillsAreNotNoticed) {
                return effects;
            }
        }
    }

    /// Returns whether no write of the transaction has changed a key's value since `moment`. The
    /// caller holds the mutex of the writes.
    pub(super) fn is_current(
        &self,
        own: &OwnWrites,
        moment: &OwnMoment,
        keyspace: &Keyspace,
        key: &[u8],
    ) -> bool {
        self.moves.load(Ordering::Relaxed) == moment.moves
            && own.state(keyspace, key).is_same(&moment.in_memory)
    }

    /// Announces that spilled writes are about to be added or removed. The caller holds the mutex
    /// of the writes until that is done.
    pub(super) fn announce_move(&self) {
        self.moves.fetch_add(1, Ordering::Release);
    }
}
