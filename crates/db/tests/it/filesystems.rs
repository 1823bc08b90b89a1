//! Full disks on real file systems. A process fills the disk to the last byte, continues, and is
//! killed; then the store is reopened.
//!
//! Each row is a file system, on a loop device or in memory. A row that cannot be mounted is
//! skipped with a message. The store runs in a child process, so that a fatal signal can be
//! observed and does not end the test.

use alluvium::{Db, Keyspace, OpenMode, Options};
use alluvium_sim::environment::effort;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const DIRECTORY: &str = "ALLUVIUM_FILE_SYSTEM_DIRECTORY";

/// Time limit for writes to resume once the disk has space. The documented limit is five seconds on
/// an idle machine.
const HEALING: Duration = Duration::from_secs(30);

/// Time after which a step counts as stuck.
const PATIENCE: Duration = Duration::from_secs(60);

const VALUE: usize = 8000;

/// Free bytes on a row's file system. More space only makes the test slower.
const ROOM: u64 = 56 << 20;

/// Number of records in the first step.
const SOME: u64 = 600;

/// Number of records deleted from a full disk.
const DELETED: u64 = 100;

/// What a row guarantees beyond the common guarantees: no process dies, no acknowledged write is
/// lost, and writes resume once there is space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    /// The store opens and accepts deletes on the full disk.
    OpensAndDeletes,
    /// The store opens. Once it has filled the disk itself, it cannot write until space is freed:
    /// the file system writes every change to a new location, so only the log has reserved space.
    NeedsRoom,
    /// Every block is shared with a copy, so each change needs a new block. On the full disk, the
    /// store opens only for reading.
    OpensToRead,
}

/// A file system created for one row. Its mounts are unmounted in reverse order.
struct Volume {
    mounts: Vec<PathBuf>,
    root: PathBuf,
    /// Root of the lowest file system, which is on the device.
    lowest: PathBuf,
    _place: TempDir,
}

impl Drop for Volume {
    fn drop(&mut self) {
        for mount in self.mounts.iter().rev() {
            let plain = Command::new("umount").arg(mount).output();
            if !plain.is_ok_and(|done| done.status.success()) {
                let _ = Command::new("umount").arg("-l").arg(mount).status();
            }
        }
    }
}

/// Runs a command. If it fails, records that the row is skipped and returns `None`.
fn runs(row: &str, command: &mut Command) -> Option<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let (need, why) = match command.output() {
        Ok(output) if output.status.success() => return Some(()),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            (format!("mounts of {row}"), why)
        }
        Err(error) => (program, error.to_string()),
    };
    alluvium_device::skipped!(&need, "row {row}: {command:?}: {why}");
    None
}

impl Volume {
    fn empty() -> Volume {
        let place = tempfile::tempdir().unwrap();
        Volume {
            mounts: Vec::new(),
            root: place.path().join("root"),
            lowest: place.path().join("root"),
            _place: place,
        }
    }

    fn mount(&mut self, row: &str, at: &Path, arguments: &[&str]) -> Option<()> {
        runs(row, Command::new("mkdir").arg("-p").arg(at))?;
        runs(row, Command::new("mount").args(arguments).arg(at))?;
        self.mounts.push(at.to_owned());
        Some(())
    }

    /// Creates a file system in a sparse image and leaves `ROOM` bytes of it free.
    fn image(row: &str, make: &[&str], mebibytes: u64) -> Option<Volume> {
        let mut volume = Volume::empty();
        let image = volume._place.path().join("image");
        let size = format!("{mebibytes}M");
        runs(row, Command::new("truncate").args(["-s", &size]).arg(&image))?;
        runs(row, Command::new(make[0]).args(&make[1..]).arg(&image))?;
        let root = volume.root.clone();
        volume.mount(row, &root, &["-o", "loop", image.to_str().unwrap()])?;
        volume.spare();
        let surplus = free(&root).saturating_sub(ROOM);
        if surplus > 0 {
            // If `fallocate` is refused, the row only takes longer.
            let mut ballast = Command::new("fallocate");
            ballast
                .args(["-l", &surplus.to_string()])
                .arg(root.join("ballast"));
            let _ = ballast.output();
        }
        Some(volume)
    }

