//! Single operations.

use super::{TestPlace, attributes, directory, fails, file, names, node, size, stepping_options};
use crate::{
    AttributeChange, ErrorKind, FileKind, FilePaths, FileSystem, Files, Inode, NewNode, RenameMode,
    TimeChange, Timestamp, WritePosition,
};

const ROOT: Inode = Inode::ROOT;

#[test]
fn what_is_created_is_found_with_its_attributes() {
    let place = TestPlace::new();
    let files = &place.files;
    for kind in [
        FileKind::Regular,
        FileKind::Directory,
        FileKind::Symlink,
        FileKind::Pipe,
        FileKind::Socket,
        FileKind::BlockDevice,
        FileKind::CharacterDevice,
    ] {
        let name = format!("{kind:?}");
        let created = files
            .create(
                ROOT,
                name.as_bytes(),
                &NewNode {
                    device: 77,
                    ..node(kind)
                },
            )
            .unwrap();
        assert_eq!(files.lookup(ROOT, name.as_bytes()).unwrap(), created);
        assert_eq!(files.attributes(created.inode).unwrap(), created);
        assert_eq!((created.kind, created.mode), (kind, 0o640));
        assert_eq!((created.user, created.group), (1000, 100));
        assert_eq!(created.links, if kind == FileKind::Directory { 2 } else { 1 });
        let is_device = matches!(kind, FileKind::BlockDevice | FileKind::CharacterDevice);
        assert_eq!(created.device, if is_device { 77 } else { 0 });
        fails(
            files.create(ROOT, name.as_bytes(), &node(kind)),
            ErrorKind::Exists,
        );
    }
    assert_eq!(attributes(files, ROOT).links, 3);
    let link = files.lookup(ROOT, b"Symlink").unwrap();
    assert_eq!(files.read_link(link.inode).unwrap(), b"target");
    assert_eq!(link.size, 6);
    fails(files.read_link(ROOT), ErrorKind::InvalidArgument);
    assert_eq!(names(files, ROOT).len(), 7);
    place.verify();
}

#[test]
fn names_are_any_bytes_up_to_255() {
    let place = TestPlace::new();
    let files = &place.files;
    let long = vec![0xff; 255];
    file(files, ROOT, &long);
    assert_eq!(names(files, ROOT), [long]);
    fails(files.lookup(ROOT, &[b'a'; 256]), ErrorKind::NameTooLong);
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
        fails(
            files.create(ROOT, name, &node(FileKind::Regular)),
            ErrorKind::InvalidArgument,
        );
    }
    let target = vec![b'a'; 4096];
    let link = NewNode {
        target: &target,
        ..node(FileKind::Symlink)
    };
    fails(files.create(ROOT, b"link", &link), ErrorKind::NameTooLong);
    let link = NewNode {
        target: &target[1..],
        ..node(FileKind::Symlink)
    };
    let created = files.create(ROOT, b"link", &link).unwrap();
    assert_eq!(files.read_link(created.inode).unwrap(), &target[1..]);
    place.verify();
}

#[test]
fn wrong_kinds_are_refused() {
    let place = TestPlace::new();
    let files = &place.files;
    let one = file(files, ROOT, b"file");
    let inner = directory(files, ROOT, b"directory");
    fails(files.lookup(one, b"x"), ErrorKind::NotADirectory);
    fails(
        files.create(one, b"x", &node(FileKind::Regular)),
        ErrorKind::NotADirectory,
    );
    fails(files.read_directory(one, None, 1), ErrorKind::NotADirectory);
    fails(files.unlink(ROOT, b"directory"), ErrorKind::IsADirectory);
    fails(files.remove_directory(ROOT, b"file"), ErrorKind::NotADirectory);
    fails(files.unlink(ROOT, b"none"), ErrorKind::NotFound);
    fails(files.remove_directory(ROOT, b"none"), ErrorKind::NotFound);
    fails(files.unlink(one, b"x"), ErrorKind::NotADirectory);
    fails(files.read(inner, 0, 1), ErrorKind::IsADirectory);
    fails(
        files.write(inner, WritePosition::At(0), b"x"),
        ErrorKind::IsADirectory,
    );
    fails(files.set_attributes(inner, &size(1)), ErrorKind::IsADirectory);
    fails(files.link(inner, ROOT, b"again"), ErrorKind::NotPermitted);
    fails(files.attributes(Inode(999)), ErrorKind::Stale);
    fails(files.parent(one), ErrorKind::NotADirectory);
    place.verify();
}

