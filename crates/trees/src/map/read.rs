//! Point lookups in a map: all of it is in memory, so that none ever waits.

use super::{Map, Version};
use alluvium_base::Sequence;
use alluvium_dictionary::contract;
use alluvium_dictionary::gather::{Gather, Known};
use alluvium_dictionary::merge::Operator;
use alluvium_storage::{NodePointer, Pending, Result};
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

/// Reads one version of a map.
pub struct Reader<'m> {
    version: arc_swap::Guard<Arc<Version>>,
    _map: &'m Map,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("version", &self.version.number)
            .field("cut", &self.version.cut)
            .finish_non_exhaustive()
    }
}

impl contract::Lookup for Map {
    type Reader<'m> = Reader<'m>;

    fn reader(&self) -> Reader<'_> {
        Reader {
            version: self.shared.version.load(),
            _map: self,
        }
    }
}

/// How far the lookup of one key has come: what memtables have said about it.
#[derive(Debug, Default)]
pub struct Course {
    known: Known,
    /// The version that it was begun in.
    version: Option<u64>,
}

impl contract::Course for Course {
    fn resume<'op>(&mut self, operator: Option<&'op dyn Operator>) -> Gather<'op> {
        Gather {
            operator,
            known: std::mem::take(&mut self.known),
        }
    }

    fn suspend(&mut self, gather: Gather<'_>) {
        self.known = gather.known;
    }

    fn missing(&self) -> &[NodePointer] {
        &[]
    }

    fn asked(&mut self, _pending: &Pending) {}
}

impl contract::Reader for Reader<'_> {
    type Course = Course;

    fn cut(&self) -> Sequence {
        self.version.cut
    }

    fn gather(&mut self, key: &[u8], gather: &mut Gather<'_>) -> Result<()> {
        if let Some(entries) = self.version.keys.get(key) {
            for entry in entries.iter() {
                if gather.message(&entry.message()).is_break() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn gather_many(&mut self, keys: &[&[u8]], gathers: &mut [Gather<'_>]) -> Result<()> {
        assert_eq!(keys.len(), gathers.len(), "a lookup for each key");
        let mut pairs = keys.iter().zip(gathers);
        pairs.try_for_each(|(key, gather)| self.gather(key, gather))
    }

    fn gather_many_in_memory(&mut self, keys: &[&[u8]], gathers: &mut [Gather<'_>]) -> Result<bool> {
        self.gather_many(keys, gathers)?;
        Ok(true)
    }

    fn begin(&self, course: &mut Course, at: Sequence, now_ms: u64) {
        course.known.reset(at, now_ms);
        course.version = Some(self.version.number);
    }

    fn is_of(&self, course: &Course) -> bool {
        course.version == Some(self.version.number)
    }

    fn advance(&mut self, key: &[u8], gather: &mut Gather<'_>, _course: &mut Course) -> Poll<Result<()>> {
        Poll::Ready(self.gather(key, gather))
    }
}
