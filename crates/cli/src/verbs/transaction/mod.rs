//! `transaction`: executes the operations of a script atomically.
//!
//! *Scope*: the syntax of a script, and the report of its execution.
//!
//! *Must not depend on*: how a transaction works, and which process has the store open.

mod lines;
mod script;
mod script_output;

use crate::context::CommandContext;
use crate::store::StoreHandle;
use crate::terminal::confirm::Consent;
use crate::terminal::exit::{CommandExit, classify, failure};
use crate::values::bytes::ByteEncoding;
use crate::verbs::serve::DurabilityArg;
use alluvium_server::control::{
    CommitDurability, IsolationLevel, ManagementReply, ManagementRequest, NewTransaction,
    TransactionConcurrency, TransactionStep,
};
use anyhow::Result;
use clap::{Args, ValueEnum};
use lines::ScriptReader;
use script::ScriptLine;
use script_output::ScriptOutput;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Example, a transfer between accounts:
  use accounts             # the keyspace from here on, which must exist
  get alice
  get bob
  put alice 90
  put bob 30
  audit put \"transfer 7\" 10 # another keyspace, for this line
  commit

  alluvium transaction transfer.txt
  alluvium transaction - --isolation snapshot --durability disk < transfer.txt

Operations:
  use KEYSPACE             get KEY               get-for-update KEY
  put KEY VALUE            delete KEY            delete-range FROM [TO]
  scan [FROM [TO]]         savepoint NAME        rollback-to NAME
  commit                   rollback

Put a word with blanks in double quotes. Write unprintable bytes as `scan` prints them: \\n, \\xff, \\\\. A keyspace before an \
operation is for that line. `#` begins a comment. The operation that follows a commit or a rollback begins the next transaction.

A transaction that is open at the end of the script is rolled back, and the exit code is 9. It is 9, too, if the script has neither \
`commit` nor `rollback`, for example because the program that writes it to a pipe has failed. After `rollback` it is 0.

The exit code is 8 if a transaction conflicts with another one, and then changes nothing. Run the command again, unless the script has already committed other transactions. \
All lines of a file are checked before the first is executed; lines of a pipe are executed as they arrive.";

/// Run a script of operations as a transaction: all of it takes effect, or nothing.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TransactionCommand {
    /// The script; `-` for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What a transaction sees of other transactions.
    #[arg(long, value_enum, default_value_t = IsolationArg::Serializable)]
    pub isolation: IsolationArg,
    /// Lock what is read and written, and wait for the locks of others, instead of detecting
    /// conflicts at the commit.
    #[arg(long)]
    pub locking: bool,
    /// When a commit is acknowledged [default: the store's setting].
    #[arg(long, value_enum)]
    pub durability: Option<DurabilityArg>,
    /// The keyspace of lines that name none, until the first `use`.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    #[command(flatten)]
    pub encoding: ByteEncoding,
    #[command(flatten)]
    pub consent: Consent,
}

/// [`IsolationLevel`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IsolationArg {
    /// As if all transactions ran one after the other.
    Serializable,
    /// The state when the transaction began; write skew is possible.
    Snapshot,
}

/// The state of a script that is being executed.
struct ScriptExecution<'a> {
    store: &'a StoreHandle,
    new: NewTransaction,
    encoding: ByteEncoding,
    consent: Consent,
    keyspace: String,
    /// The ID of the open transaction, or `None` if no transaction is open.
    open: Option<u64>,
    has_committed: bool,
    /// Whether the script has committed a transaction or has rolled one back.
    has_ended: bool,
    /// Whether standard output was closed while no transaction was open.
    is_output_closed: bool,
}

/// What was open when a script reached its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScriptEnd {
    /// No transaction was open, and the script has ended at least one.
    Complete,
    /// A transaction was open, or the script had no transaction.
    WithoutCommit,
}

impl TransactionCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let mut lines = ScriptReader::open(&self.file)?;
        if lines.can_be_read_twice() {
            self.check(ScriptReader::open(&self.file)?)?;
        }
        let store = context.open()?;
        let mut running = ScriptExecution {
            store: &store,
            new: self.options(),
            encoding: self.encoding,
            consent: self.consent,
            keyspace: self.keyspace.clone(),
            open: None,
            has_committed: false,
            has_ended: false,
            is_output_closed: false,
        };
        let mut saying = ScriptOutput::new(context, self.encoding);
        let ran = running.all(&mut lines, &mut saying);
        // The output for executed operations is printed even if a later operation has failed.
        // The failure of an operation takes precedence, because a closed pipe of the output is no
        // failure of this program.
        let flushed = saying.flush();
        let end = ran?;
        let remainder = running.remainder();
        store.close()?;
        if end == ScriptEnd::WithoutCommit {
            let text = format!("the script ended without `commit`: {remainder}");
            return Err(failure(CommandExit::NotCommitted, text));
        }
        flushed?;
        Ok(CommandExit::Done)
    }

    fn options(&self) -> NewTransaction {
        NewTransaction {
            isolation: match self.isolation {
                IsolationArg::Serializable => IsolationLevel::Serializable,
                IsolationArg::Snapshot => IsolationLevel::Snapshot,
            },
            mechanism: match self.locking {
                true => TransactionConcurrency::Locking,
                false => TransactionConcurrency::Optimistic,
            },
            durability: self.durability.map(|word| match word {
                DurabilityArg::Memory => CommitDurability::AtOnce,
                DurabilityArg::Process => CommitDurability::AfterProcess,
                DurabilityArg::Disk => CommitDurability::AfterDisk,
            }),
        }
    }

    /// Parses all lines before any of them is executed, so that an invalid line stops the whole
    /// script.
    fn check(&self, mut lines: ScriptReader) -> Result<()> {
        while let Some((number, line)) = lines.next()? {
            if let Err(why) = script::parse(&line, self.encoding, &self.keyspace) {
                let text = format!("line {number}: {why}; nothing was done");
                return Err(failure(CommandExit::Usage, text));
            }
        }
        Ok(())
    }
}

