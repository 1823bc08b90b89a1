//! `tx`: runs a command in a transaction over files.

use crate::context::CommandContext;
use crate::store::files::OpenFiles;
use crate::terminal::exit::{CommandExit, classify, failure};
use crate::terminal::screen;
use alluvium_mount::service::FilesView;
use alluvium_mount::{DescendantPolicy, ViewOptions, ViewOutcome};
use anyhow::{Context as _, Result};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  alluvium tx -- make install DESTDIR=.
  alluvium tx --dir /srv/site -- sh -c 'rm -rf *; tar xf ~/site.tar'
  alluvium tx --retry 3 -- git pull

The command runs in DIR, or in the current directory if that lies in DIR. It sees the files of the store there, and nobody else sees what it does there. If it ends with exit code 0, all of its changes \
to these files take effect at once and are on the disk; otherwise none do. If any process is killed, or the machine loses power, the files \
are as before or as after the commit. Changes outside of DIR are not part of the transaction.

The exit code is that of the command. It is 8 if the command succeeded and another commit has changed files that it depends on: nothing is \
changed then, and the message names the files. --retry runs the command again.

Calls of fsync in the command succeed at once: only the commit makes its changes durable. Processes that the command leaves in the \
background belong to the transaction, which waits for them.";

/// Run a command in a transaction: all of its changes to files take effect, or none.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TxCommand {
    /// The directory in which the command sees the files of the store [default: the current
    /// directory].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The file system. It is created when it is used for the first time.
    #[arg(long, default_value = "main", value_name = "NAME")]
    pub files: String,
    /// How often the command is run again after a conflict with another commit.
    #[arg(long, default_value_t = 0, value_name = "TIMES")]
    pub retry: u32,
    /// End processes that the command leaves in the background after this many seconds, instead of
    /// waiting for them.
    #[arg(long, value_name = "SECONDS")]
    pub end_background_after: Option<u64>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl TxCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
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
        let open = OpenFiles::open(context, &store, &self.files, FilesView::Transaction)?;
        let outcome = self.run_command(&open);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                open.rollback()?;
                return Err(error);
            }
        };
        for process in &outcome.ended {
            screen::note(&format!(
                "ended {process}, which the command had left in the background"
            ));
        }
        if !outcome.status.success() {
            open.rollback()?;
            drop(open);
            store.close()?;
            screen::note(&format!(
                "{}; its changes were rolled back",
                described(outcome.status)
            ));
            std::process::exit(exit_code(outcome.status));
        }
        let committed = open.commit();
        drop(open);
        store.close()?;
        committed
    }

    fn run_command(&self, open: &OpenFiles) -> Result<ViewOutcome> {
        let current = std::env::current_dir().context("finding the current directory")?;
        let directory = self.dir.clone().unwrap_or_else(|| current.clone());
        let is_inside = directory
            .canonicalize()
            .is_ok_and(|directory| current.starts_with(directory));
        let (program, arguments) = self.command.split_first().ok_or_else(|| {
            failure(
                CommandExit::Usage,
                "give the command after `--`, as in `alluvium tx -- make`",
            )
        })?;
        let mut command = Command::new(program);
        command.args(arguments);
        let options = ViewOptions {
            descendants: match self.end_background_after {
                Some(seconds) => DescendantPolicy::EndAfter(Duration::from_secs(seconds)),
                None => DescendantPolicy::Await,
            },
            working_directory: is_inside.then_some(current),
            ..ViewOptions::default()
        };
        Ok(open.run_in_view(&directory, command, &options)?)
    }
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
