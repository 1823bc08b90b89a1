//! Sets of which much is removed: what stays is written under a new number.

use super::super::pages::Stretch;
use super::Done;
use crate::model::Collection;
use crate::model::format::{self, InnerKey};
use crate::store::{Counting, Direction, Staging, Transaction};

/// Removes the members of a stretch from a set that has others.
pub(super) fn without(
    transaction: &mut Transaction<'_>,
    key: &[u8],
    set: &Collection,
    stretch: &Stretch,
) -> Done {
    let (start, end) = ends(transaction, stretch)?;
    let mut new = transaction.new_collection(set.kind)?;
    new.count = set.count - stretch.count;
    let mut staging = Staging::new(transaction, transaction.database, new.number);
    let mut counting = Counting::new(new.count);
    let whole = format::scores(transaction.database, set.number);
    for (start, end) in [(whole.0, start), (end, whole.1)] {
        let mut scan = transaction.scan(start, end, Direction::Forward);
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

/// The first element of a stretch, and what is behind its last one.
fn ends(
    transaction: &Transaction<'_>,
    stretch: &Stretch,
) -> Result<(InnerKey, InnerKey), crate::error::Failure> {
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
        Direction::Forward => (first, last),
        Direction::Backward => (last, first),
    };
    end.push(0);
    Ok((start, end))
}
