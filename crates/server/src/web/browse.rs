//! Lists keyspaces, and shows their keys and values, as JSON.

use super::json;
use super::query::QueryString;
use super::refusal::HttpError;
use super::typed::{KeyScope, ValueContent, ValueDescription};
use crate::store::model::format;
use crate::store::{DATABASES, ServerStore, is_hashed};
use alluvium::Keyspace;
use serde_json::{Map, Value, json};
use std::ops::Bound;

/// Default number of keys per page, and (`MOST_KEYS`) the maximum.
const PAGE: u64 = 50;
const MOST_KEYS: u64 = 1000;
/// Maximum number of bytes shown of each value in a page of keys.
const MOST_SHOWN: u64 = 1 << 20;
/// Number of bytes read at which a page ends.
const PAGE_BYTES: usize = 8 << 20;
/// Maximum number of expired keys to skip for one page.
const MOST_GONE: usize = 20_000;
/// Default number of value bytes in one response, and (`MOST_PIECE`) the maximum.
const PIECE: u64 = 64 << 10;
const MOST_PIECE: u64 = 1 << 20;
/// Maximum number of collection elements in one response.
const ELEMENTS: u64 = 100;
/// Maximum number of elements to skip before a response's first element.
const MOST_PASSED: u64 = 1_000_000;

/// Returns all keyspaces with their names, approximate numbers of keys, and sizes in bytes.
pub(super) fn keyspaces(store: &ServerStore) -> Result<Value, HttpError> {
    let mut list = Vec::new();
    for name in store.db.keyspaces() {
        let Ok(keyspace) = store.db.existing_keyspace(&name) else {
            // Another thread dropped the keyspace after it was listed.
            continue;
        };
        let mut object = Map::new();
        object.insert("name".to_owned(), name.into());
        object.insert("approximate_keys".to_owned(), keyspace.approximate_len()?.into());
        object.insert("bytes".to_owned(), keyspace.size_on_disk()?.into());
        if keyspace.number() == store.data.number() {
            object.insert("databases".to_owned(), databases(store)?);
        }
        list.push(Value::from(object));
    }
    Ok(json!({ "keyspaces": list }))
}

fn databases(store: &ServerStore) -> Result<Value, HttpError> {
    let mut list = Vec::new();
    for database in 0..DATABASES {
        let number = store.databases.number_of(database);
        if store.has_records(number)? {
            let keys = store.approximate_records(number)?;
            list.push(json!({ "database": database, "approximate_keys": keys.max(1) }));
        }
    }
    Ok(list.into())
}

/// The range and direction of the requested scan. The bounds are keys in the request's scope.
struct BrowseBounds {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    is_reverse: bool,
}

impl BrowseBounds {
    fn of(query: &QueryString) -> BrowseBounds {
        let is_reverse = query.is_set("reverse");
        let mut low = query.bytes("from").unwrap_or_default().to_vec();
        let mut high = query.bytes("to").map(<[u8]>::to_vec);
        let mut from = |key: Vec<u8>| low = std::mem::take(&mut low).max(key);
        let mut to = |key: Vec<u8>| {
            let least = high
                .take()
                .map_or_else(|| key.clone(), |high| high.min(key.clone()));
            high = Some(least);
        };
        if let Some(prefix) = query.bytes("prefix").filter(|prefix| !prefix.is_empty()) {
            from(prefix.to_vec());
            let behind = format::behind(prefix);
            if !behind.is_empty() {
                to(behind.to_vec());
            }
        }
        match query.bytes("after") {
            Some(after) if is_reverse => to(after.to_vec()),
            // Appending a zero byte to a key yields the next greater key.
            Some(after) => from([after, &[0]].concat()),
            None => {}
        }
        BrowseBounds {
            low,
            high,
            is_reverse,
        }
    }
}

/// Returns one page of keys and the beginnings of their values.
pub(super) fn keys(store: &ServerStore, query: &QueryString) -> Result<Value, HttpError> {
    let scope = KeyScope::of(store, query)?;
    let bounds = BrowseBounds::of(query);
    let limit = query.number("limit", MOST_KEYS)?.unwrap_or(PAGE).max(1) as usize;
    let shown = query.number("preview", MOST_SHOWN)?.unwrap_or(128) as usize;
    let now_ms = store.now_ms();
    let low = scope.inner(&bounds.low);
    let high = bounds
        .high
        .as_deref()
        .map(|high| scope.inner(high))
        .or(scope.end());
    let is_empty = high.as_ref().is_some_and(|high| *high <= low);
    let upper = match &high {
        Some(high) => Bound::Excluded(&high[..]),
        None => Bound::Unbounded,
    };
    let mut list: Vec<Value> = Vec::new();
    let (mut read, mut gone) = (0, 0);
    let mut last = None;
    let mut more = false;
    if !is_empty {
        let walk: BrowseIter = match is_hashed(&scope.keyspace) {
            true => unordered(&scope.keyspace, query)?,
            false => {
                let iter = scope.keyspace.range::<&[u8]>((Bound::Included(&low[..]), upper));
                match bounds.is_reverse {
                    true => Box::new(iter.rev()),
                    false => Box::new(iter),
                }
            }
        };
        for pair in walk {
            if list.len() == limit || read >= PAGE_BYTES || gone == MOST_GONE {
                more = true;
                break;
            }
            let (inner, value) = pair?;
            read += inner.len() + value.len();
            let key = scope.key(&inner);
            match scope.describe(&value, now_ms)? {
                Some(described) => list.push(entry(key, &described, shown)),
                None => gone += 1,
            }
            last = Some(key.to_vec());
        }
    }
    let next = last.filter(|_| more).map(|key| json::bytes_object("key", &key));
    Ok(json!({ "keys": list, "next": next }))
}

