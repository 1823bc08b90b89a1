//! What transactions depend on, and what conflicts.

use super::{TestPlace, attributes, directory, fails, file, names, node, size};
use crate::{
    AttributeChange, ErrorKind, FileKind, FilePaths, FileSystem, FilesTransaction, Inode, RenameMode, Result,
    TimeChange, Timestamp, WritePosition,
};
use alluvium::{Concurrency, Durability, Isolation, TransactionOptions};
use std::time::Duration;

const ROOT: Inode = Inode::ROOT;

/// All isolation levels of optimistic transactions.
fn levels() -> [TransactionOptions; 2] {
    [Isolation::Serializable, Isolation::Snapshot].map(|level| TransactionOptions::new().isolation(level))
}

/// A change in a transaction.
type TransactionChange<'c> = &'c dyn Fn(&FilesTransaction) -> Result<()>;

/// Runs two transactions side by side, in both orders of commits and at both levels, each time in a
/// new file system that `prepare` has filled. Returns the error of the second commit, which must be
/// the same every time.
#[track_caller]
fn side_by_side(prepare: &dyn Fn(&TestPlace), changes: [TransactionChange<'_>; 2]) -> Option<Vec<Vec<u8>>> {
    let mut outcomes = Vec::new();
    for options in levels() {
        for order in [[0, 1], [1, 0]] {
            let place = TestPlace::new();
            prepare(&place);
            let both = changes.map(|change| {
                let transaction = place.files.begin_with(&options);
                change(&transaction).unwrap();
                transaction
            });
            both[order[0]].commit().unwrap();
            let second = both[order[1]].commit();
            place.verify();
            outcomes.push(second.err().map(|error| {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                error.paths().to_vec()
            }));
        }
    }
    let first = outcomes[0].is_some();
    assert!(
        outcomes.iter().all(|outcome| outcome.is_some() == first),
        "the outcome depends on the order or the level: {outcomes:?}"
    );
    outcomes.swap_remove(0)
}

#[track_caller]
fn conflict(
    prepare: &dyn Fn(&TestPlace),
    one: TransactionChange<'_>,
    other: TransactionChange<'_>,
) -> Vec<Vec<u8>> {
    side_by_side(prepare, [one, other]).expect("the transactions must conflict")
}

#[track_caller]
fn no_conflict(prepare: &dyn Fn(&TestPlace), one: TransactionChange<'_>, other: TransactionChange<'_>) {
    let paths = side_by_side(prepare, [one, other]);
    assert_eq!(paths, None, "the transactions must not conflict");
}

fn tree(place: &TestPlace) {
    place.files.create_directories(b"/a/b", 0o755).unwrap();
    place.files.create_directories(b"/c/d", 0o755).unwrap();
    place.files.write_file(b"/a/file", &[1; 2000], 0o644).unwrap();
    place.files.write_file(b"/c/other", &[2; 2000], 0o644).unwrap();
}

fn create(transaction: &FilesTransaction, path: &[u8]) -> Result<()> {
    transaction.write_file(path, b"text", 0o644).map(drop)
}

fn rename(transaction: &FilesTransaction, from: &[u8], to: &[u8]) -> Result<()> {
    let ((parent, name), (to, new)) = (transaction.resolve_parent(from)?, transaction.resolve_parent(to)?);
    transaction.rename(parent, &name, to, &new, RenameMode::Replace)
}

fn remove_directory(transaction: &FilesTransaction, path: &[u8]) -> Result<()> {
    let (parent, name) = transaction.resolve_parent(path)?;
    transaction.remove_directory(parent, &name)
}

#[test]
fn different_names_in_one_directory_do_not_conflict() {
    no_conflict(&tree, &|one| create(one, b"/a/1"), &|other| {
        create(other, b"/a/2")
    });
    no_conflict(
        &tree,
        &|one| one.create_directories(b"/a/x", 0o755).map(drop),
        &|other| other.create_directories(b"/a/y", 0o755).map(drop),
    );
    no_conflict(&tree, &|one| create(one, b"/a/1"), &|other| {
        other.remove_all(b"/a/file")
    });
    // Looking at the directory that both change does not make them conflict either.
    let look = |transaction: &FilesTransaction, path: &[u8]| {
        create(transaction, path)?;
        let a = transaction.resolve(b"/a")?;
        transaction.attributes(a)?;
        create(transaction, &[path, b"again"].concat())
    };
    no_conflict(&tree, &|one| look(one, b"/a/1"), &|other| look(other, b"/a/2"));
}

#[test]
fn the_same_name_conflicts() {
    let paths = conflict(&tree, &|one| create(one, b"/a/1"), &|other| {
        create(other, b"/a/1")
    });
    assert_eq!(paths, [b"/a/1"]);
    conflict(&tree, &|one| rename(one, b"/a/file", b"/a/1"), &|other| {
        create(other, b"/a/1")
    });
    conflict(&tree, &|one| one.remove_all(b"/a/file"), &|other| {
        other.remove_all(b"/a/file")
    });
    conflict(&tree, &|one| rename(one, b"/a/file", b"/1"), &|other| {
        rename(other, b"/a/file", b"/2")
    });
}

#[test]
fn removing_a_directory_conflicts_with_a_new_name_in_it() {
    let paths = conflict(&tree, &|one| remove_directory(one, b"/a/b"), &|other| {
        create(other, b"/a/b/1")
    });
    assert!(paths == [b"/a/b"] || paths == [b"/a/b/1"], "{paths:?}");
    conflict(&tree, &|one| remove_directory(one, b"/a/b"), &|other| {
        rename(other, b"/c/other", b"/a/b/1")
    });
    conflict(&tree, &|one| rename(one, b"/c/d", b"/a/b"), &|other| {
        create(other, b"/a/b/1")
    });
    no_conflict(&tree, &|one| remove_directory(one, b"/a/b"), &|other| {
        create(other, b"/a/1")
    });
    no_conflict(&tree, &|one| remove_directory(one, b"/a/b"), &|other| {
        remove_directory(other, b"/c/d")
    });
}

#[test]
fn renames_that_would_make_a_circle_together_conflict() {
    let two = |place: &TestPlace| {
        place.files.create_directories(b"/a", 0o755).unwrap();
        place.files.create_directories(b"/b", 0o755).unwrap();
    };
    conflict(&two, &|one| rename(one, b"/a", b"/b/c"), &|other| {
        rename(other, b"/b", b"/a/d")
    });
    // Deeper, and without touching the other's directory itself.
    conflict(&tree, &|one| rename(one, b"/a", b"/c/d/x"), &|other| {
        rename(other, b"/c", b"/a/b/y")
    });
    no_conflict(&tree, &|one| rename(one, b"/a/b", b"/c/b"), &|other| {
        rename(other, b"/c/d", b"/a/d")
    });
    no_conflict(&tree, &|one| rename(one, b"/a", b"/z"), &|other| {
        create(other, b"/c/1")
    });
}

#[test]
fn changes_of_one_file_conflict_and_of_two_do_not() {
    let write = |transaction: &FilesTransaction, path: &[u8], at| {
        let inode = transaction.resolve(path)?;
        transaction.write(inode, WritePosition::At(at), b"new").map(drop)
    };
    let paths = conflict(&tree, &|one| write(one, b"/a/file", 0), &|other| {
        write(other, b"/a/file", 1500)
    });
    assert_eq!(paths, [b"/a/file"]);
    no_conflict(&tree, &|one| write(one, b"/a/file", 0), &|other| {
        write(other, b"/c/other", 0)
    });
    conflict(&tree, &|one| write(one, b"/a/file", 0), &|other| {
        let inode = other.resolve(b"/a/file")?;
        other.set_attributes(inode, &size(10)).map(drop)
    });
    conflict(&tree, &|one| write(one, b"/a/file", 0), &|other| {
        other.remove_all(b"/a/file")
    });
}

/// Without a lookup before, the operation alone depends on what it has checked.
#[test]
fn operations_by_inode_depend_on_what_they_have_checked() {
    let create = |transaction: &FilesTransaction, parent, name: &[u8]| {
        let created = transaction.create(parent, name, &node(FileKind::Regular));
        created.map(drop)
    };
    let inner = |place: &TestPlace| assert_eq!(directory(&place.files, ROOT, b"inner"), Inode(2));
    // The first inode that a file system creates.
    let inode = Inode(2);
    conflict(&inner, &|one| create(one, inode, b"x"), &|other| {
        create(other, inode, b"x")
    });
    conflict(&inner, &|one| create(one, inode, b"x"), &|other| {
        other.remove_directory(ROOT, b"inner")
    });
    let one_file = |place: &TestPlace| assert_eq!(file(&place.files, ROOT, b"file"), Inode(2));
    conflict(
        &one_file,
        &|one| one.link(inode, ROOT, b"x").map(drop),
        &|other| other.unlink(ROOT, b"file"),
    );
    conflict(
        &one_file,
        &|one| one.write(inode, WritePosition::End, b"x").map(drop),
        &|other| other.write(inode, WritePosition::End, b"y").map(drop),
    );
    conflict(
        &one_file,
        &|one| one.rename(ROOT, b"file", ROOT, b"x", RenameMode::Keep),
        &|other| create(other, ROOT, b"x"),
    );
}

#[test]
fn link_counts_are_right_whoever_commits_first() {
    let linked = |place: &TestPlace| {
        tree(place);
        let inode = place.files.resolve(b"/a/file").unwrap();
        place.files.link(inode, ROOT, b"second").unwrap();
    };
    conflict(&linked, &|one| one.remove_all(b"/a/file"), &|other| {
        other.remove_all(b"/second")
    });
    let link = |transaction: &FilesTransaction, name: &[u8]| {
        let inode = transaction.resolve(b"/a/file")?;
        transaction.link(inode, ROOT, name).map(drop)
    };
    conflict(&tree, &|one| link(one, b"x"), &|other| link(other, b"y"));
}

#[test]
fn a_serializable_transaction_depends_on_what_it_has_read() {
    let decide = |transaction: &FilesTransaction| {
        let a = transaction.resolve(b"/a")?;
        let count = transaction.read_directory(a, None, 100)?.len();
        transaction
            .write_file(b"/count", count.to_string().as_bytes(), 0o644)
            .map(drop)
    };
    let place = TestPlace::new();
    tree(&place);
    for (isolation, is_committed) in [(Isolation::Serializable, false), (Isolation::Snapshot, true)] {
        let options = TransactionOptions::new().isolation(isolation);
        let transaction = place.files.begin_with(&options);
        decide(&transaction).unwrap();
        let name = format!("/a/{isolation:?}");
        place.files.write_file(name.as_bytes(), b"", 0o644).unwrap();
        assert_eq!(transaction.commit().is_ok(), is_committed);
    }
    place.verify();
}

#[test]
fn a_single_operation_conflicts_like_a_transaction() {
    for options in levels() {
        let place = TestPlace::new();
        tree(&place);
        let transaction = place.files.begin_with(&options);
        create(&transaction, b"/a/b/1").unwrap();
        let a = place.files.resolve(b"/a").unwrap();
        place.files.remove_directory(a, b"b").unwrap();
        let error = transaction.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("\"/a/b"), "{error}");
        fails(transaction.attributes(ROOT), ErrorKind::Stale);
        fails(transaction.commit(), ErrorKind::Stale);
        place.verify();
    }
}

