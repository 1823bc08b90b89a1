//! A model of the store's contents, based on the standard library's maps. Each history is applied
//! to both the store and the model.

use super::plan::{Operator, StorePlan};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A key with its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A write with its key and value as bytes.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The last field is the expiry time in milliseconds; 0 means never.
    Put(Vec<u8>, Arc<[u8]>, u64),
    Delete(Vec<u8>),
    /// A delete that takes effect at this time in milliseconds.
    DeleteAt(Vec<u8>, u64),
    Merge(Vec<u8>, Arc<[u8]>),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
}

/// A write to a key since its last delete.
#[derive(Clone, Debug)]
enum Message {
    Put(Arc<[u8]>, u64),
    Merge(Arc<[u8]>),
    DeleteAt(u64),
}

type Keys = BTreeMap<Vec<u8>, Vec<Message>>;

/// A keyspace of the model. Copies share their common data.
#[derive(Clone, Debug)]
pub(crate) struct ModelKeyspace {
    operator: Operator,
    keys: Arc<Keys>,
}

/// A model of a whole store.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    keyspaces: Vec<ModelKeyspace>,
}

/// A deliberate fault of the model, to test that the comparison finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Right,
    /// A range delete spares keys that were merged into.
    RangesSpareMerges,
}

fn fold(operator: Operator, value: Option<Vec<u8>>, operand: &[u8]) -> Vec<u8> {
    let Some(mut value) = value else {
        return operand.to_vec();
    };
    match operator {
        Operator::Add => {
            let number = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            number(&value)
                .wrapping_add(number(operand))
                .to_le_bytes()
                .to_vec()
        }
        Operator::Append | Operator::None => {
            value.extend_from_slice(operand);
            value
        }
    }
}

impl ModelKeyspace {
    fn value_of(&self, messages: &[Message], now_ms: u64) -> Option<Vec<u8>> {
        messages.iter().fold(None, |value, message| match message {
            Message::Put(value, expires) => (*expires == 0 || *expires > now_ms).then(|| value.to_vec()),
            Message::Merge(operand) => Some(fold(self.operator, value, operand)),
            Message::DeleteAt(time) => value.filter(|_| *time > now_ms),
        })
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &[u8], now_ms: u64) -> Option<Vec<u8>> {
        self.value_of(self.keys.get(key)?, now_ms)
    }

    /// Returns all pairs of a range, in key order.
    pub(crate) fn pairs(&self, low: &[u8], high: Option<&[u8]>, now_ms: u64) -> Vec<Pair> {
        let from = self
            .keys
            .range::<[u8], _>((Bound::Included(low), Bound::Unbounded));
        let within = from.take_while(|(key, _)| high.is_none_or(|high| &key[..] < high));
        let pairs =
            within.filter_map(|(key, messages)| Some((key.clone(), self.value_of(messages, now_ms)?)));
        pairs.collect()
    }

    /// Returns all pairs, in key order.
    pub(crate) fn all(&self, now_ms: u64) -> Vec<Pair> {
        self.pairs(&[], None, now_ms)
    }

    /// Returns whether the value of a key may change as time passes.
    pub(crate) fn expires(&self, key: &[u8]) -> bool {
        let messages = self.keys.get(key);
        let expires = |message: &Message| match message {
            Message::Put(_, expires) => *expires != 0,
            Message::DeleteAt(_) => true,
            Message::Merge(_) => false,
        };
        messages.is_some_and(|messages| messages.iter().any(expires))
    }

    fn apply(&mut self, change: &Change, rule: Rule) {
        let keys = Arc::make_mut(&mut self.keys);
        match change {
            Change::Put(key, value, expires) => {
                keys.insert(key.clone(), vec![Message::Put(Arc::clone(value), *expires)]);
            }
            Change::Delete(key) => {
                keys.remove(key);
            }
            Change::DeleteAt(key, time) => {
                if let Some(messages) = keys.get_mut(key) {
                    messages.push(Message::DeleteAt(*time));
                }
            }
            Change::Merge(key, operand) => {
                let messages = keys.entry(key.clone()).or_default();
                match &mut messages[..] {
                    [Message::Put(value, 0)] => {
                        *value = fold(self.operator, Some(value.to_vec()), operand).into();
                    }
                    [] => messages.push(Message::Put(Arc::clone(operand), 0)),
                    _ => messages.push(Message::Merge(Arc::clone(operand))),
                }
            }
            Change::DeleteRange(low, high) => {
                let spares = |messages: &[Message]| rule == Rule::RangesSpareMerges && messages.len() > 1;
                keys.retain(|key, messages| {
                    key < low || high.as_ref().is_some_and(|high| key >= high) || spares(messages)
                });
            }
        }
    }
}

impl Model {
    pub(crate) fn new(plan: &StorePlan) -> Model {
        let keyspaces = plan.keyspaces.iter().map(|keyspace| ModelKeyspace {
            operator: keyspace.operator,
            keys: Arc::default(),
        });
        Model {
            keyspaces: keyspaces.collect(),
        }
    }

    pub(crate) fn keyspace(&self, number: usize) -> &ModelKeyspace {
        &self.keyspaces[number]
    }

    /// Returns the times at which values may change by themselves.
    pub(crate) fn times(&self) -> impl Iterator<Item = u64> {
        let messages = self.keyspaces.iter().flat_map(|keyspace| keyspace.keys.values());
        messages.flatten().filter_map(|message| match message {
            Message::Put(_, time) | Message::DeleteAt(time) => Some(*time),
            Message::Merge(_) => None,
        })
    }

    pub(crate) fn apply(&mut self, number: usize, change: &Change, rule: Rule) {
        self.keyspaces[number].apply(change, rule);
    }

    /// Deletes all keys of a keyspace.
    pub(crate) fn clear(&mut self, number: usize) {
        self.keyspaces[number].keys = Arc::default();
    }
}
