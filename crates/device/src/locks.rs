//! The locks held in an in-memory directory.

use crate::{Error, Result};
use std::collections::BTreeMap;

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockSharing {
    Exclusive,
    /// Shared with other holders of this mode.
    Shared,
}

/// The held locks by name, each with its mode and number of holders.
#[derive(Debug, Default)]
pub(crate) struct DirectoryLocks {
    taken: BTreeMap<String, (LockSharing, usize)>,
}

impl DirectoryLocks {
    /// Acquires a lock.
    ///
    /// # Errors
    /// `Locked` if the lock is held in a conflicting mode.
    pub(crate) fn take(&mut self, name: &str, sharing: LockSharing) -> Result<()> {
        let (how, times) = self.taken.entry(name.to_owned()).or_insert((sharing, 0));
        if *times > 0 && (*how == LockSharing::Exclusive || sharing == LockSharing::Exclusive) {
            return Err(Error::Locked {
                file: name.to_owned(),
                holder: Some(std::process::id()),
            });
        }
        *times += 1;
        Ok(())
    }

    /// Releases a lock once. It is free once it was released as often as it was acquired.
    pub(crate) fn give_back(&mut self, name: &str) {
        if let Some((_, times)) = self.taken.get_mut(name) {
            *times -= 1;
            if *times == 0 {
                self.taken.remove(name);
            }
        }
    }
}
