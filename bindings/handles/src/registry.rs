//! The handles of a store that hold a view or work of it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What a live handle is, for the error of a store that cannot be closed.
#[derive(Clone)]
pub(crate) enum LiveHandleKind {
    Walk(alluvium::Keyspace),
    Snapshot,
    Transaction(u64),
    Ingest(alluvium::Keyspace),
}

impl fmt::Display for LiveHandleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveHandleKind::Walk(keyspace) => write!(f, "an iterator over {:?}", keyspace.name()),
            LiveHandleKind::Snapshot => f.write_str("a snapshot"),
            LiveHandleKind::Transaction(number) => write!(f, "transaction {number}"),
            LiveHandleKind::Ingest(keyspace) => write!(f, "an ingest into {:?}", keyspace.name()),
        }
    }
}

#[derive(Default)]
struct LiveState {
    next: u64,
    handles: BTreeMap<u64, LiveHandleKind>,
}

/// The list of live handles of a store.
#[derive(Clone, Default)]
pub(crate) struct LiveHandles {
    state: Arc<Mutex<LiveState>>,
}

/// Number of live handles that the error of a close names.
const NAMED: usize = 8;

impl LiveHandles {
    /// Enters a handle into the list, until the result is dropped.
    pub(crate) fn enter(&self, kind: LiveHandleKind) -> LiveTicket {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.handles.insert(number, kind);
        LiveTicket {
            number,
            list: self.clone(),
        }
    }

    /// Returns the live handles in words, oldest first, or `None` if there are none.
    pub(crate) fn describe(&self) -> Option<String> {
        let state = self.state.lock();
        let all = state.handles.len();
        if all == 0 {
            return None;
        }
        let mut names: Vec<String> = state
            .handles
            .values()
            .take(NAMED)
            .map(ToString::to_string)
            .collect();
        if all > NAMED {
            names.push(format!("{} more", all - NAMED));
        }
        Some(names.join(", "))
    }

    /// Returns the number of live handles.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().handles.len()
    }
}

/// The entry of a live handle, which leaves the list when it is dropped.
pub(crate) struct LiveTicket {
    number: u64,
    list: LiveHandles,
}

impl Drop for LiveTicket {
    fn drop(&mut self) {
        self.list.state.lock().handles.remove(&self.number);
    }
}
