//! `tx`: runs a command in a transaction over files.
//!
//! *Scope*: how the command runs, and when its changes are committed; transactions that stay open.
//!
//! *Must not depend on*: how files are stored, and which process has the store open.

mod branches;
mod over;

use crate::context::CommandContext;
use crate::store::StoreHandle;
use crate::store::files::OpenFiles;
use crate::terminal::exit::{CommandExit, classify, failure};
use crate::terminal::screen;
use alluvium_mount::service::FilesView;
use alluvium_mount::{DescendantPolicy, ViewOptions, ViewOutcome};
use anyhow::{Context as _, Result};
use branches::BranchAction;
use clap::Args;
use over::DirectoryTransaction;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  alluvium tx -- make install DESTDIR=.
  alluvium tx --dir /srv/site -- sh -c 'rm -rf *; tar xf ~/site.tar'
  alluvium tx --retry 3 -- git pull
  alluvium tx --over /srv/site -- ./deploy.sh
  alluvium tx begin update
  alluvium tx run update --dir /srv/site -- make install
  alluvium tx diff update
  alluvium tx commit update

The command runs in DIR, or in the current directory if that is below DIR. It sees the files of the store there, and no other \
program sees its changes. If the exit code is 0, all changes to these files take effect at once and are on the disk; otherwise none do. If \
a process is killed or the machine loses power, the files are as before or as after the commit. Changes outside of DIR are not part of the \
transaction.

With --over, DIR is a directory of any file system instead. The changes are durable in the store before the first of them is applied to DIR. If the apply is interrupted, the next `tx --over` finishes it, or `tx --recover`. Other programs see files change one after the other while changes are applied.

`tx begin` keeps a transaction open over several commands. Its changes are in the store, and no other program sees them until `tx commit`. \
Nothing but `tx abort` ends it otherwise.

The exit code is that of the command. It is 8 if the command succeeded and another commit has changed files that it depends on: nothing is \
changed then, and the message names the files. --retry runs the command again.

Calls of fsync in the command succeed at once: only the commit makes its changes durable. Processes that the command leaves in the \
background belong to the transaction, which waits for them.";

/// Run a command in a transaction: all of its changes to files take effect, or none.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct TxCommand {
    #[command(flatten)]
    pub settings: CommandSettings,
    /// Work on this directory of any file system, not on files of the store. The store keeps the
    /// changes until they are applied.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dir", "files"])]
    pub over: Option<PathBuf>,
    /// Finish transactions with --over that were interrupted, and run no command.
    #[arg(long, conflicts_with_all = ["dir", "files", "over", "retry", "command"])]
    pub recover: bool,
    /// The file system. It is created when it is used for the first time.
    #[arg(long, default_value = "main", value_name = "NAME")]
    pub files: String,
    /// How often the command is run again after a conflict with another commit.
    #[arg(long, default_value_t = 0, value_name = "TIMES")]
    pub retry: u32,
    /// The command and its arguments.
    #[arg(last = true, required_unless_present = "recover", value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// What to do with transactions that stay open.
    #[command(subcommand)]
    pub action: Option<BranchAction>,
}

/// How a command runs that sees files of the store.
#[derive(Args, Debug)]
pub struct CommandSettings {
    /// The directory in which the command sees the files of the store [default: the current
    /// directory].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// End processes that the command leaves in the background after this many seconds, instead of
    /// waiting for them.
    #[arg(long, value_name = "SECONDS")]
    pub end_background_after: Option<u64>,
}

impl CommandSettings {
    /// Returns the directory in which the command sees the files.
    fn directory(&self) -> Result<PathBuf> {
        match &self.dir {
            Some(directory) => Ok(directory.clone()),
            None => current_directory(),
        }
    }

    /// Returns a command that sees files in this directory, and how it runs.
    fn prepare(&self, command: &[OsString], directory: &Path) -> Result<(Command, ViewOptions)> {
        let (program, arguments) = command.split_first().ok_or_else(|| {
            failure(
                CommandExit::Usage,
                "give the command after `--`, as in `alluvium tx -- make`",
            )
        })?;
        let mut command = Command::new(program);
        command.args(arguments);
        let current = current_directory()?;
        let found = directory.canonicalize();
        let is_inside = found.is_ok_and(|directory| current.starts_with(directory));
        let options = ViewOptions {
            descendants: match self.end_background_after {
                Some(seconds) => DescendantPolicy::EndAfter(Duration::from_secs(seconds)),
                None => DescendantPolicy::Await,
            },
            working_directory: is_inside.then_some(current),
            ..ViewOptions::default()
        };
        Ok((command, options))
    }
}

