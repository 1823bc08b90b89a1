//! Commands on sorted sets. Each member is stored under two keys: one contains the member and has
//! the score as its value; the other contains score and member and sorts in score order.
//!
//! *Scope*: scores, ranks, and ranges of scores, ranks and members.
//!
//! *Must not depend on*: how a score is encoded in a key; that is left to `store/model/format.rs`.

mod algebra;
mod bounds;
mod change;
mod draw;
mod merge;
mod range;
mod read;
mod rewrite;
mod store;

pub(crate) use algebra::{
    sintercard, zdiff, zdiff_store, zinter, zinter_store, zintercard, zunion, zunion_store,
};
pub(crate) use change::{pop_some, zadd, zincr_by, zpopmax, zpopmin, zrem};
pub(crate) use draw::zrandmember;
pub(crate) use range::{
    zcount, zlexcount, zrange, zrange_by_lex, zrange_by_score, zrev_range, zrev_range_by_lex,
    zrev_range_by_score,
};
pub(crate) use read::{zcard, zmscore, zrank, zrev_rank, zscan, zscore};
pub(crate) use rewrite::{zrem_range_by_lex, zrem_range_by_rank, zrem_range_by_score};
pub(crate) use store::zrange_store;

use crate::error::{CommandError, CommandResult};
use crate::store::CommandTransaction;
use crate::store::model::{CollectionHeader, CollectionKind, format};

/// A member with its score.
type ScoredMember = (Vec<u8>, f64);

fn sorted_set(
    transaction: &mut CommandTransaction<'_>,
    key: &[u8],
) -> Result<Option<CollectionHeader>, CommandError> {
    transaction.collection(key, CollectionKind::SortedSet)
}

/// Returns whether a key holds a sorted set. Fails if it holds a value of another type.
pub(super) fn exists(transaction: &mut CommandTransaction<'_>, key: &[u8]) -> Result<bool, CommandError> {
    Ok(sorted_set(transaction, key)?.is_some())
}

/// Returns a member's score, or `None` if the set does not contain the member.
fn score(
    transaction: &mut CommandTransaction<'_>,
    set: &CollectionHeader,
    member: &[u8],
) -> Result<Option<f64>, CommandError> {
    let place = format::sorted_member_key(transaction.database, set.number, member);
    match transaction.get(&place)? {
        None => Ok(None),
        Some(found) => Ok(Some(format::decode_score(&found)?)),
    }
}

/// Sets a member's score, and adds the member to the set if it is new.
fn put(
    transaction: &mut CommandTransaction<'_>,
    set: &mut CollectionHeader,
    member: &[u8],
    old: Option<f64>,
    new: f64,
) -> CommandResult {
    let (database, number) = (transaction.database, set.number);
    if let Some(old) = old {
        let place = format::score_key(database, number, old, member);
        transaction.delete(place.clone());
        transaction.count_removed(set, &place)?;
    }
    let name = format::sorted_member_key(database, number, member);
    // Adding 0.0 turns minus zero into zero.
    transaction.put(name, format::encode_score(new + 0.0).to_vec(), 0);
    let place = format::score_key(database, number, new, member);
    transaction.put(place.clone(), Vec::new(), 0);
    transaction.count_added(set, &place)?;
    set.count += u64::from(old.is_none());
    Ok(())
}

/// Removes a member. The caller must pass its current score.
fn remove(
    transaction: &mut CommandTransaction<'_>,
    set: &mut CollectionHeader,
    member: &[u8],
    score: f64,
) -> CommandResult {
    let (database, number) = (transaction.database, set.number);
    let place = format::score_key(database, number, score, member);
    transaction.delete(place.clone());
    transaction.delete(format::sorted_member_key(database, number, member));
    transaction.count_removed(set, &place)?;
    set.count -= 1;
    Ok(())
}

/// Saves a set's header after its members have changed, and creates or deletes its chunk counts as
/// needed.
fn save(transaction: &mut CommandTransaction<'_>, key: &[u8], set: &mut CollectionHeader) -> CommandResult {
    transaction.settle_order(set)?;
    transaction.save(key, set);
    Ok(())
}
