//! Copies compared with their origins, record by record.

use super::crashes::take_images;
use super::generate::operation;
use super::perform::perform;
use super::reference::ReferenceFiles;
use super::{fails, order, stepping_options};
use crate::{
    ChangeListener, ErrorKind, FilePaths, FileSystem, Files, FilesOptions, Inode, ReceivedSnapshot, Result,
    SnapshotReceiver, Timestamp, WritePosition,
};
use alluvium::simulation::DirectoryOpener;
use alluvium::{Db, Options, Snapshot, TransactionOptions};
use alluvium_device::simulated::SimDirectory;
use alluvium_sim::environment::effort;
use fastrand::Rng;
use parking_lot::Mutex;
use std::sync::Arc;

/// All records of a state that a stream has: ending of the keyspace, key, value.
type AllRecords = Vec<(&'static str, Vec<u8>, Vec<u8>)>;

const ENDINGS: [&str; 7] = [
    "names",
    "inodes",
    "blocks",
    "counts",
    "times",
    "attributes",
    "system",
];

fn db(keep_log: u64) -> Db {
    let options = Options::new().memory(16 << 20).workers(1).keep_log(keep_log);
    options.in_memory().unwrap()
}

fn records(snapshot: &Snapshot, files: &Files) -> AllRecords {
    let mut all = Vec::new();
    for ending in ENDINGS {
        let name = format!("files.{}.{ending}", files.name());
        let keyspace = files.db().existing_keyspace(&name).unwrap();
        for record in snapshot.range::<&[u8]>(&keyspace, ..) {
            let (key, value) = record.unwrap();
            let is_local = ending == "system" && matches!(key[0], b'h' | b'g' | b'c');
            if !is_local {
                all.push((ending, key, value.to_vec()));
            }
        }
    }
    all
}

/// Returns the records that a snapshot of files has.
fn snapshot_records(files: &Files, snapshot: &str) -> AllRecords {
    let name = format!("files.{}/{snapshot}", files.name());
    records(&files.db().open_snapshot(&name).unwrap(), files)
}

/// Returns the records that files have now.
fn records_now(files: &Files) -> AllRecords {
    records(&files.db().snapshot(), files)
}

fn stream(files: &Files, snapshot: &str, since: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sender = files.send(snapshot, since).unwrap();
    let bytes = sender.write_to(&mut out).unwrap();
    assert_eq!(bytes, out.len() as u64);
    out
}

fn receive(db: &Db, name: &str, bytes: &[u8], piece: usize) -> Result<ReceivedSnapshot> {
    let mut receiver = SnapshotReceiver::new(db, name)?;
    for piece in bytes.chunks(piece) {
        receiver.push(piece)?;
    }
    receiver.finish()
}

#[track_caller]
fn assert_same(origin: &Files, copy: &Files, snapshot: &str) {
    let (expected, found) = (
        snapshot_records(origin, snapshot),
        snapshot_records(copy, snapshot),
    );
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected, found);
    }
    assert_eq!(expected.len(), found.len());
    assert!(
        records_now(copy) == found,
        "the copy is in the state of its last snapshot"
    );
    let report = copy.check().unwrap();
    assert!(report.is_whole(), "{report}");
}

