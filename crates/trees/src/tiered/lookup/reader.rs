//! Point lookups in one version of a tree, for one key or for many.

use super::search::{LookupPath, TreeSearch, ask_together};
use crate::tiered::trunk::{TreeVersion, Trunk};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup::{self, BatchKeySearch};
use alluvium_dictionary::lookup_state::{LookupState, LookupValue};
use alluvium_dictionary::versioned::{VersionCell, VersionReader, VersionSearch};
use alluvium_storage::Result;
use alluvium_storage::store::Store;
use std::task::Poll;

/// A reader of one version of a tree.
pub type TreeReader<'t> = VersionReader<'t, Trunk>;

impl VersionSearch for Trunk {
    type Version = TreeVersion;
    type Search = TreeSearch;

    #[inline]
    fn versions(&self) -> &VersionCell<TreeVersion> {
        &self.versions
    }

    #[inline]
    fn store(&self) -> &Store {
        &self.store
    }

    #[inline]
    fn search<F: NodeFetch>(
        &self,
        version: &TreeVersion,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
        search: &mut TreeSearch,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let LookupState { operator, known } = gather;
        search.go_on(version, key, known, *operator, fetch, &self.usage.absent)
    }

    /// Searches for several keys in one batch. This helps even if all data is in memory, because
    /// the processor can overlap the cache misses.
    fn search_together<F: NodeFetch>(
        &self,
        version: &TreeVersion,
        open: &mut [BatchKeySearch<TreeSearch>],
        keys: &[LookupKey<'_>],
        gathers: &mut [LookupState<'_>],
        fetch: &F,
    ) -> Result<()> {
        if let Some(digest) = &version.digest {
            open.iter()
                .for_each(|one| digest.prefetch(keys[one.index].hash()));
        }
        let mut ways: Vec<LookupPath<'_, '_>> = Vec::with_capacity(open.len());
        for one in &mut *open {
            let absent = &self.usage.absent;
            let mut way = LookupPath::of(version, keys[one.index], &mut one.search, absent);
            way.locate(&one.search, fetch);
            ways.push(way);
        }
        debug_assert_eq!(ways.len(), open.len(), "a way for each key");
        debug_assert!(
            open.iter().all(|one| !one.is_done),
            "what is done is not searched again"
        );
        ways.iter().for_each(|way| way.approach(fetch));
        for way in &mut ways {
            way.take(fetch);
        }
        ask_together(&ways, open.iter_mut().map(|one| &mut one.search));
        for (one, mut way) in open.iter_mut().zip(ways) {
            let (key, LookupState { operator, known }) = (keys[one.index], &mut gathers[one.index]);
            let found = one.search.search_path(&mut way, key, known, *operator, fetch);
            if let Poll::Ready(done) = found {
                done?;
                one.is_done = true;
            }
        }
        Ok(())
    }

    fn restart(search: &mut TreeSearch) {
        search.restart();
    }

    #[inline]
    fn ended(&self, version: &TreeVersion, key: LookupKey<'_>) {
        self.usage.note_get(version, key);
    }
}

/// Returns the value of a key as of sequence number `at`.
pub(crate) fn get(trunk: &Trunk, key: &[u8], at: SequenceNumber, now_ms: u64) -> Result<LookupValue> {
    let rules = trunk.options.schema.rules(key);
    let mut gather = LookupState::new(at, now_ms, rules.operator.as_deref());
    lookup::gather(&VersionReader::new(trunk), LookupKey::new(key), &mut gather)?;
    gather.answer(key)
}

/// Returns the values of many keys as of sequence number `at`, in the order of `keys`. Reads all
/// required leaves concurrently.
pub(crate) fn multi_get(
    trunk: &Trunk,
    keys: &[&[u8]],
    at: SequenceNumber,
    now_ms: u64,
) -> Result<Vec<LookupValue>> {
    let schema = &trunk.options.schema;
    let rules: Vec<_> = keys.iter().map(|key| schema.rules(key)).collect();
    let operators = rules.iter().map(|rules| rules.operator.as_deref());
    let mut gathers: Vec<LookupState<'_>> = operators
        .map(|operator| LookupState::new(at, now_ms, operator))
        .collect();
    let hashed: Vec<LookupKey<'_>> = keys.iter().map(|key| LookupKey::new(key)).collect();
    lookup::batch::gather_many(&VersionReader::new(trunk), &hashed, &mut gathers)?;
    let answers = gathers.into_iter().zip(keys);
    answers.map(|(gather, key)| gather.answer(key)).collect()
}
