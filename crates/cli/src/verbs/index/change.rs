//! The subcommands of `index` that write: `build`, `update` and `convert`.

use super::{IndexKindArg, place, records, told};
use crate::context::CommandContext;
use crate::jobs::{progress, stop};
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::sizes::{self, ByteSize};
use alluvium_hashes::index::{IndexUpdater, StaticIndex, StaticIndexBuilder, StaticIndexOptions, reindex};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Default value of --memory in bytes for the sort.
const MEMORY: u64 = 512 << 20;

fn memory(context: &CommandContext) -> usize {
    usize::try_from(context.memory.unwrap_or(MEMORY)).unwrap_or(usize::MAX)
}

/// Build an index of the records in files.
#[derive(Args, Debug)]
pub struct IndexBuildCommand {
    /// The file of the index.
    pub index: PathBuf,
    /// The files that contain the records; `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The length of keys in bytes.
    #[arg(long, value_name = "N")]
    pub key_bytes: u32,
    /// The length of values in bytes.
    #[arg(long, value_name = "N")]
    pub value_bytes: u32,
    /// The kind of index.
    #[arg(long, value_enum, default_value = "dense")]
    pub kind: IndexKindArg,
    /// The size of a block, which a lookup reads [default: 4K, or more if a record needs it].
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub block: Option<ByteSize>,
    /// The average number of keys in a trie; more keys need less memory and more time.
    #[arg(long, value_name = "N", default_value = "256")]
    pub keys_per_trie: u32,
    /// The seed of the hash function; choose it at random if others choose the keys.
    #[arg(long, value_name = "N", default_value = "0")]
    pub seed: u64,
}

impl IndexBuildCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let (directory, name) = place(&self.index)?;
        let mut options = StaticIndexOptions::new(self.key_bytes, self.value_bytes);
        options.kind = self.kind.into();
        options.seed = self.seed;
        options.keys_per_bucket = self.keys_per_trie;
        options.memory_bytes = memory(context);
        if let Some(block) = self.block {
            options.shape.block_bytes = u32::try_from(block.0).unwrap_or(u32::MAX);
        }
        stop::listen()?;
        let started = Instant::now();
        let mut builder = StaticIndexBuilder::new(directory, &name, options).map_err(told)?;
        let bar = progress::bytes("reading", None);
        for file in &self.files {
            records::each(file, options.shape.record_bytes(), &bar, |record| {
                let (key, value) = record.split_at(self.key_bytes as usize);
                builder.push(key, value).map_err(told)
            })?;
        }
        bar.set_message("writing");
        let records = builder.finish().map_err(told);
        bar.finish_and_clear();
        say(context, "built", records?, started)
    }
}

/// Add, replace and delete records.
#[derive(Args, Debug)]
pub struct IndexUpdateCommand {
    /// The file of the index.
    pub index: PathBuf,
    /// Files with records to add, or to replace records with the same keys.
    #[arg(long, value_name = "FILE")]
    pub put: Vec<PathBuf>,
    /// Files with keys to delete, after --put.
    #[arg(long, value_name = "FILE")]
    pub delete: Vec<PathBuf>,
}

impl IndexUpdateCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        if self.put.is_empty() && self.delete.is_empty() {
            let text = "there is nothing to change: name files with --put or --delete";
            return Err(failure(CommandExit::Usage, text));
        }
        let (directory, name) = place(&self.index)?;
        let shape = StaticIndex::open(&*directory, &name)
            .map_err(told)?
            .options()
            .shape;
        stop::listen()?;
        let started = Instant::now();
        let mut updater = IndexUpdater::new(directory, &name, memory(context)).map_err(told)?;
        let bar = progress::bytes("reading", None);
        for file in &self.put {
            records::each(file, shape.record_bytes(), &bar, |record| {
                let (key, value) = record.split_at(shape.key_bytes as usize);
                updater.put(key, value).map_err(told)
            })?;
        }
        for file in &self.delete {
            records::each(file, shape.key_bytes as usize, &bar, |key| {
                updater.delete(key).map_err(told)
            })?;
        }
        bar.set_message("writing");
        let records = updater.finish().map_err(told);
        bar.finish_and_clear();
        say(context, "updated", records?, started)
    }
}

/// Convert an index to another kind.
#[derive(Args, Debug)]
pub struct IndexConvertCommand {
    /// The file of the index.
    pub index: PathBuf,
    /// The new kind of index.
    #[arg(long, value_enum)]
    pub kind: IndexKindArg,
}

impl IndexConvertCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let (directory, name) = place(&self.index)?;
        let started = Instant::now();
        let records = reindex(directory, &name, self.kind.into()).map_err(told)?;
        say(context, "converted", records, started)
    }
}

/// Reports the number of records and the number of records per second.
fn say(context: &CommandContext, what: &str, records: u64, started: Instant) -> Result<CommandExit> {
    let took = started.elapsed();
    if context.is_json() {
        let mut out = ScreenOutput::new();
        out.json(&json!({ "records": records, "seconds": took.as_secs_f64() }))?;
        out.flush()?;
    }
    screen::note(&format!(
        "{what}: {} records, {} a second",
        sizes::count(records),
        sizes::count(progress::per_second(records, 0, took))
    ));
    Ok(CommandExit::Done)
}