#[test]
fn hard_links_share_an_inode_until_the_last_name_goes() {
    let place = TestPlace::new();
    let files = &place.files;
    let one = file(files, ROOT, b"one");
    files.write(one, WritePosition::At(0), &[1; 3000]).unwrap();
    assert_eq!(files.link(one, ROOT, b"two").unwrap().links, 2);
    fails(files.link(one, ROOT, b"two"), ErrorKind::Exists);
    files.unlink(ROOT, b"one").unwrap();
    assert_eq!(attributes(files, one).links, 1);
    assert_eq!(files.read(one, 0, 1).unwrap(), [1]);
    place.verify();
    files.unlink(ROOT, b"two").unwrap();
    fails(files.attributes(one), ErrorKind::Stale);
    place.verify();
    assert_eq!(files.check().unwrap().blocks, 0);
}

#[test]
fn a_held_inode_outlives_its_last_name() {
    let place = TestPlace::new();
    let files = &place.files;
    let one = file(files, ROOT, b"one");
    files.write(one, WritePosition::At(0), &[1; 3000]).unwrap();
    files.hold(one).unwrap();
    files.hold(one).unwrap();
    files.unlink(ROOT, b"one").unwrap();
    assert_eq!(attributes(files, one).links, 0);
    files.write(one, WritePosition::End, &[2; 10]).unwrap();
    assert_eq!(files.read(one, 2999, 2).unwrap(), [1, 2]);
    fails(files.link(one, ROOT, b"back"), ErrorKind::NotFound);
    place.verify();
    files.release(one).unwrap();
    assert_eq!(attributes(files, one).size, 3010);
    files.release(one).unwrap();
    fails(files.attributes(one), ErrorKind::Stale);
    fails(files.hold(one), ErrorKind::Stale);
    assert_eq!(files.check().unwrap().orphans, 0);
    place.verify();
}

#[test]
fn a_file_without_a_name_may_get_one() {
    let place = TestPlace::new();
    let files = &place.files;
    let one = files
        .create_unnamed(ROOT, &node(FileKind::Regular))
        .unwrap()
        .inode;
    let other = files
        .create_unnamed(ROOT, &node(FileKind::Regular))
        .unwrap()
        .inode;
    files.write(one, WritePosition::At(0), b"text").unwrap();
    assert_eq!(files.check().unwrap().orphans, 2);
    assert_eq!(files.link(one, ROOT, b"one").unwrap().links, 1);
    files.release(one).unwrap();
    files.release(other).unwrap();
    assert_eq!(files.read_file(b"/one").unwrap(), b"text");
    fails(files.attributes(other), ErrorKind::Stale);
    assert_eq!(files.check().unwrap().orphans, 0);
    place.verify();
}

#[test]
fn a_removed_directory_that_is_held_takes_no_names() {
    let place = TestPlace::new();
    let files = &place.files;
    let inner = directory(files, ROOT, b"inner");
    file(files, inner, b"file");
    fails(files.remove_directory(ROOT, b"inner"), ErrorKind::NotEmpty);
    files.unlink(inner, b"file").unwrap();
    files.hold(inner).unwrap();
    files.remove_directory(ROOT, b"inner").unwrap();
    fails(
        files.create(inner, b"file", &node(FileKind::Regular)),
        ErrorKind::NotFound,
    );
    assert_eq!(attributes(files, inner).links, 0);
    assert!(names(files, inner).is_empty());
    fails(files.parent(inner), ErrorKind::Stale);
    assert_eq!(attributes(files, ROOT).links, 2);
    place.verify();
    files.release(inner).unwrap();
    fails(files.attributes(inner), ErrorKind::Stale);
    place.verify();
}

