//! Files of a store on the command line: `files`, `mount` and `tx`.

use crate::Place;
use alluvium_sim::environment::effort;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Returns from the test where nothing can be mounted.
macro_rules! need_mounts {
    () => {
        // SAFETY: the call only returns a number.
        if !Path::new("/dev/fuse").exists() || unsafe { libc::geteuid() } != 0 {
            alluvium_device::skipped!("/dev/fuse", "mounts need /dev/fuse and root");
            return;
        }
    };
}
pub(crate) use need_mounts;

/// An entry of a tree: mode, links, contents or target, and time of modification.
pub(crate) type TreeEntry = (u32, u64, Vec<u8>, (i64, i64));

/// Reads a tree. Times of directories are left out, because each entry changes them.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, TreeEntry> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let status = fs::symlink_metadata(&path).unwrap();
            let kind = status.file_type();
            let (contents, time) = if kind.is_dir() {
                directories.push(path.clone());
                (Vec::new(), (0, 0))
            } else {
                let contents = match () {
                    () if kind.is_symlink() => fs::read_link(&path)
                        .unwrap()
                        .into_os_string()
                        .into_encoded_bytes(),
                    () if kind.is_fifo() => Vec::new(),
                    () => fs::read(&path).unwrap(),
                };
                (contents, (status.mtime(), status.mtime_nsec()))
            };
            let links = if kind.is_dir() { 0 } else { status.nlink() };
            let name = path.strip_prefix(root).unwrap().to_owned();
            found.insert(name, (status.mode(), links, contents, time));
        }
    }
    found
}

