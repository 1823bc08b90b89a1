//! Replies as long as a collection, read and written in pages so that they are never in memory as a
//! whole.
//!
//! The first page is written when the command is executed. If more follows and replies are
//! delivered at once, the rest becomes a [`Tail`]: an iterator over the state of the store at the
//! release of the command's locks, since an iterator reads a snapshot. It is written page by page
//! as the client reads. Between MULTI and EXEC a reply is needed as a whole and must fit the limit
//! of a client's output.

use super::args::check_room;
use crate::error::Failure;
use crate::net::waits;
use crate::protocol::resp::{Progress, Reply, Tail, Version};
use crate::store::model::format::{self, InnerKey};
use crate::store::{Direction, Transaction};
use alluvium::{Iter, Keyspace};

/// Approximate size of a page in bytes.
pub(super) const PAGE: usize = 64 << 10;

/// The part of each element that a reply contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// The value: of a list, or of a hash for HVALS.
    Value,
    /// A member of a set or a field of a hash.
    Member,
    /// A field and its value.
    Pair,
    /// A member, read in score order.
    Ranked,
    /// A member with its score, read in score order.
    Scored,
}

impl Show {
    fn write(self, reply: &mut Reply<'_>, key: &[u8], value: &[u8]) {
        match self {
            Show::Value => reply.bulk(value),
            Show::Member => reply.bulk(format::member_of(key).1),
            Show::Pair => {
                reply.bulk(format::member_of(key).1);
                reply.bulk(value);
            }
            Show::Ranked => reply.bulk(format::scored_member_of(key).1),
            Show::Scored => {
                let (score, member) = format::scored_member_of(key);
                if reply.version() == Version::Three {
                    reply.array(2);
                }
                reply.bulk(member);
                reply.double(score);
            }
        }
    }
}

/// Consecutive elements: `count` of them after the first `skip`.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub(super) start: InnerKey,
    pub(super) end: InnerKey,
    pub(super) direction: Direction,
    pub(super) skip: u64,
    pub(super) count: u64,
}

impl Stretch {
    /// Returns all elements of a list, a set or a hash.
    pub(super) fn whole(database: u8, number: u64, count: u64) -> Stretch {
        let start = format::elements(database, number);
        Stretch {
            end: format::behind(&start),
            start,
            direction: Direction::Forward,
            skip: 0,
            count,
        }
    }

    /// Removes everything up to an element.
    fn behind(&mut self, key: &[u8]) {
        match self.direction {
            Direction::Forward => {
                self.start = key.into();
                self.start.push(0);
            }
            Direction::Backward => self.end = key.into(),
        }
    }
}

fn missing(left: u64) -> Failure {
    Failure::Refused(std::borrow::Cow::Owned(format!(
        "ERR {left} elements of a collection are missing: check the store"
    )))
}

/// Writes elements. Their number has been written already.
pub(super) fn write(
    transaction: &Transaction<'_>,
    reply: &mut Reply<'_>,
    mut stretch: Stretch,
    show: Show,
) -> Result<(), Failure> {
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
            if reply.may_go_on() {
                stretch.behind(&key);
                let data = transaction.store.data.clone();
                reply.go_on(Box::new(Pages {
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

/// The pages of a reply after the first.
struct Pages {
    data: Keyspace,
    stretch: Stretch,
    show: Show,
    iter: Option<Iter>,
}

impl Tail for Pages {
    fn begin(&mut self) {
        let range = &self.stretch.start[..]..&self.stretch.end[..];
        self.iter = Some(self.data.range(range));
    }

    fn write(&mut self, reply: &mut Reply<'_>) -> Result<Progress, Failure> {
        let _may_wait = waits::may_wait();
        let began = reply.position();
        while self.stretch.count > 0 {
            if reply.position() - began > PAGE {
                return Ok(Progress::More);
            }
            let next = match (&mut self.iter, self.stretch.direction) {
                (None, _) => None,
                (Some(iter), Direction::Forward) => iter.lend()?,
                (Some(iter), Direction::Backward) => iter.lend_back()?,
            };
            let Some((key, value)) = next else {
                return Err(missing(self.stretch.count));
            };
            self.show.write(reply, key, value);
            self.stretch.count -= 1;
        }
        Ok(Progress::Whole)
    }
}
