//! Interprets stored keys and values as plain bytes, Redis types or memcached items.

use super::json;
use super::query::QueryString;
use super::refusal::HttpError;
use crate::store::model::format::{self, DecodedRecord, InnerKey};
use crate::store::model::{CollectionHeader, CollectionKind};
use crate::store::{DATABASES, ServerStore};
use alluvium::Keyspace;
use serde_json::{Map, Value};

/// The keys that a request concerns, and how to interpret them.
pub(super) struct KeyScope {
    /// The keyspace of the keys.
    pub(super) keyspace: Keyspace,
    /// The keyspace of collections' elements.
    data: Keyspace,
    view: KeyInterpretation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyInterpretation {
    Plain,
    /// The ordered keys of the Redis database with this number.
    Database(u8),
    /// The hashed keys of the Redis database with this number, which has its own keyspace.
    Hashed(u8),
    Items,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ValueDescription<'v> {
    pub(super) kind: &'static str,
    pub(super) holds: ValueContent<'v>,
    /// Expiry time in milliseconds since 1970; 0 for never.
    pub(super) expires_ms: u64,
    pub(super) flags: Option<u32>,
}

/// A key's content, by the kind of its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ValueContent<'v> {
    Bytes(&'v [u8]),
    Elements(CollectionHeader),
}

impl KeyScope {
    /// Determines the scope from the query parameters `keyspace`, `database` and `raw`.
    pub(super) fn of(store: &ServerStore, query: &QueryString) -> Result<KeyScope, HttpError> {
        let name = query.text("keyspace")?.ok_or_else(|| {
            HttpError::bad("the parameter keyspace is missing; add it, for example ?keyspace=default")
        })?;
        let keyspace = store.db.existing_keyspace(name)?;
        let data = store.data.clone();
        let is = |other: &Keyspace| keyspace.number() == other.number();
        let database = query.number("database", u64::from(u8::MAX))?;
        let view = match database {
            Some(number) if is(&store.data) && number < u64::from(DATABASES) => {
                let database = store.databases.number_of(number as u8);
                match (store.records.are_hashed(), store.records.existing(database)) {
                    (false, _) => KeyInterpretation::Database(database),
                    (true, Some(space)) => {
                        return Ok(KeyScope {
                            keyspace: space.clone(),
                            data,
                            view: KeyInterpretation::Hashed(database),
                        });
                    }
                    (true, None) => {
                        return Err(HttpError::missing(format!("database {number} has no keys")));
                    }
                }
            }
            Some(_) => {
                return Err(HttpError::bad(format!(
                    "the parameter database requires keyspace=redis and a number from 0 to {}",
                    DATABASES - 1
                )));
            }
            None if is(&store.items) && !query.is_set("raw") => KeyInterpretation::Items,
            None => KeyInterpretation::Plain,
        };
        Ok(KeyScope { keyspace, data, view })
    }

    /// Returns the stored form of a key in this scope.
    pub(super) fn inner(&self, key: &[u8]) -> InnerKey {
        match self.view {
            KeyInterpretation::Database(database) => format::record_key(database, key),
            KeyInterpretation::Plain | KeyInterpretation::Items | KeyInterpretation::Hashed(_) => key.into(),
        }
    }

    /// Returns the smallest stored key greater than all keys in this scope, or `None` if the scope
    /// extends to the end of its keyspace.
    pub(super) fn end(&self) -> Option<InnerKey> {
        match self.view {
            KeyInterpretation::Database(database) => Some(format::records(database).1),
            KeyInterpretation::Plain | KeyInterpretation::Items | KeyInterpretation::Hashed(_) => None,
        }
    }

    /// Returns the user's key for a stored key in this scope.
    pub(super) fn key<'k>(&self, inner: &'k [u8]) -> &'k [u8] {
        match self.view {
            KeyInterpretation::Database(_) => format::user_key(inner),
            KeyInterpretation::Plain | KeyInterpretation::Items | KeyInterpretation::Hashed(_) => inner,
        }
    }

    /// Interprets a stored value. Returns `None` if the value has expired.
    pub(super) fn describe<'v>(
        &self,
        stored: &'v [u8],
        now_ms: u64,
    ) -> Result<Option<ValueDescription<'v>>, HttpError> {
        let bytes = |kind, bytes, expires_ms, flags| ValueDescription {
            kind,
            holds: ValueContent::Bytes(bytes),
            expires_ms,
            flags,
        };
        let described = match self.view {
            KeyInterpretation::Plain => bytes("bytes", stored, 0, None),
            KeyInterpretation::Items => {
                let item = format::decode_item(stored)?;
                bytes("item", item.value, item.expires_ms, Some(item.flags))
            }
            KeyInterpretation::Database(_) | KeyInterpretation::Hashed(_) => {
                match format::decode_record(stored)? {
                    DecodedRecord::Text { expires_ms, skip } => {
                        let text = stored.get(skip..).unwrap_or_default();
                        bytes("string", text, expires_ms, None)
                    }
                    DecodedRecord::Collection(collection) => ValueDescription {
                        kind: match collection.kind {
                            CollectionKind::List => "list",
                            CollectionKind::Set => "set",
                            CollectionKind::SortedSet => "zset",
                            CollectionKind::Hash => "hash",
                        },
                        holds: ValueContent::Elements(collection),
                        expires_ms: collection.expires_ms,
                        flags: None,
                    },
                }
            }
        };
        let is_gone = described.expires_ms != 0 && described.expires_ms <= now_ms;
        Ok((!is_gone).then_some(described))
    }

    /// Returns some of a collection's elements as JSON, and whether there are more.
    pub(super) fn elements(
        &self,
        collection: &CollectionHeader,
        skip: usize,
        most: usize,
        most_bytes: usize,
    ) -> Result<(Vec<Value>, bool), HttpError> {
        let (KeyInterpretation::Database(database) | KeyInterpretation::Hashed(database)) = self.view else {
            return Ok((Vec::new(), false));
        };
        let (low, high) = match collection.kind {
            CollectionKind::SortedSet => format::scores(database, collection.number),
            _ => {
                let low = format::elements(database, collection.number);
                let high = format::behind(&low);
                (low, high)
            }
        };
        let mut elements = Vec::new();
        let mut bytes = 0;
        for pair in self.data.range(&low[..]..&high[..]).skip(skip) {
            if elements.len() == most || bytes > most_bytes {
                return Ok((elements, true));
            }
            let (inner, value) = pair?;
            bytes += inner.len() + value.len();
            elements.push(element(collection.kind, &inner, &value).into());
        }
        Ok((elements, false))
    }
}

fn element(kind: CollectionKind, inner: &[u8], value: &[u8]) -> Map<String, Value> {
    match kind {
        CollectionKind::List => json::bytes_object("value", value),
        CollectionKind::Set => json::bytes_object("member", format::member_of(inner).1),
        CollectionKind::Hash => {
            let mut object = json::bytes_object("field", format::member_of(inner).1);
            json::put_bytes(&mut object, "value", value);
            object
        }
        CollectionKind::SortedSet => {
            let (score, member) = format::scored_member_of(inner);
            let mut object = json::bytes_object("member", member);
            // Format the score as text, because JSON cannot represent infinities.
            object.insert("score".to_owned(), score.to_string().into());
            object
        }
    }
}
