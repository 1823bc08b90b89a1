//! Many reads under way for a single thread without an executor.

use crate::engine::{At, Polled, Tally};
use crate::pin::Pinned;
use crate::shared::Shared;
use crate::{Error, Keyspace, Result, Snapshot, Value};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

/// While it lives, reads that futures of this thread begin are handed to the device together: when
/// it is dropped, or when the thread waits for the store. Each time the device is told of new reads
/// costs about as much as a read.
///
/// An executor keeps one while it polls the tasks that are ready. A future that is polled until it
/// is ready, without a pause in between, would never be.
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
pub struct GatheredReads(#[allow(dead_code)] alluvium_device::Gathering);

impl GatheredReads {
    /// Gathers the reads of this thread from now on.
    pub fn begin() -> GatheredReads {
        GatheredReads(alluvium_device::Gathering::new())
    }

    /// Hands over what this thread has gathered so far.
    pub fn hand_over() {
        alluvium_device::Gathering::hand_over();
    }
}

/// Reads that are under way together, each with a tag by which its answer is known. Answers come in
/// the order in which they become known.
///
/// What is asked for between two calls of [`Reads::poll`] or [`Reads::wait`] goes to the device at
/// once. So a thread which asks for a new key for every answer that it takes costs the processor
/// little more than one that reads whole batches, and the device never rests. Dropping it drops the
/// reads that are under way.
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
    shared: Arc<Shared>,
    /// Oldest first.
    under_way: VecDeque<Box<One<T>>>,
    done: VecDeque<(T, Result<Option<Value>>)>,
    /// How many of them lack what the device was not asked for yet.
    unasked: usize,
}

struct One<T> {
    /// None once it is finished.
    tag: Option<T>,
    polled: Polled,
    _pinned: Option<Arc<Pinned>>,
}

impl<T> Reads<T> {
    pub(crate) fn new(shared: &Arc<Shared>) -> Reads<T> {
        Reads {
            shared: Arc::clone(shared),
            under_way: VecDeque::new(),
            done: VecDeque::new(),
            unasked: 0,
        }
    }

    /// Begins to read a key as it is now.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`], [`Error::OtherStore`]. What goes wrong later comes as the
    /// answer.
    pub fn get(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, tag: T) -> Result<()> {
        self.begin(keyspace, key.as_ref(), tag, None)
    }

    /// Begins to read a key as it is in a snapshot.
    ///
    /// # Errors
    /// As [`Reads::get`].
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

    fn begin(&mut self, keyspace: &Keyspace, key: &[u8], tag: T, pinned: Option<Arc<Pinned>>) -> Result<()> {
        keyspace.definition().alive()?;
        if keyspace.store_number() != self.shared.number() {
            return Err(Error::OtherStore);
        }
        let at = pinned
            .as_ref()
            .map_or(At::Now, |pinned| At::Kept(pinned.sequence()));
        let mut one = Box::new(One {
            tag: Some(tag),
            polled: Polled::new([keyspace.handle().asked_key(key)], at),
            _pinned: pinned,
        });
        self.shared.engine.tallies.add([(Tally::Gets, 1)]);
        match self.shared.engine.advance(&mut one.polled) {
            Poll::Ready(result) => self.done.push_back(one.finish(result)),
            Poll::Pending => {
                self.under_way.push_back(one);
                self.unasked += 1;
            }
        }
        Ok(())
    }

    /// Returns how many were begun whose answers have not been taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.under_way.len() + self.done.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an answer that is known, if there is one. It does not wait.
    pub fn poll(&mut self) -> Option<(T, Result<Option<Value>>)> {
        if self.done.is_empty() {
            self.look();
        }
        self.done.pop_front()
    }

    /// Returns the next answer, or none when all have been taken. It waits for the device while
    /// none is known.
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

    /// Asks the device how far it is.
    fn look(&mut self) {
        self.ask();
        if let Some(oldest) = self.under_way.front_mut() {
            // What the device tells of the others it tells with this one.
            oldest.polled.asks_device();
            self.go_on();
        }
    }

    /// Goes on with what has arrived.
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

    /// Asks the device for what is missing.
    fn ask(&mut self) {
        if std::mem::take(&mut self.unasked) == 0 {
            return;
        }
        let engine = &self.shared.engine;
        let all = self.under_way.iter_mut().map(|one| &mut one.polled);
        let mut unasked: Vec<&mut Polled> = all.filter(|polled| !polled.is_asked()).collect();
        if engine.request_each(&mut unasked).is_ok() {
            return;
        }
        // One of them is damaged: each finds out by itself.
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

impl<T> One<T> {
    /// Its answer. It is not used any more.
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
