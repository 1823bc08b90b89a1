//! `put`: sets the value of a key.

use crate::context::CommandContext;
use crate::store::StoreHandle;
use crate::store::typed::RedisDatabaseArgs;
use crate::terminal::exit::{CommandExit, failure};
use crate::values::bytes::{self, ByteEncoding};
use crate::values::sizes;
use alluvium_server::control::{KeyChange, ManagementRequest};
use anyhow::{Context as _, Result};
use clap::Args;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  alluvium put Elbe '1094 km'
  alluvium put -k images logo --file logo.png
  date | alluvium put now -                  # from standard input
  alluvium put session:7 alice --expires-in 12h
  alluvium put --if-absent lock door-1       # exit code 1 if there is a value already
  alluvium put --redis-db 0 user:7 alice     # a string that Redis clients see";

/// Set the value of a key. The store and the keyspace are created if they do not exist.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PutCommand {
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
    /// Read the value from this file, byte for byte.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The keyspace.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    /// Delete the value after this time: 90s, 15m, 12h, 30d.
    #[arg(long, value_name = "DURATION", value_parser = alluvium::text::parse_duration, conflicts_with = "if_absent")]
    pub expires_in: Option<Duration>,
    /// Change nothing if the key has a value.
    #[arg(long)]
    pub if_absent: bool,
    #[command(flatten)]
    pub database: RedisDatabaseArgs,
    #[command(flatten)]
    pub encoding: ByteEncoding,
}

impl PutCommand {
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

    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let (key, value) = (self.encoding.read(&self.key)?, self.value()?);
        let store = context.open_or_create()?;
        let is_put = match self.database.redis_db {
            Some(database) => self.put_string(&store, database, &key, value)?,
            None => self.put_value(&store, &key, value)?,
        };
        store.close()?;
        if !is_put {
            let text = format!(
                "the key {:?} has a value already: it was not changed",
                bytes::escape(&key)
            );
            return Err(failure(CommandExit::NotFound, text));
        }
        Ok(CommandExit::Done)
    }

    fn expires_in_ms(&self) -> Option<u64> {
        self.expires_in.map(sizes::milliseconds)
    }

    fn put_value(&self, store: &StoreHandle, key: &[u8], value: Vec<u8>) -> Result<bool> {
        let keyspace = self.keyspace.clone();
        store.ensure_keyspace(&keyspace)?;
        let key = key.to_vec();
        if self.if_absent {
            return store.is_changed(&ManagementRequest::PutIfAbsent { keyspace, key, value });
        }
        store.write(vec![KeyChange {
            keyspace,
            key,
            value: Some(value),
            expires_in_ms: self.expires_in_ms(),
        }])?;
        Ok(true)
    }

    /// Sets a key of Redis clients to a string value. Returns whether it was set.
    fn put_string(&self, store: &StoreHandle, database: u8, key: &[u8], value: Vec<u8>) -> Result<bool> {
        let mut words = vec![b"SET".to_vec(), key.to_vec(), value];
        if let Some(ms) = self.expires_in_ms() {
            words.extend([b"PX".to_vec(), ms.to_string().into_bytes()]);
        }
        if self.if_absent {
            words.push(b"NX".to_vec());
        }
        let replies = store.execute(database, vec![words])?;
        Ok(replies.first().is_some_and(|reply| reply.starts_with(b"+")))
    }
}
