//! `keyspaces`: lists, creates, drops and renames keyspaces.

use crate::context::CommandContext;
use crate::import::{PROGRESS, layout};
use crate::terminal::confirm::Consent;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::ScreenOutput;
use crate::values::bytes;
use crate::values::sizes::{self, ByteSize};
use alluvium::Compression;
use alluvium_server::control::{ManagementRequest, NewKeyspace};
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;

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
  alluvium keyspaces drop old-events       # asks for confirmation; --yes skips the question";

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
    /// List keyspaces and their options.
    #[command(after_help = "Example:\n  alluvium keyspaces list --json")]
    List {
        /// Include the keyspace that stores the progress of imports.
        #[arg(long)]
        all: bool,
    },
    /// Create a keyspace.
    #[command(after_help = "Example:\n  alluvium keyspaces create events --compression zstd")]
    Create(CreateKeyspaceCommand),
    /// Drop a keyspace and everything in it. Its space is freed in the background.
    #[command(after_help = "Example:\n  alluvium keyspaces drop events --yes")]
    Drop {
        /// The name of the keyspace.
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Rename a keyspace.
    #[command(after_help = "Example:\n  alluvium keyspaces rename events old-events")]
    Rename {
        /// The current name.
        from: String,
        /// The new name.
        to: String,
    },
}

/// A new keyspace.
#[derive(Args, Debug)]
pub struct CreateKeyspaceCommand {
    /// The name of the keyspace.
    pub name: String,
    /// The compression of its pages on the disk.
    #[arg(long, value_enum, default_value_t = CompressionArg::None)]
    pub compression: CompressionArg,
    /// Store values longer than this separately from their keys.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub value_threshold: Option<ByteSize>,
    /// The merge operator: add or append.
    #[arg(long, value_name = "NAME")]
    pub merge_operator: Option<String>,
    /// How long a value lives, as in 30m or 7d, if its put gives no expiry time [default: for
    /// good].
    #[arg(long, value_name = "DURATION", value_parser = alluvium::text::parse_duration)]
    pub default_expiry: Option<Duration>,
    /// The structure, with its options after commas. tiered: a tree that suits most data. levels:
    /// sorted runs that a policy merges, as in levels,k=4, levels,cola,r=3, levels,leveled,r=10 or
    /// levels,never. After the policy, f=3 lets merges take over more than 3 leaves in a row
    /// without reading them; scan=8 copies those that would separate keys with the same first 8
    /// bytes; always=2048 takes over more than 2048 nevertheless; values=moved copies separate
    /// values with their records; defragment=20 rewrites runs in which scans seek, up to 20 bytes
    /// for each 100 written otherwise. volatile,bytes=64M: in memory only, empty when the store is
    /// opened again. hashed: keys without an order, with index=pachash or index=trie;
    /// form=boa,lambda=16,refined=yes, which writes less and reads more; or form=bot,lambda=16,
    /// which writes each run once. paged: pages that are updated in place, as in paged,bplus or
    /// paged,beps,node=16384,epsilon=0.8,key=64,value=128, where key is the longest key and value
    /// the most bytes of a key's versions in its node; epsilon=adaptive lets each node choose;
    /// merge frees the pages of deleted keys.
    #[arg(long, value_name = "NAME", default_value = "tiered")]
    pub structure: String,
}

/// The values of --compression.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CompressionArg {
    /// No compression.
    None,
    /// About half the space for compressible data, with little work.
    Lz4,
    /// Less space than lz4, with more work.
    Zstd,
}

impl CompressionArg {
    /// Returns the name of the compression as used on the command line and in the output.
    fn name(self) -> &'static str {
        match self {
            CompressionArg::None => "none",
            CompressionArg::Lz4 => "lz4",
            CompressionArg::Zstd => "zstd",
        }
    }
}

impl From<CompressionArg> for Compression {
    fn from(arg: CompressionArg) -> Compression {
        match arg {
            CompressionArg::None => Compression::None,
            CompressionArg::Lz4 => Compression::Lz4,
            CompressionArg::Zstd => Compression::Zstd,
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
                    "--value-threshold can be at most four pages: choose a smaller size",
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
            default_expiry_ms: self.default_expiry.map(|after| after.as_millis() as u64),
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
