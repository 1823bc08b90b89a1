//! The futures of reads.

use crate::engine::{EngineCounter, PolledRead, ReadPosition};
use crate::error::Result;
use crate::read::pin::SnapshotPin;
use crate::read::value::Value;
use crate::shared::{OpenKeyspace, SharedStore};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The state common to all read futures.
struct ReadState {
    /// Reference to the store. `None` once the future is ready or dropped.
    shared: Option<Arc<SharedStore>>,
    polled: PolledRead,
    /// Pins the sequence number at which the future reads, if it reads in a snapshot.
    _pinned: Option<Arc<SnapshotPin>>,
}

impl ReadState {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let shared = self
            .shared
            .as_ref()
            .expect("a future is not polled after it is done");
        let watch = |watched| shared.reactor.watch(watched);
        let done = shared.engine.poll(&mut self.polled, context.waker(), watch);
        if done.is_ready() {
            self.let_go();
        }
        done
    }

    /// Releases the reference to the store, without closing the store on this thread.
    fn let_go(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.release_in_background();
        }
    }
}

impl Drop for ReadState {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// A future for the value of a key, returned by
/// [`Keyspace::get_async`](crate::Keyspace::get_async).
///
/// It works in any executor and may be dropped at any time. Once it was ready, it must not be
/// polled again.
#[must_use = "futures do nothing unless they are polled"]
pub struct GetFuture {
    asked: ReadState,
    error: Option<crate::error::Error>,
}

/// A future for the values of many keys, in the order of the keys, returned by
/// [`Keyspace::multi_get_async`](crate::Keyspace::multi_get_async).
///
/// Like a [`GetFuture`], but submits the device reads for all keys together.
#[must_use = "futures do nothing unless they are polled"]
pub struct MultiGetFuture {
    asked: ReadState,
    error: Option<crate::error::Error>,
}

fn asked<'k>(
    keyspace: &OpenKeyspace,
    keys: impl Iterator<Item = &'k [u8]>,
    pinned: Result<Option<Arc<SnapshotPin>>>,
) -> (ReadState, Option<crate::error::Error>) {
    let alive = keyspace.definition.alive();
    let (pinned, error) = match alive.and(pinned) {
        Ok(pinned) => (pinned, None),
        Err(error) => (None, Some(error)),
    };
    let at = pinned.as_ref().map_or(ReadPosition::Now, |pinned| {
        ReadPosition::Pinned(pinned.sequence())
    });
    let asked = ReadState {
        shared: Some(Arc::clone(&keyspace.shared)),
        polled: PolledRead::new(keys.map(|key| keyspace.asked_key(key)), at),
        _pinned: pinned,
    };
    (asked, error)
}

impl GetFuture {
    pub(crate) fn new(
        keyspace: &OpenKeyspace,
        key: &[u8],
        pinned: Result<Option<Arc<SnapshotPin>>>,
    ) -> GetFuture {
        let (asked, error) = asked(keyspace, std::iter::once(key), pinned);
        keyspace.shared.engine.counters.add([(EngineCounter::Gets, 1)]);
        GetFuture { asked, error }
    }
}

impl MultiGetFuture {
    pub(crate) fn new<K: AsRef<[u8]>>(
        keyspace: &OpenKeyspace,
        keys: impl IntoIterator<Item = K>,
        pinned: Result<Option<Arc<SnapshotPin>>>,
    ) -> MultiGetFuture {
        let keys: Vec<K> = keys.into_iter().collect();
        let (asked, error) = asked(keyspace, keys.iter().map(AsRef::as_ref), pinned);
        keyspace.shared.count_multi_get(keys.len());
        MultiGetFuture { asked, error }
    }
}

impl Future for GetFuture {
    type Output = Result<Option<Value>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Err(error));
        }
        self.asked.poll(context).map(|done| {
            done?;
            let answer = self.asked.polled.take().next().expect("an answer for the key");
            Ok(answer.map(Value::new))
        })
    }
}

impl Future for MultiGetFuture {
    type Output = Result<Vec<Option<Value>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Err(error));
        }
        self.asked.poll(context).map(|done| {
            done?;
            let answers = self.asked.polled.take();
            Ok(answers.map(|answer| answer.map(Value::new)).collect())
        })
    }
}

impl fmt::Debug for GetFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetFuture")
            .field("polled", &self.asked.polled)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for MultiGetFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGetFuture")
            .field("polled", &self.asked.polled)
            .finish_non_exhaustive()
    }
}
