//! Writes the results of ZRANGESTORE and of set operations as new sorted sets.

use super::CommandResult;
use super::range::{RangeMembers, ZrangeArguments, find, visit};
use crate::error::CommandError;
use crate::protocol::resp::{Args, ReplyWriter};
use crate::redis::args::name;
use crate::store::model::{CollectionHeader, CollectionKind, format};
use crate::store::{CommandTransaction, StagingWriter};
use std::ops::ControlFlow;

/// Builds a new sorted set. The elements of a large set are written in several parts, which limits
/// how many are in memory.
pub(super) struct SortedSetBuilder<'s> {
    set: CollectionHeader,
    database: u8,
    staging: StagingWriter<'s>,
}

impl<'s> SortedSetBuilder<'s> {
    pub(super) fn new(
        transaction: &mut CommandTransaction<'s>,
    ) -> Result<SortedSetBuilder<'s>, CommandError> {
        let set = transaction.new_collection(CollectionKind::SortedSet)?;
        let database = transaction.database;
        Ok(SortedSetBuilder {
            set,
            database,
            staging: StagingWriter::new(transaction, database, set.number),
        })
    }

    /// Adds a member, which the set must not contain yet.
    pub(super) fn add(&mut self, member: &[u8], score: f64) -> CommandResult {
        let (database, number) = (self.database, self.set.number);
        let key = format::sorted_member_key(database, number, member);
        let place = format::score_key(database, number, score, member);
        self.set.count += 1;
        // Adding 0.0 turns minus zero into zero.
        self.staging
            .put(key, format::encode_score(score + 0.0).to_vec())?;
        self.staging.put(place, Vec::new())
    }

    /// Completes the set and stores it under a key, replacing the previous value. Returns the
    /// number of members.
    pub(super) fn finish(
        mut self,
        transaction: &mut CommandTransaction<'s>,
        key: &[u8],
    ) -> Result<u64, CommandError> {
        self.staging.finish(transaction)?;
        transaction.remove(key)?;
        if self.set.count > 0 {
            super::save(transaction, key, &mut self.set)?;
        }
        Ok(self.set.count)
    }
}

pub(crate) fn zrange_store(
    transaction: &mut CommandTransaction<'_>,
    args: Args<'_>,
    reply: &mut ReplyWriter<'_>,
) -> CommandResult {
    let wanted = ZrangeArguments::to_store(args)?;
    let key = name(args.at(1))?;
    let found = find(transaction, args.at(2), &wanted)?;
    let mut making = SortedSetBuilder::new(transaction)?;
    match found {
        RangeMembers::Listed(members) => {
            for (member, score) in &members {
                making.add(member, *score)?;
            }
        }
        RangeMembers::Stretch(stretch) => {
            let mut result = Ok(());
            visit(transaction, &stretch, |member, score| {
                result = making.add(member, score);
                match result {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            })?;
            result?;
        }
    }
    let count = making.finish(transaction, key)?;
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}
