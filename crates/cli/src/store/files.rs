//! The files of a store, which this process or another one has open.

use crate::context::CommandContext;
use crate::store::StoreHandle;
use alluvium::Durability;
use alluvium_files::{
    BranchSummary, FileSystem, FileVersion, Files, FilesReport, FilesTransaction, PathChange,
    ReceivedSnapshot, SnapshotReceiver,
};
use alluvium_mount::service::{FilesClient, FilesView, RemoteFiles, SERVICE};
use alluvium_mount::{DeviceServer, MountError, ViewOptions, ViewOutcome, run_in_served_view, run_in_view};
use alluvium_server::control::ManagementClient;
use anyhow::{Context as _, Result, anyhow};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// A view of a file system.
pub(crate) struct OpenFiles {
    pub(crate) files: Arc<dyn FileSystem>,
    backend: FilesBackend,
    has_transaction: bool,
}

enum FilesBackend {
    Own(Files),
    Transaction(Arc<FilesTransaction>),
    Snapshot,
    /// The file system whose branch the view shows.
    Branch(Files),
    Remote(Arc<RemoteFiles>),
}

/// Returns the stream of a service of the process that has the store open.
fn service(context: &CommandContext) -> Result<UnixStream> {
    let client = ManagementClient::connect(&context.path)
        .context("connecting to the process that has the store open")?;
    client
        .into_service(SERVICE)
        .map_err(|error| anyhow!("{error}: end that process, or start it with a version that offers files"))
}

/// Returns the branches of all file systems of the store.
pub(crate) fn all_branches(context: &CommandContext, store: &StoreHandle) -> Result<Vec<BranchSummary>> {
    Ok(match store.db() {
        Some(db) => Files::all_branches(db)?,
        None => FilesClient::all_branches(service(context)?)?,
    })
}

impl OpenFiles {
    /// Opens a view of the file system `name`. If it does not exist, a transaction creates it, and
    /// other views are errors.
    pub(crate) fn open(
        context: &CommandContext,
        store: &StoreHandle,
        name: &str,
        view: FilesView,
    ) -> Result<OpenFiles> {
        let has_transaction = view == FilesView::Transaction;
        let Some(db) = store.db() else {
            let client = FilesClient::open(service(context)?, name, view)?;
            let remote = Arc::new(RemoteFiles::new(client));
            return Ok(OpenFiles {
                files: Arc::clone(&remote) as Arc<dyn FileSystem>,
                backend: FilesBackend::Remote(remote),
                has_transaction,
            });
        };
        let files = match view {
            FilesView::Transaction => Files::open(db, name)?,
            _ => Files::open_existing(db, name)?,
        };
        Ok(match view {
            FilesView::Newest => OpenFiles {
                files: Arc::new(files.clone()),
                backend: FilesBackend::Own(files),
                has_transaction,
            },
            FilesView::Transaction => {
                let transaction = Arc::new(files.begin());
                OpenFiles {
                    files: Arc::clone(&transaction) as Arc<dyn FileSystem>,
                    backend: FilesBackend::Transaction(transaction),
                    has_transaction,
                }
            }
            FilesView::Snapshot(name) => OpenFiles {
                files: Arc::new(files.open_snapshot(&name)?),
                backend: FilesBackend::Snapshot,
                has_transaction,
            },
            FilesView::Branch(name) => OpenFiles {
                files: Arc::new(files.open_branch(&name)?),
                backend: FilesBackend::Branch(files),
                has_transaction,
            },
        })
    }

    /// Runs a command that sees the view in a directory.
    pub(crate) fn run_in_view(
        &self,
        directory: &Path,
        command: Command,
        options: &ViewOptions,
    ) -> Result<ViewOutcome, MountError> {
        match &self.backend {
            FilesBackend::Remote(remote) => {
                let server = Arc::clone(remote) as Arc<dyn DeviceServer>;
                run_in_served_view(server, directory, command, options)
            }
            _ => run_in_view(Arc::clone(&self.files), directory, command, options),
        }
    }

    /// Returns a name by which clients of the process that has the store open can join the
    /// transaction of the view. Returns `None` if this process has the store open, because it has
    /// no clients.
    pub(crate) fn publish(&self) -> Result<Option<String>> {
        match &self.backend {
            FilesBackend::Remote(remote) if self.has_transaction => Ok(Some(remote.client().publish()?)),
            _ => Ok(None),
        }
    }

    /// Commits the transaction of the view durably. Views without a transaction are synced.
    pub(crate) fn commit(&self) -> Result<()> {
        match &self.backend {
            FilesBackend::Transaction(transaction) => transaction.commit_with(Durability::Disk)?,
            FilesBackend::Own(files) | FilesBackend::Branch(files) => files.sync()?,
            FilesBackend::Snapshot => {}
            FilesBackend::Remote(remote) if self.has_transaction => {
                remote.client().commit(Durability::Disk)?;
            }
            FilesBackend::Remote(remote) => remote.sync()?,
        }
        Ok(())
    }

