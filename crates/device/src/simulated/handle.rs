//! An open file, which implements [`Device`].

use super::content::FileChange;
use super::file::patches;
use super::mapping::{MappedRegion, SimMapping};
use super::names::FileId;
use super::requests::{OpenHandle, failed, operation_of};
use super::world::{SimRequest, SimWorld};
use super::{CompletionOrder, SimDirectory};
use crate::batch::BatchCompletion;
use crate::contract::check_alignment;
use crate::{
    BLOCK, CacheMode, Device, DeviceOperation, Error, FileMapping, FileOptions, IoBatch, IoRequest, Result,
    Ticket,
};
use alluvium_base::Purpose;
use alluvium_base::cost::{self, AccessKind};
use std::ops::Range;
use std::sync::Arc;

/// A handle of a simulated file.
pub(super) struct SimFile {
    directory: SimDirectory,
    file: FileId,
    name: Arc<str>,
    options: FileOptions,
    /// Number of the file's failed syncs when this handle was opened. If it has grown since, the
    /// handle is poisoned (D4).
    failed_syncs: u64,
}

impl SimFile {
    pub(super) fn new(
        directory: SimDirectory,
        file: FileId,
        name: &str,
        options: FileOptions,
        failed_syncs: u64,
    ) -> SimFile {
        SimFile {
            directory,
            file,
            name: Arc::from(name),
            options,
            failed_syncs,
        }
    }

    fn opened(&self) -> OpenHandle<'_> {
        OpenHandle {
            file: self.file,
            name: &self.name,
            options: self.options,
            failed_syncs: self.failed_syncs,
        }
    }

    /// Adds a request to the world, which counts it, charges it, and puts it in flight. Returns its
    /// number.
    fn launch(
        &self,
        world: &mut SimWorld,
        request: IoRequest,
        done: &Arc<BatchCompletion>,
        index: usize,
    ) -> u64 {
        let (mut change, mut due_ns) = (None, world.time.now_ns);
        let mut charge = |world: &mut SimWorld, kind, offset, len| {
            let file = u64::from(self.file);
            let access = cost::DeviceAccess {
                file,
                offset,
                len,
                kind,
            };
            due_ns = world.time.charge(&self.name, &access);
        };
        match &request {
            IoRequest::Read { offset, buffer, .. } => {
                let (offset, len) = (*offset, buffer.len() as u64);
                world.trace_operation(DeviceOperation::Read, &self.name, offset, len);
                charge(world, AccessKind::Read, offset, len);
            }
            IoRequest::Write { offset, buffer, .. } => {
                let len = buffer.len() as u64;
                charge(world, AccessKind::Write, *offset, len);
                if offset.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK) {
                    let current = &world.file(self.file).current;
                    change = Some(Arc::new(FileChange::Write(patches(current, *offset, buffer))));
                }
            }
            IoRequest::Sync { .. } => world.notice(self.file, &(0..u64::MAX)),
        }
        let id = world.next_flight;
        world.next_flight += 1;
        world.flights.push_back(SimRequest {
            id,
            file: self.file,
            name: Arc::clone(&self.name),
            options: self.options,
            failed_syncs: self.failed_syncs,
            request,
            change,
            covers: world.order,
            due_ns,
            claimed: false,
            done: Arc::clone(done),
            index,
        });
        id
    }

    /// Executes an operation that is not a request: passes a crash point, and then calls `change`
    /// with the world locked.
    fn at_once<R>(
        &self,
        operation: DeviceOperation,
        offset: u64,
        len: u64,
        change: impl FnOnce(&OpenHandle<'_>, &mut SimWorld) -> Result<R>,
    ) -> Result<R> {
        let mut world = self
            .directory
            .point(operation, &self.name, offset, len, Purpose::Other)?;
        let opened = self.opened();
        opened.writable(&mut world, operation)?;
        change(&opened, &mut world)
    }
}

fn count(directory: &SimDirectory, request: &IoRequest) {
    let counters = &directory.shared.counters;
    match request {
        IoRequest::Read { buffer, purpose, .. } => counters.read(*purpose, buffer.len() as u64),
        IoRequest::Write { buffer, purpose, .. } => counters.write(*purpose, buffer.len() as u64),
        IoRequest::Sync { purpose } => counters.sync(*purpose),
    }
}

impl Device for SimFile {
    fn submit(&self, batch: IoBatch) -> Ticket {
        let requests = batch.into_requests();
        for request in &requests {
            let (operation, offset, len) = operation_of(request);
            if operation != DeviceOperation::Sync {
                check_alignment(operation, &self.name, self.options.caching, offset, len);
            }
        }
        let done = BatchCompletion::new(requests.len());
        let mut world = self.directory.shared.world.lock();
        let mut launched = Vec::with_capacity(requests.len());
        for (index, request) in requests.into_iter().enumerate() {
            match self.directory.alive(&world, operation_of(&request).0, &self.name) {
                Err(crashed) => done.complete(index, failed(request, crashed)),
                Ok(()) => {
                    count(&self.directory, &request);
                    launched.push(self.launch(&mut world, request, &done, index));
                }
            }
        }
        let at_once = world.options.completion == CompletionOrder::InOrder && world.time.clock.is_none();
        drop(world);
        if at_once {
            for id in launched {
                self.directory.finish(id);
            }
        }
        done.ticket()
    }

