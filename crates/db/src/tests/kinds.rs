//! The keyspaces of the story, of all kinds: `b`, which merges, is in levels, and `c`, which is
//! dropped now and then, is hashed.

use crate::structure::Structure;
use crate::{Db, Keyspace, KeyspaceOptions, Result};

/// Opens or makes the keyspace of the story that has this letter.
pub(crate) fn keyspace(db: &Db, letter: u8, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
    let structure = match letter {
        b'a' => Structure::Tiered,
        b'b' => Structure::Levels,
        _ => Structure::Hashed,
    };
    db.keyspace_in(name, structure, options)
}