/// Makes a tree with all kinds of entries.
pub(crate) fn sample(root: &Path) {
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/short"), "river").unwrap();
    fs::write(root.join("a/b/long"), vec![7; 300_000]).unwrap();
    fs::hard_link(root.join("a/short"), root.join("a/b/other name")).unwrap();
    symlink("short", root.join("a/link")).unwrap();
    fs::set_permissions(root.join("a/short"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(root.join("a/b"), fs::Permissions::from_mode(0o1700)).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(50 << 20).unwrap();
    fs::write(root.join("empty"), "").unwrap();
}

/// A `mount` command that runs until it is dropped.
pub(crate) struct RunningMount {
    child: Child,
    pub(crate) directory: PathBuf,
}

impl RunningMount {
    pub(crate) fn new(place: &Place, arguments: &[&str]) -> RunningMount {
        let directory = place.path("mounted");
        fs::create_dir_all(&directory).unwrap();
        let mut child = place
            .command(["mount"])
            .arg(&directory)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = child.stderr.take().unwrap();
        let mut lines = BufReader::new(errors).lines();
        let first = lines.next().expect("it says what it shows").unwrap();
        assert!(first.contains("shows the files"), "{first}");
        std::thread::spawn(move || lines.for_each(drop));
        RunningMount { child, directory }
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the call only sends a signal to a process of this test.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    pub(crate) fn end(mut self) {
        self.signal(libc::SIGTERM);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for RunningMount {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let path = std::ffi::CString::new(self.directory.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the path is a string that lives during the call. The mount may have gone already.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}

#[test]
fn an_import_and_an_export_keep_everything() {
    let place = Place::new();
    let (source, target) = (place.path("source"), place.path("target"));
    sample(&source);
    let (from, to) = (source.to_str().unwrap(), target.to_str().unwrap());
    place.done(["files", "import", from, "/copies/one"]);
    place.done(["files", "export", "/copies/one", to]);
    assert_eq!(tree(&target), tree(&source));
    assert!(fs::metadata(target.join("sparse")).unwrap().blocks() < 100);
    place.done(["files", "check"]);
    // A second one would overwrite files.
    place
        .run(["files", "import", from, "/copies/one"])
        .ended(3)
        .complained("a/b/long: ");
    place
        .run(["files", "export", "/copies/one", to])
        .ended(2)
        .complained("not empty");
    place.done(["files", "check"]);
}

#[test]
fn files_are_listed_copied_renamed_and_removed() {
    let place = Place::new();
    place.run(["files", "ls"]).ended(1);
    place.fed(["files", "put", "-", "/letter"], b"Dear all").ended(0);
    place.done(["files", "mkdir", "/old/2026"]);
    place.done(["files", "cp", "/letter", "/old/2026"]);
    place.done(["files", "mv", "/letter", "/old/draft"]);
    assert_eq!(place.done(["files", "ls"]).text(), "old\n");
    assert_eq!(place.done(["files", "ls", "/old"]).text(), "2026\ndraft\n");
    assert_eq!(
        place
            .done(["files", "cat", "/old/draft", "/old/2026/letter"])
            .text(),
        "Dear allDear all"
    );
    let listed = place.done(["files", "ls", "--json", "/old/draft"]).json();
    assert_eq!((&listed["kind"], &listed["size"]), (&"regular".into(), &8.into()));
    assert!(
        place
            .done(["files", "ls", "-l", "/old"])
            .text()
            .contains("drwxr-xr-x    2")
    );
    place
        .run(["files", "cp", "/old", "/new"])
        .ended(2)
        .complained("add -r");
    place
        .run(["files", "cp", "-r", "/old", "/old/2026/within"])
        .ended(2)
        .complained("into itself");
    place.done(["files", "cp", "-r", "/old", "/new"]);
    place.run(["files", "rm", "/old"]).ended(2).complained("add -r");
    // Nothing is removed if one of the paths does not exist.
    place.run(["files", "rm", "-r", "/old", "/none"]).ended(1);
    assert_eq!(place.done(["files", "ls"]).text(), "new\nold\n");
    place.done(["files", "snapshot", "create", "monday"]);
    place.done(["files", "rm", "-r", "/old", "/new"]);
    assert_eq!(place.done(["files", "ls"]).text(), "");
    assert_eq!(
        place.done(["files", "--snapshot", "monday", "ls", "/new"]).text(),
        "2026\ndraft\n"
    );
    assert_eq!(place.done(["files", "snapshot", "list"]).text(), "monday\n");
    place
        .run(["files", "--snapshot", "monday", "rm", "/new"])
        .ended(2)
        .complained("cannot be changed");
    place.done(["files", "snapshot", "remove", "monday"]);
    place.done(["files", "check"]);
    assert_eq!(place.done(["files", "list"]).text(), "main\n");
    // The records cannot be changed behind the back of the file system.
    let names = "files.main.names";
    for arguments in [
        &["put", "-k", names, "a", "b"][..],
        &["delete", "-k", names, "a"],
        &["keyspaces", "drop", names, "--yes"],
        &["keyspaces", "rename", names, "other"],
        &["keyspaces", "create", "files.other.blocks"],
    ] {
        place
            .run(arguments)
            .ended(2)
            .complained("belongs to a file system");
    }
    place.run(["files", "remove"]).ended(2);
    place.done(["files", "remove", "--yes"]);
    assert_eq!(place.done(["files", "list"]).text(), "");
}

#[test]
fn programs_and_commands_see_the_same_files() {
    need_mounts!();
    let place = Place::new();
    let mounted = RunningMount::new(&place, &[]);
    sample(&mounted.directory);
    let target = place.path("target");
    place.done(["files", "export", "/", target.to_str().unwrap()]);
    assert_eq!(tree(&mounted.directory), tree(&target));
    // The mount shows at once what a command changes.
    let short = mounted.directory.join("a/short");
    assert_eq!(fs::read(&short).unwrap(), b"river");
    place
        .fed(["files", "put", "-", "/a/short"], b"a longer river")
        .ended(0);
    assert_eq!(fs::read(&short).unwrap(), b"a longer river");
    place.done(["files", "mv", "/a", "/c"]);
    assert!(!short.exists() && mounted.directory.join("c/short").exists());
    place.done(["files", "snapshot", "create", "monday"]);
    place.done(["files", "check"]);
    let before = tree(&mounted.directory);
    mounted.signal(libc::SIGKILL);
    drop(mounted);
    let again = RunningMount::new(&place, &[]);
    assert_eq!(tree(&again.directory), before);
    again.end();
    let snapshot = RunningMount::new(&place, &["--snapshot", "monday"]);
    assert_eq!(tree(&snapshot.directory), before);
    let error = fs::write(snapshot.directory.join("x"), "").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));
    snapshot.end();
}

#[test]
fn a_command_in_a_transaction_changes_all_or_nothing() {
    need_mounts!();
    let place = Place::new();
    let directory = place.path("work");
    fs::create_dir(&directory).unwrap();
    let work = directory.to_str().unwrap();
    let tx = |script: &str| place.run(["tx", "--dir", work, "--", "sh", "-c", script]);
    for is_mounted in [false, true] {
        let mounted = is_mounted.then(|| RunningMount::new(&place, &[]));
        tx("mkdir -p d && echo one > d/file && ln d/file d/link && sync").ended(0);
        assert_eq!(place.done(["files", "cat", "/d/link"]).text(), "one\n");
        tx("echo two > d/file; rm d/link; exit 7")
            .ended(7)
            .complained("rolled back");
        tx("echo two > d/file; kill -9 $$")
            .ended(137)
            .complained("signal 9");
        assert_eq!(place.done(["files", "cat", "/d/link"]).text(), "one\n");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "others see nothing");
        // The command sees its own changes, and a background process belongs to it.
        tx("echo three > d/file; test $(cat d/link) = three; (sleep 0.2; echo four > d/late) & true")
            .ended(0);
        assert_eq!(place.done(["files", "cat", "/d/late"]).text(), "four\n");
        tx("rm -r d").ended(0);
        if let Some(mounted) = mounted {
            assert_eq!(fs::read_dir(&mounted.directory).unwrap().count(), 0);
            mounted.end();
        }
        place.done(["files", "check"]);
    }
    place
        .run(["tx", "--dir", work, "--", "/no/such/program"])
        .ended(3)
        .complained("/no/such/program");
    place
        .run(["tx", "--dir", "/no/such/place", "--", "true"])
        .ended(3);
    place.run(["tx"]).ended(2);
}

#[test]
fn transactions_conflict_over_files_and_not_over_directories() {
    need_mounts!();
    let place = Place::new();
    place.fed(["files", "put", "-", "/shared"], b"0").ended(0);
    let mounted = RunningMount::new(&place, &[]);
    let directory = place.path("work");
    fs::create_dir(&directory).unwrap();
    let start = |arguments: &[&str], script: &str| {
        place
            .command(["tx", "--dir", directory.to_str().unwrap()])
            .args(arguments)
            .args(["--", "sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let script = |number: u32, also: &str| {
        format!(
            "echo {number} > own{number}; mkdir sub{number}; {also}; touch {0}/ready{number}; while ! test -e {0}/go; do sleep 0.02; done",
            place.path("").display()
        )
    };
    let ready = |number: u32| {
        while !place.path(&format!("ready{number}")).exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let go = |children: [Child; 2]| {
        [1, 2].into_iter().for_each(ready);
        fs::write(place.path("go"), "").unwrap();
        let said = children.map(|child| crate::Said::from(child.wait_with_output().unwrap()));
        for name in ["go", "ready1", "ready2"] {
            fs::remove_file(place.path(name)).unwrap();
        }
        said
    };
    let [one, two] = go([1, 2].map(|number| start(&[], &script(number, "true"))));
    one.ended(0);
    two.ended(0);
    assert_eq!(fs::read_dir(&mounted.directory).unwrap().count(), 5);
    fs::remove_dir(mounted.directory.join("sub1")).unwrap();
    fs::remove_dir(mounted.directory.join("sub2")).unwrap();
    let append = "echo $(cat shared) x > shared";
    let both = go([1, 2].map(|number| start(&[], &script(number, append))));
    let mut codes = both.each_ref().map(|said| said.code);
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(8)], "{both:?}");
    let loser = both.into_iter().find(|said| said.code == Some(8)).unwrap();
    loser.complained("/shared");
    assert_eq!(
        fs::read_to_string(mounted.directory.join("shared")).unwrap(),
        "0 x\n"
    );
    fs::remove_dir_all(mounted.directory.join("sub1")).ok();
    fs::remove_dir_all(mounted.directory.join("sub2")).ok();
    let both = go([1, 2].map(|number| start(&["--retry", "3"], &script(number, append))));
    for said in both {
        said.ended(0);
    }
    assert_eq!(
        fs::read_to_string(mounted.directory.join("shared")).unwrap(),
        "0 x x x\n"
    );
    mounted.end();
    place.done(["files", "check"]);
}

/// A script that changes a tree from one generation to the next. All times are fixed, so that it
/// makes the same tree each time.
pub(crate) fn change(generation: u64, bytes: u64) -> String {
    format!(
        "set -e
         mkdir -p d/$(({generation} % 3))
         for file in 1 2 3 4 5 6 7 8; do
           echo {generation} $file > d/f$file; touch -d @$((1000000 + {generation})) d/f$file
         done
         head -c {bytes} /dev/zero | tr '\\0' '\\{digit}' > big
         touch -d @$((2000000 + {generation})) big
         rm -rf d/$((({generation} + 1) % 3))
         ln -f d/f1 d/link{generation}; rm -f d/link$(({generation} - 2))
         mv d/f8 moved; chmod $((600 + {generation} % 2 * 44)) moved
         if test -e other; then mv other other2; else echo x > other; touch -d @3000000 other; rm -f other2; fi",
        digit = 101 + generation % 8
    )
}

/// The files that a transaction changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KilledFiles {
    OfStore,
    OfDirectory,
}

/// Transactions that are killed: a directory in which commands see the files, and copies of the
/// trees before and after the transaction under way.
struct KillRun {
    place: Place,
    files: KilledFiles,
    bytes: u64,
    random: fastrand::Rng,
    /// How long a commit has taken from the end of the command.
    commit_time: Duration,
}

impl KillRun {
    fn new(bytes: u64, files: KilledFiles) -> KillRun {
        let place = Place::new();
        for directory in ["work", "before"] {
            fs::create_dir(place.path(directory)).unwrap();
        }
        KillRun {
            place,
            files,
            bytes,
            random: fastrand::Rng::with_seed(bytes),
            commit_time: Duration::from_millis(100),
        }
    }

    /// Makes the tree that the script makes of the one before.
    fn prepare(&self, round: u64) {
        let _ = fs::remove_dir_all(self.place.path("after"));
        for (command, directory) in [
            ("cp -a before after".to_owned(), ""),
            (change(round, self.bytes), "after"),
        ] {
            let status = std::process::Command::new("sh")
                .args(["-c", &command])
                .current_dir(self.place.path(directory))
                .status();
            assert!(status.unwrap().success());
        }
    }

    /// Runs the script in a transaction, and kills a process at a random moment after the end of
    /// the script. Returns whether the commit was acknowledged.
    fn run(&mut self, round: u64) -> bool {
        let mounted = (round.is_multiple_of(2)).then(|| RunningMount::new(&self.place, &[]));
        let marker = self.place.path("marker");
        let _ = fs::remove_file(&marker);
        let script = format!("{}\ntouch {}", change(round, self.bytes), marker.display());
        let option = match self.files {
            KilledFiles::OfStore => "--dir",
            KilledFiles::OfDirectory => "--over",
        };
        let mut child = self
            .place
            .command(["tx", option])
            .arg(self.place.path("work"))
            .args(["--", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !marker.exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let marked = Instant::now();
        // The first round tells how long a commit takes, and so does each eighth after it.
        let is_killed = round % 8 != 1;
        if is_killed {
            std::thread::sleep(self.commit_time.mul_f64(self.random.f64() * 1.2));
            match &mounted {
                Some(mounted) if round.is_multiple_of(4) => mounted.signal(libc::SIGKILL),
                _ => child.kill().unwrap(),
            }
        }
        let is_acknowledged = child.wait().unwrap().success();
        if !is_killed {
            assert!(is_acknowledged);
            self.commit_time = marked.elapsed();
        }
        is_acknowledged
    }

    /// Returns the tree that the transaction has left.
    fn found(&self) -> BTreeMap<PathBuf, TreeEntry> {
        if self.files == KilledFiles::OfDirectory {
            self.place.done(["tx", "--recover"]);
            return tree(&self.place.path("work"));
        }
        self.place.done(["files", "check"]);
        let exported = self.place.path("exported");
        let _ = fs::remove_dir_all(&exported);
        self.place
            .done(["files", "export", "/", exported.to_str().unwrap()]);
        tree(&exported)
    }
}

/// Kills transactions, and compares the files with the trees before and after.
fn survive_kills(rounds: u64, bytes: u64, files: KilledFiles) {
    let mut run = KillRun::new(bytes, files);
    let [before, after] = ["before", "after"].map(|name| run.place.path(name));
    let (mut whole, mut absent) = (0, 0);
    for round in 1..=rounds {
        run.prepare(round);
        let is_acknowledged = run.run(round);
        let (found, old, new) = (run.found(), tree(&before), tree(&after));
        assert!(found == new || found == old, "round {round}: {:?}", found.keys());
        assert!(
            found == new || !is_acknowledged,
            "round {round}: an acknowledged commit is lost"
        );
        if found == new {
            whole += 1;
            fs::remove_dir_all(&before).unwrap();
            fs::rename(&after, &before).unwrap();
        } else {
            absent += 1;
        }
    }
    println!("{rounds} rounds: {whole} whole, {absent} absent");
    assert!(whole > rounds / 10);
}

#[test]
fn a_killed_transaction_leaves_the_files_as_before_or_as_after() {
    need_mounts!();
    survive_kills(effort(16, 1000), 40_000, KilledFiles::OfStore);
}

#[test]
fn a_killed_transaction_larger_than_memory_leaves_the_files_as_before_or_as_after() {
    need_mounts!();
    survive_kills(effort(3, 60), 60_000_000, KilledFiles::OfStore);
}

#[test]
fn a_killed_transaction_over_a_directory_leaves_it_as_before_or_as_after() {
    need_mounts!();
    survive_kills(effort(16, 500), 40_000, KilledFiles::OfDirectory);
}

#[test]
fn a_transaction_over_a_directory_changes_all_or_nothing() {
    need_mounts!();
    let place = Place::new();
    let directory = place.path("work");
    fs::create_dir(&directory).unwrap();
    sample(&directory);
    let work = directory.to_str().unwrap();
    let tx = |script: &str| place.run(["tx", "--over", work, "--", "sh", "-c", script]);
    let before = tree(&directory);
    tx("rm -r a; echo x > new; exit 4")
        .ended(4)
        .complained("rolled back");
    assert_eq!(tree(&directory), before);
    tx("mv a c; echo more >> c/b/long; rm empty; ln -s c d; mkfifo p").ended(0);
    assert_eq!(fs::read_to_string(directory.join("d/short")).unwrap(), "river");
    assert_eq!(fs::metadata(directory.join("c/b/long")).unwrap().len(), 300_005);
    assert_eq!(fs::metadata(directory.join("c/short")).unwrap().nlink(), 2);
    assert!(fs::metadata(directory.join("p")).unwrap().file_type().is_fifo());
    assert!(!directory.join("empty").exists() && !directory.join("a").exists());
    // The commit conflicts if another program changes a file that the command has read.
    let other = format!(
        "cat c/short; echo y > z; nsenter -t {} -m sh -c 'echo other > {work}/c/short'",
        std::process::id()
    );
    if std::process::Command::new("nsenter")
        .args(["-t", &std::process::id().to_string(), "-m", "true"])
        .status()
        .is_ok_and(|s| s.success())
    {
        tx(&other).ended(8).complained("c/short");
        assert!(!directory.join("z").exists());
    } else {
        alluvium_device::skipped!(
            "other namespaces",
            "nsenter changes files outside of a view (package util-linux)"
        );
    }
    place
        .run(["tx", "--over", place.path("").to_str().unwrap(), "--", "true"])
        .ended(2)
        .complained("lies in");
    place
        .run(["tx", "--over", "/no/such/place", "--", "true"])
        .ended(3);
    place.done(["tx", "--recover"]);
    place.done(["files", "check", "--files", "overlays"]);
}
