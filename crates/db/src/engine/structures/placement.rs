//! Maps keyspaces to dictionaries.

use super::DictionarySet;
use super::open::corrupt;
use super::volatile::VolatileMap;
use crate::error::{Error, Result};
use crate::options::kind::StructureKind;
use crate::options::{HashedForm, PagedOptions};
use crate::schema::catalog::KeyspaceDefinition;
use crate::schema::format::{self, KeyspaceId};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::range::KeyRange;
use alluvium_hashes::hashed::{HashedOptions, HashedStructure};
use alluvium_trees::levels::LevelsDictionary;
use alluvium_trees::map::OrderedMap;
use alluvium_trees::paged::PagedDictionary;
use std::sync::Arc;

impl DictionarySet {
    /// Fails unless the manifest places a keyspace of the durable generation in the dictionary of
    /// its structure.
    pub(in crate::engine) fn require_placed(
        &self,
        keyspace: KeyspaceId,
        structure: StructureKind,
    ) -> Result<()> {
        let of_manifest = self.placed.read().get(&keyspace).copied();
        let listed = of_manifest.unwrap_or(StructureKind::Tiered);
        if listed == structure {
            return Ok(());
        }
        let expected = format!(
            "keyspace {keyspace} in dictionary {}, as the catalog says",
            structure.dictionary()
        );
        corrupt(expected, format!("in dictionary {}", listed.dictionary()))
    }

    /// Places a keyspace in the dictionary of its structure, creating that dictionary if it does
    /// not exist. Must be called before anything is written to the keyspace.
    pub(crate) fn place(&self, definition: &KeyspaceDefinition) -> Result<()> {
        let _publishing = self.publishing.lock();
        // A new dictionary contains all commits up to `cut`, because none of them writes to its
        // keys.
        let cut = self.tree.cut();
        match definition.structure {
            StructureKind::Tiered => {
                self.placed.write().remove(&definition.id);
                return Ok(());
            }
            StructureKind::Levels => self.place_in_levels(definition, cut)?,
            StructureKind::Hashed => self.place_hashed(definition, cut)?,
            StructureKind::Volatile => self.place_volatile(definition, cut)?,
            StructureKind::Paged => self.place_in_pages(definition, cut)?,
            StructureKind::Map => {
                self.map
                    .get_or_init(|| OrderedMap::create(self.home.clone(), cut));
            }
        }
        self.placed.write().insert(definition.id, definition.structure);
        Ok(())
    }

    /// Creates the levels for the first keyspace that uses them. Fails if a later keyspace has
    /// different options for levels.
    fn place_in_levels(&self, definition: &KeyspaceDefinition, cut: SequenceNumber) -> Result<()> {
        let asked = definition.options.structure.levels();
        if self.levels.get().is_none() {
            let options = self.levels_options.clone().with_policy(asked.policy.clone());
            let options = options.with_stitching(asked.stitching());
            let made = LevelsDictionary::create(self.home.clone(), options, cut)?;
            self.levels.get_or_init(|| made);
        }
        let has = self.levels().options();
        if (&has.policy, has.stitching) != (&asked.policy, asked.stitching()) {
            return Err(Error::SharedOptionsDiffer {
                keyspace: definition.name(),
                option: "options of levels",
                has: format!("{}{}", has.policy, has.stitching),
                asked: asked.to_string(),
            });
        }
        Ok(())
    }

    /// Creates the hashed structure for the first keyspace that uses it. Fails if a later keyspace
    /// has a different form or index.
    fn place_hashed(&self, definition: &KeyspaceDefinition, cut: SequenceNumber) -> Result<()> {
        let asked = definition.options.structure.hashed();
        if self.hashed.get().is_none() {
            // The store's identifier, which was chosen at random when the store was created, serves
            // as the seed.
            let store = self.home.store.superblock().store;
            let options = HashedOptions {
                form: asked.form.inner(),
                seed: (store ^ (store >> 64)) as u64,
                index: asked.index,
                ..self.hashed_options.clone()
            };
            let made = HashedStructure::create(self.home.clone(), options, cut)?;
            self.hashed.get_or_init(|| made);
        }
        let has = self.hashed().options();
        let differs = |option, has: String, asked: String| {
            Err(Error::SharedOptionsDiffer {
                keyspace: definition.name(),
                option,
                has,
                asked,
            })
        };
        if has.form != asked.form.inner() {
            let has = HashedForm::of(has.form);
            return differs(
                "form of the hashed structure",
                has.to_string(),
                asked.form.to_string(),
            );
        }
        if has.index != asked.index {
            return differs(
                "index of the hashed structure",
                has.index.to_string(),
                asked.index.to_string(),
            );
        }
        Ok(())
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

    /// Returns the key ranges that belong to a structure, in ascending order.
    pub(super) fn keys_of(&self, structure: StructureKind) -> Arc<[KeyRange]> {
        let placed = self.placed.read();
        let range = |id| KeyRange::new(&format::prefix(id), Some(&format::prefix(id + 1)));
        if structure != StructureKind::Tiered {
            let own = placed.iter().filter(|(_, of)| **of == structure);
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