#[test]
fn times_of_a_directory_do_not_conflict() {
    let touch = |transaction: &FilesTransaction, seconds| {
        let change = AttributeChange {
            modified: Some(TimeChange::At(Timestamp {
                seconds,
                nanoseconds: 0,
            })),
            ..AttributeChange::default()
        };
        let inode = transaction.resolve(b"/a")?;
        transaction.set_attributes(inode, &change).map(drop)
    };
    no_conflict(&tree, &|one| touch(one, 1 << 40), &|other| create(other, b"/a/1"));
    no_conflict(&tree, &|one| touch(one, 1 << 40), &|other| touch(other, 1 << 41));
}

#[test]
fn a_transaction_shows_its_changes_to_itself_only() {
    let place = TestPlace::new();
    tree(&place);
    let transaction = place.files.begin();
    create(&transaction, b"/a/new").unwrap();
    transaction.remove_all(b"/c").unwrap();
    assert_eq!(transaction.read_file(b"/a/new").unwrap(), b"text");
    fails(transaction.resolve(b"/c/other"), ErrorKind::NotFound);
    fails(place.files.resolve(b"/a/new"), ErrorKind::NotFound);
    assert_eq!(place.files.read_file(b"/c/other").unwrap(), [2; 2000]);
    assert_eq!(attributes(&transaction, ROOT).links, 3);
    assert_eq!(attributes(&place.files, ROOT).links, 4);
    transaction.sync().unwrap();
    fails(place.files.resolve(b"/a/new"), ErrorKind::NotFound);
    transaction.commit_with(Durability::Disk).unwrap();
    assert_eq!(names(&place.files, ROOT), [b"a"]);
    place.verify();
    assert_eq!(place.files.check().unwrap().orphans, 0);

    let transaction = place.files.begin();
    transaction.remove_all(b"/a").unwrap();
    transaction.rollback();
    assert!(!transaction.is_open());
    assert_eq!(place.files.read_file(b"/a/new").unwrap(), b"text");
    place.verify();
}

