//! Connections whose replies wait for the disk: one sync for all that wait together.

use super::connection::{Connection, Turn};
use super::pool::{Message, Pool};
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};

#[derive(Default)]
struct Waiting {
    connections: Vec<(usize, usize, Box<Connection>)>,
    is_stopping: bool,
}

/// Makes durable what was committed before it is called.
type Sync = Box<dyn Fn() -> alluvium::Result<()> + Send + std::marker::Sync>;

/// Syncs the store whenever a connection waits for it, so that no loop does.
pub(crate) struct Syncer {
    sync: Sync,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Syncer {
    pub(crate) fn new(sync: Sync) -> Syncer {
        Syncer {
            sync,
            waiting: Mutex::new(Waiting::default()),
            changed: Condvar::new(),
        }
    }

    /// The connection goes back to its loop once everything that it has committed is on the disk.
    pub(crate) fn wait_for_disk(&self, seat: usize, slot: usize, connection: Box<Connection>) {
        self.waiting.lock().connections.push((seat, slot, connection));
        self.changed.notify_one();
    }

    pub(crate) fn sync_now(&self) -> alluvium::Result<()> {
        (self.sync)()
    }

    /// Syncs until it is stopped and no connection waits.
    pub(crate) fn run(&self, pool: &Weak<Pool>) {
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
                pool.seats[seat].send(Message::Back(slot, connection, Turn::Again));
            }
        }
    }

    pub(crate) fn stop(&self) {
        self.waiting.lock().is_stopping = true;
        self.changed.notify_one();
    }
}

/// A syncer's thread.
pub(crate) fn start(syncer: &Arc<Syncer>, pool: &Arc<Pool>) -> std::io::Result<std::thread::JoinHandle<()>> {
    let (syncer, pool) = (Arc::clone(syncer), Arc::downgrade(pool));
    std::thread::Builder::new()
        .name("alluvium-sync".to_owned())
        .spawn(move || syncer.run(&pool))
}
