//! Messages, and how two messages for the same key are merged (thesis, table 5.1).

use std::fmt;

/// What a message does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageAction {
    Insert = 1,
    /// Combines the key's value with an operand. If the key has no value, nothing changes.
    Update = 2,
    Delete = 3,
}

impl MessageAction {
    /// Returns the action with the given number, or `None` if there is none.
    #[must_use]
    pub fn of(number: u8) -> Option<MessageAction> {
        [
            MessageAction::Insert,
            MessageAction::Update,
            MessageAction::Delete,
        ]
        .into_iter()
        .find(|action| *action as u8 == number)
    }
}

/// The operator that applies updates to values. It must be associative, but need not be
/// commutative.
///
/// Associative means that `combine(combine(a, b), c)` equals `combine(a, combine(b, c))`. This is
/// required because updates may be combined with each other before they reach the value. A result
/// must not exceed the tree's length limit for values. If it does, the write is refused. If a flush
/// is in progress at that point, all further writes are refused until the tree is reopened.
pub trait UpdateOperator: Send + Sync + fmt::Debug {
    /// Combines an older and a newer value, and writes the result to `into`, which is empty at
    /// first.
    fn combine(&self, older: &[u8], younger: &[u8], into: &mut Vec<u8>);

    /// Called with each value that leaves the tree because it was replaced or its key was deleted.
    fn dropped(&self, _value: &[u8]) {}
}

/// An operator that makes an update replace the value of an existing key.
#[derive(Clone, Copy, Debug)]
pub struct ReplaceOperator;

impl UpdateOperator for ReplaceOperator {
    fn combine(&self, _older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
        into.extend_from_slice(younger);
    }
}

/// Merges an older and a newer message for the same key. Writes the resulting operand to `into`,
/// and returns the resulting action.
pub fn merge(
    operator: &dyn UpdateOperator,
    older: (MessageAction, &[u8]),
    younger: (MessageAction, &[u8]),
    into: &mut Vec<u8>,
) -> MessageAction {
    into.clear();
    match (older.0, younger.0) {
        // A delete must be kept, because it also hides older messages and values in lower nodes.
        (_, MessageAction::Delete) | (MessageAction::Delete, MessageAction::Update) => MessageAction::Delete,
        (_, MessageAction::Insert) => {
            into.extend_from_slice(younger.1);
            MessageAction::Insert
        }
        (MessageAction::Insert | MessageAction::Update, MessageAction::Update) => {
            operator.combine(older.1, younger.1, into);
            older.0
        }
    }
}

/// Applies a message to a key's value, and writes the new value to `into`. Returns whether the key
/// then has a value.
pub(in crate::paged) fn fold(
    operator: &dyn UpdateOperator,
    value: Option<&[u8]>,
    message: (MessageAction, &[u8]),
    into: &mut Vec<u8>,
) -> bool {
    let base = value.map_or((MessageAction::Delete, &[][..]), |value| {
        (MessageAction::Insert, value)
    });
    let action = merge(operator, base, message, into);
    assert!(action != MessageAction::Update, "a state is a value or none");
    action == MessageAction::Insert
}

/// A message for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMessage<'a> {
    pub key: &'a [u8],
    pub action: MessageAction,
    /// The value of an insert, or the operand of an update. It is empty for a delete.
    pub operand: &'a [u8],
}

/// A list of messages in key order, with at most one message per key. It owns its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageList {
    bytes: Vec<u8>,
    /// For each message, its start in `bytes`, the lengths of its key and its operand, and its
    /// action.
    items: Vec<(u32, u16, u16, MessageAction)>,
}

impl MessageList {
    #[must_use]
    pub fn new() -> MessageList {
        MessageList::default()
    }

    /// Appends a message. Its key must be greater than all keys in the list.
    pub fn push(&mut self, message: NodeMessage<'_>) {
        debug_assert!(
            self.last().is_none_or(|last| last.key < message.key),
            "messages are in key order"
        );
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(message.key);
        self.bytes.extend_from_slice(message.operand);
        let (key, operand) = (message.key.len() as u16, message.operand.len() as u16);
        self.items.push((start, key, operand, message.action));
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn last(&self) -> Option<NodeMessage<'_>> {
        self.len().checked_sub(1).map(|at| self.get(at))
    }