#[test]
fn what_others_hold_outlives_a_transaction_that_removes_it() {
    let place = TestPlace::new();
    tree(&place);
    let inode = place.files.resolve(b"/a/file").unwrap();
    place.files.hold(inode).unwrap();
    let transaction = place.files.begin();
    transaction.remove_all(b"/a/file").unwrap();
    transaction.commit().unwrap();
    assert_eq!(place.files.read(inode, 0, 2).unwrap(), [1, 1]);
    assert_eq!(attributes(&place.files, inode).links, 0);
    place.verify();
    place.files.release(inode).unwrap();
    fails(place.files.attributes(inode), ErrorKind::Stale);

    // And what a transaction holds outlives the removal by others.
    let inode = place.files.resolve(b"/c/other").unwrap();
    let transaction = place.files.begin();
    transaction.hold(inode).unwrap();
    place.files.remove_all(b"/c/other").unwrap();
    assert_eq!(transaction.read(inode, 0, 2).unwrap(), [2, 2]);
    assert_eq!(place.files.check().unwrap().orphans, 1);
    drop(transaction);
    assert_eq!(place.files.check().unwrap().orphans, 0);
    place.verify();
}

#[test]
fn an_operation_that_fails_leaves_nothing_in_its_transaction() {
    let place = TestPlace::new();
    tree(&place);
    let options = TransactionOptions::new().max_write_bytes(10_000);
    let transaction = place.files.begin_with(&options);
    create(&transaction, b"/a/1").unwrap();
    let inode = transaction.resolve(b"/a/1").unwrap();
    let error = transaction
        .write(inode, WritePosition::At(0), &[1; 100_000])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(transaction.read_file(b"/a/1").unwrap(), b"text");
    transaction.commit().unwrap();
    assert_eq!(place.files.read_file(b"/a/1").unwrap(), b"text");
    place.verify();
}

