//! Records that contradict each other, are damaged, or come from a newer version.

use super::{TestPlace, directory, fails, file};
use crate::records::format::{self, HeaderRecord, InodeRecord};
use crate::records::locality::Locality;
use crate::records::{RecordSpace, keyspace_name};
use crate::{ErrorKind, FileSystem, Files, Inode, SetMode, WritePosition};
use alluvium::Keyspace;

const ROOT: Inode = Inode::ROOT;

impl TestPlace {
    fn keyspace(&self, space: RecordSpace) -> Keyspace {
        self.db.existing_keyspace(&keyspace_name("test", space)).unwrap()
    }
}

/// A file system with something of everything.
fn filled() -> (TestPlace, [Inode; 3]) {
    let place = TestPlace::new();
    let (files, inner) = (&place.files, directory(&place.files, ROOT, b"inner"));
    let (large, small) = (file(files, inner, b"large"), file(files, inner, b"small"));
    files.write(large, WritePosition::At(0), &[1; 3000]).unwrap();
    files.write(small, WritePosition::At(0), b"text").unwrap();
    files
        .set_extended_attribute(large, b"user.a", b"1", SetMode::Any)
        .unwrap();
    place.verify();
    (place, [inner, large, small])
}

/// Returns the key of a block of an inode that exists.
fn block_key(place: &TestPlace, inode: Inode, block: u64) -> Vec<u8> {
    let value = place.keyspace(RecordSpace::Inodes).get(format::inode_key(inode));
    let record = InodeRecord::decode(&value.unwrap().unwrap()).unwrap();
    format::block_key(&record.locality, inode, block)
}

/// Changes the record of an inode.
fn change(place: &TestPlace, inode: Inode, change: impl FnOnce(&mut InodeRecord)) {
    let (inodes, key) = (place.keyspace(RecordSpace::Inodes), format::inode_key(inode));
    let mut record = InodeRecord::decode(&inodes.get(key).unwrap().unwrap()).unwrap();
    change(&mut record);
    inodes.put(key, record.encode()).unwrap();
}

/// Verifies that the check finds a contradiction, and says something of the kind.
fn is_found(says: &str, plant: impl FnOnce(&TestPlace, [Inode; 3])) {
    let (place, inodes) = filled();
    plant(&place, inodes);
    let report = place.files.check().unwrap();
    assert!(!report.is_whole(), "{says}: nothing was found");
    assert!(report.to_string().contains(says), "{says}: {report}");
}

#[test]
fn the_check_finds_contradictions_of_names_and_inodes() {
    use RecordSpace::{Inodes, Names};
    is_found("which does not exist", |place, [_, _, small]| {
        place.keyspace(Inodes).delete(format::inode_key(small)).unwrap();
    });
    is_found("counts 1 names, and has 0", |place, [inner, ..]| {
        place
            .keyspace(Names)
            .delete(format::name_key(inner, b"small"))
            .unwrap();
    });
    is_found("does not stand in the list of orphans", |place, [inner, ..]| {
        place
            .keyspace(Names)
            .delete(format::name_key(inner, b"small"))
            .unwrap();
    });
    is_found("counts 2 names, and has 1", |place, [_, large, _]| {
        change(place, large, |record| record.links = 2);
    });
    is_found("cannot be a name", |place, [inner, _, small]| {
        let entry = format::entry(small, crate::FileKind::Regular);
        place
            .keyspace(Names)
            .put(format::name_key(inner, b".."), entry)
            .unwrap();
    });
    is_found(
        "lies in an inode that is no directory",
        |place, [_, large, small]| {
            let entry = format::entry(small, crate::FileKind::Regular);
            place
                .keyspace(Names)
                .put(format::name_key(large, b"x"), entry)
                .unwrap();
        },
    );
    is_found("says Pipe", |place, [inner, _, small]| {
        let entry = format::entry(small, crate::FileKind::Pipe);
        place
            .keyspace(Names)
            .put(format::name_key(inner, b"small"), entry)
            .unwrap();
    });
}

