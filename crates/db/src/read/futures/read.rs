//! The futures of reads.

use crate::engine::{At, Polled, Tally};
use crate::error::Result;
use crate::read::pin::Pinned;
use crate::read::value::Value;
use crate::shared::{OpenKeyspace, Shared};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// State of a read future.
struct Asked {
    /// `None` once the future is ready or dropped.
    shared: Option<Arc<Shared>>,
    polled: Polled,
    /// Pins the sequence number that the future reads at.
    _pinned: Option<Arc<Pinned>>,
}

impl Asked {
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

    /// Releases the reference to the store.
    fn let_go(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.let_go();
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Future of a key's value, returned by [`Keyspace::get_async`](crate::Keyspace::get_async).
///
/// It works in any executor and may be dropped at any time. It must not be polled again after it
/// was ready.
#[must_use = "futures do nothing unless they are polled"]
pub struct Get {
    asked: Asked,
    error: Option<crate::error::Error>,
}

/// Future of the values of many keys, in the order of the keys, returned by
/// [`Keyspace::multi_get_async`](crate::Keyspace::multi_get_async).
///
/// Like [`Get`], with all device reads submitted together.
#[must_use = "futures do nothing unless they are polled"]
pub struct MultiGet {
    asked: Asked,
    error: Option<crate::error::Error>,
}

fn asked<'k>(
    keyspace: &OpenKeyspace,
    keys: impl Iterator<Item = &'k [u8]>,
    pinned: Result<Option<Arc<Pinned>>>,
) -> (Asked, Option<crate::error::Error>) {
    let alive = keyspace.definition.alive();
    let (pinned, error) = match alive.and(pinned) {
        Ok(pinned) => (pinned, None),
        Err(error) => (None, Some(error)),
    };
    let at = pinned
        .as_ref()
        .map_or(At::Now, |pinned| At::Kept(pinned.sequence()));
    let asked = Asked {
        shared: Some(Arc::clone(&keyspace.shared)),
        polled: Polled::new(keys.map(|key| keyspace.asked_key(key)), at),
        _pinned: pinned,
    };
    (asked, error)
}

impl Get {
    pub(crate) fn new(keyspace: &OpenKeyspace, key: &[u8], pinned: Result<Option<Arc<Pinned>>>) -> Get {
        let (asked, error) = asked(keyspace, std::iter::once(key), pinned);
        keyspace.shared.engine.tallies.add([(Tally::Gets, 1)]);
        Get { asked, error }
    }
}

impl MultiGet {
    pub(crate) fn new<K: AsRef<[u8]>>(
        keyspace: &OpenKeyspace,
        keys: impl IntoIterator<Item = K>,
        pinned: Result<Option<Arc<Pinned>>>,
    ) -> MultiGet {
        let keys: Vec<K> = keys.into_iter().collect();
        let (asked, error) = asked(keyspace, keys.iter().map(AsRef::as_ref), pinned);
        keyspace.shared.count_multi_get(keys.len());
        MultiGet { asked, error }
    }
}

impl Future for Get {
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

impl Future for MultiGet {
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

impl fmt::Debug for Get {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Get")
            .field("polled", &self.asked.polled)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for MultiGet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGet")
            .field("polled", &self.asked.polled)
            .finish_non_exhaustive()
    }
}