#[test]
fn a_transaction_of_the_store_spans_files_and_keys() {
    let place = TestPlace::new();
    let index = place.db.keyspace("index").unwrap();
    for is_committed in [false, true] {
        let mut transaction = place.db.begin();
        let files = place.files.within(&mut transaction);
        files.write_file(b"/mail", b"Hello", 0o600).unwrap();
        files.with_transaction(|transaction| transaction.put(&index, "mail", "1").unwrap());
        let changes = files.finish();
        assert_eq!(changes.names(), [(ROOT, b"mail".to_vec())]);
        match is_committed {
            true => {
                transaction.commit().unwrap();
                place.files.announce(changes);
            }
            false => transaction.rollback(),
        }
        assert_eq!(place.files.resolve(b"/mail").is_ok(), is_committed);
        assert_eq!(index.contains("mail").unwrap(), is_committed);
    }
    let transaction = place.files.begin();
    transaction.remove_all(b"/mail").unwrap();
    transaction
        .with_transaction(|transaction| transaction.delete(&index, "mail"))
        .unwrap()
        .unwrap();
    transaction.commit().unwrap();
    assert!(!index.contains("mail").unwrap() && names(&place.files, ROOT).is_empty());
    place.verify();
}

#[test]
fn a_locking_transaction_keeps_others_waiting() {
    let place = TestPlace::new();
    tree(&place);
    let options = TransactionOptions::new()
        .concurrency(Concurrency::Locking)
        .lock_timeout(Duration::from_millis(1));
    let one = place.files.begin_with(&options);
    create(&one, b"/a/1").unwrap();
    let other = place.files.begin_with(&options);
    create(&other, b"/a/2").unwrap();
    let error = create(&other, b"/a/1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(error.paths(), [b"/a/1"], "{error}");
    assert!(
        error.to_string().contains("is locked by another transaction"),
        "{error}"
    );
    one.commit().unwrap();
    fails(
        other.create(other.resolve(b"/a").unwrap(), b"1", &node(FileKind::Regular)),
        ErrorKind::Exists,
    );
    other.commit().unwrap();
    place.verify();
}

#[test]
fn a_transaction_larger_than_its_memory_commits_whole() {
    let place = TestPlace::new();
    let inner = directory(&place.files, ROOT, b"inner");
    file(&place.files, inner, b"old");
    let transaction = place
        .files
        .begin_with(&TransactionOptions::new().memory(16 << 10));
    for number in 0..300 {
        let path = format!("/inner/{number}");
        transaction
            .write_file(path.as_bytes(), &[number as u8; 700], 0o644)
            .unwrap();
        if number % 3 == 0 {
            transaction.remove_all(path.as_bytes()).unwrap();
        }
    }
    transaction.remove_all(b"/inner/old").unwrap();
    transaction.commit().unwrap();
    assert_eq!(names(&place.files, inner).len(), 200);
    assert_eq!(place.files.read_file(b"/inner/100").unwrap(), [100; 700]);
    place.verify();
}
