//! A file with a planted bug. The requests of a batch are performed one after the other.

use super::{Held, Sabotage, Shared};
use alluvium_base::Purpose;
use alluvium_device::forward::ForwardDevice;
use alluvium_device::{
    BLOCK, Batch, Buffer, Caching, Device, FileOptions, Mapping, MappingBacking, Outcome, Request, Result,
    Ticket,
};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct SabotagedFile {
    pub(super) inner: Arc<dyn Device>,
    pub(super) options: FileOptions,
    pub(super) shared: Arc<Shared>,
}

/// The effect of a write.
enum Fate {
    /// It is written at this offset.
    At(u64),
    /// It is written without its last block.
    Torn,
    /// It is dropped.
    Dropped,
    /// It is delayed.
    Held,
}

fn done(buffer: Option<Buffer>) -> Outcome {
    Outcome {
        buffer,
        result: Ok(()),
    }
}

impl SabotagedFile {
    fn one(&self, request: Request) -> Outcome {
        let mut batch = Batch::with_capacity(1);
        batch.push(request);
        let ticket = self.inner.submit(batch);
        self.inner.wait(&ticket);
        ticket.take().remove(0)
    }

    fn perform(&self, request: Request) -> Outcome {
        match request {
            Request::Read { .. } => self.one(request),
            Request::Write {
                offset,
                buffer,
                purpose,
            } => self.write(offset, buffer, purpose),
            Request::Sync { purpose } => {
                let result = sync(&self.shared, &self.inner, purpose, || self.inner.sync(purpose));
                Outcome { buffer: None, result }
            }
        }
    }

    fn write(&self, offset: u64, buffer: Buffer, purpose: Purpose) -> Outcome {
        let outcome = match self.fate(offset, buffer.len() as u64) {
            Fate::At(offset) => self.one(Request::Write {
                offset,
                buffer,
                purpose,
            }),
            Fate::Torn => {
                let kept = Buffer::padded(&buffer[..buffer.len() - BLOCK as usize]);
                match self.inner.write_at(offset, kept, purpose) {
                    Ok(_) => done(Some(buffer)),
                    Err(error) => Outcome {
                        buffer: Some(buffer),
                        result: Err(error),
                    },
                }
            }
            Fate::Dropped => done(Some(buffer)),
            Fate::Held => {
                let write = Some((offset, buffer.to_vec()));
                let file = Arc::clone(&self.inner);
                self.shared.state.lock().held.push(Held { file, write, purpose });
                done(Some(buffer))
            }
        };
        if let Sabotage::SyncAfterWrite { before, .. } = self.shared.bug
            && Sabotage::hits(before, self.inner.name())
            && let Err(error) = self.shared.release()
        {
            return Outcome {
                result: Err(error),
                ..outcome
            };
        }
        outcome
    }

    fn fate(&self, offset: u64, len: u64) -> Fate {
        let name = self.inner.name();
        let mut state = self.shared.state.lock();
        match self.shared.bug {
            Sabotage::OnlyFirstWrites(part, kept) if Sabotage::hits(part, name) => {
                let writes = state.writes.entry(name.to_owned()).or_default();
                *writes += 1;
                if *writes <= kept {
                    Fate::At(offset)
                } else {
                    Fate::Dropped
                }
            }
            Sabotage::DropSecondCopy(part) if Sabotage::hits(part, name) => {
                let writes = state.writes.entry(name.to_owned()).or_default();
                *writes += 1;
                if *writes % 2 == 1 {
                    Fate::At(offset)
                } else {
                    Fate::Dropped
                }
            }
            Sabotage::LoseRewrites(part) if Sabotage::hits(part, name) => {
                if state.written.insert((name.to_owned(), offset)) {
                    Fate::At(offset)
                } else {
                    Fate::Dropped
                }
            }
            Sabotage::WrongSlot { file, mask } if Sabotage::hits(file, name) => Fate::At(offset & !mask),
            Sabotage::FreeBeforeWrite(part) if Sabotage::hits(part, name) => Fate::Held,
            Sabotage::TearWrites(part) if Sabotage::hits(part, name) && len > BLOCK => Fate::Torn,
            _ => Fate::At(offset),
        }
    }
}

/// Syncs a file or a part of its mapping, modified by the bug.
fn sync(
    shared: &Shared,
    file: &Arc<dyn Device>,
    purpose: Purpose,
    honest: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let name = file.name();
    let hold = || {
        let file = Arc::clone(file);
        shared.state.lock().held.push(Held {
            file,
            write: None,
            purpose,
        });
    };
    match shared.bug {
        Sabotage::SkipSync(part) if Sabotage::hits(part, name) => Ok(()),
        Sabotage::DelaySync(part) if Sabotage::hits(part, name) => {
            let result = shared.release();
            hold();
            result
        }
        Sabotage::SyncAfterWrite { file, .. } | Sabotage::FreeBeforeWrite(file)
            if Sabotage::hits(file, name) =>
        {
            hold();
            Ok(())
        }
        Sabotage::AcknowledgeFailedSync(part) if Sabotage::hits(part, name) => {
            // The bug swallows the error.
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

    fn submit(&self, batch: Batch) -> Ticket {
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
            Sabotage::SkipTruncate(part) if Sabotage::hits(part, self.inner.name()) => Ok(()),
            _ => {
                self.inner.truncate(len)?;
                self.shared.freed()
            }
        }
    }

    fn punch_hole(&self, range: Range<u64>) -> Result<()> {
        let range = match self.shared.bug {
            Sabotage::PunchWide(part, by) if Sabotage::hits(part, self.inner.name()) => {
                range.start..range.end + by
            }
            _ => range,
        };
        self.inner.punch_hole(range)?;
        self.shared.freed()
    }

    fn map(&self, range: Range<u64>) -> Result<Mapping> {
        assert_eq!(
            self.options.caching,
            Caching::Buffered,
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
        // SAFETY: the memory is that of `inner`, which the backing keeps.
        Ok(unsafe { Mapping::new(start, len, Arc::new(backing)) })
    }
}

struct SabotagedMapping {
    inner: Mapping,
    file: Arc<dyn Device>,
    shared: Arc<Shared>,
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
