//! Transactions that merge into the same keys.

use crate::transactions::{kinds, store};
use alluvium::{
    BadOperand, Concurrency, Db, ErrorKind, Isolation, Keyspace, KeyspaceOptions, MergeOperator, Options,
    Transaction, TransactionOptions,
};
use std::sync::Arc;

/// An operation of a transaction, or a check of it.
type Step<'s> = &'s dyn Fn(&mut Transaction, &Keyspace) -> alluvium::Result<()>;

fn number(number: i64) -> [u8; 8] {
    number.to_le_bytes()
}

fn keyspace(db: &Db, operator: &str) -> Keyspace {
    let options = KeyspaceOptions::new().merge_operator(operator);
    db.keyspace_with(operator, &options).unwrap()
}

/// Where the rival's commit is when the first transaction does its second step.
#[derive(Clone, Copy, Debug)]
enum RivalPlace {
    Memtable,
    Dictionary,
}

/// Runs a transaction that does `before` and then `after`. In between, a rival transaction does
/// `rival` and commits. Returns whether both commit.
fn both_commit(
    options: &TransactionOptions,
    place: RivalPlace,
    before: Step,
    rival: Step,
    after: Step,
) -> bool {
    let db = store();
    let counters = keyspace(&db, "add");
    counters.put("k", number(100)).unwrap();
    let mut own = db.begin_with(options);
    before(&mut own, &counters).unwrap();
    let mut other = db.begin_with(options);
    let done = rival(&mut other, &counters).and_then(|()| other.commit());
    if let Err(error) = done {
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        own.commit().unwrap();
        return false;
    }
    if let RivalPlace::Dictionary = place {
        db.compact().unwrap();
    }
    match after(&mut own, &counters).and_then(|()| own.commit()) {
        Ok(()) => true,
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::Conflict | ErrorKind::TimedOut),
                "{error}"
            );
            false
        }
    }
}

const NOTHING: Step = &|_, _| Ok(());
const ADD: Step = &|own, counters| own.merge(counters, "k", number(1));
const PUT: Step = &|own, counters| own.put(counters, "k", number(5));
const DELETE: Step = &|own, counters| own.delete(counters, "k");
const DELETE_RANGE: Step = &|own, counters| own.delete_range(counters, "a", None);
const READ: Step = &|own, counters| own.get(counters, "k").map(drop);
const WALK: Step = &|own, counters| own.iter(counters).try_for_each(|pair| pair.map(drop));
const SCAN: Step = &|own, counters| own.unordered(counters).try_for_each(|pair| pair.map(drop));
const MULTI: Step = &|own, counters| own.multi_get(counters, ["j", "k"]).map(drop);

#[test]
fn transactions_that_only_merge_both_commit() {
    for options in kinds() {
        for place in [RivalPlace::Memtable, RivalPlace::Dictionary] {
            let both = |before, rival, after| both_commit(&options, place, before, rival, after);
            assert!(both(ADD, ADD, NOTHING), "{options:?} {place:?}");
            assert!(both(NOTHING, ADD, ADD));
            assert!(both(ADD, ADD, ADD));
            let three: Step = &|own, counters| (0..3).try_for_each(|_| ADD(own, counters));
            assert!(both(three, three, three));
            // Reads that cannot cause a conflict, and reads of other keys.
            let peek: Step = &|own, counters| own.get_untracked(counters, "k").map(drop);
            assert!(both(peek, ADD, ADD));
            let other: Step = &|own, counters| own.get(counters, "j").map(drop);
            assert!(both(other, ADD, ADD));
            let short: Step =
                &|own, counters| own.range(counters, "a".."j").try_for_each(|pair| pair.map(drop));
            assert!(both(short, ADD, ADD));
            let empty: Step =
                &|own, counters| own.range(counters, "z".."a").try_for_each(|pair| pair.map(drop));
            assert!(both(empty, ADD, ADD) && both(ADD, ADD, empty));
        }
    }
}

#[test]
fn a_merge_excludes_puts_and_deletes() {
    for options in kinds() {
        if options.isolation == Isolation::Serializable && options.concurrency == Concurrency::Optimistic {
            // Such transactions do not depend on keys that they only write.
            continue;
        }
        for place in [RivalPlace::Memtable, RivalPlace::Dictionary] {
            let both = |before, rival, after| both_commit(&options, place, before, rival, after);
            for replace in [PUT, DELETE, DELETE_RANGE] {
                assert!(!both(ADD, replace, NOTHING), "{options:?} {place:?}");
                assert!(!both(replace, ADD, NOTHING), "{options:?} {place:?}");
            }
            // A put, then a merge into the same key by the same transaction.
            let upon: Step = &|own, counters| PUT(own, counters).and_then(|()| ADD(own, counters));
            assert!(!both(ADD, upon, NOTHING), "{options:?} {place:?}");
            assert!(!both(upon, ADD, NOTHING));
            let then: Step = &|own, counters| ADD(own, counters).and_then(|()| PUT(own, counters));
            assert!(!both(then, ADD, NOTHING));
        }
    }
}

