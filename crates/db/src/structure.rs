//! The kinds of structures that a store may have, by the numbers that stand in the catalog and in
//! the manifest.

use crate::keyspace_options::KeyspaceOptions;
use crate::{Error, Result, levels_options};

/// The number of a dictionary in its store.
pub(crate) type DictionaryId = u32;

/// A kind of structure. A store has at most one dictionary of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Structure {
    /// The tiered tree. Every store has one: dictionary 0 of its manifest, which also keeps the
    /// catalog.
    Tiered,
    /// Levels of runs.
    Levels,
    /// SILT's stores, without order of keys.
    Hashed,
    /// Pages that are written in place.
    Paged,
    /// An ordered map in memory of which nothing is logged or checkpointed.
    Volatile,
    /// The ordered map in memory. No option chooses it: it proves what a structure must do.
    Map,
}

impl Structure {
    /// All that this version knows.
    pub(crate) const ALL: [Structure; 6] = [
        Structure::Tiered,
        Structure::Levels,
        Structure::Hashed,
        Structure::Paged,
        Structure::Volatile,
        Structure::Map,
    ];

    /// Whether what is in it outlives the store's being open.
    pub(crate) fn lasts(self) -> bool {
        self != Structure::Volatile
    }

    /// The number of its kind.
    pub(crate) fn kind(self) -> u8 {
        match self {
            Structure::Tiered => 1,
            Structure::Levels => 2,
            Structure::Hashed => 3,
            Structure::Volatile => 8,
            Structure::Paged => 4,
            Structure::Map => 250,
        }
    }

    /// The number of its dictionary.
    pub(crate) fn dictionary(self) -> DictionaryId {
        match self {
            Structure::Tiered => 0,
            Structure::Map => 1,
            Structure::Levels => 2,
            Structure::Hashed => 3,
            Structure::Volatile => 8,
            Structure::Paged => 4,
        }
    }

    /// The structure that a keyspace with these options is in.
    pub(crate) fn chosen(options: &KeyspaceOptions) -> Structure {
        match options.structure {
            levels_options::Structure::Tiered => Structure::Tiered,
            levels_options::Structure::Levels(_) => Structure::Levels,
            levels_options::Structure::Hashed(_) => Structure::Hashed,
            levels_options::Structure::Volatile(_) => Structure::Volatile,
            levels_options::Structure::Paged(_) => Structure::Paged,
        }
    }

    /// Whether its keys have an order that walks can follow.
    pub(crate) fn is_ordered(self) -> bool {
        self != Structure::Hashed
    }

    /// The structure of a kind; none if this version does not know it.
    pub(crate) fn of(kind: u8) -> Option<Structure> {
        Structure::ALL
            .into_iter()
            .find(|structure| structure.kind() == kind)
    }

    /// The structure that keeps a keyspace.
    pub(crate) fn of_keyspace(kind: u8, keyspace: &str) -> Result<Structure> {
        Structure::of(kind).ok_or_else(|| Error::UnknownStructure {
            keyspace: keyspace.to_owned(),
            kind,
        })
    }
}
