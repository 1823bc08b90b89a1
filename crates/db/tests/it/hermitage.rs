//! The cases of Hermitage (Martin Kleppmann's tests of isolation levels, named after Adya's
//! phenomena), at each isolation level with each concurrency control.
//!
//! Each case is a schedule of up to three transactions, each of which begins with its first
//! operation. A transaction that would have to wait, or that encounters a conflict, is rolled back,
//! and the others continue. The test compares their reads and the set of committed transactions.

use crate::transactions::{kinds, store};
use alluvium::{Db, ErrorKind, Keyspace, Result, Transaction, TransactionOptions};

/// A transaction of a schedule.
struct Session<'d> {
    db: &'d Db,
    data: Keyspace,
    options: TransactionOptions,
    transaction: Option<Transaction>,
    is_over: bool,
    has_committed: bool,
}

impl Session<'_> {
    /// Performs an operation in the transaction, unless it has ended. A failure ends it.
    fn act<T>(&mut self, act: impl FnOnce(&mut Transaction, &Keyspace) -> Result<T>) -> Option<T> {
        if self.is_over {
            return None;
        }
        let begin = || self.db.begin_with(&self.options);
        let transaction = self.transaction.get_or_insert_with(begin);
        match act(transaction, &self.data) {
            Ok(done) => Some(done),
            Err(error) => {
                let kind = error.kind();
                let is_expected = matches!(kind, ErrorKind::Conflict | ErrorKind::TimedOut);
                assert!(is_expected, "{error}");
                self.rollback();
                None
            }
        }
    }

    fn put(&mut self, key: u8, value: u8) {
        self.act(|tx, data| tx.put(data, [key], [value]));
    }

    fn delete(&mut self, key: u8) {
        self.act(|tx, data| tx.delete(data, [key]));
    }

    /// Returns the value of a key, or `None` if the transaction has ended.
    fn get(&mut self, key: u8) -> Option<u8> {
        self.act(|tx, data| Ok(tx.get(data, [key])?.expect("it is there")[0]))
    }

    /// Returns the pairs whose values satisfy a predicate.
    fn select(&mut self, holds: impl Fn(u8) -> bool) -> Option<Vec<(u8, u8)>> {
        self.act(|tx, data| {
            let pairs = tx
                .iter(data)
                .map(|pair| pair.map(|(key, value)| (key[0], value[0])));
            let pairs: Result<Vec<_>> = pairs.collect();
            Ok(pairs?.into_iter().filter(|&(_, value)| holds(value)).collect())
        })
    }

    fn commit(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            self.is_over = true;
            match transaction.commit() {
                Ok(()) => self.has_committed = true,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
        }
    }

    fn rollback(&mut self) {
        self.transaction = None;
        self.is_over = true;
    }
}

