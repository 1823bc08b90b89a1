//! The kinds of structures that a store can contain, and the numbers that identify them in the
//! catalog and in the manifest.

use crate::error::{Error, Result};

/// Number that identifies a dictionary within its store.
pub(crate) type DictionaryId = u32;

/// The kind of a structure. A store has at most one dictionary of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum StructureKind {
    /// The tiered tree. Every store has one, as dictionary 0 of the manifest. It also stores the
    /// catalog.
    Tiered,
    /// An ordered map in memory. This reference implementation is for tests; no option selects it.
    Map,
    Levels,
    /// The hashed structure, whose keys have no order.
    Hashed,
    /// A tree whose pages are updated in place.
    Paged,
    /// An ordered map in memory that is neither logged nor checkpointed.
    Volatile,
}

/// Constant properties of a kind of structure.
struct StructureFacts {
    structure: StructureKind,
    kind: u8,
    dictionary: DictionaryId,
    /// Whether the contents survive closing the store.
    lasts: bool,
    is_ordered: bool,
    name: &'static str,
}

/// The properties of all structures, in the order of their dictionary numbers.
const FACTS: [StructureFacts; 6] = [
    StructureFacts {
        name: "tiered",
        ..of_kind(StructureKind::Tiered, 1, 0)
    },
    StructureFacts {
        name: "map",
        ..of_kind(StructureKind::Map, 250, 1)
    },
    StructureFacts {
        name: "levels",
        ..of_kind(StructureKind::Levels, 2, 2)
    },
    StructureFacts {
        name: "hashed",
        is_ordered: false,
        ..of_kind(StructureKind::Hashed, 3, 3)
    },
    StructureFacts {
        name: "paged",
        ..of_kind(StructureKind::Paged, 4, 4)
    },
    StructureFacts {
        name: "volatile",
        lasts: false,
        ..of_kind(StructureKind::Volatile, 8, 8)
    },
];

/// Returns the properties of a persistent and ordered structure, which most structures are.
const fn of_kind(structure: StructureKind, kind: u8, dictionary: DictionaryId) -> StructureFacts {
    StructureFacts {
        structure,
        kind,
        dictionary,
        lasts: true,
        is_ordered: true,
        name: "",
    }
}

impl StructureKind {
    /// All structures that this version supports, in the order of their dictionary numbers.
    pub(crate) const ALL: [StructureKind; FACTS.len()] = {
        let mut all = [StructureKind::Tiered; FACTS.len()];
        let mut place = 0;
        while place < all.len() {
            all[place] = FACTS[place].structure;
            assert!(
                all[place] as usize == place,
                "facts are found by the place of the structure"
            );
            place += 1;
        }
        all
    };

    fn facts(self) -> &'static StructureFacts {
        static ALL: [StructureFacts; FACTS.len()] = FACTS;
        &ALL[self as usize]
    }

    /// Returns whether the contents survive closing the store.
    pub(crate) fn lasts(self) -> bool {
        self.facts().lasts
    }

    /// Returns the number that identifies this kind in the catalog.
    pub(crate) fn kind(self) -> u8 {
        self.facts().kind
    }

    /// Returns the number of this kind's dictionary within a store.
    pub(crate) fn dictionary(self) -> DictionaryId {
        self.facts().dictionary
    }

    /// Returns the name of this kind in options.
    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns whether the structure stores its keys in order.
    pub(crate) fn is_ordered(self) -> bool {
        self.facts().is_ordered
    }

    /// Returns the kind with this name in options, or `None` if there is none.
    pub(crate) fn named(name: &str) -> Option<StructureKind> {
        StructureKind::ALL
            .into_iter()
            .find(|structure| structure.name() == name)
    }

    /// Returns the kind with this number in the catalog, or `None` if this version does not support
    /// it.
    pub(crate) fn of(kind: u8) -> Option<StructureKind> {
        StructureKind::ALL
            .into_iter()
            .find(|structure| structure.kind() == kind)
    }

    /// Returns the kind with this dictionary number, or `None` if this version does not support it.
    pub(crate) fn of_dictionary(id: DictionaryId) -> Option<StructureKind> {
        StructureKind::ALL
            .into_iter()
            .find(|structure| structure.dictionary() == id)
    }

    /// Returns the kind that the catalog records for a keyspace, or an error if this version does
    /// not support it.
    pub(crate) fn of_keyspace(kind: u8, keyspace: &str) -> Result<StructureKind> {
        StructureKind::of(kind).ok_or_else(|| Error::UnknownStructure {
            keyspace: keyspace.to_owned(),
            kind,
        })
    }
}
