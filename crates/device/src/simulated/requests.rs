//! Requests in flight, how they are checked, and what they do on completion.

use super::SimDirectory;
use super::content::FileChange;
use super::faults::InjectedFailure;
use super::file::patches;
use super::names::FileId;
use super::world::{SimWorld, flip, io_error};
use crate::{DeviceOperation, Error, FileAccessMode, FileOptions, IoOutcome, IoRequest, Result};
use alluvium_base::Purpose;
use alluvium_base::cost::{self, AccessKind};
use parking_lot::MutexGuard;
use std::ops::Range;
use std::sync::Arc;

/// What an operation of a request or a handle is checked against.
pub(super) struct OpenHandle<'a> {
    pub(super) file: FileId,
    pub(super) name: &'a str,
    pub(super) options: FileOptions,
    pub(super) failed_syncs: u64,
}

impl OpenHandle<'_> {
    /// Refuses changes through a read-only or poisoned handle.
    pub(super) fn writable(&self, world: &mut SimWorld, operation: DeviceOperation) -> Result<()> {
        let file = || self.name.to_owned();
        if self.options.access == FileAccessMode::ReadOnly {
            let file = file();
            return Err(Error::ReadOnly { operation, file });
        }
        if world.file(self.file).failed_syncs > self.failed_syncs {
            let file = file();
            return Err(Error::Poisoned { operation, file });
        }
        Ok(())
    }

    pub(super) fn inside(
        &self,
        world: &mut SimWorld,
        operation: DeviceOperation,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        let end = world.file(self.file).current.len();
        if offset.checked_add(len).is_some_and(|to| to <= end) {
            return Ok(());
        }
        Err(Error::PastEnd {
            operation,
            file: self.name.to_owned(),
            offset,
            len,
            end,
        })
    }

    fn read(&self, world: &mut SimWorld, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inside(world, DeviceOperation::Read, offset, out.len() as u64)?;
        match world.faults.match_fault(DeviceOperation::Read, self.name) {
            Some(InjectedFailure::Io) => {
                return Err(io_error(
                    DeviceOperation::Read,
                    self.name,
                    offset,
                    out.len() as u64,
                ));
            }
            Some(InjectedFailure::FlippedBits(bits)) => {
                world.file(self.file).read(offset, out);
                flip(&mut world.rng, out, bits);
            }
            Some(InjectedFailure::Full | InjectedFailure::Short) | None => {
                world.file(self.file).read(offset, out);
            }
        }
        Ok(())
    }

    fn write(
        &self,
        world: &mut SimWorld,
        offset: u64,
        bytes: &[u8],
        change: Option<Arc<FileChange>>,
    ) -> Result<()> {
        let len = bytes.len() as u64;
        self.writable(world, DeviceOperation::Write)?;
        self.inside(world, DeviceOperation::Write, offset, len)?;
        let range = offset..offset + len;
        world.require_space(DeviceOperation::Write, self.name, self.file, &range)?;
        // Earlier stores through a mapping to the same sectors come first.
        world.notice(self.file, &range);
        let change = change.unwrap_or_else(|| {
            Arc::new(FileChange::Write(patches(
                &world.file(self.file).current,
                offset,
                bytes,
            )))
        });
        match world.apply_fault(DeviceOperation::Write, self.name, offset, len) {
            Ok(()) => {
                world.complete(self.file, change);
                Ok(())
            }
            Err(full) if full.is_disk_full() => Err(full),
            Err(error) => {
                let part = super::image::torn(&mut world.rng, &change);
                world.complete(self.file, Arc::new(part));
                Err(error)
            }
        }
    }

    fn sync(&self, world: &mut SimWorld, covers: u64) -> Result<()> {
        if world.file(self.file).failed_syncs > self.failed_syncs {
            return Err(Error::Poisoned {
                operation: DeviceOperation::Sync,
                file: self.name.to_owned(),
            });
        }
        if let Err(error) = world.apply_fault(DeviceOperation::Sync, self.name, 0, 0) {
            world.fail_sync(self.file, covers);
            return Err(error);
        }
        world.file(self.file).make_durable(covers);
        Ok(())
    }
}

pub(super) fn operation_of(request: &IoRequest) -> (DeviceOperation, u64, u64) {
    match request {
        IoRequest::Read { offset, buffer, .. } => (DeviceOperation::Read, *offset, buffer.len() as u64),
        IoRequest::Write { offset, buffer, .. } => (DeviceOperation::Write, *offset, buffer.len() as u64),
        IoRequest::Sync { .. } => (DeviceOperation::Sync, 0, 0),
    }
}

