//! The handle through which a verb accesses its store. The store is open either in this process or
//! in another one, which takes requests through a socket. Verbs need not distinguish the two cases.
//!
//! *Scope*: requests and their execution in this process or in another one; Redis keys in readable
//! form; the access rights of files that contain data of a store.
//!
//! *Must not depend on*: verbs, formats of import and export.

pub(crate) mod files;
pub(crate) mod files_service;
pub(crate) mod private;
pub(crate) mod typed;

use crate::jobs::stop;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen;
use crate::values::range::ByteBounds;
use alluvium::Db;
use alluvium_server::control::{
    Error, FailureKind, JobStage, KeyChange, ManagementClient, ManagementReply, ManagementRequest,
    ManagementSession, RedisKey, RedisRequest, ScanContent, ScanOrder, ScanRequest, is_of_server,
};
use anyhow::{Context as _, Result, anyhow};
use indicatif::ProgressBar;
use serde_json::Value;
use std::cell::{Cell, RefCell};

pub(crate) struct StoreHandle {
    backend: StoreBackend,
    /// Whether the verb has made a change that must be durable when it ends.
    has_changed: Cell<bool>,
}

enum StoreBackend {
    Own(Db, Box<RefCell<ManagementSession>>),
    Served(RefCell<ManagementClient>),
}

/// Printed if Ctrl-C ends the wait for a job that another process executes.
const GOES_ON: &str = "stopped waiting; the process that has the store open will complete the job";

/// Elements of a Redis key, in the form of [`ManagementReply::Elements`].
pub(crate) type RedisElements = [(Vec<u8>, Vec<u8>)];

/// The process that has the store open: this process or another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreOwner {
    Us,
    Others,
}

impl StoreHandle {
    /// Returns a handle for a store that this process has opened.
    pub(crate) fn own(db: Db) -> StoreHandle {
        let session = Box::new(RefCell::new(ManagementSession::new(&db)));
        StoreHandle {
            backend: StoreBackend::Own(db, session),
            has_changed: Cell::new(false),
        }
    }

    /// Returns a handle for a store that another process has open.
    pub(crate) fn served(client: ManagementClient) -> StoreHandle {
        StoreHandle {
            backend: StoreBackend::Served(RefCell::new(client)),
            has_changed: Cell::new(false),
        }
    }

    /// Returns the memory budget of the store in bytes, or `None` if another process has the store
    /// open.
    pub(crate) fn memory(&self) -> Option<u64> {
        match &self.backend {
            StoreBackend::Own(db, _) => Some(db.stats().memory.budget),
            StoreBackend::Served(_) => None,
        }
    }

    /// Returns the store, or `None` if another process has it open.
    pub(crate) fn db(&self) -> Option<&Db> {
        match &self.backend {
            StoreBackend::Own(db, _) => Some(db),
            StoreBackend::Served(_) => None,
        }
    }

    pub(crate) fn holder(&self) -> StoreOwner {
        match &self.backend {
            StoreBackend::Own(..) => StoreOwner::Us,
            StoreBackend::Served(_) => StoreOwner::Others,
        }
    }

    /// Sends a request to the store and passes each part of the reply to `hear`.
    pub(crate) fn ask(
        &self,
        request: &ManagementRequest,
        hear: &mut dyn FnMut(ManagementReply) -> Result<()>,
    ) -> Result<()> {
        let mut failed = None;
        let mut heard = |reply| {
            hear(reply).map_err(|error| {
                failed = Some(error);
                Error::Unheard
            })
        };
        let answered = match &self.backend {
            StoreBackend::Own(_, session) => session.borrow_mut().answer(request, &mut heard),
            StoreBackend::Served(client) => client.borrow_mut().ask(request, &mut heard),
        };
        match answered {
            Ok(()) => Ok(()),
            Err(error) => Err(match failed {
                Some(failed) => failed,
                None => self.explained(error),
            }),
        }
    }

