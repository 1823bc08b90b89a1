//! Tables in this process, and threads that serve requests from them.

use super::requests::{
    BURST, ItemSizes, KeyBuffer, RequestMix, RequestRouting, SEED, SampledRequest, THREADS,
};
use alluvium_hashes::mica::mode::{ConcurrencyMode, Crcw, Crew, Erew};
use alluvium_hashes::mica::{
    BurstRequest, BurstResponse, ExclusiveTable, HashedKey, LosslessOptions, LosslessTable, LossyOptions,
    LossyTable, NEVER, SharedTable, TableCore, TableReader, TableWriter, partition,
};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Minimum percentage of gets that must find their item. A cache may have evicted a few items.
const LEAST_HITS: u64 = 95;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MicaTableKind {
    /// Each thread owns a partition of a cache (EREW).
    Exclusive,
    /// Each thread owns a partition of a store that never evicts (EREW).
    Lossless,
    /// Each partition of a cache has one writing thread; all threads read it (CREW).
    OneWrites,
    /// All threads read and write all partitions of a cache (CRCW).
    AllWrite,
    /// Each thread owns a partition of an ordered map: the standard library's B-tree.
    Ordered,
}

impl MicaTableKind {
    /// Fills a table and serves the requests of a mix. Returns millions of requests per second.
    ///
    /// # Errors
    /// When memory cannot be allocated, or items are missing.
    pub(super) fn rate(self, mix: RequestMix) -> Result<f64> {
        match self {
            MicaTableKind::Exclusive => exclusive(mix, lossy::<Erew>),
            MicaTableKind::Lossless => exclusive(mix, |mix| {
                let items = (mix.count as usize / THREADS / 100 + 1) * 105 + 1000;
                let options = LosslessOptions {
                    seed: SEED,
                    ..LosslessOptions::new(items, mix.items.bytes())
                };
                Ok(LosslessTable::<Erew>::new(&options)?)
            }),
            MicaTableKind::OneWrites => one_writes(mix),
            MicaTableKind::AllWrite => all_write(mix),
            MicaTableKind::Ordered => ordered(mix),
        }
    }
}

/// Returns a partition of a cache, slightly larger than its share of the items.
fn lossy<M: ConcurrencyMode>(mix: RequestMix) -> Result<LossyTable<M>> {
    let bytes = (mix.count as usize / THREADS / 100 + 1) * (mix.items.bytes() + 4) * 115 + (64 << 10);
    let options = LossyOptions {
        seed: SEED,
        ..LossyOptions::new(bytes, mix.items.bytes())
    };
    Ok(LossyTable::new(&options)?)
}