/// The environment variable with the name of the transaction, which Redis clients can join.
const TRANSACTION: &str = "ALLUVIUM_TRANSACTION";

/// A transaction in which a command runs.
enum CommandTransaction {
    Files(OpenFiles, PathBuf),
    Directory(DirectoryTransaction),
}

impl TxCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        if let Some(action) = &self.action {
            return action.run(context);
        }
        if self.recover {
            let store = context.open()?;
            over::recover(context, &store)?;
            store.close()?;
            return Ok(CommandExit::Done);
        }
        let mut tries = 0;
        loop {
            let Err(error) = self.run_once(context) else {
                return Ok(CommandExit::Done);
            };
            let is_conflict = classify(&error) == CommandExit::Conflict;
            if !is_conflict || tries >= self.retry {
                return Err(error);
            }
            tries += 1;
            screen::note(&format!(
                "{error}; running the command again ({tries} of {})",
                self.retry
            ));
        }
    }

    /// Runs the command and commits its changes. If the command fails, ends this process with its
    /// exit code.
    fn run_once(&self, context: &CommandContext) -> Result<()> {
        let store = context.open_or_create()?;
        let transaction = self.begin(context, &store)?;
        let outcome = match self.run_command(&transaction) {
            Ok(outcome) => outcome,
            Err(error) => {
                transaction.rollback()?;
                return Err(error);
            }
        };
        for process in &outcome.ended {
            screen::note(&format!(
                "ended {process}, which the command had left in the background"
            ));
        }
        if !outcome.status.success() {
            transaction.rollback()?;
            store.close()?;
            screen::note(&format!(
                "{}; its changes were rolled back",
                described(outcome.status)
            ));
            std::process::exit(exit_code(outcome.status));
        }
        let committed = transaction.commit(context, &store);
        store.close()?;
        committed
    }

    fn begin(&self, context: &CommandContext, store: &StoreHandle) -> Result<CommandTransaction> {
        if let Some(directory) = &self.over {
            let begun = DirectoryTransaction::begin(context, store, directory)?;
            return Ok(CommandTransaction::Directory(begun));
        }
        let directory = self.settings.directory()?;
        let open = OpenFiles::open(context, store, &self.files, FilesView::Transaction)?;
        Ok(CommandTransaction::Files(open, directory))
    }

    fn run_command(&self, transaction: &CommandTransaction) -> Result<ViewOutcome> {
        let (mut command, options) = self.settings.prepare(&self.command, transaction.directory())?;
        match transaction {
            CommandTransaction::Files(open, directory) => {
                command.env_remove(TRANSACTION);
                if let Some(name) = open.publish()? {
                    command.env(TRANSACTION, name);
                }
                Ok(open.run_in_view(directory, command, &options)?)
            }
            CommandTransaction::Directory(open) => open.run(command, &options),
        }
    }
}

impl CommandTransaction {
    /// Returns the directory in which the command sees the files.
    fn directory(&self) -> &Path {
        match self {
            CommandTransaction::Files(_, directory) => directory,
            CommandTransaction::Directory(open) => open.directory(),
        }
    }

    fn commit(self, context: &CommandContext, store: &StoreHandle) -> Result<()> {
        match self {
            CommandTransaction::Files(open, _) => open.commit(),
            CommandTransaction::Directory(open) => open.commit(context, store),
        }
    }

    fn rollback(self) -> Result<()> {
        match self {
            CommandTransaction::Files(open, _) => open.rollback(),
            CommandTransaction::Directory(open) => open.rollback(),
        }
    }
}

fn current_directory() -> Result<PathBuf> {
    std::env::current_dir().context("finding the current directory")
}

/// Returns the exit code of a command as shells give it.
fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(CommandExit::Failed as i32)
}

fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the command ended with exit code {code}"),
        (None, Some(signal)) => format!("the command was ended by signal {signal}"),
        (None, None) => "the command has failed".to_owned(),
    }
}
