//! Point reads that do not block. Nodes that are not in memory are read from the device between
//! polls.
//!
//! Between polls, a read keeps neither a dictionary version nor a memtable alive. The next poll
//! resumes where the previous poll stopped, if the dictionary still has the version in which the
//! read began. Otherwise the read starts over, by which time most of the nodes that it needs are
//! cached. It keeps its sequence number if it can, and takes a newer one if the versions that it
//! needs may have been merged (E3).

use super::{ReadPosition, ReadView};
use crate::engine::Engine;
use crate::engine::queue::MemtableSlot;
use crate::engine::readers::{StructureReader, StructureSearch};
use crate::engine::structures::DictionarySet;
use crate::error::{Error, Result};
use crate::options::kind::DictionaryPlace;
use crate::schema::catalog::KeyspaceDefinition;
use crate::schema::format::TreeKey;
use alluvium_base::Purpose;
use alluvium_dictionary::contract::LookupReader as _;
use alluvium_dictionary::fetch;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup::LookupCursor;
use alluvium_dictionary::pinned_value::PinnedValue;
use alluvium_storage::{CacheRetention, NodePointer, PendingReads, WatchedRead};
use smallvec::SmallVec;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A read of several keys, all at the same read position.
#[derive(Debug)]
pub(crate) struct PolledRead {
    at: ReadPosition,
    /// The read view, or `None` if the read has not begun.
    moment: Option<ReadView>,
    keys: SmallVec<[PolledKey; 1]>,
    /// Number of keys whose results are missing.
    open: usize,
    pending: Option<PendingReads>,
}

#[derive(Debug)]
struct PolledKey {
    key: TreeKey,
    hash: u64,
    definition: Arc<KeyspaceDefinition>,
    course: LookupCursor<StructureSearch>,
    /// Whether to offer the result to the record cache.
    offers: bool,
    /// Number of nodes that this key's lookup has waited for.
    reads: u64,
    answer: Option<Option<PinnedValue>>,
}

impl PolledRead {
    /// Creates a read of `keys`. The read begins when it is first polled.
    pub(crate) fn new(
        keys: impl IntoIterator<Item = (TreeKey, Arc<KeyspaceDefinition>)>,
        at: ReadPosition,
    ) -> PolledRead {
        let keys: SmallVec<[PolledKey; 1]> = keys
            .into_iter()
            .map(|(key, definition)| PolledKey {
                hash: LookupKey::new(&key).hash(),
                key,
                course: LookupCursor::default(),
                definition,
                offers: false,
                reads: 0,
                answer: None,
            })
            .collect();
        PolledRead {
            at,
            moment: None,
            open: keys.len(),
            keys,
            pending: None,
        }
    }

    /// Returns the results in the order of the keys. All results must be available.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Option<PinnedValue>> {
        let keys = std::mem::take(&mut self.keys);
        keys.into_iter()
            .map(|key| key.answer.expect("it is taken when everything is known"))
    }

    /// Returns whether the requested nodes have been read. Does not poll the device.
    pub(crate) fn has_arrived(&mut self) -> bool {
        self.pending.as_mut().is_none_or(PendingReads::settle)
    }

    /// Polls the device, and returns whether the requested nodes have been read.
    pub(crate) fn asks_device(&mut self) -> bool {
        self.pending.as_mut().is_none_or(PendingReads::poll)
    }

    /// Waits until the device completes some reads, either of this request or of others in the same
    /// batch.
    pub(crate) fn wait_some(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.wait_some();
        }
    }

    /// Returns whether this read has requested its missing nodes from the device.
    pub(crate) fn is_asked(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns the nodes that must be read before this read can continue.
    pub(crate) fn missing(&self) -> SmallVec<[NodePointer; 4]> {
        let open = self.keys.iter().filter(|key| key.answer.is_none());
        open.flat_map(|key| key.course.missing()).copied().collect()
    }

    /// Stores the handle of the request for the missing nodes.
    pub(crate) fn asked(&mut self, pending: PendingReads) {
        for key in self.keys.iter_mut().filter(|key| key.answer.is_none()) {
            key.reads += key.course.missing().len() as u64;
            key.course.asked(&pending);
        }
        self.pending = Some(pending);
    }

    /// Discards all results and the read view. The next poll takes a new read view.
    fn begin_again(&mut self) {
        self.moment = None;
        self.open = self.keys.len();
        for key in &mut self.keys {
            key.answer = None;
            key.course.leave();
        }
    }
}

