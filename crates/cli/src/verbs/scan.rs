//! `scan`: prints keys and values in order.

use crate::context::Context;
use crate::jobs::stop;
use crate::store::typed::{Database, Printer};
use crate::store::{Store, Typed, walk};
use crate::terminal::exit::{Exit, failure};
use crate::terminal::screen::{KEY, Output};
use crate::values::bytes::{self, Encoding};
use crate::values::range::Range;
use alluvium_server::control::{Direction, Redis, Request, Scan as Walk, Unordered, What};
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
  alluvium scan -k blobs --limit 1000          # of a hashed keyspace: in no order
  alluvium scan -k blobs --after lastkey       # goes on where that ended
  alluvium scan --redis-db 0 --prefix user:    # keys of Redis clients, with types and elements
  alluvium scan --redis-db 0 --after lastkey   # goes on behind a key, hashed or in order

Each line is a key, a tab and its value; what is not printable is escaped as in \\n or \\xff. For byte-exact output use --json, --hex, \
--base64, or `alluvium export`.";

/// Print keys and values in the order of the keys' bytes, as they were at the moment it began.
///
/// The keys of a hashed keyspace have no order: all of them are printed, each once.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Scan {
    /// The keyspace.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    #[command(flatten)]
    pub range: Range,
    /// Stop after this number of records.
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub limit: Option<u64>,
    /// From the last key to the first.
    #[arg(short, long)]
    pub reverse: bool,
    /// Go on behind this key, the last one of an earlier scan. In every keyspace and database; the
    /// only way where keys are hashed.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["prefix", "from", "to", "reverse"])]
    pub after: Option<OsString>,
    /// Print no values.
    #[arg(long)]
    pub keys_only: bool,
    #[command(flatten)]
    pub database: Database,
    #[command(flatten)]
    pub encoding: Encoding,
}

impl Scan {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let bounds = self.range.bounds(self.encoding)?;
        let store = context.open_to_read()?;
        stop::listen()?;
        let walk = Walk {
            limit: self.limit,
            ..walk(
                &self.keyspace,
                bounds,
                match self.reverse {
                    true => Direction::Backward,
                    false => Direction::Forward,
                },
                match self.keys_only {
                    true => What::Keys,
                    false => What::Pairs,
                },
            )
        };
        let mut out = Output::new();
        let walked = match (self.database.redis_db, &self.after) {
            (Some(database), after) => {
                let request = match after {
                    None => Redis::Scan { database, scan: walk },
                    Some(key) => Redis::ScanBehind {
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
                    None => Request::Scan(walk),
                    Some(key) => Request::Unordered(Unordered {
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
            return Ok(Exit::Interrupted);
        }
        store.tell_of_raw(match self.database.redis_db {
            Some(_) => "",
            None => &self.keyspace,
        });
        store.close()?;
        Ok(Exit::Done)
    }

    /// Prints keys of Redis clients.
    fn typed(&self, context: &Context, store: &Store, request: Redis, out: &mut Output) -> Result<()> {
        let mut printer = Printer::new(out, self.encoding, context.is_json());
        if self.keys_only {
            printer = printer.keys_only();
        }
        store.typed(request, &mut |part| {
            interrupted()?;
            match part {
                Typed::Key(key) => printer.key(&key),
                Typed::Elements(elements) => printer.elements(&elements),
            }
        })?;
        printer.end()
    }

    fn print(&self, context: &Context, out: &mut Output, key: &[u8], value: &[u8]) -> Result<()> {
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

/// Ends the walk if a stop was requested.
fn interrupted() -> Result<()> {
    match stop::asked() {
        true => Err(failure(Exit::Interrupted, "stopped")),
        false => Ok(()),
    }
}
