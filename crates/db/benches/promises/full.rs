//! Repeatedly fills a disk and frees space by deletes, without closing the store.

use super::{MIB, Sizes, key, mib, value};
use alluvium::Options;
use std::time::{Duration, Instant};

const VALUE: usize = 4000;

/// How long writes may be refused after space was freed before the bench reports a failure.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn run(sizes: &Sizes) {
    let place = sizes.place();
    let mut options = Options::new().memory(32 * MIB);
    if sizes.directory.is_none() {
        options = options.max_bytes(256 * MIB);
    }
    let db = options.open(place.path().join("store")).unwrap();
    let keyspace = db.keyspace("main").unwrap();
    let (mut longest, mut in_between) = (Duration::ZERO, Duration::ZERO);
    let mut next = 0;
    for cycle in 0..sizes.cycles {
        let first = next;
        let mut refused_since: Option<Instant> = None;
        // The disk is full only if the refusal lasts. A brief refusal waits for space that is being
        // reclaimed.
        let refused = loop {
            match keyspace.put(key(next), value(next, VALUE)) {
                Ok(()) => {
                    next += 1;
                    let since = refused_since
                        .take()
                        .map_or(Duration::ZERO, |since| since.elapsed());
                    in_between = in_between.max(since);
                }
                Err(error) => {
                    if refused_since.get_or_insert_with(Instant::now).elapsed() > sizes.full_after {
                        break error;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        };
        assert!(refused.is_full(), "{refused}");
        if cycle == 0 {
            println!("refused with: {refused}");
        }
        // Reads and deletes of all records must still succeed.
        for number in (first..next).step_by(97) {
            let found = keyspace.get(key(number)).unwrap();
            assert_eq!(found.as_deref(), Some(&value(number, VALUE)[..]));
        }
        for number in first..next {
            keyspace.delete(key(number)).unwrap();
        }
        let began = Instant::now();
        let waited = loop {
            match keyspace.put(key(next), value(next, VALUE)) {
                Ok(()) => break began.elapsed(),
                Err(error) => assert!(
                    error.is_full() && began.elapsed() < PATIENCE,
                    "after {:?}: {error}\n{}",
                    began.elapsed(),
                    db.stats()
                ),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        println!(
            "cycle {cycle}: {:.0} MiB put, then deleted; writing went on after {:.2} s",
            mib((next - first) * (VALUE as u64 + 24)),
            waited.as_secs_f64()
        );
        longest = longest.max(waited);
        next += 1;
    }
    println!(
        "{} cycles, writing went on after {:.2} s at most, and was held up for {:.2} s at most while there was space to come; check: {:?}",
        sizes.cycles,
        longest.as_secs_f64(),
        in_between.as_secs_f64(),
        db.check().unwrap()
    );
}
