//! Decodes the keys in a tree outline.

use crate::schema::format::{self, CATALOG};

/// A decoded key of [`Db::outline`](crate::Db::outline).
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
    /// A key of the catalog, which stores the keyspaces and named snapshots.
    Catalog(&'k [u8]),
    /// A key that a program wrote to a keyspace.
    User {
        /// Number of the keyspace: see [`Keyspace::number`](crate::Keyspace::number).
        keyspace: u32,
        /// The key in that keyspace.
        key: &'k [u8],
    },
    /// A bound that is not the key of a record, such as a separator between keyspaces or the lower
    /// bound of all keys.
    Between(&'k [u8]),
}

impl OutlineKey<'_> {
    /// Decodes a key of an outline.
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