/// Runs random operations and transactions, sends snapshots at random, and compares.
fn follow(seed: u64, keep_log: u64) -> (u32, u32) {
    let mut random = Rng::with_seed(seed);
    let options = Options::new().memory(16 << 20).workers(1).keep_log(keep_log);
    let directory = Arc::new(SimDirectory::new(seed));
    let open = || {
        let db = options.clone().open_in(Arc::clone(&directory) as Arc<_>).unwrap();
        let files = stepping_options(512, 200).order(order(seed));
        Files::open_with(&db, "origin", &files).unwrap()
    };
    let mut files = open();
    let other = db(0);
    let mut reference = ReferenceFiles::new();
    let (mut from_log, mut compared) = (0, 0);
    let mut sent: Vec<String> = Vec::new();
    for round in 0..12 {
        for _ in 0..random.usize(..120) {
            let operation = operation(&mut random, &reference);
            let outcome = perform(&files, &operation);
            reference.perform(&operation, &outcome);
        }
        if random.u8(..3) == 0 {
            // A spilled transaction is attached, and its records are not in the log.
            let transaction = files.begin_with(&TransactionOptions::new().memory(8 << 10));
            let path = format!("/large-{}", random.u8(..3));
            transaction
                .write_file(path.as_bytes(), &vec![round; random.usize(1..60_000)], 0o600)
                .unwrap();
            transaction.commit().unwrap();
        }
        if random.u8(..4) == 0 {
            drop(files);
            files = open();
            // The process has ended while it held inodes.
            reference.view.holds.clear();
            reference.remove_all_unneeded();
        }
        let name = format!("s{round}");
        files.create_snapshot(&name).unwrap();
        let since = sent.last().cloned();
        let sender = files.send(&name, since.as_deref()).unwrap();
        match (sender.is_from_log(), since.is_some()) {
            (true, _) => from_log += 1,
            (false, true) => compared += 1,
            (false, false) => {}
        }
        drop(sender);
        let bytes = stream(&files, &name, since.as_deref());
        let received = receive(&other, "copy", &bytes, random.usize(1..100_000)).unwrap();
        assert_eq!((&received.snapshot, &received.since), (&name, &since));
        let copy = Files::open_existing(&other, "copy").unwrap();
        assert_same(&files, &copy, &name);
        sent.push(name);
    }
    (from_log, compared)
}

#[test]
fn copies_follow_random_changes() {
    let (mut from_log, mut compared) = (0, 0);
    for seed in 0..effort(8, 60) {
        for keep_log in [0, 64 << 20] {
            let (logged, walked) = follow(seed, keep_log);
            from_log += logged;
            compared += walked;
        }
    }
    assert!(
        from_log > 0 && compared > 0,
        "{from_log} from the log, {compared} compared"
    );
}

/// Returns files with two snapshots.
fn with_snapshots() -> (Files, Db) {
    let db = db(0);
    let files = Files::open(&db, "home").unwrap();
    files.create_directories(b"/a/b", 0o755).unwrap();
    files.write_file(b"/a/b/f", &[1; 50_000], 0o644).unwrap();
    files.create_snapshot("monday").unwrap();
    files.write_file(b"/a/g", b"more", 0o600).unwrap();
    files.create_snapshot("tuesday").unwrap();
    (files, db)
}

#[test]
fn contents_that_change_while_the_clock_stands_still_are_sent() {
    let db = db(0);
    let options = FilesOptions::new().clock(Timestamp::default);
    let files = Files::open_with(&db, "home", &options).unwrap();
    let other = self::db(0);
    files.write_file(b"/f", &[1; 50_000], 0o644).unwrap();
    files.create_snapshot("one").unwrap();
    receive(&other, "home", &stream(&files, "one", None), 1 << 20).unwrap();
    let inode = files.resolve(b"/f").unwrap();
    files.write(inode, WritePosition::At(20_000), b"changed").unwrap();
    files.create_snapshot("two").unwrap();
    receive(&other, "home", &stream(&files, "two", Some("one")), 1 << 20).unwrap();
    let copy = Files::open_existing(&other, "home").unwrap();
    assert_same(&files, &copy, "two");
}

#[test]
fn changes_are_much_smaller_than_the_whole() {
    let (files, _db) = with_snapshots();
    let (whole, changes) = (
        stream(&files, "tuesday", None),
        stream(&files, "tuesday", Some("monday")),
    );
    assert!(
        whole.len() > 50_000 && changes.len() < 2_000,
        "{} {}",
        whole.len(),
        changes.len()
    );
}

