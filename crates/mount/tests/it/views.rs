//! Commands in views of their own.

use crate::memory::MemoryFiles;
use crate::support::{MountedDirectory, need_mounts};
use alluvium_files::FileSystem;
use alluvium_mount::{
    CommandView, DescendantPolicy, DeviceServer, MountError, MountOptions, MountState, SignalForwarding,
    ViewOptions, run_in_served_view, run_in_view,
};
use rustix::process::Signal;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn shared(files: &Arc<MemoryFiles>) -> Arc<dyn FileSystem> {
    files.clone()
}

fn is_mounted(directory: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let directory = directory.canonicalize().unwrap();
    table
        .lines()
        .any(|line| line.split(' ').nth(4) == directory.to_str())
}

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until, "{what} does not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server that ends as soon as it has the device.
struct EndedServer;

impl DeviceServer for EndedServer {
    fn serve(&self, device: OwnedFd, _: &MountOptions) -> io::Result<()> {
        drop(device);
        Ok(())
    }

    fn wait(&self, _: Duration) -> MountState {
        MountState::Ended
    }

    fn end(&self) {}
}

#[test]
fn a_command_does_not_wait_for_a_server_that_has_ended() {
    need_mounts!();
    let (say, outcome) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let directory = tempfile::tempdir().unwrap();
        let server: Arc<dyn DeviceServer> = Arc::new(EndedServer);
        let outcome = run_in_served_view(server, directory.path(), shell("true"), &ViewOptions::default());
        say.send(outcome.map(|outcome| outcome.status.code())).unwrap();
    });
    let outcome = outcome.recv_timeout(Duration::from_secs(60));
    outcome.expect("the command ends").unwrap_err();
}

#[test]
fn a_command_sees_its_view_and_nobody_else_does() {
    need_mounts!();
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    let path = directory.path();
    fs::write(path.join("outside"), b"").unwrap();
    let script = "test ! -e outside && echo hello > inside && echo $PWD && sync inside && exit 7";
    let mut command = shell(script);
    command.stdout(Stdio::null());
    let outcome = run_in_view(shared(&files), path, command, &ViewOptions::default()).unwrap();
    assert_eq!(outcome.status.code(), Some(7));
    assert!(!path.join("inside").exists() && path.join("outside").exists());
    assert!(!is_mounted(path));
    let inside = files.lookup(alluvium_files::Inode::ROOT, b"inside").unwrap();
    assert_eq!(files.read(inside.inode, 0, 100).unwrap(), b"hello\n");
    assert_eq!((files.holds(), files.syncs()), (0, 1));
}

#[test]
fn a_view_is_not_seen_while_its_command_runs() {
    need_mounts!();
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    let path = directory.path();
    let command = shell("echo > here; while test ! -e end; do sleep 0.01; done");
    let view = CommandView::start(shared(&files), path, command, &ViewOptions::default()).unwrap();
    // The kernel remembers that the name is absent until it has the answer to the creation.
    let inside = format!("/proc/{}/cwd/here", view.process_id());
    let size = || fs::metadata(&inside).map(|metadata| metadata.size());
    wait_until("the command's file", || size().is_ok_and(|size| size == 1));
    assert!(!is_mounted(path) && !path.join("here").exists());
    fs::write(format!("/proc/{}/cwd/end", view.process_id()), b"").unwrap();
    assert!(view.wait().unwrap().status.success());
}

#[test]
fn a_view_is_not_seen_where_mounts_are_shared_between_namespaces() {
    need_mounts!();
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    let mount = |arguments: &[&str]| {
        let status = Command::new("mount")
            .args(arguments)
            .arg(directory.path())
            .status();
        assert!(status.unwrap().success(), "mount {arguments:?}");
    };
    mount(&["-t", "tmpfs", "none"]);
    mount(&["--make-shared"]);
    let place = directory.path().join("place");
    fs::create_dir(&place).unwrap();
    let options = ViewOptions {
        descendants: DescendantPolicy::EndAfter(Duration::from_secs(5)),
        ..ViewOptions::default()
    };
    let command = shell("while test ! -e end; do sleep 0.01; done");
    let view = CommandView::start(shared(&files), &place, command, &options).unwrap();
    let is_seen = is_mounted(&place);
    fs::write(format!("/proc/{}/cwd/end", view.process_id()), b"").unwrap();
    assert!(view.wait().unwrap().status.success());
    let unmounted = Command::new("umount").arg("-R").arg(directory.path()).status();
    assert!(unmounted.unwrap().success());
    assert!(!is_seen);
}

#[test]
fn a_view_stands_over_a_mount_of_the_same_files() {
    need_mounts!();
    let mounted = MountedDirectory::new();
    fs::write(mounted.path("a"), b"of the mount").unwrap();
    let files = Arc::new(MemoryFiles::new());
    let command = shell("test ! -e a && echo of the view > a");
    let outcome = run_in_view(
        shared(&files),
        mounted.directory.path(),
        command,
        &ViewOptions::default(),
    );
    assert!(outcome.unwrap().status.success());
    assert_eq!(fs::read(mounted.path("a")).unwrap(), b"of the mount");
}

