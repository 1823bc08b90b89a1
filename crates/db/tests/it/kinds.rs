//! Keyspaces as users make them. Tests inside the crate put some of them into other structures.

use alluvium::{Db, Keyspace, KeyspaceOptions, Result};

/// Opens or makes the keyspace of the story that has this letter.
pub(crate) fn keyspace(db: &Db, _letter: u8, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
    db.keyspace_with(name, options)
}
