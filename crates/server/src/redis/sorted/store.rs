//! Members that are written as a new sorted set, with its counts: ZRANGESTORE, and what is made of several sets.

use super::super::args::name;
use super::range::{Found, Wanted, in_order, visit};
use super::{Done, Scored};
use crate::error::Failure;
use crate::model::format;
use crate::model::{Collection, Kind};
use crate::resp::{Args, Reply};
use crate::store::{Counting, Staging, Transaction};
use std::ops::ControlFlow;

/// A sorted set that is being made of members in the order of their scores.
pub(super) struct Making<'s> {
    set: Collection,
    database: u8,
    staging: Staging<'s>,
    counting: Counting,
}

impl<'s> Making<'s> {
    /// Of about so many members.
    pub(super) fn new(transaction: &mut Transaction<'s>, count: u64) -> Result<Making<'s>, Failure> {
        let set = transaction.new_collection(Kind::SortedSet)?;
        let database = transaction.database;
        Ok(Making {
            set,
            database,
            staging: Staging::new(transaction, database, set.number),
            counting: Counting::new(count),
        })
    }

    /// Adds the next member.
    pub(super) fn add(&mut self, member: &[u8], score: f64) -> Done {
        let (database, number) = (self.database, self.set.number);
        let key = format::sorted_member_key(database, number, member);
        let place = format::score_key(database, number, score, member);
        self.counting.add(&place);
        self.set.count += 1;
        // Minus zero is zero.
        self.staging
            .put(key, format::encode_score(score + 0.0).to_vec())?;
        self.staging.put(place, Vec::new())
    }

    /// Has a key hold the members and nothing else. Returns how many they are.
    pub(super) fn finish(mut self, transaction: &mut Transaction<'s>, key: &[u8]) -> Result<u64, Failure> {
        self.staging.finish(transaction)?;
        transaction.remove(key)?;
        if self.set.count > 0 {
            transaction.adopt_order(&mut self.set, self.counting)?;
            transaction.save(key, &self.set);
        }
        Ok(self.set.count)
    }
}

/// Has a key hold members that are in the order of their scores, and nothing else.
pub(super) fn store(
    transaction: &mut Transaction<'_>,
    key: &[u8],
    members: &[Scored],
) -> Result<u64, Failure> {
    let mut making = Making::new(transaction, members.len() as u64)?;
    for (member, score) in members {
        making.add(member, *score)?;
    }
    making.finish(transaction, key)
}

pub(in super::super) fn zrange_store(
    transaction: &mut Transaction<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let wanted = Wanted::to_store(args)?;
    let key = name(args.at(1))?;
    let found = in_order(transaction, args.at(2), &wanted)?;
    let count = match found {
        Found::Listed(members) => store(transaction, key, &members)?,
        Found::Stretch(stretch) => {
            let mut making = Making::new(transaction, stretch.count)?;
            let mut result = Ok(());
            visit(transaction, &stretch, |member, score| {
                result = making.add(member, score);
                match result {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            })?;
            result?;
            making.finish(transaction, key)?
        }
    };
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(())
}