#[test]
fn descendants_that_have_left_the_session_belong_to_the_view() {
    need_mounts!();
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    // A daemon: it has another session, another parent, and writes after the command's end.
    let script = "(setsid sh -c 'sleep 0.3; echo late > late' &) ; exit 0";
    let outcome = run_in_view(
        shared(&files),
        directory.path(),
        shell(script),
        &ViewOptions::default(),
    );
    let outcome = outcome.unwrap();
    assert!(outcome.status.success() && outcome.ended.is_empty());
    let late = files.lookup(alluvium_files::Inode::ROOT, b"late").unwrap();
    assert_eq!(late.size, 5);
}

#[test]
fn descendants_that_do_not_end_are_ended() {
    need_mounts!();
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    let script = "(trap '' TERM; setsid sh -c 'while :; do echo >> tick; sleep 0.01; done' &) ; exit 3";
    let options = ViewOptions {
        descendants: DescendantPolicy::EndAfter(Duration::from_millis(50)),
        ..ViewOptions::default()
    };
    let outcome = run_in_view(shared(&files), directory.path(), shell(script), &options).unwrap();
    assert_eq!(outcome.status.code(), Some(3));
    assert!(!outcome.ended.is_empty());
    let ticks = || {
        files
            .lookup(alluvium_files::Inode::ROOT, b"tick")
            .map(|node| node.size)
            .ok()
    };
    let before = ticks();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(before, ticks(), "nothing writes any more");
    assert_eq!(files.holds(), 0);
}

#[test]
fn a_killed_command_says_so() {
    need_mounts!();
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    let command = shell("exec sleep 1000");
    let view =
        CommandView::start(shared(&files), directory.path(), command, &ViewOptions::default()).unwrap();
    view.signal(Signal::KILL).unwrap();
    let outcome = view.wait().unwrap();
    assert_eq!(outcome.status.signal(), Some(libc::SIGKILL));
    assert!(!is_mounted(directory.path()));
}

#[test]
fn a_view_that_is_dropped_kills_its_command() {
    need_mounts!();
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    let command = shell("sleep 1000 & exec sleep 1000");
    let options = ViewOptions {
        signals: SignalForwarding::Off,
        ..ViewOptions::default()
    };
    let view = CommandView::start(shared(&files), directory.path(), command, &options).unwrap();
    let process = view.process_id();
    drop(view);
    assert!(!Path::new(&format!("/proc/{process}")).exists());
    assert_eq!((files.holds(), Arc::strong_count(&files)), (0, 1));
}

#[test]
fn a_program_that_is_missing_is_named() {
    need_mounts!();
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    let command = Command::new("no-such-program");
    let result = run_in_view(shared(&files), directory.path(), command, &ViewOptions::default());
    let error = result.unwrap_err();
    assert!(matches!(error, MountError::Command { .. }), "{error}");
    assert!(error.to_string().contains("no-such-program"), "{error}");
    assert_eq!(Arc::strong_count(&files), 1);
}

#[test]
fn a_working_directory_is_looked_up_in_the_view() {
    need_mounts!();
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    let path = directory.path().canonicalize().unwrap();
    let made = run_in_view(
        shared(&files),
        &path,
        shell("mkdir -p a/b"),
        &ViewOptions::default(),
    );
    assert!(made.unwrap().status.success());
    let options = ViewOptions {
        working_directory: Some(path.join("a/b")),
        ..ViewOptions::default()
    };
    let script = format!("test \"$(pwd)\" = {}/a/b && echo > c", path.display());
    assert!(
        run_in_view(shared(&files), &path, shell(&script), &options)
            .unwrap()
            .status
            .success()
    );
    let options = ViewOptions {
        working_directory: Some(path.join("missing")),
        ..ViewOptions::default()
    };
    let error = run_in_view(shared(&files), &path, shell("true"), &options).unwrap_err();
    assert!(
        error.to_string().contains("working directory in the view"),
        "{error}"
    );
}

#[test]
fn users_who_are_not_root_get_a_namespace_too() {
    need_mounts!();
    if !fs::read_to_string("/proc/sys/user/max_user_namespaces").is_ok_and(|text| text.trim() != "0") {
        alluvium_device::skipped!("user namespaces", "sysctl user.max_user_namespaces is 0");
        return;
    }
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    // Without the capability to mount, the child makes a user namespace.
    let script =
        "echo > by-user && test \"$(stat -c %u by-user)\" = 0 && ! grep -q 4294967295 /proc/self/uid_map";
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_admin", "--inh-caps=-all", "--", "true"]);
    if !command.status().is_ok_and(|status| status.success()) {
        alluvium_device::skipped!("setpriv", "it drops capabilities (package util-linux)");
        return;
    }
    let child = Command::new("setpriv")
        .args(["--bounding-set=-sys_admin", "--inh-caps=-all", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["views::a_view_without_privileges", "--exact", "--nocapture"])
        .env("ALLUVIUM_VIEW_DIRECTORY", directory.path())
        .env("ALLUVIUM_VIEW_SCRIPT", script)
        .status()
        .unwrap();
    assert!(child.success());
    assert_eq!(files.inodes(), 1);
}

/// Runs in a process of its own: by the test above.
#[test]
fn a_view_without_privileges() {
    let (Ok(directory), Ok(script)) = (
        std::env::var("ALLUVIUM_VIEW_DIRECTORY"),
        std::env::var("ALLUVIUM_VIEW_SCRIPT"),
    ) else {
        return;
    };
    let files = Arc::new(MemoryFiles::new());
    let outcome = run_in_view(
        shared(&files),
        Path::new(&directory),
        shell(&script),
        &ViewOptions::default(),
    );
    assert!(outcome.unwrap().status.success());
    assert_eq!(files.inodes(), 2);
}
