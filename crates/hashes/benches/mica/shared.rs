//! CREW, CRCW and the library's cache: threads read and write shared partitions.

use crate::load::{BURST, Dataset, Directed, Drawn, SEED, Scale, Skew, THREADS, draw, report, timed};
use alluvium_hashes::mica::mode::{ConcurrencyMode, Crcw, Crew};
use alluvium_hashes::mica::{
    CacheEviction, HashedKey, LossyOptions, LossyTable, NEVER, SharedTable, TableReader, TableWriter,
    partition,
};
use alluvium_hashes::{Cache, CacheOptions};
use std::hint::black_box;

pub(crate) fn run(scale: &Scale, dataset: Dataset) {
    let mut writers: Vec<TableWriter<LossyTable<Crew>>> = (0..THREADS)
        .map(|_| TableWriter::new(table(scale, dataset)))
        .collect();
    let readers: Vec<TableReader<LossyTable<Crew>>> = writers.iter().map(TableWriter::reader).collect();
    fill(scale, dataset, |key, value| {
        writers[partition(key.hash(), THREADS)]
            .set(key, value, NEVER, 0)
            .expect("an item that fits");
    });
    measure(
        scale,
        dataset,
        ("CREW FIFO", Directed::SetsToOwner),
        &mut writers,
        |writer, burst| {
            burst.gets(|keys, count| {
                TableReader::get_many_of(&readers, keys, 0, |_, value| count(value));
            });
            burst.sets(|items| writer.set_many(items, 0, |_, set| set.expect("an item that fits")));
        },
    );
    drop((readers, writers));

    let tables: Vec<SharedTable<LossyTable<Crcw>>> = (0..THREADS)
        .map(|_| SharedTable::new(table(scale, dataset)))
        .collect();
    fill(scale, dataset, |key, value| {
        tables[partition(key.hash(), THREADS)]
            .set(key, value, NEVER, 0)
            .expect("an item that fits");
    });
    let mut threads = vec![tables; THREADS];
    measure(
        scale,
        dataset,
        ("CRCW FIFO", Directed::ToAny),
        &mut threads,
        |tables, burst| {
            burst.gets(|keys, count| {
                SharedTable::get_many_of(tables, keys, 0, |_, value| count(value));
            });
            burst.sets(|items| {
                SharedTable::set_many_of(tables, items, 0, |_, set| set.expect("an item that fits"));
            });
        },
    );
    drop(threads);
    cache(scale, dataset);
}

/// The library's cache, which hashes keys itself.
fn cache(scale: &Scale, dataset: Dataset) {
    let item_bytes = dataset.key + dataset.value;
    let options = CacheOptions {
        item_bytes,
        seed: SEED,
        // Log and index.
        ..CacheOptions::new(scale.bytes / (item_bytes + 4) * (item_bytes + 18))
    };
    let cache = Cache::new(&options).expect("options that fit");
    fill(scale, dataset, |key, value| {
        cache.set(key.bytes(), value).expect("an item that fits");
    });
    let mut threads = vec![cache; THREADS];
    measure(
        scale,
        dataset,
        ("Cache S3-FIFO", Directed::ToAny),
        &mut threads,
        |cache, burst| {
            burst.gets(|keys, count| {
                let keys: Vec<&[u8]> = keys.iter().map(HashedKey::bytes).collect();
                cache.get_many(&keys, |_, value| count(value));
            });
            burst.sets(|items| {
                let items: Vec<(&[u8], &[u8])> =
                    items.iter().map(|(key, value)| (key.bytes(), *value)).collect();
                cache.set_many(&items, |_, set| set.expect("an item that fits"));
            });
        },
    );
}

fn table<M: ConcurrencyMode>(scale: &Scale, dataset: Dataset) -> LossyTable<M> {
    let options = LossyOptions {
        eviction: CacheEviction::Fifo,
        seed: SEED,
        ..LossyOptions::new(scale.bytes / THREADS / 100 * 102, dataset.key + dataset.value)
    };
    LossyTable::new(&options).expect("options that fit")
}

fn fill(scale: &Scale, dataset: Dataset, mut set: impl FnMut(HashedKey<'_>, &[u8])) {
    let (mut key, value) = ([0; 128], [7; 1024]);
    for number in dataset.numbers(scale) {
        dataset.write_key(number, &mut key);
        set(HashedKey::new(SEED, &key[..dataset.key]), &value[..dataset.value]);
    }
}

/// Requests that arrived together.
struct Burst<'a> {
    gets: Vec<HashedKey<'a>>,
    sets: Vec<(HashedKey<'a>, &'a [u8])>,
    hits: u64,
}

impl<'a> Burst<'a> {
    /// Passes the requested keys to `serve`, with a callback that counts the values found.
    fn gets(&mut self, serve: impl FnOnce(&[HashedKey<'a>], &mut dyn FnMut(Option<&[u8]>))) {
        let hits = &mut self.hits;
        serve(&self.gets, &mut |value| {
            *hits += u64::from(value.is_some_and(|value| black_box(value[0]) > 0));
        });
    }

    fn sets(&mut self, serve: impl FnOnce(&[(HashedKey<'a>, &'a [u8])])) {
        serve(&self.sets);
    }
}

fn measure<T: Send>(
    scale: &Scale,
    dataset: Dataset,
    (name, directed): (&str, Directed),
    tables: &mut [T],
    serve: impl Fn(&mut T, &mut Burst<'_>) + Sync,
) {
    let value = [9; 1024];
    let serve = |table: &mut T, drawn: &[Drawn]| {
        let (mut keys, mut hits) = ([[0; 128]; BURST], 0);
        for drawn in drawn.chunks(BURST) {
            dataset.write_keys(drawn, &mut keys);
            let all = || {
                drawn
                    .iter()
                    .zip(&keys)
                    .map(|(drawn, key)| (drawn.is_get, HashedKey::received(drawn.hash, &key[..dataset.key])))
            };
            let mut burst = Burst {
                gets: all().filter(|(is_get, _)| *is_get).map(|(_, key)| key).collect(),
                sets: all()
                    .filter(|(is_get, _)| !is_get)
                    .map(|(_, key)| (key, &value[..dataset.value]))
                    .collect(),
                hits: 0,
            };
            serve(table, &mut burst);
            hits += burst.hits;
        }
        hits
    };
    for skew in [Skew::Uniform, Skew::Zipf] {
        for get_percent in [100, 95, 50, 0] {
            let drawn = draw(scale, dataset, (skew, get_percent, directed));
            let taken = timed(scale, tables, &drawn, serve);
            report(scale, dataset, (name, "burst"), (skew, get_percent), &taken);
        }
    }
}
