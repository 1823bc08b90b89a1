//! The kinds of structures that a store may have, by the numbers that stand in the catalog and in
//! the manifest.

use crate::{Error, Result};

/// The number of a dictionary in its store.
pub(crate) type DictionaryId = u32;

/// A kind of structure. A store has at most one dictionary of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Structure {
    /// The tiered tree. Every store has one: dictionary 0 of its manifest, which also keeps the
    /// catalog.
    Tiered,
    /// The ordered map in memory. No option chooses it: it proves what a structure must do.
    Map,
    /// Levels of runs.
    Levels,
    /// SILT's stores, without order of keys.
    Hashed,
    /// Pages that are written in place.
    Paged,
    /// An ordered map in memory of which nothing is logged or checkpointed.
    Volatile,
}

/// What never changes of a kind of structure.
struct Facts {
    structure: Structure,
    /// The number of its kind.
    kind: u8,
    /// The number of its dictionary.
    dictionary: DictionaryId,
    /// Whether what is in it outlives the store's being open.
    lasts: bool,
    /// Whether its keys have an order that walks can follow.
    is_ordered: bool,
    /// What it is called in options.
    name: &'static str,
}

/// The facts of every structure, by the numbers of their dictionaries.
const FACTS: [Facts; 6] = [
    Facts {
        name: "tiered",
        ..of_kind(Structure::Tiered, 1, 0)
    },
    Facts {
        name: "map",
        ..of_kind(Structure::Map, 250, 1)
    },
    Facts {
        name: "levels",
        ..of_kind(Structure::Levels, 2, 2)
    },
    Facts {
        name: "hashed",
        is_ordered: false,
        ..of_kind(Structure::Hashed, 3, 3)
    },
    Facts {
        name: "paged",
        ..of_kind(Structure::Paged, 4, 4)
    },
    Facts {
        name: "volatile",
        lasts: false,
        ..of_kind(Structure::Volatile, 8, 8)
    },
];

/// The facts of a structure that lasts, and whose keys have an order.
const fn of_kind(structure: Structure, kind: u8, dictionary: DictionaryId) -> Facts {
    Facts {
        structure,
        kind,
        dictionary,
        lasts: true,
        is_ordered: true,
        name: "",
    }
}

impl Structure {
    /// All that this version knows, by the numbers of their dictionaries.
    pub(crate) const ALL: [Structure; FACTS.len()] = {
        let mut all = [Structure::Tiered; FACTS.len()];
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

    fn facts(self) -> &'static Facts {
        static ALL: [Facts; FACTS.len()] = FACTS;
        &ALL[self as usize]
    }

    /// Whether what is in it outlives the store's being open.
    pub(crate) fn lasts(self) -> bool {
        self.facts().lasts
    }

    /// The number of its kind.
    pub(crate) fn kind(self) -> u8 {
        self.facts().kind
    }

    /// The number of its dictionary.
    pub(crate) fn dictionary(self) -> DictionaryId {
        self.facts().dictionary
    }

    /// What it is called in options.
    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }

    /// Whether its keys have an order that walks can follow.
    pub(crate) fn is_ordered(self) -> bool {
        self.facts().is_ordered
    }

    /// The structure that options call by a name; none if there is none.
    pub(crate) fn named(name: &str) -> Option<Structure> {
        Structure::ALL
            .into_iter()
            .find(|structure| structure.name() == name)
    }

    /// The structure of a kind; none if this version does not know it.
    pub(crate) fn of(kind: u8) -> Option<Structure> {
        Structure::ALL
            .into_iter()
            .find(|structure| structure.kind() == kind)
    }

    /// The structure that is dictionary `id` of every store; none if this version knows none.
    pub(crate) fn of_dictionary(id: DictionaryId) -> Option<Structure> {
        Structure::ALL
            .into_iter()
            .find(|structure| structure.dictionary() == id)
    }

    /// The structure that keeps a keyspace.
    pub(crate) fn of_keyspace(kind: u8, keyspace: &str) -> Result<Structure> {
        Structure::of(kind).ok_or_else(|| Error::UnknownStructure {
            keyspace: keyspace.to_owned(),
            kind,
        })
    }
}
