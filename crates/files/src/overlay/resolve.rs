//! What the view shows: names, attributes and listings, and what the transaction depends on.

use super::Overlay;
use super::format::{Dependency, LowerIdentity, NameMarker, append_entry};
use super::upper::{ChangedInode, ENTRIES_AT_ONCE, absent_as_none, place_of};
use crate::contract::FileSystem;
use crate::error::{Error, ErrorKind, Result};
use crate::records::format;
use crate::types::{Attributes, DirectoryEntry, FileKind, Inode};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};

/// Listed entries whose attributes can be asked for without looking up their name first.
const MOST_LISTED: usize = 1 << 20;

/// What was read from the lower, so that each dependency is noted once.
#[derive(Default)]
pub(super) struct DependencyIndex {
    noted: Mutex<NotedDependencies>,
    /// Where entries were listed that have not been looked up yet.
    listed: Mutex<HashMap<Inode, (Inode, Vec<u8>)>>,
}

#[derive(Default)]
struct NotedDependencies {
    /// Checksums of directory and name.
    names: HashSet<u64>,
    inodes: HashSet<Inode>,
    listings: HashSet<Inode>,
}

/// Returns a number that no other name of any directory has. The directory is part of what is
/// summed: as a seed, it would only be added to a short name, and neighbours would have the same.
fn checksum_of_name(directory: Inode, name: &[u8]) -> u64 {
    alluvium_base::checksum::seeded_parts(0, [&format::inode_key(directory), name])
}

impl Overlay {
    /// Reads which dependencies are noted already.
    pub(super) fn load_dependencies(&self) -> Result<()> {
        let mut noted = self.dependencies.noted.lock();
        self.upper.each_dependency(|dependency| {
            match dependency {
                Dependency::Name {
                    directory,
                    name,
                    found,
                } => {
                    noted.names.insert(checksum_of_name(directory, &name));
                    noted.inodes.extend(found.map(|found| found.inode));
                }
                Dependency::Listing { directory, .. } => {
                    noted.listings.insert(directory);
                }
            }
            Ok(())
        })
    }

    /// Looks a name up in the lower, and notes that the transaction depends on it.
    pub(super) fn look_below(&self, directory: Inode, name: &[u8]) -> Result<Option<Attributes>> {
        if self.is_stage(directory, name) {
            return Ok(None);
        }
        let found = self.on_lower(directory, |lower| absent_as_none(lower.lookup(directory, name)))?;
        let checksum = checksum_of_name(directory, name);
        let mut noted = self.dependencies.noted.lock();
        if noted.names.contains(&checksum) {
            return Ok(found);
        }
        self.upper.add_dependency(&Dependency::Name {
            directory,
            name: name.to_vec(),
            found: found.as_ref().map(LowerIdentity::of),
        })?;
        noted.names.insert(checksum);
        noted.inodes.extend(found.as_ref().map(|found| found.inode));
        Ok(found)
    }

    /// Notes that the transaction depends on the root of the lower, which has no name.
    pub(super) fn depend_on_root(&self) -> Result<()> {
        let root = self.lower.attributes(Inode::ROOT)?;
        self.upper.add_dependency(&Dependency::Name {
            directory: Inode::ROOT,
            name: Vec::new(),
            found: Some(LowerIdentity::of(&root)),
        })
    }

    /// Notes that the transaction depends on all names of a directory of the lower.
    pub(super) fn depend_on_listing(&self, directory: Inode) -> Result<()> {
        if self.dependencies.noted.lock().listings.contains(&directory) {
            return Ok(());
        }
        let checksum = self.listing_checksum(directory)?;
        let mut noted = self.dependencies.noted.lock();
        if noted.listings.insert(directory) {
            self.upper
                .add_dependency(&Dependency::Listing { directory, checksum })?;
        }
        Ok(())
    }

    /// Returns the checksum of all names of a directory of the lower.
    pub(super) fn listing_checksum(&self, directory: Inode) -> Result<u64> {
        let mut stream = EntryStream::new(Some((&*self.lower, directory)), None);
        let mut checksum = 0;
        let mut bytes = Vec::new();
        while stream.peek()?.is_some() {
            let Some(entry) = stream.next() else { break };
            if !self.is_stage(directory, &entry.name) {
                bytes.clear();
                append_entry(&mut bytes, &entry);
                checksum = alluvium_base::checksum::seeded(checksum, &bytes);
            }
        }
        Ok(checksum)
    }

    /// Returns whether a name of the lower is that of a stage.
    pub(super) fn is_stage(&self, directory: Inode, name: &[u8]) -> bool {
        directory == Inode::ROOT && name.starts_with(&self.stage_prefix)
    }

