//! Who holds inodes.

use crate::types::Inode;
use parking_lot::Mutex;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, Default)]
struct InodeHold {
    count: u64,
    is_orphan: bool,
}

/// The inodes that are held, each with the number of its holds.
#[derive(Debug, Default)]
pub(super) struct HoldTable {
    held: Mutex<HashMap<Inode, InodeHold>>,
}

impl HoldTable {
    pub(super) fn hold(&self, inode: Inode) {
        self.held.lock().entry(inode).or_default().count += 1;
    }

    pub(super) fn is_held(&self, inode: Inode) -> bool {
        self.held.lock().contains_key(&inode)
    }

    /// Notes that a held inode has no names any more. Returns whether it is held at all.
    pub(super) fn note_orphan(&self, inode: Inode) -> bool {
        match self.held.lock().get_mut(&inode) {
            Some(hold) => {
                hold.is_orphan = true;
                true
            }
            None => false,
        }
    }

    /// Notes that an inode has got a name.
    pub(super) fn note_adoption(&self, inode: Inode) {
        if let Some(hold) = self.held.lock().get_mut(&inode) {
            hold.is_orphan = false;
        }
    }

    /// Takes back holds. Returns whether the inode is now an orphan that no view holds.
    pub(super) fn release(&self, inode: Inode, count: u64) -> bool {
        let mut held = self.held.lock();
        let Some(hold) = held.get_mut(&inode) else {
            return false;
        };
        hold.count = hold.count.saturating_sub(count);
        if hold.count > 0 {
            return false;
        }
        let is_orphan = hold.is_orphan;
        held.remove(&inode);
        is_orphan
    }
}
