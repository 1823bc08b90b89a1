//! Branches: what their commits do, what conflicts, and what else touches them.

mod crashes;
mod model;

use super::{TestPlace, attributes, directory, fails, file, names, node, size};
use crate::{
    AttributeChange, Error, ErrorKind, FileKind, FilePaths, FileSystem, Files, Inode, PathChangeKind,
    RenameMode, Result, SetMode, WritePosition,
};
use alluvium::Options;
use alluvium::simulation::DirectoryOpener;
use alluvium_device::simulated::SimDirectory;
use std::sync::Arc;

const ROOT: Inode = Inode::ROOT;

/// Runs changes in a branch.
fn within<T>(files: &Files, name: &str, body: impl FnOnce(&dyn FileSystem) -> T) -> T {
    body(&files.open_branch(name).unwrap())
}

/// A change of files.
type Change<'c> = &'c dyn Fn(&dyn FileSystem) -> Result<()>;

/// Prepares files, changes them in two branches, and commits both. Returns the error of the second
/// commit. The outcome must be the same if the first change happens without a branch.
#[track_caller]
fn side_by_side(prepare: Change<'_>, one: Change<'_>, other: Change<'_>) -> Option<Error> {
    let mut outcomes = Vec::new();
    for is_direct in [false, true] {
        let place = TestPlace::new();
        prepare(&place.files).unwrap();
        place.files.begin_branch("one", None).unwrap();
        place.files.begin_branch("other", None).unwrap();
        within(&place.files, "one", |files| one(files).unwrap());
        within(&place.files, "other", |files| other(files).unwrap());
        place.verify();
        match is_direct {
            true => one(&place.files).unwrap(),
            false => place.files.commit_branch("one").unwrap(),
        }
        let before = place.files.freeze();
        let second = place.files.commit_branch("other");
        place.verify();
        if let Err(error) = &second {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert!(!error.paths().is_empty(), "{error}");
            assert!(place.db.changes_since(before.sequence()).unwrap().count() == 0);
            // It stays, and can be aborted.
            place.files.abort_branch("other").unwrap();
            place.verify();
        }
        outcomes.push(second.err());
    }
    assert_eq!(outcomes[0].is_some(), outcomes[1].is_some(), "{outcomes:?}");
    outcomes.swap_remove(0)
}

#[track_caller]
fn conflict(prepare: Change<'_>, one: Change<'_>, other: Change<'_>) -> Vec<Vec<u8>> {
    let error = side_by_side(prepare, one, other).expect("the branches must conflict");
    for path in error.paths() {
        let shown = path.escape_ascii().to_string();
        assert!(error.to_string().contains(&shown), "{error} and {shown}");
    }
    error.paths().to_vec()
}

#[track_caller]
fn no_conflict(prepare: Change<'_>, one: Change<'_>, other: Change<'_>) {
    let error = side_by_side(prepare, one, other);
    assert!(error.is_none(), "{error:?}");
}

fn tree(files: &dyn FileSystem) -> Result<()> {
    files.create_directories(b"/a/b", 0o755)?;
    files.write_file(b"/a/b/f", b"one", 0o644)?;
    files.write_file(b"/a/g", &[1; 3000], 0o644)?;
    files.create_directories(b"/c", 0o755).map(drop)
}

/// Returns a change that renames a path.
fn moved(from: &'static [u8], to: &'static [u8]) -> impl Fn(&dyn FileSystem) -> Result<()> {
    move |files| {
        let (parent, name) = files.resolve_parent(from)?;
        let (new_parent, new_name) = files.resolve_parent(to)?;
        files.rename(parent, &name, new_parent, &new_name, RenameMode::Replace)
    }
}

fn written(path: &'static [u8]) -> impl Fn(&dyn FileSystem) -> Result<()> {
    move |files| files.write_file(path, b"new", 0o644).map(drop)
}

fn removed(path: &'static [u8]) -> impl Fn(&dyn FileSystem) -> Result<()> {
    move |files| files.remove_all(path).map(drop)
}