#[test]
fn only_streams_change_a_copy() {
    let (files, _db) = with_snapshots();
    let other = db(0);
    receive(&other, "copy", &stream(&files, "monday", None), 7).unwrap();
    let copy = Files::open_existing(&other, "copy").unwrap();
    assert!(copy.is_copy() && !files.is_copy());
    let before = records_now(&copy);
    fails(copy.write_file(b"/x", b"x", 0o644), ErrorKind::ReadOnly);
    fails(copy.remove_all(b"/a"), ErrorKind::ReadOnly);
    fails(copy.begin().write_file(b"/x", b"x", 0o644), ErrorKind::ReadOnly);
    fails(copy.begin_branch("b", None), ErrorKind::ReadOnly);
    let mut transaction = other.begin();
    fails(
        copy.within(&mut transaction).create_directories(b"/y", 0o755),
        ErrorKind::ReadOnly,
    );
    assert_eq!(records_now(&copy), before);
    // Local snapshots leave the state as it is.
    copy.create_snapshot("local").unwrap();
    receive(&other, "copy", &stream(&files, "tuesday", Some("monday")), 999).unwrap();
    assert_same(&files, &copy, "tuesday");
    assert_eq!(copy.snapshots(), ["local", "monday", "tuesday"]);

    copy.promote().unwrap();
    copy.write_file(b"/x", b"x", 0o644).unwrap();
    copy.create_snapshot("own").unwrap();
    fails(copy.promote(), ErrorKind::InvalidArgument);
    assert!(copy.check().unwrap().is_whole());
    let again = receive(&other, "copy", &stream(&files, "tuesday", Some("monday")), 999);
    fails(again, ErrorKind::Exists);
    // Others can follow what was a copy.
    let third = db(0);
    receive(&third, "copy", &stream(&copy, "own", None), 1 << 20).unwrap();
    assert_same(&copy, &Files::open_existing(&third, "copy").unwrap(), "own");
}

#[test]
fn views_of_a_copy_hear_of_a_stream() {
    #[derive(Default)]
    struct Heard {
        names: Mutex<Vec<(Inode, Vec<u8>)>>,
        inodes: Mutex<Vec<Inode>>,
    }
    impl ChangeListener for Heard {
        fn name_changed(&self, parent: Inode, name: &[u8]) {
            self.names.lock().push((parent, name.to_vec()));
        }
        fn inode_changed(&self, inode: Inode) {
            self.inodes.lock().push(inode);
        }
    }
    let (files, _db) = with_snapshots();
    let other = db(0);
    receive(&other, "copy", &stream(&files, "monday", None), 4096).unwrap();
    let copy = Files::open_existing(&other, "copy").unwrap();
    let heard = Arc::new(Heard::default());
    copy.listen(Arc::clone(&heard) as Arc<_>);
    receive(&other, "copy", &stream(&files, "tuesday", Some("monday")), 4096).unwrap();
    let (names, inodes) = (heard.names.lock(), heard.inodes.lock());
    let directory = copy.resolve(b"/a").unwrap();
    assert!(names.contains(&(directory, b"g".to_vec())), "{names:?}");
    assert!(inodes.contains(&directory), "{inodes:?}");
}

#[test]
fn streams_that_do_not_belong_to_a_copy_are_refused() {
    let (files, home) = with_snapshots();
    files.create_snapshot("wednesday").unwrap();
    let other = db(0);
    let whole = stream(&files, "monday", None);
    let changes = stream(&files, "tuesday", Some("monday"));
    fails(receive(&other, "copy", &changes, 100), ErrorKind::NotFound);
    assert!(Files::list(&other).is_empty());
    receive(&other, "copy", &whole, 100).unwrap();
    let later = stream(&files, "wednesday", Some("tuesday"));
    fails(receive(&other, "copy", &later, 100), ErrorKind::Conflict);
    fails(
        receive(&other, "copy", &stream(&files, "tuesday", None), 100),
        ErrorKind::Exists,
    );
    fails(receive(&home, "home", &changes, 100), ErrorKind::Exists);
    fails(receive(&other, "a/b", &whole, 100), ErrorKind::InvalidArgument);
    fails(
        files.send("tuesday", Some("wednesday")),
        ErrorKind::InvalidArgument,
    );
    fails(files.send("sunday", None), ErrorKind::NotFound);
    fails(files.send("tuesday", Some("sunday")), ErrorKind::NotFound);
    // A stream that arrives again changes nothing, and brings back its snapshot.
    receive(&other, "copy", &changes, 100).unwrap();
    let copy = Files::open_existing(&other, "copy").unwrap();
    copy.remove_snapshot("tuesday").unwrap();
    let again = receive(&other, "copy", &changes, 100).unwrap();
    assert_eq!(again.records, 0);
    assert_same(&files, &copy, "tuesday");
    // Another file system that has snapshots of the same names.
    let (strangers, _db) = with_snapshots();
    let strange = stream(&strangers, "tuesday", Some("monday"));
    fails(receive(&other, "copy", &strange, 100), ErrorKind::Conflict);
}

