//! Runs the steps of a case that transactions have.

use super::driver::{Answer, CaseRun, Variable, one};
use super::language::{Word, optional, text, time, with_range};
use alluvium::{Durability, TransactionOptions};
use alluvium_handles::{Result, TransactionRead};

impl CaseRun {
    pub(super) fn transaction_step(&mut self, verb: &str, w: &[Word]) -> Result<Answer> {
        match verb {
            "begin" => {
                let options: TransactionOptions = w.get(2).map(text).unwrap_or_default().parse()?;
                let transaction = self.store(&w[1])?.begin(&options)?;
                return Ok(self.set(&w[0], Variable::Transaction(transaction)));
            }
            "savepoint" => {
                let number = self.transaction(&w[1])?.savepoint()?;
                return Ok(self.set(&w[0], Variable::Savepoint(number)));
            }
            "rollback-to" | "release" => {
                // A savepoint that an ended transaction has not returned has no number.
                let number = self.savepoint(&w[1]).copied()?;
                let transaction = self.transaction(&w[0])?;
                match verb {
                    "release" => transaction.release(number)?,
                    _ => transaction.rollback_to(number)?,
                }
                return Ok(Answer::new());
            }
            "commit" => {
                let durability = w
                    .get(1)
                    .map(|word| text(word).parse::<Durability>())
                    .transpose()?;
                return self
                    .transaction(&w[0])?
                    .commit(durability)
                    .map(|()| Answer::new());
            }
            "rollback" => return self.transaction(&w[0])?.rollback().map(|()| Answer::new()),
            _ => {}
        }
        let (transaction, handle) = (self.transaction(&w[0])?, self.keyspace(&w[1])?);
        if verb == "tx-depend" {
            return with_range(&w[2..], |range| transaction.depend_on_range(handle, range))
                .map(|()| Answer::new());
        }
        let key = &w[2].0;
        if verb == "tx-get" {
            let read = match w.get(3).map(text).as_deref() {
                None => TransactionRead::Tracked,
                Some("untracked") => TransactionRead::Untracked,
                Some("shared") => TransactionRead::Shared,
                Some(_) => TransactionRead::ForUpdate,
            };
            return Ok(one(transaction.get(handle, key, read)?));
        }
        let keyspace = handle.inner()?;
        transaction.with(|tx| {
            match (
                verb,
                time(
                    w.get(if verb == "tx-put" { 4 } else { 3 })
                        .filter(|_| ["tx-put", "tx-delete"].contains(&verb)),
                ),
            ) {
                ("tx-put", None) => tx.put(keyspace, key, &w[3].0)?,
                ("tx-put", Some(time)) => tx.put_until(keyspace, key, &w[3].0, time)?,
                ("tx-delete", None) => tx.delete(keyspace, key)?,
                ("tx-delete", Some(time)) => tx.delete_at(keyspace, key, time)?,
                ("tx-delete-range", _) => tx.delete_range(keyspace, key, optional(&w[3]))?,
                ("tx-merge", _) => tx.merge(keyspace, key, &w[3].0)?,
                _ => panic!("{verb} is no verb"),
            }
            Ok(Answer::new())
        })
    }
}
