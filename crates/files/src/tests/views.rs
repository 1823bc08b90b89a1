//! Several views, snapshots, threads, and full disks.

use super::{TestPlace, attributes, directory, fails, file, names, node, size, stepping_options};
use crate::{
    AllocateMode, AttributeChange, ChangeListener, ErrorKind, FileKind, FilePaths, FileSystem, Files,
    FilesOptions, Inode, RenameMode, WritePosition,
};
use alluvium::Options;
use alluvium::simulation::DirectoryOpener;
use alluvium_device::simulated::SimDirectory;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const ROOT: Inode = Inode::ROOT;

#[derive(Default)]
struct HeardChanges {
    names: Mutex<BTreeSet<(Inode, Vec<u8>)>>,
    inodes: Mutex<BTreeSet<Inode>>,
    /// How often a committer has waited for the listener.
    waits: AtomicUsize,
}

impl ChangeListener for HeardChanges {
    fn name_changed(&self, parent: Inode, name: &[u8]) {
        self.names.lock().insert((parent, name.to_vec()));
    }

    fn inode_changed(&self, inode: Inode) {
        self.inodes.lock().insert(inode);
    }

    fn settle(&self, most: Duration) {
        assert_eq!(most, Duration::from_secs(7));
        self.waits.fetch_add(1, Ordering::Relaxed);
    }
}

impl HeardChanges {
    fn take(&self) -> (Vec<(Inode, Vec<u8>)>, Vec<Inode>) {
        let names = std::mem::take(&mut *self.names.lock());
        let inodes = std::mem::take(&mut *self.inodes.lock());
        (names.into_iter().collect(), inodes.into_iter().collect())
    }
}

#[test]
fn listeners_hear_the_changes_of_other_views_after_their_commits() {
    let place = TestPlace::new();
    let heard = Arc::new(HeardChanges::default());
    place.files.listen(Arc::clone(&heard) as Arc<_>);
    let one = file(&place.files, ROOT, b"own");
    place.files.clone().write(one, WritePosition::End, b"x").unwrap();
    assert_eq!(heard.take(), (vec![], vec![]));

    let other = Files::open(&place.db, "test").unwrap();
    other.write(one, WritePosition::End, b"x").unwrap();
    assert_eq!(heard.take(), (vec![], vec![one]));
    // A view waits for the listeners of the others, not for its own.
    place.files.settle(Duration::from_secs(7));
    assert_eq!(heard.waits.load(Ordering::Relaxed), 0);
    other.settle(Duration::from_secs(7));
    assert_eq!(heard.waits.load(Ordering::Relaxed), 1);
    other
        .rename(ROOT, b"own", ROOT, b"new", RenameMode::Replace)
        .unwrap();
    let (names, inodes) = heard.take();
    assert_eq!(names, [(ROOT, b"new".to_vec()), (ROOT, b"own".to_vec())]);
    assert_eq!(inodes, [ROOT, one]);

    let transaction = place.files.begin();
    let two = file(&transaction, ROOT, b"two");
    transaction.unlink(ROOT, b"new").unwrap();
    assert_eq!(heard.take(), (vec![], vec![]));
    transaction.commit().unwrap();
    let (names, inodes) = heard.take();
    assert_eq!(names, [(ROOT, b"new".to_vec()), (ROOT, b"two".to_vec())]);
    assert_eq!(inodes, [ROOT, one, two]);

    let transaction = place.files.begin();
    file(&transaction, ROOT, b"three");
    transaction.rollback();
    assert_eq!(heard.take(), (vec![], vec![]));
    place.verify();
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let place = TestPlace::new();
    let files = &place.files;
    let one = file(files, ROOT, b"one");
    files.write(one, WritePosition::At(0), &[1; 2000]).unwrap();
    let snapshot = files.create_snapshot("before").unwrap();
    fails(files.create_snapshot("before"), ErrorKind::Exists);
    fails(files.create_snapshot("a/b"), ErrorKind::InvalidArgument);
    fails(
        files.create_snapshot(&"x".repeat(256)),
        ErrorKind::InvalidArgument,
    );
    files.unlink(ROOT, b"one").unwrap();
    directory(files, ROOT, b"later");
    for snapshot in [snapshot, files.open_snapshot("before").unwrap()] {
        assert_eq!(snapshot.read_file(b"/one").unwrap(), [1; 2000]);
        assert_eq!(names(&snapshot, ROOT), [b"one"]);
        fails(
            snapshot.create(ROOT, b"x", &node(FileKind::Regular)),
            ErrorKind::ReadOnly,
        );
        fails(snapshot.write(one, WritePosition::End, b"x"), ErrorKind::ReadOnly);
        snapshot.hold(one).unwrap();
        snapshot.release(one).unwrap();
        assert!(snapshot.check().unwrap().is_whole());
    }
    assert_eq!(files.snapshots(), ["before"]);
    files.remove_snapshot("before").unwrap();
    fails(files.open_snapshot("before"), ErrorKind::NotFound);
    fails(files.remove_snapshot("before"), ErrorKind::NotFound);
    place.verify();
}

