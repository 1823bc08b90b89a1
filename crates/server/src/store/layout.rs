//! The layout of a store's keys, either ordered or hashed. It is chosen when a server first opens
//! the store.
//!
//! Hashed keys have a format version of their own, so that a program that does not support them
//! refuses to open the store.

use super::model::format;
use crate::error::Error;
use crate::options::KeyLayout;
use alluvium::{Db, HashedOptions, Keyspace, KeyspaceOptions, Structure};

/// Returns the keyspace with this name, or `None` if it does not exist.
pub(crate) fn existing(db: &Db, name: &str) -> alluvium::Result<Option<Keyspace>> {
    match db.existing_keyspace(name) {
        Ok(keyspace) => Ok(Some(keyspace)),
        Err(alluvium::Error::NoSuchKeyspace { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether a keyspace is unordered (hashed).
pub(crate) fn is_hashed(keyspace: &Keyspace) -> bool {
    matches!(keyspace.options().structure, Structure::Hashed(_))
}

/// Returns the options for creating a hashed keyspace. The index options are copied from the
/// existing hashed keyspaces, because all of them share one index.
pub(super) fn hashed_options(db: &Db) -> KeyspaceOptions {
    let known = db.keyspaces().into_iter().find_map(|name| {
        let keyspace = db.existing_keyspace(&name).ok()?;
        match &keyspace.options().structure {
            Structure::Hashed(options) => Some(options.clone()),
            _ => None,
        }
    });
    let options = known.unwrap_or_else(HashedOptions::pachash);
    KeyspaceOptions::new().structure(Structure::Hashed(options))
}

/// Returns whether an ordered keyspace has no key before `end` or, if `end` is `None`, no keys at
/// all.
fn is_empty(keyspace: &Keyspace, end: Option<&[u8]>) -> alluvium::Result<bool> {
    let first = keyspace.first()?;
    Ok(first.is_none_or(|(key, _)| end.is_some_and(|end| key[..] >= *end)))
}

/// The layout found in a store that the server has not changed yet.
pub(super) struct DetectedLayout {
    pub(super) layout: KeyLayout,
    /// Whether hashed keys were chosen for a store without keys, so that the choice must still be
    /// recorded.
    is_free: bool,
}

/// Determines a store's layout. A store recorded as hashed remains hashed. Any other store gets the
/// layout `wished`, which may be hashed only if the store contains no keys.
///
/// # Errors
/// [`Error::InOrder`] if the store has ordered keys and hashed ones are requested;
/// [`Error::SnapshotInOrder`] if a snapshot may contain ordered keys.
pub(super) fn decide(db: &Db, wished: KeyLayout) -> crate::error::Result<DetectedLayout> {
    let data = existing(db, super::DATA)?;
    let version = match &data {
        Some(data) => data.get(&format::version_key()[..])?,
        None => None,
    };
    let version = version.map(|value| format::decode_number(&value).unwrap_or(u64::MAX));
    if version == Some(format::HASHED_VERSION) {
        return Ok(DetectedLayout {
            layout: KeyLayout::Hashed,
            is_free: false,
        });
    }
    if wished == KeyLayout::AsStored || version.is_some_and(|version| version > format::HASHED_VERSION) {
        return Ok(DetectedLayout {
            layout: KeyLayout::AsStored,
            is_free: false,
        });
    }
    // The keys in clients' databases sort before the server's own keys.
    if let Some(data) = &data
        && !is_empty(data, Some(&[super::DATABASES]))?
    {
        return Err(Error::InOrder {
            keyspace: super::DATA,
        });
    }
    let items = existing(db, super::ITEMS)?.filter(|items| !is_hashed(items));
    if let Some(items) = &items
        && !is_empty(items, None)?
    {
        return Err(Error::InOrder {
            keyspace: super::ITEMS,
        });
    }
    // A snapshot may still contain ordered keys that have since been deleted.
    if (data.is_some() || items.is_some())
        && let Some((name, _)) = db.snapshots().into_iter().next()
    {
        return Err(Error::SnapshotInOrder { name });
    }
    Ok(DetectedLayout {
        layout: KeyLayout::Hashed,
        is_free: true,
    })
}

impl DetectedLayout {
    /// Persists the chosen layout and returns the keyspace for memcached items. If the server
    /// crashes before this has finished, the next start completes it.
    pub(super) fn settle(&self, db: &Db, data: &Keyspace) -> crate::error::Result<Keyspace> {
        if self.layout == KeyLayout::AsStored {
            return Ok(db.keyspace(super::ITEMS)?);
        }
        if self.is_free {
            let version = format::encode_number(format::HASHED_VERSION);
            data.put(&format::version_key()[..], version)?;
        }
        if let Some(items) = existing(db, super::ITEMS)? {
            if is_hashed(&items) {
                return Ok(items);
            }
            if !is_empty(&items, None)? {
                return Err(Error::InOrder {
                    keyspace: super::ITEMS,
                });
            }
            db.drop_keyspace(super::ITEMS)?;
        }
        Ok(db.keyspace_with(super::ITEMS, &hashed_options(db))?)
    }
}