/// The readers that a read needs, one for each dictionary that has any of its keys.
struct ReaderSet<'e> {
    dictionaries: &'e DictionarySet,
    all: SmallVec<[(DictionaryPlace, StructureReader<'e>); 1]>,
}

impl<'e> ReaderSet<'e> {
    /// Creates the readers needed by the keys that have no result yet. The caller must load the
    /// list of memtables first.
    fn of(engine: &'e Engine, polled: &PolledRead) -> ReaderSet<'e> {
        let mut readers = ReaderSet {
            dictionaries: &engine.dictionaries,
            all: SmallVec::new(),
        };
        for key in polled.keys.iter().filter(|key| key.answer.is_none()) {
            readers.of_key(key);
        }
        readers
    }

    fn of_key(&mut self, key: &PolledKey) -> &mut StructureReader<'e> {
        let place = key.definition.dictionary();
        let found = self.all.iter().position(|(of, _)| *of == place);
        let found = found.unwrap_or_else(|| {
            self.all.push((place, self.dictionaries.reader(place)));
            self.all.len() - 1
        });
        &mut self.all[found].1
    }
}

impl Engine {
    /// Continues a read and requests its missing nodes from the device. `waker` is called when the
    /// read can continue, which requires a thread that waits for each handle passed to `watch`.
    pub(crate) fn poll(
        &self,
        polled: &mut PolledRead,
        waker: &Waker,
        mut watch: impl FnMut(WatchedRead),
    ) -> Poll<Result<()>> {
        loop {
            if let Some(pending) = &mut polled.pending
                && pending.poll_with(waker, &mut watch).is_pending()
            {
                return Poll::Pending;
            }
            if let Poll::Ready(done) = self.advance(polled) {
                return Poll::Ready(done);
            }
            self.request(polled)?;
        }
    }

    /// Requests the missing nodes of one read from the device.
    pub(crate) fn request(&self, polled: &mut PolledRead) -> Result<()> {
        let missing = polled.missing();
        let cache = self.store.cache();
        polled.asked(cache.request(&missing, Purpose::Lookup, CacheRetention::Keep)?);
        Ok(())
    }

    /// Requests the missing nodes of several reads from the device, in one batch.
    pub(crate) fn request_each(&self, all: &mut [&mut PolledRead]) -> Result<()> {
        let missing: Vec<_> = all.iter().map(|polled| polled.missing()).collect();
        let wanted: Vec<&[NodePointer]> = missing.iter().map(|missing| &missing[..]).collect();
        let cache = self.store.cache();
        let pending = cache.request_each(&wanted, Purpose::Lookup, CacheRetention::Keep)?;
        for (polled, pending) in all.iter_mut().zip(pending) {
            polled.asked(pending);
        }
        Ok(())
    }

    /// Continues a read as far as the nodes in memory allow. All requested nodes must have been
    /// read.
    pub(crate) fn advance(&self, polled: &mut PolledRead) -> Poll<Result<()>> {
        polled.pending = None;
        loop {
            let moment = polled.moment.unwrap_or_else(|| self.moment(polled.at));
            let mut readers = ReaderSet::of(self, polled);
            let is_new = |key: &PolledKey, readers: &mut ReaderSet<'_>| {
                key.answer.is_none() && !key.course.is_of(readers.of_key(key))
            };
            if polled.keys.iter().any(|key| is_new(key, &mut readers)) {
                // Load the list of memtables before the dictionary's version (E2).
                drop(readers);
                let slots = self.queue.slots();
                readers = ReaderSet::of(self, polled);
                self.is_open()?;
                if self.is_forgotten(&moment) {
                    polled.begin_again();
                    continue;
                }
                polled.moment = Some(moment);
                for key in &mut polled.keys {
                    if is_new(key, &mut readers) {
                        let reader = readers.of_key(key);
                        self.begin_one(key, reader, &slots, &moment)?;
                        polled.open -= usize::from(key.answer.is_some());
                    }
                }
            }
            self.is_open()?;
            for key in polled.keys.iter_mut().filter(|key| key.answer.is_none()) {
                let reader = readers.of_key(key);
                if let Poll::Ready(done) = self.continue_search(key, reader, &moment) {
                    done?;
                    polled.open -= 1;
                }
            }
            return match polled.open {
                0 => Poll::Ready(Ok(())),
                _ => Poll::Pending,
            };
        }
    }

    /// Begins a key's lookup in the dictionary version that `reader` reads.
    fn begin_one(
        &self,
        key: &mut PolledKey,
        reader: &StructureReader<'_>,
        slots: &[Arc<MemtableSlot>],
        moment: &ReadView,
    ) -> Result<()> {
        key.course.begin(reader, moment.sequence, moment.now_ms);
        let rules = &key.definition.rules;
        let mut gather = key.course.resume(rules.operator.as_deref()).holding();
        let name = LookupKey::hashed(&key.key, key.hash);
        key.offers = self.begin(&mut gather, name, moment, slots, reader.cut(), rules);
        if gather.is_decided() {
            key.answer = Some(self.finish(gather, key.offers, name, moment, Some(key.reads))?);
        } else {
            key.course.suspend(gather);
        }
        Ok(())
    }

    /// Continues searching the dictionary for a key, as far as the nodes in memory allow.
    fn continue_search(
        &self,
        key: &mut PolledKey,
        reader: &StructureReader<'_>,
        moment: &ReadView,
    ) -> Poll<Result<()>> {
        let mut gather = key.course.resume(key.definition.rules.operator.as_deref());
        let name = LookupKey::hashed(&key.key, key.hash);
        let before = fetch::waited();
        let advanced = key.course.advance(reader, name, &mut gather);
        key.reads += fetch::waited().wrapping_sub(before);
        match advanced {
            Poll::Pending => {
                key.course.suspend(gather);
                return Poll::Pending;
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(Error::from(error))),
            Poll::Ready(Ok(())) => {}
        }
        key.answer = Some(self.finish(gather, key.offers, name, moment, Some(key.reads))?);
        Poll::Ready(Ok(()))
    }
}
