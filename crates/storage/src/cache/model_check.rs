//! Loom model checks of the lock-free parts of the cache. `crate::sync` has the command that runs
//! them.

use super::frame::{FrameHeader, FrameId, FrameState, InitialHeat, NodeKey};
use super::page_table::{PageTable, PageTableLookup, PageTableUpdate};
use super::single_flight::{JobProgress, SingleFlight};
use crate::epoch::ledger::EpochLedger;
use crate::sync::Mutex;
use crate::{NodeCodec, NodePointer};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

const FRAME: FrameId = FrameId(0);
const OTHER: FrameId = FrameId(1);

fn key(birth: u64) -> NodeKey {
    NodeKey::of(&NodePointer {
        offset: 0,
        birth,
        checksum: birth,
        encoded_len: 4096,
        tier: 0,
        pages: 1,
        codec: NodeCodec::None,
    })
}

/// A cache with two frames, a page table and an epoch ledger. A frame's content is the birth
/// generation of its node.
struct CacheModel {
    ledger: EpochLedger,
    table: PageTable,
    headers: [FrameHeader; 2],
    contents: [UnsafeCell<u64>; 2],
}

impl CacheModel {
    /// Creates a model in which the first `nodes` frames contain nodes with birth generations from
    /// 1 up.
    fn new(nodes: u64) -> Arc<CacheModel> {
        let world = CacheModel {
            ledger: EpochLedger::new(),
            table: PageTable::new(1).unwrap(),
            headers: [FrameHeader::default(), FrameHeader::default()],
            contents: [UnsafeCell::new(0), UnsafeCell::new(0)],
        };
        for birth in 1..=nodes {
            world.fill(FrameId(birth as u32 - 1), birth);
        }
        Arc::new(world)
    }

    fn header(&self, frame: FrameId) -> &FrameHeader {
        &self.headers[frame.0 as usize]
    }

    fn fill(&self, frame: FrameId, birth: u64) {
        self.header(frame).take();
        // SAFETY: the model shows that no thread reads a frame while a node is written to it.
        self.contents[frame.0 as usize].with_mut(|content| unsafe { *content = birth });
        self.header(frame).publish(&key(birth), InitialHeat::Proven);
        assert_eq!(self.table.insert(key(birth).hash(), frame), PageTableUpdate::Made);
    }

    fn find(&self, birth: u64) -> Option<FrameId> {
        let key = key(birth);
        match self
            .table
            .find(key.hash(), |frame| self.header(frame).holds(&key))
        {
            PageTableLookup::Frame(frame) => Some(frame),
            PageTableLookup::Nothing | PageTableLookup::Moved => None,
        }
    }

    fn assert_holds(&self, frame: FrameId, birth: u64) {
        // SAFETY: the model shows that no thread writes to a frame that was found under a guard.
        self.contents[frame.0 as usize].with(|content| assert_eq!(unsafe { *content }, birth));
    }

    /// Evicts the node with birth generation 1. If the epochs allow it, frees the frame and writes
    /// the node with birth generation 9 to it. Returns whether this happened.
    fn replace(&self, advances: usize) -> bool {
        if self.table.remove(key(1).hash(), FRAME) != PageTableUpdate::Made {
            return false;
        }
        let header = self.header(FRAME);
        header.retire(self.ledger.current());
        for _ in 0..advances {
            self.ledger.advance();
        }
        if header.retired_at() >= self.ledger.safe() || !header.recycle() {
            return false;
        }
        self.fill(FRAME, 9);
        true
    }
}

#[test]
fn a_frame_found_under_a_guard_is_not_filled_anew() {
    loom::model(|| {
        let world = CacheModel::new(1);
        let slot = world.ledger.claim().unwrap();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                for birth in [1, 9] {
                    world.ledger.enter(world.ledger.slot(slot));
                    if let Some(frame) = world.find(birth) {
                        world.assert_holds(frame, birth);
                    }
                    world.ledger.slot(slot).leave();
                }
            })
        };
        world.replace(3);
        reader.join().unwrap();
    });
}

#[test]
fn a_frame_that_is_retained_under_a_guard_is_not_filled_anew_after_it() {
    loom::model(|| {
        let world = CacheModel::new(1);
        let slot = world.ledger.claim().unwrap();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.ledger.enter(world.ledger.slot(slot));
                let found = world.find(1);
                if let Some(frame) = found {
                    world.header(frame).pin();
                }
                world.ledger.slot(slot).leave();
                if let Some(frame) = found {
                    world.assert_holds(frame, 1);
                    world.header(frame).unpin();
                }
            })
        };
        world.replace(3);
        reader.join().unwrap();
    });
}

#[test]
fn of_two_who_evict_one_frame_one_does() {
    loom::model(|| {
        let world = CacheModel::new(2);
        let evictors: Vec<_> = (0..2)
            .map(|_| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.table.remove(key(1).hash(), FRAME) == PageTableUpdate::Made)
            })
            .collect();
        // While node 1 is being evicted, a lookup must still find node 2 in the same bucket.
        assert_eq!(world.find(2), Some(OTHER));
        let evicted = evictors.into_iter().map(|evictor| evictor.join().unwrap());
        assert_eq!(evicted.filter(|&evicted| evicted).count(), 1);
        assert_eq!(
            (world.find(1), world.header(FRAME).state()),
            (None, FrameState::Resident)
        );
    });
}