/// Runs a schedule with each kind of transaction, on a store with 1 = 10 and 2 = 20. `committed`
/// names the transactions that commit when they are serializable optimistic, serializable locking,
/// snapshot optimistic, and snapshot locking.
fn each(committed: [&str; 4], schedule: impl Fn(&mut [Session<'_>; 3])) -> Vec<Vec<(u8, u8)>> {
    let run = |(options, expected): (TransactionOptions, &str)| {
        let db = store();
        let data = db.keyspace("test").unwrap();
        data.put([1], [10]).unwrap();
        data.put([2], [20]).unwrap();
        let mut sessions = [(); 3].map(|()| Session {
            db: &db,
            data: data.clone(),
            options: options.clone(),
            transaction: None,
            is_over: false,
            has_committed: false,
        });
        schedule(&mut sessions);
        let names = ["1", "2", "3"];
        let done: String = names
            .iter()
            .zip(&sessions)
            .filter(|(_, session)| session.has_committed)
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(
            done, expected,
            "{:?} {:?}",
            options.isolation, options.concurrency
        );
        let pairs = data.iter().map(|pair| pair.unwrap());
        pairs.map(|(key, value)| (key[0], value[0])).collect()
    };
    kinds().into_iter().zip(committed).map(run).collect()
}

/// Fails unless the transaction's read is one of the allowed results, or the transaction ended
/// before the read.
fn among<T: PartialEq + std::fmt::Debug>(read: Option<T>, allowed: &[T]) {
    if let Some(read) = read {
        assert!(allowed.contains(&read), "{read:?}");
    }
}

#[test]
fn g0_write_cycles() {
    let left = each(["12", "1", "1", "1"], |[one, two, _]| {
        one.put(1, 11);
        two.put(1, 12);
        one.put(2, 21);
        one.commit();
        two.put(2, 22);
        two.commit();
    });
    for left in left {
        assert!(
            left == [(1, 11), (2, 21)] || left == [(1, 12), (2, 22)],
            "{left:?}"
        );
    }
}

#[test]
fn g1a_aborted_reads() {
    each(["2", "", "2", "2"], |[one, two, _]| {
        one.put(1, 101);
        among(two.get(1), &[10]);
        one.rollback();
        among(two.get(1), &[10]);
        two.commit();
    });
}

#[test]
fn g1b_intermediate_reads() {
    each(["12", "1", "12", "12"], |[one, two, _]| {
        one.put(1, 101);
        among(two.get(1), &[10]);
        one.put(1, 11);
        one.commit();
        among(two.get(1), &[10]);
        two.commit();
    });
}

#[test]
fn g1c_circular_information_flow() {
    each(["1", "2", "12", "12"], |[one, two, _]| {
        one.put(1, 11);
        two.put(2, 22);
        let (by_one, by_two) = (one.get(2), two.get(1));
        assert!(
            !(by_one == Some(22) && by_two == Some(11)),
            "each has read the other's"
        );
        one.commit();
        two.commit();
    });
}

#[test]
fn otv_observed_transaction_vanishes() {
    each(["123", "13", "13", "13"], |[one, two, three]| {
        one.put(1, 11);
        one.put(2, 19);
        two.put(1, 12);
        one.commit();
        among(three.get(1), &[11]);
        two.put(2, 18);
        among(three.get(2), &[19]);
        two.commit();
        among(three.get(2), &[19]);
        among(three.get(1), &[11]);
        three.commit();
    });
}

#[test]
fn pmp_predicate_many_preceders_by_a_reader() {
    each(["12", "1", "12", "12"], |[one, two, _]| {
        among(one.select(|value| value == 30), &[vec![]]);
        two.put(3, 30);
        two.commit();
        among(one.select(|value| value % 3 == 0), &[vec![]]);
        one.commit();
    });
}

#[test]
fn pmp_predicate_many_preceders_by_a_writer() {
    let left = each(["1", "1", "1", "1"], |[one, two, _]| {
        for (key, value) in one.select(|_| true).unwrap_or_default() {
            one.put(key, value + 10);
        }
        let doomed = two.select(|value| value == 20).unwrap_or_default();
        doomed.iter().for_each(|&(key, _)| two.delete(key));
        one.commit();
        two.commit();
    });
    for left in left {
        assert_eq!(left, [(1, 20), (2, 30)]);
    }
}

#[test]
fn p4_lost_update() {
    each(["1", "2", "1", "1"], |[one, two, _]| {
        one.get(1);
        two.get(1);
        one.put(1, 11);
        two.put(1, 11);
        one.commit();
        two.commit();
    });
}

#[test]
fn g_single_read_skew() {
    each(["12", "1", "12", "12"], |[one, two, _]| {
        among(one.get(1), &[10]);
        two.get(1);
        two.get(2);
        two.put(1, 12);
        two.put(2, 18);
        two.commit();
        among(one.get(2), &[20]);
        one.commit();
    });
}

#[test]
fn g_single_read_skew_by_predicates() {
    each(["12", "1", "12", "12"], |[one, two, _]| {
        among(one.select(|value| value % 5 == 0), &[vec![(1, 10), (2, 20)]]);
        two.put(1, 12);
        two.commit();
        among(one.select(|value| value % 3 == 0), &[vec![]]);
        one.commit();
    });
}

#[test]
fn g_single_read_skew_before_a_write() {
    each(["2", "1", "2", "2"], |[one, two, _]| {
        one.get(1);
        two.select(|_| true);
        two.put(1, 12);
        two.put(2, 18);
        two.commit();
        let doomed = one.select(|value| value == 20).unwrap_or_default();
        doomed.iter().for_each(|&(key, _)| one.delete(key));
        one.commit();
    });
}

#[test]
fn g_single_read_skew_of_one_that_is_rolled_back() {
    each(["2", "", "2", ""], |[one, two, _]| {
        one.get(1);
        two.select(|_| true);
        two.put(1, 12);
        if one.get(2) == Some(20) {
            one.delete(2);
        }
        two.put(2, 18);
        one.rollback();
        two.commit();
    });
}

#[test]
fn g2_item_write_skew() {
    each(["1", "2", "12", "12"], |[one, two, _]| {
        for session in [&mut *one, &mut *two] {
            session.get(1);
            session.get(2);
        }
        one.put(1, 11);
        two.put(2, 21);
        one.commit();
        two.commit();
    });
}

#[test]
fn g2_write_skew_by_predicates() {
    each(["1", "2", "12", "12"], |[one, two, _]| {
        one.select(|value| value % 3 == 0);
        two.select(|value| value % 3 == 0);
        one.put(3, 30);
        two.put(4, 42);
        one.commit();
        two.commit();
    });
}

#[test]
fn g2_with_two_edges_seen_by_a_reader() {
    each(["23", "13", "123", "123"], |[one, two, three]| {
        one.select(|_| true);
        two.get(2);
        two.put(2, 25);
        two.commit();
        three.select(|_| true);
        three.commit();
        one.put(1, 0);
        one.commit();
    });
}
