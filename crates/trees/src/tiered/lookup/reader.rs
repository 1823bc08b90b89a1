//! Point lookups in one version, for one key or many.

use super::search::{Search, Way, ask_together};
use crate::tiered::trunk::{Trunk, Version};
use alluvium_base::Sequence;
use alluvium_dictionary::fetch::Fetch;
use alluvium_dictionary::gather::{Answer, Gather};
use alluvium_dictionary::key::Key;
use alluvium_dictionary::lookup::{self, Open};
use alluvium_dictionary::versioned::{VersionReader, VersionSearch, Versioned};
use alluvium_storage::Result;
use alluvium_storage::store::Store;
use std::task::Poll;

/// A reader of one version of a tree.
pub type Reader<'t> = VersionReader<'t, Trunk>;

impl VersionSearch for Trunk {
    type Version = Version;
    type Search = Search;

    #[inline]
    fn versions(&self) -> &Versioned<Version> {
        &self.versions
    }

    #[inline]
    fn store(&self) -> &Store {
        &self.store
    }

    #[inline]
    fn search<F: Fetch>(
        &self,
        version: &Version,
        key: Key<'_>,
        gather: &mut Gather<'_>,
        search: &mut Search,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let Gather { operator, known } = gather;
        search.go_on(version, key, known, *operator, fetch, &self.usage.absent)
    }

    /// Batching also helps for data in memory, because the processor can overlap several cache
    /// misses.
    fn search_together<F: Fetch>(
        &self,
        version: &Version,
        open: &mut [Open<Search>],
        keys: &[Key<'_>],
        gathers: &mut [Gather<'_>],
        fetch: &F,
    ) -> Result<()> {
        if let Some(digest) = &version.digest {
            open.iter()
                .for_each(|one| digest.prefetch(keys[one.index].hash()));
        }
        let mut ways: Vec<Way<'_, '_>> = Vec::with_capacity(open.len());
        for one in &mut *open {
            let absent = &self.usage.absent;
            let mut way = Way::of(version, keys[one.index], &mut one.search, absent);
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
            let (key, Gather { operator, known }) = (keys[one.index], &mut gathers[one.index]);
            let found = one.search.go_along(&mut way, key, known, *operator, fetch);
            if let Poll::Ready(done) = found {
                done?;
                one.is_done = true;
            }
        }
        Ok(())
    }

    fn restart(search: &mut Search) {
        search.restart();
    }

    #[inline]
    fn ended(&self, version: &Version, key: Key<'_>) {
        self.usage.note_get(version, key);
    }
}

/// Returns the value of a key for a reader at `at`.
pub(crate) fn get(trunk: &Trunk, key: &[u8], at: Sequence, now_ms: u64) -> Result<Answer> {
    let rules = trunk.options.schema.rules(key);
    let mut gather = Gather::new(at, now_ms, rules.operator.as_deref());
    lookup::gather(&VersionReader::new(trunk), Key::new(key), &mut gather)?;
    gather.answer(key)
}

/// Returns the values of many keys for a reader at `at`, in the order of `keys`. Reads all required
/// leaves concurrently.
pub(crate) fn multi_get(trunk: &Trunk, keys: &[&[u8]], at: Sequence, now_ms: u64) -> Result<Vec<Answer>> {
    let schema = &trunk.options.schema;
    let rules: Vec<_> = keys.iter().map(|key| schema.rules(key)).collect();
    let operators = rules.iter().map(|rules| rules.operator.as_deref());
    let mut gathers: Vec<Gather<'_>> = operators
        .map(|operator| Gather::new(at, now_ms, operator))
        .collect();
    let hashed: Vec<Key<'_>> = keys.iter().map(|key| Key::new(key)).collect();
    lookup::batch::gather_many(&VersionReader::new(trunk), &hashed, &mut gathers)?;
    let answers = gathers.into_iter().zip(keys);
    answers.map(|(gather, key)| gather.answer(key)).collect()
}
