//! What reads a structure, whichever it is. The structure of a keyspace is known when a read
//! begins, and each kind's own code is compiled in: nothing is called through a pointer.

use super::dictionaries::Dictionaries;
use crate::structure::Structure;
use alluvium_base::Sequence;
use alluvium_dictionary::contract::{self, Lookup, Scan as _};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::merge::Operator;
use alluvium_storage::{NodePointer, Pending, Result};
use alluvium_trees::{map, tiered};
use std::task::Poll;

/// Runs the same code for each structure.
macro_rules! each {
    ($kind:ident, $value:expr, $own:ident => $does:expr) => {
        match $value {
            $kind::Tiered($own) => $does,
            $kind::Map($own) => $does,
        }
    };
}

/// Reads one state of a dictionary.
#[allow(
    clippy::large_enum_variant,
    reason = "it is on the stack for the length of a lookup"
)]
#[derive(Debug)]
pub(crate) enum Reader<'d> {
    Tiered(tiered::Reader<'d>),
    Map(map::Reader<'d>),
}

impl Dictionaries {
    /// A reader of what a structure holds now. A read that needs memtables loads their list before.
    #[inline]
    pub(super) fn reader(&self, structure: Structure) -> Reader<'_> {
        match structure {
            Structure::Tiered => Reader::Tiered(self.tree.reader()),
            Structure::Map => Reader::Map(self.map().reader()),
        }
    }
}

impl contract::Reader for Reader<'_> {
    type Course = Course;

    #[inline]
    fn cut(&self) -> Sequence {
        each!(Reader, self, own => own.cut())
    }

    #[inline]
    fn gather(&mut self, key: &[u8], gather: &mut Gather<'_>) -> Result<()> {
        each!(Reader, self, own => own.gather(key, gather))
    }

    fn gather_many(&mut self, keys: &[&[u8]], gathers: &mut [Gather<'_>]) -> Result<()> {
        each!(Reader, self, own => own.gather_many(keys, gathers))
    }

    fn gather_many_in_memory(&mut self, keys: &[&[u8]], gathers: &mut [Gather<'_>]) -> Result<bool> {
        each!(Reader, self, own => own.gather_many_in_memory(keys, gathers))
    }

    fn begin(&self, course: &mut Course, at: Sequence, now_ms: u64) {
        match (self, course) {
            (Reader::Tiered(own), Course::Tiered(course)) => own.begin(course, at, now_ms),
            (Reader::Map(own), Course::Map(course)) => own.begin(course, at, now_ms),
            _ => unreachable!("a course is one of its keyspace's structure"),
        }
    }

    fn is_of(&self, course: &Course) -> bool {
        match (self, course) {
            (Reader::Tiered(own), Course::Tiered(course)) => own.is_of(course),
            (Reader::Map(own), Course::Map(course)) => own.is_of(course),
            _ => false,
        }
    }

    fn advance(&mut self, key: &[u8], gather: &mut Gather<'_>, course: &mut Course) -> Poll<Result<()>> {
        match (self, course) {
            (Reader::Tiered(own), Course::Tiered(course)) => own.advance(key, gather, course),
            (Reader::Map(own), Course::Map(course)) => own.advance(key, gather, course),
            _ => unreachable!("a course is one of its keyspace's structure"),
        }
    }
}

/// How far the lookup of one key has come that is polled.
#[derive(Debug)]
pub(crate) enum Course {
    Tiered(tiered::Course),
    Map(map::Course),
}

impl Default for Course {
    fn default() -> Course {
        Course::of(Structure::Tiered)
    }
}

impl Course {
    /// One that has not begun.
    pub(super) fn of(structure: Structure) -> Course {
        match structure {
            Structure::Tiered => Course::Tiered(tiered::Course::default()),
            Structure::Map => Course::Map(map::Course::default()),
        }
    }
}

impl contract::Course for Course {
    fn resume<'op>(&mut self, operator: Option<&'op dyn Operator>) -> Gather<'op> {
        each!(Course, self, own => own.resume(operator))
    }

    fn suspend(&mut self, gather: Gather<'_>) {
        each!(Course, self, own => own.suspend(gather));
    }

    fn missing(&self) -> &[NodePointer] {
        each!(Course, self, own => own.missing())
    }

    fn asked(&mut self, pending: &Pending) {
        each!(Course, self, own => own.asked(pending));
    }
}

/// A walk over a range of keys.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all of them are of the first kind"
)]
#[derive(Debug)]
pub(crate) enum Scan {
    Tiered(tiered::Iter),
    Map(map::Iter),
}

impl Scan {
    /// Goes before the first key at or behind `key`, in the walk's direction.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        each!(Scan, self, own => own.seek(key));
    }

    /// The next key that has a value, and the value.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        each!(Scan, self, own => own.next())
    }
}
