//! Who is told of changes.

use crate::contract::ChangeListener;
use crate::operations::ChangeLog;
use crate::types::Inode;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The listeners of a file system, with the numbers of their views.
#[derive(Default)]
pub(super) struct ListenerList {
    listeners: Mutex<Vec<(u64, Arc<dyn ChangeListener>)>>,
    views: AtomicU64,
}

impl fmt::Debug for ListenerList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerList").finish_non_exhaustive()
    }
}

/// What has changed, each name and inode once.
#[derive(Debug, Default)]
pub(super) struct ChangeSummary {
    pub(super) names: HashSet<(Inode, Vec<u8>)>,
    pub(super) inodes: HashSet<Inode>,
}

impl ChangeSummary {
    pub(super) fn add(&mut self, changes: &mut ChangeLog) {
        self.names.extend(changes.names.drain(..));
        self.inodes.extend(changes.inodes.drain(..));
    }
}

impl ListenerList {
    /// Returns a number for a view, which is not told of its own changes.
    pub(super) fn next_view(&self) -> u64 {
        self.views.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn add(&self, view: u64, listener: Arc<dyn ChangeListener>) {
        self.listeners.lock().push((view, listener));
    }

    pub(super) fn remove(&self, view: u64) {
        self.listeners.lock().retain(|(of, _)| *of != view);
    }

    fn others(&self, view: u64) -> Vec<Arc<dyn ChangeListener>> {
        let listeners = self.listeners.lock();
        let others = listeners.iter().filter(|(of, _)| *of != view);
        others.map(|(_, listener)| Arc::clone(listener)).collect()
    }

    /// Tells the listeners of all other views what a view has changed.
    pub(super) fn announce(&self, view: u64, summary: &ChangeSummary) {
        for listener in self.others(view) {
            for (parent, name) in &summary.names {
                listener.name_changed(*parent, name);
            }
            for inode in &summary.inodes {
                listener.inode_changed(*inode);
            }
        }
    }

    /// Waits until the listeners of all other views have acted upon what they were told, for at
    /// most this long each.
    pub(super) fn settle(&self, view: u64, most: Duration) {
        for listener in self.others(view) {
            listener.settle(most);
        }
    }

    /// Like [`ListenerList::announce`], for a single operation.
    pub(super) fn announce_log(&self, view: u64, mut changes: ChangeLog) {
        if self.listeners.lock().iter().all(|(of, _)| *of == view) {
            return;
        }
        let mut summary = ChangeSummary::default();
        summary.add(&mut changes);
        self.announce(view, &summary);
    }
}
