//! `delete`: keys, or all keys of a range.

use crate::Exit;
use crate::bytes::{self, Encoding};
use crate::confirm::Consent;
use crate::context::{self, Context};
use crate::exit::failure;
use crate::range::Range;
use crate::screen;
use alluvium::WriteBatch;
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  alluvium delete Elbe Oder           # both or none
  alluvium delete --prefix session:   # all keys that begin so, for the price of one
  alluvium delete --from a --to n
  alluvium delete --prefix '' --yes   # all keys of the keyspace

The exit code is 1 if one of the keys is not there (not with --force); the others are deleted.";

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
        let db = context.open()?;
        let keyspace = context::existing(&db, &self.keyspace)?;
        let mut exit = Exit::Done;
        if self.range.is_everything() {
            if !self.force {
                for (key, found) in keys.iter().zip(keyspace.multi_get(&keys)?) {
                    if found.is_none() {
                        screen::complain(&format!(
                            "there is no key {:?} in {:?}",
                            bytes::escape(key),
                            self.keyspace
                        ));
                        exit = Exit::NotFound;
                    }
                }
            }
            let mut batch = WriteBatch::new();
            for key in &keys {
                batch.delete(&keyspace, key)?;
            }
            db.write(&batch)?;
        } else {
            if bounds.to.as_ref().is_some_and(|to| *to <= bounds.from) {
                return Err(failure(
                    Exit::Usage,
                    "--from must be before --to: nothing was deleted",
                ));
            }
            if bounds.from.is_empty() && bounds.to.is_none() {
                let loss = format!("all keys of the keyspace {:?} would be deleted", self.keyspace);
                self.consent.ask(&loss)?;
            }
            keyspace.delete_range(&bounds.from, bounds.to.as_deref())?;
        }
        context::close(db)?;
        Ok(exit)
    }
}
