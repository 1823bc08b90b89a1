//! Structures that change by publishing immutable versions.
//!
//! *Scope*: which version is current, how it stays readable for a reader, how a root is written
//! once per content, the layers of an ingest.
//!
//! *Must not depend on*: the contents of a version, how a key is found in it, how contents are
//! encoded.
//!
//! Invariants:
//!
//! - **H1** A version is immutable. Data that it refers to stays readable while a guard is alive
//!   that was pinned before the next version was published.
//! - **H2** Version numbers are consecutive. Their cuts do not decrease.

mod ingest;
mod layers;
mod reader;
mod root;

pub use ingest::{LayerIngest, LayerTarget};
pub use layers::{IngestLayers, LayerWriter};
pub use reader::{VersionReader, VersionSearch};
pub use root::{RootWriter, read_root};

use alluvium_base::SequenceNumber;
use arc_swap::ArcSwap;
use std::fmt;
use std::sync::Arc;

/// Identification of a version of a structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionStamp {
    /// Number of versions before this one.
    pub number: u64,
    /// Number of changes of the contents before this version.
    pub contents: u64,
    /// The version contains every commit up to this one and none after it.
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

    /// Returns the stamp of the next version, with changed contents.
    #[must_use]
    pub fn changed(self, cut: SequenceNumber) -> VersionStamp {
        VersionStamp {
            contents: self.contents + 1,
            ..self.advanced(cut)
        }
    }

    /// Returns the stamp of the next version, with the same contents.
    ///
    /// # Panics
    /// If `cut` is less than that of this version.
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

/// An immutable state of a structure (H1).
pub trait StructureVersion: Send + Sync {
    /// Returns the stamp of this version.
    fn stamp(&self) -> &VersionStamp;
}

/// A version that is borrowed for a short time, without touching a shared reference count.
pub type VersionGuard<V> = arc_swap::Guard<Arc<V>>;

/// The current version of a structure. Readers load it without a lock. Writers must be serialised
/// by a lock in their structure.
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

    /// Borrows the current version for the duration of a call.
    #[inline]
    pub fn peek(&self) -> VersionGuard<V> {
        self.current.load()
    }

    /// Returns the current version, to be kept for any time.
    #[inline]
    pub fn load(&self) -> Arc<V> {
        self.current.load_full()
    }

    /// Returns the last commit in the current version.
    #[inline]
    pub fn cut(&self) -> SequenceNumber {
        self.peek().stamp().cut
    }

    /// Publishes `version` as the current one.
    ///
    /// # Panics
    /// If it does not follow the current version (H2).
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