    fn poll(&self, ticket: &Ticket) -> bool {
        if ticket.is_complete() {
            return true;
        }
        let (timed, now_ns, some) = {
            let mut world = self.directory.shared.world.lock();
            let flights = world.flights.len().max(1);
            let some = world.rng.usize(..flights);
            (world.time.clock.is_some(), world.time.now_ns, some)
        };
        if timed {
            if !self.directory.finish_due(now_ns) && self.directory.finish_next() {
                let now_ns = self.directory.now_ns();
                self.directory.finish_due(now_ns);
            }
        } else {
            for _ in 0..=some {
                self.directory.finish_next();
            }
        }
        ticket.is_complete()
    }

    fn wait(&self, ticket: &Ticket) {
        while !ticket.is_complete() {
            if !self.directory.finish_next() {
                // Another thread is completing the remaining requests.
                std::thread::yield_now();
            }
        }
    }

    fn len(&self) -> u64 {
        self.directory.shared.world.lock().file(self.file).current.len()
    }

    fn is_removed(&self) -> bool {
        false
    }

    fn grow(&self, len: u64) -> Result<()> {
        self.at_once(DeviceOperation::Grow, 0, len, |opened, world| {
            let range = world.file(opened.file).current.len()..len;
            if range.is_empty() {
                return Ok(());
            }
            world.apply_fault(DeviceOperation::Grow, opened.name, 0, len)?;
            world.require_space(DeviceOperation::Grow, opened.name, opened.file, &range)?;
            world.complete(opened.file, Arc::new(FileChange::Grow(range)));
            Ok(())
        })
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        let len = range.end.saturating_sub(range.start);
        self.at_once(DeviceOperation::Grow, range.start, len, |opened, world| {
            opened.inside(world, DeviceOperation::Grow, range.start, len)?;
            world.apply_fault(DeviceOperation::Grow, opened.name, range.start, len)?;
            world.require_space(DeviceOperation::Grow, opened.name, opened.file, &range)?;
            world.complete(opened.file, Arc::new(FileChange::Allocate(range)));
            Ok(())
        })
    }

    fn renew(&self, _range: Range<u64>) -> Result<()> {
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.at_once(DeviceOperation::Truncate, 0, len, |opened, world| {
            world.apply_fault(DeviceOperation::Truncate, opened.name, 0, len)?;
            let end = world.file(opened.file).current.len();
            if len < end {
                world.notice(opened.file, &(len..end));
                world.complete(opened.file, Arc::new(FileChange::Truncate(len)));
            }
            Ok(())
        })
    }

    fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        let len = range.end.saturating_sub(range.start);
        self.at_once(DeviceOperation::PunchHole, range.start, len, |opened, world| {
            world.apply_fault(DeviceOperation::PunchHole, opened.name, range.start, len)?;
            let end = range.end.min(world.file(opened.file).current.len());
            if range.start < end {
                let bytes = end - range.start;
                self.directory.shared.counters.punch(Purpose::Other, bytes);
                world.notice(opened.file, &(range.start..end));
                world.complete(opened.file, Arc::new(FileChange::Punch(range.start..end)));
            }
            Ok(())
        })
    }

    fn map(&self, range: Range<u64>) -> Result<FileMapping> {
        let refuse = |why: &str| Error::Unsupported {
            operation: DeviceOperation::Map,
            file: self.name.to_string(),
            why: why.to_owned(),
        };
        let mut world = self.directory.shared.world.lock();
        self.directory.alive(&world, DeviceOperation::Map, &self.name)?;
        let opened = self.opened();
        opened.writable(&mut world, DeviceOperation::Map)?;
        if self.options.caching == CacheMode::Direct {
            return Err(refuse("a direct file has no page cache to share"));
        }
        let len = range.end.saturating_sub(range.start);
        assert!(len > 0, "mapping nothing of {}", self.name);
        opened.inside(&mut world, DeviceOperation::Map, range.start, len)?;
        world.apply_fault(DeviceOperation::Map, &self.name, range.start, len)?;
        world.trace_operation(DeviceOperation::Map, &self.name, range.start, len);
        let file = world.file(self.file);
        let holds = |region: &MappedRegion| region.start <= range.start && range.end <= region.end();
        let meets = |region: &MappedRegion| {
            region.start < range.end.next_multiple_of(super::content::PAGE) && range.start < region.end()
        };
        let index = match file.regions.iter().position(holds) {
            Some(index) => index,
            None if file.regions.iter().any(meets) => {
                return Err(refuse("the range partly overlaps an existing mapping"));
            }
            None => {
                let region = MappedRegion::new(&range, &file.current);
                file.regions.push(region);
                file.regions.len() - 1
            }
        };
        file.handles += 1;
        let start = file.regions[index].join(range.start);
        let memory = Arc::clone(&file.regions[index].memory);
        if !world.mapped.contains(&self.file) {
            world.mapped.push(self.file);
        }
        drop(world);
        let backing = SimMapping::new(
            self.directory.clone(),
            self.file,
            Arc::clone(&self.name),
            range,
            memory,
            self.failed_syncs,
        );
        // SAFETY: the range is inside the region's memory, which the backing keeps alive.
        Ok(unsafe { FileMapping::new(start, len as usize, Arc::new(backing)) })
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut world = self.directory.shared.world.lock();
        world.file(self.file).handles -= 1;
        world.collect(self.file);
    }
}

impl std::fmt::Debug for SimFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimFile")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
