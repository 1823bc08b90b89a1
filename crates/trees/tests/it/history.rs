//! The reference model: all messages for every key, and the result of a read at any sequence
//! number.

use alluvium_base::{MessageKind, SequenceNumber};
use std::collections::BTreeMap;

/// One message.
#[derive(Clone, Debug)]
struct Event {
    sequence: SequenceNumber,
    kind: MessageKind,
    expires_ms: u64,
    operand: Vec<u8>,
}

/// All messages that a reader may still see. Merge operands are appended.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    events: BTreeMap<Vec<u8>, Vec<Event>>,
    ranges: Vec<(Vec<u8>, Vec<u8>, SequenceNumber)>,
}

impl History {
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        sequence: SequenceNumber,
        kind: MessageKind,
        expires_ms: u64,
        operand: &[u8],
    ) {
        self.events.entry(key.to_vec()).or_default().push(Event {
            sequence,
            kind,
            expires_ms,
            operand: operand.to_vec(),
        });
    }

    pub(crate) fn delete_range(&mut self, start: &[u8], end: &[u8], sequence: SequenceNumber) {
        if start < end {
            self.ranges.push((start.to_vec(), end.to_vec(), sequence));
        }
    }

    /// Returns the value that a reader at sequence number `at` sees at time `now_ms`, derived
    /// directly from the definition of each message kind.
    pub(crate) fn read(&self, key: &[u8], at: SequenceNumber, now_ms: u64) -> Option<Vec<u8>> {
        self.value(key, self.events.get(key)?, at, now_ms)
    }

    fn value(&self, key: &[u8], events: &[Event], at: SequenceNumber, now_ms: u64) -> Option<Vec<u8>> {
        let covers = |(start, end, sequence): &&(Vec<u8>, Vec<u8>, SequenceNumber)| {
            *sequence <= at && start.as_slice() <= key && key < end.as_slice()
        };
        let deleted = self
            .ranges
            .iter()
            .filter(covers)
            .map(|range| range.2)
            .max()
            .unwrap_or(0);
        let mut value: Option<Vec<u8>> = None;
        for event in events
            .iter()
            .filter(|event| event.sequence <= at && event.sequence > deleted)
        {
            value = match event.kind {
                MessageKind::Put if event.expires_ms != 0 && event.expires_ms <= now_ms => None,
                MessageKind::Put => Some(event.operand.clone()),
                MessageKind::Delete => None,
                MessageKind::TimedDelete => value.filter(|_| event.expires_ms > now_ms),
                MessageKind::Merge => {
                    let mut value = value.unwrap_or_default();
                    value.extend_from_slice(&event.operand);
                    Some(value)
                }
            };
        }
        value
    }

    /// Returns all pairs in key order.
    pub(crate) fn scan(&self, at: SequenceNumber, now_ms: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let found = self.events.iter().filter_map(|(key, events)| {
            let value = self.value(key, events, at, now_ms)?;
            Some((key.clone(), value))
        });
        found.collect()
    }

    /// Discards what no reader at or above `horizon` needs: older messages that newer ones hide
    /// from every reader, and range deletes that every reader sees, after applying them.
    pub(crate) fn forget(&mut self, horizon: SequenceNumber) {
        let ranges = &self.ranges;
        self.events.retain(|key, events| {
            let covers = |(start, end, sequence): &&(Vec<u8>, Vec<u8>, SequenceNumber)| {
                *sequence <= horizon && *start <= *key && *key < *end
            };
            let deleted = ranges
                .iter()
                .filter(covers)
                .map(|range| range.2)
                .max()
                .unwrap_or(0);
            events.retain(|event| event.sequence > deleted);
            let base = events
                .iter()
                .rposition(|event| event.sequence <= horizon && !event.kind.needs_older());
            if let Some(base) = base {
                events.drain(..base);
            }
            if let [only] = &events[..]
                && only.sequence <= horizon
                && only.kind == MessageKind::Delete
            {
                events.clear();
            }
            !events.is_empty()
        });
        self.ranges.retain(|range| range.2 > horizon);
    }

    /// Returns whether any message or range delete applies to a key.
    pub(crate) fn touches(&self, key: &[u8]) -> bool {
        self.events.contains_key(key) || self.is_range_deleted(key)
    }

    /// Returns whether a range delete covers a key.
    pub(crate) fn is_range_deleted(&self, key: &[u8]) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|(start, end, _)| start.as_slice() <= key && key < end.as_slice())
    }

    /// Returns the keys that have messages, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        self.events.keys().cloned()
    }

    /// Appends the messages of another history, with `last` added to their sequence numbers.
    pub(crate) fn append(&mut self, newer: History, last: SequenceNumber) {
        for (key, events) in newer.events {
            let events = events.into_iter().map(|event| Event {
                sequence: event.sequence + last,
                ..event
            });
            self.events.entry(key).or_default().extend(events);
        }
        let ranges = newer.ranges.into_iter();
        self.ranges
            .extend(ranges.map(|(start, end, sequence)| (start, end, sequence + last)));
    }

    /// Discards everything newer than `sequence`.
    pub(crate) fn cut(&mut self, sequence: SequenceNumber) {
        self.ranges.retain(|range| range.2 <= sequence);
        self.events.retain(|_, events| {
            events.retain(|event| event.sequence <= sequence);
            !events.is_empty()
        });
    }
}
