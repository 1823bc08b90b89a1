//! Which locks of a directory in memory are taken, and how.

use crate::{Error, Result};
use std::collections::BTreeMap;

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// By one alone.
    Alone,
    /// Together with others who take it like this.
    Together,
}

/// Locks by name, each with how it is taken and how often.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    taken: BTreeMap<String, (Sharing, usize)>,
}

impl Locks {
    /// Takes a lock.
    ///
    /// # Errors
    /// `Locked`.
    pub(crate) fn take(&mut self, name: &str, sharing: Sharing) -> Result<()> {
        let (how, times) = self.taken.entry(name.to_owned()).or_insert((sharing, 0));
        if *times > 0 && (*how == Sharing::Alone || sharing == Sharing::Alone) {
            return Err(Error::Locked {
                file: name.to_owned(),
                holder: Some(std::process::id()),
            });
        }
        *times += 1;
        Ok(())
    }

    /// Gives a lock back that was taken.
    pub(crate) fn give_back(&mut self, name: &str) {
        if let Some((_, times)) = self.taken.get_mut(name) {
            *times -= 1;
            if *times == 0 {
                self.taken.remove(name);
            }
        }
    }
}
