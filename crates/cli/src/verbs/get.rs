//! `get`: the values of keys.

use crate::Exit;
use crate::bytes::{self, Encoding};
use crate::context::{self, Access, Context};
use crate::private;
use crate::screen::{self, Output};
use anyhow::{Context as _, Result};
use clap::Args;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  alluvium get Elbe                        # its value, byte for byte
  alluvium get -k images logo -o logo.png  # into a file
  alluvium get --json Elbe Oder            # a JSON object a line

The exit code is 1 if one of the keys is not there.";

/// Print the values of keys.
///
/// The value of a single key is written byte for byte; on a terminal a line end follows, and what is not printable is escaped. The values of
/// several keys stand behind their keys, a line each.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Get {
    /// The keys.
    #[arg(required = true, value_name = "KEY")]
    pub keys: Vec<OsString>,
    /// The keyspace.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    /// Write the value to this file, byte for byte.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub encoding: Encoding,
}

impl Get {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let keys: Vec<_> = self
            .keys
            .iter()
            .map(|key| self.encoding.read(key))
            .collect::<Result<_>>()?;
        if self.output.is_some() && keys.len() > 1 {
            return Err(crate::exit::failure(
                Exit::Usage,
                "--output takes the value of one key: name one",
            ));
        }
        let found = self.values(context, &keys)?;
        let mut exit = Exit::Done;
        let mut out = Output::new();
        for (key, value) in keys.iter().zip(found) {
            match value {
                Some(value) => self.print(context, &mut out, key, &value)?,
                None => {
                    screen::complain(&format!(
                        "there is no key {:?} in {:?}",
                        bytes::escape(key),
                        self.keyspace
                    ));
                    exit = Exit::NotFound;
                }
            }
        }
        out.flush()?;
        Ok(exit)
    }

    fn values(&self, context: &Context, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        match context.open_or_served()? {
            Access::Own(db) => {
                let found = context::existing(&db, &self.keyspace)?.multi_get(keys)?;
                let found = found.into_iter().map(|value| value.map(Vec::from)).collect();
                context::close(db)?;
                Ok(found)
            }
            Access::Served(server) => keys.iter().map(|key| server.value(&self.keyspace, key)).collect(),
        }
    }

    fn print(&self, context: &Context, out: &mut Output, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(path) = &self.output {
            return private::write(path, value).with_context(|| format!("writing {}", path.display()));
        }
        let encoding = self.encoding;
        if context.is_json() {
            bytes::json_record(out, key, Some(value))?;
        } else if self.keys.len() > 1 {
            out.line(&format!("{}\t{}", encoding.show(key), encoding.show(value)))?;
        } else if encoding.is_plain() && !out.is_terminal() {
            out.write_all(value)?;
        } else {
            out.line(&encoding.show(value))?;
        }
        Ok(())
    }
}
