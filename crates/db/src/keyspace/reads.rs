//! Concurrent reads of many keys on one thread, without an async executor.

use crate::engine::{EngineCounter, PolledRead, ReadPosition};
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::keyspace::snapshot::Snapshot;
use crate::read::pin::SnapshotPin;
use crate::read::value::Value;
use crate::shared::SharedStore;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

/// Batches the device reads of the current thread. While this value exists, reads started by the
/// thread's futures are collected, and they are submitted together when it is dropped or when the
/// thread waits for the store. Batching saves processor time, because a submission costs about as
/// much as a read.
///
/// An executor keeps such a value while it polls its ready tasks. A loop that polls a single future
/// and never drops the value would never finish, because the future's reads would never be
/// submitted.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// use alluvium::GatheredReads;
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Waker};
/// let rivers = db.keyspace("rivers")?;
/// rivers.put("Elbe", "1094 km")?;
/// let (mut elbe, mut oder) = (pin!(rivers.get_async("Elbe")), pin!(rivers.get_async("Oder")));
/// let mut context = Context::from_waker(Waker::noop());
/// let gathered = GatheredReads::begin();
/// let both = (elbe.as_mut().poll(&mut context), oder.as_mut().poll(&mut context));
/// drop(gathered);
/// assert!(both.0.is_ready() && both.1.is_ready(), "both are in memory");
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "reads are gathered while it lives"]
pub struct GatheredReads(#[allow(dead_code)] alluvium_device::SubmissionPlug);

impl GatheredReads {
    /// Starts batching the device reads of the current thread.
    pub fn begin() -> GatheredReads {
        GatheredReads(alluvium_device::SubmissionPlug::new())
    }

    /// Submits the reads that this thread has batched so far.
    pub fn hand_over() {
        alluvium_device::SubmissionPlug::hand_over();
    }
}

/// A set of concurrent reads. The caller tags each read to identify it. Results are returned in the
/// order in which the reads complete.
///
/// Reads started between two calls of [`Reads::poll`] or [`Reads::wait`] are submitted together. A
/// thread that starts a new read for each result keeps the device busy and needs little more
/// processor time than one that reads in batches. Dropping the set cancels the reads in flight.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// let rivers = db.keyspace("rivers")?;
/// rivers.put("Elbe", "1094 km")?;
/// rivers.put("Oder", "840 km")?;
/// let mut reads = db.reads();
/// for name in ["Elbe", "Oder", "Styx"] {
///     reads.get(&rivers, name, name)?;
/// }
/// let mut found = 0;
/// while let Some((name, value)) = reads.wait() {
///     assert_eq!(value?.is_some(), name != "Styx");
///     found += 1;
/// }
/// assert_eq!(found, 3);
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct Reads<T> {
    shared: Arc<SharedStore>,
    /// Incomplete reads, in submission order.
    under_way: VecDeque<Box<TaggedRead<T>>>,
    done: VecDeque<(T, Result<Option<Value>>)>,
    /// Number of incomplete reads whose device reads have not been submitted yet.
    unasked: usize,
}

struct TaggedRead<T> {
    /// `None` once the read is complete.
    tag: Option<T>,
    polled: PolledRead,
    _pinned: Option<Arc<SnapshotPin>>,
}

impl<T> Reads<T> {
    pub(crate) fn new(shared: &Arc<SharedStore>) -> Reads<T> {
        Reads {
            shared: Arc::clone(shared),
            under_way: VecDeque::new(),
            done: VecDeque::new(),
            unasked: 0,
        }
    }

    /// Starts a read of the current value of a key.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`], [`Error::OtherStore`]. Later errors are returned as the result
    /// of the read.
    pub fn get(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, tag: T) -> Result<()> {
        self.begin(keyspace, key.as_ref(), tag, None)
    }

    /// Starts a read of the value of a key in a snapshot.
    ///
    /// # Errors
    /// The same errors as [`Reads::get`].
    pub fn get_in(
        &mut self,
        snapshot: &Snapshot,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        tag: T,
    ) -> Result<()> {
        let pinned = snapshot.pinned_for(keyspace)?;
        self.begin(keyspace, key.as_ref(), tag, Some(pinned))
    }

    fn begin(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        tag: T,
        pinned: Option<Arc<SnapshotPin>>,
    ) -> Result<()> {
        keyspace.definition().alive()?;
        if keyspace.store_number() != self.shared.number() {
            return Err(Error::OtherStore);
        }
        let at = pinned.as_ref().map_or(ReadPosition::Now, |pinned| {
            ReadPosition::Pinned(pinned.sequence())
        });
        let mut one = Box::new(TaggedRead {
            tag: Some(tag),
            polled: PolledRead::new([keyspace.handle().asked_key(key)], at),
            _pinned: pinned,
        });
        self.shared.engine.counters.add([(EngineCounter::Gets, 1)]);
        match self.shared.engine.advance(&mut one.polled) {
            Poll::Ready(result) => self.done.push_back(one.finish(result)),
            Poll::Pending => {
                self.under_way.push_back(one);
                self.unasked += 1;
            }
        }
        Ok(())
    }

    /// Returns the number of reads whose results are still to be returned.
    #[must_use]
    pub fn len(&self) -> usize {
        self.under_way.len() + self.done.len()
    }

    /// Returns whether all results have been returned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the result of a completed read, or `None` if there is none yet. Does not wait.
    pub fn poll(&mut self) -> Option<(T, Result<Option<Value>>)> {
        if self.done.is_empty() {
            self.look();
        }
        self.done.pop_front()
    }

    /// Returns the next result, waiting for the device until there is one. Returns `None` if the
    /// results of all reads have been returned.
    pub fn wait(&mut self) -> Option<(T, Result<Option<Value>>)> {
        if self.done.is_empty() {
            self.look();
        }
        while self.done.is_empty()
            && let Some(oldest) = self.under_way.front_mut()
        {
            oldest.polled.wait_some();
            self.go_on();
        }
        self.done.pop_front()
    }

    /// Submits the pending device reads and collects the completed ones.
    fn look(&mut self) {
        self.ask();
        if let Some(oldest) = self.under_way.front_mut() {
            // Polling the device for one read also collects the completions of the others.
            oldest.polled.asks_device();
            self.go_on();
        }
    }

    /// Advances the reads whose device reads are complete.
    fn go_on(&mut self) {
        let Reads {
            shared,
            under_way,
            done,
            unasked,
        } = self;
        under_way.retain_mut(|one| {
            if !one.polled.has_arrived() {
                return true;
            }
            match shared.engine.advance(&mut one.polled) {
                Poll::Ready(result) => done.push_back(one.finish(result)),
                Poll::Pending => {
                    *unasked += 1;
                    return true;
                }
            }
            false
        });
        self.ask();
    }

    /// Submits the device reads that have not been submitted yet.
    fn ask(&mut self) {
        if std::mem::take(&mut self.unasked) == 0 {
            return;
        }
        let engine = &self.shared.engine;
        let all = self.under_way.iter_mut().map(|one| &mut one.polled);
        let mut unasked: Vec<&mut PolledRead> = all.filter(|polled| !polled.is_asked()).collect();
        if engine.request_each(&mut unasked).is_ok() {
            return;
        }
        // One of the reads made the joint submission fail. Submit each read separately, so that
        // only the bad one fails.
        let done = &mut self.done;
        self.under_way.retain_mut(|one| {
            if one.polled.is_asked() {
                return true;
            }
            match engine.request(&mut one.polled) {
                Ok(()) => return true,
                Err(error) => done.push_back(one.finish(Err(error))),
            }
            false
        });
    }
}

impl<T> TaggedRead<T> {
    /// Returns the read's tag and result. The read must not be used afterwards.
    fn finish(&mut self, result: Result<()>) -> (T, Result<Option<Value>>) {
        let tag = self.tag.take().expect("it is finished once");
        let value = result.map(|()| self.polled.take().next().flatten().map(Value::new));
        (tag, value)
    }
}

impl<T> fmt::Debug for Reads<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads")
            .field("under_way", &self.under_way.len())
            .field("done", &self.done.len())
            .finish_non_exhaustive()
    }
}
