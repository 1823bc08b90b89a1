//! What the keys in an outline of the tree stand for.

use crate::format::{self, CATALOG};

/// A key of [`Db::outline`](crate::Db::outline), taken apart.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// use alluvium::OutlineKey;
/// let rivers = db.keyspace("rivers")?;
/// rivers.put("Elbe", "1094 km")?;
/// db.checkpoint()?;
/// let outline = db.outline();
/// let pivot = &outline.root.pivots[0];
/// let layer = pivot.own.iter().chain(&pivot.pending).next().expect("a run was written");
/// let run = db.outline_run(layer.group, layer.runs[0]).expect("it is still there");
/// let last = OutlineKey::of(&run.high);
/// assert_eq!(last, OutlineKey::User { keyspace: rivers.number(), key: b"Elbe" });
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutlineKey<'k> {
    /// A key of the catalog, in which the store keeps its keyspaces and named snapshots.
    Catalog(&'k [u8]),
    /// A user's key.
    User {
        /// The number of the keyspace: see [`Keyspace::number`](crate::Keyspace::number).
        keyspace: u32,
        /// The key in that keyspace.
        key: &'k [u8],
    },
    /// Bytes that no key begins with: a separator between keyspaces, or the lowest of all keys.
    Between(&'k [u8]),
}

impl OutlineKey<'_> {
    /// Takes a key of an outline apart.
    #[must_use]
    pub fn of(key: &[u8]) -> OutlineKey<'_> {
        match format::split(key) {
            None => OutlineKey::Between(key),
            Some((len, CATALOG)) => OutlineKey::Catalog(&key[len..]),
            Some((len, keyspace)) => OutlineKey::User {
                keyspace,
                key: &key[len..],
            },
        }
    }
}