    /// Rolls the transaction of the view back.
    pub(crate) fn rollback(&self) -> Result<()> {
        match &self.backend {
            FilesBackend::Transaction(transaction) => transaction.rollback(),
            FilesBackend::Own(_) | FilesBackend::Snapshot | FilesBackend::Branch(_) => {}
            FilesBackend::Remote(remote) => remote.client().rollback()?,
        }
        Ok(())
    }

    pub(crate) fn create_snapshot(&self, name: &str) -> Result<()> {
        match self.managed()? {
            ManagedFiles::Own(files) => files.create_snapshot(name).map(drop)?,
            ManagedFiles::Remote(client) => client.create_snapshot(name)?,
        }
        Ok(())
    }

    pub(crate) fn snapshots(&self) -> Result<Vec<String>> {
        Ok(match self.managed()? {
            ManagedFiles::Own(files) => files.snapshots(),
            ManagedFiles::Remote(client) => client.snapshots()?,
        })
    }

    /// Writes a snapshot, or what has changed since another one, part by part.
    pub(crate) fn send(
        &self,
        snapshot: &str,
        since: Option<&str>,
        write: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        match self.managed()? {
            ManagedFiles::Own(files) => {
                for part in files.send(snapshot, since)? {
                    write(&part?)?;
                }
            }
            ManagedFiles::Remote(client) => {
                client.send(snapshot, since)?;
                while let Some(part) = client.next_part()? {
                    write(&part)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn promote(&self) -> Result<()> {
        match self.managed()? {
            ManagedFiles::Own(files) => files.promote()?,
            ManagedFiles::Remote(client) => client.promote()?,
        }
        Ok(())
    }

    pub(crate) fn remove_snapshot(&self, name: &str) -> Result<()> {
        match self.managed()? {
            ManagedFiles::Own(files) => files.remove_snapshot(name)?,
            ManagedFiles::Remote(client) => client.remove_snapshot(name)?,
        }
        Ok(())
    }

    pub(crate) fn begin_branch(&self, name: &str, parent: Option<&str>) -> Result<()> {
        match self.managed()? {
            ManagedFiles::Own(files) => files.begin_branch(name, parent)?,
            ManagedFiles::Remote(client) => client.begin_branch(name, parent)?,
        }
        Ok(())
    }

    pub(crate) fn branch_changes(&self, name: &str) -> Result<Vec<PathChange>> {
        Ok(match self.managed()? {
            ManagedFiles::Own(files) => files.branch_changes(name)?,
            ManagedFiles::Remote(client) => client.branch_changes(name)?,
        })
    }

    pub(crate) fn commit_branch(&self, name: &str) -> Result<()> {
        match self.managed()? {
            ManagedFiles::Own(files) => files.commit_branch(name)?,
            ManagedFiles::Remote(client) => client.commit_branch(name)?,
        }
        Ok(())
    }

    pub(crate) fn abort_branch(&self, name: &str) -> Result<()> {
        match self.managed()? {
            ManagedFiles::Own(files) => files.abort_branch(name)?,
            ManagedFiles::Remote(client) => client.abort_branch(name)?,
        }
        Ok(())
    }

    pub(crate) fn history(&self, path: &[u8]) -> Result<Vec<FileVersion>> {
        Ok(match self.managed()? {
            ManagedFiles::Own(files) => files.history(path)?,
            ManagedFiles::Remote(client) => client.history(path)?,
        })
    }

    pub(crate) fn check(&self) -> Result<FilesReport> {
        Ok(match self.managed()? {
            ManagedFiles::Own(files) => files.check()?,
            ManagedFiles::Remote(client) => client.check()?,
        })
    }

    pub(crate) fn remove(&self) -> Result<()> {
        match self.managed()? {
            ManagedFiles::Own(files) => Files::remove(files.db(), files.name())?,
            ManagedFiles::Remote(client) => client.remove()?,
        }
        Ok(())
    }

    fn managed(&self) -> Result<ManagedFiles<'_>> {
        match &self.backend {
            FilesBackend::Own(files) => Ok(ManagedFiles::Own(files)),
            FilesBackend::Remote(remote) => Ok(ManagedFiles::Remote(remote.client())),
            FilesBackend::Transaction(_) | FilesBackend::Snapshot | FilesBackend::Branch(_) => {
                Err(anyhow!("only the newest state of a file system can be managed"))
            }
        }
    }
}

/// Receives a snapshot into a copy, with `read` returning the next bytes, and none at the end.
pub(crate) fn receive(
    context: &CommandContext,
    store: &StoreHandle,
    name: &str,
    read: &mut dyn FnMut() -> Result<Vec<u8>>,
) -> Result<ReceivedSnapshot> {
    if let Some(db) = store.db() {
        let mut receiver = SnapshotReceiver::new(db, name)?;
        loop {
            match &read()?[..] {
                [] => return Ok(receiver.finish()?),
                bytes => receiver.push(bytes)?,
            }
        }
    }
    let client = FilesClient::receive(service(context)?, name)?;
    loop {
        match &read()?[..] {
            [] => return Ok(client.end_receive()?),
            bytes => client.push_part(bytes)?,
        }
    }
}

/// A file system that is managed in this process or in another one.
enum ManagedFiles<'m> {
    Own(&'m Files),
    Remote(&'m FilesClient),
}
