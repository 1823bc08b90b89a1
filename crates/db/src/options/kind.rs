//! The kinds of structures that a store can contain, and the numbers that identify them in the
//! catalog and in the manifest.

use crate::error::{Error, Result};

/// Number that identifies a dictionary within its store.
pub(crate) type DictionaryId = u32;

/// The number of a dictionary is that of its structure's first dictionary, plus this for each
/// further one.
pub(crate) const APART: DictionaryId = 256;

/// Which dictionary of a store: its structure, and its number among the dictionaries with this
/// structure. Only levels and hashed structures have more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DictionaryPlace {
    pub(crate) structure: StructureKind,
    pub(crate) number: u8,
}

impl DictionaryPlace {
    /// The tree.
    pub(crate) const TREE: DictionaryPlace = DictionaryPlace::first(StructureKind::Tiered);
    /// The in-place pages.
    pub(crate) const PAGES: DictionaryPlace = DictionaryPlace::first(StructureKind::Paged);

    /// Returns the first dictionary with this structure.
    pub(crate) const fn first(structure: StructureKind) -> DictionaryPlace {
        DictionaryPlace { structure, number: 0 }
    }

    /// Returns the number that identifies the dictionary within its store.
    pub(crate) fn id(self) -> DictionaryId {
        self.structure.dictionary() + APART * DictionaryId::from(self.number)
    }

    /// Returns the dictionary with this number. Returns `None` if this version does not support the
    /// structure, or if a store has only one dictionary with it.
    pub(crate) fn of(id: DictionaryId) -> Option<DictionaryPlace> {
        let structure = StructureKind::of_dictionary(id % APART)?;
        let number = u8::try_from(id / APART).ok()?;
        let exists = number == 0 || structure.has_several();
        exists.then_some(DictionaryPlace { structure, number })
    }
}

/// The kind of a structure.
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

    /// Returns whether a store may have several dictionaries of this kind, one for each set of
    /// options.
    pub(crate) fn has_several(self) -> bool {
        matches!(self, StructureKind::Levels | StructureKind::Hashed)
    }

    /// Returns the number of this kind's first dictionary within a store.
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

    /// Returns the kind whose first dictionary has this number, or `None` if this version does not
    /// support it.
    fn of_dictionary(id: DictionaryId) -> Option<StructureKind> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_which_dictionary_it_is() {
        for structure in StructureKind::ALL {
            for number in [0, 1, 7, u8::MAX] {
                let place = DictionaryPlace { structure, number };
                let exists = number == 0 || structure.has_several();
                assert_eq!(DictionaryPlace::of(place.id()), exists.then_some(place));
            }
        }
        let ids = [StructureKind::Levels, StructureKind::Hashed].map(|structure| {
            let all = [0, 1].map(|number| DictionaryPlace { structure, number });
            all.map(DictionaryPlace::id)
        });
        assert_eq!(ids, [[2, 258], [3, 259]]);
        assert_eq!(DictionaryPlace::of(256), None, "there is one tree");
        assert_eq!(DictionaryPlace::of(2 + (256 << 8)), None);
        assert_eq!(DictionaryPlace::of(99), None);
    }
}
