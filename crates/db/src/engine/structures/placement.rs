//! Maps keyspaces to dictionaries.

use super::DictionarySet;
use super::open::corrupt;
use super::table::{DictionaryTable, MOST_LISTED};
use super::volatile::VolatileMap;
use crate::engine::readers::StructureRef;
use crate::error::{Error, Result};
use crate::options::kind::{DictionaryPlace, StructureKind};
use crate::options::{HashedOptions, LevelsOptions, PagedOptions, Structure};
use crate::schema::catalog::KeyspaceDefinition;
use crate::schema::format::{self, KeyspaceId};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::range::KeyRange;
use alluvium_hashes::hashed::{self, HashedStructure};
use alluvium_trees::levels::LevelsDictionary;
use alluvium_trees::map::OrderedMap;
use alluvium_trees::paged::PagedDictionary;
use std::sync::Arc;

impl DictionarySet {
    /// Fails unless the manifest places a keyspace of the durable generation in a dictionary of its
    /// structure, with its options.
    pub(in crate::engine) fn require_placed(
        &self,
        keyspace: KeyspaceId,
        structure: StructureKind,
        options: &Structure,
    ) -> Result<()> {
        let of_manifest = self.placed.read().get(&keyspace).copied();
        let listed = of_manifest.unwrap_or(DictionaryPlace::TREE);
        if listed.structure != structure {
            let expected = format!("keyspace {keyspace} in a dictionary of kind {}", structure.kind());
            return corrupt(expected, format!("in dictionary {}", listed.id()));
        }
        // Tests may place a keyspace in another structure than its options name. A dictionary that
        // was lost to damage is created again.
        let told = Some(options).filter(|options| options.kind() == structure);
        let has = self.options_of(listed);
        match told.zip(has).filter(|(told, has)| *told != has) {
            None => Ok(()),
            Some((told, has)) => corrupt(
                format!("keyspace {keyspace} in a dictionary with the options {told}"),
                format!("in dictionary {}, with the options {has}", listed.id()),
            ),
        }
    }

    /// Returns the options of levels or of a hashed structure. Returns `None` for another
    /// structure, and if the store does not have the dictionary.
    pub(crate) fn options_of(&self, place: DictionaryPlace) -> Option<Structure> {
        match self.get(place)? {
            StructureRef::Levels(levels) => {
                let has = levels.options();
                let options = LevelsOptions::of_tree(has.policy.clone(), &has.stitching);
                Some(Structure::Levels(options))
            }
            StructureRef::Hashed(hashed) => {
                let has = hashed.options();
                Some(Structure::Hashed(HashedOptions::of_hashes(has.form, has.index)))
            }
            _ => None,
        }
    }

    /// Places a keyspace in the dictionary with its structure and options, creating that dictionary
    /// if it does not exist. Must be called before anything is written to the keyspace.
    pub(crate) fn place(&self, definition: &KeyspaceDefinition) -> Result<()> {
        let _publishing = self.publishing.lock();
        // A new dictionary contains all commits up to `cut`, because none of them writes to its
        // keys.
        let cut = self.tree.cut();
        let mut place = DictionaryPlace::first(definition.structure);
        match definition.structure {
            StructureKind::Tiered => {}
            StructureKind::Levels => place.number = self.place_in_levels(definition, cut)?,
            StructureKind::Hashed => place.number = self.place_hashed(definition, cut)?,
            StructureKind::Volatile => self.place_volatile(definition, cut)?,
            StructureKind::Paged => self.place_in_pages(definition, cut)?,
            StructureKind::Map => {
                self.map
                    .get_or_init(|| OrderedMap::create(self.home.clone(), cut));
            }
        }
        self.note_placed(definition.id);
        definition.set_dictionary(place);
        match place == DictionaryPlace::TREE {
            true => self.placed.write().remove(&definition.id),
            false => self.placed.write().insert(definition.id, place),
        };
        Ok(())
    }

    /// Returns the number of the levels with the keyspace's options, which are created for the
    /// first such keyspace.
    fn place_in_levels(&self, definition: &KeyspaceDefinition, cut: SequenceNumber) -> Result<u8> {
        let asked = definition.options.structure.levels();
        let structure = Structure::Levels(asked.clone());
        self.find_or_add(&self.levels, &structure, || {
            let options = self.levels_options.clone().with_policy(asked.policy.clone());
            let options = options.with_stitching(asked.stitching());
            Ok(LevelsDictionary::create(self.home.clone(), options, cut)?)
        })
    }

    /// Returns the number of the hashed structure with the keyspace's options, which is created for
    /// the first such keyspace.
    fn place_hashed(&self, definition: &KeyspaceDefinition, cut: SequenceNumber) -> Result<u8> {
        let asked = definition.options.structure.hashed();
        let structure = Structure::Hashed(asked.clone());
        self.find_or_add(&self.hashed, &structure, || {
            // The store's identifier, which was chosen at random when the store was created, serves
            // as the seed.
            let store = self.home.store.superblock().store;
            let options = hashed::HashedOptions {
                form: asked.form.inner(),
                seed: (store ^ (store >> 64)) as u64,
                index: asked.index,
                ..self.hashed_options.clone()
            };
            Ok(HashedStructure::create(self.home.clone(), options, cut)?)
        })
    }