    fn tmpfs(row: &str, mebibytes: u64) -> Option<Volume> {
        let mut volume = Volume::empty();
        let root = volume.root.clone();
        volume.mount(
            row,
            &root,
            &["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"],
        )?;
        volume.spare();
        Some(volume)
    }

    /// Mounts an overlay whose upper layer is this file system.
    fn overlaid(mut self, row: &str) -> Option<Volume> {
        let dirs = ["lower", "upper", "work"].map(|name| self.root.join(name));
        runs(row, Command::new("mkdir").args(&dirs))?;
        let [lower, upper, work] = dirs.map(|dir| dir.display().to_string());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let merged = self._place.path().join("merged");
        self.mount(row, &merged, &["-t", "overlay", "-o", &options, "overlay"])?;
        self.root = merged;
        Some(self)
    }

    /// Creates a file of another program, to be deleted in the end. When the store itself has
    /// filled the disk, removing the filler may free less space than its next step needs.
    fn spare(&self) {
        let mut spare = Command::new("dd");
        spare.args(["if=/dev/zero", "of=spare", "bs=1M", "count=4", "conv=fsync"]);
        assert!(spare.current_dir(&self.lowest).output().unwrap().status.success());
    }

    /// Fills all remaining space. A later call may find space that a reservation withheld from an
    /// earlier one.
    fn fill(&self) {
        let all = "for bs in 1M 4096 4096 512 1 1; do \
                   dd if=/dev/zero of=filler bs=$bs oflag=append conv=notrunc; sync filler; done";
        let mut fill = Command::new("sh");
        fill.args(["-c", all]).current_dir(&self.root);
        let _ = fill.output().unwrap();
    }

    fn heal(&self) {
        remove(&self.root.join("filler"));
    }

    /// Frees space after the store has filled the disk.
    fn heal_in_the_end(&self) {
        self.heal();
        remove(&self.lowest.join("spare"));
    }
}

fn remove(path: &Path) {
    let _ = Command::new("rm").arg("-rf").arg(path).output().unwrap();
}