#[test]
fn threads_work_on_one_directory_and_one_file() {
    let place = TestPlace::new();
    let (files, inner) = (&place.files, directory(&place.files, ROOT, b"inner"));
    let log = file(files, ROOT, b"log");
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            scope.spawn(move || {
                for number in 0..60u8 {
                    let name = format!("{thread}-{number}");
                    let one = file(files, inner, name.as_bytes());
                    files.write(one, WritePosition::At(0), &[thread; 700]).unwrap();
                    files.write(log, WritePosition::End, &[thread; 10]).unwrap();
                    // All threads want this name.
                    match files.create(inner, b"shared", &node(FileKind::Directory)) {
                        Ok(_) => files.remove_directory(inner, b"shared").unwrap(),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Exists),
                    }
                    files.hold(one).unwrap();
                    if number % 2 == 0 {
                        files.unlink(inner, name.as_bytes()).unwrap();
                        assert_eq!(files.read(one, 699, 5).unwrap(), [thread]);
                    }
                    files.release(one).unwrap();
                    if number % 8 == 0 {
                        let transaction = files.begin();
                        let path = format!("/inner/t{thread}-{number}");
                        transaction.write_file(path.as_bytes(), b"x", 0o644).unwrap();
                        transaction.commit().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(names(files, inner).len(), 4 * (30 + 8));
    let contents = files.read(log, 0, 10_000).unwrap();
    assert_eq!(contents.len(), 2400);
    assert!(
        contents
            .chunks(10)
            .all(|line| line.iter().all(|byte| *byte == line[0]))
    );
    assert_eq!(attributes(files, inner).links, 2);
    assert_eq!(files.check().unwrap().orphans, 0);
    place.verify();
}

/// Appends until the store is full.
fn fill(files: &Files, inode: Inode) {
    let error = (0..)
        .find_map(|_| files.write(inode, WritePosition::End, &[7; 60_000]).err())
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
}

#[test]
fn on_a_full_disk_files_are_cut_and_removed() {
    let disk = SimDirectory::new(1);
    disk.set_capacity(96 << 20);
    let db = Options::new()
        .memory(16 << 20)
        .open_in(Arc::new(disk.clone()))
        .unwrap();
    let files = Files::open_with(&db, "test", &stepping_options(16 << 10, 2048)).unwrap();
    for number in 0..500 {
        let path = format!("/many/{}/{number}", number % 5);
        files
            .create_directories(format!("/many/{}", number % 5).as_bytes(), 0o755)
            .unwrap();
        files.write_file(path.as_bytes(), &[1; 5000], 0o644).unwrap();
    }
    let [large, full, third] = [&b"large"[..], b"another", b"third"].map(|name| file(&files, ROOT, name));
    fill(&files, large);
    fill(&files, full);
    fails(
        files.write(full, WritePosition::At(0), &vec![1; 1 << 20]),
        ErrorKind::NoSpace,
    );
    assert!(files.space().unwrap().free_blocks < files.space().unwrap().blocks / 4);
    // Single files, directories, a cut, a hole: all of it at once.
    let many = files.resolve(b"/many/0").unwrap();
    for name in names(&files, many) {
        files.unlink(many, &name).unwrap();
    }
    let parent = files.resolve(b"/many").unwrap();
    files.remove_directory(parent, b"0").unwrap();
    assert_eq!(attributes(&files, parent).links, 6);
    files.set_attributes(large, &size(100_001)).unwrap();
    files.allocate(full, AllocateMode::PunchHole, 3, 1 << 40).unwrap();
    files.remove_all(b"/many").unwrap();
    files.hold(full).unwrap();
    files.unlink(ROOT, b"another").unwrap();
    files.release(full).unwrap();
    assert_eq!(attributes(&files, large).size, 100_001);
    let report = files.check().unwrap();
    assert!(report.is_whole() && report.orphans == 0, "{report}");
    // The file system heals.
    let healed = (0..2000).any(|_| {
        let written = files.write_file(b"/again", &vec![9; 1 << 20], 0o644);
        if written.is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        written.is_ok()
    });
    assert!(healed, "{}", db.stats());
    // It can be opened on a full disk, too.
    fill(&files, third);
    drop(files);
    db.close().unwrap();
    let db = Options::new()
        .memory(16 << 20)
        .open_in(Arc::new(disk.clone()))
        .unwrap();
    let files = Files::open(&db, "test").unwrap();
    files.unlink(ROOT, b"third").unwrap();
    assert!(files.check().unwrap().is_whole());
}

#[test]
fn a_store_that_is_open_for_reading_shows_its_files() {
    let disk = SimDirectory::new(1);
    let options = Options::new().memory(16 << 20);
    let db = options.open_in(Arc::new(disk.clone())).unwrap();
    let files = Files::open(&db, "test").unwrap();
    files.write_file(b"/file", b"text", 0o644).unwrap();
    let held = files.resolve(b"/file").unwrap();
    files.hold(held).unwrap();
    files.unlink(ROOT, b"file").unwrap();
    files.write_file(b"/file", b"other", 0o644).unwrap();
    drop(files);
    db.close().unwrap();
    let db = options.open_read_only_in(Arc::new(disk.clone())).unwrap();
    let files = Files::open(&db, "test").unwrap();
    assert_eq!(files.read_file(b"/file").unwrap(), b"other");
    fails(files.unlink(ROOT, b"file"), ErrorKind::ReadOnly);
    fails(
        files.create(ROOT, b"x", &node(FileKind::Regular)),
        ErrorKind::ReadOnly,
    );
    fails(Files::open(&db, "none"), ErrorKind::ReadOnly);
    assert_eq!(files.check().unwrap().orphans, 1);
}

#[test]
fn orphans_of_a_process_that_ended_are_removed_by_the_next_opening() {
    let disk = SimDirectory::new(1);
    let open = |disk: &SimDirectory| {
        let db = Options::new()
            .memory(16 << 20)
            .open_in(Arc::new(disk.clone()))
            .unwrap();
        let files = Files::open_with(&db, "test", &stepping_options(512, 0)).unwrap();
        (db, files)
    };
    let (db, files) = open(&disk);
    for number in 0..200 {
        let inode = file(&files, ROOT, b"file");
        files.write(inode, WritePosition::At(number), &[1; 600]).unwrap();
        files.hold(inode).unwrap();
        files.unlink(ROOT, b"file").unwrap();
    }
    assert_eq!(files.check().unwrap().orphans, 200);
    drop(files);
    db.close().unwrap();
    let (_db, files) = open(&disk);
    let report = files.check().unwrap();
    assert_eq!((report.orphans, report.blocks, report.files), (0, 0, 0));
    assert!(report.is_whole(), "{report}");
}

#[test]
fn blocks_are_kept_in_ordered_structures_on_disk_only() {
    for structure in ["tiered", "levels,f=3,scan=8,values=moved", "paged"] {
        let options = FilesOptions::new()
            .block_bytes(512)
            .inline_bytes(0)
            .blocks(structure.parse().unwrap());
        let place = TestPlace::with(&options);
        let files = &place.files;
        let inode = files.write_file(b"/a", &[7; 5000], 0o644).unwrap();
        files.write(inode, WritePosition::At(700), b"middle").unwrap();
        files.write(inode, WritePosition::End, b"end").unwrap();
        let cut = AttributeChange {
            size: Some(1500),
            ..AttributeChange::default()
        };
        files.set_attributes(inode, &cut).unwrap();
        place.db.checkpoint().unwrap();
        let mut expected = vec![7; 1500];
        expected[700..706].copy_from_slice(b"middle");
        assert_eq!(files.read_file(b"/a").unwrap(), expected, "{structure}");
        files.unlink(Inode::ROOT, b"a").unwrap();
        assert_eq!(files.check().unwrap().blocks, 0, "{structure}");
        place.verify();
    }
    for structure in ["hashed", "volatile,bytes=4M"] {
        let db = Options::new().memory(16 << 20).in_memory().unwrap();
        let options = FilesOptions::new().blocks(structure.parse().unwrap());
        let refused = Files::open_with(&db, "test", &options).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{structure}");
        assert!(refused.to_string().contains("choose tiered"), "{refused}");
        assert!(Files::list(&db).is_empty());
    }
}