#[test]
fn renames_move_replace_keep_and_exchange() {
    let place = TestPlace::new();
    let files = &place.files;
    let (left, right) = (directory(files, ROOT, b"left"), directory(files, ROOT, b"right"));
    let (one, other) = (file(files, left, b"one"), file(files, right, b"other"));
    let inner = directory(files, left, b"inner");
    let rename = |parent, name: &[u8], to, new: &[u8], mode| files.rename(parent, name, to, new, mode);
    fails(
        rename(left, b"one", right, b"other", RenameMode::Keep),
        ErrorKind::Exists,
    );
    fails(
        rename(left, b"one", right, b"none", RenameMode::Exchange),
        ErrorKind::NotFound,
    );
    fails(
        rename(left, b"none", right, b"x", RenameMode::Replace),
        ErrorKind::NotFound,
    );
    rename(left, b"one", right, b"other", RenameMode::Replace).unwrap();
    fails(files.attributes(other), ErrorKind::Stale);
    assert_eq!(files.lookup(right, b"other").unwrap().inode, one);
    rename(left, b"inner", right, b"other", RenameMode::Exchange).unwrap();
    assert_eq!(files.lookup(left, b"inner").unwrap().inode, one);
    assert_eq!(files.lookup(right, b"other").unwrap().inode, inner);
    assert_eq!(
        (attributes(files, left).links, attributes(files, right).links),
        (2, 3)
    );
    assert_eq!(files.parent(inner).unwrap(), right);
    place.verify();
    rename(right, b"other", left, b"moved", RenameMode::Keep).unwrap();
    assert_eq!(
        (attributes(files, left).links, attributes(files, right).links),
        (3, 2)
    );
    fails(
        rename(ROOT, b"left", inner, b"left", RenameMode::Replace),
        ErrorKind::InvalidArgument,
    );
    fails(
        rename(inner, b"x", ROOT, b"left", RenameMode::Exchange),
        ErrorKind::NotFound,
    );
    fails(
        rename(left, b"moved", left, b"inner", RenameMode::Replace),
        ErrorKind::NotADirectory,
    );
    fails(
        rename(left, b"inner", left, b"moved", RenameMode::Replace),
        ErrorKind::IsADirectory,
    );
    fails(
        rename(ROOT, b"right", ROOT, b"left", RenameMode::Replace),
        ErrorKind::NotEmpty,
    );
    rename(left, b"moved", ROOT, b"right", RenameMode::Replace).unwrap();
    assert_eq!(files.lookup(ROOT, b"right").unwrap().inode, inner);
    fails(files.attributes(right), ErrorKind::Stale);
    assert_eq!(attributes(files, ROOT).links, 4);
    place.verify();
}

#[test]
fn a_rename_between_two_names_of_one_file_changes_nothing() {
    let place = TestPlace::new();
    let files = &place.files;
    let one = file(files, ROOT, b"one");
    files.link(one, ROOT, b"two").unwrap();
    files
        .rename(ROOT, b"one", ROOT, b"two", RenameMode::Replace)
        .unwrap();
    files
        .rename(ROOT, b"one", ROOT, b"one", RenameMode::Replace)
        .unwrap();
    assert_eq!(names(files, ROOT), [b"one", b"two"]);
    place.verify();
}

