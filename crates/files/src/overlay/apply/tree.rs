//! What the names of a committed overlay refer to, and what they referred to in the lower.

use crate::error::Result;
use crate::overlay::format::{
    Dependency, InodeRecord, LowerIdentity, NameMarker, decode_marker, decode_number_name,
};
use crate::overlay::resolve::EntryStream;
use crate::overlay::upper::UpperStore;
use crate::types::{FileKind, Inode};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A directory and a name in it.
pub(in crate::overlay) type NamePlace = (Inode, Vec<u8>);

/// All changed names and inodes of an overlay.
pub(in crate::overlay) struct FinalTree {
    /// The markers of all directories that exist in the view.
    pub(in crate::overlay) markers: BTreeMap<NamePlace, NameMarker>,
    /// The records of all changed inodes.
    pub(in crate::overlay) records: BTreeMap<Inode, InodeRecord>,
    /// What the names that have markers refer to in the lower.
    pub(in crate::overlay) base: HashMap<NamePlace, Option<LowerIdentity>>,
    /// Where the directories of the lower that were seen lie in the lower.
    pub(super) origins: HashMap<Inode, NamePlace>,
    /// Where the markers put directories.
    pub(super) places: HashMap<Inode, NamePlace>,
    /// The names that markers give to other inodes.
    marked_names: HashMap<Inode, Vec<NamePlace>>,
    /// The names of changed and moved inodes in the lower, as far as they were looked up.
    pub(super) lower_names: HashMap<Inode, Vec<NamePlace>>,
    removed: HashSet<Inode>,
}

impl FinalTree {
    pub(in crate::overlay) fn read(upper: &UpperStore) -> Result<FinalTree> {
        let mut tree = FinalTree {
            markers: BTreeMap::new(),
            records: BTreeMap::new(),
            base: HashMap::new(),
            origins: HashMap::new(),
            places: HashMap::new(),
            marked_names: HashMap::new(),
            lower_names: HashMap::new(),
            removed: HashSet::new(),
        };
        tree.read_records(upper)?;
        tree.read_markers(upper)?;
        tree.read_dependencies(upper)?;
        Ok(tree)
    }

    fn read_records(&mut self, upper: &UpperStore) -> Result<()> {
        for folder in [upper.directories, upper.contents] {
            let mut stream = EntryStream::new(Some((&*upper.files, folder)), None);
            while stream.peek()?.is_some() {
                let Some(entry) = stream.next() else { break };
                let inode = decode_number_name(&entry.name)?;
                // Without a record, an interrupted operation has left it.
                let Some(changed) = upper.changed(inode)? else {
                    continue;
                };
                if changed.record.is_removed {
                    self.removed.insert(inode);
                }
                self.records.insert(inode, changed.record);
            }
        }
        Ok(())
    }

    fn read_markers(&mut self, upper: &UpperStore) -> Result<()> {
        let exists = |record: &InodeRecord| record.kind == FileKind::Directory && !record.is_removed;
        for (directory, _) in self.records.iter().filter(|(_, record)| exists(record)) {
            let Some(changed) = upper.changed(*directory)? else {
                continue;
            };
            let mut stream = EntryStream::new(Some((&*upper.files, changed.upper)), None);
            while stream.peek()?.is_some() {
                let Some(entry) = stream.next() else { break };
                let marker = decode_marker(&upper.files.read_link(entry.inode)?)?;
                let place = (*directory, entry.name);
                match marker {
                    NameMarker::Absent => {}
                    NameMarker::Present(inode, FileKind::Directory) => {
                        self.places.insert(inode, place.clone());
                    }
                    NameMarker::Present(inode, _) => {
                        self.marked_names.entry(inode).or_default().push(place.clone());
                    }
                }
                self.markers.insert(place, marker);
            }
        }
        Ok(())
    }

    /// The first dependency on a name tells what it was when the transaction began to use it.
    fn read_dependencies(&mut self, upper: &UpperStore) -> Result<()> {
        upper.each_dependency(|dependency| {
            let Dependency::Name {
                directory,
                name,
                found,
            } = dependency
            else {
                return Ok(());
            };
            if name.is_empty() {
                return Ok(());
            }
            let place = (directory, name);
            if self.markers.contains_key(&place) {
                self.base.entry(place.clone()).or_insert(found);
            }
            let Some(found) = found else { return Ok(()) };
            if found.kind == FileKind::Directory {
                self.origins.entry(found.inode).or_insert(place);
            } else if self.records.contains_key(&found.inode) || self.marked_names.contains_key(&found.inode)
            {
                let names = self.lower_names.entry(found.inode).or_default();
                if !names.contains(&place) {
                    names.push(place);
                }
            }
            Ok(())
        })
    }

    /// Returns what a name that has a marker refers to in the lower.
    pub(super) fn base_of(&self, place: &NamePlace) -> Option<LowerIdentity> {
        self.base.get(place).copied().flatten()
    }

    /// Returns the names of an inode in the view, as far as they are known.
    pub(in crate::overlay) fn names_of(&self, inode: Inode) -> Vec<NamePlace> {
        if let Some(place) = self.place_of(inode) {
            return vec![place.clone()];
        }
        let mut names = self.marked_names.get(&inode).cloned().unwrap_or_default();
        let unmarked =
            |place: &&NamePlace| !self.markers.contains_key(*place) && !self.removed.contains(&place.0);
        names.extend(
            self.lower_names
                .get(&inode)
                .into_iter()
                .flatten()
                .filter(unmarked)
                .cloned(),
        );
        names
    }

    /// Returns the names that markers give to an inode that is no directory.
    pub(super) fn marked_names_of(&self, inode: Inode) -> &[NamePlace] {
        self.marked_names.get(&inode).map_or(&[], Vec::as_slice)
    }

    /// Returns the inodes that are no directories and to which markers refer, in order.
    pub(super) fn marked_inodes(&self) -> Vec<Inode> {
        let mut inodes: Vec<Inode> = self.marked_names.keys().copied().collect();
        inodes.sort_unstable();
        inodes
    }

    /// Returns where a directory lies in the view.
    pub(super) fn place_of(&self, directory: Inode) -> Option<&NamePlace> {
        self.places
            .get(&directory)
            .or_else(|| self.origins.get(&directory))
    }

    /// Returns how many directories lie above a name.
    pub(super) fn depth(&self, place: &NamePlace) -> usize {
        let mut depth = 0;
        let mut at = place.0;
        while let Some((parent, _)) = self.place_of(at) {
            depth += 1;
            at = *parent;
        }
        depth
    }

    pub(in crate::overlay) fn path(&self, directory: Inode, name: &[u8]) -> Vec<u8> {
        let mut parts = vec![name];
        let mut at = directory;
        while let Some((parent, name)) = self.place_of(at) {
            parts.push(name);
            at = *parent;
        }
        parts.reverse();
        parts.join(&b'/')
    }
}