    /// Rephrases an error in terms of the command line.
    fn explained(&self, error: Error) -> anyhow::Error {
        match error {
            Error::Store(alluvium::Error::NoSuchKeyspace { name }) => {
                let hint = match name == "default" && self.is_of_server() {
                    true => "; use --redis-db N for keys of Redis clients",
                    false => "",
                };
                let text = format!(
                    "there is no keyspace {name:?}: `alluvium keyspaces list` shows all keyspaces{hint}"
                );
                failure(CommandExit::NotFound, text)
            }
            Error::Store(error) => error.into(),
            Error::Told { kind, text } => failure(exit_of(kind), text),
            // Convert the error to text, or its broken pipe would be mistaken for one of standard
            // output.
            Error::Connection(error) => failure(
                CommandExit::Failed,
                format!(
                    "the process that has the store open has ended, or closed the connection: run the command again ({error})"
                ),
            ),
            other => other.into(),
        }
    }

    /// Returns whether Redis clients have written keys to the store.
    fn is_of_server(&self) -> bool {
        self.keyspaces()
            .is_ok_and(|all| all.iter().any(|keyspace| keyspace["name"] == "redis"))
    }

    /// Prints a note if the keyspace contains a server's raw records.
    pub(crate) fn tell_of_raw(&self, keyspace: &str) {
        if keyspace != "memcached" && is_of_server(keyspace) {
            screen::note(&format!(
                "these are the raw records of the keyspace {keyspace:?}: use --redis-db N instead of --keyspace to see keys as Redis clients do",
            ));
        }
    }

    /// Sends a change request, whose only reply is success or failure.
    pub(crate) fn change(&self, request: &ManagementRequest) -> Result<()> {
        self.has_changed.set(true);
        self.ask(request, &mut |_| Ok(()))
    }

    /// Sends a request that has a single reply, and returns that reply converted by `read`.
    fn one<T>(&self, request: &ManagementRequest, read: impl Fn(ManagementReply) -> Option<T>) -> Result<T> {
        let mut found = None;
        self.ask(request, &mut |reply| {
            found = read(reply);
            Ok(())
        })?;
        found.ok_or_else(|| {
            anyhow!("the process that has the store open sent an unexpected answer: does it run another version of Alluvium?")
        })
    }

    /// Sends a request that changes data, and returns its boolean reply.
    pub(crate) fn is_changed(&self, request: &ManagementRequest) -> Result<bool> {
        self.has_changed.set(true);
        self.one(request, |reply| match reply {
            ManagementReply::Truth(truth) => Some(truth),
            _ => None,
        })
    }

    pub(crate) fn json(&self, request: &ManagementRequest) -> Result<Value> {
        let text = self.one(request, |reply| match reply {
            ManagementReply::Json(text) => Some(text),
            _ => None,
        })?;
        serde_json::from_str(&text).context("reading the answer")
    }

    /// Sends a request that has a numeric reply, and returns the number.
    pub(crate) fn number(&self, request: &ManagementRequest) -> Result<u64> {
        self.one(request, |reply| match reply {
            ManagementReply::Number(number) => Some(number),
            _ => None,
        })
    }

    pub(crate) fn text(&self, request: &ManagementRequest) -> Result<String> {
        self.one(request, |reply| match reply {
            ManagementReply::Text(text) => Some(text),
            _ => None,
        })
    }

