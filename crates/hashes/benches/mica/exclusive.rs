//! EREW: each thread owns a partition. Clients direct requests to its owner (Lim 2015, §5.3.2).

use crate::load::{BURST, Dataset, Directed, Drawn, SEED, Scale, Skew, THREADS, draw, report, timed};
use alluvium_hashes::mica::mode::Erew;
use alluvium_hashes::mica::{
    BurstRequest, BurstResponse, CacheEviction, ExclusiveTable, HashedKey, LosslessOptions, LosslessTable,
    LossyOptions, LossyTable, NEVER, TableCore, partition,
};
use std::hint::black_box;

/// The way in which requests are served.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Through the pipeline.
    Burst,
    /// One at a time.
    Single,
}

pub(crate) fn run(scale: &Scale, dataset: Dataset) {
    for (name, eviction) in [
        ("EREW FIFO", CacheEviction::Fifo),
        ("EREW S3-FIFO", CacheEviction::S3Fifo),
    ] {
        let options = LossyOptions {
            eviction,
            seed: SEED,
            // A partition may get slightly more than its share.
            ..LossyOptions::new(scale.bytes / THREADS / 100 * 102, dataset.key + dataset.value)
        };
        measure(scale, dataset, name, || {
            LossyTable::<Erew>::new(&options).expect("options that fit")
        });
    }
    let items = dataset.items(scale) / THREADS;
    let options = LosslessOptions {
        seed: SEED,
        ..LosslessOptions::new(items / 100 * 102 + 1000, dataset.key + dataset.value)
    };
    measure(scale, dataset, "EREW store", || {
        LosslessTable::<Erew>::new(&options).expect("options that fit")
    });
}

fn measure<C: TableCore<Mode = Erew> + Send>(
    scale: &Scale,
    dataset: Dataset,
    name: &str,
    table: impl Fn() -> C,
) {
    let mut tables: Vec<_> = (0..THREADS).map(|_| ExclusiveTable::new(table())).collect();
    fill(scale, dataset, &mut tables);
    for skew in [Skew::Uniform, Skew::Zipf] {
        for get_percent in [100, 95, 50, 0] {
            let drawn = draw(scale, dataset, (skew, get_percent, Directed::ToOwner));
            for (way, named) in [(Way::Burst, "burst"), (Way::Single, "single")] {
                let taken = timed(scale, &mut tables, &drawn, |table, drawn| {
                    serve(table, dataset, drawn, way)
                });
                report(scale, dataset, (name, named), (skew, get_percent), &taken);
            }
        }
    }
}

/// Sets all keys, in bursts.
fn fill<C: TableCore<Mode = Erew>>(scale: &Scale, dataset: Dataset, tables: &mut [ExclusiveTable<C>]) {
    let value = [7; 1024];
    let mut waiting: Vec<Vec<Drawn>> = vec![Vec::new(); tables.len()];
    let flush = |table: &mut ExclusiveTable<C>, burst: &mut Vec<Drawn>| {
        let mut keys = [[0; 128]; BURST];
        dataset.write_keys(burst, &mut keys);
        let requests: Vec<BurstRequest<'_>> = burst
            .iter()
            .zip(&keys)
            .map(|(drawn, key)| HashedKey::received(drawn.hash, &key[..dataset.key]))
            .map(|key| BurstRequest::Set(key, &value[..dataset.value], NEVER))
            .collect();
        table.burst(&requests, 0, |_, response| {
            assert_eq!(response, BurstResponse::Set(Ok(())));
        });
        burst.clear();
    };
    for key in dataset.numbers(scale) {
        let hash = dataset.hash(key);
        let number = partition(hash, tables.len());
        waiting[number].push(Drawn {
            key,
            hash,
            is_get: false,
        });
        if waiting[number].len() == BURST {
            flush(&mut tables[number], &mut waiting[number]);
        }
    }
    tables
        .iter_mut()
        .zip(&mut waiting)
        .for_each(|(table, burst)| flush(table, burst));
}

/// Serves all requests of a thread. Returns the number of hits.
fn serve<C: TableCore<Mode = Erew>>(
    table: &mut ExclusiveTable<C>,
    dataset: Dataset,
    drawn: &[Drawn],
    way: Way,
) -> u64 {
    let value = [9; 1024];
    let (mut keys, mut hits) = ([[0; 128]; BURST], 0);
    for drawn in drawn.chunks(BURST) {
        dataset.write_keys(drawn, &mut keys);
        let requests: [BurstRequest<'_>; BURST] = std::array::from_fn(|at| {
            let drawn = drawn[at.min(drawn.len() - 1)];
            let key = HashedKey::received(drawn.hash, &keys[at][..dataset.key]);
            if drawn.is_get {
                BurstRequest::Get(key)
            } else {
                BurstRequest::Set(key, &value[..dataset.value], NEVER)
            }
        });
        let requests = &requests[..drawn.len()];
        let mut count =
            |value: Option<&[u8]>| hits += u64::from(value.is_some_and(|value| black_box(value[0]) > 0));
        if way == Way::Burst {
            table.burst(requests, 0, |_, response| match response {
                BurstResponse::Value(value) => count(value),
                BurstResponse::Set(set) => set.expect("an item that fits"),
            });
            continue;
        }
        for request in requests {
            match *request {
                BurstRequest::Get(key) => count(table.get(key, 0)),
                BurstRequest::Set(key, value, expires_at) => {
                    table.set(key, value, expires_at, 0).expect("an item that fits");
                }
            }
        }
    }
    hits
}
