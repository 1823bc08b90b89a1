//! Values returned by reads.

use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::pinned_value::PinnedValue;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// A value returned by a read. It dereferences to a byte slice and may outlive the store.
///
/// A long value may refer to a page of the cache, which then stays in memory as long as the value.
/// Call [`Value::into_owned`] on values that are kept for a long time.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// let pictures = db.keyspace("pictures")?;
/// pictures.put("elbe", vec![7; 10_000])?;
/// let picture = pictures.get("elbe")?.unwrap();
/// assert_eq!(picture.len(), 10_000);
/// let kept: alluvium::Value = picture.into_owned();
/// drop(db);
/// assert_eq!(kept[9_999], 7);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone)]
pub struct Value(PinnedValue);

/// A key and its value.
pub(crate) type KeyValuePair = (Vec<u8>, Value);

impl Value {
    pub(crate) fn new(found: PinnedValue) -> Value {
        Value(found)
    }

    /// Returns the value, or an empty one if it is long and the reader has asked to omit long
    /// values.
    pub(crate) fn shown(self, long_values: LongValues) -> Value {
        match long_values.shown(&self).len() == self.len() {
            true => self,
            false => Value::default(),
        }
    }

    /// Returns the bytes of the value, copying them if the value refers to a page of the cache.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_vec()
    }

    /// Returns the value with its own copy of the bytes, so that it refers to no page of the cache.
    #[must_use]
    pub fn into_owned(self) -> Value {
        Value(self.0.into_vec().into())
    }

    /// Returns whether the value refers to a page of the cache.
    #[must_use]
    pub fn is_in_page(&self) -> bool {
        self.0.is_in_page()
    }
}

impl Default for Value {
    fn default() -> Value {
        Value(Vec::new().into())
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Vec<u8> {
        value.into_vec()
    }
}

impl PartialEq<[u8]> for Value {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for Value {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Value {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}
