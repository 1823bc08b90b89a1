//! Members by rank, by score, by their own order: read, counted, removed.

use super::super::args::{Options, integer, is, span};
use super::super::walks::{self, Wish, scanned_score};
use super::bounds::{MemberEnd, ScoreEnd, member_end, score_end, scores};
use super::{Done, Scored, remove, score, sorted_set};
use crate::error::Failure;
use crate::model::Collection;
use crate::model::format::{self, InnerKey};
use crate::resp::{Args, Reply, Version};
use crate::store::{Direction, Transaction};
use std::ops::Range;

/// Members and scores, or members alone.
pub(super) fn reply_scored(reply: &mut Reply<'_>, found: &[Scored], with_scores: bool) {
    let nests = with_scores && reply.version() == Version::Three;
    reply.array(if with_scores && !nests {
        2 * found.len()
    } else {
        found.len()
    });
    for (member, score) in found {
        if nests {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(*score);
        }
    }
}

/// Members between two places of the order of scores: `count` of them behind the first `skip`.
fn walk(
    transaction: &Transaction<'_>,
    (start, end): (InnerKey, InnerKey),
    direction: Direction,
    (skip, count): (u64, u64),
) -> Result<Vec<Scored>, Failure> {
    let mut found = Vec::new();
    let mut skipped = 0;
    let mut scan = transaction.scan(start, end, direction);
    while (found.len() as u64) < count {
        let Some((key, _)) = scan.next()? else { break };
        if skipped < skip {
            skipped += 1;
            continue;
        }
        let (score, member) = format::scored_member_of(&key);
        found.push((member.to_vec(), score));
    }
    Ok(found)
}

/// Members by rank, from the end that they are nearer to.
pub(super) fn by_rank(
    transaction: &Transaction<'_>,
    set: &Collection,
    ranks: Range<u64>,
    direction: Direction,
) -> Result<Vec<Scored>, Failure> {
    let ranks = ranks.start..ranks.end.min(set.count);
    let count = ranks.end.saturating_sub(ranks.start);
    let whole = format::scores(transaction.database, set.number);
    if count == 0 {
        return Ok(Vec::new());
    }
    let behind = set.count - ranks.end;
    if ranks.start <= behind {
        return walk(transaction, whole, direction, (ranks.start, count));
    }
    let mut found = walk(transaction, whole, opposite(direction), (behind, count))?;
    found.reverse();
    Ok(found)
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Forward => Direction::Backward,
        Direction::Backward => Direction::Forward,
    }
}

/// Members in a range of members. It is meant for sets whose scores are all equal; of others Redis takes the first stretch that fits.
fn by_member(
    transaction: &Transaction<'_>,
    set: &Collection,
    (low, high): (MemberEnd<'_>, MemberEnd<'_>),
) -> Result<Vec<Scored>, Failure> {
    let whole = format::scores(transaction.database, set.number);
    let first = walk(transaction, whole.clone(), Direction::Forward, (0, 1))?;
    let last = walk(transaction, whole.clone(), Direction::Backward, (0, 1))?;
    let (Some((first, low_score)), Some((last, high_score))) = (first.first(), last.first()) else {
        return Ok(Vec::new());
    };
    if !low.is_below(last) || !high.is_above(first) {
        return Ok(Vec::new());
    }
    let start = match low {
        MemberEnd::At(member) | MemberEnd::Beside(member) if low_score == high_score => {
            format::score_key(transaction.database, set.number, *low_score, member)
        }
        _ => whole.0,
    };
    let mut found = Vec::new();
    let mut scan = transaction.scan(start, whole.1, Direction::Forward);
    while let Some((key, _)) = scan.next()? {
        let (score, member) = format::scored_member_of(&key);
        if !low.is_below(member) {
            continue;
        }
        if !high.is_above(member) {
            break;
        }
        found.push((member.to_vec(), score));
    }
    Ok(found)
}

/// How the ends of a range are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// What ZRANGE and its kin want.
struct Wanted<'a> {
    by: By,
    direction: Direction,
    ends: (&'a [u8], &'a [u8]),
    limit: Option<(i64, i64)>,
    with_scores: bool,
}

