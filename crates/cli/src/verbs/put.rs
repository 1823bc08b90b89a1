//! `put`: a key's value.

use crate::Exit;
use crate::bytes::{self, Encoding};
use crate::context::{self, Context};
use crate::exit::failure;
use crate::sizes;
use anyhow::{Context as _, Result};
use clap::Args;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

const EXAMPLES: &str = "\
Examples:
  alluvium put Elbe '1094 km'
  alluvium put -k images logo --file logo.png
  date | alluvium put now -                  # from standard input
  alluvium put session:7 alice --expires-in 12h
  alluvium put --if-absent lock door-1       # exit code 1 if there is a value already";

/// Give a key a value. The store and the keyspace are created if they are not there.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Put {
    /// The key.
    #[arg(value_name = "KEY")]
    pub key: OsString,
    /// The value; `-` for standard input.
    #[arg(
        value_name = "VALUE",
        required_unless_present = "file",
        conflicts_with = "file"
    )]
    pub value: Option<OsString>,
    /// Take the value from this file, byte for byte.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The keyspace.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    /// The value goes away after this time: 90s, 15m, 12h, 30d.
    #[arg(long, value_name = "DURATION", value_parser = sizes::parse_duration, conflicts_with = "if_absent")]
    pub expires_in: Option<Duration>,
    /// Leave the key alone if it has a value.
    #[arg(long)]
    pub if_absent: bool,
    #[command(flatten)]
    pub encoding: Encoding,
}

impl Put {
    fn value(&self) -> Result<Vec<u8>> {
        if let Some(path) = &self.file {
            return std::fs::read(path).with_context(|| format!("reading {}", path.display()));
        }
        let text = self.value.as_deref().unwrap_or_default();
        if text == "-" {
            let mut bytes = Vec::new();
            let most = alluvium::MAX_VALUE as u64 * 3;
            std::io::stdin()
                .lock()
                .take(most)
                .read_to_end(&mut bytes)
                .context("reading standard input")?;
            return if self.encoding.is_plain() {
                Ok(bytes)
            } else {
                self.encoding.decode(&bytes)
            };
        }
        self.encoding.read(text)
    }

    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let (key, value) = (self.encoding.read(&self.key)?, self.value()?);
        let db = context.open_or_create()?;
        let keyspace = context::wanted(&db, &self.keyspace)?;
        if self.if_absent {
            if !keyspace.compare_and_set(&key, None, Some(&value))? {
                let text = format!(
                    "the key {:?} has a value already: it was left alone",
                    bytes::escape(&key)
                );
                return Err(failure(Exit::NotFound, text));
            }
        } else {
            match self.expires_in {
                Some(after) => keyspace.put_until(&key, &value, SystemTime::now() + after)?,
                None => keyspace.put(&key, &value)?,
            }
        }
        context::close(db)?;
        Ok(Exit::Done)
    }
}
