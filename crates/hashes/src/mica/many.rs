//! Operations on many keys at a time, in partitions that other threads may be using.

use super::bucket::partition;
use super::core::{TableCore, read};
use super::error::Result;
use super::item::NEVER;
use super::key::HashedKey;
use super::pipeline::{self, PipelineStages};
use std::borrow::Borrow;
use std::marker::PhantomData;

/// Whether a lookup counts as an access, which delays the eviction of the item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessCounting {
    Counted,
    Ignored,
}

/// Looks up keys in a pipeline, each in its own partition.
pub(super) fn get_many<C: TableCore, T: Borrow<C>>(
    tables: &[T],
    keys: &[HashedKey<'_>],
    (now, accesses): (u64, AccessCounting),
    respond: impl FnMut(usize, Option<&[u8]>),
) {
    let (value, hits, table) = (Vec::new(), 0, PhantomData);
    let mut lookups = LookupBurst {
        tables,
        keys,
        now,
        accesses,
        respond,
        value,
        hits,
        table,
    };
    pipeline::run(&mut lookups, keys.len());
    // Statistics are reported only as sums over all partitions, so a single partition can count all
    // lookups.
    tables[0].borrow().tally().read(keys.len() as u64, lookups.hits);
}

/// Returns the partition of a hash.
#[inline(always)]
pub(super) fn table<C, T: Borrow<C>>(tables: &[T], hash: u64) -> &C {
    tables[partition(hash, tables.len())].borrow()
}

/// A lookup burst in progress on shared partitions.
struct LookupBurst<'a, 'b, C, T, R> {
    tables: &'a [T],
    keys: &'a [HashedKey<'b>],
    now: u64,
    accesses: AccessCounting,
    respond: R,
    value: Vec<u8>,
    hits: u64,
    table: PhantomData<C>,
}

impl<C: TableCore, T: Borrow<C>, R: FnMut(usize, Option<&[u8]>)> PipelineStages
    for LookupBurst<'_, '_, C, T, R>
{
    #[inline(always)]
    fn prefetch_bucket(&mut self, number: usize) {
        let hash = self.keys[number].hash();
        table::<C, T>(self.tables, hash).bucket(hash).prefetch();
    }

    #[inline(always)]
    fn prefetch_item(&mut self, number: usize) {
        let key = self.keys[number];
        table::<C, T>(self.tables, key.hash()).prefetch_item(key);
    }

    #[inline(always)]
    fn execute(&mut self, number: usize) {
        let key = self.keys[number];
        let table = table::<C, T>(self.tables, key.hash());
        let hit = read(table, key, self.now, &mut self.value);
        if let Some(hit) = hit {
            self.hits += 1;
            if self.accesses == AccessCounting::Counted {
                table.touch(key, hit.found, self.now);
            }
        }
        (self.respond)(number, hit.is_some().then_some(&self.value));
    }
}

/// Sets the values of keys in a pipeline, each in its own partition.
pub(super) fn set_many<C: TableCore, T: Borrow<C>>(
    tables: &[T],
    items: &[(HashedKey<'_>, &[u8])],
    now: u64,
    respond: impl FnMut(usize, Result<()>),
) {
    pipeline::run(
        &mut SetBurst {
            tables,
            items,
            now,
            respond,
            table: PhantomData,
        },
        items.len(),
    );
}

/// A burst of set operations in progress on shared partitions.
struct SetBurst<'a, 'b, C, T, R> {
    tables: &'a [T],
    items: &'a [(HashedKey<'b>, &'b [u8])],
    now: u64,
    respond: R,
    table: PhantomData<C>,
}

impl<C: TableCore, T: Borrow<C>, R: FnMut(usize, Result<()>)> PipelineStages for SetBurst<'_, '_, C, T, R> {
    #[inline(always)]
    fn prefetch_bucket(&mut self, number: usize) {
        let hash = self.items[number].0.hash();
        table::<C, T>(self.tables, hash).bucket(hash).prefetch();
    }

    #[inline(always)]
    fn prefetch_item(&mut self, number: usize) {
        let key = self.items[number].0;
        table::<C, T>(self.tables, key.hash()).prefetch_item(key);
    }

    #[inline(always)]
    fn execute(&mut self, number: usize) {
        let (key, value) = self.items[number];
        let set = table::<C, T>(self.tables, key.hash()).set(key, value, NEVER, self.now);
        (self.respond)(number, set);
    }
}
