//! The command line: the options common to all verbs, and the list of verbs.

use crate::context::{CommandContext, OutputFormat};
use crate::terminal::exit::TABLE;
use crate::values::sizes::{self, ByteSize};
use crate::values::tier::{self, TierDirectory};
use crate::verbs::{
    advise, backup, bench, check, compact, completions, delete, export, get, import, index, inspect,
    keyspaces, man, model, probe, put, repair, scan, serve, sort, stats, tiers, transaction, transactions,
};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// A write-optimised key-value store.
///
/// Every command works on the store in a directory: `--db PATH`, or the environment variable
/// ALLUVIUM_DB, or ./alluvium-data.
#[derive(Debug, Parser)]
#[command(name = "alluvium", version, after_help = TABLE, max_term_width = 110)]
pub struct CliArguments {
    /// The directory of the store.
    #[arg(
        long,
        global = true,
        env = "ALLUVIUM_DB",
        value_name = "PATH",
        default_value = "alluvium-data"
    )]
    pub db: PathBuf,
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,
    /// The memory that the store may take in all, as in 512M or 2G [default: a quarter of what the
    /// machine has, or half of its container's].
    #[arg(long, global = true, value_name = "SIZE", value_parser = sizes::parse)]
    pub memory: Option<ByteSize>,
    /// Open the store with the costs of its device as `alluvium probe` has measured them.
    #[arg(long, global = true)]
    pub measured_device: bool,
    /// A further directory for data, on a slower and larger device: again for each, the fastest
    /// first. `bytes=4T` limits what it may take. A store remembers its tiers: they are given when
    /// it is created, and when one has moved.
    #[arg(long, global = true, value_name = "PATH[,bytes=SIZE]", value_parser = tier::parse)]
    pub tier: Vec<TierDirectory>,
    /// What to do.
    #[command(subcommand)]
    pub verb: CliCommand,
}

/// What the binary can do.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Serve the store to Redis and memcached clients.
    Serve(Box<serve::ServeCommand>),
    /// Print the values of keys.
    Get(get::GetCommand),
    /// Give a key a value.
    Put(put::PutCommand),
    /// Delete keys, or all keys of a range.
    Delete(delete::DeleteCommand),
    /// Print keys and values in order.
    Scan(scan::ScanCommand),
    /// List, create, drop and rename keyspaces.
    Keyspaces(keyspaces::KeyspacesCommand),
    /// List, add and drain the directories of a store.
    Tiers(tiers::TiersCommand),
    /// Put the rows of a file into the store.
    Import(import::ImportCommand),
    /// Write keys and values to a file.
    Export(export::ExportCommand),
    /// Run a script of operations as a transaction.
    Transaction(transaction::TransactionCommand),
    /// List open transactions and kept snapshots, and what they hold back.
    Transactions(transactions::TransactionsCommand),
    /// Say what the store holds, and what that takes.
    Stats(stats::StatsCommand),
    /// Read everything and report what is damaged.
    Check(check::CheckCommand),
    /// Make a damaged store one that opens, as far as that goes.
    Repair(repair::RepairCommand),
    /// Copy the store as it is now into a directory.
    Backup(backup::BackupCommand),
    /// Make a store of a backup.
    Restore(backup::RestoreCommand),
    /// Rewrite everything, so that what was deleted or replaced takes no space.
    Compact(compact::CompactCommand),
    /// Sort lines, or records of one length, that need not fit into memory.
    Sort(sort::SortCommand),
    /// Build and use an index of records at rest.
    Index(index::IndexCommand),
    /// Measure the device under a directory: what reads, writes and syncs cost.
    Probe(probe::ProbeCommand),
    /// Say what structures would cost for a workload.
    Model(Box<model::ModelCommand>),
    /// Rank structures and settings by what they would cost this store.
    Advise(Box<advise::AdviseCommand>),
    /// Measure it, and other engines beside it.
    Bench(bench::BenchCommand),
    /// Draw the tree.
    Inspect(inspect::InspectCommand),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsCommand),
    /// Write the manual pages.
    Man(man::ManCommand),
}

impl CommandContext {
    pub(crate) fn new(arguments: &CliArguments) -> CommandContext {
        CommandContext {
            path: arguments.db.clone(),
            form: if arguments.json {
                OutputFormat::Json
            } else {
                OutputFormat::Text
            },
            memory: arguments.memory.map(|memory| memory.0),
            takes_measured: arguments.measured_device,
            tiers: arguments.tier.clone(),
        }
    }
}