    /// Runs a long job with a progress bar, and returns its last reply. Ctrl-C stops the job with
    /// the message `stopped`. Jobs other than compactions cannot be interrupted but change nothing
    /// until they are complete, so Ctrl-C ends this process immediately. A job in another process
    /// continues there.
    pub(crate) fn work(
        &self,
        request: &ManagementRequest,
        bar: &ProgressBar,
        stopped: &str,
    ) -> Result<ManagementReply> {
        let mut last = None;
        let done = self.ask(request, &mut |reply| {
            if stop::asked() {
                bar.finish_and_clear();
                if self.holder() == StoreOwner::Others {
                    return Err(failure(CommandExit::Interrupted, GOES_ON));
                }
                if !matches!(request, ManagementRequest::Compact) {
                    screen::complain(stopped);
                    std::process::exit(CommandExit::Interrupted as i32);
                }
                return Err(failure(CommandExit::Interrupted, stopped));
            }
            match reply {
                ManagementReply::Progress {
                    stage,
                    done_bytes,
                    total_bytes,
                } => show(bar, stage, done_bytes, total_bytes),
                other => last = Some(other),
            }
            Ok(())
        });
        bar.finish_and_clear();
        done?;
        last.ok_or_else(|| anyhow!("the job has ended without an answer"))
    }

    /// Returns all keyspaces as JSON objects.
    pub(crate) fn keyspaces(&self) -> Result<Vec<Value>> {
        match self.json(&ManagementRequest::Keyspaces)? {
            Value::Array(all) => Ok(all),
            _ => Err(anyhow!("the answer is not a list of keyspaces")),
        }
    }

    pub(crate) fn has_keyspace(&self, name: &str) -> Result<bool> {
        Ok(self.keyspaces()?.iter().any(|keyspace| keyspace["name"] == name))
    }

    /// Returns an error unless the keyspace exists.
    pub(crate) fn require_keyspace(&self, name: &str) -> Result<()> {
        self.values(name, &[]).map(|_| ())
    }

    /// Creates a keyspace if it does not exist. Returns whether it was created.
    pub(crate) fn ensure_keyspace(&self, name: &str) -> Result<bool> {
        self.is_changed(&ManagementRequest::EnsureKeyspace(name.to_owned()))
    }

    /// Returns the values of several keys, in the order of the keys.
    pub(crate) fn values(&self, keyspace: &str, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let request = ManagementRequest::Get {
            keyspace: keyspace.to_owned(),
            keys: keys.to_vec(),
        };
        let mut values = Vec::with_capacity(keys.len());
        self.ask(&request, &mut |reply| {
            if let ManagementReply::Values(part) = reply {
                values.extend(part);
            }
            Ok(())
        })?;
        match values.len() == keys.len() {
            true => Ok(values),
            false => Err(anyhow!(
                "the answer has {} values for {} keys",
                values.len(),
                keys.len()
            )),
        }
    }

