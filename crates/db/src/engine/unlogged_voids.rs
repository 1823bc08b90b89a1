//! Sequence numbers of failed writes that could not be voided in the log yet.
//!
//! On a full disk, the log may have no space for the record that voids a sequence number. No later
//! commit can be synced until this record is written, because recovery would truncate the log at
//! the missing sequence number.

use crate::error::Result;
use alluvium_base::SequenceNumber;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sequence numbers that have not been voided in the log.
#[derive(Debug, Default)]
pub(super) struct UnloggedVoids {
    /// Ranges of sequence numbers, each given by its first number and its length.
    stretches: Mutex<Vec<(SequenceNumber, u32)>>,
    are_there: AtomicBool,
}

impl UnloggedVoids {
    /// Adds the range of `count` sequence numbers that starts at `first`.
    pub(super) fn note(&self, first: SequenceNumber, count: u32) {
        assert!(count > 0, "a stretch has a number");
        self.stretches.lock().push((first, count));
        self.are_there.store(true, Ordering::Release);
    }

    /// Returns whether there is any sequence number that has not been voided.
    #[inline]
    pub(super) fn are_there(&self) -> bool {
        self.are_there.load(Ordering::Acquire)
    }

    /// Calls `tell` for each range of sequence numbers to void it in the log. If `tell` fails,
    /// stops and keeps the remaining ranges.
    pub(super) fn fill(&self, tell: impl Fn(SequenceNumber, u32) -> Result<()>) -> Result<()> {
        let mut stretches = self.stretches.lock();
        while let Some(&(first, count)) = stretches.last() {
            tell(first, count)?;
            stretches.pop();
        }
        self.are_there.store(false, Ordering::Release);
        Ok(())
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::cell::RefCell;

    #[test]
    fn what_the_log_could_not_be_told_is_told_again() {
        let gaps = UnloggedVoids::default();
        assert!(!gaps.are_there());
        gaps.note(7, 2);
        gaps.note(20, 1);
        assert!(gaps.are_there());
        let told = RefCell::new(Vec::new());
        let refuse = |first, count| {
            told.borrow_mut().push((first, count));
            if first == 7 { Err(Error::Closed) } else { Ok(()) }
        };
        assert!(gaps.fill(refuse).is_err());
        assert!(gaps.are_there());
        assert!(
            gaps.fill(|first, count| {
                told.borrow_mut().push((first, count));
                Ok(())
            })
            .is_ok()
        );
        assert!(!gaps.are_there());
        assert_eq!(told.into_inner(), [(20, 1), (7, 2), (7, 2)]);
    }
}
