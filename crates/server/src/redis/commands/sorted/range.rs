//! Ranges of members by rank, by score and by member. A short range is read into memory; for a long
//! one, only position and length are determined.

use super::bounds::{MemberEnd, ScoreEnd, member_end, score_end, scores};
use super::{CommandResult, ScoredMember, sorted_set};
use crate::error::CommandError;
use crate::protocol::resp::{Args, ReplyWriter, RespVersion};
use crate::redis::args::{OptionParser, integer, is, span, too_long};
use crate::redis::pages::{self, ElementProjection, ElementRange, PAGE};
use crate::store::model::CollectionHeader;
use crate::store::model::format::{self, InnerKey};
use crate::store::{CommandTransaction, WalkDirection, WorkingMemory};
use std::ops::{ControlFlow, Range};

/// Replies with members, and with their scores if requested.
pub(super) fn reply_scored(reply: &mut ReplyWriter<'_>, found: &[ScoredMember], with_scores: bool) {
    let nests = with_scores && reply.version() == RespVersion::Three;
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

/// The members in a range.
pub(super) enum RangeMembers {
    /// Members in memory, because they are few or not consecutive in score order.
    Listed(Vec<ScoredMember>),
    /// The position of consecutive members that have not been read yet.
    Stretch(ElementRange),
}

impl RangeMembers {
    pub(super) fn len(&self) -> u64 {
        match self {
            RangeMembers::Listed(members) => members.len() as u64,
            RangeMembers::Stretch(stretch) => stretch.count,
        }
    }
}

/// Calls `each` with the members and scores in an element range, until `each` asks to stop.
pub(super) fn visit(
    transaction: &CommandTransaction<'_>,
    stretch: &ElementRange,
    mut each: impl FnMut(&[u8], f64) -> ControlFlow<()>,
) -> CommandResult {
    let (start, end) = (stretch.start.clone(), stretch.end.clone());
    let mut scan = transaction.scan(start, end, stretch.direction);
    for _ in 0..stretch.skip {
        scan.next()?;
    }
    let mut left = stretch.count;
    while left > 0 {
        let Some((key, _)) = scan.next()? else { break };
        let (score, member) = format::scored_member_of(&key);
        if each(member, score).is_break() {
            break;
        }
        left -= 1;
    }
    Ok(())
}

/// Returns the members in an element range, or `None` if they do not fit into a page.
fn few(
    transaction: &CommandTransaction<'_>,
    stretch: &ElementRange,
) -> Result<Option<Vec<ScoredMember>>, CommandError> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    visit(transaction, stretch, |member, score| {
        bytes += member.len() + size_of::<ScoredMember>();
        found.push((member.to_vec(), score));
        if bytes > PAGE {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok((bytes <= PAGE).then_some(found))
}

/// Converts a range of ranks to the range of elements that have these ranks. If `direction` is
/// backward, ranks are counted from the end of the set.
pub(super) fn by_rank(
    transaction: &mut CommandTransaction<'_>,
    set: &CollectionHeader,
    ranks: Range<u64>,
    direction: WalkDirection,
) -> Result<ElementRange, CommandError> {
    let count = ranks.end.min(set.count).saturating_sub(ranks.start);
    let first = match direction {
        WalkDirection::Forward => ranks.start,
        WalkDirection::Backward => set.count.saturating_sub(ranks.start + 1),
    };
    let beginning = transaction.beginning(set, first.min(set.count.saturating_sub(1)), direction)?;
    Ok(ElementRange {
        start: beginning.start,
        end: beginning.end,
        direction,
        skip: beginning.skip,
        count,
    })
}

/// Reads up to `count` members from an end of a set, and charges their memory. Fails if they do not
/// fit into a reply or into memory.
pub(super) fn first<'s>(
    transaction: &mut CommandTransaction<'s>,
    set: &CollectionHeader,
    count: u64,
    direction: WalkDirection,
    reply: &ReplyWriter<'_>,
) -> Result<(Vec<ScoredMember>, WorkingMemory<'s>), CommandError> {
    let stretch = by_rank(transaction, set, 0..count, direction)?;
    let mut working = WorkingMemory::new(transaction.store);
    let (mut found, mut bytes, mut fits) = (Vec::new(), reply.position(), Ok(()));
    visit(transaction, &stretch, |member, score| {
        bytes += member.len();
        fits = match bytes > reply.most() {
            true => Err(too_long(reply.most())),
            false => working.add(COPIES * member.len() + PER_MEMBER),
        };
        if fits.is_err() {
            return ControlFlow::Break(());
        }
        found.push((member.to_vec(), score));
        ControlFlow::Continue(())
    })?;
    fits?;
    Ok((found, working))
}

/// Number of copies of a popped member in memory, and overhead per member in bytes. The copies are
/// in this list, in the reply and, because removing a member changes up to three keys, in the
/// transaction and its write batch.
const COPIES: usize = 6;
const PER_MEMBER: usize = 384;

/// Maximum number of elements to skip one by one. To skip more, use their rank.
const STEPPED_OVER: u64 = 512;

/// Skips `skip` members in a range of score keys, and returns the next `count` ones.
fn between(
    transaction: &mut CommandTransaction<'_>,
    set: &CollectionHeader,
    (start, end): (InnerKey, InnerKey),
    direction: WalkDirection,
    (skip, count): (u64, u64),
) -> Result<RangeMembers, CommandError> {
    if start >= end {
        return Ok(RangeMembers::Listed(Vec::new()));
    }
    let stretch = ElementRange {
        start,
        end,
        direction,
        skip,
        count,
    };
    if skip <= STEPPED_OVER
        && let Some(found) = few(transaction, &stretch)?
    {
        return Ok(RangeMembers::Listed(found));
    }
    let low = transaction.rank(set, &stretch.start)?;
    let high = transaction.rank(set, &stretch.end)?;
    let count = count.min(high.saturating_sub(low).saturating_sub(skip));
    if count == 0 {
        return Ok(RangeMembers::Listed(Vec::new()));
    }
    let ranks = match direction {
        WalkDirection::Forward => low + skip..low + skip + count,
        WalkDirection::Backward => {
            let first = set.count - high + skip;
            first..first + count
        }
    };
    Ok(RangeMembers::Stretch(by_rank(
        transaction,
        set,
        ranks,
        direction,
    )?))
}

/// Returns the first member and its score from an end of a set, or `None` if the set is empty.
fn end_of(
    transaction: &CommandTransaction<'_>,
    set: &CollectionHeader,
    direction: WalkDirection,
) -> Result<Option<ScoredMember>, CommandError> {
    let (start, end) = format::scores(transaction.database, set.number);
    let mut scan = transaction.scan(start, end, direction);
    Ok(scan.next()?.map(|(key, _)| {
        let (score, member) = format::scored_member_of(&key);
        (member.to_vec(), score)
    }))
}

/// A range of score keys, in score order.
type ScoreKeyRange = (InnerKey, InnerKey);

/// Returns the range of score keys for the members between two member bounds. Redis defines this
/// only for sets in which all scores are equal. For other sets, Redis and this function return the
/// first run of consecutive members that match.
fn member_places(
    transaction: &CommandTransaction<'_>,
    set: &CollectionHeader,
    (low, high): (MemberEnd<'_>, MemberEnd<'_>),
) -> Result<Option<ScoreKeyRange>, CommandError> {
    let whole = format::scores(transaction.database, set.number);
    let first = end_of(transaction, set, WalkDirection::Forward)?;
    let last = end_of(transaction, set, WalkDirection::Backward)?;
    let (Some((first, low_score)), Some((last, high_score))) = (first, last) else {
        return Ok(None);
    };
    if !low.is_below(&last) || !high.is_above(&first) {
        return Ok(None);
    }
    let at = |member| format::score_key(transaction.database, set.number, low_score, member);
    let behind = |member| {
        let mut place = at(member);
        place.push(0);
        place
    };
    if low_score == high_score {
        let start = match low {
            MemberEnd::At(member) => at(member),
            MemberEnd::Beside(member) => behind(member),
            MemberEnd::Lowest | MemberEnd::Highest => whole.0,
        };
        let end = match high {
            MemberEnd::At(member) => behind(member),
            MemberEnd::Beside(member) => at(member),
            MemberEnd::Lowest | MemberEnd::Highest => whole.1,
        };
        return Ok(Some((start, end)));
    }
    let (mut start, mut end) = (None, whole.1.clone());
    let mut scan = transaction.scan(whole.0, whole.1, WalkDirection::Forward);
    while let Some((key, _)) = scan.next()? {
        let (_, member) = format::scored_member_of(&key);
        if start.is_none() && low.is_below(member) {
            start = Some(InnerKey::from(&key[..]));
        }
        if start.is_some() && !high.is_above(member) {
            end = key[..].into();
            break;
        }
    }
    Ok(start.map(|start| (start, end)))
}

/// What a range's bounds refer to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeBoundKind {
    Rank,
    Score,
    Member,
}

/// The parsed arguments of ZRANGE and related commands.
pub(super) struct ZrangeArguments<'a> {
    by: RangeBoundKind,
    direction: WalkDirection,
    ends: (&'a [u8], &'a [u8]),
    limit: Option<(i64, i64)>,
    with_scores: bool,
}

