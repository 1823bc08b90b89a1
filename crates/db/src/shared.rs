//! The state that all handles of an open store share.

use crate::catalog::{Definition, Owners};
use crate::committer::{self, Committer};
use crate::engine::{Commit, Engine, Tally};
use crate::format::{self, TreeKey};
use crate::reactor::Reactor;
use crate::stats::{Began, Recorders};
use crate::worker::Workers;
use crate::{Durability, Error, Result};
use alluvium_base::Sequence;
use parking_lot::Mutex;
use std::sync::Arc;

/// The name of a thread that closes a store where its last handle was dropped.
const CLOSING_THREAD: &str = "alluvium-close";

const NOT_IN_ORDER: &str = "the store could not be closed in order; opening it recovers";

/// What all handles of one store share. The last one closes it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) reactor: Arc<Reactor>,
    pub(crate) committer: Committer,
    pub(crate) recorders: Recorders,
    /// Held while the store is being closed.
    pub(crate) closing: Arc<Mutex<()>>,
}

/// What ends when a store is closed.
struct Open {
    engine: Arc<Engine>,
    workers: Arc<Workers>,
    reactor: Arc<Reactor>,
    committer: Committer,
    closing: Arc<Mutex<()>>,
}

impl Open {
    /// Closes the store, or waits for the thread that does.
    fn close(&self) -> Result<()> {
        let _closing = self.closing.lock();
        self.committer.stop();
        self.workers.stop();
        let result = self.engine.close();
        self.reactor.stop();
        result
    }

    /// Closes the store where no caller waits for it.
    fn close_in_background(self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "{NOT_IN_ORDER}");
        }
    }
}

impl Shared {
    /// Tells this store from others in the process.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.engine).addr()
    }

    /// Fails when the store does not take writes, or with what went wrong in the background.
    pub(crate) fn healthy(&self) -> Result<()> {
        self.workers.failure()
    }

    pub(crate) fn commit(
        &self,
        commit: &Commit,
        owners: Owners<'_>,
        durability: Option<Durability>,
    ) -> Result<Sequence> {
        self.healthy()?;
        let durability = durability.unwrap_or(self.engine.durability);
        let (began, recorder) = match durability {
            Durability::Disk => (Began::now(), &self.recorders.durable_commit),
            Durability::Memory | Durability::Process => (Began::sampled(), &self.recorders.commit),
        };
        let last = self.engine.commit(commit, owners, durability)?;
        began.over(recorder);
        Ok(last)
    }

    /// Drops a future's hold on the store. A store is not closed where a future is polled or
    /// dropped, because that takes time: another thread does it.
    pub(crate) fn let_go(self: Arc<Self>) {
        let Some(last) = Arc::into_inner(self) else {
            return;
        };
        let closing = std::thread::Builder::new()
            .name(CLOSING_THREAD.to_owned())
            .spawn(move || drop(last));
        if let Err(error) = closing {
            tracing::error!(%error, "no thread could be started to close the store; it was closed in place");
        }
    }

    /// Counts a read of many keys.
    pub(crate) fn count_multi_get(&self, keys: usize) {
        self.engine
            .tallies
            .add([(Tally::MultiGets, 1), (Tally::MultiGetKeys, keys as u64)]);
    }

    /// Closes the store. A thread that works for the store or reads from it at this moment cannot
    /// wait for itself: it runs code of the program, a waker for one. Another thread closes the
    /// store then.
    pub(crate) fn close(&self) -> Result<()> {
        let open = Open {
            engine: Arc::clone(&self.engine),
            workers: Arc::clone(&self.workers),
            reactor: Arc::clone(&self.reactor),
            committer: self.committer.clone(),
            closing: Arc::clone(&self.closing),
        };
        if !committer::is_here() && !self.engine.is_used_here() {
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

impl Drop for Shared {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "{NOT_IN_ORDER}");
        }
    }
}

/// A keyspace of an open store.
#[derive(Clone)]
pub(crate) struct OpenKeyspace {
    pub(crate) shared: Arc<Shared>,
    pub(crate) definition: Arc<Definition>,
}

impl OpenKeyspace {
    /// Returns a key as dictionaries have it, with the keyspace's definition.
    pub(crate) fn asked_key(&self, key: &[u8]) -> (TreeKey, Arc<Definition>) {
        let key = format::tree_key(&self.definition.prefix, key);
        (key, Arc::clone(&self.definition))
    }
}