#[test]
fn a_branch_is_seen_by_itself_only_until_it_is_committed() {
    let place = TestPlace::new();
    let files = &place.files;
    tree(files).unwrap();
    files.begin_branch("work", None).unwrap();
    within(files, "work", |branch| {
        branch.write_file(b"/a/b/f", b"two", 0o644).unwrap();
        branch.write_file(b"/a/b/new", &[9; 5000], 0o600).unwrap();
        branch.remove_all(b"/c").unwrap();
        let g = branch.resolve(b"/a/g").unwrap();
        branch
            .write(g, WritePosition::At(1000), b"in the middle")
            .unwrap();
        branch.write(g, WritePosition::End, b"at the end").unwrap();
    });
    assert_eq!(files.read_file(b"/a/b/f").unwrap(), b"one");
    fails(files.resolve(b"/a/b/new"), ErrorKind::NotFound);
    // The other file system changes as well.
    files.write_file(b"/a/b/other", b"other", 0o644).unwrap();
    within(files, "work", |branch| {
        fails(branch.resolve(b"/a/b/other"), ErrorKind::NotFound);
        assert_eq!(branch.read_file(b"/a/b/new").unwrap(), vec![9; 5000]);
    });
    let changes = files.branch_changes("work").unwrap();
    let shown: Vec<_> = changes
        .iter()
        .map(|change| (&change.path[..], change.change))
        .collect();
    assert_eq!(
        shown,
        [
            (&b"/a/b/f"[..], PathChangeKind::Changed),
            (b"/a/b/new", PathChangeKind::Added),
            (b"/a/g", PathChangeKind::Changed),
            (b"/c", PathChangeKind::Removed),
        ]
    );
    place.verify();
    files.commit_branch("work").unwrap();
    let mut expected = vec![1; 3000];
    expected[1000..1013].copy_from_slice(b"in the middle");
    expected.extend_from_slice(b"at the end");
    assert_eq!(files.read_file(b"/a/g").unwrap(), expected);
    assert_eq!(
        names(files, files.resolve(b"/a/b").unwrap()),
        [&b"f"[..], b"new", b"other"]
    );
    fails(files.resolve(b"/c"), ErrorKind::NotFound);
    assert!(files.branches().unwrap().is_empty());
    fails(files.open_branch("work"), ErrorKind::NotFound);
    place.verify();
    // Nothing is left of it in the store.
    let keyspace = place.db.existing_keyspace("files.test.branches").unwrap();
    let keys: Vec<_> = keyspace.iter().keys().map(|key| key.unwrap()).collect();
    assert_eq!(keys, [b"n"]);
    assert!(place.db.snapshots().is_empty());
}

