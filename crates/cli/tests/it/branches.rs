//! Transactions over files that stay open, snapshots in a mount, and histories.

use crate::files::{RunningMount, change, need_mounts, sample, tree};
use crate::{Place, Said};
use alluvium_sim::environment::effort;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn run(place: &Place, name: &str, script: &str) -> Said {
    let work = place.path("work");
    fs::create_dir_all(&work).unwrap();
    place.run([
        "tx",
        "run",
        name,
        "--dir",
        work.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        script,
    ])
}

fn cat(place: &Place, path: &str) -> String {
    place.done(["files", "cat", path]).text()
}

#[test]
fn names_of_any_bytes_stay_on_their_lines() {
    need_mounts!();
    let place = Place::new();
    place.done(["tx", "begin", "update"]);
    let script = r#": > "$(printf 'a\nremoved b')"; ln -s "$(printf '\033c')" "$(printf '\377')""#;
    run(&place, "update", script).ended(0);
    let diff = ["tx", "diff", "update"];
    assert_eq!(
        place.done(diff).text(),
        "added   /a\\nremoved b\nadded   /\\xff\n"
    );
    let json = place.done(["tx", "diff", "update", "--json"]).text();
    let lines: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&lines[0]["path"], &lines[1]["path_base64"]),
        (&"/a\nremoved b".into(), &"L/8=".into())
    );
    place.done(["tx", "commit", "update"]);
    assert_eq!(place.done(["files", "ls"]).text(), "a\\nremoved b\n\\xff\n");
    let long = place.done(["files", "ls", "-l"]).text();
    assert!(long.ends_with("\\xff -> \\x1bc\n"), "{long}");
    let json = place.done(["files", "ls", "--json"]).text();
    let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["name_base64"], &last["target"]),
        (&"/w==".into(), &"\u{1b}c".into())
    );
}

#[test]
fn a_transaction_stays_open_over_several_commands() {
    need_mounts!();
    let place = Place::new();
    for is_mounted in [false, true] {
        let mounted = is_mounted.then(|| RunningMount::new(&place, &[]));
        place.done(["tx", "begin", "update"]);
        run(&place, "update", "mkdir d; echo one > d/file; ln d/file d/link").ended(0);
        run(&place, "update", "echo two >> d/link; rm d/file; exit 7")
            .ended(7)
            .complained("its changes stay");
        run(&place, "update", "cat d/link; kill -9 $$").ended(137);
        assert_eq!(place.done(["files", "ls"]).text(), "");
        assert_eq!(
            place.done(["tx", "diff", "update"]).text(),
            "added   /d/\nadded   /d/link\n"
        );
        let listed = place.done(["tx", "list", "--json"]).json();
        assert_eq!(
            (&listed["name"], &listed["of"]),
            (&"update".into(), &serde_json::Value::Null)
        );
        place.done(["files", "check"]);
        place.done(["tx", "begin", "inner", "--of", "update"]);
        run(&place, "inner", "echo three > d/link; mv d e").ended(0);
        place.run(["tx", "commit", "update"]).ended(3).complained("inner");
        place.done(["tx", "commit", "inner"]);
        assert_eq!(place.done(["files", "ls"]).text(), "");
        place.done(["tx", "commit", "update"]);
        assert_eq!(cat(&place, "/e/link"), "three\n");
        if let Some(mounted) = &mounted {
            assert_eq!(
                fs::read_to_string(mounted.directory.join("e/link")).unwrap(),
                "three\n"
            );
        }
        place.done(["tx", "begin", "update"]);
        run(&place, "update", "rm -r e").ended(0);
        let removed = place.done(["tx", "diff", "update", "--json"]);
        let first: serde_json::Value = serde_json::from_str(removed.text().lines().next().unwrap()).unwrap();
        assert_eq!(
            (&first["path"], &first["change"], &first["is_directory"]),
            (&"/e".into(), &"removed".into(), &true.into())
        );
        place.done(["tx", "abort", "update"]);
        assert_eq!(cat(&place, "/e/link"), "three\n");
        assert_eq!(place.done(["tx", "list"]).text(), "");
        place.done(["files", "rm", "-r", "/e"]);
        if let Some(mounted) = mounted {
            mounted.end();
        }
        place.done(["files", "check"]);
    }
}

