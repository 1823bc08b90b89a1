//! The keyspaces of the crash-test story, in structures of all kinds. Keyspace `b`, which has
//! merges, is in levels or in pages. Keyspace `c`, which is dropped from time to time, is a map, in
//! pages, or in levels with other options than those of `b`. Keyspace `d`, which is also dropped
//! from time to time, is hashed, in a form that the story chooses.

use crate::db::Db;
use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::options::kind::StructureKind;
use crate::options::{KeyspaceOptions, LevelsOptions, PagedOptions};

/// Opens or creates the story's keyspace with this letter.
pub(crate) fn keyspace(db: &Db, letter: u8, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
    let lanes = db.engine().plan.scale.log.lanes;
    let structure = match (letter, lanes) {
        (b'a', _) => StructureKind::Tiered,
        (b'b', 2) | (b'c', 1) => StructureKind::Paged,
        (b'b', _) | (b'c', 3) => StructureKind::Levels,
        (b'd', _) => StructureKind::Hashed,
        _ => StructureKind::Map,
    };
    if structure == StructureKind::Paged {
        // Small nodes give the tree many of them, only a few of which fit into memory.
        let small = PagedOptions::beps().node_bytes(512).key_bytes(24).value_bytes(40);
        let options = options.clone().structure(crate::options::Structure::Paged(small));
        return db.keyspace_in(name, structure, &options);
    }
    if structure == StructureKind::Levels && letter == b'c' {
        let other = crate::options::Structure::Levels(LevelsOptions::samt(2).stitch(0));
        return db.keyspace_in(name, structure, &options.clone().structure(other));
    }
    db.keyspace_in(name, structure, options)
}