/// The process that uses the store.
struct User {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl User {
    fn start(store: &Path) -> User {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "filesystems::the_user_does_as_it_is_told",
                "--nocapture",
            ])
            .env(DIRECTORY, store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        User {
            commands: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    /// Executes a command in the child. Returns its reply, or how the process died.
    fn ask(&mut self, command: &str) -> Result<String, String> {
        let _ = writeln!(self.commands, "{command}");
        let answer = self.answers.by_ref().find_map(|line| {
            let line = line.ok()?;
            line.strip_prefix("answer ").map(str::to_owned)
        });
        answer.ok_or_else(|| {
            let status = self.child.wait().unwrap();
            format!(
                "{command}: the process died: {status}, signal {:?}",
                status.signal()
            )
        })
    }

    /// Like `ask`, for a numeric reply.
    fn number(&mut self, command: &str) -> Result<u64, String> {
        let answer = self.ask(command)?;
        answer.parse().map_err(|_| format!("{command}: {answer}"))
    }

    fn done(&mut self, command: &str) -> Result<(), String> {
        match self.ask(command)?.as_str() {
            "done" => Ok(()),
            answer => Err(format!("{command}: {answer}")),
        }
    }

    fn killed(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Puts records `from..until`, or fewer if the disk gets full. Returns the first record that was
/// not put, or the error.
fn put(keyspace: &Keyspace, from: u64, until: u64) -> Result<u64, String> {
    for number in from..until {
        match keyspace.put(key(number), vec![number as u8; VALUE]) {
            Ok(()) => {}
            Err(error) if error.is_full() => return Ok(number),
            Err(error) => return Err(format!("putting {number}: {error}")),
        }
    }
    Ok(until)
}

/// Executes one command.
fn obey(keyspace: &Keyspace, db: &Db, words: &[&str]) -> Result<String, String> {
    let numbers: Vec<u64> = words[1..].iter().map(|word| word.parse().unwrap()).collect();
    let done = || Ok("done".to_owned());
    match (words[0], &numbers[..]) {
        ("put", &[from, until]) => put(keyspace, from, until).map(|next| next.to_string()),
        // Write until a record is accepted.
        ("heal", &[number]) => {
            let began = Instant::now();
            while put(keyspace, number, number + 1)? == number {
                if began.elapsed() > PATIENCE {
                    let refused = keyspace.put(key(number), vec![0; VALUE]);
                    return Err(format!("no write for {PATIENCE:?}: {refused:?}"));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(began.elapsed().as_millis().to_string())
        }
        ("delete", &[from, until]) => {
            for number in from..until {
                keyspace
                    .delete(key(number))
                    .map_err(|error| format!("deleting {number}: {error}"))?;
            }
            done()
        }
        ("read", &[from, until]) => {
            for number in from..until {
                let value = keyspace
                    .get(key(number))
                    .map_err(|error| format!("reading {number}: {error}"))?;
                if value.as_deref() != Some(&vec![number as u8; VALUE][..]) {
                    return Err(format!("{number} is lost"));
                }
            }
            done()
        }
        ("check", _) => match db.check() {
            Ok(found) if found.is_empty() => done(),
            found => Err(format!("{found:?}")),
        },
        _ => Err(format!("what is {words:?}?")),
    }
}

/// The process that fills the disk and is killed. Without its environment variable, the test does
/// nothing.
#[test]
fn the_user_does_as_it_is_told() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let options = Options::new().memory(16 << 20);
    let mut open: Option<(Db, Keyspace)> = None;
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match (words[0], &open) {
            ("open" | "open-to-read", _) => {
                let opened = if words[0] == "open" {
                    options.open(Path::new(&directory))
                } else {
                    let options = options.clone().mode(OpenMode::ReadOnly);
                    options.open(Path::new(&directory))
                };
                opened
                    .and_then(|db| {
                        let keyspace = db.keyspace("main")?;
                        open = Some((db, keyspace));
                        Ok("done".to_owned())
                    })
                    .map_err(|error| format!("opening: {error}"))
            }
            (_, Some((db, keyspace))) => obey(keyspace, db, &words),
            _ => Err("nothing is open".to_owned()),
        };
        println!(
            "\nanswer {}",
            answer
                .unwrap_or_else(|error| format!("error: {error}"))
                .replace('\n', " ")
        );
        std::io::stdout().flush().unwrap();
    }
}

/// Measurements of a row, printed on one line.
type Row = BTreeMap<&'static str, String>;

/// Fills the disk with a store and kills its process. Returns the first number that was not
/// acknowledged.
fn first_life(volume: &Volume, store: &Path, promise: Promise, row: &mut Row) -> Result<u64, String> {
    let mut user = User::start(store);
    user.done("open")?;
    let put = user.number(&format!("put 0 {SOME}"))?;
    if put != SOME {
        return Err(format!("only {put} records have room on the empty disk"));
    }
    if promise == Promise::OpensToRead {
        let mut copy = Command::new("cp");
        copy.args(["-r", "--reflink=always"]).arg(store);
        let copied = copy.arg(volume.root.join("copy")).output().unwrap();
        if !copied.status.success() {
            return Err(format!("cp: {}", String::from_utf8_lossy(&copied.stderr)));
        }
    }
    // Another program fills the disk, which the store notices with a delay.
    volume.fill();
    let first = user.number(&format!("put {SOME} 1000000"))?;
    row.insert("1 put before full", (first - SOME).to_string());
    user.done(&format!("read 0 {first}"))?;
    if promise == Promise::OpensAndDeletes {
        user.done(&format!("delete 0 {DELETED}"))?;
    }
    volume.heal();
    healed(&mut user, first, "2 healed ms", row)?;
    // The store fills the disk itself, and other data fills the remaining space.
    let second = user.number(&format!("put {first} 1000000"))?;
    row.insert("3 put until full", (second - first).to_string());
    volume.fill();
    let third = user.number(&format!("put {second} 1000000"))?;
    user.done(&format!("read {DELETED} {third}"))?;
    user.killed();
    Ok(third)
}

/// Writes until one record is accepted, or the time limit for healing has passed.
fn healed(user: &mut User, number: u64, name: &'static str, row: &mut Row) -> Result<(), String> {
    let took = user.number(&format!("heal {number}"))?;
    row.insert(name, took.to_string());
    if u128::from(took) > HEALING.as_millis() {
        return Err(format!("it took {took} ms to write again"));
    }
    Ok(())
}

fn story(volume: &Volume, promise: Promise) -> Result<Row, String> {
    let mut row = Row::new();
    let store = volume.root.join("store");
    let end = first_life(volume, &store, promise, &mut row)?;
    // The process was killed, and the disk has no free space.
    volume.fill();
    row.insert("4 free at reopening", free(&volume.root).to_string());
    let began = Instant::now();
    let mut user = User::start(&store);
    user.done(if promise != Promise::OpensToRead {
        "open"
    } else {
        "open-to-read"
    })?;
    row.insert("5 reopened ms", began.elapsed().as_millis().to_string());
    user.done(&format!("read {DELETED} {end}"))?;
    let delete = format!("delete {DELETED} {}", 2 * DELETED);
    if promise != Promise::OpensToRead {
        if promise == Promise::NeedsRoom {
            remove(&volume.lowest.join("ballast"));
        }
        user.done(&delete)?;
        user.done("check")?;
        volume.heal_in_the_end();
    } else {
        user.killed();
        volume.heal_in_the_end();
        remove(&volume.root.join("copy"));
        user = User::start(&store);
        user.done("open")?;
        user.done(&delete)?;
    }
    healed(&mut user, end, "6 healed ms", &mut row)?;
    user.done(&format!("read {} {}", 2 * DELETED, end + 1))?;
    user.done("check")?;
    Ok(row)
}

/// Returns the bytes that an unprivileged process may still allocate.
fn free(path: &Path) -> u64 {
    let mut df = Command::new("df");
    let told = df.args(["--output=avail", "-B1"]).arg(path).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    told.lines().last().unwrap().trim().parse().unwrap()
}

/// Mounts a row's file system. Returns `None` where mounting is not permitted.
type Mount = Box<dyn Fn() -> Option<Volume>>;

#[test]
fn a_full_disk_is_survived_on_every_file_system() {
    let ext4 = || Volume::image("ext4", &["mkfs.ext4", "-q", "-F", "-m", "0"], 68);
    let ext3 = || Volume::image("ext3", &["mkfs.ext3", "-q", "-F", "-m", "0"], 68);
    let xfs = |row| Volume::image(row, &["mkfs.xfs", "-q", "-f"], 300);
    let btrfs = |row| Volume::image(row, &["mkfs.btrfs", "-q", "-f"], 160);
    let only = std::env::var("ALLUVIUM_FILE_SYSTEM").ok();
    let full = Promise::OpensAndDeletes;
    let rows: [(&str, Mount, Promise); 8] = [
        ("ext4", Box::new(ext4), full),
        ("ext3", Box::new(ext3), full),
        ("xfs", Box::new(move || xfs("xfs")), full),
        (
            "xfs, copied",
            Box::new(move || xfs("xfs, copied")),
            Promise::OpensToRead,
        ),
        ("btrfs", Box::new(move || btrfs("btrfs")), Promise::NeedsRoom),
        (
            "overlay/btrfs",
            Box::new(move || btrfs("overlay/btrfs")?.overlaid("overlay/btrfs")),
            Promise::NeedsRoom,
        ),
        (
            "overlay/ext4",
            Box::new(move || ext4()?.overlaid("overlay/ext4")),
            full,
        ),
        ("tmpfs", Box::new(|| Volume::tmpfs("tmpfs", 60)), full),
    ];
    let mut failed = Vec::new();
    // The gate runs the file systems that differ most: ext4 as the ordinary one, and Btrfs as a
    // copy-on-write one.
    let gate = ["ext4", "btrfs", "tmpfs"];
    for (name, make, promise) in &rows {
        let is_wanted = match &only {
            Some(only) => only == name,
            None => effort(gate.contains(name), true),
        };
        if !is_wanted {
            continue;
        }
        let Some(volume) = make() else { continue };
        let began = Instant::now();
        match story(&volume, *promise) {
            Ok(row) => println!("{name:14} {:5.1} s {row:?}", began.elapsed().as_secs_f64()),
            Err(why) => {
                println!("{name:14} {:5.1} s FAILED {why}", began.elapsed().as_secs_f64());
                failed.push(format!("{name}: {why}"));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
