//! `tx begin`, `run`, `diff`, `commit`, `abort` and `list`: transactions that stay in the store
//! until they are committed.

use super::{CommandSettings, described, exit_code};
use crate::context::CommandContext;
use crate::store::StoreHandle;
use crate::store::files::{OpenFiles, all_branches};
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::bytes::{add_json_field, escape};
use alluvium_files::{BranchSummary, PathChange, PathChangeKind};
use alluvium_mount::service::FilesView;
use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::io::Write;

/// The subcommands of `tx`.
#[derive(Debug, Subcommand)]
pub enum BranchAction {
    /// Begin a transaction that stays open until it is committed or aborted.
    ///
    /// It begins with the files as they are now, takes the same time for any number of files, and
    /// survives the end of every process and a loss of power.
    Begin {
        /// The name: 1 to 64 letters, digits, `-` and `_`, and no other one of the store.
        name: String,
        /// The file system. It is created when it is used for the first time.
        #[arg(long, default_value = "main", value_name = "NAME", conflicts_with = "of")]
        files: String,
        /// Begin within this open transaction: a commit changes only this one.
        #[arg(long, value_name = "NAME")]
        of: Option<String>,
    },
    /// Run a command that sees the files as an open transaction has changed them.
    ///
    /// What the command changes stays in the transaction, also if it fails or is killed: begin a
    /// transaction within the transaction (`tx begin --of`) for a step that you may want to undo.
    Run(RunCommand),
    /// List the paths that an open transaction has added, changed and removed.
    Diff {
        /// The open transaction.
        name: String,
    },
    /// Make all changes of an open transaction take effect, at once and on the disk.
    ///
    /// If others have changed the same files since it began, the exit code is 8, the message names
    /// the files, and nothing is changed: the transaction stays open.
    Commit {
        /// The open transaction.
        name: String,
    },
    /// End an open transaction and forget its changes.
    Abort {
        /// The open transaction.
        name: String,
    },
    /// List the open transactions.
    List,
}

/// `tx run`.
#[derive(Args, Debug)]
pub struct RunCommand {
    /// The open transaction.
    pub name: String,
    #[command(flatten)]
    pub settings: CommandSettings,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

impl BranchAction {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        match self {
            BranchAction::Begin { name, files, of } => begin(context, name, files, of.as_deref()),
            BranchAction::Run(command) => command.run(context),
            BranchAction::Diff { name } => on_branch(context, context.open_to_read()?, name, |open| {
                print_changes(context, &open.branch_changes(name)?)
            }),
            BranchAction::Commit { name } => {
                on_branch(context, context.open()?, name, |open| open.commit_branch(name))
            }
            BranchAction::Abort { name } => {
                on_branch(context, context.open()?, name, |open| open.abort_branch(name))
            }
            BranchAction::List => {
                let store = context.open_to_read()?;
                let branches = all_branches(context, &store)?;
                store.close()?;
                print_branches(context, &branches)?;
                Ok(CommandExit::Done)
            }
        }
    }
}

/// Returns the file system of an open transaction.
fn files_of(context: &CommandContext, store: &StoreHandle, name: &str) -> Result<String> {
    let branches = all_branches(context, store)?;
    if let Some(found) = branches.iter().find(|branch| branch.name == name) {
        return Ok(found.files.clone());
    }
    let names: Vec<&str> = branches.iter().map(|branch| &branch.name[..]).collect();
    let there_is = match names.is_empty() {
        true => "none is open: begin one with `alluvium tx begin`".to_owned(),
        false => format!("open are {}", names.join(", ")),
    };
    let text = format!("no open transaction is called {name:?}; {there_is}");
    Err(failure(CommandExit::NotFound, text))
}

fn on_branch(
    context: &CommandContext,
    store: StoreHandle,
    name: &str,
    body: impl FnOnce(&OpenFiles) -> Result<()>,
) -> Result<CommandExit> {
    let files = files_of(context, &store, name)?;
    let open = OpenFiles::open(context, &store, &files, FilesView::Newest)?;
    let done = body(&open);
    drop(open);
    store.close()?;
    done.map(|()| CommandExit::Done)
}

fn begin(context: &CommandContext, name: &str, files: &str, of: Option<&str>) -> Result<CommandExit> {
    let store = context.open_or_create()?;
    let files = match of {
        Some(of) => files_of(context, &store, of)?,
        None => files.to_owned(),
    };
    // Such a view creates the file system if there is none.
    OpenFiles::open(context, &store, &files, FilesView::Transaction)?.rollback()?;
    let open = OpenFiles::open(context, &store, &files, FilesView::Newest)?;
    let begun = open.begin_branch(name, of);
    drop(open);
    store.close()?;
    begun.map(|()| CommandExit::Done)
}

impl RunCommand {
    /// Runs the command. If it fails, ends this process with its exit code.
    fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let store = context.open()?;
        let files = files_of(context, &store, &self.name)?;
        let open = OpenFiles::open(context, &store, &files, FilesView::Branch(self.name.clone()))?;
        let directory = self.settings.directory()?;
        let command = self.settings.prepare(&self.command, &directory)?;
        let ran = open.run_in_view(&directory, command.0, &command.1);
        let synced = open.commit();
        drop(open);
        store.close()?;
        let outcome = ran?;
        synced?;
        for process in &outcome.ended {
            screen::note(&format!(
                "ended {process}, which the command had left in the background"
            ));
        }
        if outcome.status.success() {
            return Ok(CommandExit::Done);
        }
        screen::note(&format!(
            "{}; its changes stay in the open transaction {:?}",
            described(outcome.status),
            self.name
        ));
        std::process::exit(exit_code(outcome.status));
    }
}

fn word(change: PathChangeKind) -> &'static str {
    match change {
        PathChangeKind::Added => "added",
        PathChangeKind::Changed => "changed",
        PathChangeKind::Removed => "removed",
    }
}

fn print_changes(context: &CommandContext, changes: &[PathChange]) -> Result<()> {
    let mut out = ScreenOutput::new();
    for change in changes {
        if context.is_json() {
            let mut fields = Map::new();
            add_json_field(&mut fields, "path", &change.path);
            fields.insert("change".to_owned(), word(change.change).into());
            fields.insert("is_directory".to_owned(), change.is_directory.into());
            out.json(&Value::from(fields))?;
            continue;
        }
        out.write_all(format!("{:<8}", word(change.change)).as_bytes())?;
        out.write_all(escape(&change.path).as_bytes())?;
        out.write_all(if change.is_directory { b"/\n" } else { b"\n" })?;
    }
    out.flush()?;
    Ok(())
}

fn print_branches(context: &CommandContext, branches: &[BranchSummary]) -> Result<()> {
    let mut out = ScreenOutput::new();
    for branch in branches {
        if context.is_json() {
            out.json(&described_branch(branch))?;
            continue;
        }
        let of = match &branch.parent {
            Some(parent) => format!("of {parent}"),
            None => format!("files {}", branch.files),
        };
        let began = crate::verbs::files::date(branch.created.seconds);
        out.line(&format!("{:<24} {of:<24} began {began}", branch.name))?;
    }
    out.flush()?;
    Ok(())
}

fn described_branch(branch: &BranchSummary) -> Value {
    json!({
        "name": branch.name,
        "files": branch.files,
        "of": branch.parent,
        "began_seconds": branch.created.seconds,
    })
}
