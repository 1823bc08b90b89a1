//! A device file with a planted bug. The requests of a batch are executed one after another.

use super::{DelayedRequest, PlantedBug, SabotageContext};
use alluvium_base::Purpose;
use alluvium_device::forward::ForwardDevice;
use alluvium_device::{
    AlignedBuffer, BLOCK, CacheMode, Device, FileMapping, FileOptions, IoBatch, IoOutcome, IoRequest,
    MappingBacking, Result, Ticket,
};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct SabotagedFile {
    pub(super) inner: Arc<dyn Device>,
    pub(super) options: FileOptions,
    pub(super) shared: Arc<SabotageContext>,
}

/// What a planted bug does to a write.
enum WriteEffect {
    /// The write goes to this offset, which may be wrong.
    At(u64),
    /// The write is executed without its last logical block.
    Torn,
    Dropped,
    /// The write is delayed until [`SabotageContext::release`] is called.
    Held,
}

fn done(buffer: Option<AlignedBuffer>) -> IoOutcome {
    IoOutcome {
        buffer,
        result: Ok(()),
    }
}

impl SabotagedFile {
    fn one(&self, request: IoRequest) -> IoOutcome {
        let mut batch = IoBatch::with_capacity(1);
        batch.push(request);
        let ticket = self.inner.submit(batch);
        self.inner.wait(&ticket);
        ticket.take().remove(0)
    }

    fn perform(&self, request: IoRequest) -> IoOutcome {
        match request {
            IoRequest::Read { .. } => self.one(request),
            IoRequest::Write {
                offset,
                buffer,
                purpose,
            } => self.write(offset, buffer, purpose),
            IoRequest::Sync { purpose } => {
                let result = sync(&self.shared, &self.inner, purpose, || self.inner.sync(purpose));
                IoOutcome { buffer: None, result }
            }
        }
    }

    fn write(&self, offset: u64, buffer: AlignedBuffer, purpose: Purpose) -> IoOutcome {
        let outcome = match self.fate(offset, buffer.len() as u64) {
            WriteEffect::At(offset) => self.one(IoRequest::Write {
                offset,
                buffer,
                purpose,
            }),
            WriteEffect::Torn => {
                let kept = AlignedBuffer::padded(&buffer[..buffer.len() - BLOCK as usize]);
                match self.inner.write_at(offset, kept, purpose) {
                    Ok(_) => done(Some(buffer)),
                    Err(error) => IoOutcome {
                        buffer: Some(buffer),
                        result: Err(error),
                    },
                }
            }
            WriteEffect::Dropped => done(Some(buffer)),
            WriteEffect::Held => {
                let write = Some((offset, buffer.to_vec()));
                let file = Arc::clone(&self.inner);
                self.shared
                    .state
                    .lock()
                    .held
                    .push(DelayedRequest { file, write, purpose });
                done(Some(buffer))
            }
        };
        if let PlantedBug::SyncAfterWrite { before, .. } = self.shared.bug
            && PlantedBug::hits(before, self.inner.name())
            && let Err(error) = self.shared.release()
        {
            return IoOutcome {
                result: Err(error),
                ..outcome
            };
        }
        outcome
    }

    fn fate(&self, offset: u64, len: u64) -> WriteEffect {
        let name = self.inner.name();
        let mut state = self.shared.state.lock();
        match self.shared.bug {
            PlantedBug::OnlyFirstWrites(part, kept) if PlantedBug::hits(part, name) => {
                let writes = state.writes.entry(name.to_owned()).or_default();
                *writes += 1;
                if *writes <= kept {
                    WriteEffect::At(offset)
                } else {
                    WriteEffect::Dropped
                }
            }
            PlantedBug::DropSecondCopy(part) if PlantedBug::hits(part, name) => {
                let writes = state.writes.entry(name.to_owned()).or_default();
                *writes += 1;
                if *writes % 2 == 1 {
                    WriteEffect::At(offset)
                } else {
                    WriteEffect::Dropped
                }
            }
            PlantedBug::LoseRewrites(part) if PlantedBug::hits(part, name) => {
                if state.written.insert((name.to_owned(), offset)) {
                    WriteEffect::At(offset)
                } else {
                    WriteEffect::Dropped
                }
            }
            PlantedBug::WrongSlot { file, mask } if PlantedBug::hits(file, name) => {
                WriteEffect::At(offset & !mask)
            }
            PlantedBug::FreeBeforeWrite(part) if PlantedBug::hits(part, name) => WriteEffect::Held,
            PlantedBug::TearWrites(part) if PlantedBug::hits(part, name) && len > BLOCK => WriteEffect::Torn,
            _ => WriteEffect::At(offset),
        }
    }
}

