//! Planned faults: which call fails, how, and for how long.

use crate::DeviceOperation;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFailure {
    /// The device fails (EIO). After a failed write, each of its sectors is either old or new. A
    /// failed sync poisons (D4), and each sector that it covered may or may not be durable. Sectors
    /// that are not durable are no longer dirty either: reads still return them, but no later sync
    /// makes them durable, just as Linux marks failed pages in the page cache clean.
    Io,
    /// The disk is full, no matter what
    /// [`SimDirectory::set_capacity`](super::SimDirectory::set_capacity) was set to.
    Full,
    /// The process has reached its limit of open files (EMFILE).
    Short,
    /// A read returns its data with this number of flipped bits, although the stored data is
    /// correct.
    FlippedBits(u32),
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultDuration {
    Once,
    /// The selected call and all later ones.
    Sticky,
}

/// A planned fault, such as "the third sync of `log-1` fails".
///
/// ```
/// use alluvium_device::{Directory, FileOptions, DeviceOperation};
/// use alluvium_device::simulated::{InjectedFault, SimDirectory};
/// let directory = SimDirectory::new(1);
/// directory.inject(InjectedFault::failing(DeviceOperation::Create).at(2));
/// assert!(directory.create("a", FileOptions::DIRECT).is_ok());
/// assert!(directory.create("b", FileOptions::DIRECT).is_err());
/// assert!(directory.create("b", FileOptions::DIRECT).is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedFault {
    operation: DeviceOperation,
    files: FileFilter,
    call: u64,
    lasting: FaultDuration,
    failure: InjectedFailure,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FileFilter {
    All,
    Named(String),
    Starting(String),
}

impl InjectedFault {
    /// Returns a fault in the next call of this operation.
    #[must_use]
    pub fn new(operation: DeviceOperation, failure: InjectedFailure) -> InjectedFault {
        InjectedFault {
            operation,
            files: FileFilter::All,
            call: 1,
            lasting: FaultDuration::Once,
            failure,
        }
    }

    /// Returns a fault that makes the next call of this operation fail with EIO.
    #[must_use]
    pub fn failing(operation: DeviceOperation) -> InjectedFault {
        InjectedFault::new(operation, InjectedFailure::Io)
    }

    /// Returns a fault that makes the next call of this operation fail because the disk is full.
    #[must_use]
    pub fn full(operation: DeviceOperation) -> InjectedFault {
        InjectedFault::new(operation, InjectedFailure::Full)
    }

    /// Returns a fault that makes the next call of this operation fail because no more files can be
    /// opened.
    #[must_use]
    pub fn short(operation: DeviceOperation) -> InjectedFault {
        InjectedFault::new(operation, InjectedFailure::Short)
    }

    /// Returns a fault that flips bits in the result of the next read.
    #[must_use]
    pub fn flipped_bits(bits: u32) -> InjectedFault {
        InjectedFault::new(DeviceOperation::Read, InjectedFailure::FlippedBits(bits))
    }

    /// Restricts the fault to calls on the file with this name. A directory sync has the empty
    /// name.
    #[must_use]
    pub fn on(self, file: &str) -> InjectedFault {
        InjectedFault {
            files: FileFilter::Named(file.to_owned()),
            ..self
        }
    }

    /// Restricts the fault to calls on files whose names start with `start`.
    #[must_use]
    pub fn on_files_starting(self, start: &str) -> InjectedFault {
        InjectedFault {
            files: FileFilter::Starting(start.to_owned()),
            ..self
        }
    }

    /// Moves the fault to the `call`-th matching call from now on, counted from 1.
    ///
    /// # Panics
    /// If `call` is zero.
    #[must_use]
    pub fn at(self, call: u64) -> InjectedFault {
        assert!(call > 0, "calls are counted from 1");
        InjectedFault { call, ..self }
    }

    /// Makes every later matching call fail too.
    #[must_use]
    pub fn sticky(self) -> InjectedFault {
        InjectedFault {
            lasting: FaultDuration::Sticky,
            ..self
        }
    }

    fn matches(&self, operation: DeviceOperation, file: &str) -> bool {
        self.operation == operation
            && match &self.files {
                FileFilter::All => true,
                FileFilter::Named(name) => name == file,
                FileFilter::Starting(start) => file.starts_with(start.as_str()),
            }
    }
}

/// The faults of a world, each with the number of matching calls so far.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultPlan {
    planned: Vec<(InjectedFault, u64)>,
    hits: u64,
}

impl FaultPlan {
    pub(super) fn inject(&mut self, fault: InjectedFault) {
        self.planned.push((fault, 0));
    }

    pub(super) fn clear(&mut self) {
        self.planned.clear();
    }

    /// Returns the number of failed calls so far.
    pub(super) fn hits(&self) -> u64 {
        self.hits
    }

    /// Counts a call and returns its failure, if any. If several faults match, the one injected
    /// first applies.
    pub(super) fn match_fault(&mut self, operation: DeviceOperation, file: &str) -> Option<InjectedFailure> {
        if self.planned.is_empty() {
            return None;
        }
        let mut hit = None;
        for (fault, seen) in &mut self.planned {
            if !fault.matches(operation, file) {
                continue;
            }
            *seen += 1;
            let due = match fault.lasting {
                FaultDuration::Once => *seen == fault.call,
                FaultDuration::Sticky => *seen >= fault.call,
            };
            if due {
                hit = hit.or(Some(fault.failure));
            }
        }
        self.planned
            .retain(|(fault, seen)| fault.lasting == FaultDuration::Sticky || *seen < fault.call);
        self.hits += u64::from(hit.is_some());
        hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_hits_its_call_once_or_from_there_on() {
        let mut plan = FaultPlan::default();
        plan.inject(InjectedFault::failing(DeviceOperation::Write).on("a").at(2));
        plan.inject(
            InjectedFault::full(DeviceOperation::Write)
                .on_files_starting("b")
                .at(2)
                .sticky(),
        );
        let mut meet = |file| plan.match_fault(DeviceOperation::Write, file);
        assert_eq!(
            [meet("a"), meet("a"), meet("a")],
            [None, Some(InjectedFailure::Io), None]
        );
        let full = Some(InjectedFailure::Full);
        assert_eq!([meet("b1"), meet("b2"), meet("b1")], [None, full, full]);
        assert_eq!(plan.match_fault(DeviceOperation::Sync, "a"), None);
        assert_eq!(plan.hits(), 3);
    }
}