/// An iterator over keys and values.
type BrowseIter = Box<dyn Iterator<Item = alluvium::Result<(Vec<u8>, alluvium::Value)>>>;

/// Returns an iterator over an unordered keyspace's keys and values, in arbitrary order. Fails if
/// the query asks for a range of keys or for reverse order.
fn unordered(keyspace: &Keyspace, query: &QueryString) -> Result<BrowseIter, HttpError> {
    let has_bounds = ["from", "to", "prefix"]
        .iter()
        .any(|name| query.bytes(name).is_some_and(|bytes| !bytes.is_empty()));
    if has_bounds || query.is_set("reverse") {
        return Err(HttpError::bad(
            "the keys of this keyspace are hashed and have no order; remove the parameters `from`, `to`, \
             `prefix` and `reverse`",
        ));
    }
    let walk = keyspace.unordered();
    Ok(match query.bytes("after") {
        Some(after) => Box::new(walk.after(after)),
        None => Box::new(walk),
    })
}

/// Returns a key and the first `shown` bytes of its value as JSON.
fn entry(key: &[u8], described: &ValueDescription<'_>, shown: usize) -> Value {
    let mut object = json::bytes_object("key", key);
    facts(&mut object, described);
    if let ValueContent::Bytes(bytes) = described.holds {
        let part = &bytes[..bytes.len().min(shown)];
        json::put_bytes(&mut object, "value", part);
        object.insert("is_cut".to_owned(), (part.len() < bytes.len()).into());
    }
    object.into()
}

/// Adds a value's properties to a JSON object.
fn facts(object: &mut Map<String, Value>, described: &ValueDescription<'_>) {
    object.insert("type".to_owned(), described.kind.into());
    match described.holds {
        ValueContent::Bytes(bytes) => object.insert("bytes".to_owned(), bytes.len().into()),
        ValueContent::Elements(collection) => object.insert("count".to_owned(), collection.count.into()),
    };
    if described.expires_ms != 0 {
        object.insert("expires_ms".to_owned(), described.expires_ms.into());
    }
    if let Some(flags) = described.flags {
        object.insert("flags".to_owned(), flags.into());
    }
}

fn wanted<'q>(
    query: &'q QueryString,
    scope: &KeyScope,
) -> Result<(&'q [u8], Option<alluvium::Value>), HttpError> {
    let key = query
        .bytes("key")
        .ok_or_else(|| HttpError::bad("the parameter key is missing; add it, for example &key=Elbe"))?;
    Ok((key, scope.keyspace.get(scope.inner(key))?))
}

fn no_such(key: &[u8]) -> HttpError {
    HttpError::missing(format!("there is no key \"{}\"", key.escape_ascii()))
}

/// Returns part of a value, or some elements of a collection, as JSON.
pub(super) fn value(store: &ServerStore, query: &QueryString) -> Result<Value, HttpError> {
    let scope = KeyScope::of(store, query)?;
    let (key, stored) = wanted(query, &scope)?;
    let stored = stored.ok_or_else(|| no_such(key))?;
    let described = scope
        .describe(&stored, store.now_ms())?
        .ok_or_else(|| no_such(key))?;
    let mut object = json::bytes_object("key", key);
    facts(&mut object, &described);
    match described.holds {
        ValueContent::Bytes(bytes) => {
            let most = query.number("limit", MOST_PIECE)?.unwrap_or(PIECE) as usize;
            let offset = query.number("offset", u64::MAX)?.unwrap_or(0);
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let piece = &bytes[start..];
            json::put_bytes(&mut object, "value", &piece[..piece.len().min(most)]);
            object.insert("offset".to_owned(), start.into());
            object.insert("is_cut".to_owned(), (piece.len() > most).into());
        }
        ValueContent::Elements(collection) => {
            let skip = query.number("offset", MOST_PASSED)?.unwrap_or(0) as usize;
            let most = query.number("limit", MOST_KEYS)?.unwrap_or(ELEMENTS) as usize;
            let (elements, more) = scope.elements(&collection, skip, most, PAGE_BYTES)?;
            object.insert("elements".to_owned(), elements.into());
            object.insert("offset".to_owned(), skip.into());
            object.insert("is_cut".to_owned(), more.into());
        }
    }
    Ok(object.into())
}

/// Returns a whole value's bytes without any encoding.
pub(super) fn raw(store: &ServerStore, query: &QueryString) -> Result<Vec<u8>, HttpError> {
    let scope = KeyScope::of(store, query)?;
    let (key, stored) = wanted(query, &scope)?;
    let stored = stored.ok_or_else(|| no_such(key))?;
    match scope.describe(&stored, store.now_ms())? {
        None => Err(no_such(key)),
        Some(ValueDescription {
            holds: ValueContent::Bytes(bytes),
            ..
        }) => Ok(bytes.to_vec()),
        Some(ValueDescription { kind, .. }) => Err(HttpError::bad(format!(
            "the key holds a {kind}, whose elements cannot be downloaded as one value; use /api/value"
        ))),
    }
}
