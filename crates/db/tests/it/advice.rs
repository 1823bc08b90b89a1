//! Advice that is applied to an open store, and reverted.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{CacheAdvice, Db, Keyspace, Options, Trial, TrialOutcome};
use alluvium_device::memory::MemoryDirectory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: u64 = 120_000;

struct Fixture {
    db: Db,
    keyspace: Keyspace,
    clock: Arc<AtomicU64>,
    random: fastrand::Rng,
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

impl Fixture {
    /// Returns a store with twice as much data as its caches hold, whose clock the caller controls.
    fn new(options: Options) -> Fixture {
        let clock = Arc::new(AtomicU64::new(1_000_000));
        let now_ms = Arc::clone(&clock);
        let options = options.memory(16 << 20).workers(0);
        let options = options.clocked(move || now_ms.load(Ordering::Relaxed));
        let db = options.open_in(Arc::new(MemoryDirectory::new())).unwrap();
        let keyspace = db.keyspace("numbers").unwrap();
        for number in 0..KEYS {
            keyspace.put(key(number), [7; 100]).unwrap();
        }
        db.checkpoint().unwrap();
        while db.work().unwrap() {}
        let random = fastrand::Rng::with_seed(3);
        Fixture {
            db,
            keyspace,
            clock,
            random,
        }
    }

    /// Lets seconds pass, with a thousand lookups in each, until a change is decided. Returns the
    /// number of seconds.
    fn watched(&mut self, most: u64) -> u64 {
        for second in 0..most {
            if self
                .last()
                .is_some_and(|last| last.outcome != TrialOutcome::Watched)
            {
                return second;
            }
            self.second();
        }
        most
    }

    fn second(&mut self) {
        for _ in 0..1000 {
            // Cubing a uniform random number skews the keys.
            let even = self.random.f64();
            let number = (even * even * even * KEYS as f64) as u64;
            assert!(self.keyspace.get(key(number)).unwrap().is_some());
        }
        self.clock.fetch_add(1000, Ordering::Relaxed);
        self.db.work().unwrap();
    }

    fn last(&self) -> Option<Trial> {
        self.db.trials().last().copied()
    }

    fn records(&self) -> f64 {
        let memory = self.db.stats().memory;
        memory.records as f64 / (memory.records + memory.pages) as f64
    }
}

#[test]
fn a_change_is_kept_when_it_reads_as_predicted_and_taken_back_when_it_does_not() {
    let mut fixture = Fixture::new(Options::new());
    for _ in 0..40 {
        fixture.second();
    }
    let began = fixture.records();
    // The first change is a model's advice to give records less memory.
    let advice = fixture.db.advice_for(0.05).unwrap().unwrap();
    fixture.db.apply_advice(&advice).unwrap();
    let busy = fixture.db.apply_advice(&advice).unwrap_err().to_string();
    assert!(busy.contains("is being watched"), "{busy}");
    assert!((fixture.records() - 0.05).abs() < 0.01, "{}", fixture.records());
    let seconds = fixture.watched(100);
    let first = fixture.last().unwrap();
    assert_eq!(first.outcome, TrialOutcome::Kept, "{first:?}");
    assert!(
        seconds <= 60 && (first.share_before - began).abs() < 0.01,
        "{first:?}"
    );
    assert!(first.before.unwrap() > 0.0 && first.measured.unwrap() <= first.advice.p90 + 0.02);
    // The second is wrong advice, which predicts that three quarters of the memory for records
    // avoids all reads.
    let kept = fixture.records();
    let wrong = CacheAdvice {
        record_share: 0.75,
        p10: 0.0,
        predicted: 0.0,
        p90: 0.001,
    };
    fixture.db.apply_advice(&wrong).unwrap();
    assert!(fixture.records() > 0.6, "{}", fixture.records());
    let seconds = fixture.watched(100);
    let second = fixture.last().unwrap();
    assert_eq!(second.outcome, TrialOutcome::AboveBand, "{second:?}");
    assert!(
        seconds <= 60 && second.ended_ms.unwrap() - second.began_ms <= 60_000,
        "{second:?}"
    );
    assert!((fixture.records() - kept).abs() < 0.02, "it is as it was before");
    // The third is good advice again, after the wrong one.
    let advice = fixture.db.advice_for(0.12).unwrap().unwrap();
    fixture.db.apply_advice(&advice).unwrap();
    fixture.watched(100);
    let third = fixture.last().unwrap();
    assert_eq!(third.outcome, TrialOutcome::Kept, "{third:?}");
    assert_eq!(fixture.db.trials().len(), 3);
}

#[test]
fn a_share_that_the_program_chose_comes_back() {
    let mut fixture = Fixture::new(Options::new().record_memory(2 << 20));
    fixture.second();
    let bytes = fixture.db.stats().memory.records;
    let wrong = CacheAdvice {
        record_share: 0.0,
        p10: 0.0,
        predicted: 0.0,
        p90: 0.0,
    };
    fixture.db.apply_advice(&wrong).unwrap();
    assert_eq!(fixture.db.stats().memory.records, 0);
    fixture.watched(100);
    assert!(fixture.last().unwrap().outcome.is_rolled_back());
    assert_eq!(fixture.db.stats().memory.records, bytes);
}

#[test]
fn what_cannot_be_applied_changes_nothing() {
    let fixture = Fixture::new(Options::new());
    let before = fixture.records();
    let error = fixture.db.advice_for(0.9).unwrap_err().to_string();
    assert!(error.contains("not a share of the caches"), "{error}");
    let wrong = CacheAdvice {
        record_share: 0.5,
        p10: 2.0,
        predicted: 1.0,
        p90: f64::NAN,
    };
    assert!(
        fixture
            .db
            .apply_advice(&wrong)
            .unwrap_err()
            .to_string()
            .contains("not a valid band")
    );
    assert_eq!((fixture.records(), fixture.db.trials().len()), (before, 0));
    fixture.db.clone().close().unwrap();
    assert!(fixture.db.apply_advice(&wrong).is_err());
}
