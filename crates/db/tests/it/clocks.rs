//! Clocks that step back between two openings. Expired values stay expired, and a clock that was
//! wrong by years does not make later writes expire.

use alluvium::simulation::{DirectoryOpener as _, StoreScale};
use alluvium::{Db, Keyspace, KeyspaceOptions, Options};
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
const BEGIN: u64 = 20_000 * DAY;
const STRUCTURES: [&str; 4] = ["tiered", "levels", "hashed", "paged,node=1024,key=16,value=64"];

fn at(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

/// A clock that the test sets.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::Relaxed);
    }

    fn options(&self) -> Options {
        let hand = self.clone();
        Options::new().simulated(StoreScale::small(52, 64 << 10, 768 << 10), move || {
            hand.0.load(Ordering::Relaxed)
        })
    }
}

/// How a process stops using the store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leave {
    /// Closes the store.
    Closed,
    /// Syncs, then is killed.
    Synced,
    /// Takes a checkpoint, then loses power with the machine.
    Checkpoint,
}

fn open(hand: &Hand, machine: &SimDirectory) -> (Db, Vec<Keyspace>) {
    let db = hand.options().open_in(Arc::new(machine.reopen())).unwrap();
    let keyspace = |structure: &str| {
        let options = KeyspaceOptions::new().structure(structure.parse().unwrap());
        db.keyspace_with(structure, &options).unwrap()
    };
    let keyspaces = STRUCTURES.map(keyspace).into();
    (db, keyspaces)
}

fn leave(machine: SimDirectory, db: Db, keyspaces: Vec<Keyspace>, how: Leave) -> SimDirectory {
    match how {
        Leave::Closed => {
            db.close().unwrap();
            drop(keyspaces);
            machine
        }
        Leave::Synced => {
            db.sync().unwrap();
            machine.image(CrashSurvival::Process, 1)
        }
        Leave::Checkpoint => {
            keyspaces[0].put("another", "commit").unwrap();
            db.checkpoint().unwrap();
            machine.image(CrashSurvival::None, 1)
        }
    }
}

#[test]
fn what_was_seen_as_expired_stays_so_when_the_clock_goes_back_between_two_openings() {
    for how in [Leave::Closed, Leave::Synced, Leave::Checkpoint] {
        let (hand, machine) = (Hand::default(), SimDirectory::new(52));
        hand.set(BEGIN);
        let (db, keyspaces) = open(&hand, &machine);
        for keyspace in &keyspaces {
            keyspace.put_until("soon", "a", at(BEGIN + HOUR)).unwrap();
            keyspace.put_until("later", "b", at(BEGIN + 4 * HOUR)).unwrap();
        }
        let machine = leave(machine, db, keyspaces, Leave::Closed);
        hand.set(BEGIN + 2 * HOUR);
        let (db, keyspaces) = open(&hand, &machine);
        for keyspace in &keyspaces {
            assert_eq!(keyspace.get("soon").unwrap(), None, "{how:?}");
        }
        let machine = leave(machine, db, keyspaces, how);
        for life in 0..2 {
            hand.set(BEGIN + life);
            let (db, keyspaces) = open(&hand, &machine);
            for (keyspace, structure) in keyspaces.iter().zip(STRUCTURES) {
                let context = format!("{how:?} {structure} life {life}");
                assert_eq!(keyspace.get("soon").unwrap(), None, "{context}: it is back");
                assert_eq!(keyspace.get("later").unwrap().unwrap(), b"b", "{context}");
                let walked = keyspace.unordered().map(|pair| pair.unwrap().0);
                assert!(walked.into_iter().all(|key| key != b"soon"), "{context}");
            }
            leave(machine.clone(), db, keyspaces, Leave::Closed);
        }
    }
}

#[test]
fn a_clock_that_was_ahead_by_years_does_not_end_what_is_written_later() {
    let (hand, machine) = (Hand::default(), SimDirectory::new(53));
    hand.set(BEGIN);
    let (db, keyspaces) = open(&hand, &machine);
    keyspaces[0].put_until("before", "a", at(BEGIN + HOUR)).unwrap();
    let machine = leave(machine, db, keyspaces, Leave::Closed);
    hand.set(BEGIN + 30 * 365 * DAY);
    let (db, keyspaces) = open(&hand, &machine);
    assert_eq!(keyspaces[0].get("before").unwrap(), None);
    let machine = leave(machine, db, keyspaces, Leave::Closed);
    hand.set(BEGIN + HOUR / 2);
    let (db, keyspaces) = open(&hand, &machine);
    for keyspace in &keyspaces {
        keyspace.put_until("now", "b", at(BEGIN + HOUR)).unwrap();
        assert_eq!(keyspace.get("now").unwrap().unwrap(), b"b");
    }
    // Compactions do not treat the new value as expired either.
    db.compact().unwrap();
    for keyspace in &keyspaces {
        assert_eq!(keyspace.get("now").unwrap().unwrap(), b"b");
    }
    hand.set(BEGIN + HOUR);
    for keyspace in &keyspaces {
        assert_eq!(keyspace.get("now").unwrap(), None);
    }
}

#[test]
fn compactions_spare_what_a_clock_that_was_ahead_would_have_ended() {
    let (hand, machine) = (Hand::default(), SimDirectory::new(54));
    hand.set(BEGIN + 400 * DAY);
    let (db, keyspaces) = open(&hand, &machine);
    keyspaces[0].put("plain", "a").unwrap();
    db.compact().unwrap();
    hand.set(BEGIN);
    for keyspace in &keyspaces {
        keyspace.put_until("now", "b", at(BEGIN + HOUR)).unwrap();
    }
    db.compact().unwrap();
    for keyspace in &keyspaces {
        assert_eq!(keyspace.get("now").unwrap().unwrap(), b"b");
    }
}
