//! `files create`: creates a file system with other options than the defaults.

use crate::context::CommandContext;
use crate::terminal::exit::{CommandExit, failure};
use crate::values::sizes::{self, ByteSize};
use crate::verbs::keyspaces::CompressionArg;
use alluvium::{Structure, ValueOrder};
use alluvium_files::{ContentOrder, Files, FilesOptions};
use anyhow::Result;
use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  alluvium files create --files pictures --block-size 256K --compression none
  alluvium files create --files logs --blocks levels,k=8 --order inode

The options cannot be changed later. They cost and gain different things on different devices; docs/aging.md compares the orders.";

/// The order of the contents of different files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    /// That of the paths at which they were created, in which programs read a tree.
    Path,
    /// That in which they were created.
    Inode,
}

/// Options of a new file system.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CreateFilesCommand {
    /// The order of the contents of different files.
    #[arg(long, value_enum, default_value_t = OrderArg::Path)]
    pub order: OrderArg,
    /// The size of a block of contents, a power of two from 512 to 1M.
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = sizes::parse)]
    pub block_size: ByteSize,
    /// Store the contents of files up to this size with their attributes, at most 4K.
    #[arg(long, value_name = "SIZE", default_value = "2K", value_parser = sizes::parse)]
    pub inline_size: ByteSize,
    /// The structure that stores the blocks: tiered, levels or paged, with its options as in
    /// `alluvium keyspaces create --structure`.
    #[arg(long, value_name = "STRUCTURE", default_value = "tiered")]
    pub blocks: String,
    /// Leave blocks where they were first written, so that each is written once. Otherwise
    /// compactions bring scattered blocks together.
    #[arg(long)]
    pub leave_scattered: bool,
    /// The compression of contents.
    #[arg(long, value_enum, default_value_t = CompressionArg::None)]
    pub compression: CompressionArg,
}

impl CreateFilesCommand {
    fn options(&self) -> Result<FilesOptions> {
        let bytes = |flag: &str, ByteSize(bytes): ByteSize| {
            let too_large = |_| {
                failure(
                    CommandExit::Usage,
                    format!("{flag} is too large: choose at most 1M"),
                )
            };
            u32::try_from(bytes).map_err(too_large)
        };
        let structure: Structure = self
            .blocks
            .parse()
            .map_err(|error: alluvium::Error| failure(CommandExit::Usage, error.to_string()))?;
        Ok(FilesOptions::new()
            .order(match self.order {
                OrderArg::Path => ContentOrder::ByPath,
                OrderArg::Inode => ContentOrder::ByInode,
            })
            .block_bytes(bytes("--block-size", self.block_size)?)
            .inline_bytes(bytes("--inline-size", self.inline_size)?)
            .blocks(structure)
            .value_order(match self.leave_scattered {
                true => ValueOrder::Written,
                false => ValueOrder::Gathered,
            })
            .compression(self.compression.into()))
    }

    pub(super) fn run(&self, context: &CommandContext, name: &str) -> Result<CommandExit> {
        let options = self.options()?;
        let store = context.open_or_create()?;
        let Some(db) = store.db() else {
            let text =
                "another process has the store open: create the file system before that process starts";
            return Err(failure(CommandExit::Busy, text));
        };
        if Files::list(db).iter().any(|known| known == name) {
            let text = format!(
                "the file system {name:?} already exists, and its options cannot be changed: choose another name with --files"
            );
            return Err(failure(CommandExit::Failed, text));
        }
        Files::open_with(db, name, &options)?;
        store.close()?;
        Ok(CommandExit::Done)
    }
}
