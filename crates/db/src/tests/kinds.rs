//! The keyspaces of the story, of all kinds: `b`, which merges, is in levels or in pages; `c`,
//! which is dropped now and then, is a map or in pages; and `d`, which is dropped, too, is
//! hashed, in the form that the story says.

use crate::structure::Structure;
use crate::{Db, Keyspace, KeyspaceOptions, PagedOptions, Result};

/// Opens or makes the keyspace of the story that has this letter.
pub(crate) fn keyspace(db: &Db, letter: u8, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
    let lanes = db.engine().plan.scale.log.lanes;
    let structure = match (letter, lanes) {
        (b'a', _) => Structure::Tiered,
        (b'b', 2) | (b'c', 1) => Structure::Paged,
        (b'b', _) => Structure::Levels,
        (b'd', _) => Structure::Hashed,
        _ => Structure::Map,
    };
    if structure == Structure::Paged {
        // Nodes so small that there are many, of which memory holds a few.
        let small = PagedOptions::beps().node_bytes(512).key_bytes(24).value_bytes(40);
        let options = options.clone().structure(crate::Structure::Paged(small));
        return db.keyspace_in(name, structure, &options);
    }
    db.keyspace_in(name, structure, options)
}
