//! `transaction`: executes a script of operations atomically.
//!
//! *Knows*: the syntax of a script, and the report of its execution.
//!
//! *Does not know*: how a transaction works, and which process has the store open.
//!
//! *Read in this order*: this file, `script.rs` (parsing of lines), `lines.rs` (reading of lines),
//! `said.rs` (output).

mod lines;
mod said;
mod script;

use crate::context::Context;
use crate::store::Store;
use crate::terminal::confirm::Consent;
use crate::terminal::exit::{Exit, classify, failure};
use crate::terminal::screen;
use crate::values::bytes::Encoding;
use crate::verbs::serve::Word;
use alluvium_server::control::{
    Acknowledged, IsolationLevel, Mechanism, NewTransaction, Reply, Request, Step,
};
use anyhow::Result;
use clap::{Args, ValueEnum};
use lines::Lines;
use said::Saying;
use script::Line;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Example, a transfer between accounts:
  use accounts             # the keyspace from here on; it must be there
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

A word with blanks stands in double quotes. What is not printable is written as `scan` prints it: \\n, \\xff, \\\\. A keyspace before an \
operation is for that line. `#` begins a comment. The operation that follows a commit or a rollback begins the next transaction. What is \
not committed at the end is rolled back.

The exit code is 8 if another transaction was in the way: nothing of that transaction has happened then. The command can be run again, unless the script has committed others before. \
The lines of a file are all read before the first is done; those of a pipe as they come.";

/// Run a script of operations as a transaction: all of it takes effect, or nothing.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RunScript {
    /// The script; `-` for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What it may see of other transactions.
    #[arg(long, value_enum, default_value_t = Level::Serializable)]
    pub isolation: Level,
    /// Lock what is read and written, and wait for the locks of others, in the place of finding
    /// conflicts at the commit.
    #[arg(long)]
    pub locking: bool,
    /// When a commit is acknowledged [default: as the store does it].
    #[arg(long, value_enum)]
    pub durability: Option<Word>,
    /// The keyspace of lines that name none, until the first `use`.
    #[arg(short, long, default_value = "default", value_name = "NAME")]
    pub keyspace: String,
    #[command(flatten)]
    pub encoding: Encoding,
    #[command(flatten)]
    pub consent: Consent,
}

/// The same as [`IsolationLevel`], for the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// As if all transactions had run one after the other.
    Serializable,
    /// The moment of its begin; write skew is possible.
    Snapshot,
}

/// The state of a script in execution.
struct Running<'a> {
    store: &'a Store,
    new: NewTransaction,
    encoding: Encoding,
    consent: Consent,
    keyspace: String,
    /// The number of the open transaction.
    open: Option<u64>,
    has_committed: bool,
}

impl RunScript {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit> {
        let mut lines = Lines::open(&self.file)?;
        if lines.can_be_read_twice() {
            self.check(Lines::open(&self.file)?)?;
        }
        let store = context.open()?;
        let mut running = Running {
            store: &store,
            new: self.options(),
            encoding: self.encoding,
            consent: self.consent,
            keyspace: self.keyspace.clone(),
            open: None,
            has_committed: false,
        };
        let mut saying = Saying::new(context, self.encoding);
        let ran = running.all(&mut lines, &mut saying);
        // Report what was done, whatever happened after it.
        saying.flush()?;
        ran?;
        store.close()?;
        Ok(Exit::Done)
    }

    fn options(&self) -> NewTransaction {
        NewTransaction {
            isolation: match self.isolation {
                Level::Serializable => IsolationLevel::Serializable,
                Level::Snapshot => IsolationLevel::Snapshot,
            },
            mechanism: match self.locking {
                true => Mechanism::Locking,
                false => Mechanism::Optimistic,
            },
            durability: self.durability.map(|word| match word {
                Word::Memory => Acknowledged::AtOnce,
                Word::Process => Acknowledged::AfterProcess,
                Word::Disk => Acknowledged::AfterDisk,
            }),
        }
    }

