//! `delete`: deletes keys or a range of keys.

use crate::context::Context;
use crate::store::typed::Database;
use crate::store::{Store, Typed, walk};
use crate::terminal::confirm::Consent;
use crate::terminal::exit::{Exit, failure};
use crate::terminal::screen;
use crate::values::bytes::{self, Encoding};
use crate::values::range::{Bounds, Range};
use alluvium_server::control::{Change, Direction, Redis, Request, Scan, What};
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  alluvium delete Elbe Oder           # both or none
  alluvium delete --prefix session:   # all keys that begin so, for the price of one
  alluvium delete --from a --to n
  alluvium delete --prefix '' --yes   # all keys of the keyspace
  alluvium delete --redis-db 0 user:7 # a key of Redis clients, with what it holds

The exit code is 1 if one of the keys is not there (not with --force); the others are deleted.";

/// Number of Redis keys deleted in one commit.
const AT_ONCE: u64 = 1000;

/// Delete keys, or all keys of a range.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Delete {
    /// The keys.
    #[arg(value_name = "KEY", required_unless_present_any = ["prefix", "from", "to"], conflicts_with_all = ["prefix", "from", "to"])]
    pub keys: Vec<OsString>,
    #[command(flatten)]
    pub range: Range,
    /// The keyspace.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    /// Do not look whether the keys are there.
    #[arg(short, long)]
    pub force: bool,
    #[command(flatten)]
    pub database: Database,
    #[command(flatten)]
    pub encoding: Encoding,
    #[command(flatten)]
    pub consent: Consent,
}

impl Delete {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let keys: Vec<_> = self
            .keys
            .iter()
            .map(|key| self.encoding.read(key))
            .collect::<Result<_>>()?;
        let bounds = self.range.bounds(self.encoding)?;
        if bounds.to.as_ref().is_some_and(|to| *to <= bounds.from) {
            return Err(failure(
                Exit::Usage,
                "--from must be before --to: nothing was deleted",
            ));
        }
        let store = context.open()?;
        let exit = match (self.database.redis_db, self.range.is_everything()) {
            (Some(database), true) => self.typed_keys(&store, database, &keys)?,
            (Some(database), false) => self.typed_range(&store, database, bounds)?,
            (None, true) => self.raw_keys(&store, &keys)?,
            (None, false) => self.raw_range(&store, bounds)?,
        };
        store.close()?;
        Ok(exit)
    }

    /// Reports that a key does not exist.
    fn missing(key: &[u8], place: &str) {
        screen::complain(&format!("there is no key {:?} in {place}", bytes::escape(key)));
    }

    fn raw_keys(&self, store: &Store, keys: &[Vec<u8>]) -> Result<Exit> {
        store.existing(&self.keyspace)?;
        let found = match self.force {
            true => Vec::new(),
            false => store.values(&self.keyspace, keys)?,
        };
        let change = |key: &Vec<u8>| Change {
            keyspace: self.keyspace.clone(),
            key: key.clone(),
            value: None,
            expires_in_ms: None,
        };
        store.write(keys.iter().map(change).collect())?;
        let mut exit = Exit::Done;
        for (key, found) in keys.iter().zip(found) {
            if found.is_none() {
                Delete::missing(key, &format!("{:?}", self.keyspace));
                exit = Exit::NotFound;
            }
        }
        Ok(exit)
    }

    fn raw_range(&self, store: &Store, bounds: Bounds) -> Result<Exit> {
        store.existing(&self.keyspace)?;
        self.ask(&bounds, &format!("the keyspace {:?}", self.keyspace))?;
        store.change(&Request::DeleteRange {
            keyspace: self.keyspace.clone(),
            from: bounds.from,
            to: bounds.to,
        })?;
        Ok(Exit::Done)
    }

    fn ask(&self, bounds: &Bounds, of: &str) -> Result<()> {
        match bounds.from.is_empty() && bounds.to.is_none() {
            true => self.consent.ask(&format!("all keys of {of} would be deleted")),
            false => Ok(()),
        }
    }

    fn typed_keys(&self, store: &Store, database: u8, keys: &[Vec<u8>]) -> Result<Exit> {
        let delete = |key: &Vec<u8>| vec![b"DEL".to_vec(), key.clone()];
        let replies = store.execute(database, keys.iter().map(delete).collect())?;
        let mut exit = Exit::Done;
        for (key, reply) in keys.iter().zip(replies) {
            if !self.force && reply == b":0\r\n" {
                Delete::missing(key, &format!("database {database}"));
                exit = Exit::NotFound;
            }
        }
        Ok(exit)
    }

    /// Deletes a range of Redis keys in several commits, so that clients are not blocked for long.
    fn typed_range(&self, store: &Store, database: u8, mut bounds: Bounds) -> Result<Exit> {
        self.ask(&bounds, &format!("database {database}"))?;
        if bounds.from.is_empty() && bounds.to.is_none() {
            store.execute(database, vec![vec![b"FLUSHDB".to_vec()]])?;
            return Ok(Exit::Done);
        }
        loop {
            let scan = Scan {
                limit: Some(AT_ONCE),
                ..walk("", bounds.clone(), Direction::Forward, What::Keys)
            };
            let mut keys = Vec::new();
            store.typed(Redis::Scan { database, scan }, &mut |part| {
                if let Typed::Key(key) = part {
                    keys.push(key.key);
                }
                Ok(())
            })?;
            let Some(last) = keys.last() else {
                return Ok(Exit::Done);
            };
            bounds.from = [&last[..], &[0]].concat();
            let delete = |key: Vec<u8>| vec![b"DEL".to_vec(), key];
            store.execute(database, keys.into_iter().map(delete).collect())?;
        }
    }
}
