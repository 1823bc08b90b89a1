//! Keyspaces created through the public interface. Tests inside the crate place some of them in
//! other structures.

use alluvium::{Db, Keyspace, KeyspaceOptions, Result};

/// Opens or creates the story's keyspace with this letter.
pub(crate) fn keyspace(db: &Db, _letter: u8, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
    db.keyspace_with(name, options)
}
