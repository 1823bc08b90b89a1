//! Running a command in a view of a file system that no other program sees.
//!
//! The command gets a mount namespace of its own, in which the file system is mounted over a
//! directory; all of its descendants inherit the namespace, daemons and double forks too. This
//! process serves the mount, or passes its device on to another that does. The namespace and the
//! mount in it go away with the last process in it, whatever is killed:
//!
//! - If the command is killed, its exit status says so, and the view ends as after any other end.
//! - If this process is killed, the kernel kills the command, and other descendants get `ENOTCONN`
//!   for everything in the directory.
//!
//! Files that the command inherits open, such as a redirection of its output into the directory,
//! were opened outside: they do not belong to the view.
//!
//! *Scope*: namespaces, the command's life, its descendants.
//!
//! *Must not depend on*: what a view is of; commits.
//!
//! Invariants: M4 of the crate.

mod child;
mod processes;
mod signals;

pub use signals::SignalForwarding;

use crate::attach::{
    kernel_mount, receive_descriptor, send_descriptor, socket_pair, system_error, widen_read_ahead,
};
use crate::error::MountError;
use crate::options::MountOptions;
use crate::served::{DeviceServer, LocalServer, MountState};
use alluvium_files::FileSystem;
use child::{ChildFailure, NamespaceEntry};
use rustix::process::{Pid, PidfdFlags, Signal};
use signals::ForwardedSignals;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What happens to descendants of the command that still run in the view when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescendantPolicy {
    /// The view ends with the last of them.
    Await,
    /// They have this long to end by themselves, then two seconds after a SIGTERM. Then they are
    /// killed.
    EndAfter(Duration),
}

/// How a command runs in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewOptions {
    /// How the view is mounted.
    pub mount: MountOptions,
    /// Where the command runs. `None`: in the directory that is mounted over. It is looked up in
    /// the view.
    pub working_directory: Option<PathBuf>,
    /// What happens to descendants that the command leaves behind.
    pub descendants: DescendantPolicy,
    /// Which signals to this process the command gets.
    pub signals: SignalForwarding,
}

impl Default for ViewOptions {
    fn default() -> ViewOptions {
        ViewOptions {
            mount: MountOptions::default(),
            working_directory: None,
            descendants: DescendantPolicy::Await,
            signals: SignalForwarding::ToCommand,
        }
    }
}

/// How a command in a view has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewOutcome {
    /// The exit status of the command.
    pub status: ExitStatus,
    /// DescendantPolicy that had to be ended, as `name (process)`.
    pub ended: Vec<String>,
}

/// A command that runs in a view of its own. Dropping it without [`CommandView::wait`] kills the
/// command,
/// and leaves no access to the file system.
pub struct CommandView {
    server: Arc<dyn DeviceServer>,
    has_finished: bool,
    descendants: DescendantPolicy,
    source: String,
    process: u32,
    handle: Arc<OwnedFd>,
    status: Receiver<io::Result<ExitStatus>>,
    thread: Option<JoinHandle<()>>,
    _signals: Option<ForwardedSignals>,
}

/// How long a descendant has after a SIGTERM.
const TERMINATION_TIME: Duration = Duration::from_secs(2);
/// How long killed processes may take until the kernel has removed the mount.
const REMOVAL_TIME: Duration = Duration::from_secs(10);
/// After which time a wait for descendants is logged.
const SILENT_TIME: Duration = Duration::from_secs(1);

/// Runs a command in a view of a file system that is mounted over `directory`, and waits for it and
/// its descendants. Afterwards nothing reaches `files` through the view.
///
/// Of `command`, program, arguments, environment and standard streams are used; it runs in
/// [`ViewOptions::working_directory`].
///
/// # Errors
/// [`MountError`], each of which says what to do. The command did not run then.
pub fn run_in_view(
    files: Arc<dyn FileSystem>,
    directory: &Path,
    command: Command,
    options: &ViewOptions,
) -> Result<ViewOutcome, MountError> {
    CommandView::start(files, directory, command, options)?.wait()
}

/// As [`run_in_view`], for a view that `server` serves, for example in another process.
///
/// # Errors
/// As for [`run_in_view`].
pub fn run_in_served_view(
    server: Arc<dyn DeviceServer>,
    directory: &Path,
    command: Command,
    options: &ViewOptions,
) -> Result<ViewOutcome, MountError> {
    CommandView::start_served(server, directory, command, options)?.wait()
}

