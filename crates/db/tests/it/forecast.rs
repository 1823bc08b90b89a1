//! Predictions compared with measurements.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{CostQuantity, Db, Forecast, Keyspace, KeyspaceOptions, Options};
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: u64 = 120_000;
const VALUE: usize = 100;
const HOUR_MS: u64 = 3_600_000;

/// Returns the options of a store without threads, and its clock.
fn options() -> (Options, Arc<AtomicU64>) {
    let clock = Arc::new(AtomicU64::new(5 * HOUR_MS));
    let now_ms = Arc::clone(&clock);
    let options = Options::new().memory(16 << 20).workers(0);
    let options = options.clocked(move || now_ms.load(Ordering::Relaxed));
    (options, clock)
}

/// Opens a store in memory.
fn open() -> Db {
    options().0.open_in(Arc::new(MemoryDirectory::new())).unwrap()
}

/// Returns the key with this number. Keys are distinct and in pseudo-random order.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Writes records and syncs at intervals, so that the log is written as in a busy store.
fn load(db: &Db, keyspace: &Keyspace, numbers: impl Iterator<Item = u64>) {
    for (place, number) in numbers.enumerate() {
        keyspace.put(key(number), [number as u8; VALUE]).unwrap();
        if place % 5000 == 0 {
            db.sync().unwrap();
            while db.work().unwrap() {}
        }
    }
    db.sync().unwrap();
    while db.work().unwrap() {}
}

/// Looks up keys that are all present or all absent.
fn look_up(keyspace: &Keyspace, count: u64, is_there: bool) {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..count {
        let number = random.u64(..KEYS) + if is_there { 0 } else { KEYS };
        assert_eq!(keyspace.get(key(number)).unwrap().is_some(), is_there);
    }
}

fn measured(forecast: &Forecast, what: CostQuantity) -> f64 {
    forecast.of(what).unwrap().measured.unwrap()
}

#[test]
fn what_was_predicted_stands_beside_what_was_measured() {
    let db = open();
    let keyspace = db.keyspace("numbers").unwrap();
    load(&db, &keyspace, 0..KEYS);
    look_up(&keyspace, 100_000, true);
    look_up(&keyspace, 5_000, false);
    let forecast = db.forecast().unwrap().unwrap();
    assert_eq!((&forecast.keyspace[..], forecast.past.len()), ("numbers", 0));
    assert!(
        (forecast.keys / KEYS as f64 - 1.0).abs() < 0.02,
        "{}",
        forecast.keys
    );
    let (stats, done) = (db.stats(), db.stats().operations);
    assert_eq!((done.found, done.absent), (100_000, 5_000));
    let hits = done.found_reads as f64 / done.found as f64;
    assert_eq!(measured(&forecast, CostQuantity::HitReads), hits);
    let waited = (done.found_reads + done.absent_reads) as f64;
    let asked = stats.read_amplification().unwrap() * 105_000.0;
    assert!(
        (waited / asked - 1.0).abs() < 0.05,
        "{waited} nodes, {asked} reads of the device"
    );
    // The newer half of the records was written with a higher write amplification than the mean.
    let written = measured(&forecast, CostQuantity::WriteAmplification);
    assert!(written > stats.write_amplification().unwrap(), "{written}");
    // A record of 116 bytes takes about as many bytes in the files, plus 3 to 4 bytes of guides.
    // Extents have exactly the requested size, and the key count is accurate to 2 %.
    let space = measured(&forecast, CostQuantity::SpaceAmplification);
    assert!((1.0..1.35).contains(&space), "{space}");
    let guides = measured(&forecast, CostQuantity::MemoryPerKey);
    assert!((2.0..6.0).contains(&guides), "{guides}");
    let of = |what| *forecast.of(what).unwrap();
    for what in [
        CostQuantity::HitReads,
        CostQuantity::MissReads,
        CostQuantity::MemoryPerKey,
        CostQuantity::SpaceAmplification,
    ] {
        let row = of(what);
        let error = row.predicted - row.measured.unwrap();
        assert!(error.abs() < 0.2 * row.predicted.max(0.2), "{row:?}");
    }
    let names: Vec<String> = forecast.list().into_iter().map(|figure| figure.name).collect();
    assert!(names.contains(&"forecast.write_amplification.measured".to_owned()));
}

#[test]
fn an_hour_that_has_ended_has_what_was_predicted_before_it_began() {
    // Use files, where the bytes that a log sync writes are counted with the sync.
    let place = tempfile::tempdir().unwrap();
    let (options, clock) = options();
    let db = options.open(place.path().join("store")).unwrap();
    let keyspace = db.keyspace("numbers").unwrap();
    load(&db, &keyspace, 0..KEYS / 2);
    clock.fetch_add(HOUR_MS, Ordering::Relaxed);
    let first = db.forecast().unwrap().unwrap();
    assert_eq!(first.past.len(), 0, "before the first hour nothing had been seen");
    load(&db, &keyspace, KEYS / 2..KEYS);
    let before = db.stats();
    clock.fetch_add(HOUR_MS, Ordering::Relaxed);
    let second = db.forecast().unwrap().unwrap();
    let [hour] = &second.past[..] else {
        panic!("{:?}", second.past);
    };
    assert_eq!((hour.began_ms, hour.ended_ms), (6 * HOUR_MS, 7 * HOUR_MS));
    let written = hour
        .was
        .iter()
        .find(|row| row.what == CostQuantity::WriteAmplification);
    let written = written.unwrap();
    let predicted = first.of(CostQuantity::WriteAmplification).unwrap().predicted;
    assert_eq!(written.predicted, predicted, "of half of the keys");
    assert_ne!(
        second.of(CostQuantity::WriteAmplification).unwrap().predicted,
        predicted
    );
    assert!(written.measured.unwrap() > 1.0);
    let now = second.of(CostQuantity::WriteAmplification).unwrap();
    let was = now.measured.unwrap();
    assert!((was / now.predicted - 1.0).abs() < 0.25, "{now:?}");
    // Writes after the hour do not change its forecast.
    load(&db, &keyspace, 0..KEYS / 4);
    assert_eq!(db.forecast().unwrap().unwrap().past, second.past);
    assert!(db.stats().written_bytes > before.written_bytes);
}

#[test]
fn a_keyspace_in_levels_is_asked_about_with_its_own_model() {
    let db = open();
    let options = KeyspaceOptions::new().structure("levels,cola,r=3".parse().unwrap());
    let keyspace = db.keyspace_with("levels", &options).unwrap();
    load(&db, &keyspace, 0..20_000);
    let forecast = db.forecast().unwrap().unwrap();
    assert_eq!(forecast.structure, "cola, r=3");
    assert_eq!(forecast.of(CostQuantity::MissReads).unwrap().measured, None);
}