#[test]
fn attributes_change_one_by_one() {
    let place = TestPlace::new();
    let files = &place.files;
    for one in [file(files, ROOT, b"one"), directory(files, ROOT, b"inner")] {
        let before = attributes(files, one);
        let old = Timestamp {
            seconds: -5,
            nanoseconds: 999_999_999,
        };
        let change = AttributeChange {
            mode: Some(0o7777),
            user: Some(1),
            group: Some(2),
            size: None,
            accessed: Some(TimeChange::At(old)),
            modified: Some(TimeChange::At(Timestamp {
                seconds: 1 << 40,
                ..old
            })),
        };
        let after = files.set_attributes(one, &change).unwrap();
        assert_eq!((after.mode, after.user, after.group), (0o7777, 1, 2));
        assert_eq!((after.accessed, after.modified.seconds), (old, 1 << 40));
        assert!(after.changed > before.changed && after.created == before.created);
        let change = AttributeChange {
            accessed: Some(TimeChange::Now),
            modified: Some(TimeChange::At(old)),
            ..AttributeChange::default()
        };
        let again = files.set_attributes(one, &change).unwrap();
        assert!(again.accessed > old && again.modified == old);
        assert_eq!(again, attributes(files, one));
        let same = files.set_attributes(one, &AttributeChange::default()).unwrap();
        assert_eq!(same, again);
    }
    place.verify();
}

#[test]
fn changes_of_names_change_the_times_of_their_directory() {
    let place = TestPlace::new();
    let files = &place.files;
    let mut last = attributes(files, ROOT).modified;
    let mut later = || {
        let now = attributes(files, ROOT);
        assert!(now.modified > last && now.changed >= now.modified);
        last = now.modified;
    };
    let one = file(files, ROOT, b"one");
    later();
    files.link(one, ROOT, b"two").unwrap();
    later();
    files
        .rename(ROOT, b"two", ROOT, b"three", RenameMode::Replace)
        .unwrap();
    later();
    files.unlink(ROOT, b"one").unwrap();
    later();
    directory(files, ROOT, b"inner");
    later();
    files.remove_directory(ROOT, b"inner").unwrap();
    later();
}

#[test]
fn a_directory_with_the_group_bit_hands_on_its_group() {
    let place = TestPlace::new();
    let files = &place.files;
    let inner = directory(files, ROOT, b"inner");
    let change = AttributeChange {
        mode: Some(0o2775),
        group: Some(55),
        ..AttributeChange::default()
    };
    files.set_attributes(inner, &change).unwrap();
    let below = attributes(files, directory(files, inner, b"below"));
    assert_eq!((below.group, below.mode), (55, 0o2640));
    let one = attributes(files, file(files, inner, b"file"));
    assert_eq!((one.group, one.mode), (55, 0o640));
}

#[test]
fn a_file_system_is_found_again_with_its_layout() {
    let place = TestPlace::new();
    let one = file(&place.files, ROOT, b"one");
    place.files.write(one, WritePosition::At(0), &[1; 1000]).unwrap();
    let TestPlace { db, files } = place;
    drop(files);
    // The layout of an existing file system stays.
    let files = Files::open_with(&db, "test", &stepping_options(4096, 0)).unwrap();
    assert_eq!(files.read(one, 0, 2000).unwrap(), [1; 1000]);
    files.write(one, WritePosition::At(0), &[1; 2000]).unwrap();
    let another = file(&files, ROOT, b"another");
    assert!(another > one && attributes(&files, another).generation > attributes(&files, one).generation);
    assert_eq!(Files::list(&db), ["test"]);
    fails(Files::open(&db, "a.b"), ErrorKind::InvalidArgument);
    fails(Files::open_existing(&db, "none"), ErrorKind::NotFound);
    let place = TestPlace { db, files };
    place.verify();
    assert_eq!(place.files.check().unwrap().blocks, 4);
    drop(place.files);
    Files::remove(&place.db, "test").unwrap();
    fails(Files::remove(&place.db, "test"), ErrorKind::NotFound);
    assert!(Files::list(&place.db).is_empty() && place.db.keyspaces().is_empty());
}
