//! Memory that a command takes while it is executed, beside its request and its reply: it counts
//! within the memory of clients.

use super::Store;
use crate::error::Failure;
use crate::net::Budget;

/// The first bytes of a command are not counted, so that short commands share no counter.
const FREE: usize = 64 << 10;

/// Memory is taken in whole steps of this length.
const STEP: usize = 64 << 10;

/// The memory that a command has taken for what it gathers. Dropping it gives the memory back.
#[derive(Debug)]
pub(crate) struct Working<'s> {
    budget: &'s Budget,
    needed: usize,
    taken: usize,
}

impl<'s> Working<'s> {
    /// Begins with nothing.
    pub(crate) fn new(store: &'s Store) -> Working<'s> {
        Working {
            budget: &store.budget,
            needed: 0,
            taken: 0,
        }
    }

    /// Takes more bytes.
    ///
    /// # Errors
    /// [`Failure::NoRoom`] if all clients together would hold more than they may. The command has
    /// changed nothing yet.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), Failure> {
        self.needed = self.needed.saturating_add(bytes);
        if self.needed <= FREE || self.needed <= self.taken {
            return Ok(());
        }
        let missing = (self.needed - self.taken).checked_next_multiple_of(STEP);
        match missing.filter(|&missing| self.budget.try_take(missing)) {
            Some(missing) => {
                self.taken += missing;
                Ok(())
            }
            None => Err(Failure::NoRoom { bytes: self.needed }),
        }
    }
}

impl<'s> Working<'s> {
    /// Takes bytes whether they fit or not: a buffer that every command of a kind has, of a size
    /// that no client chooses.
    pub(crate) fn of_buffer(store: &'s Store, bytes: usize) -> Working<'s> {
        store.budget.take(bytes);
        Working {
            budget: &store.budget,
            needed: bytes,
            taken: bytes,
        }
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if self.taken > 0 {
            self.budget.give(self.taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_gathers_is_taken_in_steps_and_given_back() {
        let budget = Budget::new(1 << 20);
        let mut working = Working {
            budget: &budget,
            needed: 0,
            taken: 0,
        };
        working.add(FREE).unwrap();
        assert_eq!(budget.used(), 0);
        working.add(1).unwrap();
        assert_eq!(budget.used(), FREE + STEP);
        working.add(STEP - 1).unwrap();
        assert_eq!(budget.used(), FREE + STEP);
        let refused = working.add(1 << 20);
        assert!(matches!(refused, Err(Failure::NoRoom { bytes }) if bytes == (1 << 20) + FREE + STEP));
        assert!(matches!(working.add(usize::MAX), Err(Failure::NoRoom { .. })));
        drop(working);
        assert_eq!(budget.used(), 0);
    }
}