#[test]
fn branches_conflict_where_transactions_do() {
    assert_eq!(
        conflict(&tree, &written(b"/a/b/f"), &written(b"/a/b/f")),
        [b"/a/b/f"]
    );
    no_conflict(&tree, &written(b"/a/b/f"), &written(b"/a/g"));
    no_conflict(&tree, &written(b"/a/x"), &written(b"/a/y"));
    assert_eq!(conflict(&tree, &written(b"/a/x"), &written(b"/a/x")), [b"/a/x"]);
    // A name that was created and removed depends on its absence, as in a transaction.
    let passing = |files: &dyn FileSystem| {
        files.write_file(b"/a/x", b"", 0o644)?;
        files.remove_all(b"/a/x").map(drop)
    };
    assert_eq!(conflict(&tree, &written(b"/a/x"), &passing), [b"/a/x"]);
    no_conflict(&tree, &passing, &written(b"/a/x"));
    no_conflict(&tree, &passing, &passing);
    // A directory is renamed or removed above a change.
    no_conflict(&tree, &moved(b"/a", b"/c/a"), &written(b"/a/b/f"));
    no_conflict(&tree, &written(b"/a/b/f"), &moved(b"/a", b"/c/a"));
    no_conflict(&tree, &moved(b"/a", b"/z"), &written(b"/a/b/new"));
    assert!(!conflict(&tree, &removed(b"/a"), &written(b"/a/b/new")).is_empty());
    assert!(!conflict(&tree, &written(b"/a/b/new"), &removed(b"/a")).is_empty());
    assert!(conflict(&tree, &written(b"/c/new"), &removed(b"/c")).contains(&b"/c".to_vec()));
    assert_eq!(conflict(&tree, &removed(b"/c"), &written(b"/c/new")), [b"/c"]);
    // Two directories must not come to lie in each other.
    assert!(!conflict(&tree, &moved(b"/a/b", b"/c/b"), &moved(b"/c", b"/a/b/c")).is_empty());
    // Modes decide what may be created.
    let chmod = |files: &dyn FileSystem| {
        let change = AttributeChange {
            mode: Some(0o700),
            ..AttributeChange::default()
        };
        files.set_attributes(files.resolve(b"/a")?, &change).map(drop)
    };
    assert_eq!(conflict(&tree, &chmod, &written(b"/a/x")), [b"/a"]);
    no_conflict(&tree, &chmod, &written(b"/a/b/f"));
    // Extended attributes, and other names of a file.
    let attribute = |files: &dyn FileSystem| {
        files.set_extended_attribute(files.resolve(b"/a/g")?, b"user.a", b"1", SetMode::Any)
    };
    let link = |files: &dyn FileSystem| {
        let (inode, parent) = (files.resolve(b"/a/g")?, files.resolve(b"/c")?);
        files.link(inode, parent, b"linked").map(drop)
    };
    assert_eq!(conflict(&tree, &attribute, &attribute), [b"/a/g"]);
    assert_eq!(conflict(&tree, &attribute, &link), [b"/a/g"]);
    no_conflict(&tree, &attribute, &written(b"/a/b/f"));
}

#[test]
fn a_branch_of_a_branch_changes_that_one_only() {
    let place = TestPlace::new();
    let files = &place.files;
    tree(files).unwrap();
    files.begin_branch("outer", None).unwrap();
    within(files, "outer", |outer| {
        outer.write_file(b"/a/b/f", b"two", 0o644).unwrap();
        outer.create_directories(b"/d/e", 0o755).unwrap();
    });
    files.begin_branch("inner", Some("outer")).unwrap();
    within(files, "inner", |inner| {
        assert_eq!(inner.read_file(b"/a/b/f").unwrap(), b"two");
        inner.write_file(b"/a/b/f", b"three", 0o644).unwrap();
        inner.remove_all(b"/d/e").unwrap();
        inner.write_file(b"/d/new", b"new", 0o644).unwrap();
        moved(b"/c", b"/d/c")(inner).unwrap();
    });
    let changes = files.branch_changes("inner").unwrap();
    let paths: Vec<_> = changes.iter().map(|change| &change.path[..]).collect();
    assert_eq!(paths, [&b"/a/b/f"[..], b"/c", b"/d/c", b"/d/e", b"/d/new"]);
    fails(
        files.begin_branch("third", Some("inner")),
        ErrorKind::InvalidArgument,
    );
    fails(files.commit_branch("outer"), ErrorKind::Busy);
    fails(files.abort_branch("outer"), ErrorKind::Busy);
    place.verify();
    files.commit_branch("inner").unwrap();
    place.verify();
    assert_eq!(files.read_file(b"/a/b/f").unwrap(), b"one");
    within(files, "outer", |outer| {
        assert_eq!(outer.read_file(b"/a/b/f").unwrap(), b"three");
        assert_eq!(names(outer, outer.resolve(b"/d").unwrap()), [&b"c"[..], b"new"]);
    });
    // What the inner one depends on, the outer one depends on now.
    files.remove_all(b"/c").unwrap();
    let error = files.commit_branch("outer").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(error.paths()[0], b"/c");
    files.abort_branch("outer").unwrap();
    place.verify();
    assert_eq!(place.db.snapshots().len(), 0);
    // An inner branch conflicts with its outer one.
    files.begin_branch("outer", None).unwrap();
    files.begin_branch("inner", Some("outer")).unwrap();
    for name in ["outer", "inner"] {
        within(files, name, |branch| {
            branch.write_file(b"/a/g", name.as_bytes(), 0o644).unwrap()
        });
    }
    let error = files.commit_branch("inner").unwrap_err();
    assert_eq!(error.paths(), [b"/a/g"], "{error}");
    files.abort_branch("inner").unwrap();
    files.commit_branch("outer").unwrap();
    assert_eq!(files.read_file(b"/a/g").unwrap(), b"outer");
    place.verify();
}

