//! The keyspaces of the story, of both kinds: `b`, which merges, and `c`, which is dropped now and
//! then, are maps.

use crate::structure::Structure;
use crate::{Db, Keyspace, KeyspaceOptions, Result};

/// Opens or makes the keyspace of the story that has this letter.
pub(crate) fn keyspace(db: &Db, letter: u8, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
    let structure = match letter {
        b'a' => Structure::Tiered,
        _ => Structure::Map,
    };
    db.keyspace_in(name, structure, options)
}
