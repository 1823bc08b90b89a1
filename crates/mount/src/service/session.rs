//! The server's end of a stream.

use super::descriptor;
use super::format;
use super::message::{FileOperation, FilesReply, FilesRequest, FilesView};
use super::operations::{self, MOST_READ};
use crate::options::MountOptions;
use crate::served::{MountState, ServedDevice};
use alluvium::{Db, Durability};
use alluvium_files::{
    Error, ErrorKind, FileSystem, Files, FilesTransaction, Inode, PathChange, Result, SnapshotReceiver,
    SnapshotSender,
};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// How long the reply to a commit waits at most until mounts show the commit. Not a tuning
/// parameter: a mount that does not answer for so long is stuck.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

/// The longest time that a request may wait.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Serves the files of an open store to other processes.
pub struct FilesService {
    db: Db,
}

impl std::fmt::Debug for FilesService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilesService").finish_non_exhaustive()
    }
}

impl FilesService {
    /// Creates the service of a store.
    #[must_use]
    pub fn new(db: &Db) -> FilesService {
        FilesService { db: db.clone() }
    }

    /// Serves a stream until its client ends it.
    pub fn serve(&self, mut stream: UnixStream) {
        if let Err(error) = self.answer(&mut stream) {
            tracing::debug!(%error, "a stream of files has failed");
        }
    }

    fn answer(&self, stream: &mut UnixStream) -> io::Result<()> {
        let Some(request) = format::read::<FilesRequest>(stream)? else {
            return Ok(());
        };
        if request == FilesRequest::AllBranches {
            return send(stream, &all_branches(&self.db));
        }
        if let FilesRequest::Receive(name) = &request {
            return self.receive(stream, name);
        }
        let FilesRequest::Open { name, view } = request else {
            let error = Error::new(
                ErrorKind::InvalidArgument,
                "a stream begins with the request `Open`",
            );
            return send(stream, &FilesReply::failed(&error));
        };
        let mut session = match self.open(&name, view) {
            Ok(session) => session,
            Err(error) => return send(stream, &FilesReply::failed(&error)),
        };
        send(stream, &FilesReply::Done)?;
        while let Some(request) = format::read::<FilesRequest>(stream)? {
            let device = match request {
                FilesRequest::Serve => Some(descriptor::receive(stream)?),
                _ => None,
            };
            let reply = catch_unwind(AssertUnwindSafe(|| match device {
                Some(device) => session.serve(device),
                None => session.answer(&request),
            }));
            let reply = reply.unwrap_or_else(|_| FilesReply::failed(&panicked()));
            send(stream, &reply)?;
        }
        Ok(())
    }

    /// Receives a snapshot. If the stream ends early, nothing has changed.
    fn receive(&self, stream: &mut UnixStream, name: &str) -> io::Result<()> {
        let mut receiver = match SnapshotReceiver::new(&self.db, name) {
            Ok(receiver) => receiver,
            Err(error) => return send(stream, &FilesReply::failed(&error)),
        };
        send(stream, &FilesReply::Done)?;
        while let Some(request) = format::read::<FilesRequest>(stream)? {
            let outcome = catch_unwind(AssertUnwindSafe(|| match request {
                FilesRequest::Part(bytes) => {
                    receiver.push(&bytes).map(|()| (Some(receiver), FilesReply::Done))
                }
                FilesRequest::EndReceive => Ok((None, FilesReply::Received(receiver.finish()?))),
                _ => Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "the stream receives a snapshot: send parts of it, and the end",
                )),
            }));
            match outcome.unwrap_or_else(|_| Err(panicked())) {
                Ok((Some(next), reply)) => {
                    receiver = next;
                    send(stream, &reply)?;
                }
                Ok((None, reply)) => return send(stream, &reply),
                Err(error) => return send(stream, &FilesReply::failed(&error)),
            }
        }
        Ok(())
    }

    fn open(&self, name: &str, view: FilesView) -> Result<FilesSession> {
        let files = match view {
            FilesView::Transaction => Files::open(&self.db, name)?,
            _ => Files::open_existing(&self.db, name)?,
        };
        let mut transaction = None;
        let view: Arc<dyn FileSystem> = match view {
            FilesView::Newest => Arc::new(files.clone()),
            FilesView::Snapshot(name) => Arc::new(files.open_snapshot(&name)?),
            FilesView::Branch(name) => Arc::new(files.open_branch(&name)?),
            FilesView::Transaction => {
                let begun = Arc::new(files.begin());
                transaction = Some(Arc::clone(&begun));
                begun
            }
        };
        Ok(FilesSession {
            files,
            view,
            transaction,
            device: None,
            holds: BTreeMap::new(),
            changes: Vec::new(),
            sender: None,
        })
    }
}

