//! A bank. Threads move money between accounts in transactions, while an audit computes the sum.
//!
//! `cargo run --example bank -p alluvium`

use alluvium::{Db, Error, Keyspace, Result};
use std::sync::atomic::{AtomicBool, Ordering};

const ACCOUNTS: u32 = 100;
const OPENING: u64 = 1000;
const THREADS: u64 = 4;
const TRANSFERS: u32 = 2000;

fn balance(value: Option<alluvium::Value>) -> u64 {
    let digits = value.map(|value| String::from_utf8_lossy(&value).into_owned());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Transfers an amount if the first account has enough money. Returns whether it did.
fn transfer(db: &Db, accounts: &Keyspace, from: u32, to: u32, amount: u64) -> Result<bool> {
    db.transaction(|tx| {
        let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
        let left = balance(tx.get(accounts, from)?);
        if left < amount || from == to {
            return Ok(false);
        }
        let there = balance(tx.get(accounts, to)?);
        tx.put(accounts, from, (left - amount).to_string())?;
        tx.put(accounts, to, (there + amount).to_string())?;
        Ok(true)
    })
}

/// Returns the sum of all accounts at one moment.
fn audit(db: &Db, accounts: &Keyspace) -> Result<u64> {
    db.transaction(|tx| {
        let mut sum = 0;
        for pair in tx.iter(accounts) {
            sum += balance(Some(pair?.1));
        }
        Ok(sum)
    })
}

fn main() -> Result<()> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(place.path().join("bank"))?;
    let accounts = db.keyspace("accounts")?;
    for account in 0..ACCOUNTS {
        accounts.put(account.to_be_bytes(), OPENING.to_string())?;
    }
    let total = u64::from(ACCOUNTS) * OPENING;
    let done = AtomicBool::new(false);
    let audits = std::thread::scope(|scope| {
        let tellers: Vec<_> = (0..THREADS)
            .map(|teller| {
                let (db, accounts) = (&db, &accounts);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(teller);
                    for _ in 0..TRANSFERS {
                        let (from, to) = (random.u32(0..ACCOUNTS), random.u32(0..ACCOUNTS));
                        transfer(db, accounts, from, to, random.u64(1..200))?;
                    }
                    Ok::<(), Error>(())
                })
            })
            .collect();
        let auditor = scope.spawn(|| {
            let mut audits = 0;
            while !done.load(Ordering::Relaxed) {
                assert_eq!(audit(&db, &accounts)?, total, "no money is made or lost");
                audits += 1;
            }
            Ok::<u32, Error>(audits)
        });
        for teller in tellers {
            teller.join().expect("a teller does not panic")?;
        }
        done.store(true, Ordering::Relaxed);
        auditor.join().expect("the auditor does not panic")
    })?;
    let transactions = db.stats().transactions;
    println!(
        "{} transfers by {THREADS} tellers, {} run again after a conflict; {audits} audits, each of {total}",
        u64::from(TRANSFERS) * THREADS,
        transactions.conflicts
    );
    assert_eq!(audit(&db, &accounts)?, total);
    db.close()
}