    /// Makes sure that the transaction depends on an inode of the lower before it is read. An entry
    /// that was listed is looked up by its name now.
    fn depend_on_inode(&self, inode: Inode) -> Result<()> {
        if inode == Inode::ROOT || self.dependencies.noted.lock().inodes.contains(&inode) {
            return Ok(());
        }
        let place = self.dependencies.listed.lock().get(&inode).cloned();
        if let Some((directory, name)) = place
            && let Some(found) = self.look_below(directory, &name)?
            && found.inode == inode
        {
            return Ok(());
        }
        Err(stale(inode))
    }

    /// Calls the lower for an inode. After a restart, the lower may have to find it again first.
    pub(super) fn on_lower<T>(&self, inode: Inode, call: impl Fn(&dyn FileSystem) -> Result<T>) -> Result<T> {
        match call(&*self.lower) {
            Err(error) if error.kind() == ErrorKind::Stale && self.find_again(inode)? => call(&*self.lower),
            other => other,
        }
    }

    /// Looks up the names that lead to an inode of the lower, and returns whether they do.
    fn find_again(&self, inode: Inode) -> Result<bool> {
        let mut places = HashMap::new();
        self.upper.each_dependency(|dependency| {
            if let Some((found, (directory, name))) = place_of(&dependency) {
                places.entry(found.inode).or_insert((directory, name.to_vec()));
            }
            Ok(())
        })?;
        let mut chain = Vec::new();
        let mut at = inode;
        while at != Inode::ROOT {
            let Some((directory, name)) = places.remove(&at) else {
                return Ok(false);
            };
            chain.push((directory, name, at));
            at = directory;
        }
        for (directory, name, wanted) in chain.into_iter().rev() {
            match absent_as_none(self.lower.lookup(directory, &name))? {
                Some(found) if found.inode == wanted => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns the attributes of an inode of the lower that is not changed.
    pub(super) fn lower_attributes(&self, inode: Inode) -> Result<Attributes> {
        self.depend_on_inode(inode)?;
        self.on_lower(inode, |lower| lower.attributes(inode))
    }

    /// Returns what the overlay has of an inode. The inode must exist in the view.
    pub(super) fn existing(&self, inode: Inode) -> Result<Option<ChangedInode>> {
        if self.removed.lock().contains(&inode) {
            return Err(stale(inode));
        }
        let changed = self.upper.changed(inode)?;
        if changed.is_none() && self.upper.is_new(inode) {
            return Err(stale(inode));
        }
        Ok(changed)
    }

    pub(super) fn view_attributes(&self, inode: Inode) -> Result<Attributes> {
        match self.existing(inode)? {
            Some(changed) => self.attributes_of_changed(inode, &changed),
            None => self.lower_attributes(inode),
        }
    }

    pub(super) fn attributes_of_changed(&self, inode: Inode, changed: &ChangedInode) -> Result<Attributes> {
        let record = &changed.record;
        let kept = self.upper.files.attributes(changed.upper)?;
        let is_lower_directory = record.kind == FileKind::Directory && !self.upper.is_new(inode);
        let links = match is_lower_directory {
            _ if record.is_removed => 0,
            true => {
                let below = self.on_lower(inode, |lower| lower.attributes(inode))?.links;
                // Btrfs counts 1 for every directory.
                if below == 1 {
                    1
                } else {
                    i64::from(below) + record.links
                }
            }
            false => record.links,
        };
        let is_partial = record.kind == FileKind::Regular && record.lower_bytes > 0;
        let below = if is_partial {
            record.lower_bytes.div_ceil(512)
        } else {
            0
        };
        Ok(Attributes {
            inode,
            generation: record.generation,
            kind: record.kind,
            links: u32::try_from(links).unwrap_or(0),
            blocks: kept.blocks.max(below),
            created: record.created,
            ..kept
        })
    }

    /// Returns the kind of an inode.
    pub(super) fn kind_of(&self, inode: Inode) -> Result<FileKind> {
        match self.existing(inode)? {
            Some(changed) => Ok(changed.record.kind),
            None if inode == Inode::ROOT => Ok(FileKind::Directory),
            None => Ok(self.lower_attributes(inode)?.kind),
        }
    }

    pub(super) fn check_directory(&self, inode: Inode) -> Result<()> {
        if self.kind_of(inode)? == FileKind::Directory {
            return Ok(());
        }
        let text = format!("inode {} is no directory", inode.0);
        Err(Error::new(ErrorKind::NotADirectory, text))
    }

    /// Returns what a name refers to.
    pub(super) fn resolve(&self, parent: Inode, name: &[u8]) -> Result<Option<(Inode, FileKind)>> {
        crate::ordinary::check_name(name)?;
        self.check_directory(parent)?;
        if let Some(changed) = self.upper.changed(parent)? {
            if changed.record.is_removed {
                return Ok(None);
            }
            match self.upper.marker(&changed, name)? {
                Some(NameMarker::Absent) => return Ok(None),
                Some(NameMarker::Present(inode, kind)) => return Ok(Some((inode, kind))),
                None => {}
            }
        }
        if self.upper.is_new(parent) {
            return Ok(None);
        }
        Ok(self
            .look_below(parent, name)?
            .map(|found| (found.inode, found.kind)))
    }

    /// Returns what a name refers to, which must exist.
    pub(super) fn resolve_existing(&self, parent: Inode, name: &[u8]) -> Result<(Inode, FileKind)> {
        self.resolve(parent, name)?.ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let text = format!("there is no \"{name}\" in directory {}", parent.0);
            Error::new(ErrorKind::NotFound, text)
        })
    }

    pub(super) fn view_parent(&self, directory: Inode) -> Result<Inode> {
        self.check_directory(directory)?;
        if directory == Inode::ROOT {
            return Ok(directory);
        }
        if let Some(parent) = self
            .existing(directory)?
            .and_then(|changed| changed.record.parent)
        {
            return Ok(parent);
        }
        self.on_lower(directory, |lower| lower.parent(directory))
    }

    /// Merges the markers of a directory with the names of the lower.
    pub(super) fn view_listing(
        &self,
        directory: Inode,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        self.check_directory(directory)?;
        let changed = self.existing(directory)?;
        if changed.as_ref().is_some_and(|changed| changed.record.is_removed) {
            return Ok(Vec::new());
        }
        let has_lower = !self.upper.is_new(directory);
        if has_lower {
            self.on_lower(directory, |lower| lower.read_directory(directory, after, 1))?;
            self.depend_on_listing(directory)?;
        }
        let above = changed
            .as_ref()
            .map(|changed| (&*self.upper.files, changed.upper));
        let mut above = EntryStream::new(above, after);
        let mut below = EntryStream::new(has_lower.then_some((&*self.lower, directory)), after);
        let mut entries = Vec::new();
        while entries.len() < limit {
            let (next_above, next_below) = (above.peek()?, below.peek()?);
            let order = match (next_above, next_below) {
                (None, None) => break,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(above), Some(below)) => above.name.cmp(&below.name),
            };
            if order.is_gt() {
                entries.extend(
                    below
                        .next()
                        .filter(|entry| !self.is_stage(directory, &entry.name)),
                );
                continue;
            }
            if order.is_eq() {
                below.next();
            }
            let Some(entry) = above.next() else { break };
            let marker = super::format::decode_marker(&self.upper.files.read_link(entry.inode)?)?;
            if let NameMarker::Present(inode, kind) = marker {
                entries.push(DirectoryEntry {
                    name: entry.name,
                    inode,
                    kind,
                });
            }
        }
        self.note_listed(directory, &entries);
        Ok(entries)
    }

