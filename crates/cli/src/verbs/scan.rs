//! `scan`: prints keys and values in order.

use crate::context::CommandContext;
use crate::jobs::stop;
use crate::store::typed::{RedisDatabaseArgs, RedisKeyPrinter};
use crate::store::{RedisKeyPart, StoreHandle, walk};
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{KEY, ScreenOutput};
use crate::values::bytes::{self, ByteEncoding};
use crate::values::range::KeyRangeArgs;
use alluvium_server::control::{
    ManagementRequest, RedisRequest, ScanContent, ScanOrder, ScanRequest as Walk, UnorderedScanRequest,
};
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium scan                                # everything
  alluvium scan --prefix user: --limit 10
  alluvium scan --from 2026-01 --to 2026-02 --reverse
  alluvium scan --keys-only --hex | head
  alluvium scan -k blobs --limit 1000          # a hashed keyspace: keys in no order
  alluvium scan -k blobs --after lastkey       # continues after that key
  alluvium scan --redis-db 0 --prefix user:    # keys of Redis clients, with types and elements
  alluvium scan --redis-db 0 --after lastkey   # continues after that key

Each line is a key, a tab and its value; unprintable bytes are escaped as in \\n or \\xff. For byte-exact output use --json, --hex, \
--base64, or `alluvium export`.";

/// Print keys and values in the order of the keys' bytes, as they were when the scan began.
///
/// The keys of a hashed keyspace have no order: all of them are printed, each once.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ScanCommand {
    /// The keyspace.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    #[command(flatten)]
    pub range: KeyRangeArgs,
    /// Stop after this number of records.
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub limit: Option<u64>,
    /// Print from the last key to the first.
    #[arg(short, long)]
    pub reverse: bool,
    /// Continue after this key, the last one of an earlier scan. This works in all keyspaces and
    /// databases, and is the only way to continue with hashed keys.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["prefix", "from", "to", "reverse"])]
    pub after: Option<OsString>,
    /// Print only keys.
    #[arg(long)]
    pub keys_only: bool,
    #[command(flatten)]
    pub database: RedisDatabaseArgs,
    #[command(flatten)]
    pub encoding: ByteEncoding,
}

impl ScanCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let bounds = self.range.bounds(self.encoding)?;
        let store = context.open_to_read()?;
        stop::listen()?;
        let walk = Walk {
            limit: self.limit,
            ..walk(
                &self.keyspace,
                bounds,
                match self.reverse {
                    true => ScanOrder::Backward,
                    false => ScanOrder::Forward,
                },
                match self.keys_only {
                    true => ScanContent::Keys,
                    false => ScanContent::Pairs,
                },
            )
        };
        let mut out = ScreenOutput::new();
        let walked = match (self.database.redis_db, &self.after) {
            (Some(database), after) => {
                let request = match after {
                    None => RedisRequest::Scan { database, scan: walk },
                    Some(key) => RedisRequest::ScanBehind {
                        database,
                        key: self.encoding.read(key)?,
                        limit: walk.limit,
                        what: walk.what,
                    },
                };
                self.typed(context, &store, request, &mut out)
            }
            (None, after) => {
                let request = match after {
                    None => ManagementRequest::Scan(walk),
                    Some(key) => ManagementRequest::Unordered(UnorderedScanRequest {
                        keyspace: walk.keyspace,
                        after: Some(self.encoding.read(key)?),
                        limit: walk.limit,
                        what: walk.what,
                    }),
                };
                store.pairs(&request, &mut |key, value| {
                    interrupted()?;
                    self.print(context, &mut out, &key, &value)
                })
            }
        };
        if let Err(error) = walked
            && !stop::asked()
        {
            return Err(error);
        }
        out.flush()?;
        if stop::asked() {
            store.close()?;
            return Ok(CommandExit::Interrupted);
        }
        store.tell_of_raw(match self.database.redis_db {
            Some(_) => "",
            None => &self.keyspace,
        });
        store.close()?;
        Ok(CommandExit::Done)
    }

    /// Prints keys of Redis clients.
    fn typed(
        &self,
        context: &CommandContext,
        store: &StoreHandle,
        request: RedisRequest,
        out: &mut ScreenOutput,
    ) -> Result<()> {
        let mut printer = RedisKeyPrinter::new(out, self.encoding, context.is_json());
        if self.keys_only {
            printer = printer.keys_only();
        }
        store.typed(request, &mut |part| {
            interrupted()?;
            match part {
                RedisKeyPart::Key(key) => printer.key(&key),
                RedisKeyPart::Elements(elements) => printer.elements(&elements),
            }
        })?;
        printer.end()
    }

    fn print(
        &self,
        context: &CommandContext,
        out: &mut ScreenOutput,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let value = (!self.keys_only).then_some(value);
        if context.is_json() {
            bytes::json_record(out, key, value)?;
            return Ok(());
        }
        let key = out.styled(KEY, &self.encoding.show(key));
        match value {
            Some(value) => out.line(&format!("{key}\t{}", self.encoding.show(value)))?,
            None => out.line(&key)?,
        }
        Ok(())
    }
}

/// If a stop was requested, returns an error, which ends the scan.
fn interrupted() -> Result<()> {
    match stop::asked() {
        true => Err(failure(CommandExit::Interrupted, "stopped")),
        false => Ok(()),
    }
}