pub(super) fn failed(request: IoRequest, error: Error) -> IoOutcome {
    let buffer = match request {
        IoRequest::Read { buffer, .. } | IoRequest::Write { buffer, .. } => Some(buffer),
        IoRequest::Sync { .. } => None,
    };
    IoOutcome {
        buffer,
        result: Err(error),
    }
}

impl SimDirectory {
    /// Completes a request in flight.
    pub(super) fn finish(&self, id: u64) {
        let mut world = self.shared.world.lock();
        let flight = world.flight(id).map(|position| &mut world.flights[position]);
        // Another thread may have been faster.
        let Some(flight) = flight.filter(|flight| !flight.claimed) else {
            return;
        };
        flight.claimed = true;
        let (operation, offset, len) = operation_of(&flight.request);
        let purpose = flight.request.purpose();
        let name = Arc::clone(&flight.name);
        if operation == DeviceOperation::Read {
            let refused = self.alive(&world, operation, &name);
            return land(world, id, refused);
        }
        drop(world);
        match self.point(operation, &name, offset, len, purpose) {
            Ok(world) => land(world, id, Ok(())),
            Err(crashed) => land(self.shared.world.lock(), id, Err(crashed)),
        }
    }

    /// Completes the requests due at `now_ns`. Returns whether there were any.
    pub(super) fn finish_due(&self, now_ns: u64) -> bool {
        let mut any = false;
        loop {
            let next = self.shared.world.lock().choose_flight(now_ns);
            let Some(id) = next else { return any };
            self.finish(id);
            any = true;
        }
    }

    /// Advances time until the next request is due and completes it. Returns `false` if other
    /// threads are already completing every request in flight.
    pub(super) fn finish_next(&self) -> bool {
        let next = {
            let mut world = self.shared.world.lock();
            let next = world.choose_flight(u64::MAX);
            if let Some(flight) = next.and_then(|id| world.flight(id)) {
                world.time.now_ns = world.time.now_ns.max(world.flights[flight].due_ns);
            }
            next
        };
        next.map(|id| self.finish(id)).is_some()
    }

    /// Syncs a mapped range of a file.
    pub(super) fn sync_mapped(
        &self,
        file: FileId,
        name: &Arc<str>,
        failed_syncs: u64,
        range: &Range<u64>,
        purpose: Purpose,
    ) -> Result<()> {
        let len = range.end - range.start;
        let mut world = self.point(DeviceOperation::Sync, name, range.start, len, purpose)?;
        self.shared.counters.sync(purpose);
        if world.file(file).failed_syncs > failed_syncs {
            let (operation, file) = (DeviceOperation::Sync, name.to_string());
            return Err(Error::Poisoned { operation, file });
        }
        world.notice(file, range);
        if let Err(error) = world.apply_fault(DeviceOperation::Sync, name, range.start, len) {
            let covers = world.order;
            world.fail_sync(file, covers);
            return Err(error);
        }
        world.file(file).make_range_durable(range);
        if len > 0 {
            let access = cost::DeviceAccess {
                file: u64::from(file),
                offset: range.start,
                len,
                kind: AccessKind::Write,
            };
            world.time.now_ns = world.time.charge(name, &access);
        }
        Ok(())
    }
}

/// Removes a request from the in-flight list and completes it, or reports why it never reached the
/// device.
fn land(mut world: MutexGuard<'_, SimWorld>, id: u64, reached: Result<()>) {
    let Some(flight) = world
        .flight(id)
        .and_then(|position| world.flights.remove(position))
    else {
        return;
    };
    let outcome = match reached {
        Err(error) => failed(flight.request, error),
        Ok(()) => {
            let opened = OpenHandle {
                file: flight.file,
                name: &flight.name,
                options: flight.options,
                failed_syncs: flight.failed_syncs,
            };
            perform(&opened, &mut world, flight.request, flight.change, flight.covers)
        }
    };
    world.collect_closed(flight.file);
    drop(world);
    flight.done.complete(flight.index, outcome);
}

fn perform(
    opened: &OpenHandle<'_>,
    world: &mut SimWorld,
    request: IoRequest,
    change: Option<Arc<FileChange>>,
    covers: u64,
) -> IoOutcome {
    let (buffer, result) = match request {
        IoRequest::Read {
            offset, mut buffer, ..
        } => {
            let result = opened.read(world, offset, &mut buffer);
            (Some(buffer), result)
        }
        IoRequest::Write { offset, buffer, .. } => {
            let result = opened.write(world, offset, &buffer, change);
            (Some(buffer), result)
        }
        IoRequest::Sync { .. } => (None, opened.sync(world, covers)),
    };
    IoOutcome { buffer, result }
}
