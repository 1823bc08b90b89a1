//! The keyspaces of the story, of all kinds: `b`, which merges, is in levels; `c` and `d`, which
//! are dropped now and then, are a map and hashed.

use crate::structure::Structure;
use crate::{Db, Keyspace, KeyspaceOptions, Result};

/// Opens or makes the keyspace of the story that has this letter.
pub(crate) fn keyspace(db: &Db, letter: u8, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
    let structure = match letter {
        b'a' => Structure::Tiered,
        b'b' => Structure::Levels,
        b'd' => Structure::Hashed,
        _ => Structure::Map,
    };
    db.keyspace_in(name, structure, options)
}
