//! The command line: the options common to all verbs, and the list of verbs.

use crate::context::{CommandContext, OutputFormat};
use crate::terminal::exit::TABLE;
use crate::values::sizes::{self, ByteSize};
use crate::values::tier::{self, TierDirectory};
use crate::verbs::{
    advise, aging, backup, bench, check, compact, completions, config, delete, export, files, get, import,
    index, inspect, keyspaces, man, model, mount, probe, put, repair, scan, serve, sort, stats, tiers,
    transaction, transactions, tx,
};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// A write-optimised key-value store.
///
/// Most commands work on a store. Its directory is given by `--db PATH`, else by the environment
/// variable ALLUVIUM_DB, else it is ./alluvium-data.
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
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// The memory limit of the store, as in 512M or 2G, at least 16M [default: a quarter of the
    /// machine's memory, or half of the container's].
    #[arg(long, global = true, value_name = "SIZE", value_parser = sizes::parse)]
    pub memory: Option<ByteSize>,
    /// Open the store with the device costs that `alluvium probe` has measured, instead of the
    /// default ones.
    #[arg(long, global = true)]
    pub measured_device: bool,
    /// An additional directory for data, on a slower and larger device. Repeat the option for
    /// several, fastest first. `bytes=4T` limits the data in it. The store remembers its tiers:
    /// give them when you create it, and when one has moved.
    #[arg(long, global = true, value_name = "PATH[,bytes=SIZE]", value_parser = tier::parse)]
    pub tier: Vec<TierDirectory>,
    /// What to do.
    #[command(subcommand)]
    pub verb: CliCommand,
}

/// The verbs of the program.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Serve the store to Redis and memcached clients.
    Serve(Box<serve::ServeCommand>),
    /// Check and print configuration files of `serve`.
    Config(config::ConfigCommand),
    /// Print the values of keys.
    Get(get::GetCommand),
    /// Set the value of a key.
    Put(put::PutCommand),
    /// Delete keys, or all keys of a range.
    Delete(delete::DeleteCommand),
    /// Print keys and values in order.
    Scan(scan::ScanCommand),
    /// List, create, drop and rename keyspaces.
    Keyspaces(keyspaces::KeyspacesCommand),
    /// List, add and drain the directories of a store.
    Tiers(tiers::TiersCommand),
    /// Import the rows of a file.
    Import(import::ImportCommand),
    /// Write keys and values to a file.
    Export(export::ExportCommand),
    /// Run a script of operations as a transaction.
    Transaction(transaction::TransactionCommand),
    /// List open transactions and kept snapshots, and the old versions that they retain.
    Transactions(transactions::TransactionsCommand),
    /// Run a command in a transaction: all of its changes to files take effect, or none.
    Tx(tx::TxCommand),
    /// Show the files of the store in a directory, to all programs.
    Mount(mount::MountCommand),
    /// List, read, copy and check the files of a store.
    Files(files::FilesCommand),
    /// Show the contents of the store, and the space and memory that they use.
    Stats(stats::StatsCommand),
    /// Read the whole store and report damage.
    Check(check::CheckCommand),
    /// Repair a damaged store as far as possible, so that it opens.
    Repair(repair::RepairCommand),
    /// Copy the store into a directory.
    Backup(backup::BackupCommand),
    /// Create a store from a backup.
    Restore(backup::RestoreCommand),
    /// Rewrite the store to free the space of deleted and replaced records.
    Compact(compact::CompactCommand),
    /// Sort lines or fixed-length records, including inputs larger than memory.
    Sort(sort::SortCommand),
    /// Build, read and update an index of fixed-length records.
    Index(index::IndexCommand),
    /// Measure the costs of reads, writes and syncs on the device of a directory.
    Probe(probe::ProbeCommand),
    /// Predict the cost of each structure for a workload.
    Model(Box<model::ModelCommand>),
    /// Rank structures and settings by their predicted cost for this store.
    Advise(Box<advise::AdviseCommand>),
    /// Measure how file systems age, and what that costs.
    Aging(aging::AgingCommand),
    /// Measure Alluvium, and compare it with other engines.
    Bench(bench::BenchCommand),
    /// Show the nodes and runs of the tree.
    Inspect(inspect::InspectCommand),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsCommand),
    /// Print or write the manual pages.
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
