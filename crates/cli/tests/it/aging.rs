//! The verbs of `aging`: measures of files and traces, and a run that is interrupted and killed.

use crate::Place;
use alluvium_sim::environment::effort;
use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

/// Returns the text of a trace of reads at these sectors, of 8 sectors each.
fn trace(device: &str, sectors: impl IntoIterator<Item = u64>) -> String {
    let mut text = String::from("# tracer: nop\n");
    for (number, sector) in sectors.into_iter().enumerate() {
        let time = number as f64 / 1e4;
        writeln!(
            text,
            " grep-812 [000] ..... {time:.6}: block_rq_issue: {device} R 4096 () {sector} + 8 none,0,0 [grep]"
        )
        .unwrap();
    }
    text
}

#[test]
fn a_recorded_trace_has_the_score_of_its_reads() {
    let place = Place::new();
    for (stride, score) in [(8, 1.0), (9, 0.0)] {
        let file = place.file("trace", trace("7,0", (0..50).map(|at| at * stride)));
        let said = place
            .done(["aging", "dls", "--json", "--input", file.to_str().unwrap()])
            .json();
        assert_eq!(said["score_by_block"], score, "{said}");
        assert_eq!(said["requests"], 50);
    }
    let both = trace("7,0", [0, 8]) + &trace("8,16", [0, 800]);
    let file = place.file("trace", both);
    let arguments = ["aging", "dls", "--input", file.to_str().unwrap()];
    place.run(arguments).ended(2).complained("--device 7:0 or 8:16");
    let chosen = arguments.into_iter().chain(["--device", "8,16"]);
    let text = place.done(chosen).text();
    assert!(text.contains("score 0.0000 by block"), "{text}");
    place.file("trace", "");
    place.run(arguments).ended(3).complained("has no reads");
    place.run(["aging", "dls"]).ended(2).complained("DIR");
}

#[test]
fn a_tree_is_searched_and_its_size_on_ext4_is_printed() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    place.file("tree/one", "a river\n");
    place.file("tree/two", vec![b'x'; 5000]);
    let tree = place.path("tree");
    for more in [&[][..], &["--builtin"]] {
        let arguments = ["aging", "grep-test", tree.to_str().unwrap(), "--json"];
        let arguments = arguments
            .into_iter()
            .chain(["--cold", "none", "--text", "river"])
            .chain(more.iter().copied());
        let said = place.done(arguments).json();
        assert_eq!((&said["matches"], &said["files"]), (&1.into(), &2.into()));
        assert_eq!(said["ext4_bytes"], 4 * 4096);
        assert!(said["caches"].as_str().unwrap().starts_with("warm"), "{said}");
    }
    // The caches of the files only, which any user may drop.
    let text = place
        .done(["aging", "grep-test", tree.to_str().unwrap(), "--cold", "advise"])
        .text();
    assert!(text.contains("posix_fadvise") && text.contains("s/GiB"), "{text}");
    place
        .run(["aging", "grep-test", tree.to_str().unwrap(), "--cold", "remount"])
        .ended(2)
        .complained("not in an image");
    let missing = place.path("missing");
    place
        .run(["aging", "grep-test", missing.to_str().unwrap(), "--cold", "none"])
        .ended(3);
    let said = place.run(["aging", "layout", tree.to_str().unwrap(), "--json"]);
    match said.code {
        Some(0) => assert_eq!(said.json()["degree_of_fragmentation"], 1.0),
        // On tmpfs, for example.
        _ => drop(said.ended(3).complained("does not report extents")),
    }
}

#[test]
fn natural_sizes_of_a_directory_and_of_a_file_are_measured() {
    let place = Place::new();
    let file = place.file("file", vec![7; 16 << 20]);
    let directory = place.path(".");
    for path in [&file, &directory] {
        let said = place
            .done(["aging", "nts", path.to_str().unwrap(), "--seconds", "1", "--json"])
            .json();
        assert!(said["peak_bytes_per_s"].as_f64().unwrap() > 0.0, "{said}");
        let orders: Vec<&str> = said["bandwidths"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| point["order"].as_str().unwrap())
            .collect();
        assert!(
            orders.contains(&"random") && orders.contains(&"sequential"),
            "{said}"
        );
    }
}