/// What the thread that starts the command reports.
struct RunningCommand {
    process: u32,
    handle: OwnedFd,
}

impl CommandView {
    /// Starts a command in a view of a file system.
    ///
    /// # Errors
    /// As for [`run_in_view`].
    pub fn start(
        files: Arc<dyn FileSystem>,
        directory: &Path,
        command: Command,
        options: &ViewOptions,
    ) -> Result<CommandView, MountError> {
        CommandView::start_served(Arc::new(LocalServer::new(files)), directory, command, options)
    }

    /// Starts a command in a view that `server` serves.
    ///
    /// # Errors
    /// As for [`run_in_view`].
    pub fn start_served(
        server: Arc<dyn DeviceServer>,
        directory: &Path,
        command: Command,
        options: &ViewOptions,
    ) -> Result<CommandView, MountError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let directory = directory
            .canonicalize()
            .map_err(|error| system_error(directory, "resolving the path", error))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut mount = options.mount.clone();
        mount.source = format!("{}#{}-{number}", mount.source, std::process::id());
        let working = options.working_directory.as_deref().unwrap_or(&directory);
        let arguments = kernel_mount(&directory, &mount)?;
        let failed = |error| system_error(&directory, "starting a view", error);
        let (own, theirs) = socket_pair().map_err(failed)?;
        let entry = NamespaceEntry::new(arguments, working, (theirs, own.as_fd()))?;
        let source = mount.source.clone();
        // The kernel kills the command when the thread that started it ends, so that thread waits.
        let (report, started) = channel();
        let (say, status) = channel();
        let serving = server.clone();
        let place = directory.clone();
        let thread = std::thread::Builder::new()
            .name("view".to_owned())
            .spawn(move || {
                let launched = launch((&*serving, &mount), &place, command, entry, own);
                wait_for_child(launched, &report, &say);
            });
        let thread = thread.map_err(failed)?;
        let started = started
            .recv()
            .map_err(|_| failed(io::Error::other("its thread ended")))?;
        let RunningCommand { process, handle } = started.inspect_err(|_| server.end())?;
        let handle = Arc::new(handle);
        let signals = match options.signals {
            SignalForwarding::ToCommand => Some(ForwardedSignals::to(handle.clone())),
            SignalForwarding::Off => None,
        };
        Ok(CommandView {
            server,
            has_finished: false,
            descendants: options.descendants,
            source,
            process,
            handle,
            status,
            thread: Some(thread),
            _signals: signals,
        })
    }

    /// Returns the process of the command.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process
    }

    /// Sends a signal to the command.
    ///
    /// # Errors
    /// `ESRCH` if it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.handle, signal)?)
    }

    /// Waits until the command has ended, and its descendants as [`DescendantPolicy`] says.
    /// Afterwards nothing reaches the file system through the view.
    ///
    /// # Errors
    /// [`MountError::System`] if the command's status cannot be found out.
    pub fn wait(mut self) -> Result<ViewOutcome, MountError> {
        let status = self
            .status
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("its thread ended")));
        let ended = self.end_descendants(self.descendants);
        self.finish();
        let status = status.map_err(|source| MountError::System {
            directory: PathBuf::from(&self.source),
            step: "waiting for the command",
            source,
        })?;
        Ok(ViewOutcome { status, ended })
    }

    fn is_unused_after(&self, limit: Duration) -> bool {
        self.server.wait(limit) == MountState::Ended
    }

    /// Waits until no process uses the view, and returns those that had to be ended.
    fn end_descendants(&self, descendants: DescendantPolicy) -> Vec<String> {
        match descendants {
            DescendantPolicy::EndAfter(limit) if self.is_unused_after(limit) => Vec::new(),
            DescendantPolicy::EndAfter(_) => self.kill_descendants(),
            DescendantPolicy::Await => {
                if !self.is_unused_after(SILENT_TIME) {
                    let names = processes::users(&self.source);
                    tracing::info!("waiting for processes that the command has left behind: {names:?}");
                }
                while !self.is_unused_after(REMOVAL_TIME) {}
                Vec::new()
            }
        }
    }

    /// Ends the processes that use the view, and returns them.
    fn kill_descendants(&self) -> Vec<String> {
        let mut ended = processes::end(&self.source, Signal::TERM);
        if self.is_unused_after(TERMINATION_TIME) {
            return ended;
        }
        let until = Instant::now() + REMOVAL_TIME;
        // Processes that are starting others are found the next time.
        loop {
            for name in processes::end(&self.source, Signal::KILL) {
                if !ended.contains(&name) {
                    ended.push(name);
                }
            }
            if self.is_unused_after(Duration::from_millis(100)) || Instant::now() > until {
                return ended;
            }
        }
    }

    /// Ends all access to the file system.
    fn finish(&mut self) {
        self.has_finished = true;
        self.server.end();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of a view panicked");
        }
    }
}

