//! Compares the cost of a hashed keyspace with that of an ordered one: memory per key, pages
//! requested and read per lookup, and bytes written per user byte. `cargo run --release --example
//! hashed -p alluvium -- 5000000`.
//!
//! The second argument is the directory of the stores, which are removed at the end. The third is
//! the number of updates per second, for a steady load; without it, updates run at full speed.

use alluvium::{
    Db, HashedForm, HashedOptions, Keyspace, KeyspaceOptions, Options, Purpose, Stats, Structure, WriteBatch,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of a key, which is like a hash, and of its value. They total 64.
const KEY: usize = 20;
const VALUE: usize = 44;

/// Number of writes per commit.
const BATCH: u64 = 1000;

/// Number of lookups counted.
const LOOKUPS: u64 = 100_000;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Returns the key with this number. Its bytes have no meaningful order.
fn key(number: u64) -> [u8; KEY] {
    let mut random = fastrand::Rng::with_seed(number);
    std::array::from_fn(|_| random.u8(..))
}

/// Writes records with these numbers, at most `rate` per second.
fn put(db: &Db, keyspace: &Keyspace, numbers: impl Iterator<Item = u64>, rate: Option<u64>) -> Outcome<()> {
    let (mut batch, mut count) = (WriteBatch::new(), 0);
    let begun = Instant::now();
    for number in numbers {
        let mut value = [0; VALUE];
        value[..8].copy_from_slice(&number.to_le_bytes());
        batch.put(keyspace, key(number), value)?;
        count += 1;
        if count % BATCH == 0 {
            db.write(&std::mem::take(&mut batch))?;
            let due = rate.map_or(Duration::ZERO, |rate| {
                Duration::from_secs_f64(count as f64 / rate as f64)
            });
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
    }
    Ok(db.write(&batch)?)
}

/// Returns the bytes of memory used to locate keys, without the page cache.
fn guides(stats: &Stats) -> u64 {
    stats
        .hashed
        .map_or(stats.memory.tree, |hashed| hashed.memory_bytes)
}

/// Returns the bytes written by memtables and compactions per user byte.
fn written(before: &Stats, after: &Stats) -> f64 {
    let of = |stats: &Stats| {
        let device = |purpose| stats.device.of(purpose).written_bytes;
        device(Purpose::Incorporate) + device(Purpose::Compact)
    };
    (of(after) - of(before)) as f64 / (after.written_bytes - before.written_bytes) as f64
}

/// Looks up keys. Returns the pages requested per lookup, and how many of them were not in memory.
fn look(db: &Db, keyspace: &Keyspace, numbers: impl Iterator<Item = u64>) -> Outcome<(f64, f64)> {
    let before = db.stats();
    for number in numbers {
        keyspace.get(key(number))?;
    }
    let after = db.stats();
    let asked = |stats: &Stats| stats.cache.hits + stats.cache.misses + stats.cache.joined;
    let read = |stats: &Stats| stats.device.of(Purpose::Lookup).reads;
    let each = |counted: u64| counted as f64 / LOOKUPS as f64;
    Ok((
        each(asked(&after) - asked(&before)),
        each(read(&after) - read(&before)),
    ))
}

/// Prints the size of routing filters, or of the lists of routing trees, if there are any.
fn tell_filters(stats: &Stats, records: u64) {
    let Some(hashed) = stats.hashed else { return };
    println!(
        "  routing filters or lists for each {:8.1} B   {} levels, {} runs, in updates",
        hashed.filter_bytes as f64 / records as f64,
        hashed.levels,
        hashed.runs
    );
}

/// What was observed while records were rewritten.
struct Seen {
    /// Peak memory used to locate keys in bytes, and peak number of hash stores, in the second half
    /// of the updates. The first half would be distorted by merges left over from the load.
    most: u64,
    stores: u64,
    /// Counters after half of the updates.
    before: Stats,
}

/// Rewrites as many records as there are, in forty parts.
fn update(db: &Db, keyspace: &Keyspace, records: u64, rate: Option<u64>, loaded: &Stats) -> Outcome<Seen> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut seen = Seen {
        most: 0,
        stores: 0,
        before: loaded.clone(),
    };
    for round in 0..40 {
        let numbers = (0..records / 40).map(|_| random.u64(..records));
        put(db, keyspace, numbers, rate)?;
        let now = db.stats();
        if round >= 20 {
            seen.most = seen.most.max(guides(&now));
            seen.stores = seen.stores.max(now.hashed.map_or(0, |hashed| hashed.hash_stores));
        } else {
            seen.before = now;
        }
    }
    Ok(seen)
}

fn measure(path: &Path, name: &str, structure: Structure, records: u64, rate: Option<u64>) -> Outcome<()> {
    let options = Options::new().memory(64 << 20);
    let db = options.open(path)?;
    let keyspace = db.keyspace_with("blobs", &KeyspaceOptions::new().structure(structure))?;
    let mut random = fastrand::Rng::with_seed(8);
    let empty = db.stats();
    put(&db, &keyspace, 0..records, None)?;
    let loaded = db.stats();
    let begun = Instant::now();
    let Seen { most, stores, before } = update(&db, &keyspace, records, rate, &loaded)?;
    let (updated, seconds) = (db.stats(), begun.elapsed().as_secs_f64());
    let hits = look(&db, &keyspace, (0..LOOKUPS).map(|_| random.u64(..records)))?;
    let misses = look(&db, &keyspace, records..records + LOOKUPS)?;
    db.compact()?;
    let rested = db.stats();
    let hits_at_rest = look(&db, &keyspace, (0..LOOKUPS).map(|_| random.u64(..records)))?;
    let misses_at_rest = look(&db, &keyspace, records..records + LOOKUPS)?;
    let keys = keyspace.unordered().count() as u64;
    assert_eq!(keys, records, "every record is there once");
    println!("{name}, {records} records of {} bytes", KEY + VALUE);
    let each = |bytes: u64| bytes as f64 / records as f64;
    println!(
        "  memory for each key, at rest      {:8.3} B",
        each(guides(&rested))
    );
    println!("  memory for each key, in updates   {:8.3} B at most", each(most));
    println!(
        "  updates a second                  {:8.0}",
        records as f64 / seconds
    );
    println!(
        "  written for each byte, load       {:8.2}",
        written(&empty, &loaded)
    );
    println!(
        "  written for each byte, updates    {:8.2}",
        written(&before, &updated)
    );
    println!(
        "  pages asked, read: hit, at rest   {:8.3} {:8.3}",
        hits_at_rest.0, hits_at_rest.1
    );
    println!(
        "  pages asked, read: miss, at rest  {:8.3} {:8.3}",
        misses_at_rest.0, misses_at_rest.1
    );
    println!(
        "  pages asked, read: hit, updates   {:8.3} {:8.3}   {stores} hash stores at most",
        hits.0, hits.1
    );
    println!(
        "  pages asked, read: miss, updates  {:8.3} {:8.3}",
        misses.0, misses.1
    );
    println!(
        "  bytes on the device for each      {:8.1}",
        each(rested.space.live_bytes)
    );
    tell_filters(&updated, records);
    db.close()?;
    Ok(())
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let records = arguments.next().map_or(Ok(50_000), |text| text.parse())?;
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let rate = arguments.next().map(|text| text.parse()).transpose()?;
    let form = |form| Structure::Hashed(HashedOptions::default().form(form));
    let boa = |lambda, refined| form(HashedForm::Boa { lambda, refined });
    let bot = |lambda| form(HashedForm::Bot { lambda });
    for (name, structure) in [
        ("hashed, PaCHash", Structure::Hashed(HashedOptions::pachash())),
        ("hashed, trie", Structure::Hashed(HashedOptions::trie())),
        ("hashed, BOA, λ = 4", boa(4, false)),
        ("hashed, refined BOA, λ = 4", boa(4, true)),
        ("hashed, BOA, λ = 16", boa(16, false)),
        ("hashed, refined BOA, λ = 16", boa(16, true)),
        ("hashed, BOT, λ = 4", bot(4)),
        ("hashed, BOT, λ = 16", bot(16)),
        ("tiered", Structure::Tiered),
    ] {
        let place = tempfile::tempdir_in(&directory)?;
        measure(&place.path().join("store"), name, structure, records, rate)?;
    }
    Ok(())
}