impl<'a> Wanted<'a> {
    fn new(args: Args<'a>, by: By, direction: Direction) -> Wanted<'a> {
        Wanted::with_ends_at(args, 2, by, direction)
    }

    fn with_ends_at(args: Args<'a>, at: usize, by: By, direction: Direction) -> Wanted<'a> {
        Wanted {
            by,
            direction,
            ends: (args.at(at), args.at(at + 1)),
            limit: None,
            with_scores: false,
        }
    }

    /// With the options behind the ends. ZRANGE alone says by what, and in which direction.
    fn read(self, args: Args<'a>, says_by_what: bool) -> Result<Wanted<'a>, Failure> {
        self.read_from(args, 4, says_by_what)
    }

    fn read_from(mut self, args: Args<'a>, at: usize, says_by_what: bool) -> Result<Wanted<'a>, Failure> {
        let mut options = Options::new(args, at);
        let mut may_say_by_what = says_by_what;
        while let Some(word) = options.next() {
            if is(word, "WITHSCORES") {
                self.with_scores = true;
            } else if is(word, "LIMIT") && options.left() >= 2 {
                self.limit = Some((integer(options.value()?)?, integer(options.value()?)?));
            } else if says_by_what && is(word, "REV") {
                self.direction = Direction::Backward;
            } else if may_say_by_what && is(word, "BYSCORE") {
                self.by = By::Score;
                may_say_by_what = false;
            } else if may_say_by_what && is(word, "BYLEX") {
                self.by = By::Member;
                may_say_by_what = false;
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        if self.limit.is_some_and(|(_, count)| count != -1) && self.by == By::Rank {
            return Err(Failure::say(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if self.with_scores && self.by == By::Member {
            return Err(Failure::say(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        Ok(self)
    }

    /// The ends, lower one first: whoever goes backward names the upper one first.
    fn low_and_high(&self) -> (&'a [u8], &'a [u8]) {
        match self.direction {
            Direction::Forward => self.ends,
            Direction::Backward => (self.ends.1, self.ends.0),
        }
    }

    /// How many to skip and how many to take.
    fn skip_and_count(&self) -> (u64, u64) {
        match self.limit {
            None => (0, u64::MAX),
            Some((skip, count)) => match u64::try_from(skip) {
                Ok(skip) => (skip, u64::try_from(count).unwrap_or(u64::MAX)),
                Err(_) => (0, 0),
            },
        }
    }
}

/// The ends of a range, read before anything is looked up.
enum Ends<'a> {
    Ranks(i64, i64),
    Scores(ScoreEnd, ScoreEnd),
    Members(MemberEnd<'a>, MemberEnd<'a>),
}

fn find(transaction: &mut Transaction<'_>, key: &[u8], wanted: &Wanted<'_>) -> Result<Vec<Scored>, Failure> {
    let (low, high) = wanted.low_and_high();
    let ends = match wanted.by {
        By::Rank => Ends::Ranks(integer(wanted.ends.0)?, integer(wanted.ends.1)?),
        By::Score => Ends::Scores(score_end(low)?, score_end(high)?),
        By::Member => Ends::Members(member_end(low)?, member_end(high)?),
    };
    let Some(set) = sorted_set(transaction, key)? else {
        return Ok(Vec::new());
    };
    let limit = wanted.skip_and_count();
    match ends {
        Ends::Ranks(start, end) => by_rank(transaction, &set, span(start, end, set.count), wanted.direction),
        Ends::Scores(low, high) => {
            let bounds = scores(transaction, &set, (low, high));
            walk(transaction, bounds, wanted.direction, limit)
        }
        Ends::Members(low, high) => {
            let mut found = by_member(transaction, &set, (low, high))?;
            if wanted.direction == Direction::Backward {
                found.reverse();
            }
            let skip = usize::try_from(limit.0).unwrap_or(usize::MAX);
            let count = usize::try_from(limit.1).unwrap_or(usize::MAX);
            Ok(found.into_iter().skip(skip).take(count).collect())
        }
    }
}

macro_rules! ranges {
    ($($name:ident, $by:ident, $direction:ident, $says:literal;)+) => {$(
        pub(in super::super) fn $name(
            transaction: &mut Transaction<'_>,
            args: Args<'_>,
            reply: &mut Reply<'_>,
        ) -> Done {
            let wanted = Wanted::new(args, By::$by, Direction::$direction).read(args, $says)?;
            let found = find(transaction, args.at(1), &wanted)?;
            reply_scored(reply, &found, wanted.with_scores);
            Ok(())
        }
    )+};
}

ranges! {
    zrange, Rank, Forward, true;
    zrev_range, Rank, Backward, false;
    zrange_by_score, Score, Forward, false;
    zrev_range_by_score, Score, Backward, false;
    zrange_by_lex, Member, Forward, false;
    zrev_range_by_lex, Member, Backward, false;
}

pub(in super::super) fn zrange_store(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let wanted = Wanted::with_ends_at(args, 3, By::Rank, Direction::Forward).read_from(args, 5, true)?;
    if wanted.with_scores {
        return Err(Failure::SYNTAX);
    }
    let found = find(transaction, args.at(2), &wanted)?;
    super::algebra::store(transaction, super::super::args::name(args.at(1))?, &found)?;
    reply.count(found.len());
    Ok(())
}

macro_rules! counts {
    ($($name:ident, $by:ident;)+) => {$(
        pub(in super::super) fn $name(
            transaction: &mut Transaction<'_>,
            args: Args<'_>,
            reply: &mut Reply<'_>,
        ) -> Done {
            let wanted = Wanted::new(args, By::$by, Direction::Forward);
            reply.count(find(transaction, args.at(1), &wanted)?.len());
            Ok(())
        }
    )+};
}

counts! {
    zcount, Score;
    zlexcount, Member;
}

macro_rules! removals {
    ($($name:ident, $by:ident;)+) => {$(
        pub(in super::super) fn $name(
            transaction: &mut Transaction<'_>,
            args: Args<'_>,
            reply: &mut Reply<'_>,
        ) -> Done {
            let wanted = Wanted::new(args, By::$by, Direction::Forward);
            let found = find(transaction, args.at(1), &wanted)?;
            if let Some(mut set) = sorted_set(transaction, args.at(1))?
                && !found.is_empty()
            {
                for (member, score) in &found {
                    remove(transaction, &mut set, member, *score);
                }
                transaction.save(args.at(1), &set);
            }
            reply.count(found.len());
            Ok(())
        }
    )+};
}

removals! {
    zrem_range_by_rank, Rank;
    zrem_range_by_score, Score;
    zrem_range_by_lex, Member;
}

pub(in super::super) fn zcard(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let count = sorted_set(transaction, args.at(1))?.map_or(0, |set| set.count);
    reply.integer(count as i64);
    Ok(())
}

fn reply_score(reply: &mut Reply<'_>, score: Option<f64>) {
    match score {
        None => reply.null(),
        Some(score) => reply.double(score),
    }
}

pub(in super::super) fn zscore(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let score = match sorted_set(transaction, args.at(1))? {
        None => None,
        Some(set) => score(transaction, &set, args.at(2))?,
    };
    reply_score(reply, score);
    Ok(())
}

pub(in super::super) fn zmscore(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let set = sorted_set(transaction, args.at(1))?;
    reply.array(args.len() - 2);
    for member in args.from(2).iter() {
        let found = match &set {
            None => None,
            Some(set) => score(transaction, set, member)?,
        };
        reply_score(reply, found);
    }
    Ok(())
}

/// How many members stand before one, from an end.
fn rank(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    direction: Direction,
) -> Done {
    let Some(set) = sorted_set(transaction, args.at(1))? else {
        reply.null();
        return Ok(());
    };
    let member = args.at(2);
    let Some(score) = score(transaction, &set, member)? else {
        reply.null();
        return Ok(());
    };
    let (start, _) = format::scores(transaction.database, set.number);
    let place = format::score_key(transaction.database, set.number, score, member);
    let mut before = 0;
    let mut scan = transaction.scan(start, place, Direction::Forward);
    while scan.next()?.is_some() {
        before += 1;
    }
    reply.integer(match direction {
        Direction::Forward => before,
        Direction::Backward => set.count as i64 - 1 - before,
    });
    Ok(())
}

pub(in super::super) fn zrank(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    rank(transaction, args, reply, Direction::Forward)
}

pub(in super::super) fn zrev_rank(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    rank(transaction, args, reply, Direction::Backward)
}

pub(in super::super) fn zscan(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let cursor = walks::cursor(args.at(2))?;
    // As in Redis, options are read only where there is something to walk over.
    let Some(set) = sorted_set(transaction, args.at(1))? else {
        walks::begin(reply, 0, 0);
        return Ok(());
    };
    let wish = Wish::new(args, 3)?;
    let start = format::sorted_place_key(transaction.database, set.number, cursor);
    let (end, _) = format::scores(transaction.database, set.number);
    let (next, found) =
        walks::some_elements(transaction, (start, end), wish.count, format::sorted_member_of)?;
    let found: Vec<_> = found
        .into_iter()
        .filter(|(member, _)| wish.fits(member))
        .collect();
    walks::begin(reply, next, 2 * found.len());
    for (member, value) in &found {
        reply.bulk(member);
        reply.bulk(&scanned_score(format::decode_score(value)?));
    }
    Ok(())
}