#[test]
fn inodes_that_others_hold_survive_the_commit_of_their_removal() {
    let place = TestPlace::new();
    let files = &place.files;
    tree(files).unwrap();
    let (f, g) = (files.resolve(b"/a/b/f").unwrap(), files.resolve(b"/a/g").unwrap());
    files.hold(f).unwrap();
    files.begin_branch("work", None).unwrap();
    within(files, "work", |branch| {
        // The view of the branch holds one that it removes as well.
        branch.hold(g).unwrap();
        branch.remove_all(b"/a").unwrap();
        assert_eq!(branch.read(g, 0, 4).unwrap(), [1; 4]);
        branch.release(g).unwrap();
        let unnamed = branch
            .create_unnamed(ROOT, &node(FileKind::Regular))
            .unwrap()
            .inode;
        branch.write(unnamed, WritePosition::End, &[7; 2000]).unwrap();
        // It stays without a name, as after the end of the process.
    });
    place.verify();
    files.commit_branch("work").unwrap();
    assert_eq!(files.read(f, 0, 10).unwrap(), b"one");
    fails(files.attributes(g), ErrorKind::Stale);
    assert_eq!(files.check().unwrap().orphans, 1);
    files.release(f).unwrap();
    fails(files.attributes(f), ErrorKind::Stale);
    assert_eq!(files.check().unwrap().orphans, 0);
    place.verify();
}

#[test]
fn snapshots_and_branches_do_not_touch_each_other() {
    let place = TestPlace::new();
    let files = &place.files;
    tree(files).unwrap();
    files.create_snapshot("before").unwrap();
    files.begin_branch("work", None).unwrap();
    within(files, "work", |branch| {
        branch.write_file(b"/a/b/f", b"two", 0o644).unwrap()
    });
    files.create_snapshot("meanwhile").unwrap();
    assert_eq!(files.snapshots(), ["before", "meanwhile"]);
    files.remove_snapshot("before").unwrap();
    files.commit_branch("work").unwrap();
    let meanwhile = files.open_snapshot("meanwhile").unwrap();
    assert_eq!(meanwhile.read_file(b"/a/b/f").unwrap(), b"one");
    assert!(meanwhile.check().unwrap().is_whole());
    assert_eq!(files.read_file(b"/a/b/f").unwrap(), b"two");
    let versions = files.history(b"/a/b/f").unwrap();
    let shown: Vec<_> = versions
        .iter()
        .map(|version| (version.snapshots.join(" "), version.is_newest))
        .collect();
    assert_eq!(shown, [("meanwhile".to_owned(), false), (String::new(), true)]);
    place.verify();
}

#[test]
fn names_that_are_wrong_or_unknown_are_refused_with_what_there_is() {
    let place = TestPlace::new();
    let files = &place.files;
    for name in ["", "a b", "a/b", "ä", "..", &"x".repeat(65)] {
        fails(files.begin_branch(name, None), ErrorKind::InvalidArgument);
        fails(files.open_branch(name), ErrorKind::NotFound);
        fails(files.commit_branch(name), ErrorKind::NotFound);
        fails(files.abort_branch(name), ErrorKind::NotFound);
    }
    let error = files.open_branch("b").unwrap_err();
    assert!(error.to_string().contains("tx begin"), "{error}");
    files.begin_branch("a", None).unwrap();
    fails(files.begin_branch("a", None), ErrorKind::Exists);
    fails(files.begin_branch("b", Some("c")), ErrorKind::NotFound);
    let error = files.commit_branch("b").unwrap_err();
    assert!(error.to_string().contains("\"a\""), "{error}");
    let other = Files::open(&place.db, "other").unwrap();
    fails(other.begin_branch("a", None), ErrorKind::Exists);
    other.begin_branch("z", None).unwrap();
    let all = Files::all_branches(&place.db).unwrap();
    let shown: Vec<_> = all
        .iter()
        .map(|branch| (&branch.name[..], &branch.files[..]))
        .collect();
    assert_eq!(shown, [("a", "test"), ("z", "other")]);
    place.verify();
}

