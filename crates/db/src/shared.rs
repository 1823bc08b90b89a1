//! State shared by all handles of an open store.

use crate::background::reactor::Reactor;
use crate::background::worker::BackgroundWorkers;
use crate::engine::latencies::{LatencyRecorders, LatencyTimer};
use crate::engine::{CommitRecord, Engine, EngineCounter};
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::schema::catalog::{CommitKeyspaces, KeyspaceDefinition};
use crate::schema::format::{self, TreeKey};
use crate::write::async_commit::{self, AsyncCommitter};
use alluvium_base::SequenceNumber;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Name of a thread that closes a store after its last handle was dropped.
const CLOSING_THREAD: &str = "alluvium-close";

const NOT_IN_ORDER: &str = "the store could not be closed cleanly; the next opening recovers it";

/// State shared by all handles of one store. Dropping the last reference closes the store.
#[derive(Debug)]
pub(crate) struct SharedStore {
    pub(crate) engine: Arc<Engine>,
    pub(crate) workers: Arc<BackgroundWorkers>,
    pub(crate) reactor: Arc<Reactor>,
    pub(crate) committer: AsyncCommitter,
    pub(crate) recorders: LatencyRecorders,
    /// Values by the names under which parts of the program find them.
    pub(crate) published: Mutex<HashMap<String, Weak<dyn Any + Send + Sync>>>,
    /// Held by a thread while it closes the store, so that a second closing thread waits.
    pub(crate) closing: Arc<Mutex<()>>,
}

/// What closing a store has to stop, in one value that another thread can own.
struct StoreShutdown {
    engine: Arc<Engine>,
    workers: Arc<BackgroundWorkers>,
    reactor: Arc<Reactor>,
    committer: AsyncCommitter,
    closing: Arc<Mutex<()>>,
}

impl StoreShutdown {
    /// Closes the store, or waits until the thread that is already closing it is done.
    fn close(&self) -> Result<()> {
        let _closing = self.closing.lock();
        self.committer.stop();
        self.workers.stop();
        let result = self.engine.close();
        self.reactor.stop();
        result
    }

    /// Closes the store on a thread that has no caller, so an error is logged instead of returned.
    fn close_in_background(self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "{NOT_IN_ORDER}");
        }
    }
}

impl SharedStore {
    /// Returns a number that distinguishes this store from the other open stores of the process.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.engine).addr()
    }

    /// Returns an error if the store rejects writes or a background step has failed.
    pub(crate) fn healthy(&self) -> Result<()> {
        self.workers.failure()
    }

    pub(crate) fn commit(
        &self,
        commit: &CommitRecord,
        owners: CommitKeyspaces<'_>,
        durability: Option<Durability>,
    ) -> Result<SequenceNumber> {
        self.healthy()?;
        let durability = durability.unwrap_or(self.engine.durability);
        let (began, recorder) = match durability {
            Durability::Disk => (LatencyTimer::now(), &self.recorders.durable_commit),
            Durability::Memory | Durability::Process => (LatencyTimer::sampled(), &self.recorders.commit),
        };
        let last = self.engine.commit(commit, owners, durability)?;
        began.over(recorder);
        Ok(last)
    }

    /// Drops a future's reference to the store. If it is the last one, another thread closes the
    /// store, because closing takes time and must not block the thread that polls or drops a
    /// future.
    pub(crate) fn release_in_background(self: Arc<Self>) {
        let Some(last) = Arc::into_inner(self) else {
            return;
        };
        let closing = std::thread::Builder::new()
            .name(CLOSING_THREAD.to_owned())
            .spawn(move || drop(last));
        if let Err(error) = closing {
            tracing::error!(%error, "no thread could be started to close the store; the calling thread closed it");
        }
    }

    /// Counts one multi-key get of `keys` keys.
    pub(crate) fn count_multi_get(&self, keys: usize) {
        self.engine.counters.add([
            (EngineCounter::MultiGets, 1),
            (EngineCounter::MultiGetKeys, keys as u64),
        ]);
    }

    /// Closes the store. If the calling thread is itself working for the store or reading from it,
    /// as a waker of the program may be, waiting for that work to end would deadlock, so another
    /// thread closes the store instead.
    pub(crate) fn close(&self) -> Result<()> {
        let open = StoreShutdown {
            engine: Arc::clone(&self.engine),
            workers: Arc::clone(&self.workers),
            reactor: Arc::clone(&self.reactor),
            committer: self.committer.clone(),
            closing: Arc::clone(&self.closing),
        };
        if !async_commit::is_here() && !self.engine.is_inside_call() {
            return open.close();
        }
        let closing = std::thread::Builder::new()
            .name(CLOSING_THREAD.to_owned())
            .spawn(move || open.close_in_background());
        closing.map(drop).map_err(|error| Error::Background {
            cause: format!("no thread could be started to close the store: {error}"),
        })
    }
}

impl Drop for SharedStore {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "{NOT_IN_ORDER}");
        }
    }
}

/// A keyspace of an open store.
#[derive(Clone)]
pub(crate) struct OpenKeyspace {
    pub(crate) shared: Arc<SharedStore>,
    pub(crate) definition: Arc<KeyspaceDefinition>,
}

impl OpenKeyspace {
    /// Converts a user key to a tree key, and returns it with the keyspace's definition.
    pub(crate) fn asked_key(&self, key: &[u8]) -> (TreeKey, Arc<KeyspaceDefinition>) {
        let key = format::tree_key(&self.definition.prefix, key);
        (key, Arc::clone(&self.definition))
    }
}
