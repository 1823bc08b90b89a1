//! The client's end of a stream.

use super::descriptor;
use super::format;
use super::message::{FileOperation, FilesReply, FilesRequest, FilesView, NodeDescription};
use super::operations::{MOST_ENTRIES, MOST_READ};
use crate::options::MountOptions;
use crate::served::{DeviceServer, MountState};
use alluvium_files::{
    AllocateMode, AttributeChange, Attributes, BranchSummary, DirectoryEntry, Error, ErrorKind, FileSystem,
    FileVersion, FilesReport, Inode, NewNode, PathChange, ReceivedSnapshot, RenameMode, Result, SeekTarget,
    SetMode, SpaceStatistics, WritePosition,
};
use parking_lot::Mutex;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Returns what a reply contains, or an error if it is another one.
macro_rules! answered {
    ($reply:expr, $kind:ident) => {
        match $reply? {
            FilesReply::$kind(value) => Ok(value),
            other => Err(unexpected(&other)),
        }
    };
}

/// A view of files in a store that another process has open.
#[derive(Debug)]
pub struct FilesClient {
    /// `None` after an error of the stream.
    stream: Mutex<Option<UnixStream>>,
}

impl FilesClient {
    /// Opens a view of the file system `name` on a stream that the other process has begun to
    /// serve.
    ///
    /// # Errors
    /// Errors of the connection and of the other process.
    pub fn open(stream: UnixStream, name: &str, view: FilesView) -> Result<FilesClient> {
        let client = FilesClient {
            stream: Mutex::new(Some(stream)),
        };
        client.ask(&FilesRequest::Open {
            name: name.to_owned(),
            view,
        })?;
        Ok(client)
    }

    /// Commits the transaction of the view. If `durability` asks for it, the commit is on the disk
    /// when this returns.
    ///
    /// # Errors
    /// `Conflict` if others have changed what the transaction depends on; errors of the store.
    pub fn commit(&self, durability: alluvium::Durability) -> Result<()> {
        let is_durable = matches!(durability, alluvium::Durability::Disk);
        self.ask(&FilesRequest::Commit { is_durable }).map(drop)
    }

    /// Publishes the transaction of the view, and returns its name: see
    /// [`FilesTransaction::publish`](alluvium_files::FilesTransaction::publish).
    ///
    /// # Errors
    /// `Stale` if the transaction has ended; errors of the connection.
    pub fn publish(&self) -> Result<String> {
        let mut names = answered!(self.ask(&FilesRequest::Publish), Names)?.into_iter();
        let name = names.next().and_then(|name| String::from_utf8(name).ok());
        name.ok_or_else(|| Error::new(ErrorKind::Io, "the other process has answered without a name"))
    }

    /// Rolls the transaction of the view back.
    ///
    /// # Errors
    /// Errors of the connection, after which the transaction is rolled back as well.
    pub fn rollback(&self) -> Result<()> {
        self.ask(&FilesRequest::Roll).map(drop)
    }

    /// Creates a snapshot of the file system.
    ///
    /// # Errors
    /// `Exists`; errors of the connection and of the other process.
    pub fn create_snapshot(&self, name: &str) -> Result<()> {
        self.ask(&FilesRequest::CreateSnapshot(name.to_owned())).map(drop)
    }

    /// Returns the names of the snapshots of the file system.
    ///
    /// # Errors
    /// Errors of the connection and of the other process.
    pub fn snapshots(&self) -> Result<Vec<String>> {
        let names = answered!(self.ask(&FilesRequest::Snapshots), Names)?;
        let texts = names
            .into_iter()
            .map(|name| String::from_utf8_lossy(&name).into_owned());
        Ok(texts.collect())
    }

    /// Removes a snapshot of the file system.
    ///
    /// # Errors
    /// `NotFound`; errors of the connection and of the other process.
    pub fn remove_snapshot(&self, name: &str) -> Result<()> {
        self.ask(&FilesRequest::RemoveSnapshot(name.to_owned())).map(drop)
    }

