//! The operations of a session, chosen at random.

use super::driver::{Driver, KEYS, Session};
use super::history::{COUNTERS, ELEMENT, LISTS, Op};
use super::slow::stop;
use crate::error::Result;
use crate::keyspace::Keyspace;

impl Driver<'_> {
    fn keyspace(&self, key: &[u8]) -> Keyspace {
        match key[0] {
            LISTS => self.lists.clone(),
            COUNTERS => self.counters.clone(),
            _ => self.registers.clone(),
        }
    }

    /// Reads one or several keys, or scans a range.
    pub(super) fn read(&mut self, session: &mut Session) -> Result<()> {
        let letter = self.letter();
        let op = match self.random.u32(0..10) {
            0..4 => {
                let (key, purpose) = (self.key(letter), self.random.u32(0..8));
                let (transaction, keyspace) = (&mut session.transaction, self.keyspace(&key));
                let seen = self.slowly(|| match purpose {
                    0 => transaction.get_for_update(&keyspace, &key[1..]),
                    1 => transaction.get_shared(&keyspace, &key[1..]),
                    _ => transaction.get(&keyspace, &key[1..]),
                })?;
                vec![Op::Get {
                    key,
                    seen: seen.map(Vec::from),
                    for_update: purpose < 2,
                }]
            }
            4 => {
                let key = self.key(letter);
                let (transaction, keyspace) = (&mut session.transaction, self.keyspace(&key));
                let seen = self.slowly(|| transaction.get_untracked(&keyspace, &key[1..]))?;
                vec![Op::Peek {
                    key,
                    seen: seen.map(Vec::from),
                }]
            }
            5 => {
                let (low, high) = self.range(letter);
                let (transaction, keyspace) = (&mut session.transaction, self.keyspace(&low));
                self.slowly(|| transaction.depend_on_range(&keyspace, &low[1..]..&high[1..]))?;
                let since = self.history.committed.len();
                vec![Op::Depend { low, high, since }]
            }
            6 => {
                let keys = [self.key(letter), self.key(letter)];
                let (transaction, keyspace) = (&mut session.transaction, self.keyspace(&keys[0]));
                let names = keys.iter().map(|key| &key[1..]);
                let seen = self.slowly(|| transaction.multi_get(&keyspace, names))?;
                let each = keys.into_iter().zip(seen);
                each.map(|(key, seen)| Op::Get {
                    key,
                    seen: seen.map(Vec::from),
                    for_update: false,
                })
                .collect()
            }
            _ => vec![self.walk(session, letter)?],
        };
        session.ops.extend(op);
        Ok(())
    }

    fn walk(&mut self, session: &mut Session, letter: u8) -> Result<Op> {
        let (low, high) = self.range(letter);
        let (most, is_backward) = (self.random.usize(1..=usize::from(KEYS) + 1), self.random.bool());
        let keyspace = self.keyspace(&low);
        let transaction = &mut session.transaction;
        let (seen, has_ended) = self.slowly(|| {
            let mut iter = transaction.range(&keyspace, &low[1..]..&high[1..]);
            let (mut seen, mut has_ended) = (Vec::new(), false);
            while seen.len() < most && !has_ended {
                stop();
                let next = match is_backward {
                    false => iter.next(),
                    true => iter.next_back(),
                };
                match next.transpose()? {
                    Some((key, value)) => seen.push(([&[letter], &key[..]].concat(), value.into_vec())),
                    None => has_ended = true,
                }
            }
            Ok::<_, crate::error::Error>((seen, has_ended))
        })?;
        Ok(Op::Walk {
            low,
            high,
            is_backward,
            seen,
            has_ended,
        })
    }

    /// Writes to a key or a range. Sometimes reads the key first.
    pub(super) fn write(&mut self, session: &mut Session) -> Result<()> {
        let letter = self.letter();
        let (key, element) = (self.key(letter), self.value(letter));
        let keyspace = self.keyspace(&key);
        let (transaction, name) = (&mut session.transaction, &key[1..]);
        let ops = if letter == COUNTERS && self.random.u32(0..4) > 0 {
            let number = self.random.i64(1..1000);
            self.slowly(|| transaction.merge(&keyspace, name, number.to_le_bytes()))?;
            vec![Op::Add { key, number }]
        } else if letter == LISTS {
            match self.random.bool() {
                true => {
                    self.slowly(|| transaction.merge(&keyspace, name, &element))?;
                    vec![Op::Append { key, element }]
                }
                // Read the list, and write it back with an additional element.
                false => {
                    let seen = self.slowly(|| transaction.get(&keyspace, name))?.map(Vec::from);
                    let mut list = seen.clone().unwrap_or_default();
                    list.extend(&element);
                    let read = Op::Get {
                        key: key.clone(),
                        seen,
                        for_update: false,
                    };
                    // Record the read now, in case the write fails.
                    session.ops.push(read);
                    let transaction = &mut session.transaction;
                    self.slowly(|| transaction.put(&keyspace, &key[1..], &list))?;
                    vec![Op::Put { key, value: list }]
                }
            }
        } else {
            match self.random.u32(0..8) {
                0 => {
                    self.slowly(|| transaction.delete(&keyspace, name))?;
                    vec![Op::Delete { key }]
                }
                1 => {
                    let (low, high) = self.range(letter);
                    self.slowly(|| transaction.delete_range(&keyspace, &low[1..], Some(&high[1..])))?;
                    vec![Op::DeleteRange { low, high }]
                }
                2 | 3 => {
                    // Expect an earlier value of the key, or expect it to have none.
                    let expected = self.random.bool().then(|| keyspace.get(name).unwrap());
                    let expected = expected.flatten().map(Vec::from);
                    let new = Some(&element[..]);
                    let swap = || transaction.compare_and_set(&keyspace, name, expected.as_deref(), new);
                    let done = self.slowly(swap)?;
                    vec![Op::Swap {
                        key,
                        expected,
                        value: element,
                        done,
                    }]
                }
                _ => {
                    self.slowly(|| transaction.put(&keyspace, name, &element))?;
                    vec![Op::Put { key, value: element }]
                }
            }
        };
        debug_assert!(
            ops.iter()
                .all(|op| !matches!(op, Op::Append { element, .. } if element.len() != ELEMENT))
        );
        session.ops.extend(ops);
        Ok(())
    }
}
