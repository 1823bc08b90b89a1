//! Charges the memory that a command uses during execution, besides its request and reply, to the
//! clients' memory budget.

use super::ServerStore;
use crate::error::CommandError;
use crate::net::{ConnectionBudget, wait_hooks};
use std::sync::Arc;
use std::time::Duration;

/// Number of bytes that each command may use free of charge, so that short commands need not update
/// the shared counter.
const FREE: usize = 64 << 10;

/// Granularity of charges, in bytes.
const STEP: usize = 64 << 10;

/// The memory charge for data that a command accumulates, released on drop.
#[derive(Debug)]
pub(crate) struct WorkingMemory<'s> {
    budget: &'s ConnectionBudget,
    needed: usize,
    taken: usize,
}

impl<'s> WorkingMemory<'s> {
    pub(crate) fn new(store: &'s ServerStore) -> WorkingMemory<'s> {
        WorkingMemory {
            budget: &store.budget,
            needed: 0,
            taken: 0,
        }
    }

    /// Charges another `bytes` bytes.
    ///
    /// # Errors
    /// [`CommandError::NoRoom`] if the clients' total memory would exceed its limit. Commands
    /// charge memory before they change anything, so the server can simply refuse the command.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), CommandError> {
        self.needed = self.needed.saturating_add(bytes);
        if self.needed <= FREE || self.needed <= self.taken {
            return Ok(());
        }
        let missing = (self.needed - self.taken).checked_next_multiple_of(STEP);
        match missing.filter(|&missing| self.budget.try_charge(missing)) {
            Some(missing) => {
                self.taken += missing;
                Ok(())
            }
            None => Err(CommandError::NoRoom { bytes: self.needed }),
        }
    }
}

impl<'s> WorkingMemory<'s> {
    /// Charges a buffer's memory even beyond the limit. Only for buffers that every command of a
    /// kind needs and whose size clients cannot influence.
    pub(crate) fn of_buffer(store: &'s ServerStore, bytes: usize) -> WorkingMemory<'s> {
        store.budget.charge(bytes);
        WorkingMemory {
            budget: &store.budget,
            needed: bytes,
            taken: bytes,
        }
    }
}

impl Drop for WorkingMemory<'_> {
    fn drop(&mut self) {
        if self.taken > 0 {
            self.budget.uncharge(self.taken);
        }
    }
}

/// The memory charge for reading long values from the device, released on drop.
#[derive(Debug)]
pub(crate) struct ReadReservation {
    budget: Arc<ConnectionBudget>,
    taken: usize,
    from: ReservationSource,
}

/// How a read obtained its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReservationSource {
    Clients,
    /// The read waited for its turn; its memory may exceed the clients' memory limit.
    Turn,
}

impl Drop for ReadReservation {
    fn drop(&mut self) {
        match self.from {
            ReservationSource::Turn => self.budget.end_to_read(self.taken),
            ReservationSource::Clients if self.taken > 0 => self.budget.uncharge(self.taken),
            ReservationSource::Clients => {}
        }
    }
}

/// Permission for a long write to proceed. Dropping it admits the next waiting write.
#[derive(Debug)]
pub(crate) struct WritePermit<'s> {
    budget: &'s ConnectionBudget,
    bytes: usize,
}

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        self.budget.end_to_write(self.bytes);
    }
}

/// Time without progress by the other waiting readers after which a reader that holds locks stops
/// waiting for its turn and reads anyway.
const TURN_TO_READ: Duration = Duration::from_secs(1);

/// Time without progress by the other writes after which a long write stops waiting for its turn
/// and proceeds anyway.
const TURN: Duration = Duration::from_secs(10);

impl ServerStore {
    /// Charges the memory for reading `values` values from the device. Charges nothing if the store
    /// contains no long values. Returns `None` if the clients' memory is exhausted.
    pub(crate) fn room_to_read(&self, values: usize) -> Option<ReadReservation> {
        let bytes = self.bytes_to_read(values);
        let has_room = bytes == 0 || self.budget.try_charge(bytes);
        has_room.then(|| self.reading(bytes, ReservationSource::Clients))
    }

    /// Returns the number of bytes to charge for reading `values` values.
    fn bytes_to_read(&self, values: usize) -> usize {
        // Each value may be in memory twice: as read, and as its copy in the reply. Limit the
        // charge to half of the budget, so that two reads can always proceed concurrently.
        let bytes = self.sizes.at_worst(values).saturating_mul(2);
        bytes.min(self.budget.limit() / 2)
    }

    fn reading(&self, taken: usize, from: ReservationSource) -> ReadReservation {
        ReadReservation {
            budget: Arc::clone(&self.budget),
            taken,
            from,
        }
    }

    /// Waits until a write of `bytes` bytes may start, to limit how many long writes are copied at
    /// a time. Returns `None` if the write is short and needs no permission, or if it has waited
    /// too long; in both cases the caller proceeds without a permit.
    pub(crate) fn turn_to_write(&self, bytes: usize) -> Option<WritePermit<'_>> {
        if bytes <= FREE {
            return None;
        }
        let budget = &*self.budget;
        let has_turn = budget.begin_to_write(bytes, Duration::ZERO) || {
            wait_hooks::about_to_wait();
            budget.begin_to_write(bytes, TURN)
        };
        has_turn.then_some(WritePermit { budget, bytes })
    }

    /// Like [`ServerStore::room_to_read`], but for a command that cannot be restarted. If memory is
    /// exhausted, waits for its turn among such commands. Returns `None` if no other command
    /// finishes in time; the caller then reads without a charge.
    pub(super) fn wait_for_room_to_read(&self, values: usize) -> Option<ReadReservation> {
        if let Some(reading) = self.room_to_read(values) {
            return Some(reading);
        }
        wait_hooks::about_to_wait();
        self.budget.begin_to_wait();
        let bytes = self.bytes_to_read(values);
        let has_turn = self.budget.begin_to_read(bytes, TURN_TO_READ);
        self.budget.end_to_wait();
        has_turn.then(|| self.reading(bytes, ReservationSource::Turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_writes_take_turns_and_one_always_goes_on() {
        let budget = ConnectionBudget::new(1 << 20);
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
        let budget = ConnectionBudget::new(1 << 20);
        let mut working = WorkingMemory {
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
        assert!(matches!(refused, Err(CommandError::NoRoom { bytes }) if bytes == (1 << 20) + FREE + STEP));
        assert!(matches!(
            working.add(usize::MAX),
            Err(CommandError::NoRoom { .. })
        ));
        drop(working);
        assert_eq!(budget.used(), 0);
    }
}
