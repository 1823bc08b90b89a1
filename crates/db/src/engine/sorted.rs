//! A scan of a hashed structure in key order, for tests. It reads and sorts all keys first, so that
//! the tests of ordered structures apply to this one, too.

use alluvium_dictionary::contract;
use alluvium_dictionary::merge::Direction;
use alluvium_hashes::hashed;
use alluvium_storage::Result;

type Pair = (Box<[u8]>, Box<[u8]>);

/// All keys of a range, sorted.
#[derive(Debug)]
pub(crate) struct Sorted {
    walk: hashed::Iter,
    direction: Direction,
    found: Vec<Pair>,
    is_whole: bool,
    sought: Option<Box<[u8]>>,
    next: usize,
}

impl Sorted {
    pub(super) fn new(walk: hashed::Iter, direction: Direction) -> Sorted {
        Sorted {
            walk,
            direction,
            found: Vec::new(),
            is_whole: false,
            sought: None,
            next: 0,
        }
    }
}

impl contract::Scan for Sorted {
    fn seek(&mut self, key: &[u8]) {
        self.sought = Some(key.into());
    }

    fn leave_out_long_values(&mut self) {
        self.walk.leave_out_long_values();
    }

    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while !self.is_whole {
            match self.walk.next()? {
                Some((key, value)) => self.found.push((key.into(), value.into())),
                None => {
                    self.is_whole = true;
                    self.found.sort();
                    if self.direction == Direction::Backward {
                        self.found.reverse();
                    }
                }
            }
        }
        if let Some(key) = self.sought.take() {
            self.next = self.found.partition_point(|(found, _)| match self.direction {
                Direction::Forward => *found < key,
                Direction::Backward => *found > key,
            });
        }
        let pair = self.found.get(self.next);
        self.next += usize::from(pair.is_some());
        Ok(pair.map(|(key, value)| (&**key, &**value)))
    }
}
