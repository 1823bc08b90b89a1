//! `delete`: deletes single keys or a range of keys.

use crate::context::CommandContext;
use crate::store::typed::RedisDatabaseArgs;
use crate::store::{RedisKeyPart, StoreHandle, walk};
use crate::terminal::confirm::Consent;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen;
use crate::values::bytes::{self, ByteEncoding};
use crate::values::range::{ByteBounds, KeyRangeArgs};
use crate::values::sizes;
use alluvium_server::control::{
    KeyChange, ManagementRequest, RedisRequest, ScanContent, ScanOrder, ScanRequest,
};
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  alluvium delete Elbe Oder           # in one atomic write
  alluvium delete --prefix session:   # all keys with this prefix
  alluvium delete --from a --to n
  alluvium delete Elbe --in 12h       # unless it is put again by then
  alluvium delete --prefix '' --yes   # all keys of the keyspace
  alluvium delete --redis-db 0 user:7 # a key of Redis clients, of any type

Without --force, the exit code is 1 if one of the keys does not exist; the others are deleted.";

/// Number of Redis keys that are deleted in one commit.
const AT_ONCE: u64 = 1000;

/// Delete keys, or all keys of a range.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DeleteCommand {
    /// The keys.
    #[arg(value_name = "KEY", required_unless_present_any = ["prefix", "from", "to"], conflicts_with_all = ["prefix", "from", "to"])]
    pub keys: Vec<OsString>,
    #[command(flatten)]
    pub range: KeyRangeArgs,
    /// The keyspace.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    /// Delete the present values after this time, unless they are replaced by then: 90s, 15m, 12h,
    /// 30d.
    #[arg(long = "in", value_name = "DURATION", value_parser = alluvium::text::parse_duration, conflicts_with_all = ["prefix", "from", "to", "redis_db"])]
    pub after: Option<Duration>,
    /// Do not check whether the keys exist.
    #[arg(short, long)]
    pub force: bool,
    #[command(flatten)]
    pub database: RedisDatabaseArgs,
    #[command(flatten)]
    pub encoding: ByteEncoding,
    #[command(flatten)]
    pub consent: Consent,
}

impl DeleteCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let keys: Vec<_> = self
            .keys
            .iter()
            .map(|key| self.encoding.read(key))
            .collect::<Result<_>>()?;
        let bounds = self.range.bounds(self.encoding)?;
        if bounds.to.as_ref().is_some_and(|to| *to <= bounds.from) {
            return Err(failure(
                CommandExit::Usage,
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

    /// Prints that a key does not exist.
    fn missing(key: &[u8], place: &str) {
        screen::complain(&format!("there is no key {:?} in {place}", bytes::escape(key)));
    }

    fn raw_keys(&self, store: &StoreHandle, keys: &[Vec<u8>]) -> Result<CommandExit> {
        store.require_keyspace(&self.keyspace)?;
        let found = match self.force {
            true => Vec::new(),
            false => store.values(&self.keyspace, keys)?,
        };
        let change = |key: &Vec<u8>| KeyChange {
            keyspace: self.keyspace.clone(),
            key: key.clone(),
            value: None,
            expires_in_ms: self.after.map(sizes::milliseconds),
        };
        store.write(keys.iter().map(change).collect())?;
        let mut exit = CommandExit::Done;
        for (key, found) in keys.iter().zip(found) {
            if found.is_none() {
                DeleteCommand::missing(key, &format!("{:?}", self.keyspace));
                exit = CommandExit::NotFound;
            }
        }
        Ok(exit)
    }

    fn raw_range(&self, store: &StoreHandle, bounds: ByteBounds) -> Result<CommandExit> {
        store.require_keyspace(&self.keyspace)?;
        self.ask(&bounds, &format!("the keyspace {:?}", self.keyspace))?;
        store.change(&ManagementRequest::DeleteRange {
            keyspace: self.keyspace.clone(),
            from: bounds.from,
            to: bounds.to,
        })?;
        Ok(CommandExit::Done)
    }

    fn ask(&self, bounds: &ByteBounds, of: &str) -> Result<()> {
        match bounds.from.is_empty() && bounds.to.is_none() {
            true => self.consent.ask(&format!("all keys of {of} would be deleted")),
            false => Ok(()),
        }
    }

    fn typed_keys(&self, store: &StoreHandle, database: u8, keys: &[Vec<u8>]) -> Result<CommandExit> {
        let delete = |key: &Vec<u8>| vec![b"DEL".to_vec(), key.clone()];
        let replies = store.execute(database, keys.iter().map(delete).collect())?;
        let mut exit = CommandExit::Done;
        for (key, reply) in keys.iter().zip(replies) {
            if !self.force && reply == b":0\r\n" {
                DeleteCommand::missing(key, &format!("database {database}"));
                exit = CommandExit::NotFound;
            }
        }
        Ok(exit)
    }

    /// Deletes a range of Redis keys in several commits, so that clients are not blocked for a long
    /// time.
    fn typed_range(&self, store: &StoreHandle, database: u8, mut bounds: ByteBounds) -> Result<CommandExit> {
        self.ask(&bounds, &format!("database {database}"))?;
        if bounds.from.is_empty() && bounds.to.is_none() {
            store.execute(database, vec![vec![b"FLUSHDB".to_vec()]])?;
            return Ok(CommandExit::Done);
        }
        loop {
            let scan = ScanRequest {
                limit: Some(AT_ONCE),
                ..walk("", bounds.clone(), ScanOrder::Forward, ScanContent::Keys)
            };
            let mut keys = Vec::new();
            store.typed(RedisRequest::Scan { database, scan }, &mut |part| {
                if let RedisKeyPart::Key(key) = part {
                    keys.push(key.key);
                }
                Ok(())
            })?;
            let Some(last) = keys.last() else {
                return Ok(CommandExit::Done);
            };
            bounds.from = [&last[..], &[0]].concat();
            let delete = |key: Vec<u8>| vec![b"DEL".to_vec(), key];
            store.execute(database, keys.into_iter().map(delete).collect())?;
        }
    }
}