    fn note_listed(&self, directory: Inode, entries: &[DirectoryEntry]) {
        let noted = self.dependencies.noted.lock();
        let mut listed = self.dependencies.listed.lock();
        if listed.len() > MOST_LISTED {
            listed.clear();
        }
        for entry in entries {
            if !noted.inodes.contains(&entry.inode) && !self.upper.is_new(entry.inode) {
                listed.insert(entry.inode, (directory, entry.name.clone()));
            }
        }
    }
}

pub(super) fn stale(inode: Inode) -> Error {
    Error::new(
        ErrorKind::Stale,
        format!("there is no inode {} any more", inode.0),
    )
}

/// The entries of a directory, read in batches.
pub(super) struct EntryStream<'a> {
    source: Option<(&'a dyn FileSystem, Inode)>,
    ready: VecDeque<DirectoryEntry>,
    after: Option<Vec<u8>>,
}

impl<'a> EntryStream<'a> {
    pub(super) fn new(source: Option<(&'a dyn FileSystem, Inode)>, after: Option<&[u8]>) -> EntryStream<'a> {
        EntryStream {
            source,
            ready: VecDeque::new(),
            after: after.map(<[u8]>::to_vec),
        }
    }

    pub(super) fn peek(&mut self) -> Result<Option<&DirectoryEntry>> {
        if self.ready.is_empty()
            && let Some((files, directory)) = self.source
        {
            let batch = files.read_directory(directory, self.after.as_deref(), ENTRIES_AT_ONCE)?;
            match batch.last() {
                Some(last) => self.after = Some(last.name.clone()),
                None => self.source = None,
            }
            self.ready.extend(batch);
        }
        Ok(self.ready.front())
    }

    pub(super) fn next(&mut self) -> Option<DirectoryEntry> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_neighbouring_directories_have_different_checksums() {
        let letters = || b'0'..=b'z';
        let short = letters().map(|letter| vec![letter]);
        let longer = letters().map(|letter| [&b"n1"[..], &[letter]].concat());
        let long =
            letters().flat_map(|letter| letters().map(move |end| [b"director", &[letter, end][..]].concat()));
        let names: Vec<Vec<u8>> = short.chain(longer).chain(long).collect();
        let mut checksums = HashSet::new();
        for directory in 5_621_000..5_621_064 {
            for name in &names {
                let is_new = checksums.insert(checksum_of_name(Inode(directory), name));
                assert!(is_new, "{directory} {}", name.escape_ascii());
            }
        }
    }
}
