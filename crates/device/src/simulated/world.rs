//! The state of a simulated machine and its disk.

use super::clock::VirtualTime;
use super::content::{FileChange, PAGE, term};
use super::faults::{FaultPlan, InjectedFailure};
use super::file::SimFileState;
use super::names::{DirectoryNames, FileId, NameChange};
use super::{CompletionOrder, SimOptions};
use crate::batch::BatchCompletion;
use crate::locks::DirectoryLocks;
use crate::{BootId, DeviceOperation, Error, FileOptions, IoRequest, Result};
use alluvium_base::checksum::seeded;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// A submitted request that is not complete.
pub(super) struct SimRequest {
    pub(super) id: u64,
    pub(super) file: FileId,
    pub(super) name: Arc<str>,
    pub(super) options: FileOptions,
    /// Number of the file's failed syncs when the handle was opened.
    pub(super) failed_syncs: u64,
    pub(super) request: IoRequest,
    /// The sectors of a write, unless they depend on the contents at its completion.
    pub(super) change: Option<Arc<FileChange>>,
    /// The changes that a sync covers are those before this position.
    pub(super) covers: u64,
    /// Completion time in virtual time.
    pub(super) due_ns: u64,
    /// Whether a thread is completing the request.
    pub(super) claimed: bool,
    pub(super) done: Arc<BatchCompletion>,
    pub(super) index: usize,
}

/// All state of a machine, behind one lock.
pub(super) struct SimWorld {
    pub(super) options: SimOptions,
    pub(super) rng: fastrand::Rng,
    pub(super) boot: BootId,
    pub(super) names: DirectoryNames,
    pub(super) files: BTreeMap<FileId, SimFileState>,
    pub(super) next_file: FileId,
    pub(super) mapped: Vec<FileId>,
    /// Requests in flight, ordered by number.
    pub(super) flights: VecDeque<SimRequest>,
    pub(super) next_flight: u64,
    /// The writes in flight when the machine crashed.
    pub(super) interrupted: Vec<(FileId, Arc<FileChange>)>,
    /// The next position in the order of all changes, of files and names alike.
    pub(super) order: u64,
    pub(super) operations: u64,
    pub(super) trace: u64,
    pub(super) faults: FaultPlan,
    pub(super) crashed: bool,
    /// Whether stores through mappings were already noticed for the crash point whose hook is
    /// running.
    pub(super) noticed: bool,
    /// Number of failed syncs of the directory.
    pub(super) failed_syncs: u64,
    pub(super) locks: DirectoryLocks,
    pub(super) time: VirtualTime,
}

impl SimWorld {
    pub(super) fn new(options: SimOptions) -> SimWorld {
        SimWorld {
            rng: fastrand::Rng::with_seed(options.seed),
            boot: boot_id(options.seed, 0),
            names: DirectoryNames::default(),
            files: BTreeMap::new(),
            next_file: 0,
            mapped: Vec::new(),
            flights: VecDeque::new(),
            next_flight: 0,
            interrupted: Vec::new(),
            order: 0,
            operations: 0,
            trace: options.seed,
            faults: FaultPlan::default(),
            crashed: false,
            noticed: false,
            failed_syncs: 0,
            locks: DirectoryLocks::default(),
            time: VirtualTime::default(),
            options,
        }
    }