#[test]
fn of_two_streams_at_the_same_time_one_is_applied() {
    let (files, _db) = with_snapshots();
    files.create_snapshot("wednesday").unwrap();
    let other = db(0);
    receive(&other, "copy", &stream(&files, "monday", None), 100).unwrap();
    let mut receivers = Vec::new();
    for to in ["tuesday", "wednesday"] {
        let mut receiver = SnapshotReceiver::new(&other, "copy").unwrap();
        receiver.push(&stream(&files, to, Some("monday"))).unwrap();
        receivers.push(receiver);
    }
    let second = receivers.pop().unwrap();
    receivers.pop().unwrap().finish().unwrap();
    fails(second.finish(), ErrorKind::Conflict);
    let copy = Files::open_existing(&other, "copy").unwrap();
    assert_same(&files, &copy, "tuesday");
}

#[test]
fn a_stream_does_not_change_what_was_promoted_meanwhile() {
    let (files, _db) = with_snapshots();
    let other = db(0);
    receive(&other, "copy", &stream(&files, "monday", None), 100).unwrap();
    let copy = Files::open_existing(&other, "copy").unwrap();
    let mut receiver = SnapshotReceiver::new(&other, "copy").unwrap();
    receiver.push(&stream(&files, "tuesday", Some("monday"))).unwrap();
    copy.promote().unwrap();
    copy.write_file(b"/own", b"own", 0o600).unwrap();
    fails(receiver.finish(), ErrorKind::Conflict);
    assert_eq!(copy.read_file(b"/own").unwrap(), b"own");
    assert!(copy.check().unwrap().is_whole());
}

#[test]
fn damaged_streams_change_nothing() {
    let (files, _db) = with_snapshots();
    let other = db(0);
    let whole = stream(&files, "monday", None);
    receive(&other, "copy", &whole, 100).unwrap();
    let copy = Files::open_existing(&other, "copy").unwrap();
    let before = records_now(&copy);
    let changes = stream(&files, "tuesday", Some("monday"));
    let mut random = Rng::with_seed(3);
    for _ in 0..effort(300, 3000) {
        let mut bytes = changes.clone();
        match random.u8(..4) {
            0 => bytes.truncate(random.usize(..bytes.len())),
            1 => bytes.extend_from_slice(&changes[..random.usize(1..60)]),
            2 => drop(bytes.drain(..random.usize(1..bytes.len()))),
            _ => bytes[random.usize(..changes.len())] ^= 1 << random.u8(..8),
        }
        let error = receive(&other, "copy", &bytes, random.usize(1..5000)).unwrap_err();
        assert!(error.kind() == ErrorKind::Damaged, "{error}");
        assert_eq!(records_now(&copy), before);
    }
    assert_eq!(copy.snapshots(), ["monday"]);
    receive(&other, "copy", &changes, 100).unwrap();
    assert_same(&files, &copy, "tuesday");
}

/// Returns the frames of a stream.
fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let [a, b, c, d, ..] = *bytes {
        let length = 12 + u32::from_le_bytes([a, b, c, d]) as usize;
        let (frame, rest) = bytes.split_at(length);
        frames.push(frame.to_vec());
        bytes = rest;
    }
    frames
}

#[test]
fn a_part_of_another_stream_is_refused() {
    let (files, _db) = with_snapshots();
    for (path, contents) in [(&b"/a/g"[..], b"less"), (b"/a/h", b"more")] {
        files.write_file(path, contents, 0o600).unwrap();
    }
    files.create_snapshot("wednesday").unwrap();
    let other = db(0);
    receive(&other, "copy", &stream(&files, "monday", None), 100).unwrap();
    let copy = Files::open_existing(&other, "copy").unwrap();
    let before = records_now(&copy);
    let streams = ["tuesday", "wednesday"].map(|name| frames(&stream(&files, name, Some("monday"))));
    let mut refused = 0;
    for (own, others) in [(0, 1), (1, 0)] {
        for place in 0..streams[own].len() {
            let mut mixed = streams[own].clone();
            mixed[place].clone_from(&streams[others][place]);
            if mixed == streams[own] {
                continue;
            }
            fails(receive(&other, "copy", &mixed.concat(), 100), ErrorKind::Damaged);
            assert_eq!(records_now(&copy), before);
            refused += 1;
        }
    }
    assert_eq!(refused, 6, "head, records and end of each");
    receive(&other, "copy", &streams[1].concat(), 100).unwrap();
    assert_same(&files, &copy, "wednesday");
}

