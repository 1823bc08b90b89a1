//! What is left after kill -9.

use crate::memory::MemoryFiles;
use crate::support::{errno, need_mounts};
use crate::views::wait_until;
use alluvium_files::{FileSystem, Inode};
use alluvium_mount::{CommandView, Mount, MountError, MountOptions, MountState, ViewOptions};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const DIRECTORY: &str = "ALLUVIUM_MOUNT_DIRECTORY";
const ROLE: &str = "ALLUVIUM_MOUNT_ROLE";

/// Runs in a process of its own until it is killed.
#[test]
fn a_process_that_serves_until_it_is_killed() {
    let (Ok(directory), Ok(role)) = (std::env::var(DIRECTORY), std::env::var(ROLE)) else {
        return;
    };
    let (files, directory) = (Arc::new(MemoryFiles::new()), Path::new(&directory));
    if role == "mount" {
        let mount = Mount::new(files, directory, &MountOptions::default()).unwrap();
        println!("\nserving {}", mount.directory().display());
        assert_eq!(mount.wait(Duration::from_secs(3600)), MountState::Mounted);
    } else {
        let mut command = Command::new("sh");
        let script = "(while :; do echo >> tick || exit; sleep 0.01; done) & exec sleep 3600";
        command.args(["-c", script]);
        let shared: Arc<dyn FileSystem> = files.clone();
        let view = CommandView::start(shared, directory, command, &ViewOptions::default()).unwrap();
        wait_until("the command's child", || {
            files.lookup(Inode::ROOT, b"tick").is_ok()
        });
        println!("\nserving {}", view.process_id());
        view.wait().unwrap();
    }
}

fn start(role: &str, directory: &Path) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "kill::a_process_that_serves_until_it_is_killed",
            "--exact",
            "--nocapture",
        ])
        .env(DIRECTORY, directory)
        .env(ROLE, role)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.find_map(|line| Some(line.unwrap().strip_prefix("serving ")?.to_owned()));
    (child, said.expect("the process says that it serves"))
}

#[test]
fn the_mount_of_a_killed_process_is_cleared_by_the_next() {
    need_mounts!();
    let directory = tempfile::tempdir().unwrap();
    let (mut child, _) = start("mount", directory.path());
    fs::write(directory.path().join("a"), b"").unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(errno(fs::read_dir(directory.path())), libc::ENOTCONN);
    let mut mount = Mount::new(
        Arc::new(MemoryFiles::new()),
        directory.path(),
        &MountOptions::default(),
    )
    .unwrap();
    assert!(!directory.path().join("a").exists());
    mount.unmount().unwrap();
    assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
}

#[test]
fn a_killed_runner_takes_its_command_and_its_view_along() {
    need_mounts!();
    let directory = tempfile::tempdir().unwrap();
    let (mut child, process) = start("view", directory.path());
    let command = format!("/proc/{process}");
    assert!(Path::new(&command).exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let has_gone =
        || fs::read_to_string(format!("{command}/stat")).map_or(true, |stat| stat.contains(") Z "));
    wait_until("the command's end", has_gone);
    assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
    // The command's child cannot write any more, and ends by itself.
    let name = directory.path().to_str().unwrap().to_owned();
    let is_used = || {
        let all = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let table = fs::read_to_string(entry.ok()?.path().join("mountinfo")).ok()?;
            Some(table.contains(&name))
        });
        all.into_iter().any(|uses| uses)
    };
    wait_until("the end of the view", || !is_used());
}

#[test]
fn a_terminated_runner_passes_the_signal_on() {
    need_mounts!();
    let directory = tempfile::tempdir().unwrap();
    let (mut child, process) = start("view", directory.path());
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let command = format!("/proc/{process}/stat");
    wait_until("the command's end", || {
        fs::read_to_string(&command).map_or(true, |stat| stat.contains(") Z "))
    });
    // The runner itself waits for the rest.
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn bad_directories_are_refused_with_advice() {
    need_mounts!();
    let directory = tempfile::tempdir().unwrap();
    let mount = |path: &Path| Mount::new(Arc::new(MemoryFiles::new()), path, &MountOptions::default());
    let missing = mount(&directory.path().join("missing")).err().unwrap();
    assert!(matches!(missing, MountError::Missing(_)), "{missing}");
    assert!(missing.to_string().contains("mkdir -p"));
    fs::write(directory.path().join("file"), b"").unwrap();
    let file = mount(&directory.path().join("file")).err().unwrap();
    assert!(matches!(file, MountError::NotADirectory(_)), "{file}");
    let mounted = mount(directory.path()).unwrap();
    let twice = mount(directory.path()).err().unwrap();
    assert!(matches!(twice, MountError::InUse { .. }), "{twice}");
    assert!(twice.to_string().contains("umount"));
    drop(mounted);
    mount(directory.path()).unwrap();
}

#[test]
fn a_mount_in_use_is_not_unmounted_but_dropped() {
    need_mounts!();
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    let shared: Arc<dyn FileSystem> = files.clone();
    let mut mount = Mount::new(shared, directory.path(), &MountOptions::default()).unwrap();
    let open = fs::File::create(directory.path().join("a")).unwrap();
    let error = mount.unmount().unwrap_err();
    assert!(matches!(error, MountError::Busy(_)), "{error}");
    assert_eq!(mount.wait(Duration::ZERO), MountState::Mounted);
    fs::write(directory.path().join("b"), b"still there").unwrap();
    drop(mount);
    assert_eq!(errno(open.sync_all()), libc::ENOTCONN);
    assert!(!directory.path().join("a").exists());
    assert_eq!((files.holds(), Arc::strong_count(&files)), (0, 1));
}

#[test]
fn a_mount_ends_when_somebody_unmounts_it() {
    need_mounts!();
    let (files, directory) = (Arc::new(MemoryFiles::new()), tempfile::tempdir().unwrap());
    let mut mount = Mount::new(files, directory.path(), &MountOptions::default()).unwrap();
    let status = Command::new("umount").arg(directory.path()).status().unwrap();
    assert!(status.success());
    assert_eq!(mount.wait(Duration::from_secs(60)), MountState::Ended);
    mount.unmount().unwrap();
}
