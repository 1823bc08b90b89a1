//! `scan`: keys and values in order.

use crate::Exit;
use crate::bytes::{self, Encoding};
use crate::context::{self, Access, Context};
use crate::range::Range;
use crate::remote::Direction;
use crate::screen::{KEY, Output};
use crate::stop;
use anyhow::Result;
use clap::Args;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium scan                                # everything
  alluvium scan --prefix user: --limit 10
  alluvium scan --from 2026-01 --to 2026-02 --reverse
  alluvium scan --keys-only --hex | head

Each line is a key, a tab and its value; what is not printable is escaped as in \\n or \\xff. For byte-exact output use --json, --hex, \
--base64, or `alluvium export`.";

/// Print keys and values in the order of the keys' bytes, as they were at the moment it began.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Scan {
    /// The keyspace.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    #[command(flatten)]
    pub range: Range,
    /// Stop after so many.
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub limit: Option<u64>,
    /// From the last key to the first.
    #[arg(short, long)]
    pub reverse: bool,
    /// Print no values.
    #[arg(long)]
    pub keys_only: bool,
    #[command(flatten)]
    pub encoding: Encoding,
}

impl Scan {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let bounds = self.range.bounds(self.encoding)?;
        let access = context.open_or_served()?;
        stop::listen()?;
        match access {
            Access::Own(db) => {
                let keyspace = context::existing(&db, &self.keyspace)?;
                let mut iter = bounds.iter(&keyspace);
                let next = || {
                    let pair = if self.reverse {
                        iter.next_back()
                    } else {
                        iter.next()
                    };
                    Ok(pair.transpose()?)
                };
                self.walk(context, next)?;
                drop(iter);
                context::close(db)?;
            }
            Access::Served(server) => {
                let direction = match self.reverse {
                    true => Direction::Backward,
                    false => Direction::Forward,
                };
                let mut pairs = server.pairs(&self.keyspace, &bounds.from, bounds.to.as_deref(), direction);
                self.walk(context, || pairs.next().transpose())?;
            }
        }
        Ok(if stop::asked() {
            Exit::Interrupted
        } else {
            Exit::Done
        })
    }

    fn walk<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        context: &Context,
        mut next: impl FnMut() -> Result<Option<(K, V)>>,
    ) -> Result<()> {
        let mut out = Output::new();
        let mut left = self.limit.unwrap_or(u64::MAX);
        while left > 0 && !stop::asked() {
            let Some((key, value)) = next()? else { break };
            self.print(context, &mut out, key.as_ref(), value.as_ref())?;
            left -= 1;
        }
        Ok(out.flush()?)
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