    /// Returns the message at an index.
    ///
    /// # Panics
    /// If the index is out of bounds.
    #[must_use]
    pub fn get(&self, at: usize) -> NodeMessage<'_> {
        assert!(at < self.items.len(), "message {at} of {}", self.items.len());
        let (start, key, operand, action) = self.items[at];
        let (start, key, operand) = (start as usize, usize::from(key), usize::from(operand));
        NodeMessage {
            key: &self.bytes[start..start + key],
            action,
            operand: &self.bytes[start + key..start + key + operand],
        }
    }

    /// Returns the messages in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = NodeMessage<'_>> + DoubleEndedIterator {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Returns the number of messages whose keys are below `key`.
    #[must_use]
    pub fn below(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle).key < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Splits the list in two: the messages whose keys are below `key`, and the others.
    #[must_use]
    pub fn split(&self, key: &[u8]) -> [MessageList; 2] {
        let at = self.below(key);
        let mut parts = [MessageList::new(), MessageList::new()];
        for (place, message) in self.iter().enumerate() {
            parts[usize::from(place >= at)].push(message);
        }
        assert!(parts[0].len() == at, "each is on its side");
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operator that appends operands. It is associative, but not commutative.
    #[derive(Debug)]
    struct ConcatUpdates;

    impl UpdateOperator for ConcatUpdates {
        fn combine(&self, older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
            into.extend_from_slice(older);
            into.extend_from_slice(younger);
        }
    }

    /// An operator whose operands are maps x → a x + b modulo 251. The newer map is applied to the
    /// result of the older one.
    #[derive(Debug)]
    struct AffineOperator;

    impl UpdateOperator for AffineOperator {
        fn combine(&self, older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
            let of = |bytes: &[u8], at: usize| u32::from(bytes[at]);
            let a = of(older, 0) * of(younger, 0) % 251;
            let b = (of(younger, 0) * of(older, 1) + of(younger, 1)) % 251;
            into.extend([a as u8, b as u8]);
        }
    }

    #[test]
    fn the_nine_cases_of_table_5_1() {
        use MessageAction::{Delete, Insert, Update};
        let cases = [
            (Insert, Insert, Insert, "w"),
            (Insert, Update, Insert, "vw"),
            (Insert, Delete, Delete, ""),
            (Update, Insert, Insert, "w"),
            (Update, Update, Update, "vw"),
            (Update, Delete, Delete, ""),
            (Delete, Insert, Insert, "w"),
            (Delete, Update, Delete, ""),
            (Delete, Delete, Delete, ""),
        ];
        for (older, younger, expected, operand) in cases {
            let mut into = b"before".to_vec();
            let action = merge(&ConcatUpdates, (older, b"v"), (younger, b"w"), &mut into);
            assert_eq!(
                (action, &into[..]),
                (expected, operand.as_bytes()),
                "{older:?} {younger:?}"
            );
        }
    }

    fn folded(
        operator: &dyn UpdateOperator,
        list: &[(MessageAction, Vec<u8>)],
        rng: &mut fastrand::Rng,
    ) -> (MessageAction, Vec<u8>) {
        if let [only] = list {
            return only.clone();
        }
        let at = rng.usize(1..list.len());
        let (left, right) = (
            folded(operator, &list[..at], rng),
            folded(operator, &list[at..], rng),
        );
        let mut into = Vec::new();
        let action = merge(operator, (left.0, &left.1), (right.0, &right.1), &mut into);
        (action, into)
    }

    #[test]
    fn messages_folded_in_any_order_give_what_they_give_one_by_one() {
        let mut rng = fastrand::Rng::with_seed(11);
        for round in 0..20_000 {
            let operator: &dyn UpdateOperator = if round % 2 == 0 {
                &ConcatUpdates
            } else {
                &AffineOperator
            };
            let mut draw = || vec![rng.u8(..251), rng.u8(..251)];
            let (first, operands) = (draw(), (0..6).map(|_| draw()).collect::<Vec<_>>());
            let list: Vec<(MessageAction, Vec<u8>)> = operands
                .into_iter()
                .take(rng.usize(1..=6))
                .map(|operand| (MessageAction::of(rng.u8(1..=3)).unwrap(), operand))
                .collect();
            let mut state = rng.bool().then_some(first);
            let at_once = folded(operator, &list, &mut rng);
            let mut into = Vec::new();
            let exists = fold(operator, state.as_deref(), (at_once.0, &at_once.1), &mut into);
            let at_once = exists.then_some(into);
            for (action, operand) in &list {
                let mut into = Vec::new();
                let exists = fold(operator, state.as_deref(), (*action, operand), &mut into);
                state = exists.then_some(into);
            }
            assert_eq!(at_once, state, "{list:?}");
        }
    }

    #[test]
    fn messages_are_kept_and_divided() {
        let mut messages = MessageList::new();
        for number in 0..20u8 {
            let action = MessageAction::of(number % 3 + 1).unwrap();
            messages.push(NodeMessage {
                key: &[number * 2],
                action,
                operand: &vec![number; usize::from(number)],
            });
        }
        assert_eq!(messages.get(7).operand, [7; 7]);
        for key in 0..41u8 {
            let [left, right] = messages.split(&[key]);
            assert_eq!(left.len(), usize::from(key.div_ceil(2)).min(20));
            let all: Vec<NodeMessage<'_>> = left.iter().chain(right.iter()).collect();
            assert_eq!(all, messages.iter().collect::<Vec<_>>());
        }
        assert_eq!(MessageAction::of(0), None);
    }
}
