//! The kinds of structures that a store can contain, with their numbers in the catalog and in the
//! manifest.

use crate::error::{Error, Result};

/// Number of a dictionary in its store.
pub(crate) type DictionaryId = u32;

/// Kind of a structure. A store has at most one dictionary of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum StructureKind {
    /// The tiered tree. Every store has one: dictionary 0 of its manifest, which also stores the
    /// catalog.
    Tiered,
    /// The ordered map in memory, a reference implementation that no option chooses.
    Map,
    Levels,
    /// The hashed structure, without key order.
    Hashed,
    /// Pages that are updated in place.
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

/// Properties of every structure, by dictionary number.
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

/// Returns the properties of a persistent, ordered structure.
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
    /// All structures that this version supports, by dictionary number.
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

    /// Returns the number of the kind.
    pub(crate) fn kind(self) -> u8 {
        self.facts().kind
    }

    /// Returns the number of the dictionary.
    pub(crate) fn dictionary(self) -> DictionaryId {
        self.facts().dictionary
    }

    /// Returns the name in options.
    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns whether keys are ordered.
    pub(crate) fn is_ordered(self) -> bool {
        self.facts().is_ordered
    }

    /// Returns the structure with a name in options.
    pub(crate) fn named(name: &str) -> Option<StructureKind> {
        StructureKind::ALL
            .into_iter()
            .find(|structure| structure.name() == name)
    }

    /// Returns the structure of a kind; `None` if this version does not support it.
    pub(crate) fn of(kind: u8) -> Option<StructureKind> {
        StructureKind::ALL
            .into_iter()
            .find(|structure| structure.kind() == kind)
    }

    /// Returns the structure with a dictionary number; `None` if this version does not support it.
    pub(crate) fn of_dictionary(id: DictionaryId) -> Option<StructureKind> {
        StructureKind::ALL
            .into_iter()
            .find(|structure| structure.dictionary() == id)
    }

    /// Returns the structure of a keyspace; fails if this version does not support it.
    pub(crate) fn of_keyspace(kind: u8, keyspace: &str) -> Result<StructureKind> {
        StructureKind::of(kind).ok_or_else(|| Error::UnknownStructure {
            keyspace: keyspace.to_owned(),
            kind,
        })
    }
}
