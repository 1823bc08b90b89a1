//! Structures that change only when a new, immutable version is published.
//!
//! *Scope*: which version is current; how a version stays readable for a reader; that a root is
//! written only once for the same contents; the layers of an ingest.
//!
//! *Must not depend on*: what a version contains, how a key is found in it, how contents are
//! encoded.
//!
//! Invariants:
//!
//! - **H1** A version is immutable. Its data stays readable as long as any guard exists that was
//!   pinned before the next version was published.
//! - **H2** Version numbers are consecutive. A version's cut is never less than that of the
//!   previous version.

mod ingest;
mod layer_merge;
mod layers;
mod reader;
mod root;

pub use ingest::{LayerIngest, LayerTarget};
pub use layer_merge::{LayerGroup, LayerMerge, MergedLayers};
pub use layers::{IngestLayers, LayerWriter};
pub use reader::{VersionReader, VersionSearch};
pub use root::{RootWriter, read_root};

use alluvium_base::SequenceNumber;
use arc_swap::ArcSwap;
use std::fmt;
use std::sync::Arc;

/// Identifies a version of a structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionStamp {
    /// The version number, which is the number of earlier versions.
    pub number: u64,
    /// How many times the contents have changed up to this version.
    pub contents: u64,
    /// The version's cut: it contains every commit up to this one and none after it.
    pub cut: SequenceNumber,
}

impl VersionStamp {
    /// Returns the stamp of the first version, which contains every commit up to `cut`.
    #[must_use]
    pub fn first(cut: SequenceNumber) -> VersionStamp {
        VersionStamp {
            cut,
            ..VersionStamp::default()
        }
    }

    /// Returns the stamp of the next version if it has different contents.
    #[must_use]
    pub fn changed(self, cut: SequenceNumber) -> VersionStamp {
        VersionStamp {
            contents: self.contents + 1,
            ..self.advanced(cut)
        }
    }

    /// Returns the stamp of the next version if it has the same contents.
    ///
    /// # Panics
    /// If `cut` is less than the cut of this version.
    #[must_use]
    pub fn advanced(self, cut: SequenceNumber) -> VersionStamp {
        assert!(cut >= self.cut, "a structure does not forget commits (H2)");
        VersionStamp {
            number: self.number + 1,
            contents: self.contents,
            cut,
        }
    }
}

/// An immutable version of a structure (H1).
pub trait StructureVersion: Send + Sync {
    /// Returns the stamp of this version.
    fn stamp(&self) -> &VersionStamp;
}

/// A version borrowed for a short time, without touching a shared reference count.
pub type VersionGuard<V> = arc_swap::Guard<Arc<V>>;

/// Holds the current version of a structure. Readers load it without a lock. Writers must be
/// serialised by a lock of the structure.
pub struct VersionCell<V> {
    current: ArcSwap<V>,
}

impl<V: StructureVersion> fmt::Debug for VersionCell<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Versioned").field(self.peek().stamp()).finish()
    }
}

impl<V: StructureVersion> VersionCell<V> {
    /// Creates the container with a first version.
    #[must_use]
    pub fn new(version: V) -> VersionCell<V> {
        VersionCell {
            current: ArcSwap::from_pointee(version),
        }
    }

    /// Borrows the current version for a short time, such as during one call.
    #[inline]
    pub fn peek(&self) -> VersionGuard<V> {
        self.current.load()
    }

    /// Returns the current version for as long as the caller needs it.
    #[inline]
    pub fn load(&self) -> Arc<V> {
        self.current.load_full()
    }

    /// Returns the sequence number of the last commit in the current version.
    #[inline]
    pub fn cut(&self) -> SequenceNumber {
        self.peek().stamp().cut
    }

    /// Makes `version` the current version.
    ///
    /// # Panics
    /// If `version` does not follow the current version (H2).
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

    impl StructureVersion for VersionStamp {
        fn stamp(&self) -> &VersionStamp {
            self
        }
    }

    #[test]
    fn a_version_stays_as_it_is_while_others_follow() {
        let versioned = VersionCell::new(VersionStamp::first(7));
        let first = versioned.load();
        versioned.publish(first.advanced(9));
        versioned.publish(versioned.peek().changed(9));
        assert_eq!(*first, VersionStamp::first(7));
        let now = VersionStamp {
            number: 2,
            contents: 1,
            cut: 9,
        };
        assert_eq!((*versioned.load(), versioned.cut()), (now, 9));
    }

    #[test]
    #[should_panic(expected = "a version follows the current one (H2)")]
    fn a_version_that_was_overtaken_is_refused() {
        let versioned = VersionCell::new(VersionStamp::first(0));
        let next = versioned.peek().changed(1);
        versioned.publish(next);
        versioned.publish(next);
    }
}
