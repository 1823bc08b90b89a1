//! A scan that returns the keys of a hashed structure in key order, by reading and sorting all of
//! them first. Only tests use it, so that the tests of ordered structures also cover the hashed
//! structure.

use alluvium_dictionary::contract;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_hashes::hashed;
use alluvium_storage::Result;

type BoxedPair = (Box<[u8]>, Box<[u8]>);

/// A scan that reads all keys of a range and sorts them.
#[derive(Debug)]
pub(crate) struct SortedScan {
    walk: hashed::UnorderedIter,
    direction: MergeDirection,
    found: Vec<BoxedPair>,
    is_whole: bool,
    sought: Option<Box<[u8]>>,
    next: usize,
}

impl SortedScan {
    pub(super) fn new(walk: hashed::UnorderedIter, direction: MergeDirection) -> SortedScan {
        SortedScan {
            walk,
            direction,
            found: Vec::new(),
            is_whole: false,
            sought: None,
            next: 0,
        }
    }
}

impl contract::DictionaryScan for SortedScan {
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
                    if self.direction == MergeDirection::Backward {
                        self.found.reverse();
                    }
                }
            }
        }
        if let Some(key) = self.sought.take() {
            self.next = self.found.partition_point(|(found, _)| match self.direction {
                MergeDirection::Forward => *found < key,
                MergeDirection::Backward => *found > key,
            });
        }
        let pair = self.found.get(self.next);
        self.next += usize::from(pair.is_some());
        Ok(pair.map(|(key, value)| (&**key, &**value)))
    }
}