#[test]
fn open_transactions_conflict_over_the_same_file_only() {
    need_mounts!();
    let place = Place::new();
    place.fed(["files", "put", "-", "/shared"], b"0").ended(0);
    let mounted = RunningMount::new(&place, &[]);
    for name in ["one", "two", "three"] {
        place.done(["tx", "begin", name]);
    }
    run(&place, "one", "echo 1 > shared; echo 1 > own1").ended(0);
    run(&place, "two", "echo 2 > shared; echo 2 > own2").ended(0);
    run(&place, "three", "echo 3 > own3").ended(0);
    place.done(["tx", "commit", "one"]);
    place.done(["tx", "commit", "three"]);
    place.run(["tx", "commit", "two"]).ended(8).complained("/shared");
    assert_eq!(
        fs::read_to_string(mounted.directory.join("shared")).unwrap(),
        "1\n"
    );
    assert!(!mounted.directory.join("own2").exists() && mounted.directory.join("own3").exists());
    // It stays, and what it has can be copied out of it.
    run(
        &place,
        "two",
        &format!("cp own2 {}", place.path("saved").display()),
    )
    .ended(0);
    assert_eq!(fs::read_to_string(place.path("saved")).unwrap(), "2\n");
    // A transaction that is in use does not end.
    let mut child = place
        .command(["tx", "run", "two", "--dir"])
        .arg(place.path("work"))
        .args([
            "--",
            "sh",
            "-c",
            &format!(
                "touch {0}; while test -e {0}; do sleep 0.02; done",
                place.path("on").display()
            ),
        ])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    while !place.path("on").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    place.run(["tx", "abort", "two"]).ended(3).complained("in use");
    fs::remove_file(place.path("on")).unwrap();
    assert!(child.wait().unwrap().success());
    place.done(["tx", "abort", "two"]);
    mounted.end();
    place.done(["files", "check"]);
}

#[test]
fn commands_for_open_transactions_tell_what_is_wrong() {
    let place = Place::new();
    place.run(["tx", "list"]).ended(1);
    place.done(["tx", "begin", "one"]);
    place.run(["tx", "begin", "one"]).ended(3).complained("already");
    place.run(["tx", "begin", "a b"]).ended(3).complained("letters");
    place
        .run(["tx", "begin", "two", "--of", "none"])
        .ended(1)
        .complained("one");
    for verb in ["diff", "commit", "abort"] {
        place
            .run(["tx", verb, "none"])
            .ended(1)
            .complained("open are one");
        place.run(["tx", verb]).ended(2);
    }
    place
        .run(["tx", "run", "none", "--", "true"])
        .ended(1)
        .complained("open are one");
    place.run(["tx", "run", "one"]).ended(2);
    place.run(["tx", "one"]).ended(2);
    place.run(["tx", "--retry", "2", "begin", "two"]).ended(2);
    place.done(["tx", "begin", "other", "--files", "second"]);
    assert_eq!(place.done(["tx", "list"]).text().lines().count(), 2);
    for arguments in [
        &["put", "-k", "files.main.branches", "a", "b"][..],
        &["keyspaces", "drop", "files.main.branches", "--yes"],
    ] {
        place
            .run(arguments)
            .ended(2)
            .complained("belongs to a file system");
    }
    place.done(["files", "remove", "--files", "second", "--yes"]);
    place
        .run(["tx", "diff", "other"])
        .ended(1)
        .complained("open are one");
    place.done(["tx", "commit", "one"]);
    place.run(["tx", "diff", "one"]).ended(1).complained("tx begin");
}

/// Returns whether a transaction is open.
fn is_open(place: &Place, name: &str) -> bool {
    place.done(["tx", "list"]).text().starts_with(name)
}

/// Commits of open transactions that are killed.
struct KillRun {
    place: Place,
    random: fastrand::Rng,
    /// How long a commit takes.
    commit_time: Duration,
}