#[test]
fn a_put_after_the_begin_is_a_conflict_of_a_later_merge_under_snapshot_isolation() {
    for options in kinds() {
        if options.isolation == Isolation::Snapshot {
            for place in [RivalPlace::Memtable, RivalPlace::Dictionary] {
                for replace in [PUT, DELETE, DELETE_RANGE] {
                    assert!(
                        !both_commit(&options, place, NOTHING, replace, ADD),
                        "{options:?}"
                    );
                }
                let twice: Step = &|own, counters| PUT(own, counters).and_then(|()| ADD(own, counters));
                assert!(!both_commit(&options, place, NOTHING, twice, ADD));
            }
        }
    }
}

#[test]
fn a_merge_excludes_other_merges_if_its_transaction_reads_the_key() {
    for options in kinds() {
        for place in [RivalPlace::Memtable, RivalPlace::Dictionary] {
            for read in [READ, WALK, SCAN, MULTI] {
                let read_then_add = |own: &mut Transaction, counters: &Keyspace| {
                    read(own, counters).and_then(|()| ADD(own, counters))
                };
                let add_then_read = |own: &mut Transaction, counters: &Keyspace| {
                    ADD(own, counters).and_then(|()| read(own, counters))
                };
                let both = |before, rival, after| both_commit(&options, place, before, rival, after);
                assert!(!both(&read_then_add, ADD, NOTHING), "{options:?} {place:?}");
                assert!(!both(&add_then_read, ADD, NOTHING), "{options:?} {place:?}");
                // A serializable locking transaction that reads only after the rival's commit sees
                // its merge.
                let is_newest = options.isolation == Isolation::Serializable
                    && options.concurrency == Concurrency::Locking;
                assert_eq!(both(ADD, ADD, read), is_newest, "{options:?} {place:?}");
                assert!(!both(read, ADD, ADD), "{options:?} {place:?}");
            }
        }
    }
}

#[test]
fn operands_of_every_transaction_are_in_the_value() {
    for options in kinds() {
        let db = store();
        let names = ["add", "minimum", "maximum"];
        let spaces = names.map(|name| keyspace(&db, name));
        let mut open: Vec<Transaction> = (0..8).map(|_| db.begin_with(&options)).collect();
        for (index, own) in open.iter_mut().enumerate() {
            for space in &spaces {
                own.merge(space, "k", number(index as i64 + 1)).unwrap();
            }
        }
        for own in open {
            own.commit().unwrap();
        }
        let seen = spaces.map(|space| space.get("k").unwrap().unwrap().to_vec());
        assert_eq!(seen, [number(36), number(1), number(8)], "{options:?}");
    }
}

#[test]
fn a_rollback_to_a_savepoint_leaves_merges_of_others() {
    for options in kinds() {
        let db = store();
        let counters = keyspace(&db, "add");
        let (one, two) = (db.begin_with(&options), db.begin_with(&options));
        one.merge(&counters, "k", number(1)).unwrap();
        let before = one.savepoint();
        one.merge(&counters, "k", number(10)).unwrap();
        two.merge(&counters, "k", number(100)).unwrap();
        one.rollback_to(&before).unwrap();
        two.commit().unwrap();
        one.commit().unwrap();
        assert_eq!(
            counters.get("k").unwrap().unwrap(),
            &number(101)[..],
            "{options:?}"
        );
    }
}

#[test]
fn spilled_merges_lose_nothing() {
    for options in kinds() {
        let db = store();
        let counters = keyspace(&db, "add");
        counters.put("k", number(1)).unwrap();
        let own = db.begin_with(&options.clone().memory(0));
        own.merge(&counters, "k", number(10)).unwrap();
        own.put(&counters, "other", number(0)).unwrap();
        own.merge(&counters, "k", number(10)).unwrap();
        let rival = db.begin_with(&options);
        let rival = rival
            .merge(&counters, "k", number(100))
            .and_then(|()| rival.commit());
        let committed = own.commit();
        let sum = 1 + if rival.is_ok() { 100 } else { 0 } + if committed.is_ok() { 20 } else { 0 };
        assert_eq!(
            counters.get("k").unwrap().unwrap(),
            &number(sum)[..],
            "{options:?}"
        );
        assert!(rival.is_ok() || committed.is_ok());
    }
}

