//! `mount`: shows the files of the store to all programs.

use crate::context::CommandContext;
use crate::jobs::stop;
use crate::store::StoreHandle;
use crate::store::files_service::files_services;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen;
use alluvium::Db;
use alluvium_files::{FileSystem, Files, FilesWithSnapshots};
use alluvium_mount::{Mount, MountAccess, MountOptions, MountState, MountWritability};
use alluvium_server::control::ManagementServer;
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const EXAMPLES: &str = "\
Example:
  alluvium mount ~/work &
  cp -r letters ~/work/
  umount ~/work

The command runs until the directory is unmounted, or until Ctrl-C or SIGTERM. Files survive a crash of the machine once fsync has \
returned, and a kill of the command once the write has returned. Other commands work on the store meanwhile: `alluvium files`, \
`alluvium tx`, `alluvium check`. `alluvium serve --mount` serves clients beside the mount.

Snapshots of the files are in the directory DIR/.snapshots, which `ls` does not list, and cannot be changed. If the files have a \
`.snapshots` of their own in the root, that one is shown instead.";

/// How often the command looks whether it was asked to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Show the files of the store in a directory, to all programs.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct MountCommand {
    /// The directory, which must exist. What lies in it is hidden until it is unmounted.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    pub files: MountArguments,
    /// Show this snapshot, which cannot be changed.
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
}

/// The options of a mount.
#[derive(Args, Clone, Debug)]
pub struct MountArguments {
    /// The file system. It is created when it is used for the first time.
    #[arg(long, default_value = "main", value_name = "NAME")]
    pub files: String,
    /// Let programs read files only.
    #[arg(long)]
    pub read_only: bool,
    /// Show the files to this user only. Without it, the permissions of the files decide.
    #[arg(long)]
    pub private: bool,
    /// Do not show snapshots in the directory `.snapshots` of the root, which is not listed and can
    /// be entered.
    #[arg(long)]
    pub hide_snapshots: bool,
}

impl MountArguments {
    fn options(&self, is_snapshot: bool) -> MountOptions {
        let mut options = MountOptions::default();
        if self.read_only || is_snapshot {
            options.writability = MountWritability::ReadOnly;
        }
        if self.private {
            options.access = MountAccess::Owner;
        }
        options
    }

    /// Mounts a file system, or a snapshot of it, of a store that this process has open.
    pub(crate) fn mount(&self, db: &Db, directory: &Path, snapshot: Option<&str>) -> Result<Mount> {
        let files = Files::open(db, &self.files)?;
        let shown: Arc<dyn FileSystem> = match snapshot {
            Some(name) => Arc::new(files.open_snapshot(name)?),
            None if self.hide_snapshots => Arc::new(files),
            None => Arc::new(FilesWithSnapshots::new(&files)),
        };
        Ok(Mount::new(shown, directory, &self.options(snapshot.is_some()))?)
    }
}

impl MountCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let store = context.open_or_create()?;
        let Some(db) = store.db() else {
            let text = format!(
                "another process has {} open: end it, or start it as `alluvium serve --mount {}`",
                context.path.display(),
                self.directory.display()
            );
            return Err(failure(CommandExit::Busy, text));
        };
        stop::listen_as_server()?;
        let management = ManagementServer::start_with_services(db, &context.path, files_services(db));
        if let Err(error) = &management {
            screen::note(&format!(
                "other commands cannot use {} while it is mounted: its socket cannot be created ({error})",
                context.path.display()
            ));
        }
        let mut mount = self.files.mount(db, &self.directory, self.snapshot.as_deref())?;
        screen::note(&format!(
            "{} shows the files {:?} of {}; Ctrl-C or `umount` ends it",
            mount.directory().display(),
            self.files.files,
            context.path.display()
        ));
        while !stop::asked() && mount.wait(LOOK) == MountState::Mounted {}
        let unmounted = mount.unmount().context("unmounting");
        drop(mount);
        drop(management);
        close(store)?;
        unmounted?;
        screen::note("unmounted and closed");
        Ok(CommandExit::Done)
    }
}

fn close(store: StoreHandle) -> Result<()> {
    if let Some(db) = store.db() {
        db.sync().context("syncing the store")?;
    }
    store.close()
}
