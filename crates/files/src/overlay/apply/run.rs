//! Takes the steps of an apply. Each looks at what is there, and does what is left to do.

use super::build::built_name;
use super::plan::{ApplyStep, StagedMove, StagedSource};
use super::stage;
use super::tree::{FinalTree, NamePlace};
use crate::contract::FileSystem;
use crate::error::{Error, ErrorKind, Result};
use crate::overlay::format::number_name;
use crate::overlay::upper::{ChangedInode, UpperStore, absent_as_none};
use crate::types::{FileKind, Inode, RenameMode};
use std::collections::{HashMap, HashSet};

/// The name of a further name that is about to replace another.
const LINKED: &[u8] = b"linked";

/// An apply that runs.
pub(super) struct ApplyRun<'a> {
    pub(super) lower: &'a dyn FileSystem,
    pub(super) upper: &'a UpperStore,
    pub(super) tree: &'a FinalTree,
    pub(super) stage: Inode,
    /// Directories of the view that were found, and their inodes in the lower, which renames do
    /// not change.
    pub(super) located: HashMap<Inode, Inode>,
    /// Directories that are being looked for.
    searched: HashSet<Inode>,
}

/// Returns the name in the stage of an inode that is pinned or detached.
pub(super) fn pinned_name(inode: Inode) -> Vec<u8> {
    [&b"p"[..], &number_name(inode)].concat()
}

pub(super) fn lost(inode: Inode) -> Error {
    let text = format!(
        "inode {} of the directory is gone while its changes are applied: others have removed or replaced it",
        inode.0
    );
    Error::new(ErrorKind::Conflict, text)
}