    /// Begins to send a snapshot, or what has changed since another one: see
    /// [`Files::send`](alluvium_files::Files::send).
    ///
    /// # Errors
    /// `NotFound`; errors of the connection and of the other process.
    pub fn send(&self, snapshot: &str, since: Option<&str>) -> Result<()> {
        let request = FilesRequest::Send {
            snapshot: snapshot.to_owned(),
            since: since.map(str::to_owned),
        };
        self.ask(&request).map(drop)
    }

    /// Returns the next part of the snapshot that is being sent, or `None` at the end.
    ///
    /// # Errors
    /// Errors of the connection and of the other process.
    pub fn next_part(&self) -> Result<Option<Vec<u8>>> {
        let part = answered!(self.ask(&FilesRequest::NextPart), Bytes)?;
        Ok((!part.is_empty()).then_some(part))
    }

    /// Begins to receive a snapshot into a copy, on a stream that the other process has begun to
    /// serve: see [`SnapshotReceiver`](alluvium_files::SnapshotReceiver).
    ///
    /// # Errors
    /// Errors of the connection and of the other process.
    pub fn receive(stream: UnixStream, name: &str) -> Result<FilesClient> {
        let client = FilesClient {
            stream: Mutex::new(Some(stream)),
        };
        client.ask(&FilesRequest::Receive(name.to_owned()))?;
        Ok(client)
    }

    /// Passes the next bytes of the snapshot that is being received, at most 3 MiB.
    ///
    /// # Errors
    /// As [`SnapshotReceiver::push`](alluvium_files::SnapshotReceiver::push); errors of the
    /// connection.
    pub fn push_part(&self, bytes: &[u8]) -> Result<()> {
        self.ask(&FilesRequest::Part(bytes.to_vec())).map(drop)
    }

    /// Ends the snapshot that is being received, and applies it.
    ///
    /// # Errors
    /// As [`SnapshotReceiver::finish`](alluvium_files::SnapshotReceiver::finish); errors of the
    /// connection.
    pub fn end_receive(&self) -> Result<ReceivedSnapshot> {
        answered!(self.ask(&FilesRequest::EndReceive), Received)
    }

    /// Makes a copy changeable.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not a copy; errors of the connection and of the other process.
    pub fn promote(&self) -> Result<()> {
        self.ask(&FilesRequest::Promote).map(drop)
    }

    /// Verifies the file system.
    ///
    /// # Errors
    /// Errors of the connection and of the other process.
    pub fn check(&self) -> Result<FilesReport> {
        answered!(self.ask(&FilesRequest::Check), Report)
    }

    /// Removes the file system with everything in it.
    ///
    /// # Errors
    /// Errors of the connection and of the other process.
    pub fn remove(&self) -> Result<()> {
        self.ask(&FilesRequest::Remove).map(drop)
    }

    /// Returns the branches of all file systems of the store, on a stream that the other process
    /// has begun to serve.
    ///
    /// # Errors
    /// Errors of the connection and of the other process.
    pub fn all_branches(stream: UnixStream) -> Result<Vec<BranchSummary>> {
        let client = FilesClient {
            stream: Mutex::new(Some(stream)),
        };
        answered!(client.ask(&FilesRequest::AllBranches), Branches)
    }

    /// Begins a branch of the files, or of another branch.
    ///
    /// # Errors
    /// `Exists`; `NotFound`; errors of the connection and of the other process.
    pub fn begin_branch(&self, name: &str, parent: Option<&str>) -> Result<()> {
        let request = FilesRequest::BeginBranch {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
        };
        self.ask(&request).map(drop)
    }

    /// Returns the paths that a branch has changed.
    ///
    /// # Errors
    /// `NotFound`; errors of the connection and of the other process.
    pub fn branch_changes(&self, name: &str) -> Result<Vec<PathChange>> {
        let mut changes: Vec<PathChange> = Vec::new();
        loop {
            let request = FilesRequest::BranchChanges {
                name: name.to_owned(),
                position: changes.len() as u64,
            };
            let more = answered!(self.ask(&request), Changes)?;
            if more.is_empty() {
                return Ok(changes);
            }
            changes.extend(more);
        }
    }

    /// Commits a branch.
    ///
    /// # Errors
    /// `Conflict` if others have changed what the branch has changed; `Busy`; `NotFound`; errors of
    /// the connection and of the other process.
    pub fn commit_branch(&self, name: &str) -> Result<()> {
        self.ask(&FilesRequest::CommitBranch(name.to_owned())).map(drop)
    }