impl ScriptExecution<'_> {
    /// Executes all lines of the script. If a transaction is still open at the end, rolls it back.
    fn all(&mut self, lines: &mut ScriptReader, saying: &mut ScriptOutput) -> Result<ScriptEnd> {
        let mut last = 0;
        while let Some((number, line)) = lines.next()? {
            if self.is_output_closed && !script::is_blank(&line) {
                let text = format!(
                    "line {number}: standard output is closed, so this line and the rest of the script \
                     were not executed; the transactions before it have ended"
                );
                return Err(failure(CommandExit::NotCommitted, text));
            }
            last = number;
            let mut done = self.line(number, &line, saying);
            if done.is_ok() && !lines.can_be_read_twice() {
                let flushed = saying.flush();
                done = self.printed(flushed);
            }
            done.map_err(|error| self.failed(number, &error))?;
        }
        if self.open.is_some() {
            self.end(&TransactionStep::Rollback)?;
            // The exit code reports the end even if the output is closed.
            let _ = saying.unfinished(last);
            return Ok(ScriptEnd::WithoutCommit);
        }
        match self.is_complete() {
            true => Ok(ScriptEnd::Complete),
            false => Ok(ScriptEnd::WithoutCommit),
        }
    }

    /// Returns whether the script could end here: no transaction is open, and at least one has
    /// ended.
    fn is_complete(&self) -> bool {
        self.has_ended && self.open.is_none()
    }

    /// Handles the result of a print. After the end of a transaction, a closed output is a failure
    /// only if operations follow.
    fn printed(&mut self, printed: Result<()>) -> Result<()> {
        match printed {
            Err(error) if self.is_complete() && classify(&error) == CommandExit::Done => {
                self.is_output_closed = true;
                Ok(())
            }
            printed => printed,
        }
    }

    fn line(&mut self, number: u64, line: &[u8], saying: &mut ScriptOutput) -> Result<()> {
        let read = script::parse(line, self.encoding, &self.keyspace);
        match read.map_err(|why| failure(CommandExit::Usage, why))? {
            ScriptLine::Blank => Ok(()),
            ScriptLine::Use(name) => {
                self.store.require_keyspace(&name)?;
                saying.used(number, &name)?;
                self.keyspace = name;
                Ok(())
            }
            ScriptLine::Step(step) => self.step(number, step, saying),
        }
    }

    fn step(&mut self, number: u64, step: TransactionStep, saying: &mut ScriptOutput) -> Result<()> {
        if matches!(step, TransactionStep::Commit | TransactionStep::Rollback) {
            let Some(ended) = self.open else {
                let text = "there is no open transaction: commit and rollback need an operation before them";
                return Err(failure(CommandExit::Usage, text));
            };
            self.end(&step)?;
            let printed = saying.ended(number, &step, ended);
            return self.printed(printed);
        }
        if let TransactionStep::DeleteRange { keyspace, from, to } = &step
            && from.is_empty()
            && to.is_none()
        {
            let loss = format!("all keys of the keyspace {keyspace:?} would be deleted");
            self.consent.ask(&loss)?;
        }
        if self.open.is_none() {
            self.open = Some(
                self.store
                    .number(&ManagementRequest::BeginTransaction(self.new))?,
            );
        }
        let request = ManagementRequest::InTransaction(step);
        let mut keys = 0;
        self.store.ask(&request, &mut |reply| match (&request, reply) {
            (
                ManagementRequest::InTransaction(TransactionStep::Get { keyspace, key, .. }),
                ManagementReply::Values(values),
            ) => {
                let value = values.first().and_then(Option::as_deref);
                saying.value(number, keyspace, key, value)
            }
            (
                ManagementRequest::InTransaction(TransactionStep::Scan(scan)),
                ManagementReply::Pairs(pairs),
            ) => {
                keys += pairs.len() as u64;
                let mut each = pairs.iter();
                each.try_for_each(|(key, value)| saying.pair(number, &scan.keyspace, key, value))
            }
            _ => Ok(()),
        })?;
        match &request {
            ManagementRequest::InTransaction(step) => saying.done(number, step, keys),
            _ => Ok(()),
        }
    }

    /// Commits or rolls back the open transaction. The transaction has ended even if this returns
    /// an error.
    fn end(&mut self, step: &TransactionStep) -> Result<()> {
        self.open = None;
        let request = ManagementRequest::InTransaction(step.clone());
        if matches!(step, TransactionStep::Rollback) {
            self.store.ask(&request, &mut |_| Ok(()))?;
        } else {
            self.store.change(&request)?;
            self.has_committed = true;
        }
        self.has_ended = true;
        Ok(())
    }

    /// Adds context to an error: the line number, and which of the script's transactions remain
    /// committed.
    fn failed(&self, number: u64, error: &anyhow::Error) -> anyhow::Error {
        let text = format!(
            "line {number}: {}; {}",
            crate::terminal::exit::sentence(error),
            self.remainder()
        );
        // A closed output is no failure of a command that prints, but the rest of this script was
        // not executed.
        let exit = match classify(error) {
            CommandExit::Done => CommandExit::NotCommitted,
            exit => exit,
        };
        failure(exit, text)
    }

    /// Describes which transactions of the script remain committed after its last one was rolled
    /// back.
    fn remainder(&self) -> &'static str {
        match self.has_committed {
            true => "the transaction was rolled back, those before it stay committed",
            false => "nothing was committed",
        }
    }
}