fn panicked() -> Error {
    tracing::error!("an operation on files has panicked");
    let text = "the operation panicked, which is a bug in Alluvium; the log of the process that \
                has the store open contains the message";
    Error::new(ErrorKind::Io, text)
}

fn all_branches(db: &Db) -> FilesReply {
    match Files::all_branches(db) {
        Ok(branches) => FilesReply::Branches(branches),
        Err(error) => FilesReply::failed(&error),
    }
}

fn send(stream: &mut UnixStream, reply: &FilesReply) -> io::Result<()> {
    let frame = match format::frame(reply) {
        // An answer is too long only if an operation gave more than was asked for.
        Err(error) => format::frame(&FilesReply::failed(&Error::from_system(&error, "the answer")))?,
        frame => frame?,
    };
    stream.write_all(&frame)
}

/// The state of a stream.
struct FilesSession {
    files: Files,
    view: Arc<dyn FileSystem>,
    transaction: Option<Arc<FilesTransaction>>,
    device: Option<ServedDevice>,
    /// How often the client holds an inode.
    holds: BTreeMap<Inode, u32>,
    /// What the branch that the client asked for last has changed.
    changes: Vec<PathChange>,
    /// The snapshot that is being sent.
    sender: Option<SnapshotSender>,
}

impl FilesSession {
    fn answer(&mut self, request: &FilesRequest) -> FilesReply {
        let answered = match request {
            FilesRequest::Operate(operation) => return self.operate(operation),
            FilesRequest::AwaitUnmount(milliseconds) => return self.await_unmount(*milliseconds),
            FilesRequest::EndView => {
                drop(self.device.take());
                Ok(())
            }
            FilesRequest::CreateSnapshot(name) => self.files.create_snapshot(name).map(drop),
            FilesRequest::RemoveSnapshot(name) => self.files.remove_snapshot(name),
            FilesRequest::Snapshots => {
                let names = self.files.snapshots().into_iter().map(String::into_bytes);
                return FilesReply::Names(names.collect());
            }
            FilesRequest::Check => match self.files.check() {
                Ok(report) => return FilesReply::Report(report),
                Err(error) => Err(error),
            },
            FilesRequest::Remove => Files::remove(self.files.db(), self.files.name()),
            FilesRequest::AllBranches => return all_branches(self.files.db()),
            FilesRequest::BeginBranch { name, parent } => self.files.begin_branch(name, parent.as_deref()),
            FilesRequest::BranchChanges { name, position } => match self.branch_changes(name, *position) {
                Ok(changes) => return FilesReply::Changes(changes),
                Err(error) => Err(error),
            },
            FilesRequest::CommitBranch(name) => {
                let committed = self.files.commit_branch(name);
                committed.map(|()| self.files.settle(SHOWN_WITHIN))
            }
            FilesRequest::AbortBranch(name) => self.files.abort_branch(name),
            FilesRequest::History(path) => match self.files.history(path) {
                Ok(versions) => return FilesReply::Versions(versions),
                Err(error) => Err(error),
            },
            FilesRequest::Send { snapshot, since } => {
                let sender = self.files.send(snapshot, since.as_deref());
                sender.map(|sender| self.sender = Some(sender))
            }
            FilesRequest::NextPart => match self.next_part() {
                Ok(part) => return FilesReply::Bytes(part),
                Err(error) => Err(error),
            },
            FilesRequest::Promote => self.files.promote(),
            FilesRequest::Commit { is_durable } => self.commit(*is_durable),
            FilesRequest::Publish => match self.transaction().and_then(FilesTransaction::publish) {
                Ok(name) => return FilesReply::Names(vec![name.into_bytes()]),
                Err(error) => Err(error),
            },
            FilesRequest::Roll => self.transaction().map(|transaction| transaction.rollback()),
            FilesRequest::Open { .. }
            | FilesRequest::Serve
            | FilesRequest::Receive(_)
            | FilesRequest::Part(_)
            | FilesRequest::EndReceive => Err(Error::new(
                ErrorKind::InvalidArgument,
                "the stream has been opened already",
            )),
        };
        match answered {
            Ok(()) => FilesReply::Done,
            Err(error) => FilesReply::failed(&error),
        }
    }