    pub(super) fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order - 1
    }

    /// Mixes a value into the trace.
    pub(super) fn trace(&mut self, fact: u64) {
        self.trace = term(fact.wrapping_add(1), self.trace.rotate_left(23));
    }

    pub(super) fn trace_operation(&mut self, operation: DeviceOperation, file: &str, offset: u64, len: u64) {
        let name = alluvium_base::checksum(file.as_bytes());
        for fact in [operation as u64, name, offset, len] {
            self.trace(fact);
        }
    }

    pub(super) fn file(&mut self, file: FileId) -> &mut SimFileState {
        self.files
            .get_mut(&file)
            .expect("a file lives while a handle, a name or a request knows it")
    }

    /// Returns the number of bytes allocated to files that have a name or a handle.
    pub(super) fn used(&self) -> u64 {
        let lives = |id: &FileId, file: &SimFileState| file.handles > 0 || self.names.is_named(*id);
        let files = self.files.iter().filter(|(id, file)| lives(id, file));
        files.map(|(_, file)| file.current.allocated()).sum()
    }

    /// Returns an error if the disk has no space for the pages of `range` that the file has yet to
    /// allocate.
    pub(super) fn require_space(
        &mut self,
        operation: DeviceOperation,
        name: &str,
        file: FileId,
        range: &Range<u64>,
    ) -> Result<()> {
        let missing = self.file(file).current.missing(range.clone());
        if missing == 0 || self.used().saturating_add(missing) <= self.options.capacity {
            return Ok(());
        }
        Err(full(operation, name, missing))
    }

    /// Completes a change of a file.
    pub(super) fn complete(&mut self, id: FileId, change: Arc<FileChange>) {
        if let FileChange::Write(patches) = &*change {
            let sum = patches.iter().fold(0u64, |sum, patch| {
                sum.wrapping_add(term(patch.data.sum(), patch.page << 8 | u64::from(patch.mask)))
            });
            self.trace(sum);
        }
        let order = self.next_order();
        let limit = self.options.pending_limit;
        let file = self.file(id);
        file.complete(order, change);
        if file.pending.len() > limit {
            // By now, a kernel would have written back the older half.
            let middle = file.pending[limit / 2].order;
            file.make_durable(middle);
        }
    }

    /// Turns stores through mappings of a file's range into changes.
    pub(super) fn notice(&mut self, id: FileId, range: &Range<u64>) {
        if self.crashed {
            return;
        }
        if let Some(file) = self.files.get_mut(&id) {
            file.notice(range, &mut self.order);
        }
    }

    /// Turns every store through a mapping into a change.
    pub(super) fn notice_all(&mut self) {
        if self.noticed {
            return;
        }
        for index in 0..self.mapped.len() {
            self.notice(self.mapped[index], &(0..u64::MAX));
        }
    }

    /// Writes back a mapped page at operations chosen by the seed.
    pub(super) fn write_back_some_page(&mut self) {
        if self.mapped.is_empty() || self.rng.u8(..4) != 0 {
            return;
        }
        let id = self.mapped[self.rng.usize(..self.mapped.len())];
        let (region, page) = (self.rng.usize(..), self.rng.u64(..));
        let regions = &self.file(id).regions;
        let region = &regions[region % regions.len()];
        let at = region.start + page % region.pages() * PAGE;
        self.notice(id, &(at..at + PAGE));
    }

    /// Counts a call, and fails it if a fault is planned for it.
    pub(super) fn apply_fault(
        &mut self,
        operation: DeviceOperation,
        name: &str,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        match self.faults.match_fault(operation, name) {
            Some(InjectedFailure::Io) => Err(io_error(operation, name, offset, len)),
            Some(InjectedFailure::Full) => Err(full(operation, name, len)),
            Some(InjectedFailure::Short) => Err(Error::Exhausted {
                operation,
                file: name.to_owned(),
                source: std::io::Error::other("simulated: too many open files"),
                remedy: "allow this process more of them",
            }),
            Some(InjectedFailure::FlippedBits(_)) | None => Ok(()),
        }
    }

    /// Records a failed sync of a file. The seed selects the sectors that reached the disk. The
    /// others are no longer dirty, so no later sync writes them either.
    pub(super) fn fail_sync(&mut self, id: FileId, covers: u64) {
        let mut rng = self.rng.fork();
        let file = self.file(id);
        file.failed_syncs += 1;
        let covered = file.pending.partition_point(|pending| pending.order < covers);
        let pending: Vec<_> = file.pending.drain(..covered).collect();
        for pending in pending {
            match &*pending.change {
                FileChange::Write(patches) => {
                    for patch in patches {
                        file.durable.put(patch.page, patch.mask & rng.u8(..), &patch.data);
                    }
                }
                change => file.durable.apply(change),
            }
        }
    }

    pub(super) fn rename(&mut self, change: NameChange) {
        let order = self.next_order();
        self.names.change(order, change);
    }

    /// Adds an empty file under a name.
    pub(super) fn create(&mut self, name: &Arc<str>) -> FileId {
        let file = self.next_file;
        self.next_file += 1;
        self.files.insert(file, SimFileState::default());
        self.rename(NameChange::Create {
            name: Arc::clone(name),
            file,
        });
        file
    }

    /// Removes a file that is no longer reachable.
    pub(super) fn collect(&mut self, id: FileId) {
        let held = self.files.get(&id).is_none_or(|file| file.handles > 0)
            || self.flights.iter().any(|flight| flight.file == id)
            || self.names.reachable().any(|file| file == id);
        if !held {
            self.files.remove(&id);
        }
    }

    /// Calls [`SimWorld::collect`] for a file without handles.
    pub(super) fn collect_closed(&mut self, id: FileId) {
        if self.files.get(&id).is_some_and(|file| file.handles == 0) {
            self.collect(id);
        }
    }

    /// Removes all files that are no longer reachable.
    pub(super) fn collect_all(&mut self) {
        let ids: Vec<FileId> = self.files.keys().copied().collect();
        for id in ids {
            self.collect(id);
        }
    }

    /// Returns the index of a request in flight.
    pub(super) fn flight(&self, id: u64) -> Option<usize> {
        self.flights.binary_search_by_key(&id, |flight| flight.id).ok()
    }

    /// Returns which of the requests due should complete next: by time if there is a clock, and
    /// then by seed or in order.
    pub(super) fn choose_flight(&mut self, due_ns: u64) -> Option<u64> {
        let open = |flight: &&SimRequest| !flight.claimed && flight.due_ns <= due_ns;
        let first = self
            .flights
            .iter()
            .filter(open)
            .map(|flight| flight.due_ns)
            .min()?;
        let tied = |flight: &&SimRequest| !flight.claimed && flight.due_ns == first;
        let chosen = match self.options.completion {
            CompletionOrder::InOrder => 0,
            CompletionOrder::Shuffled => {
                let ties = self.flights.iter().filter(tied).count();
                self.rng.usize(..ties)
            }
        };
        self.flights
            .iter()
            .filter(tied)
            .nth(chosen)
            .map(|flight| flight.id)
    }

    /// Returns the sectors that a write in flight would change.
    pub(super) fn change_of(&self, flight: &SimRequest) -> Option<Arc<FileChange>> {
        let IoRequest::Write { offset, buffer, .. } = &flight.request else {
            return None;
        };
        let file = self.files.get(&flight.file)?;
        let inside = offset.checked_add(buffer.len() as u64)? <= file.current.len();
        if !inside || file.failed_syncs > flight.failed_syncs {
            return None;
        }
        flight.change.clone().or_else(|| {
            Some(Arc::new(FileChange::Write(super::file::patches(
                &file.current,
                *offset,
                buffer,
            ))))
        })
    }

    /// Returns a hash of all names, lengths and bytes that a process sees now.
    pub(super) fn content_hash(&self) -> u64 {
        self.names.iter().fold(0, |sum: u64, (name, file)| {
            let content = self.files.get(&file).map_or(0, |file| file.current.sum());
            sum.wrapping_add(seeded(content, name.as_bytes()))
        })
    }
}

/// Derives a boot id from the seed and the history.
pub(super) fn boot_id(seed: u64, salt: u64) -> BootId {
    let mut rng = fastrand::Rng::with_seed(seed ^ salt.rotate_left(32) ^ 0xb007);
    let mut boot = [0; 16];
    rng.fill(&mut boot);
    BootId(boot)
}

pub(super) fn io_error(operation: DeviceOperation, name: &str, offset: u64, len: u64) -> Error {
    Error::Io {
        operation,
        file: name.to_owned(),
        offset,
        len,
        source: std::io::Error::other("input/output error (simulated)"),
    }
}

fn full(operation: DeviceOperation, name: &str, wanted: u64) -> Error {
    Error::DiskFull {
        operation,
        file: name.to_owned(),
        wanted,
    }
}

/// Flips bits of a buffer.
pub(super) fn flip(rng: &mut fastrand::Rng, buffer: &mut [u8], bits: u32) {
    for _ in 0..bits {
        let at = rng.usize(..buffer.len());
        buffer[at] ^= 1 << rng.u8(..8);
    }
}
