//! The subcommands of `index` that read: `get` and `stat`.

use super::{place, told};
use crate::context::CommandContext;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::{ScreenOutput, complain};
use crate::values::bytes::ByteEncoding;
use crate::values::sizes;
use alluvium_hashes::index::{StaticIndex, StaticIndexKind};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// Print the values of keys.
#[derive(Args, Debug)]
pub struct IndexGetCommand {
    /// The file of the index.
    pub index: PathBuf,
    /// The keys.
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<OsString>,
    #[command(flatten)]
    pub encoding: ByteEncoding,
}

impl IndexGetCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let (directory, name) = place(&self.index)?;
        let index = StaticIndex::open(&*directory, &name).map_err(told)?;
        let mut out = ScreenOutput::new();
        let mut exit = CommandExit::Done;
        for typed in &self.keys {
            let key = self.encoding.read(typed)?;
            let value = index.get(&key).map_err(told)?;
            if value.is_none() {
                exit = CommandExit::NotFound;
                if !context.is_json() {
                    complain(&format!("the index has no key {}", self.encoding.show(&key)));
                }
            }
            if context.is_json() {
                let shown = value.map(|value| self.encoding.show(&value));
                out.json(&json!({ "key": self.encoding.show(&key), "value": shown }))?;
            } else if let Some(value) = value {
                if self.encoding.is_plain() && self.keys.len() == 1 && !out.is_terminal() {
                    out.write_all(&value)?;
                } else {
                    out.line(&self.encoding.show(&value))?;
                }
            }
        }
        out.flush()?;
        Ok(exit)
    }
}

/// Show the size of an index, and check it.
#[derive(Args, Debug)]
pub struct IndexStatCommand {
    /// The file of the index.
    pub index: PathBuf,
    /// Read every record and compare it with the index.
    #[arg(long)]
    pub check: bool,
}

impl IndexStatCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let (directory, name) = place(&self.index)?;
        let index = StaticIndex::open(&*directory, &name).map_err(told)?;
        let stat = index.stat();
        if self.check {
            index.check().map_err(told)?;
        }
        let kind = match stat.kind {
            StaticIndexKind::Dense => "dense",
            StaticIndexKind::Sparse => "sparse",
            StaticIndexKind::Blocks => "blocks",
        };
        let mut out = ScreenOutput::new();
        if context.is_json() {
            out.json(&json!({
                "kind": kind,
                "records": stat.records,
                "key_bytes": stat.shape.key_bytes,
                "value_bytes": stat.shape.value_bytes,
                "block_bytes": stat.shape.block_bytes,
                "blocks": stat.blocks,
                "seed": stat.seed,
                "data_bytes": stat.data_bytes,
                "index_bytes": stat.index_bytes,
                "bits_per_key": stat.bits_per_key,
                "is_checked": self.check,
            }))?;
        } else {
            let row = |name: &str, value: String| vec![name.to_owned(), value];
            let mut rows = vec![
                row("kind", kind.to_owned()),
                row("records", sizes::count(stat.records)),
                row("bytes of a key", stat.shape.key_bytes.to_string()),
                row("bytes of a value", stat.shape.value_bytes.to_string()),
                row("bytes of a block", stat.shape.block_bytes.to_string()),
                row("file of records", sizes::human(stat.data_bytes)),
                row("index, in memory", sizes::human(stat.index_bytes)),
                row("bits a key", format!("{:.3}", stat.bits_per_key)),
            ];
            if self.check {
                rows.push(row("check", "sound".to_owned()));
            }
            out.table(&["what", "value"], &rows)?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}