/// Syncs a file or part of its mapping with `honest`. The planted bug may skip or delay the sync,
/// or hide its error.
fn sync(
    shared: &SabotageContext,
    file: &Arc<dyn Device>,
    purpose: Purpose,
    honest: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let name = file.name();
    let hold = || {
        let file = Arc::clone(file);
        shared.state.lock().held.push(DelayedRequest {
            file,
            write: None,
            purpose,
        });
    };
    match shared.bug {
        PlantedBug::SkipSync(part) if PlantedBug::hits(part, name) => Ok(()),
        PlantedBug::DelaySync(part) if PlantedBug::hits(part, name) => {
            let result = shared.release();
            hold();
            result
        }
        PlantedBug::SyncAfterWrite { file, .. } | PlantedBug::FreeBeforeWrite(file)
            if PlantedBug::hits(file, name) =>
        {
            hold();
            Ok(())
        }
        PlantedBug::AcknowledgeFailedSync(part) if PlantedBug::hits(part, name) => {
            // The planted bug hides the sync's error.
            let _ = honest();
            Ok(())
        }
        _ => honest(),
    }
}

impl ForwardDevice for SabotagedFile {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn submit(&self, batch: IoBatch) -> Ticket {
        let requests = batch.into_requests().into_iter();
        Ticket::ready(requests.map(|request| self.perform(request)).collect())
    }

    fn poll(&self, ticket: &Ticket) -> bool {
        ticket.is_complete()
    }

    fn wait(&self, ticket: &Ticket) {
        assert!(ticket.is_complete(), "a batch is complete when it is submitted");
    }

    fn truncate(&self, len: u64) -> Result<()> {
        match self.shared.bug {
            PlantedBug::SkipTruncate(part) if PlantedBug::hits(part, self.inner.name()) => Ok(()),
            _ => {
                self.inner.truncate(len)?;
                self.shared.freed()
            }
        }
    }

    fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        let range = match self.shared.bug {
            PlantedBug::PunchWide(part, by) if PlantedBug::hits(part, self.inner.name()) => {
                range.start..range.end + by
            }
            _ => range,
        };
        self.inner.punch_hole(range)?;
        self.shared.freed()
    }

    fn map(&self, range: Range<u64>) -> Result<FileMapping> {
        assert_eq!(
            self.options.caching,
            CacheMode::Buffered,
            "only buffered files are mapped"
        );
        let inner = self.inner.map(range)?;
        let start = NonNull::new(inner.as_ptr()).expect("a mapping is not at address zero");
        let len = inner.len();
        let backing = SabotagedMapping {
            inner,
            file: Arc::clone(&self.inner),
            shared: Arc::clone(&self.shared),
        };
        // SAFETY: the memory belongs to the mapping `inner`, which `backing` keeps alive.
        Ok(unsafe { FileMapping::new(start, len, Arc::new(backing)) })
    }
}

struct SabotagedMapping {
    inner: FileMapping,
    file: Arc<dyn Device>,
    shared: Arc<SabotageContext>,
}

impl MappingBacking for SabotagedMapping {
    fn sync(&self, range: Range<u64>, purpose: Purpose) -> Result<()> {
        sync(&self.shared, &self.file, purpose, || {
            self.inner.sync(range.clone(), purpose)
        })
    }

    fn populate(&self, range: Range<u64>) -> Result<()> {
        self.inner.populate(range)
    }
}