#[test]
fn a_branch_in_use_does_not_end_and_an_ended_one_is_not_used() {
    let place = TestPlace::new();
    let files = &place.files;
    files.begin_branch("work", None).unwrap();
    let branch = files.open_branch("work").unwrap();
    fails(files.commit_branch("work"), ErrorKind::Busy);
    fails(files.abort_branch("work"), ErrorKind::Busy);
    let second = files.open_branch("work").unwrap();
    file(&branch, ROOT, b"x");
    assert_eq!(names(&second, ROOT), [b"x"], "views share a branch");
    drop((branch, second));
    files.commit_branch("work").unwrap();
    assert_eq!(names(files, ROOT), [b"x"]);
    // The file system is removed under a view of a branch, and another one gets its name.
    files.begin_branch("work", None).unwrap();
    let branch = files.open_branch("work").unwrap();
    Files::remove(&place.db, "test").unwrap();
    fails(branch.read_directory(ROOT, None, 10), ErrorKind::Stale);
    let again = Files::open(&place.db, "test").unwrap();
    fails(
        branch.create(ROOT, b"y", &node(FileKind::Regular)),
        ErrorKind::Stale,
    );
    fails(again.open_branch("work"), ErrorKind::NotFound);
    again.begin_branch("work", None).unwrap();
    fails(
        branch.create(ROOT, b"y", &node(FileKind::Regular)),
        ErrorKind::Stale,
    );
    assert!(names(&again.open_branch("work").unwrap(), ROOT).is_empty());
    assert!(again.check().unwrap().is_whole());
}

#[test]
fn a_full_disk_stops_a_commit_before_it_begins_and_an_abort_frees_it() {
    let disk = SimDirectory::new(1);
    disk.set_capacity(96 << 20);
    let db = Options::new()
        .memory(16 << 20)
        .open_in(Arc::new(disk.clone()))
        .unwrap();
    let files = Files::open(&db, "test").unwrap();
    files.write_file(b"/kept", b"one", 0o644).unwrap();
    files.begin_branch("work", None).unwrap();
    let error = within(&files, "work", |branch| {
        branch.write_file(b"/kept", b"two", 0o644).unwrap();
        let large = file(branch, ROOT, b"large");
        loop {
            if let Err(error) = branch.write(large, WritePosition::End, &[7; 64 << 10]) {
                break error;
            }
        }
    });
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    let error = files.commit_branch("work").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(files.read_file(b"/kept").unwrap(), b"one");
    assert_eq!(names(&files, ROOT), [b"kept"]);
    let report = files.check().unwrap();
    assert!(report.is_whole() && report.branches == 1, "{report}");
    files.abort_branch("work").unwrap();
    let healed = (0..2000).any(|_| {
        let written = files.write_file(b"/after", &vec![9; 4 << 20], 0o644);
        if written.is_err() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        written.is_ok()
    });
    assert!(healed, "{}", db.stats());
    assert!(files.check().unwrap().is_whole());
}