    pub(crate) fn value(&self, keyspace: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.values(keyspace, &[key.to_vec()])?.pop().flatten())
    }

    /// Applies all changes in one atomic commit.
    pub(crate) fn write(&self, changes: Vec<KeyChange>) -> Result<()> {
        self.change(&ManagementRequest::Write(changes))
    }

    /// Scans a range of keys and passes each key and value to `each` in order.
    pub(crate) fn scan(
        &self,
        scan: ScanRequest,
        each: &mut dyn FnMut(Vec<u8>, Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        self.pairs(&ManagementRequest::Scan(scan), each)
    }

    /// Sends a request whose replies contain keys and values, and passes each of them to `each`.
    pub(crate) fn pairs(
        &self,
        request: &ManagementRequest,
        each: &mut dyn FnMut(Vec<u8>, Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        self.ask(request, &mut |reply| match reply {
            ManagementReply::Pairs(pairs) => pairs.into_iter().try_for_each(|(key, value)| each(key, value)),
            _ => Ok(()),
        })
    }

    /// Reads Redis keys, and passes each key and its elements to `hear` in parts.
    pub(crate) fn typed(
        &self,
        request: RedisRequest,
        hear: &mut dyn FnMut(RedisKeyPart) -> Result<()>,
    ) -> Result<()> {
        self.ask(&ManagementRequest::Redis(request), &mut |reply| match reply {
            ManagementReply::Key(key) => hear(RedisKeyPart::Key(key)),
            ManagementReply::Elements(elements) => hear(RedisKeyPart::Elements(elements)),
            _ => Ok(()),
        })
    }

    /// Executes Redis commands in one atomic commit and returns their replies. If a command is
    /// rejected, returns an error.
    pub(crate) fn execute(&self, database: u8, commands: Vec<Vec<Vec<u8>>>) -> Result<Vec<Vec<u8>>> {
        let executed = self.try_execute(database, commands, Vec::new())?;
        executed.map_err(|(_, why)| failure(CommandExit::Failed, why))
    }

    /// Executes Redis commands and other changes in one atomic commit. If a command is rejected,
    /// returns its index and the reason.
    pub(crate) fn try_execute(
        &self,
        database: u8,
        commands: Vec<Vec<Vec<u8>>>,
        also: Vec<KeyChange>,
    ) -> Result<ExecuteResult> {
        self.has_changed.set(true);
        let request = ManagementRequest::Redis(RedisRequest::Execute {
            database,
            commands,
            also,
        });
        let replies = self.one(&request, |reply| match reply {
            ManagementReply::Values(values) => Some(values),
            _ => None,
        })?;
        let replies: Vec<Vec<u8>> = replies.into_iter().flatten().collect();
        if let Some(refused) = replies.last().and_then(|reply| reply.strip_prefix(b"-")) {
            let why = String::from_utf8_lossy(refused.trim_ascii_end()).into_owned();
            return Ok(Err((replies.len() - 1, why)));
        }
        Ok(Ok(replies))
    }

    /// Releases the store. If this process opened it, closes it cleanly, so that it opens quickly
    /// the next time. If another process has it open, waits until this verb's changes are durable.
    pub(crate) fn close(self) -> Result<()> {
        match self.backend {
            StoreBackend::Own(db, session) => {
                drop(session);
                db.close().context("closing the store")
            }
            StoreBackend::Served(_) if !self.has_changed.get() => Ok(()),
            StoreBackend::Served(client) => {
                let synced = client.borrow_mut().tell(&ManagementRequest::Sync);
                synced.map_err(|error| anyhow::Error::new(error).context("syncing the changes"))
            }
        }
    }
}

/// The replies of executed commands, or the index of a rejected command and the reason.
pub(crate) type ExecuteResult = std::result::Result<Vec<Vec<u8>>, (usize, String)>;

/// A part of a streamed reply that lists Redis keys and their elements.
#[derive(Debug)]
pub(crate) enum RedisKeyPart {
    /// The next key. Its elements follow in further parts.
    Key(RedisKey),
    /// Further elements of the most recent key.
    Elements(Vec<(Vec<u8>, Vec<u8>)>),
}

/// Returns an iterator over the keys and values in a range of a keyspace.
pub(crate) fn walk(
    keyspace: &str,
    bounds: ByteBounds,
    direction: ScanOrder,
    what: ScanContent,
) -> ScanRequest {
    ScanRequest {
        keyspace: keyspace.to_owned(),
        from: bounds.from,
        to: bounds.to,
        direction,
        limit: None,
        what,
    }
}

fn exit_of(kind: FailureKind) -> CommandExit {
    match kind {
        FailureKind::Failed => CommandExit::Failed,
        FailureKind::NotFound | FailureKind::NoKeyspace => CommandExit::NotFound,
        FailureKind::Usage => CommandExit::Usage,
        FailureKind::Damaged => CommandExit::Damaged,
        FailureKind::Full => CommandExit::Full,
        FailureKind::Conflict => CommandExit::Conflict,
    }
}

fn show(bar: &ProgressBar, stage: JobStage, done_bytes: u64, total_bytes: u64) {
    let message = match stage {
        JobStage::Copying => "copying",
        JobStage::Checking => "checking",
        JobStage::Compacting => "compacting",
    };
    if bar.message() != message {
        bar.set_message(message);
        bar.reset_elapsed();
    }
    bar.set_length(total_bytes);
    bar.set_position(done_bytes);
}
