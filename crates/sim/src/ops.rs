//! The writes of a commit to an ordered store, and their effects as the ledger records them.

use crate::reference::ModelWrite;
use crate::story::StoryError;
use std::collections::BTreeMap;

/// One write of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOp {
    /// Sets the value of a key, replacing any previous one.
    Put {
        key: Vec<u8>,
        /// The new value of the key.
        value: Vec<u8>,
    },
    /// Removes a key if it exists.
    Delete { key: Vec<u8> },
    /// Appends bytes to the value of a key, which is empty if the key does not exist.
    Merge {
        key: Vec<u8>,
        /// The bytes to append to the value.
        operand: Vec<u8>,
    },
    /// Removes all keys of a range.
    DeleteRange {
        /// The first key of the range.
        start: Vec<u8>,
        /// The end of the range, which is not part of it.
        end: Vec<u8>,
    },
}

/// Returns the values that the keys of a commit have afterwards. Two functions supply the contents
/// from before the commit: `get` reads the value of a key, and `keys` lists the keys from its first
/// argument up to but not including its second.
///
/// ```
/// use alluvium_sim::ops::{WriteOp, outcome};
/// let (key, operand) = (b"a".to_vec(), b"!".to_vec());
/// let get = |_: &[u8]| Ok(Some(b"old".to_vec()));
/// let writes = outcome(&[WriteOp::Merge { key, operand }], get, |_, _| Ok(Vec::new()))?;
/// assert_eq!(writes[0].value.as_deref(), Some(&b"old!"[..]));
/// # Ok::<(), alluvium_sim::StoryError>(())
/// ```
///
/// # Errors
/// The errors of `get` and `keys`.
pub fn outcome(
    ops: &[WriteOp],
    get: impl Fn(&[u8]) -> Result<Option<Vec<u8>>, StoryError>,
    keys: impl Fn(&[u8], &[u8]) -> Result<Vec<Vec<u8>>, StoryError>,
) -> Result<Vec<ModelWrite>, StoryError> {
    let mut after: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
    for op in ops {
        match op {
            WriteOp::Put { key, value } => {
                after.insert(key.clone(), Some(value.clone()));
            }
            WriteOp::Delete { key } => {
                after.insert(key.clone(), None);
            }
            WriteOp::Merge { key, operand } => {
                let before = match after.get(key) {
                    Some(value) => value.clone(),
                    None => get(key)?,
                };
                let mut value = before.unwrap_or_default();
                value.extend_from_slice(operand);
                after.insert(key.clone(), Some(value));
            }
            WriteOp::DeleteRange { start, end } => {
                after.extend(keys(start, end)?.into_iter().map(|key| (key, None)));
                for (key, value) in &mut after {
                    if start <= key && key < end {
                        *value = None;
                    }
                }
            }
        }
    }
    let writes = after.into_iter().map(|(key, value)| ModelWrite { key, value });
    Ok(writes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    #[test]
    fn a_range_delete_hits_what_the_system_shows_and_what_the_commit_wrote_before_it() {
        let put = |key| WriteOp::Put {
            key: bytes(key),
            value: bytes("new"),
        };
        let ops = [
            put("b"),
            put("d"),
            WriteOp::DeleteRange {
                start: bytes("a"),
                end: bytes("d"),
            },
            put("c"),
            WriteOp::Merge {
                key: bytes("d"),
                operand: bytes("er"),
            },
        ];
        let writes = outcome(&ops, |_| Ok(None), |_, _| Ok(vec![bytes("a"), bytes("c")])).expect("it reads");
        let found: Vec<(&[u8], Option<&[u8]>)> = writes
            .iter()
            .map(|write| (&write.key[..], write.value.as_deref()))
            .collect();
        assert_eq!(
            found,
            [
                (&b"a"[..], None),
                (b"b", None),
                (b"c", Some(&b"new"[..])),
                (b"d", Some(b"newer"))
            ]
        );
    }
}