/// Creates the partitions of a table and stores all items in them.
fn filled<T>(
    mix: RequestMix,
    table: impl Fn() -> Result<T>,
    mut set: impl FnMut(&mut T, HashedKey<'_>) -> Result<()>,
) -> Result<Vec<T>> {
    let mut tables: Vec<T> = (0..THREADS).map(|_| table()).collect::<Result<_>>()?;
    let mut key = [0; 128];
    for number in 0..mix.count {
        mix.items.write_key(number, &mut key);
        let key = HashedKey::new(SEED, &key[..mix.items.key_bytes]);
        set(&mut tables[partition(key.hash(), THREADS)], key)?;
    }
    Ok(tables)
}

/// Serves each thread's requests from that thread's state. Returns millions of requests per second.
fn timed<T: Send>(
    mix: RequestMix,
    directed: RequestRouting,
    mut owned: Vec<T>,
    serve: impl Fn(&mut T, &[SampledRequest], &mut HitCounter) + Sync,
) -> Result<f64> {
    let threads = mix.directed(directed);
    let start = Barrier::new(THREADS);
    let count: usize = threads.iter().map(Vec::len).sum();
    let ended: Vec<(Instant, Instant, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = owned
            .iter_mut()
            .zip(&threads)
            .map(|(own, requests)| {
                let (start, serve) = (&start, &serve);
                scope.spawn(move || {
                    let mut hits = HitCounter(0);
                    start.wait();
                    let began = Instant::now();
                    for burst in requests.chunks(BURST) {
                        serve(own, burst, &mut hits);
                    }
                    (began, Instant::now(), hits.0)
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    });
    let gets = threads.iter().flatten().filter(|drawn| drawn.is_get).count() as u64;
    let hits: u64 = ended.iter().map(|ended| ended.2).sum();
    ensure!(
        hits * 100 >= gets * LEAST_HITS,
        "{hits} of {gets} gets found their item"
    );
    let began = ended.iter().map(|ended| ended.0).min();
    let end = ended.iter().map(|ended| ended.1).max();
    let (Some(began), Some(end)) = (began, end) else {
        anyhow::bail!("there are no threads");
    };
    Ok(count as f64 / (end - began).as_secs_f64() / 1e6)
}

/// Counts the values that were found.
struct HitCounter(u64);

impl HitCounter {
    fn note(&mut self, value: Option<&[u8]>) {
        self.0 += u64::from(value.is_some_and(|value| black_box(value[0]) > 0));
    }
}

/// Returns the keys of a burst, with the hashes that clients have sent.
fn keys<'k>(
    items: ItemSizes,
    burst: &[SampledRequest],
    memory: &'k mut [KeyBuffer; BURST],
) -> [HashedKey<'k>; BURST] {
    for (key, drawn) in memory.iter_mut().zip(burst) {
        items.write_key(drawn.number, key);
    }
    std::array::from_fn(|at| {
        let hash = burst[at.min(burst.len() - 1)].hash;
        HashedKey::received(hash, &memory[at][..items.key_bytes])
    })
}

fn exclusive<C: TableCore<Mode = Erew> + Send>(
    mix: RequestMix,
    table: impl Fn(RequestMix) -> Result<C>,
) -> Result<f64> {
    let items = mix.items;
    let tables = filled(
        mix,
        || Ok(ExclusiveTable::new(table(mix)?)),
        |table, key| Ok(table.set(key, items.value(), NEVER, 0)?),
    )?;
    timed(mix, RequestRouting::ToOwner, tables, |table, burst, hits| {
        let mut memory = [[0; 128]; BURST];
        let keys = keys(items, burst, &mut memory);
        let requests: [BurstRequest<'_>; BURST] = std::array::from_fn(|at| match burst.get(at) {
            Some(drawn) if !drawn.is_get => BurstRequest::Set(keys[at], items.value(), NEVER),
            _ => BurstRequest::Get(keys[at]),
        });
        table.burst(&requests[..burst.len()], 0, |_, response| match response {
            BurstResponse::Value(value) => hits.note(value),
            BurstResponse::Set(set) => drop(black_box(set)),
        });
    })
}

/// Divides a burst into gets and sets.
fn parted<'k>(
    burst: &[SampledRequest],
    keys: [HashedKey<'k>; BURST],
) -> (Vec<HashedKey<'k>>, Vec<HashedKey<'k>>) {
    let (mut got, mut set) = (Vec::with_capacity(BURST), Vec::with_capacity(BURST));
    for (drawn, key) in burst.iter().zip(keys) {
        if drawn.is_get { &mut got } else { &mut set }.push(key);
    }
    (got, set)
}

fn one_writes(mix: RequestMix) -> Result<f64> {
    let items = mix.items;
    let writers = filled(
        mix,
        || Ok(TableWriter::new(lossy::<Crew>(mix)?)),
        |table, key| Ok(table.set(key, items.value(), NEVER, 0)?),
    )?;
    let readers: Vec<TableReader<LossyTable<Crew>>> = writers.iter().map(TableWriter::reader).collect();
    timed(
        mix,
        RequestRouting::SetsToOwner,
        writers,
        |writer, burst, hits| {
            let mut memory = [[0; 128]; BURST];
            let (got, set) = parted(burst, keys(items, burst, &mut memory));
            TableReader::get_many_of(&readers, &got, 0, |_, value| hits.note(value));
            let set: Vec<(HashedKey<'_>, &[u8])> = set.into_iter().map(|key| (key, items.value())).collect();
            writer.set_many(&set, 0, |_, set| drop(black_box(set)));
        },
    )
}

fn all_write(mix: RequestMix) -> Result<f64> {
    let items = mix.items;
    let tables = filled(
        mix,
        || Ok(SharedTable::new(lossy::<Crcw>(mix)?)),
        |table, key| Ok(table.set(key, items.value(), NEVER, 0)?),
    )?;
    let each = vec![tables; THREADS];
    timed(mix, RequestRouting::ToAny, each, |tables, burst, hits| {
        let mut memory = [[0; 128]; BURST];
        let (got, set) = parted(burst, keys(items, burst, &mut memory));
        SharedTable::get_many_of(tables, &got, 0, |_, value| hits.note(value));
        let set: Vec<(HashedKey<'_>, &[u8])> = set.into_iter().map(|key| (key, items.value())).collect();
        SharedTable::set_many_of(tables, &set, 0, |_, set| drop(black_box(set)));
    })
}

fn ordered(mix: RequestMix) -> Result<f64> {
    let items = mix.items;
    let maps = filled(
        mix,
        || Ok(BTreeMap::<Vec<u8>, Vec<u8>>::new()),
        |map, key| {
            map.insert(key.bytes().to_vec(), items.value().to_vec());
            Ok(())
        },
    )?;
    timed(mix, RequestRouting::ToOwner, maps, |map, burst, hits| {
        let mut memory = [[0; 128]; BURST];
        for (drawn, key) in burst.iter().zip(keys(items, burst, &mut memory)) {
            match map.get_mut(key.bytes()) {
                value if drawn.is_get => hits.note(value.map(|value| &value[..])),
                Some(value) => value.copy_from_slice(items.value()),
                None => {}
            }
        }
    })
}