impl<'a> ZrangeArguments<'a> {
    pub(super) fn new(args: Args<'a>, by: RangeBoundKind, direction: WalkDirection) -> ZrangeArguments<'a> {
        ZrangeArguments::with_ends_at(args, 2, by, direction)
    }

    fn with_ends_at(
        args: Args<'a>,
        at: usize,
        by: RangeBoundKind,
        direction: WalkDirection,
    ) -> ZrangeArguments<'a> {
        ZrangeArguments {
            by,
            direction,
            ends: (args.at(at), args.at(at + 1)),
            limit: None,
            with_scores: false,
        }
    }

    /// Parses the arguments of ZRANGESTORE.
    pub(super) fn to_store(args: Args<'a>) -> Result<ZrangeArguments<'a>, CommandError> {
        let ends = ZrangeArguments::with_ends_at(args, 3, RangeBoundKind::Rank, WalkDirection::Forward);
        let wanted = ends.read_from(args, 5, true)?;
        match wanted.with_scores {
            true => Err(CommandError::SYNTAX),
            false => Ok(wanted),
        }
    }

    /// Parses the options after the bounds. Only ZRANGE has options for the meaning of the bounds
    /// and for the direction.
    fn read(self, args: Args<'a>, says_by_what: bool) -> Result<ZrangeArguments<'a>, CommandError> {
        self.read_from(args, 4, says_by_what)
    }

    fn read_from(
        mut self,
        args: Args<'a>,
        at: usize,
        says_by_what: bool,
    ) -> Result<ZrangeArguments<'a>, CommandError> {
        let mut options = OptionParser::new(args, at);
        let mut may_say_by_what = says_by_what;
        while let Some(word) = options.next() {
            if is(word, "WITHSCORES") {
                self.with_scores = true;
            } else if is(word, "LIMIT") && options.left() >= 2 {
                self.limit = Some((integer(options.value()?)?, integer(options.value()?)?));
            } else if says_by_what && is(word, "REV") {
                self.direction = WalkDirection::Backward;
            } else if may_say_by_what && is(word, "BYSCORE") {
                self.by = RangeBoundKind::Score;
                may_say_by_what = false;
            } else if may_say_by_what && is(word, "BYLEX") {
                self.by = RangeBoundKind::Member;
                may_say_by_what = false;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        if self.limit.is_some_and(|(_, count)| count != -1) && self.by == RangeBoundKind::Rank {
            return Err(CommandError::say(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if self.with_scores && self.by == RangeBoundKind::Member {
            return Err(CommandError::say(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        Ok(self)
    }

    /// Returns the lower and the upper bound. Commands in reverse order name the upper bound first.
    fn low_and_high(&self) -> (&'a [u8], &'a [u8]) {
        match self.direction {
            WalkDirection::Forward => self.ends,
            WalkDirection::Backward => (self.ends.1, self.ends.0),
        }
    }

    /// Returns the number of members to skip and the maximum number of members to return.
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

/// A range's bounds after parsing, before any members are looked up.
enum ParsedBounds<'a> {
    Ranks(i64, i64),
    Scores(ScoreEnd, ScoreEnd),
    Members(MemberEnd<'a>, MemberEnd<'a>),
}

pub(super) fn find(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    wanted: &ZrangeArguments<'_>,
) -> Result<RangeMembers, CommandError> {
    let (low, high) = wanted.low_and_high();
    let ends = match wanted.by {
        RangeBoundKind::Rank => ParsedBounds::Ranks(integer(wanted.ends.0)?, integer(wanted.ends.1)?),
        RangeBoundKind::Score => ParsedBounds::Scores(score_end(low)?, score_end(high)?),
        RangeBoundKind::Member => ParsedBounds::Members(member_end(low)?, member_end(high)?),
    };
    let none = Ok(RangeMembers::Listed(Vec::new()));
    let Some(mut set) = sorted_set(transaction, key)? else {
        return none;
    };
    transaction.ensure_counted(key, &mut set)?;
    let (direction, limit) = (wanted.direction, wanted.skip_and_count());
    match ends {
        ParsedBounds::Ranks(start, end) => {
            let ranks = span(start, end, set.count);
            Ok(RangeMembers::Stretch(by_rank(
                transaction,
                &set,
                ranks,
                direction,
            )?))
        }
        ParsedBounds::Scores(low, high) => {
            let places = scores(transaction, &set, (low, high));
            between(transaction, &set, places, direction, limit)
        }
        ParsedBounds::Members(low, high) => match member_places(transaction, &set, (low, high))? {
            None => none,
            Some(places) => between(transaction, &set, places, direction, limit),
        },
    }
}

/// Returns the number of members between two bounds.
fn count(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    wanted: &ZrangeArguments<'_>,
) -> Result<u64, CommandError> {
    let (low, high) = wanted.ends;
    let ends = match wanted.by {
        RangeBoundKind::Rank | RangeBoundKind::Score => {
            ParsedBounds::Scores(score_end(low)?, score_end(high)?)
        }
        RangeBoundKind::Member => ParsedBounds::Members(member_end(low)?, member_end(high)?),
    };
    let Some(mut set) = sorted_set(transaction, key)? else {
        return Ok(0);
    };
    transaction.ensure_counted(key, &mut set)?;
    let places = match ends {
        ParsedBounds::Members(low, high) => member_places(transaction, &set, (low, high))?,
        ParsedBounds::Scores(low, high) => Some(scores(transaction, &set, (low, high))),
        ParsedBounds::Ranks(..) => None,
    };
    match places {
        Some((start, end)) if start < end => {
            let low = transaction.rank(&set, &start)?;
            Ok(transaction.rank(&set, &end)?.saturating_sub(low))
        }
        _ => Ok(0),
    }
}

fn show(
    transaction: &CommandTransaction<'_>,
    reply: &mut ReplyWriter<'_>,
    found: RangeMembers,
    with_scores: bool,
) -> CommandResult {
    let stretch = match found {
        RangeMembers::Listed(members) => {
            reply_scored(reply, &members, with_scores);
            return Ok(());
        }
        RangeMembers::Stretch(stretch) => stretch,
    };
    let doubles = with_scores && reply.version() == RespVersion::Two;
    let replies = stretch.count * if doubles { 2 } else { 1 };
    reply.array(usize::try_from(replies).unwrap_or(usize::MAX));
    let what = if with_scores {
        ElementProjection::Scored
    } else {
        ElementProjection::Ranked
    };
    pages::write(transaction, reply, stretch, what)
}

macro_rules! ranges {
    ($($name:ident, $by:ident, $direction:ident, $says:literal;)+) => {$(
        pub(crate) fn $name(
            transaction: &mut CommandTransaction<'_>,
            args: Args<'_>,
            reply: &mut ReplyWriter<'_>,
        ) -> CommandResult {
            let wanted = ZrangeArguments::new(args, RangeBoundKind::$by, WalkDirection::$direction).read(args, $says)?;
            let found = find(transaction, args.at(1), &wanted)?;
            show(transaction, reply, found, wanted.with_scores)
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

macro_rules! counts {
    ($($name:ident, $by:ident;)+) => {$(
        pub(crate) fn $name(
            transaction: &mut CommandTransaction<'_>,
            args: Args<'_>,
            reply: &mut ReplyWriter<'_>,
        ) -> CommandResult {
            let wanted = ZrangeArguments::new(args, RangeBoundKind::$by, WalkDirection::Forward);
            let count = count(transaction, args.at(1), &wanted)?;
            reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
            Ok(())
        }
    )+};
}

counts! {
    zcount, Score;
    zlexcount, Member;
}