impl Drop for CommandView {
    fn drop(&mut self) {
        if !self.has_finished {
            // It has ended if this fails.
            let _ = self.signal(Signal::KILL);
            self.end_descendants(DescendantPolicy::EndAfter(Duration::ZERO));
            self.finish();
        }
    }
}

/// Starts the command, and serves its mount from the moment on that it is made.
fn launch(
    server: (&dyn DeviceServer, &MountOptions),
    directory: &Path,
    mut command: Command,
    entry: NamespaceEntry,
    own: OwnedFd,
) -> Result<(RunningCommand, Child), MountError> {
    let program = PathBuf::from(command.get_program());
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let served = serve(server, &own);
            // A child that still waits ends with an error.
            drop(own);
            served
        });
        entry.add_to(&mut command);
        let spawned = command.spawn();
        // Closes this process's copy of the child's socket, so that its end is noticed.
        drop(command);
        let served = serving.join();
        let served = served.unwrap_or_else(|_| {
            Err(ChildFailure::System(io::Error::other(
                "serving the view panicked",
            )))
        });
        match (served, spawned) {
            (Ok(()), Ok(child)) => started(child, directory),
            (Ok(()), Err(source)) => Err(MountError::Command { program, source }),
            (Err(failure), Err(error)) => Err(failure.into_error(directory, Some(error))),
            (Err(failure), Ok(mut child)) => {
                // It has ended if this fails.
                let _ = child.kill();
                let _ = child.wait();
                Err(failure.into_error(directory, None))
            }
        }
    })
    .inspect_err(|_| {
        // The mount ends with the child.
        let (server, _) = server;
        let _ = server.wait(REMOVAL_TIME);
    })
}

fn started(child: Child, directory: &Path) -> Result<(RunningCommand, Child), MountError> {
    let process = child.id();
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    let id = id.ok_or_else(|| system_error(directory, "starting", io::Error::other("no process")))?;
    let handle = rustix::process::pidfd_open(id, PidfdFlags::empty())
        .map_err(|error| system_error(directory, "watching the command", error.into()))?;
    widen_read_ahead(&process.to_string(), directory);
    Ok((RunningCommand { process, handle }, child))
}

/// Receives the device that the child has mounted, has it served, and lets the child continue.
fn serve((server, options): (&dyn DeviceServer, &MountOptions), own: &OwnedFd) -> Result<(), ChildFailure> {
    match receive_descriptor(own.as_fd()).map_err(ChildFailure::System)? {
        Some((_, Some(_))) if processes::is_visible_here(&options.source) => {
            return Err(ChildFailure::Visible);
        }
        Some((_, Some(device))) => server.serve(device, options).map_err(ChildFailure::System)?,
        Some((step, None)) => return Err(ChildFailure::Step(step)),
        None => {
            return Err(ChildFailure::System(io::Error::other(
                "the child ended too early",
            )));
        }
    }
    send_descriptor(own.as_fd(), child::CONTINUE, None).map_err(ChildFailure::System)?;
    // The last step of the child, if it failed.
    match receive_descriptor(own.as_fd()).map_err(ChildFailure::System)? {
        Some((step, _)) => Err(ChildFailure::Step(step)),
        None => Ok(()),
    }
}

fn wait_for_child(
    launched: Result<(RunningCommand, Child), MountError>,
    report: &Sender<Result<RunningCommand, MountError>>,
    say: &Sender<io::Result<ExitStatus>>,
) {
    // A receiver that is gone needs no report.
    match launched {
        Err(error) => {
            let _ = report.send(Err(error));
        }
        Ok((started, mut child)) => {
            let _ = report.send(Ok(started));
            let _ = say.send(child.wait());
        }
    }
}
