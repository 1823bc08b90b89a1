//! Reads under skew, of data eight times the memory and of a few records that are always cached,
//! with and without the record cache.

use crate::{RECORD, Sizes, key, mix, rate, value};
use alluvium::{Keyspace, MIN_MEMORY, Options};
use alluvium_base::Purpose;
use std::path::Path;
use std::time::Instant;

/// Ratio of data size to memory.
const TIMES: u64 = 8;

/// Draws ranks. Rank r is drawn about r^-0.99 times as often as the first (Gray et al., SIGMOD
/// 1994).
struct Zipf {
    count: f64,
    zeta: f64,
    eta: f64,
}

const THETA: f64 = 0.99;

impl Zipf {
    fn new(count: u64) -> Zipf {
        let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
        let all = zeta(count);
        let count = count as f64;
        Zipf {
            count,
            zeta: all,
            eta: (1.0 - (2.0 / count).powf(1.0 - THETA)) / (1.0 - zeta(2) / all),
        }
    }

    fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        let uniform = random.f64();
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = self.count * (self.eta * uniform - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.count as u64 - 1)
    }
}

fn open(path: &Path, memory: u64, records: Option<u64>) -> alluvium::Db {
    let options = Options::new().memory(memory);
    let options = match records {
        Some(bytes) => options.record_memory(bytes),
        None => options,
    };
    options.open(path).unwrap()
}

/// Gets records with one or several threads. Returns millions of gets per second.
fn gets(
    keyspace: &Keyspace,
    threads: u64,
    each: u64,
    draw: impl Fn(&mut fastrand::Rng) -> u64 + Sync,
) -> f64 {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let draw = &draw;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(mix(thread + 1));
                for _ in 0..each {
                    assert!(keyspace.get(key(draw(&mut random))).unwrap().is_some());
                }
            });
        }
    });
    rate(threads * each, began)
}

pub(crate) fn skew(sizes: &Sizes) {
    let records = sizes.records;
    let memory = (records * RECORD / TIMES).max(MIN_MEMORY);
    let directory = match &sizes.directory {
        Some(path) => tempfile::tempdir_in(path),
        None => tempfile::tempdir(),
    };
    let directory = directory.expect("a directory for the store");
    let path = directory.path().join("store");
    let db = open(&path, memory, None);
    let keyspace = db.keyspace("usertable").unwrap();
    for index in 0..records {
        keyspace.put(key(index), value(index)).unwrap();
    }
    db.checkpoint().unwrap();
    drop(keyspace);
    db.close().unwrap();
    let zipf = Zipf::new(records);
    let reads = records / 4;
    for records in [Some(0), None, Some(memory / 8), Some(memory / 4)] {
        let db = open(&path, memory, records);
        let keyspace = db.keyspace("usertable").unwrap();
        let draw = |random: &mut fastrand::Rng| zipf.draw(random);
        gets(&keyspace, 1, reads, draw);
        let (device, before) = (db.stats().device, db.stats().records);
        let speed = gets(&keyspace, 1, reads, draw);
        let stats = db.stats();
        let read = stats.device.since(&device).of(Purpose::Lookup).reads;
        let hits = stats.records.hits - before.hits;
        println!(
            "skew, {} records, {} MiB of memory, {:.1} of it for records, {:.1} for pages: {:.3} M gets/s, {:.3} device reads each, {:.1} % from records ({} kept)",
            reads * 4,
            memory >> 20,
            stats.records.budget_bytes as f64 / f64::from(1 << 20),
            stats.cache.budget_bytes as f64 / f64::from(1 << 20),
            speed,
            read as f64 / reads as f64,
            hits as f64 / reads as f64 * 100.0,
            stats.records.records
        );
        let few = 1000.min(reads);
        let draw = |random: &mut fastrand::Rng| random.u64(0..few);
        gets(&keyspace, 1, 20 * few, draw);
        println!(
            "  {few} of them again and again: {:.2} M gets/s, two threads {:.2}",
            gets(&keyspace, 1, reads, draw),
            gets(&keyspace, 2, reads / 2, draw)
        );
    }
}