impl KillRun {
    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.place.command(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Makes the tree that the script makes of the one before.
    fn prepare(&self, round: u64) {
        let _ = fs::remove_dir_all(self.place.path("after"));
        for (script, directory) in [
            ("cp -a before after".to_owned(), ""),
            (change(round, 40_000), "after"),
        ] {
            let mut command = Command::new("sh");
            let command = command
                .args(["-c", &script])
                .current_dir(self.place.path(directory));
            assert!(command.status().unwrap().success());
        }
    }

    /// Kills a command in a transaction, which can be aborted afterwards.
    fn kill_command(&mut self, round: u64) {
        self.place.done(["tx", "begin", "work"]);
        let script = format!("{}; while true; do sleep 0.1; done", change(round, 40_000));
        let work = self.place.path("work");
        let arguments = ["tx", "run", "work", "--dir", work.to_str().unwrap()];
        let mut child = self.start(&[&arguments[..], &["--", "sh", "-c", &script]].concat());
        std::thread::sleep(Duration::from_millis(self.random.u64(..100)));
        child.kill().unwrap();
        child.wait().unwrap();
        self.place.done(["files", "check"]);
        // The other process may notice the end of the command later.
        while self.place.run(["tx", "abort", "work"]).code != Some(0) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Commits, and kills a process meanwhile. Returns whether the commit was acknowledged.
    fn commit(&mut self, round: u64, mounted: Option<&RunningMount>) -> bool {
        let began = Instant::now();
        let mut child = self.start(&["tx", "commit", "work"]);
        let is_killed = round % 8 != 1;
        if is_killed {
            std::thread::sleep(self.commit_time.mul_f64(self.random.f64() * 1.2));
            match mounted {
                Some(mounted) if round.is_multiple_of(4) => mounted.signal(libc::SIGKILL),
                _ => child.kill().unwrap(),
            }
        }
        let is_acknowledged = child.wait().unwrap().success();
        if !is_killed {
            assert!(is_acknowledged);
            self.commit_time = began.elapsed();
        }
        is_acknowledged
    }
}

/// Kills commits of open transactions, and compares the files with the trees before and after.
#[test]
fn a_killed_commit_of_an_open_transaction_leaves_it_open_or_committed() {
    need_mounts!();
    let mut run = KillRun {
        place: Place::new(),
        random: fastrand::Rng::with_seed(5),
        commit_time: Duration::from_millis(50),
    };
    for directory in ["before", "work"] {
        fs::create_dir(run.place.path(directory)).unwrap();
    }
    let [before, after, exported] = ["before", "after", "exported"].map(|name| run.place.path(name));
    let rounds = effort(12, 500);
    let (mut committed, mut open) = (0, 0);
    for round in 1..=rounds {
        run.prepare(round);
        let mounted = round
            .is_multiple_of(2)
            .then(|| RunningMount::new(&run.place, &[]));
        if round % 3 == 1 {
            run.kill_command(round);
        }
        run.place.done(["tx", "begin", "work"]);
        self::run(&run.place, "work", &change(round, 40_000)).ended(0);
        let is_acknowledged = run.commit(round, mounted.as_ref());
        drop(mounted);
        run.place.done(["files", "check"]);
        let _ = fs::remove_dir_all(&exported);
        run.place
            .done(["files", "export", "/", exported.to_str().unwrap()]);
        let (found, is_open) = (tree(&exported), is_open(&run.place, "work"));
        assert!(!is_open || !is_acknowledged, "round {round}");
        let expected = if is_open { &before } else { &after };
        assert!(found == tree(expected), "round {round}: {}", expected.display());
        if is_open {
            open += 1;
            run.place.done(["tx", "commit", "work"]);
        } else {
            committed += 1;
        }
        fs::remove_dir_all(&before).unwrap();
        fs::rename(&after, &before).unwrap();
    }
    println!("{rounds} rounds: {committed} committed, {open} open");
    assert!(committed > rounds / 10 && open > 0);
}

/// Nothing can be changed in snapshots, from the first call on.
fn refuses_changes(snapshots: &Path, old: &Path, root: &Path) {
    let refused = [
        fs::write(old, "x"),
        fs::OpenOptions::new().append(true).open(old).map(drop),
        fs::remove_file(old),
        fs::create_dir(snapshots.join("tuesday")),
        fs::remove_dir(snapshots.join("monday/a/b")),
        fs::rename(old, snapshots.join("monday/x")),
        fs::set_permissions(old, fs::metadata(old).unwrap().permissions()),
        fs::File::create(snapshots.join("monday/new")).map(drop),
        std::os::unix::fs::symlink("x", snapshots.join("monday/link")),
    ];
    for (index, result) in refused.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EROFS), "{index}");
    }
    for result in [
        fs::rename(old, root.join("x")),
        fs::hard_link(old, root.join("x")),
    ] {
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EXDEV));
    }
}