#[test]
fn damaged_records_of_branches_are_found_and_can_be_aborted() {
    let place = TestPlace::new();
    let files = &place.files;
    tree(files).unwrap();
    files.begin_branch("work", None).unwrap();
    within(files, "work", |branch| tree(branch).unwrap());
    within(files, "work", |branch| {
        branch.write_file(b"/a/g", b"x", 0o644).unwrap()
    });
    let keyspace = place.db.existing_keyspace("files.test.branches").unwrap();
    let records: Vec<_> = keyspace.iter().map(|record| record.unwrap()).collect();
    let mut random = fastrand::Rng::with_seed(3);
    for (key, value) in &records {
        let headers = key.starts_with(b"b") || key == b"n";
        for damaged in [b"".to_vec(), b"\x09".to_vec(), vec![random.u8(..); 40]] {
            keyspace.put(key, &damaged).unwrap();
            // Errors, and no panic. A header that cannot be read hides its branch.
            let _ = files.check().map(|report| report.to_string());
            let _ = (
                files.branches(),
                files.branch_changes("work"),
                files.open_branch("work"),
            );
            let _ = Files::all_branches(&place.db);
            if !headers && damaged == b"\x09" && key.starts_with(b"r") {
                assert!(!files.check().unwrap().is_whole(), "{}", key.escape_ascii());
            }
        }
        keyspace.put(key, value).unwrap();
    }
    keyspace.put(b"r\0\0\0\0\0\0\0\x09\x01key", b"\x01").unwrap();
    keyspace.put(b"?", b"").unwrap();
    let report = files.check().unwrap();
    assert!(report.to_string().contains("which does not exist"), "{report}");
    assert!(report.to_string().contains("is unknown"), "{report}");
    keyspace.delete(b"?").unwrap();
    keyspace.delete(b"r\0\0\0\0\0\0\0\x09\x01key").unwrap();
    place.verify();
    place.db.remove_snapshot("files.test:1").unwrap();
    let report = files.check().unwrap();
    assert!(report.to_string().contains("abort"), "{report}");
    fails(files.open_branch("work"), ErrorKind::Damaged);
    fails(files.commit_branch("work"), ErrorKind::Damaged);
    files.abort_branch("work").unwrap();
    place.verify();
}

#[test]
fn large_files_are_cut_and_grow_in_a_branch_as_without() {
    let place = TestPlace::new();
    let files = &place.files;
    let contents: Vec<u8> = (0..60_000u32).map(|at| (at % 251) as u8).collect();
    files.write_file(b"/large", &contents, 0o644).unwrap();
    let large = files.resolve(b"/large").unwrap();
    files.begin_branch("work", None).unwrap();
    within(files, "work", |branch| {
        branch.set_attributes(large, &size(20_000)).unwrap();
        branch.set_attributes(large, &size(70_000)).unwrap();
        branch.write(large, WritePosition::At(50_000), b"island").unwrap();
        assert_eq!(attributes(branch, large).size, 70_000);
        let gone = directory(branch, ROOT, b"gone");
        file(branch, gone, b"x");
        branch.remove_all(b"/gone").unwrap();
    });
    let mut expected = contents;
    expected.truncate(20_000);
    expected.resize(70_000, 0);
    expected[50_000..50_006].copy_from_slice(b"island");
    place.verify();
    within(files, "work", |branch| {
        assert_eq!(branch.read_file(b"/large").unwrap(), expected);
    });
    files.commit_branch("work").unwrap();
    assert_eq!(files.read_file(b"/large").unwrap(), expected);
    place.verify();
}

#[test]
fn branches_of_several_threads_and_single_operations_all_take_effect() {
    let place = TestPlace::new();
    let shared = directory(&place.files, ROOT, b"shared");
    place.files.begin_branch("outer", None).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let files = place.files.another_view();
            scope.spawn(move || {
                for round in 0..6 {
                    let name = format!("branch-{thread}-{round}");
                    // One thread works in branches of a branch.
                    let parent = (thread == 2).then_some("outer");
                    files.begin_branch(&name, parent).unwrap();
                    within(&files, &name, |branch| {
                        file(branch, shared, name.as_bytes());
                        directory(branch, shared, format!("d{name}").as_bytes());
                    });
                    file(&files, shared, format!("single-{thread}-{round}").as_bytes());
                    files.commit_branch(&name).unwrap();
                }
            });
        }
    });
    assert_eq!(names(&place.files, shared).len(), 2 * 6 * 2 + 3 * 6);
    assert_eq!(attributes(&place.files, shared).links, 2 + 12);
    place.verify();
    place.files.commit_branch("outer").unwrap();
    assert_eq!(names(&place.files, shared).len(), 3 * 6 * 2 + 3 * 6);
    assert_eq!(attributes(&place.files, shared).links, 2 + 18);
    place.verify();
}