#[test]
fn merges_outside_transactions_do_not_wait_for_merges_in_them() {
    for options in kinds() {
        let db = store();
        let counters = keyspace(&db, "add");
        let own = db.begin_with(&options);
        own.merge(&counters, "k", number(1)).unwrap();
        counters.merge("k", number(10)).unwrap();
        own.commit().unwrap();
        assert_eq!(
            counters.get("k").unwrap().unwrap(),
            &number(11)[..],
            "{options:?}"
        );
    }
}

/// An operator that combines the bits of all operands.
#[derive(Debug)]
struct UnionOperator;

impl MergeOperator for UnionOperator {
    fn name(&self) -> &'static str {
        "union"
    }

    fn check(&self, operand: &[u8]) -> Result<(), BadOperand> {
        match operand.len() {
            1 => Ok(()),
            len => Err(BadOperand {
                operator: self.name().to_owned(),
                why: format!("{len} bytes are not one byte"),
            }),
        }
    }

    fn fold(&self, older: &mut Vec<u8>, newer: &[u8]) {
        match (older.first_mut(), newer.first()) {
            (Some(older), Some(newer)) => *older |= newer,
            _ => *older = newer.to_vec(),
        }
    }
}

#[test]
fn operators_of_a_program_commute_if_it_says_so() {
    let options = TransactionOptions::new().isolation(Isolation::Snapshot);
    for is_commutative in [false, true] {
        let operator = Arc::new(UnionOperator);
        let unopened = Options::new().memory(16 << 20).workers(0);
        let unopened = match is_commutative {
            true => unopened.register_commutative_merge_operator(operator),
            false => unopened.register_merge_operator(operator),
        };
        let db = unopened.in_memory().unwrap();
        let flags = keyspace(&db, "union");
        let (one, two) = (db.begin_with(&options), db.begin_with(&options));
        one.merge(&flags, "k", [1]).unwrap();
        two.merge(&flags, "k", [2]).unwrap();
        one.commit().unwrap();
        assert_eq!(two.commit().is_ok(), is_commutative);
        let bits = if is_commutative { 3 } else { 1 };
        assert_eq!(flags.get("k").unwrap().unwrap(), &[bits][..]);
    }
    // The order of appended operands is visible.
    let db = store();
    let texts = keyspace(&db, "append");
    let (one, two) = (db.begin_with(&options), db.begin_with(&options));
    one.merge(&texts, "k", "a").unwrap();
    two.merge(&texts, "k", "b").unwrap();
    one.commit().unwrap();
    assert_eq!(two.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn threads_that_merge_into_one_counter_never_conflict() {
    const EACH: i64 = 50;
    for options in kinds() {
        let db = Options::new().memory(16 << 20).in_memory().unwrap();
        let counters = keyspace(&db, "add");
        let options = options.lock_timeout(std::time::Duration::from_secs(30));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..EACH {
                        let own = db.begin_with(&options);
                        own.merge(&counters, "a", number(1)).unwrap();
                        own.merge(&counters, "b", number(turn)).unwrap();
                        own.commit().unwrap();
                    }
                });
            }
        });
        assert_eq!(counters.get("a").unwrap().unwrap(), &number(4 * EACH)[..]);
        assert_eq!(db.stats().transactions.conflicts, 0);
    }
}

#[test]
fn transactions_in_different_directories_never_conflict_however_much_they_read() {
    for options in kinds() {
        let options = options.max_tracked(20);
        let db = store();
        let files = db.keyspace("files").unwrap();
        let (mut one, mut two) = (db.begin_with(&options), db.begin_with(&options));
        for file in 0..300 {
            for (own, directory) in [(&mut one, "a"), (&mut two, "a0")] {
                // Scatter the keys, so that joined ranges leave gaps.
                let key = format!("{directory}/{:05}", file * 37 % 1000);
                own.get_shared(&files, &key).unwrap();
                if file % 3 == 0 {
                    own.put(&files, &key, "1").unwrap();
                }
            }
        }
        let held = db.transactions();
        assert!(
            held.iter().all(|own| own.reads <= 20 && own.locks <= 20),
            "{held:?}"
        );
        two.commit().unwrap();
        one.commit().unwrap();
        assert_eq!(files.iter().count(), 200, "{options:?}");
    }
}
