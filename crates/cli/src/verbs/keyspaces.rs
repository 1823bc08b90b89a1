//! `keyspaces`: lists, creates, drops and renames keyspaces.

use crate::context::CommandContext;
use crate::import::{PROGRESS, layout};
use crate::terminal::confirm::Consent;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::ScreenOutput;
use crate::values::bytes;
use crate::values::sizes::{self, ByteSize};
use alluvium_server::control::{ManagementRequest, NewKeyspace};
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium keyspaces                       # lists them
  alluvium keyspaces create events --compression zstd
  alluvium keyspaces create hits --merge-operator add
  alluvium keyspaces create trial --structure levels,k=4
  alluvium keyspaces create blobs --structure hashed,index=pachash
  alluvium keyspaces create sessions --structure hashed,form=boa,lambda=16,refined=yes
  alluvium keyspaces create counters --structure paged,beps,node=8192,epsilon=0.6
  alluvium keyspaces rename events old-events
  alluvium keyspaces drop old-events       # asks first; --yes does not";

/// List, create, drop and rename keyspaces.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct KeyspacesCommand {
    /// What to do; without it, list them.
    #[command(subcommand)]
    pub action: Option<KeyspaceAction>,
}

/// What can be done with keyspaces.
#[derive(Debug, Subcommand)]
pub enum KeyspaceAction {
    /// List them with what they were created with.
    #[command(after_help = "Example:\n  alluvium keyspaces list --json")]
    List {
        /// Also the one in which imports remember how far they are.
        #[arg(long)]
        all: bool,
    },
    /// Create one.
    #[command(after_help = "Example:\n  alluvium keyspaces create events --compression zstd")]
    Create(CreateKeyspaceCommand),
    /// Drop one with everything in it. Its space comes back in the background.
    #[command(after_help = "Example:\n  alluvium keyspaces drop events --yes")]
    Drop {
        /// Its name.
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Give one another name.
    #[command(after_help = "Example:\n  alluvium keyspaces rename events old-events")]
    Rename {
        /// Its name now.
        from: String,
        /// Its name then.
        to: String,
    },
}

/// A new keyspace.
#[derive(Args, Debug)]
pub struct CreateKeyspaceCommand {
    /// Its name.
    pub name: String,
    /// How its pages are kept on the disk.
    #[arg(long, value_enum, default_value_t = CompressionArg::None)]
    pub compression: CompressionArg,
    /// Values longer than this are kept apart from their keys.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub value_threshold: Option<ByteSize>,
    /// The operator that folds what is merged: add or append.
    #[arg(long, value_name = "NAME")]
    pub merge_operator: Option<String>,
    /// The structure: tiered, or levels, with K as in levels,k=4, or with another policy:
    /// levels,cola,r=3, levels,leveled,r=10, levels,never. Behind it, what merges take over
    /// unread: more than f leaves in a row, keeping keys together that share their first bytes
    /// (scan), unless they are more than always: levels,k=4,f=3,scan=8,always=2048. With
    /// values=moved, values that are apart move with what is copied; defragment=20 has runs
    /// written again in which scans seek, for a fifth of what else is written at most.
    /// Or volatile: in memory alone, and empty at the next opening: volatile,bytes=64M.
    /// Or hashed: without order of keys, with an index as in hashed,index=trie, or as levels with
    /// routing filters, which write less and read more: hashed,form=boa,lambda=16,refined=yes. Or
    /// runs that are written once, below trees of their hashes: hashed,form=bot,lambda=16.
    /// Or pages that are written in place: paged, paged,bplus, or with all that can be said
    /// paged,beps,node=16384,epsilon=0.8,key=64,value=128, where key is the longest key, and
    /// value how much of a value stays in its node; epsilon=adaptive has each node choose its own;
    /// and ,merge has pages of deleted keys become free.
    #[arg(long, value_name = "NAME", default_value = "tiered")]
    pub structure: String,
}

/// Compression as it is typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CompressionArg {
    /// Pages as they are.
    None,
    /// Half the space where there is something to gain, little work.
    Lz4,
    /// Less space, more work.
    Zstd,
}

impl CompressionArg {
    /// Returns the name on the command line and in output.
    fn name(self) -> &'static str {
        match self {
            CompressionArg::None => "none",
            CompressionArg::Lz4 => "lz4",
            CompressionArg::Zstd => "zstd",
        }
    }
}

impl KeyspacesCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        match &self.action {
            None | Some(KeyspaceAction::List { all: false }) => list(context, |name| name != PROGRESS),
            Some(KeyspaceAction::List { all: true }) => list(context, |_| true),
            Some(KeyspaceAction::Create(create)) => create.run(context),
            Some(KeyspaceAction::Drop { name, consent }) => {
                let store = context.open()?;
                store.require_keyspace(name)?;
                consent.ask(&format!(
                    "the keyspace {name:?} and everything in it would be dropped"
                ))?;
                store.change(&ManagementRequest::DropKeyspace(name.clone()))?;
                layout::forget(&store, name)?;
                store.close()?;
                Ok(CommandExit::Done)
            }
            Some(KeyspaceAction::Rename { from, to }) => {
                let store = context.open()?;
                store.require_keyspace(from)?;
                store.change(&ManagementRequest::RenameKeyspace {
                    from: from.clone(),
                    to: to.clone(),
                })?;
                layout::rename(&store, from, to)?;
                store.close()?;
                Ok(CommandExit::Done)
            }
        }
    }
}

impl CreateKeyspaceCommand {
    fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let value_threshold = match self.value_threshold {
            None => None,
            Some(ByteSize(bytes)) => Some(u32::try_from(bytes).map_err(|_| {
                failure(
                    CommandExit::Usage,
                    "--value-threshold is at most four pages: choose less",
                )
            })?),
        };
        let store = context.open_or_create()?;
        store.change(&ManagementRequest::CreateKeyspace(NewKeyspace {
            name: self.name.clone(),
            compression: self.compression.name().to_owned(),
            value_threshold,
            merge_operator: self.merge_operator.clone(),
            structure: Some(self.structure.clone()),
        }))?;
        store.close()?;
        Ok(CommandExit::Done)
    }
}

fn list(context: &CommandContext, shown: impl Fn(&str) -> bool) -> Result<CommandExit> {
    let store = context.open_to_read()?;
    let all = store.keyspaces()?;
    store.close()?;
    let all: Vec<Value> = all
        .into_iter()
        .filter(|keyspace| keyspace["name"].as_str().is_some_and(&shown))
        .collect();
    let mut out = ScreenOutput::new();
    if context.is_json() {
        out.json(&json!(all))?;
    } else {
        let text = |value: &Value| match value {
            Value::Null => "-".to_owned(),
            Value::String(text) => bytes::escape(text.as_bytes()),
            other => other.to_string(),
        };
        let columns = [
            "name",
            "compression",
            "value_threshold",
            "merge_operator",
            "compaction_filter",
            "structure",
        ];
        let row = |all: &Value| columns.iter().map(|column| text(&all[column])).collect();
        let rows: Vec<Vec<String>> = all.iter().map(row).collect();
        out.table(&columns, &rows)?;
    }
    out.flush()?;
    Ok(CommandExit::Done)
}