impl<'a> ApplyRun<'a> {
    pub(super) fn new(
        lower: &'a dyn FileSystem,
        upper: &'a UpperStore,
        tree: &'a FinalTree,
        stage: Inode,
    ) -> ApplyRun<'a> {
        ApplyRun {
            lower,
            upper,
            tree,
            stage,
            located: HashMap::from([(Inode::ROOT, Inode::ROOT)]),
            searched: HashSet::new(),
        }
    }

    pub(super) fn changed(&self, inode: Inode) -> Result<ChangedInode> {
        self.upper.changed(inode)?.ok_or_else(|| {
            let text = format!("the overlay has no record of inode {}", inode.0);
            Error::new(ErrorKind::Damaged, text)
        })
    }

    /// Takes a step.
    pub(super) fn take(&mut self, step: &ApplyStep) -> Result<()> {
        match step {
            ApplyStep::Build(inode) => self.build(*inode),
            ApplyStep::Seal => stage::seal(self.lower, self.stage),
            ApplyStep::Pin(inode, origin) => self.pin(*inode, origin),
            ApplyStep::Detach(inode, origin) => self.detach(*inode, origin),
            ApplyStep::Sync => self.lower.sync(),
            ApplyStep::Place(source, place, how) => self.place(*source, place, *how),
            ApplyStep::Remove(inode, place) => self.remove(*inode, place),
            ApplyStep::Rewrite(inode) => self.rewrite(*inode),
            ApplyStep::Dress(inode) => self.dress(*inode),
            ApplyStep::SetTimes(inode) => self.set_times(*inode),
        }
    }

    /// Returns the inode in the lower of a directory of the view. It lies in the stage, where it
    /// shall lie, or where it lay.
    pub(super) fn locate_directory(&mut self, directory: Inode) -> Result<Inode> {
        if let Some(found) = self.located.get(&directory) {
            return Ok(*found);
        }
        // A directory that comes to lie in what lay in it is looked for where it lay.
        if !self.searched.insert(directory) {
            return Err(lost(directory));
        }
        let found = self.search(directory);
        self.searched.remove(&directory);
        let found = found?.ok_or_else(|| lost(directory))?;
        self.located.insert(directory, found);
        Ok(found)
    }

    fn search(&mut self, directory: Inode) -> Result<Option<Inode>> {
        let is_new = self.upper.is_new(directory);
        let staged = if is_new {
            built_name(directory)
        } else {
            pinned_name(directory)
        };
        let is_it = |found: Inode| is_new || found == directory;
        if let Some(found) = absent_as_none(self.lower.lookup(self.stage, &staged))?
            && is_it(found.inode)
        {
            return Ok(Some(found.inode));
        }
        let places = [
            self.tree.places.get(&directory),
            self.tree.origins.get(&directory),
        ];
        for (parent, name) in places.into_iter().flatten().cloned().collect::<Vec<NamePlace>>() {
            let Ok(parent) = self.locate_directory(parent) else {
                continue;
            };
            if let Some(found) = absent_as_none(self.lower.lookup(parent, &name))?
                && found.kind == FileKind::Directory
                && is_it(found.inode)
            {
                return Ok(Some(found.inode));
            }
        }
        Ok(None)
    }

    /// Returns the directory of a place if what was there is there still.
    fn still_at(&mut self, inode: Inode, (directory, name): &NamePlace) -> Result<Option<Inode>> {
        let directory = self.locate_directory(*directory)?;
        let found = absent_as_none(self.lower.lookup(directory, name))?;
        Ok(found.filter(|found| found.inode == inode).map(|_| directory))
    }

    fn is_staged(&self, name: &[u8]) -> Result<bool> {
        Ok(absent_as_none(self.lower.lookup(self.stage, name))?.is_some())
    }

    fn pin(&mut self, inode: Inode, origin: &NamePlace) -> Result<()> {
        let name = pinned_name(inode);
        if self.is_staged(&name)? {
            return Ok(());
        }
        let Some(directory) = self.still_at(inode, origin)? else {
            return Ok(());
        };
        match self.lower.link(inode, self.stage, &name) {
            Err(error) if has_no_links(&error) => {
                self.lower
                    .rename(directory, &origin.1, self.stage, &name, RenameMode::Keep)
            }
            other => other.map(drop),
        }
    }

    fn detach(&mut self, inode: Inode, origin: &NamePlace) -> Result<()> {
        let name = pinned_name(inode);
        if self.is_staged(&name)? {
            return Ok(());
        }
        match self.still_at(inode, origin)? {
            Some(directory) => self
                .lower
                .rename(directory, &origin.1, self.stage, &name, RenameMode::Keep),
            None => Ok(()),
        }
    }

    fn place(&mut self, source: StagedSource, (directory, name): &NamePlace, how: StagedMove) -> Result<()> {
        let staged = match source {
            StagedSource::Built(inode) => built_name(inode),
            StagedSource::Pinned(inode) => pinned_name(inode),
        };
        let Some(found) = absent_as_none(self.lower.lookup(self.stage, &staged))? else {
            return Ok(());
        };
        let directory = self.locate_directory(*directory)?;
        let occupant = absent_as_none(self.lower.lookup(directory, name))?;
        if occupant
            .as_ref()
            .is_some_and(|occupant| occupant.inode == found.inode)
        {
            return Ok(());
        }
        let is_directory = |kind| kind == FileKind::Directory;
        if is_directory(found.kind) && occupant.is_some_and(|occupant| !is_directory(occupant.kind)) {
            self.lower.unlink(directory, name)?;
        }
        if how == StagedMove::Link {
            absent_as_none(self.lower.unlink(self.stage, LINKED))?;
            match self.lower.link(found.inode, self.stage, LINKED) {
                Err(error) if has_no_links(&error) => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    return self
                        .lower
                        .rename(self.stage, LINKED, directory, name, RenameMode::Replace);
                }
            }
        }
        self.lower
            .rename(self.stage, &staged, directory, name, RenameMode::Replace)
    }

    fn remove(&mut self, inode: Inode, place: &NamePlace) -> Result<()> {
        match self.still_at(inode, place)? {
            Some(directory) => self.lower.unlink(directory, &place.1),
            None => Ok(()),
        }
    }
}

/// Returns whether a file system or its rules refuse hard links.
fn has_no_links(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotPermitted | ErrorKind::NotSupported | ErrorKind::TooManyLinks
    )
}
