//! Interpretation of keys and values: plain bytes, Redis types, memcached items.

use super::json;
use super::query::Query;
use super::refusal::Refusal;
use crate::store::model::format::{self, InnerKey, Record};
use crate::store::model::{Collection, Kind};
use crate::store::{DATABASES, Store};
use alluvium::Keyspace;
use serde_json::{Map, Value};

/// The keys that a request refers to.
pub(super) struct Scope {
    /// The keyspace of the keys.
    pub(super) keyspace: Keyspace,
    /// The keyspace of the elements of collections.
    data: Keyspace,
    view: View,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// Plain bytes.
    Plain,
    /// The keys of a Redis database.
    Database(u8),
    /// The hashed keys of a Redis database, in their own keyspace.
    Hashed(u8),
    /// Items of memcached.
    Items,
}

/// An interpreted value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Described<'v> {
    pub(super) kind: &'static str,
    pub(super) holds: Holds<'v>,
    /// Expiry time in milliseconds since 1970; 0 for never.
    pub(super) expires_ms: u64,
    pub(super) flags: Option<u32>,
}

/// The content of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Holds<'v> {
    Bytes(&'v [u8]),
    Elements(Collection),
}

impl Scope {
    /// Returns the scope named by the parameters `keyspace`, `database` and `raw`.
    pub(super) fn of(store: &Store, query: &Query) -> Result<Scope, Refusal> {
        let name = query
            .text("keyspace")?
            .ok_or_else(|| Refusal::bad("keyspace is missing: say which, as in ?keyspace=default"))?;
        let keyspace = store.db.existing_keyspace(name)?;
        let data = store.data.clone();
        let is = |other: &Keyspace| keyspace.number() == other.number();
        let database = query.number("database", u64::from(u8::MAX))?;
        let view = match database {
            Some(number) if is(&store.data) && number < u64::from(DATABASES) => {
                let database = store.databases.number_of(number as u8);
                match (store.records.are_hashed(), store.records.existing(database)) {
                    (false, _) => View::Database(database),
                    (true, Some(space)) => {
                        return Ok(Scope {
                            keyspace: space.clone(),
                            data,
                            view: View::Hashed(database),
                        });
                    }
                    (true, None) => {
                        return Err(Refusal::missing(format!("database {number} has never had keys")));
                    }
                }
            }
            Some(_) => {
                return Err(Refusal::bad(format!(
                    "only the keyspace \"redis\" has databases, from 0 to {}",
                    DATABASES - 1
                )));
            }
            None if is(&store.items) && !query.is_set("raw") => View::Items,
            None => View::Plain,
        };
        Ok(Scope { keyspace, data, view })
    }

    /// Returns the stored form of a key of the scope.
    pub(super) fn inner(&self, key: &[u8]) -> InnerKey {
        match self.view {
            View::Database(database) => format::record_key(database, key),
            View::Plain | View::Items | View::Hashed(_) => key.into(),
        }
    }

    /// Returns the first stored key after the scope, if others can follow.
    pub(super) fn end(&self) -> Option<InnerKey> {
        match self.view {
            View::Database(database) => Some(format::records(database).1),
            View::Plain | View::Items | View::Hashed(_) => None,
        }
    }

    /// Returns the key of the scope from its stored form.
    pub(super) fn key<'k>(&self, inner: &'k [u8]) -> &'k [u8] {
        match self.view {
            View::Database(_) => format::user_key(inner),
            View::Plain | View::Items | View::Hashed(_) => inner,
        }
    }

    /// Interprets a stored value. Returns `None` if it has expired.
    pub(super) fn describe<'v>(
        &self,
        stored: &'v [u8],
        now_ms: u64,
    ) -> Result<Option<Described<'v>>, Refusal> {
        let bytes = |kind, bytes, expires_ms, flags| Described {
            kind,
            holds: Holds::Bytes(bytes),
            expires_ms,
            flags,
        };
        let described = match self.view {
            View::Plain => bytes("bytes", stored, 0, None),
            View::Items => {
                let item = format::decode_item(stored)?;
                bytes("item", item.value, item.expires_ms, Some(item.flags))
            }
            View::Database(_) | View::Hashed(_) => match format::decode_record(stored)? {
                Record::Text { expires_ms, skip } => {
                    let text = stored.get(skip..).unwrap_or_default();
                    bytes("string", text, expires_ms, None)
                }
                Record::Collection(collection) => Described {
                    kind: match collection.kind {
                        Kind::List => "list",
                        Kind::Set => "set",
                        Kind::SortedSet => "zset",
                        Kind::Hash => "hash",
                    },
                    holds: Holds::Elements(collection),
                    expires_ms: collection.expires_ms,
                    flags: None,
                },
            },
        };
        let is_gone = described.expires_ms != 0 && described.expires_ms <= now_ms;
        Ok((!is_gone).then_some(described))
    }

    /// Returns some elements of a collection, and whether there are more.
    pub(super) fn elements(
        &self,
        collection: &Collection,
        skip: usize,
        most: usize,
        most_bytes: usize,
    ) -> Result<(Vec<Value>, bool), Refusal> {
        let (View::Database(database) | View::Hashed(database)) = self.view else {
            return Ok((Vec::new(), false));
        };
        let (low, high) = match collection.kind {
            Kind::SortedSet => format::scores(database, collection.number),
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

fn element(kind: Kind, inner: &[u8], value: &[u8]) -> Map<String, Value> {
    match kind {
        Kind::List => json::bytes_object("value", value),
        Kind::Set => json::bytes_object("member", format::member_of(inner).1),
        Kind::Hash => {
            let mut object = json::bytes_object("field", format::member_of(inner).1);
            json::put_bytes(&mut object, "value", value);
            object
        }
        Kind::SortedSet => {
            let (score, member) = format::scored_member_of(inner);
            let mut object = json::bytes_object("member", member);
            // As text, because JSON has no infinities.
            object.insert("score".to_owned(), score.to_string().into());
            object
        }
    }
}