    /// Parses all lines first, so that nothing is executed if one is invalid.
    fn check(&self, mut lines: Lines) -> Result<()> {
        while let Some((number, line)) = lines.next()? {
            if let Err(why) = script::parse(&line, self.encoding, &self.keyspace) {
                let text = format!("line {number}: {why}; nothing was done");
                return Err(failure(Exit::Usage, text));
            }
        }
        Ok(())
    }
}

impl Running<'_> {
    /// Executes all lines. Rolls back a transaction that is open at the end.
    fn all(&mut self, lines: &mut Lines, saying: &mut Saying) -> Result<()> {
        let mut last = 0;
        while let Some((number, line)) = lines.next()? {
            last = number;
            let done = self.line(number, &line, saying);
            done.map_err(|error| self.failed(number, &error))?;
            if !lines.can_be_read_twice() {
                saying.flush()?;
            }
        }
        if self.open.is_some() {
            self.end(&Step::Rollback)?;
            saying.unfinished(last)?;
            screen::note("the script ended without a commit: its last transaction was rolled back");
        }
        Ok(())
    }

    fn line(&mut self, number: u64, line: &[u8], saying: &mut Saying) -> Result<()> {
        let read = script::parse(line, self.encoding, &self.keyspace);
        match read.map_err(|why| failure(Exit::Usage, why))? {
            Line::Blank => Ok(()),
            Line::Use(name) => {
                self.store.existing(&name)?;
                saying.used(number, &name)?;
                self.keyspace = name;
                Ok(())
            }
            Line::Step(step) => self.step(number, step, saying),
        }
    }

    fn step(&mut self, number: u64, step: Step, saying: &mut Saying) -> Result<()> {
        if matches!(step, Step::Commit | Step::Rollback) {
            let Some(ended) = self.open else {
                let text = "there is no open transaction: an operation before it begins one";
                return Err(failure(Exit::Usage, text));
            };
            self.end(&step)?;
            return saying.ended(number, &step, ended);
        }
        if let Step::DeleteRange { keyspace, from, to } = &step
            && from.is_empty()
            && to.is_none()
        {
            let loss = format!("all keys of the keyspace {keyspace:?} would be deleted");
            self.consent.ask(&loss)?;
        }
        if self.open.is_none() {
            self.open = Some(self.store.number(&Request::BeginTransaction(self.new))?);
        }
        let request = Request::InTransaction(step);
        let mut keys = 0;
        self.store.ask(&request, &mut |reply| match (&request, reply) {
            (Request::InTransaction(Step::Get { keyspace, key, .. }), Reply::Values(values)) => {
                let value = values.first().and_then(Option::as_deref);
                saying.value(number, keyspace, key, value)
            }
            (Request::InTransaction(Step::Scan(scan)), Reply::Pairs(pairs)) => {
                keys += pairs.len() as u64;
                let mut each = pairs.iter();
                each.try_for_each(|(key, value)| saying.pair(number, &scan.keyspace, key, value))
            }
            _ => Ok(()),
        })?;
        match &request {
            Request::InTransaction(step) => saying.done(number, step, keys),
            _ => Ok(()),
        }
    }

    /// Ends the open transaction. It has ended even if this fails.
    fn end(&mut self, step: &Step) -> Result<()> {
        self.open = None;
        let request = Request::InTransaction(step.clone());
        if matches!(step, Step::Rollback) {
            return self.store.ask(&request, &mut |_| Ok(()));
        }
        self.store.change(&request)?;
        self.has_committed = true;
        Ok(())
    }

    /// Adds to an error its line, and which of the transactions remain committed.
    fn failed(&self, number: u64, error: &anyhow::Error) -> anyhow::Error {
        let stays = match self.has_committed {
            true => "the transaction was rolled back, those before it stay committed",
            false => "nothing was committed",
        };
        let text = format!(
            "line {number}: {}; {stays}",
            crate::terminal::exit::sentence(error)
        );
        failure(classify(error), text)
    }
}
