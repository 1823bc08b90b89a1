//! Group commit for connections. One sync of the store serves all replies that wait for durability.

use super::connection::{ProtocolConnection, TurnOutcome};
use super::pool::{LoopMessage, LoopPool};
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};

#[derive(Default)]
struct SyncQueue {
    connections: Vec<(usize, usize, Box<ProtocolConnection>)>,
    is_stopping: bool,
}

/// Makes all earlier commits durable.
type SyncCallback = Box<dyn Fn() -> alluvium::Result<()> + Send + Sync>;

/// A background thread that syncs the store on behalf of connections, so that event loops do not
/// block.
pub(crate) struct GroupSyncer {
    sync: SyncCallback,
    waiting: Mutex<SyncQueue>,
    changed: Condvar,
}

impl GroupSyncer {
    pub(crate) fn new(sync: SyncCallback) -> GroupSyncer {
        GroupSyncer {
            sync,
            waiting: Mutex::new(SyncQueue::default()),
            changed: Condvar::new(),
        }
    }

    /// Queues a connection until everything that it has committed is durable, and then returns it
    /// to its slot in its loop.
    pub(crate) fn wait_for_disk(&self, seat: usize, slot: usize, connection: Box<ProtocolConnection>) {
        self.waiting.lock().connections.push((seat, slot, connection));
        self.changed.notify_one();
    }

    pub(crate) fn sync_now(&self) -> alluvium::Result<()> {
        (self.sync)()
    }

    /// The main function of the thread, which runs until it is told to stop and no connection is
    /// waiting.
    pub(crate) fn run(&self, pool: &Weak<LoopPool>) {
        loop {
            let together = {
                let mut waiting = self.waiting.lock();
                while waiting.connections.is_empty() {
                    if waiting.is_stopping {
                        return;
                    }
                    self.changed.wait(&mut waiting);
                }
                std::mem::take(&mut waiting.connections)
            };
            let result = (self.sync)();
            let Some(pool) = pool.upgrade() else { return };
            for (seat, slot, mut connection) in together {
                connection.synced(&result);
                pool.seats[seat].send(LoopMessage::Back(slot, connection, TurnOutcome::Again));
            }
        }
    }

    pub(crate) fn stop(&self) {
        self.waiting.lock().is_stopping = true;
        self.changed.notify_one();
    }
}

/// Starts the background thread of a syncer.
pub(crate) fn start(
    syncer: &Arc<GroupSyncer>,
    pool: &Arc<LoopPool>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let (syncer, pool) = (Arc::clone(syncer), Arc::downgrade(pool));
    std::thread::Builder::new()
        .name("alluvium-sync".to_owned())
        .spawn(move || syncer.run(&pool))
}