    /// Fails if a new keyspace with this structure would need one more dictionary than a store may
    /// have. A recovered keyspace never does, because it was admitted before.
    pub(crate) fn admit(&self, options: &Structure) -> Result<()> {
        let structure = options.kind();
        if !structure.has_several() || self.find(options).is_some() {
            return Ok(());
        }
        let listed = self
            .places(structure)
            .filter(|&place| self.get(place).is_some() && self.is_listed(place));
        if listed.count() < MOST_LISTED {
            return Ok(());
        }
        Err(Error::BadOption {
            option: "structure",
            why: format!(
                "the store has {MOST_LISTED} sets of options for {}, and {options} would be another one: give the options of an existing keyspace, or drop the keyspaces of a set and compact the store",
                structure.name()
            ),
        })
    }

    /// Returns the dictionary with these options, or `None` if the store does not have it.
    fn find(&self, options: &Structure) -> Option<DictionaryPlace> {
        let has_them = |place: &DictionaryPlace| self.options_of(*place).as_ref() == Some(options);
        self.places(options.kind()).find(has_them)
    }

    /// Returns the number of the dictionary with these options. If there is none, adds the one that
    /// `create` returns. Fails if no number is left.
    fn find_or_add<T>(
        &self,
        table: &DictionaryTable<T>,
        options: &Structure,
        create: impl FnOnce() -> Result<T>,
    ) -> Result<u8> {
        if let Some(place) = self.find(options) {
            return Ok(place.number);
        }
        let Some(number) = table.free_number() else {
            return Err(Error::BadOption {
                option: "structure",
                why: format!(
                    "too many sets of options for {} have been used since the store was opened: close and open the store before you create a keyspace in {options}",
                    options.kind().name()
                ),
            });
        };
        table.set(number, create()?);
        Ok(number)
    }

    /// Places a keyspace in the volatile map, which is created for the first volatile keyspace.
    /// Fails if a later keyspace has a different size limit.
    fn place_volatile(&self, definition: &KeyspaceDefinition, cut: SequenceNumber) -> Result<()> {
        let most = definition.options.structure.volatile().unwrap_or(u64::MAX);
        let made = || VolatileMap {
            map: OrderedMap::create_volatile(self.home.clone(), cut),
            most,
        };
        let has = self.volatile.get_or_init(made).most;
        if has != most {
            return Err(Error::SharedOptionsDiffer {
                keyspace: definition.name(),
                option: "bytes of volatile keyspaces",
                has: has.to_string(),
                asked: most.to_string(),
            });
        }
        Ok(())
    }

    /// Creates the in-place pages for the first keyspace that uses them. Fails if a later keyspace
    /// has different options for pages.
    fn place_in_pages(&self, definition: &KeyspaceDefinition, cut: SequenceNumber) -> Result<()> {
        let asked = definition
            .options
            .structure
            .paged()
            .tree(format::MAX_PREFIX, self.paged_bytes);
        if self.paged.get().is_none() {
            let made = match self.pages_again(cut)? {
                Some(again) => again,
                None => PagedDictionary::create(self.home.clone(), asked, cut)?,
            };
            self.paged.get_or_init(|| made);
        }
        if !self.paged().is_built_as(&asked) {
            let has = PagedOptions::of_tree(&self.paged().options(), format::MAX_PREFIX);
            return Err(Error::SharedOptionsDiffer {
                keyspace: definition.name(),
                option: "options of pages",
                has: has.to_string(),
                asked: definition.options.structure.paged().to_string(),
            });
        }
        Ok(())
    }

    /// Removes the placement of keyspaces for which `is_there` returns false. No memtable may
    /// contain writes to these keyspaces.
    pub(in crate::engine) fn forget_others(&mut self, is_there: impl Fn(KeyspaceId) -> bool) -> Result<()> {
        self.placed.get_mut().retain(|&keyspace, _| is_there(keyspace));
        self.leave_pages()
    }

    /// Returns the key ranges that belong to a dictionary, in ascending order.
    pub(super) fn keys_of(&self, place: DictionaryPlace) -> Arc<[KeyRange]> {
        let placed = self.placed.read();
        let range = |id| KeyRange::new(&format::prefix(id), Some(&format::prefix(id + 1)));
        if place != DictionaryPlace::TREE {
            let own = placed.iter().filter(|(_, of)| **of == place);
            return own.map(|(&id, _)| range(id)).collect();
        }
        let mut low: Box<[u8]> = Box::default();
        let mut keys = Vec::new();
        for &id in placed.keys() {
            let others = range(id);
            let before = KeyRange::new(&low, Some(&others.low));
            keys.extend(Some(before).filter(|before| !before.is_empty()));
            low = others.high.expect("a keyspace has an end");
        }
        keys.push(KeyRange { low, high: None });
        keys.into()
    }
}
