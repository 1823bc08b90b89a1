//! The messages of a stream.

use alluvium_files::{
    AllocateMode, AttributeChange, Attributes, BranchSummary, DirectoryEntry, ErrorKind, FileKind,
    FileVersion, FilesReport, Inode, PathChange, ReceivedSnapshot, RenameMode, SeekTarget, SetMode,
    SpaceStatistics, WritePosition,
};
use serde::{Deserialize, Serialize};

/// What a stream sees of a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilesView {
    /// The newest state. Each operation is committed by itself.
    Newest,
    /// A new transaction. It creates the file system if there is none.
    Transaction,
    /// A snapshot, by its name.
    Snapshot(String),
    /// A branch, by its name. Each operation is committed into the branch by itself.
    Branch(String),
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FilesRequest {
    /// Selects a file system by its name, and a view of it. Every stream begins with this request.
    Open {
        name: String,
        view: FilesView,
    },
    /// An operation on the view.
    Operate(FileOperation),
    /// Serves the view on a mounted FUSE device, whose descriptor follows the frame. The answer
    /// comes once the kernel and the view have agreed.
    Serve,
    /// Waits until the view is unmounted, or for this number of milliseconds. The answer is `Done`
    /// if it
    /// is unmounted, and the number 1 otherwise.
    AwaitUnmount(u32),
    /// Ends all access to the file system through the mounted view.
    EndView,
    /// Creates a snapshot of the file system.
    CreateSnapshot(String),
    /// Lists the snapshots of the file system.
    Snapshots,
    RemoveSnapshot(String),
    /// Verifies the file system.
    Check,
    /// Removes the file system.
    Remove,
    /// Commits the transaction.
    Commit {
        is_durable: bool,
    },
    /// Rolls the transaction back.
    Roll,
    /// Lists the branches of all file systems. It may be the only request of a stream.
    AllBranches,
    BeginBranch {
        name: String,
        parent: Option<String>,
    },
    /// Lists what a branch has changed, from this position on, as far as it fits in a reply.
    /// Position 0 begins a new list. No changes mean the end.
    BranchChanges {
        name: String,
        position: u64,
    },
    CommitBranch(String),
    AbortBranch(String),
    /// Lists the versions of a path.
    History(Vec<u8>),
    /// Publishes the transaction, so that others can join it. The answer is a list with its name.
    Publish,
    /// Begins to send a snapshot, or what has changed since another one.
    Send {
        snapshot: String,
        since: Option<String>,
    },
    /// Asks for the next part of what is sent. No bytes mean the end.
    NextPart,
    /// Begins to receive a snapshot into a copy of this name. It is the first request of a stream,
    /// on which only parts and the end follow.
    Receive(String),
    /// The next part of what is received.
    Part(Vec<u8>),
    /// The end of what is received, which is applied then.
    EndReceive,
    /// Makes a copy changeable.
    Promote,
}

/// An operation of [`FileSystem`](alluvium_files::FileSystem).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FileOperation {
    Lookup(Inode, Vec<u8>),
    Attributes(Inode),
    Parent(Inode),
    SetAttributes(Inode, AttributeChange),
    Create(Inode, Vec<u8>, NodeDescription),
    CreateUnnamed(Inode, NodeDescription),
    Link(Inode, Inode, Vec<u8>),
    Unlink(Inode, Vec<u8>),
    RemoveDirectory(Inode, Vec<u8>),
    Rename(Inode, Vec<u8>, Inode, Vec<u8>, RenameMode),
    ReadLink(Inode),
    Hold(Inode),
    Release(Inode),
    Read(Inode, u64, u32),
    Write(Inode, WritePosition, Vec<u8>),
    Allocate(Inode, AllocateMode, u64, u64),
    Seek(Inode, u64, SeekTarget),
    CopyRange(Inode, u64, Inode, u64, u64),
    ReadDirectory(Inode, Option<Vec<u8>>, u32),
    ExtendedAttribute(Inode, Vec<u8>),
    ExtendedAttributes(Inode),
    SetExtendedAttribute(Inode, Vec<u8>, Vec<u8>, SetMode),
    RemoveExtendedAttribute(Inode, Vec<u8>),
    Sync,
    Space,
}

/// An inode to be created: [`NewNode`](alluvium_files::NewNode) as a message has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeDescription {
    pub kind: FileKind,
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    pub device: u64,
    pub target: Vec<u8>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FilesReply {
    Done,
    Attributes(Attributes),
    Inode(Inode),
    Bytes(Vec<u8>),
    Names(Vec<Vec<u8>>),
    Entries(Vec<DirectoryEntry>),
    Number(u64),
    Space(SpaceStatistics),
    Report(FilesReport),
    Failed {
        kind: ErrorKind,
        errno: i32,
        text: String,
    },
    Branches(Vec<BranchSummary>),
    Changes(Vec<PathChange>),
    Versions(Vec<FileVersion>),
    Received(ReceivedSnapshot),
}
