//! Replies with a whole collection, read and written page by page so that the whole reply is never
//! in memory.
//!
//! The command writes the first page when it executes. If there are more pages and the reply may be
//! sent in parts, a [`ReplyTail`] writes the rest. It iterates over a snapshot taken before the
//! command's locks were released, and writes a page whenever the client has read the previous one.
//! Between MULTI and EXEC, a reply cannot be sent in parts, so it must fit into the client's output
//! limit.

use super::args::check_room;
use crate::error::CommandError;
use crate::net::wait_hooks;
use crate::protocol::resp::{ReplyProgress, ReplyTail, ReplyWriter, RespVersion};
use crate::store::model::format::{self, InnerKey};
use crate::store::{CommandTransaction, WalkDirection};
use alluvium::{Iter, Keyspace};

/// Approximate size of a page in bytes.
pub(super) const PAGE: usize = 64 << 10;

/// The part of each element that a reply contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementProjection {
    /// The element's value: of a list, or of a hash for HVALS.
    Value,
    /// A set's member, or a hash's field.
    Member,
    /// A hash's field and value.
    Pair,
    /// A sorted set's member, in score order.
    Ranked,
    /// A sorted set's member and its score, in score order.
    Scored,
}

impl ElementProjection {
    fn write(self, reply: &mut ReplyWriter<'_>, key: &[u8], value: &[u8]) {
        match self {
            ElementProjection::Value => reply.bulk(value),
            ElementProjection::Member => reply.bulk(format::member_of(key).1),
            ElementProjection::Pair => {
                reply.bulk(format::member_of(key).1);
                reply.bulk(value);
            }
            ElementProjection::Ranked => reply.bulk(format::scored_member_of(key).1),
            ElementProjection::Scored => {
                let (score, member) = format::scored_member_of(key);
                if reply.version() == RespVersion::Three {
                    reply.array(2);
                }
                reply.bulk(member);
                reply.double(score);
            }
        }
    }
}

/// A range of consecutive elements: those between the keys `start` and `end`, without the first
/// `skip` and limited to `count`.
#[derive(Clone, Debug)]
pub(super) struct ElementRange {
    pub(super) start: InnerKey,
    pub(super) end: InnerKey,
    pub(super) direction: WalkDirection,
    pub(super) skip: u64,
    pub(super) count: u64,
}

impl ElementRange {
    /// Returns the range of all elements of a list, a set or a hash.
    pub(super) fn whole(database: u8, number: u64, count: u64) -> ElementRange {
        let start = format::elements(database, number);
        ElementRange {
            end: format::behind(&start),
            start,
            direction: WalkDirection::Forward,
            skip: 0,
            count,
        }
    }

    /// Removes the element with this key and all elements before it from the range.
    fn behind(&mut self, key: &[u8]) {
        match self.direction {
            WalkDirection::Forward => {
                self.start = key.into();
                self.start.push(0);
            }
            WalkDirection::Backward => self.end = key.into(),
        }
    }
}

fn missing(left: u64) -> CommandError {
    CommandError::Refused(std::borrow::Cow::Owned(format!(
        "ERR {left} elements of a collection are missing; check the store with `alluvium check`"
    )))
}

/// Writes the elements in a range as a reply. The caller must already have written their number.
pub(super) fn write(
    transaction: &CommandTransaction<'_>,
    reply: &mut ReplyWriter<'_>,
    mut stretch: ElementRange,
    show: ElementProjection,
) -> Result<(), CommandError> {
    let began = reply.position();
    let mut scan = transaction.scan(stretch.start.clone(), stretch.end.clone(), stretch.direction);
    for _ in 0..stretch.skip {
        scan.next()?;
    }
    while stretch.count > 0 {
        let Some((key, value)) = scan.next()? else {
            return Err(missing(stretch.count));
        };
        show.write(reply, &key, &value);
        stretch.count -= 1;
        if reply.position() - began > PAGE && stretch.count > 0 {
            if reply.accepts_tail() {
                stretch.behind(&key);
                let data = transaction.store.data.clone();
                reply.set_tail(Box::new(CollectionReplyTail {
                    data,
                    stretch,
                    show,
                    iter: None,
                }));
                return Ok(());
            }
            check_room(reply)?;
        }
    }
    Ok(())
}

/// The rest of a reply's pages.
struct CollectionReplyTail {
    data: Keyspace,
    stretch: ElementRange,
    show: ElementProjection,
    iter: Option<Iter>,
}

impl ReplyTail for CollectionReplyTail {
    fn begin(&mut self) {
        let range = &self.stretch.start[..]..&self.stretch.end[..];
        self.iter = Some(self.data.range(range));
    }

    fn write(&mut self, reply: &mut ReplyWriter<'_>) -> Result<ReplyProgress, CommandError> {
        let _may_wait = wait_hooks::may_wait();
        let began = reply.position();
        while self.stretch.count > 0 {
            if reply.position() - began > PAGE {
                return Ok(ReplyProgress::More);
            }
            let next = match (&mut self.iter, self.stretch.direction) {
                (None, _) => None,
                (Some(iter), WalkDirection::Forward) => iter.lend()?,
                (Some(iter), WalkDirection::Backward) => iter.lend_back()?,
            };
            let Some((key, value)) = next else {
                return Err(missing(self.stretch.count));
            };
            self.show.write(reply, key, value);
            self.stretch.count -= 1;
        }
        Ok(ReplyProgress::Whole)
    }
}