#[test]
fn devices_that_are_not_images_of_a_run_and_impossible_plans_are_refused() {
    let place = Place::new();
    let short = place.file("short", "river");
    place
        .run(["aging", "nts", short.to_str().unwrap()])
        .ended(3)
        .complained("needs 16777216");
    place
        .run(["aging", "run", "mail", "--file-systems", "zfs"])
        .ended(2)
        .complained("choose ext4, xfs, btrfs");
    place.run(["aging", "run", "git", "--every", "0"]).ended(2);
    // A file of a user has the name of an image.
    if !can_attach() {
        return;
    }
    let work = place.path("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("constants.img"), "letters").unwrap();
    place
        .run(
            [
                "aging",
                "run",
                "interfile",
                "--file-systems",
                "ext4",
                "--size",
                "64M",
                "--steps",
                "0",
            ]
            .into_iter()
            .chain(["--work", work.to_str().unwrap()])
            .chain(["--output", place.path("output").to_str().unwrap()]),
        )
        .ended(3)
        .complained("is no image of `alluvium aging`");
    assert_eq!(fs::read(work.join("constants.img")).unwrap(), b"letters");
}

/// Returns whether the test may attach loop devices; otherwise records a skip.
fn can_attach() -> bool {
    // SAFETY: the call only returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let can = is_root && Path::new("/dev/loop-control").exists() && Path::new("/dev/fuse").exists();
    if !can {
        alluvium_device::skipped!("loop devices", "images need root, loop devices and FUSE");
    }
    can
}

/// A run on small images of ext4 and of a mounted store.
struct SmallRun {
    place: Place,
}

impl SmallRun {
    fn arguments(&self) -> Vec<String> {
        let output = self.place.path("output").to_str().unwrap().to_owned();
        let words =
            "aging run mail --file-systems ext4,alluvium --size 256M --scale 1 --steps 6 --every 2 --output";
        words.split(' ').map(str::to_owned).chain([output]).collect()
    }

    /// Starts the run, and waits until it has measured some trees.
    fn start_and_wait(&self, rows: usize) -> Child {
        let mut child = self
            .place
            .command(self.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut measured = 0;
        while measured < rows {
            let line = lines.next().expect("it goes on").unwrap();
            measured += usize::from(line.contains("s/GiB"));
        }
        std::thread::spawn(move || lines.for_each(drop));
        child
    }

    /// Returns the mounts and loop devices of the run.
    fn traces(&self) -> Vec<String> {
        let root = fs::canonicalize(self.place.path("output")).unwrap();
        let root = root.to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounts = mounts.lines().map(str::to_owned);
        let devices = fs::read_dir("/sys/block").unwrap().map(|entry| {
            let path = entry.unwrap().path().join("loop/backing_file");
            fs::read_to_string(path).unwrap_or_default()
        });
        mounts.chain(devices).filter(|line| line.contains(root)).collect()
    }
}

#[test]
fn an_interrupted_run_releases_everything_and_a_killed_one_is_released_by_the_next() {
    if !effort(false, true) || !can_attach() {
        return;
    }
    let run = SmallRun { place: Place::new() };
    let mut child = run.start_and_wait(4);
    // SAFETY: the call only sends a signal to a process of this test.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(run.traces(), [""; 0]);
    // Killed while it ages the mounted store: its devices and mounts stay.
    let mut child = run.start_and_wait(6);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!run.traces().is_empty());
    let said = run.place.done(run.arguments()).complained("of an earlier run");
    assert!(said.text().contains("| alluvium |") && said.text().contains("| ext4 |"));
    assert_eq!(run.traces(), [""; 0]);
    let csv = fs::read_to_string(run.place.path("output/measurements.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * 4 * 2, "{csv}");
    assert_eq!(fs::read_dir(run.place.path("output/work")).unwrap().count(), 0);
    // The same trees on both file systems, which the run itself compares.
    let state = fs::read_to_string(run.place.path("output/state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let sum = |name: &str| state["series"][name]["final_checksum"].clone();
    assert!(sum("ext4").is_number() && sum("ext4") == sum("alluvium"));
}