    /// Removes a branch with its changes.
    ///
    /// # Errors
    /// `Busy`; `NotFound`; errors of the connection and of the other process.
    pub fn abort_branch(&self, name: &str) -> Result<()> {
        self.ask(&FilesRequest::AbortBranch(name.to_owned())).map(drop)
    }

    /// Returns the versions of a path, the oldest first.
    ///
    /// # Errors
    /// `NotFound`; errors of the connection and of the other process.
    pub fn history(&self, path: &[u8]) -> Result<Vec<FileVersion>> {
        answered!(self.ask(&FilesRequest::History(path.to_vec())), Versions)
    }

    pub(super) fn ask(&self, request: &FilesRequest) -> Result<FilesReply> {
        self.ask_with(request, None)
    }

    fn ask_with(&self, request: &FilesRequest, device: Option<&OwnedFd>) -> Result<FilesReply> {
        let frame = format::frame(request).map_err(|error| gone(&error))?;
        let mut stream = self.stream.lock();
        let ended = || gone(&io::Error::from(io::ErrorKind::NotConnected));
        let mut open = stream.take().ok_or_else(ended)?;
        let sent = open.write_all(&frame);
        let sent = sent.and_then(|()| match device {
            Some(device) => descriptor::send(&open, device.as_fd()),
            None => Ok(()),
        });
        sent.map_err(|error| gone(&error))?;
        let reply = format::read(&mut open).map_err(|error| gone(&error))?;
        let reply = reply.ok_or_else(ended)?;
        *stream = Some(open);
        match reply {
            FilesReply::Failed { kind, errno, text } => Err(Error::told(kind, errno, text)),
            reply => Ok(reply),
        }
    }
}

fn gone(error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Io,
        format!("the process that has the store open has ended, or closed the connection ({error})"),
    )
}

/// The file system of a [`FilesClient`]. Each operation is a request to the other process.
#[derive(Debug)]
pub struct RemoteFiles {
    client: FilesClient,
}

fn unexpected(reply: &FilesReply) -> Error {
    Error::new(
        ErrorKind::Io,
        format!("the process that has the store open gave another answer than was asked for: {reply:?}"),
    )
}

impl RemoteFiles {
    /// Creates the file system.
    #[must_use]
    pub fn new(client: FilesClient) -> RemoteFiles {
        RemoteFiles { client }
    }

    /// Returns the client, by which a transaction is committed.
    #[must_use]
    pub fn client(&self) -> &FilesClient {
        &self.client
    }

    fn run(&self, operation: FileOperation) -> Result<FilesReply> {
        self.client.ask(&FilesRequest::Operate(operation))
    }