#[test]
fn a_mount_shows_snapshots_that_cannot_be_changed() {
    need_mounts!();
    let place = Place::new();
    let mounted = RunningMount::new(&place, &[]);
    let root = mounted.directory.clone();
    sample(&root);
    let before = tree(&root);
    let snapshots = root.join(".snapshots");
    assert!(!snapshots.join("monday").exists());
    place.done(["files", "snapshot", "create", "monday"]);
    assert!(tree(&snapshots.join("monday")) == before);
    fs::write(root.join("a/short"), "changed").unwrap();
    fs::remove_file(root.join("a/b/long")).unwrap();
    assert!(tree(&snapshots.join("monday")) == before);
    assert_eq!(fs::read_to_string(root.join("a/short")).unwrap(), "changed");
    let names = |directory: &Path| {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert!(
        !names(&root).iter().any(|name| name == ".snapshots"),
        "it is not listed"
    );
    assert_eq!(names(&snapshots), ["monday"]);
    let old = snapshots.join("monday/a/short");
    refuses_changes(&snapshots, &old, &root);
    // It can be copied back, and paths lead out of it.
    fs::copy(snapshots.join("monday/a/b/long"), root.join("a/b/long")).unwrap();
    assert_eq!(fs::read(root.join("a/b/long")).unwrap(), vec![7; 300_000]);
    let up = fs::canonicalize(snapshots.join("monday/a/../../../a")).unwrap();
    assert_eq!(up, fs::canonicalize(root.join("a")).unwrap());
    // The inode of a file and of its older version are two for the kernel.
    use std::os::unix::fs::MetadataExt;
    assert_ne!(
        fs::metadata(&old).unwrap().ino(),
        fs::metadata(root.join("a/short")).unwrap().ino()
    );
    // A snapshot that is removed and created again is another one.
    let held = fs::File::open(&old).unwrap();
    place.done(["files", "snapshot", "remove", "monday"]);
    assert!(!snapshots.join("monday").exists());
    place.done(["files", "snapshot", "create", "monday"]);
    assert_eq!(fs::read_to_string(&old).unwrap(), "changed");
    drop(held);
    // A name of the user wins.
    place.done(["files", "mkdir", "/.snapshots/own"]);
    assert_eq!(names(&snapshots), ["own"]);
    assert!(names(&root).iter().any(|name| name == ".snapshots"));
    fs::remove_dir(snapshots.join("own")).unwrap();
    fs::remove_dir(&snapshots).unwrap();
    assert_eq!(names(&snapshots), ["monday"]);
    mounted.end();
    let without = RunningMount::new(&place, &["--hide-snapshots"]);
    assert!(!snapshots.exists());
    fs::create_dir(&snapshots).unwrap();
    without.end();
    place.done(["files", "check"]);
}

#[test]
fn a_history_lists_the_versions_of_a_path() {
    let place = Place::new();
    let put = |path: &str, text: &str| drop(place.fed(["files", "put", "-", path], text.as_bytes()).ended(0));
    let snapshot = |name: &str| drop(place.done(["files", "snapshot", "create", name]));
    put("/other", "x");
    snapshot("s1");
    put("/letter", "one");
    snapshot("s2");
    put("/other", "xy");
    snapshot("s3");
    put("/letter", "three");
    snapshot("s4");
    place.done(["files", "rm", "/letter"]);
    let text = place.done(["files", "history", "/letter"]).text();
    let shown: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let ends: Vec<_> = shown.iter().map(|words| (words[0], words[1])).collect();
    assert_eq!(
        ends,
        [
            ("removed", "-"),
            ("changed", "5"),
            ("added", "3"),
            ("absent", "-")
        ],
        "{text}"
    );
    assert!(text.contains("s2 s3\n") && text.contains("(newest)\n"), "{text}");
    let json = place.done(["files", "history", "/", "--json"]).text();
    let versions: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let places: Vec<_> = versions
        .iter()
        .map(|version| version["snapshots"].to_string())
        .collect();
    assert_eq!(places, ["[]", "[\"s2\",\"s3\",\"s4\"]", "[\"s1\"]"], "{json}");
    assert_eq!(
        (&versions[0]["entries"], &versions[0]["is_newest"]),
        (&1.into(), &true.into())
    );
    place
        .run(["files", "history", "/none"])
        .ended(1)
        .complained("/none");
}