    /// Returns the next part of the snapshot that is being sent, or no bytes at the end.
    fn next_part(&mut self) -> Result<Vec<u8>> {
        let sender = self.sender.as_mut().ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                "no snapshot is being sent: begin with the request `Send`",
            )
        })?;
        let part = sender.next_part()?;
        if part.is_none() {
            self.sender = None;
        }
        Ok(part.unwrap_or_default())
    }

    /// Returns what a branch has changed, from a position on, as far as it fits in a reply.
    fn branch_changes(&mut self, name: &str, position: u64) -> Result<Vec<PathChange>> {
        if position == 0 {
            self.changes = self.files.branch_changes(name)?;
        }
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        let rest = self.changes.get(position..).unwrap_or_default();
        let mut bytes = 0;
        let fits = rest.iter().enumerate().take_while(|(index, change)| {
            bytes += change.path.len() + 16;
            *index == 0 || bytes <= MOST_READ
        });
        let page: Vec<PathChange> = fits.map(|(_, change)| change.clone()).collect();
        if page.is_empty() {
            self.changes = Vec::new();
        }
        Ok(page)
    }

    fn await_unmount(&self, milliseconds: u32) -> FilesReply {
        let limit = Duration::from_millis(milliseconds.into()).min(LONGEST_WAIT);
        match &self.device {
            Some(device) if device.wait(limit) == MountState::Mounted => FilesReply::Number(1),
            _ => FilesReply::Done,
        }
    }

    fn transaction(&self) -> Result<&FilesTransaction> {
        self.transaction.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                "the stream has no transaction: open it with one",
            )
        })
    }

    fn commit(&self, is_durable: bool) -> Result<()> {
        let transaction = self.transaction()?;
        match is_durable {
            true => transaction.commit_with(Durability::Disk),
            false => transaction.commit(),
        }?;
        self.files.settle(SHOWN_WITHIN);
        Ok(())
    }

    fn serve(&mut self, device: std::os::fd::OwnedFd) -> FilesReply {
        match ServedDevice::start(Arc::clone(&self.view), device, &MountOptions::default()) {
            Ok(device) => {
                self.device = Some(device);
                FilesReply::Done
            }
            Err(error) => FilesReply::failed(&Error::new(ErrorKind::Io, error.to_string())),
        }
    }

    /// Runs an operation, and counts what the client holds.
    fn operate(&mut self, operation: &FileOperation) -> FilesReply {
        let reply = operations::run(&*self.view, operation);
        if reply == FilesReply::Done {
            match operation {
                FileOperation::Hold(inode) => *self.holds.entry(*inode).or_default() += 1,
                FileOperation::Release(inode) => self.count_release(*inode),
                _ => {}
            }
        }
        if let (FileOperation::CreateUnnamed(..), FilesReply::Attributes(created)) = (operation, &reply) {
            *self.holds.entry(created.inode).or_default() += 1;
        }
        reply
    }

    fn count_release(&mut self, inode: Inode) {
        if let Some(count) = self.holds.get_mut(&inode) {
            *count -= 1;
            if *count == 0 {
                self.holds.remove(&inode);
            }
        }
    }
}

impl Drop for FilesSession {
    fn drop(&mut self) {
        // The mount ends first, because its requests use the view.
        drop(self.device.take());
        for (inode, count) in std::mem::take(&mut self.holds) {
            for _ in 0..count {
                if let Err(error) = self.view.release(inode) {
                    tracing::debug!(%error, "cannot release an inode of a client that has gone");
                }
            }
        }
        if let Some(transaction) = self.transaction.take() {
            transaction.rollback();
        }
    }
}