    fn change(&self, operation: FileOperation) -> Result<()> {
        match self.run(operation)? {
            FilesReply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}

/// How long one request waits for the end of a mount.
const WAIT: Duration = Duration::from_millis(200);

/// The other process serves the device of a view.
impl DeviceServer for RemoteFiles {
    fn serve(&self, device: OwnedFd, _options: &MountOptions) -> io::Result<()> {
        let served = self.client.ask_with(&FilesRequest::Serve, Some(&device));
        served.map(drop).map_err(io::Error::other)
    }

    fn wait(&self, limit: Duration) -> MountState {
        let mut left = limit;
        loop {
            let step = left.min(WAIT);
            let asked = self
                .client
                .ask(&FilesRequest::AwaitUnmount(step.as_millis() as u32));
            // If the other process has gone, its mounts have gone as well.
            let Ok(FilesReply::Number(_)) = asked else {
                return MountState::Ended;
            };
            left -= step;
            if left.is_zero() {
                return MountState::Mounted;
            }
        }
    }

    fn end(&self) {
        if let Err(error) = self.client.ask(&FilesRequest::EndView) {
            tracing::debug!(%error, "cannot end a view, because its connection has ended");
        }
    }
}

impl FileSystem for RemoteFiles {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        answered!(self.run(FileOperation::Lookup(parent, name.to_vec())), Attributes)
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        answered!(self.run(FileOperation::Attributes(inode)), Attributes)
    }

    fn parent(&self, directory: Inode) -> Result<Inode> {
        answered!(self.run(FileOperation::Parent(directory)), Inode)
    }

    fn set_attributes(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes> {
        let operation = FileOperation::SetAttributes(inode, change.clone());
        answered!(self.run(operation), Attributes)
    }

    fn create(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes> {
        let operation = FileOperation::Create(parent, name.to_vec(), NodeDescription::of(node));
        answered!(self.run(operation), Attributes)
    }

    fn create_unnamed(&self, parent: Inode, node: &NewNode<'_>) -> Result<Attributes> {
        let operation = FileOperation::CreateUnnamed(parent, NodeDescription::of(node));
        answered!(self.run(operation), Attributes)
    }

    fn link(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes> {
        let operation = FileOperation::Link(inode, parent, name.to_vec());
        answered!(self.run(operation), Attributes)
    }

    fn unlink(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.change(FileOperation::Unlink(parent, name.to_vec()))
    }

    fn remove_directory(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.change(FileOperation::RemoveDirectory(parent, name.to_vec()))
    }

    fn rename(
        &self,
        parent: Inode,
        name: &[u8],
        new_parent: Inode,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        let (name, new_name) = (name.to_vec(), new_name.to_vec());
        self.change(FileOperation::Rename(parent, name, new_parent, new_name, mode))
    }

    fn read_link(&self, inode: Inode) -> Result<Vec<u8>> {
        answered!(self.run(FileOperation::ReadLink(inode)), Bytes)
    }

    fn hold(&self, inode: Inode) -> Result<()> {
        self.change(FileOperation::Hold(inode))
    }

    fn release(&self, inode: Inode) -> Result<()> {
        self.change(FileOperation::Release(inode))
    }

    fn read(&self, inode: Inode, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut data: Vec<u8> = Vec::new();
        while data.len() < length {
            let piece = (length - data.len()).min(MOST_READ) as u32;
            let operation = FileOperation::Read(inode, offset.saturating_add(data.len() as u64), piece);
            let read = answered!(self.run(operation), Bytes)?;
            let is_end = read.len() < piece as usize;
            data.extend_from_slice(&read);
            if is_end {
                break;
            }
        }
        Ok(data)
    }

    fn write(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64> {
        // A message has room for what one call of the kernel writes. A longer piece would not be
        // atomic in several messages.
        answered!(
            self.run(FileOperation::Write(inode, position, data.to_vec())),
            Number
        )
    }

    fn allocate(&self, inode: Inode, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.change(FileOperation::Allocate(inode, mode, offset, length))
    }

    fn seek(&self, inode: Inode, offset: u64, target: SeekTarget) -> Result<u64> {
        answered!(self.run(FileOperation::Seek(inode, offset, target)), Number)
    }

    fn copy_range(
        &self,
        from: Inode,
        from_offset: u64,
        to: Inode,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let operation = FileOperation::CopyRange(from, from_offset, to, to_offset, length);
        answered!(self.run(operation), Number)
    }

    fn read_directory(
        &self,
        directory: Inode,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let limit = limit.min(MOST_ENTRIES) as u32;
        let operation = FileOperation::ReadDirectory(directory, after.map(<[u8]>::to_vec), limit);
        answered!(self.run(operation), Entries)
    }

    fn extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<Vec<u8>> {
        answered!(
            self.run(FileOperation::ExtendedAttribute(inode, name.to_vec())),
            Bytes
        )
    }

    fn extended_attributes(&self, inode: Inode) -> Result<Vec<Vec<u8>>> {
        answered!(self.run(FileOperation::ExtendedAttributes(inode)), Names)
    }

    fn set_extended_attribute(&self, inode: Inode, name: &[u8], value: &[u8], mode: SetMode) -> Result<()> {
        let (name, value) = (name.to_vec(), value.to_vec());
        self.change(FileOperation::SetExtendedAttribute(inode, name, value, mode))
    }

    fn remove_extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<()> {
        self.change(FileOperation::RemoveExtendedAttribute(inode, name.to_vec()))
    }

    fn sync(&self) -> Result<()> {
        self.change(FileOperation::Sync)
    }

    fn space(&self) -> Result<SpaceStatistics> {
        answered!(self.run(FileOperation::Space), Space)
    }
}
