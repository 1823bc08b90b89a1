//! Values returned by reads.

use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::pinned_value::PinnedValue;
use std::borrow::Borrow;
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
///
/// assert_eq!(alluvium::Value::from(b"1094 km".to_vec()), "1094 km");
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

    /// Returns the value as text.
    ///
    /// # Errors
    /// [`Utf8Error`](std::str::Utf8Error) if the value is not UTF-8.
    pub fn to_str(&self) -> Result<&str, std::str::Utf8Error> {
        std::str::from_utf8(self)
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

impl Borrow<[u8]> for Value {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Vec<u8> {
        value.into_vec()
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value(bytes.into())
    }
}

impl TryFrom<Value> for String {
    type Error = std::string::FromUtf8Error;

    fn try_from(value: Value) -> Result<String, std::string::FromUtf8Error> {
        String::from_utf8(value.into_vec())
    }
}

/// Lets a value be compared with a type that has the bytes `$bytes` of `$other`, from both sides.
macro_rules! compare_with {
    ($([$($generic:tt)*] $type:ty, $other:ident => $bytes:expr;)*) => {$(
        impl<$($generic)*> PartialEq<$type> for Value {
            fn eq(&self, $other: &$type) -> bool {
                **self == *$bytes
            }
        }

        impl<$($generic)*> PartialEq<Value> for $type {
            fn eq(&self, value: &Value) -> bool {
                *value == *self
            }
        }
    )*};
}

compare_with! {
    [] [u8], other => other;
    [] &[u8], other => *other;
    [const N: usize] [u8; N], other => other;
    [const N: usize] &[u8; N], other => *other;
    [] Vec<u8>, other => other.as_slice();
    [] str, other => other.as_bytes();
    [] &str, other => other.as_bytes();
    [] String, other => other.as_bytes();
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}
