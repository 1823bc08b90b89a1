//! Removes ranges of members. If a range is large, the remaining members are rewritten under a new
//! collection number instead.

use super::range::{RangeBoundKind, RangeMembers, ZrangeArguments, find, visit};
use super::{CommandResult, ScoredMember, remove, save, sorted_set};
use crate::error::CommandError;
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::pages::ElementRange;
use crate::store::model::CollectionHeader;
use crate::store::model::format::{self, InnerKey};
use crate::store::{ChunkCounter, CommandTransaction, StagingWriter, WalkDirection};
use std::ops::ControlFlow;

/// Rewrites a set under a new collection number, without the members of an element range.
fn without(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
    set: &CollectionHeader,
    stretch: &ElementRange,
) -> CommandResult {
    let (start, end) = ends(transaction, stretch)?;
    let mut new = transaction.new_collection(set.kind)?;
    new.count = set.count - stretch.count;
    let mut staging = StagingWriter::new(transaction, transaction.database, new.number);
    let mut counting = ChunkCounter::new(new.count);
    let whole = format::scores(transaction.database, set.number);
    for (start, end) in [(whole.0, start), (end, whole.1)] {
        let mut scan = transaction.scan(start, end, WalkDirection::Forward);
        while let Some((place, _)) = scan.next()? {
            let (score, member) = format::scored_member_of(&place);
            let (database, number) = (transaction.database, new.number);
            let name = format::sorted_member_key(database, number, member);
            staging.put(name, format::encode_score(score).to_vec())?;
            staging.put(format::score_key(database, number, score, member), Vec::new())?;
            counting.add(&place);
        }
    }
    staging.finish(transaction)?;
    transaction.adopt_order(&mut new, counting)?;
    transaction.replace(key, set, new);
    Ok(())
}

/// Returns the score keys that delimit an element range: its first key, and the smallest key after
/// its last one.
fn ends(
    transaction: &CommandTransaction<'_>,
    stretch: &ElementRange,
) -> Result<(InnerKey, InnerKey), CommandError> {
    let mut scan = transaction.scan(stretch.start.clone(), stretch.end.clone(), stretch.direction);
    for _ in 0..stretch.skip {
        scan.next()?;
    }
    let (mut first, mut last) = (InnerKey::new(), InnerKey::new());
    for index in 0..stretch.count {
        let Some((key, _)) = scan.next()? else { break };
        if index == 0 {
            first = key[..].into();
        }
        last = key[..].into();
    }
    let (start, mut end) = match stretch.direction {
        WalkDirection::Forward => (first, last),
        WalkDirection::Backward => (last, first),
    };
    end.push(0);
    Ok((start, end))
}

/// Maximum total size in bytes of members to remove one by one. Beyond it, the remaining members
/// are rewritten.
const REMOVED_SINGLY: usize = 2 << 20;

/// Memory overhead of a member, in bytes, besides its content.
const MEMBER_BYTES: usize = 64;

/// Returns the members in an element range, or `None` if they are too large to be removed one by
/// one.
fn few(
    transaction: &CommandTransaction<'_>,
    stretch: &ElementRange,
) -> Result<Option<Vec<ScoredMember>>, CommandError> {
    let (mut members, mut bytes) = (Vec::new(), 0);
    visit(transaction, stretch, |member, score| {
        bytes += member.len() + MEMBER_BYTES;
        members.push((member.to_vec(), score));
        if bytes > REMOVED_SINGLY {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok((bytes <= REMOVED_SINGLY).then_some(members))
}

fn remove_all(transaction: &mut CommandTransaction<'_>, key: &[u8], found: RangeMembers) -> CommandResult {
    let Some(mut set) = sorted_set(transaction, key)? else {
        return Ok(());
    };
    let members = match found {
        RangeMembers::Listed(members) if members.is_empty() => return Ok(()),
        RangeMembers::Listed(members) => members,
        RangeMembers::Stretch(stretch) if stretch.count == 0 => return Ok(()),
        RangeMembers::Stretch(stretch) if stretch.count == set.count => {
            set.count = 0;
            transaction.save(key, &set);
            return Ok(());
        }
        RangeMembers::Stretch(stretch) => match few(transaction, &stretch)? {
            Some(members) => members,
            None => return without(transaction, key, &set, &stretch),
        },
    };
    for (member, score) in &members {
        remove(transaction, &mut set, member, *score)?;
    }
    save(transaction, key, &mut set)
}

macro_rules! removals {
    ($($name:ident, $by:ident;)+) => {$(
        pub(crate) fn $name(
            transaction: &mut CommandTransaction<'_>,
            args: Args<'_>,
            reply: &mut ReplyWriter<'_>,
        ) -> CommandResult {
            let wanted = ZrangeArguments::new(args, RangeBoundKind::$by, WalkDirection::Forward);
            let found = find(transaction, args.at(1), &wanted)?;
            reply.integer(i64::try_from(found.len()).unwrap_or(i64::MAX));
            remove_all(transaction, args.at(1), found)
        }
    )+};
}

removals! {
    zrem_range_by_rank, Rank;
    zrem_range_by_score, Score;
    zrem_range_by_lex, Member;
}
