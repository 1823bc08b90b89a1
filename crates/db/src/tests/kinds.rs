//! The keyspaces of the crash-test story, in structures of all kinds: `b`, with merges, is in
//! levels or in pages; `c`, which is dropped from time to time, is a map or in pages; and `d`,
//! which is dropped too, is hashed, in the form that the story chooses.

use crate::db::Db;
use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::options::kind::StructureKind;
use crate::options::{KeyspaceOptions, PagedOptions};

/// Opens or creates the keyspace of the story with this letter.
pub(crate) fn keyspace(db: &Db, letter: u8, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
    let lanes = db.engine().plan.scale.log.lanes;
    let structure = match (letter, lanes) {
        (b'a', _) => StructureKind::Tiered,
        (b'b', 2) | (b'c', 1) => StructureKind::Paged,
        (b'b', _) => StructureKind::Levels,
        (b'd', _) => StructureKind::Hashed,
        _ => StructureKind::Map,
    };
    if structure == StructureKind::Paged {
        // The nodes are small, so there are many, and only a few fit into memory.
        let small = PagedOptions::beps().node_bytes(512).key_bytes(24).value_bytes(40);
        let options = options.clone().structure(crate::options::Structure::Paged(small));
        return db.keyspace_in(name, structure, &options);
    }
    db.keyspace_in(name, structure, options)
}
