//! The state that all handles of an open store share.

use crate::catalog::{Definition, Owners};
use crate::committer::Committer;
use crate::engine::{Commit, Engine, Tally};
use crate::format::{self, TreeKey};
use crate::reactor::Reactor;
use crate::stats::{Began, Recorders};
use crate::worker::Workers;
use crate::{Durability, Result};
use alluvium_base::Sequence;
use std::sync::Arc;

/// What all handles of one store share. The last one closes it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) workers: Workers,
    pub(crate) reactor: Reactor,
    pub(crate) committer: Committer,
    pub(crate) recorders: Recorders,
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
            .name("alluvium-close".to_owned())
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

    pub(crate) fn close(&self) -> Result<()> {
        self.committer.stop();
        self.workers.stop();
        let result = self.engine.close();
        self.reactor.stop();
        result
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "the store could not be closed in order; opening it recovers");
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