#[test]
fn a_copy_with_another_snapshot_of_the_name_takes_nothing() {
    let (files, _db) = with_snapshots();
    let other = db(0);
    receive(&other, "copy", &stream(&files, "monday", None), 100).unwrap();
    receive(&other, "copy", &stream(&files, "tuesday", Some("monday")), 100).unwrap();
    files.remove_snapshot("monday").unwrap();
    files.write_file(b"/a/g", b"a week later", 0o600).unwrap();
    files.create_snapshot("monday").unwrap();
    let next = stream(&files, "monday", Some("tuesday"));
    let copy = Files::open_existing(&other, "copy").unwrap();
    let before = records_now(&copy);
    for _ in 0..2 {
        fails(receive(&other, "copy", &next, 100), ErrorKind::Exists);
        assert_eq!(records_now(&copy), before);
    }
    copy.remove_snapshot("monday").unwrap();
    // The name is taken while the stream arrives.
    let mut receiver = SnapshotReceiver::new(&other, "copy").unwrap();
    receiver.push(&next).unwrap();
    copy.create_snapshot("monday").unwrap();
    fails(receiver.finish(), ErrorKind::Exists);
    assert_eq!(records_now(&copy), before);
    copy.remove_snapshot("monday").unwrap();
    for records in [true, false] {
        let received = receive(&other, "copy", &next, 100).unwrap();
        assert_eq!(received.records > 0, records, "the second one changes nothing");
        assert_same(&files, &copy, "monday");
    }
}

#[test]
fn a_crash_leaves_the_state_of_one_snapshot() {
    let (files, _db) = with_snapshots();
    let (whole, changes) = (
        stream(&files, "monday", None),
        stream(&files, "tuesday", Some("monday")),
    );
    let states = ["monday", "tuesday"].map(|name| snapshot_records(&files, name));
    let mut judged = 0;
    for seed in 0..effort(4, 60) {
        let directory = SimDirectory::new(seed);
        let open = |directory: &SimDirectory| {
            Options::new()
                .memory(16 << 20)
                .workers(1)
                .open_in(Arc::new(directory.clone()))
        };
        let db = open(&directory).unwrap();
        let taken = take_images(&directory);
        for (index, bytes) in [&whole, &changes].into_iter().enumerate() {
            taken.lock().random = Some(Rng::with_seed(seed));
            receive(&db, "copy", bytes, 10_000).unwrap();
            let images = std::mem::take(&mut taken.lock().images);
            taken.lock().random = None;
            for (_, image) in images {
                let db = open(&image).unwrap();
                if let Ok(copy) = Files::open_existing(&db, "copy") {
                    assert!(copy.is_copy());
                    let found = records_now(&copy);
                    let is_empty = !found.iter().any(|record| record.0 == "names");
                    let is_one = states[..=index].contains(&found) || index == 0 && is_empty;
                    assert!(
                        is_one,
                        "seed {seed}: another state after a crash in stream {index}"
                    );
                    for (name, state) in ["monday", "tuesday"].iter().zip(&states) {
                        let has_snapshot = copy.snapshots().iter().any(|other| other == name);
                        assert!(
                            has_snapshot || *state != found,
                            "seed {seed}: the state of {name} without its snapshot"
                        );
                    }
                }
                // The stream can be applied then, or again.
                if index == 0 {
                    receive(&db, "copy", bytes, 10_000).unwrap();
                }
                receive(&db, "copy", &changes, 10_000).unwrap();
                let copy = Files::open_existing(&db, "copy").unwrap();
                assert_same(&files, &copy, "tuesday");
                judged += 1;
            }
        }
    }
    assert!(judged >= 10, "{judged} crashes");
}
