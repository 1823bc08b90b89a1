//! `get`: prints the values of keys.

use crate::context::CommandContext;
use crate::store::typed::{RedisDatabaseArgs, RedisKeyPrinter};
use crate::store::{RedisKeyPart, private};
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::bytes::{self, ByteEncoding};
use alluvium_server::control::{RedisKind, RedisRequest};
use anyhow::{Context as _, Result};
use clap::Args;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  alluvium get Elbe                        # its value, byte for byte
  alluvium get -k images logo -o logo.png  # into a file
  alluvium get --json Elbe Oder            # one JSON object per line
  alluvium get --redis-db 0 user:7         # a key of Redis clients: strings, lists, sets, hashes, sorted sets

The exit code is 1 if one of the keys does not exist.";

/// Print the values of keys.
///
/// The value of a single key is written byte for byte; on a terminal, a line end follows and
/// unprintable bytes are escaped. Several keys are printed with their values, one per line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct GetCommand {
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
    pub database: RedisDatabaseArgs,
    #[command(flatten)]
    pub encoding: ByteEncoding,
}

impl GetCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let keys: Vec<_> = self
            .keys
            .iter()
            .map(|key| self.encoding.read(key))
            .collect::<Result<_>>()?;
        if self.output.is_some() && keys.len() > 1 {
            return Err(crate::terminal::exit::failure(
                CommandExit::Usage,
                "--output writes the value of a single key: give only one key",
            ));
        }
        if let Some(database) = self.database.redis_db {
            return self.typed(context, database, keys);
        }
        let store = context.open_to_read()?;
        let found = store.values(&self.keyspace, &keys)?;
        store.tell_of_raw(&self.keyspace);
        store.close()?;
        let mut exit = CommandExit::Done;
        let mut out = ScreenOutput::new();
        for (key, value) in keys.iter().zip(found) {
            match value {
                Some(value) => self.print(context, &mut out, key, &value)?,
                None => {
                    screen::complain(&format!(
                        "there is no key {:?} in {:?}",
                        bytes::escape(key),
                        self.keyspace
                    ));
                    exit = CommandExit::NotFound;
                }
            }
        }
        out.flush()?;
        Ok(exit)
    }

    /// Prints keys of Redis clients.
    fn typed(&self, context: &CommandContext, database: u8, keys: Vec<Vec<u8>>) -> Result<CommandExit> {
        let store = context.open_to_read()?;
        let is_one = keys.len() == 1;
        let mut missing = Vec::new();
        let mut text = None;
        let mut out = ScreenOutput::new();
        let mut printer = RedisKeyPrinter::new(&mut out, self.encoding, context.is_json());
        let is_plain = is_one && !context.is_json();
        let request = RedisRequest::Get { database, keys };
        store.typed(request, &mut |part| {
            match part {
                RedisKeyPart::Key(key) if key.kind.is_none() => missing.push(key.key),
                // A single string is printed in the same way as the value of a single key in a
                // keyspace.
                RedisKeyPart::Key(key) if is_plain && key.kind == Some(RedisKind::String) => {
                    text = Some(key.key);
                }
                RedisKeyPart::Key(_) if self.output.is_some() => return Err(GetCommand::no_bytes()),
                RedisKeyPart::Key(key) => printer.key(&key)?,
                RedisKeyPart::Elements(elements) => match (&text, elements.first()) {
                    (Some(key), Some((value, _))) => self.print(context, printer.out(), key, value)?,
                    _ => printer.elements(&elements)?,
                },
            }
            Ok(())
        })?;
        printer.end()?;
        out.flush()?;
        store.close()?;
        for key in &missing {
            screen::complain(&format!(
                "there is no key {:?} in database {database}",
                bytes::escape(key)
            ));
        }
        Ok(match missing.is_empty() {
            true => CommandExit::Done,
            false => CommandExit::NotFound,
        })
    }

    fn no_bytes() -> anyhow::Error {
        let text = "--output writes the value of a string, but the key holds a collection: leave --output out, or use `alluvium export --redis-db`";
        crate::terminal::exit::failure(CommandExit::Usage, text)
    }

    fn print(
        &self,
        context: &CommandContext,
        out: &mut ScreenOutput,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
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
