//! Memory that a command takes while it is executed, beside its request and its reply: it counts
//! within the memory of clients.

use super::Store;
use crate::error::Failure;
use crate::net::Budget;
use crate::waits;
use std::sync::Arc;
use std::time::Duration;

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

/// Memory that a read from the device has taken for long values. Dropping it gives the memory back.
#[derive(Debug)]
pub(crate) struct Reading {
    budget: Arc<Budget>,
    taken: usize,
    from: From,
}

/// Where the memory of a read comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// That of clients.
    Clients,
    /// A turn beside it.
    Turn,
}

impl Drop for Reading {
    fn drop(&mut self) {
        match self.from {
            From::Turn => self.budget.end_to_read(self.taken),
            From::Clients if self.taken > 0 => self.budget.give(self.taken),
            From::Clients => {}
        }
    }
}

/// A write that is on its way. Dropping it lets others go on.
#[derive(Debug)]
pub(crate) struct Writing<'s> {
    budget: &'s Budget,
    bytes: usize,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.budget.end_to_write(self.bytes);
    }
}

/// How long a reader that holds locks waits for its turn once no other reader comes to its end,
/// before it reads all the same.
const TURN_TO_READ: Duration = Duration::from_secs(1);

/// How long a long write waits for others, before it is written all the same.
const TURN: Duration = Duration::from_secs(10);

impl Store {
    /// Takes memory for a read of some values from the device: none is needed unless there are long
    /// ones. None if clients have none left.
    pub(crate) fn room_to_read(&self, values: usize) -> Option<Reading> {
        let bytes = self.bytes_to_read(values);
        let has_room = bytes == 0 || self.budget.try_take(bytes);
        has_room.then(|| self.reading(bytes, From::Clients))
    }

    /// Returns how much a read of some values takes.
    fn bytes_to_read(&self, values: usize) -> usize {
        // A value is in memory as it was read and as it is replied. However long one is, two may be
        // on their way.
        let bytes = self.sizes.at_worst(values).saturating_mul(2);
        bytes.min(self.budget.limit() / 2)
    }

    fn reading(&self, taken: usize, from: From) -> Reading {
        Reading {
            budget: Arc::clone(&self.budget),
            taken,
            from,
        }
    }

    /// Waits for the turn of a write of some bytes: long ones are not copied for all clients at
    /// once. None if it needs no turn, or has waited for long: it goes on then.
    pub(crate) fn turn_to_write(&self, bytes: usize) -> Option<Writing<'_>> {
        if bytes <= FREE {
            return None;
        }
        let budget = &*self.budget;
        let has_turn = budget.begin_to_write(bytes, Duration::ZERO) || {
            waits::about_to_wait();
            budget.begin_to_write(bytes, TURN)
        };
        has_turn.then_some(Writing { budget, bytes })
    }

    /// The same as [`Store::room_to_read`] for a command that cannot be begun again: where clients
    /// hold too much it waits for its turn among such commands, and reads all the same once none of
    /// them comes to its end.
    pub(super) fn wait_for_room_to_read(&self, values: usize) -> Option<Reading> {
        if let Some(reading) = self.room_to_read(values) {
            return Some(reading);
        }
        waits::about_to_wait();
        self.budget.begin_to_wait();
        let bytes = self.bytes_to_read(values);
        let has_turn = self.budget.begin_to_read(bytes, TURN_TO_READ);
        self.budget.end_to_wait();
        has_turn.then(|| self.reading(bytes, From::Turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_writes_take_turns_and_one_always_goes_on() {
        let budget = Budget::new(1 << 20);
        let begins = |bytes| budget.begin_to_write(bytes, Duration::ZERO);
        assert!(begins(5 << 20), "however long it is");
        assert!(!begins(1));
        assert!(!budget.begin_to_write(1, Duration::from_millis(1)));
        std::thread::scope(|scope| {
            let next = scope.spawn(|| budget.begin_to_write(300 << 10, TURN));
            budget.end_to_write(5 << 20);
            assert!(next.join().unwrap(), "it was waiting");
        });
        assert!(begins(200 << 10));
        assert!(!begins(100 << 10), "more than half of the budget");
        budget.end_to_write(300 << 10);
        assert!(begins(100 << 10));
        assert_eq!(budget.used(), 0, "requests are charged as before");
    }

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
