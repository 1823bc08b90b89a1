//! Loom model checks of the epoch ledger. `crate::sync` has the command that runs them.

use super::ledger::EpochLedger;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// A model with a link to one of two objects, and the ledger that protects them.
struct EpochModel {
    ledger: EpochLedger,
    link: AtomicUsize,
    /// The two objects. Freeing one writes to it, and loom reports reads that are not ordered with
    /// that write.
    things: [UnsafeCell<u32>; 2],
}

const ALIVE: u32 = 7;

impl EpochModel {
    fn new() -> Arc<EpochModel> {
        Arc::new(EpochModel {
            ledger: EpochLedger::new(),
            link: AtomicUsize::new(0),
            things: [UnsafeCell::new(ALIVE), UnsafeCell::new(ALIVE)],
        })
    }

    fn follow(&self) {
        let thing = self.link.load(Ordering::Acquire);
        // SAFETY: the model shows that an object is not freed while a participant may read it.
        self.things[thing].with(|value| assert_eq!(unsafe { *value }, ALIVE));
    }

    /// Unlinks the first object, tries to advance the epoch `advances` times, and frees the object
    /// if the ledger allows it. Returns whether it was freed.
    fn replace(&self, advances: usize) -> bool {
        self.link.store(1, Ordering::Release);
        let unlinked_at = self.ledger.current();
        for _ in 0..advances {
            self.ledger.advance();
        }
        let free = unlinked_at < self.ledger.safe();
        if free {
            // SAFETY: the model shows that no participant can still read the object.
            self.things[0].with_mut(|value| unsafe { *value = 0 });
        }
        free
    }
}

#[test]
fn nothing_is_freed_under_a_pinned_slot() {
    loom::model(|| {
        let world = EpochModel::new();
        let slot = world.ledger.claim().unwrap();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                for _ in 0..2 {
                    world.ledger.enter(world.ledger.slot(slot));
                    world.follow();
                    world.ledger.slot(slot).leave();
                }
            })
        };
        world.replace(3);
        reader.join().unwrap();
    });
}

#[test]
fn nothing_is_freed_under_a_pinned_slot_while_another_thread_advances() {
    loom::model(|| {
        let world = EpochModel::new();
        let slot = world.ledger.claim().unwrap();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.ledger.enter(world.ledger.slot(slot));
                world.follow();
                world.ledger.slot(slot).leave();
            })
        };
        let pusher = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.ledger.advance();
                world.ledger.advance();
            })
        };
        world.replace(1);
        reader.join().unwrap();
        pusher.join().unwrap();
    });
}

#[test]
fn nothing_is_freed_under_a_counted_participant() {
    loom::model(|| {
        let world = EpochModel::new();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let epoch = world.ledger.count_in();
                world.follow();
                world.ledger.count_out(epoch);
            })
        };
        world.replace(3);
        reader.join().unwrap();
    });
}

#[test]
fn a_hold_taken_under_a_guard_protects_what_the_guard_saw() {
    loom::model(|| {
        let world = EpochModel::new();
        let slot = world.ledger.claim().unwrap();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let epoch = world.ledger.enter(world.ledger.slot(slot));
                let thing = world.link.load(Ordering::Acquire);
                world.ledger.count_in_at(epoch);
                world.ledger.slot(slot).leave();
                // SAFETY: as in `follow`.
                world.things[thing].with(|value| assert_eq!(unsafe { *value }, ALIVE));
                world.ledger.count_out(epoch);
            })
        };
        world.replace(3);
        reader.join().unwrap();
    });
}

#[test]
fn without_readers_two_advances_free() {
    loom::model(|| {
        let world = EpochModel::new();
        assert!(!world.replace(1));
        assert!(world.replace(2));
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_finds_a_thing_that_is_freed_one_epoch_early() {
    loom::model(|| {
        let world = EpochModel::new();
        let slot = world.ledger.claim().unwrap();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.ledger.enter(world.ledger.slot(slot));
                world.follow();
                world.ledger.slot(slot).leave();
            })
        };
        world.link.store(1, Ordering::Release);
        let unlinked_at = world.ledger.current();
        world.ledger.advance();
        if unlinked_at <= world.ledger.safe() {
            // SAFETY: this is deliberately unsound, to test that the model detects it.
            world.things[0].with_mut(|value| unsafe { *value = 0 });
        }
        reader.join().unwrap();
    });
}
