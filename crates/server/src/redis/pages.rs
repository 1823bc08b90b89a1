//! Replies that are as long as a collection: read and written in pages, so that none of them is in
//! memory whole.
//!
//! The first page is written where the command is executed. Where there is more, and the client
//! takes replies at once, the rest becomes a [`Tail`]: it shows the store as it is when the
//! command's locks are let go, for an iterator stays at its place in the commit order, and is
//! written page by page as the client takes it. Between MULTI and EXEC a reply is needed whole, and
//! has to fit the limit of a client's output.

use super::args::check_room;
use crate::error::Failure;
use crate::model::format::{self, InnerKey};
use crate::resp::{Progress, Reply, Tail, Version};
use crate::store::{Direction, Transaction};
use crate::waits;
use alluvium::{Iter, Keyspace};

/// About how long a page is.
pub(super) const PAGE: usize = 64 << 10;

/// What a reply shows of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// The value: of lists, and of hashes for HVALS.
    Value,
    /// A set's member or a hash's field.
    Member,
    /// A field and its value.
    Pair,
    /// A member from the order of scores.
    Ranked,
    /// The same with its score.
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

/// Elements that lie side by side: `count` of them behind the first `skip`.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub(super) start: InnerKey,
    pub(super) end: InnerKey,
    pub(super) direction: Direction,
    pub(super) skip: u64,
    pub(super) count: u64,
}

impl Stretch {
    /// All elements of a list, a set or a hash.
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

    /// What is left behind an element.
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

/// Writes elements, whose number was written already.
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

/// The pages of a reply behind the first.
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