#[test]
fn a_lookup_misses_nothing_while_buckets_move_to_a_newer_table() {
    loom::model(|| {
        let older = CacheModel::new(1);
        let newer = Arc::new(PageTable::new(1).unwrap());
        let mover = {
            let (older, newer) = (Arc::clone(&older), Arc::clone(&newer));
            thread::spawn(move || {
                for bucket in 0..older.table.bucket_count() {
                    older.table.move_bucket(bucket, |frame| {
                        assert_eq!(newer.insert(key(1).hash(), frame), PageTableUpdate::Made);
                    });
                }
            })
        };
        let hash = key(1).hash();
        let found = match older.table.find(hash, |_| true) {
            PageTableLookup::Frame(frame) => PageTableLookup::Frame(frame),
            // A reader that has searched only the older table must go on in the newer one.
            missed => {
                assert_eq!(missed, PageTableLookup::Moved);
                newer.find(hash, |_| true)
            }
        };
        assert_eq!(found, PageTableLookup::Frame(FRAME));
        mover.join().unwrap();
        assert_eq!(older.table.insert(hash, OTHER), PageTableUpdate::Moved);
        assert_eq!(older.table.remove(hash, FRAME), PageTableUpdate::Moved);
    });
}

#[test]
fn a_frame_evicted_while_its_bucket_moves_is_in_neither_table() {
    loom::model(|| {
        let older = CacheModel::new(1);
        let newer = Arc::new(PageTable::new(1).unwrap());
        let hash = key(1).hash();
        let mover = {
            let (older, newer) = (Arc::clone(&older), Arc::clone(&newer));
            thread::spawn(move || {
                for bucket in 0..older.table.bucket_count() {
                    older.table.move_bucket(bucket, |frame| {
                        newer.insert(hash, frame);
                    });
                }
            })
        };
        let removed = match older.table.remove(hash, FRAME) {
            PageTableUpdate::Made => PageTableUpdate::Made,
            _ => newer.remove(hash, FRAME),
        };
        assert_eq!(removed, PageTableUpdate::Made);
        mover.join().unwrap();
        assert_eq!(newer.find(hash, |_| true), PageTableLookup::Nothing);
    });
}

#[test]
fn two_who_wait_for_one_read_have_it_done_once() {
    loom::model(|| {
        let turn = Arc::new(SingleFlight::<u64, u64>::new());
        let done = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let (turn, done) = (Arc::clone(&turn), Arc::clone(&done));
                thread::spawn(move || {
                    turn.finish(|job| {
                        done.fetch_add(1, Ordering::Relaxed);
                        job + 1
                    })
                })
            })
            .collect();
        turn.ready(41);
        turn.try_finish(
            |_| true,
            |job| {
                done.fetch_add(1, Ordering::Relaxed);
                job + 1
            },
        );
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Some(42));
        }
        assert_eq!(done.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_read_in_the_thread_that_began_it_reaches_those_that_join_it() {
    loom::model(|| {
        let turn = Arc::new(SingleFlight::<u64, u64>::new());
        let waiter = {
            let turn = Arc::clone(&turn);
            thread::spawn(move || turn.finish(|_| unreachable!("it is never ready")))
        };
        assert_eq!(turn.run_at_once(|| 42), 42);
        assert_eq!(waiter.join().unwrap(), Some(42));
        assert_eq!(turn.finish(|_| unreachable!("it is done")), Some(42));
    });
}

#[test]
fn whoever_waits_for_an_abandoned_read_is_told() {
    loom::model(|| {
        let turn = Arc::new(SingleFlight::<u64, u64>::new());
        let waiter = {
            let turn = Arc::clone(&turn);
            thread::spawn(move || turn.finish(|job| job))
        };
        turn.abandon();
        assert_eq!(waiter.join().unwrap(), None);
        assert_eq!(turn.try_finish(|_| true, |job| job), JobProgress::Abandoned);
    });
}

#[test]
fn two_who_miss_one_node_read_it_once() {
    loom::model(|| {
        let world = CacheModel::new(0);
        let flights = Arc::new(Mutex::new(None::<Arc<SingleFlight<(), ()>>>));
        let reads = Arc::new(AtomicUsize::new(0));
        // As in `read.rs`, looking up the node again and registering the flight are one atomic
        // step, and so are publishing the node and removing the flight.
        let look_up = |world: Arc<CacheModel>,
                       flights: Arc<Mutex<Option<Arc<SingleFlight<(), ()>>>>>,
                       reads: Arc<AtomicUsize>| {
            if world.find(1).is_some() {
                return;
            }
            let turn = {
                let mut flight = flights.lock();
                if world.find(1).is_some() {
                    return;
                }
                Arc::clone(flight.get_or_insert_with(|| {
                    let turn = SingleFlight::new();
                    turn.ready(());
                    Arc::new(turn)
                }))
            };
            turn.finish(|()| {
                reads.fetch_add(1, Ordering::Relaxed);
                let mut flight = flights.lock();
                world.fill(FRAME, 1);
                *flight = None;
            });
            assert_eq!(world.find(1), Some(FRAME));
        };
        let other = {
            let (world, flights, reads) = (Arc::clone(&world), Arc::clone(&flights), Arc::clone(&reads));
            thread::spawn(move || look_up(world, flights, reads))
        };
        look_up(world, flights, Arc::clone(&reads));
        other.join().unwrap();
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_finds_a_frame_that_is_filled_without_waiting_for_epochs() {
    loom::model(|| {
        let world = CacheModel::new(1);
        let slot = world.ledger.claim().unwrap();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.ledger.enter(world.ledger.slot(slot));
                if let Some(frame) = world.find(1) {
                    world.assert_holds(frame, 1);
                }
                world.ledger.slot(slot).leave();
            })
        };
        assert_eq!(world.table.remove(key(1).hash(), FRAME), PageTableUpdate::Made);
        world.header(FRAME).retire(world.ledger.current());
        if world.header(FRAME).recycle() {
            world.fill(FRAME, 9);
        }
        reader.join().unwrap();
    });
}