#[test]
fn the_check_finds_contradictions_of_contents() {
    use RecordSpace::{Blocks, Extended, Inodes};
    is_found("counts 6 blocks, and has 5", |place, [_, large, _]| {
        place.keyspace(Blocks).delete(block_key(place, large, 2)).unwrap();
    });
    is_found("beyond the end of the file", |place, [_, large, _]| {
        change(place, large, |record| record.size = 2000);
    });
    is_found("of its last block are stored", |place, [_, large, _]| {
        change(place, large, |record| record.tail -= 1);
    });
    is_found("has an unknown kind", |place, [_, large, _]| {
        place
            .keyspace(Inodes)
            .put(format::inode_key(large), "damaged")
            .unwrap();
    });
    is_found(
        "block 7 of inode 66 stands among those of other files",
        |place, [_, large, _]| {
            let elsewhere = Locality::default().child(large, crate::FileKind::Regular, b"x");
            place
                .keyspace(Blocks)
                .put(format::block_key(&elsewhere, large, 7), "x")
                .unwrap();
        },
    );
    is_found("block 0 belongs to inode 99", |place, _| {
        place
            .keyspace(Blocks)
            .put(format::block_key(&Locality::default(), Inode(99), 0), "x")
            .unwrap();
    });
    is_found("that it does not know of", |place, [_, _, small]| {
        place
            .keyspace(Extended)
            .put(format::name_key(small, b"user.b"), "x")
            .unwrap();
    });
}

#[test]
fn the_check_finds_contradictions_of_directories_and_orphans() {
    use RecordSpace::{Counts, Names, System, Times};
    is_found("counts 2 subdirectories, and has 1", |place, _| {
        place
            .keyspace(Counts)
            .merge(format::inode_key(ROOT), format::count(1))
            .unwrap();
    });
    is_found("which is no directory", |place, [_, large, _]| {
        place
            .keyspace(Counts)
            .merge(format::inode_key(large), format::count(1))
            .unwrap();
    });
    is_found("has the times of a directory", |place, [_, large, _]| {
        let time = format::ordered_time(crate::Timestamp::default());
        place
            .keyspace(Times)
            .put(format::time_key(large, 1), time)
            .unwrap();
    });
    is_found("has another name or none", |place, [inner, ..]| {
        let parent = format::parent(ROOT, b"other");
        place
            .keyspace(System)
            .put(format::parent_key(inner), parent)
            .unwrap();
    });
    is_found("has no place", |place, [inner, ..]| {
        place.keyspace(System).delete(format::parent_key(inner)).unwrap();
    });
    is_found("the orphan 99 does not exist", |place, _| {
        let orphan = format::orphan(format::OrphanKind::Unnamed);
        place
            .keyspace(System)
            .put(format::orphan_key(Inode(99)), orphan)
            .unwrap();
    });
    is_found("does not lie below the root", |place, [inner, ..]| {
        let entry = format::entry(inner, crate::FileKind::Directory);
        place
            .keyspace(Names)
            .delete(format::name_key(ROOT, b"inner"))
            .unwrap();
        place
            .keyspace(Names)
            .put(format::name_key(inner, b"inner"), entry)
            .unwrap();
    });
    is_found("was never handed out", |place, _| {
        place
            .keyspace(System)
            .put(format::NEXT_KEY, format::number(2))
            .unwrap();
    });
}

#[test]
fn damaged_records_are_errors_that_say_so() {
    let (place, [inner, large, _]) = filled();
    let inodes = place.keyspace(RecordSpace::Inodes);
    inodes.put(format::inode_key(large), "").unwrap();
    fails(place.files.read(large, 0, 1), ErrorKind::Damaged);
    fails(place.files.lookup(inner, b"large"), ErrorKind::Damaged);
    let names = place.keyspace(RecordSpace::Names);
    names.put(format::name_key(inner, b"small"), "x").unwrap();
    fails(place.files.lookup(inner, b"small"), ErrorKind::Damaged);
    let error = place.files.read_directory(inner, None, 10).unwrap_err();
    assert!(error.to_string().contains("alluvium files check"), "{error}");
}

#[test]
fn a_newer_version_is_refused() {
    let (place, _) = filled();
    let system = place.keyspace(RecordSpace::System);
    let header = HeaderRecord {
        version: format::VERSION + 1,
        order: crate::ContentOrder::ByPath,
        block_bytes: 512,
        inline_bytes: 0,
    };
    system.put(format::HEADER_KEY, header.encode()).unwrap();
    let TestPlace { db, files } = place;
    drop(files);
    fails(Files::open(&db, "test"), ErrorKind::NewerVersion);
    system.put(format::HEADER_KEY, "nonsense").unwrap();
    fails(Files::open(&db, "test"), ErrorKind::Damaged);
}
