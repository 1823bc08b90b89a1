//! The keyspaces of a file system.

use super::RecordSpace;
use alluvium::{Db, ErrorKind, Keyspace, KeyspaceOptions, Result};

/// The beginning of the names of all keyspaces that belong to file systems.
pub(crate) const KEYSPACE_PREFIX: &str = "files.";

/// Returns the name of a keyspace of the file system `name`.
pub(crate) fn keyspace_name(name: &str, space: RecordSpace) -> String {
    format!("{KEYSPACE_PREFIX}{name}.{}", space.suffix())
}

/// The last part of the name of the keyspace of branches, which a file system without branches may
/// not have.
pub(crate) const BRANCHES: &str = "branches";

/// Returns the name of the keyspace of the branches of the file system `name`.
pub(crate) fn branches_keyspace_name(name: &str) -> String {
    format!("{KEYSPACE_PREFIX}{name}.{BRANCHES}")
}

/// The open keyspaces of a file system.
#[derive(Debug, Clone)]
pub(crate) struct FileKeyspaces {
    all: [Keyspace; RecordSpace::ALL.len()],
}

impl FileKeyspaces {
    /// Opens the keyspaces of a file system that exists.
    /// What an older version did not create is created.
    pub(crate) fn existing(
        db: &Db,
        name: &str,
        options: impl Fn(RecordSpace) -> KeyspaceOptions,
    ) -> Result<FileKeyspaces> {
        FileKeyspaces::each(|space| {
            let keyspace = keyspace_name(name, space);
            match db.existing_keyspace(&keyspace) {
                Err(error) if error.kind() == ErrorKind::NotFound && space == RecordSpace::Compressed => {
                    db.keyspace_with(&keyspace, &options(space))
                }
                opened => opened,
            }
        })
    }

    /// Creates the keyspaces of a file system. Those that an interrupted creation or removal has
    /// left are dropped before.
    pub(crate) fn create(
        db: &Db,
        name: &str,
        options: impl Fn(RecordSpace) -> KeyspaceOptions,
    ) -> Result<FileKeyspaces> {
        FileKeyspaces::drop_all(db, name)?;
        FileKeyspaces::each(|space| db.keyspace_with(&keyspace_name(name, space), &options(space)))
    }

    /// Drops the keyspaces of a file system, and returns whether there was one.
    pub(crate) fn drop_all(db: &Db, name: &str) -> Result<bool> {
        let mut found = false;
        let names = RecordSpace::ALL.map(|space| keyspace_name(name, space));
        for keyspace in [branches_keyspace_name(name)].iter().chain(&names) {
            match db.drop_keyspace(keyspace) {
                Ok(()) => found = true,
                Err(error) if error.kind() == ErrorKind::NotFound => (),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn each(open: impl Fn(RecordSpace) -> Result<Keyspace>) -> Result<FileKeyspaces> {
        let [names, inodes, blocks, counts, times, extended, system, compressed] = RecordSpace::ALL.map(open);
        Ok(FileKeyspaces {
            all: [
                names?,
                inodes?,
                blocks?,
                counts?,
                times?,
                extended?,
                system?,
                compressed?,
            ],
        })
    }

    /// Returns the keyspace of some records.
    pub(crate) fn of(&self, space: RecordSpace) -> &Keyspace {
        &self.all[space as usize]
    }

    /// Returns the records that a keyspace of this name contains, if it belongs to this file
    /// system.
    pub(crate) fn named(&self, name: &str) -> Option<RecordSpace> {
        RecordSpace::ALL
            .into_iter()
            .find(|&space| self.of(space).name() == name)
    }
}
