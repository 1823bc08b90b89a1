//! What others have changed of what a transaction depends on.

use super::Overlay;
use super::apply::directories_without_record;
use super::format::{Dependency, LowerIdentity, OverlayPhase};
use super::upper::{absent_as_none, place_of};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{FileKind, Inode};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Paths that the error of a conflict names.
const MOST_NAMED: usize = 100;

/// Where the directories of the lower lie, as far as the transaction has seen them.
type DirectoryPlaces = HashMap<Inode, (Inode, Vec<u8>)>;

impl Overlay {
    /// Returns the paths that the transaction depends on and others have changed, in order.
    ///
    /// # Errors
    /// Errors of both file systems.
    pub fn conflicts(&self) -> Result<BTreeSet<Vec<u8>>> {
        let _turn = self.turn.read();
        let mut places = DirectoryPlaces::new();
        let mut conflicts = BTreeSet::new();
        // What lay in a directory that has gone is not named.
        let mut gone = HashSet::new();
        self.upper.each_dependency(|dependency| {
            let (Dependency::Name { directory, .. } | Dependency::Listing { directory, .. }) = &dependency;
            if gone.contains(directory) {
                if let Some((found, _)) = place_of(&dependency) {
                    gone.insert(found.inode);
                }
                return Ok(());
            }
            let state = self.compare(&dependency)?;
            let is_same = state == DependencyState::Same;
            match dependency {
                Dependency::Name {
                    directory,
                    name,
                    found,
                } => {
                    if !is_same {
                        conflicts.insert(path(&places, directory, &name));
                    }
                    if state == DependencyState::Gone {
                        gone.extend(found.map(|found| found.inode));
                    }
                    if let Some(found) =
                        found.filter(|found| found.kind == FileKind::Directory && found.inode != Inode::ROOT)
                    {
                        places.entry(found.inode).or_insert((directory, name));
                    }
                }
                Dependency::Listing { directory, .. } if !is_same => {
                    conflicts.insert(path(&places, directory, b""));
                }
                Dependency::Listing { .. } => {}
            }
            Ok(())
        })?;
        Ok(conflicts)
    }

    fn compare(&self, dependency: &Dependency) -> Result<DependencyState> {
        let is_same = match dependency {
            Dependency::Name {
                directory,
                name,
                found,
            } => {
                let now = match name.is_empty() {
                    true => self.lower.attributes(*directory).map(Some),
                    false => absent_as_none(self.lower.lookup(*directory, name)),
                };
                let now = gone_as_none(now)?.flatten();
                let now = now.as_ref().map(LowerIdentity::of);
                let number = |identity: &Option<LowerIdentity>| identity.map(|identity| identity.inode);
                if number(&now) != number(found) {
                    return Ok(DependencyState::Gone);
                }
                now == *found
            }
            Dependency::Listing { directory, checksum } => {
                gone_as_none(self.listing_checksum(*directory))? == Some(*checksum)
            }
        };
        Ok(if is_same {
            DependencyState::Same
        } else {
            DependencyState::Different
        })
    }

    /// Checks that others have changed nothing that the transaction depends on, and marks the
    /// overlay as committed. It is changed no more. The changes happen once the upper file system
    /// is durable and [`apply`](super::apply()) is called.
    ///
    /// # Errors
    /// `Conflict` names the paths: run the transaction again. `ReadOnly` if it was committed
    /// before. Errors of both file systems.
    pub fn commit(&self) -> Result<()> {
        let conflicts = self.conflicts()?;
        if !conflicts.is_empty() {
            return Err(Error::conflict(conflicts.into_iter().take(MOST_NAMED).collect()));
        }
        let _turn = self.turn.write();
        self.upper.check_open()?;
        // Where only the inode of a name changes, the times of the directory stay.
        for directory in directories_without_record(&self.upper)? {
            self.copy_up(directory)?;
        }
        let root = self.lower.attributes(Inode::ROOT)?;
        self.upper.set_header(|header| {
            header.phase = OverlayPhase::Committed;
            header.root_modified = root.modified;
            header.root_accessed = root.accessed;
        })
    }
}

/// What has become of what a transaction depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DependencyState {
    Same,
    Different,
    /// The name refers to another inode or to none.
    Gone,
}

/// Turns the error that a directory has gone into `None`.
fn gone_as_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::Stale | ErrorKind::NotFound | ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn path(places: &DirectoryPlaces, directory: Inode, name: &[u8]) -> Vec<u8> {
    let mut parts = vec![name];
    let mut at = directory;
    // A directory is seen before its entries, so there are no circles.
    while let Some((parent, name)) = places.get(&at) {
        parts.push(name);
        at = *parent;
    }
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() {
        return b".".to_vec();
    }
    parts.reverse();
    parts.join(&b'/')
}
