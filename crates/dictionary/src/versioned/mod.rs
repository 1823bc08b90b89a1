//! Structures that change by publishing one version after another.
//!
//! *Knows*: which version is current, how a reader keeps it readable, how a root is written once
//! for each contents, which layers an ingest has.
//!
//! *Does not know*: what a version holds, how a key is found in it, how its contents are encoded.
//!
//! *Read in this order*: this file (the current version), `reader.rs` (lookups in one version),
//! `root.rs` (what a checkpoint writes), `layers.rs` and `ingest.rs` (what is written before it is
//! attached).
//!
//! Invariants:
//!
//! - **H1** A version never changes. What it refers to stays readable while a guard that was pinned
//!   before its successor was published is alive.
//! - **H2** Numbers of versions ascend one by one. Their cuts do not fall.

mod ingest;
mod layers;
mod reader;
mod root;

pub use ingest::{LayerIngest, LayerTarget};
pub use layers::{IngestLayers, LayerWriter};
pub use reader::{VersionReader, VersionSearch};
pub use root::{RootWriter, read_root};

use alluvium_base::Sequence;
use arc_swap::ArcSwap;
use std::fmt;
use std::sync::Arc;

/// Which version of a structure it is, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// How many versions there were before it.
    pub number: u64,
    /// How many versions before it had other contents.
    pub contents: u64,
    /// It holds every commit up to this one, and none above.
    pub cut: Sequence,
}

impl Stamp {
    /// Returns the stamp of a first version, which holds every commit up to `cut`.
    #[must_use]
    pub fn first(cut: Sequence) -> Stamp {
        Stamp {
            cut,
            ..Stamp::default()
        }
    }

    /// Returns the stamp of the next version, whose contents are others.
    #[must_use]
    pub fn changed(self, cut: Sequence) -> Stamp {
        Stamp {
            contents: self.contents + 1,
            ..self.advanced(cut)
        }
    }

    /// Returns the stamp of the next version, whose contents are the same.
    ///
    /// # Panics
    /// When `cut` is below that of this version.
    #[must_use]
    pub fn advanced(self, cut: Sequence) -> Stamp {
        assert!(cut >= self.cut, "a structure does not forget commits (H2)");
        Stamp {
            number: self.number + 1,
            contents: self.contents,
            cut,
        }
    }
}

/// One state of a structure (H1).
pub trait Version: Send + Sync {
    /// Returns which version it is.
    fn stamp(&self) -> &Stamp;
}

/// A version that is read for a short time. No counter that threads share is touched for it.
pub type Peeked<V> = arc_swap::Guard<Arc<V>>;

/// The current version of a structure. Readers load it without a lock. Writers take turns: their
/// structure has a lock for that.
pub struct Versioned<V> {
    current: ArcSwap<V>,
}

impl<V: Version> fmt::Debug for Versioned<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Versioned").field(self.peek().stamp()).finish()
    }
}

impl<V: Version> Versioned<V> {
    /// Makes `version` the current one.
    #[must_use]
    pub fn new(version: V) -> Versioned<V> {
        Versioned {
            current: ArcSwap::from_pointee(version),
        }
    }

    /// Returns the current version, for the length of a call.
    #[inline]
    pub fn peek(&self) -> Peeked<V> {
        self.current.load()
    }

    /// Returns the current version, for as long as the caller likes.
    #[inline]
    pub fn load(&self) -> Arc<V> {
        self.current.load_full()
    }

    /// Returns the last commit that the current version holds.
    #[inline]
    pub fn cut(&self) -> Sequence {
        self.peek().stamp().cut
    }

    /// Makes `version` the current one.
    ///
    /// # Panics
    /// When it does not follow the current one (H2).
    pub fn publish(&self, version: V) {
        let (old, new) = (*self.peek().stamp(), *version.stamp());
        assert_eq!(
            new.number,
            old.number + 1,
            "a version follows the current one (H2)"
        );
        assert!(new.cut >= old.cut, "a structure does not forget commits (H2)");
        self.current.store(Arc::new(version));
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    impl Version for Stamp {
        fn stamp(&self) -> &Stamp {
            self
        }
    }

    #[test]
    fn a_version_stays_as_it_is_while_others_follow() {
        let versioned = Versioned::new(Stamp::first(7));
        let first = versioned.load();
        versioned.publish(first.advanced(9));
        versioned.publish(versioned.peek().changed(9));
        assert_eq!(*first, Stamp::first(7));
        let now = Stamp {
            number: 2,
            contents: 1,
            cut: 9,
        };
        assert_eq!((*versioned.load(), versioned.cut()), (now, 9));
    }

    #[test]
    #[should_panic(expected = "a version follows the current one (H2)")]
    fn a_version_that_was_overtaken_is_refused() {
        let versioned = Versioned::new(Stamp::first(0));
        let next = versioned.peek().changed(1);
        versioned.publish(next);
        versioned.publish(next);
    }
}
