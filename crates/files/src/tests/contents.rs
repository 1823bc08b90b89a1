//! Contents, extended attributes and paths.

use super::{TestPlace, attributes, directory, fails, file, names, node, size, stepping_options};
use crate::{
    AllocateMode, COMPRESSION_ATTRIBUTE, ContentOrder, ErrorKind, FileKind, FilePaths, FileSystem, Files,
    FilesOptions, Inode, LastLink, NewNode, RenameMode, SeekTarget, SetMode, WritePosition,
};

const ROOT: Inode = Inode::ROOT;

#[test]
fn contents_are_read_as_written_across_blocks() {
    let place = TestPlace::new();
    let files = &place.files;
    let one = file(files, ROOT, b"file");
    let data: Vec<u8> = (0..5000u32).map(|number| number as u8 | 1).collect();
    let mut expected = Vec::new();
    for (offset, length) in [(0, 50), (40, 70), (100, 900), (2000, 1500), (512, 512), (3499, 2)] {
        files
            .write(one, WritePosition::At(offset as u64), &data[..length])
            .unwrap();
        expected.resize(expected.len().max(offset + length), 0);
        expected[offset..offset + length].copy_from_slice(&data[..length]);
        assert_eq!(files.read(one, 0, 10_000).unwrap(), expected);
        assert_eq!(attributes(files, one).size, expected.len() as u64);
        place.verify();
    }
    assert_eq!(files.read(one, 700, 300).unwrap(), &expected[700..1000]);
    assert_eq!(files.read(one, 3501, 1).unwrap(), b"");
    assert_eq!(files.read(one, u64::MAX, 1).unwrap(), b"");
}

#[test]
fn files_that_are_read_in_order_are_read_ahead() {
    let place = TestPlace::with(&stepping_options(512, 100).order(ContentOrder::ByInode));
    let files = &place.files;
    let contents = |number: usize| vec![number as u8 | 1; 20 * number];
    let inodes: Vec<Inode> = (0..200)
        .map(|number| {
            let one = file(files, ROOT, format!("{number}").as_bytes());
            files.write(one, WritePosition::At(0), &contents(number)).unwrap();
            one
        })
        .collect();
    for number in (0..200).step_by(9) {
        files.unlink(ROOT, format!("{number}").as_bytes()).unwrap();
    }
    let snapshot = files.freeze();
    let read = |files: &dyn FileSystem, numbers: &mut dyn Iterator<Item = usize>| {
        let before = place.db.stats().operations;
        let mut out = b"earlier bytes".to_vec();
        for number in numbers {
            let found = files.read_into(inodes[number], 0, 10_000, &mut out);
            match number % 9 {
                0 => fails(found, ErrorKind::Stale),
                _ => assert_eq!((found.unwrap(), &out), ((), &contents(number))),
            }
        }
        let after = place.db.stats().operations;
        after.multi_get_keys - before.multi_get_keys
    };
    let backwards = read(files, &mut (0..200).rev());
    let forwards = read(files, &mut (0..200));
    let ahead = 200 * (1 + (64 << 10) / 512);
    assert!(
        backwards < 2000 && forwards > backwards + ahead / 2,
        "{forwards} keys"
    );
    assert!(
        forwards < backwards + 2 * ahead,
        "each is read ahead once: {forwards} keys"
    );
    assert!(read(&snapshot, &mut (0..200)) > backwards);
    let transaction = files.begin();
    assert_eq!(
        read(&transaction, &mut (0..200)),
        0,
        "a transaction depends on what it reads"
    );
    place.verify();
}

/// Returns the paths of all blocks in the order of their keys, each once.
fn order_of_blocks(place: &TestPlace) -> Vec<Vec<u8>> {
    let blocks = place.db.existing_keyspace("files.test.blocks").unwrap();
    let mut paths = Vec::new();
    for key in blocks.range::<&[u8]>(..).keys() {
        let key = key.unwrap();
        let names = key[..key.len() - 16].strip_suffix(&[0]).unwrap_or_default();
        paths.push(names.to_vec());
    }
    paths.dedup();
    paths
}

#[test]
fn contents_are_in_the_order_of_the_paths_where_files_were_created() {
    let place = TestPlace::with(&stepping_options(512, 100));
    let files = &place.files;
    let mut expected = Vec::new();
    let mut random = fastrand::Rng::with_seed(1);
    let mut numbers: Vec<u32> = (0..120).collect();
    random.shuffle(&mut numbers);
    for number in numbers {
        let directory = format!("/d{}/e{}", number % 3, number % 5);
        files.create_directories(directory.as_bytes(), 0o755).unwrap();
        let path = format!("{directory}/{number:03}");
        files.write_file(path.as_bytes(), &[1; 700], 0o644).unwrap();
        expected.push(path[1..].replace('/', "\0").into_bytes());
    }
    expected.sort();
    assert_eq!(order_of_blocks(&place), expected);
    // A rename leaves the blocks where they are, and a removal finds them.
    let d0 = files.resolve(b"/d0").unwrap();
    files
        .rename(ROOT, b"d1", d0, b"moved", RenameMode::Replace)
        .unwrap();
    assert_eq!(order_of_blocks(&place), expected);
    assert_eq!(files.read_file(b"/d0/moved/e4/004").unwrap(), [1; 700]);
    files.remove_all(b"/d0/moved").unwrap();
    expected.retain(|path| !path.starts_with(b"d1"));
    assert_eq!(order_of_blocks(&place), expected);
    place.verify();
    // The order is that which the file system was created with.
    let TestPlace { db, files } = place;
    drop(files);
    let files = Files::open_with(&db, "test", &FilesOptions::new()).unwrap();
    let first = files.resolve(b"/d0/e0/000").unwrap();
    files.write(first, WritePosition::At(5000), b"more").unwrap();
    let place = TestPlace { db, files };
    assert_eq!(order_of_blocks(&place), expected);
    place.verify();
}

#[test]
fn files_that_are_read_in_the_order_of_paths_are_read_ahead() {
    let place = TestPlace::with(&stepping_options(512, 100));
    let files = &place.files;
    let mut random = fastrand::Rng::with_seed(2);
    let mut numbers: Vec<usize> = (0..300).collect();
    random.shuffle(&mut numbers);
    let mut inodes = vec![ROOT; 300];
    let contents = |number: usize| vec![number as u8 | 1; 20 * number];
    for number in numbers {
        let one = file(files, ROOT, format!("{number:03}").as_bytes());
        files.write(one, WritePosition::At(0), &contents(number)).unwrap();
        inodes[number] = one;
    }
    let read = |files: &dyn FileSystem, numbers: &mut dyn Iterator<Item = usize>| {
        let before = place.db.stats().operations.scans;
        for number in numbers {
            assert_eq!(files.read(inodes[number], 0, 10_000).unwrap(), contents(number));
        }
        place.db.stats().operations.scans - before
    };
    assert_eq!(read(files, &mut (0..300).rev()), 0);
    let forwards = read(files, &mut (0..300));
    assert!((2..20).contains(&forwards), "{forwards} scans");
    let transaction = files.begin();
    assert_eq!(read(&transaction, &mut (0..300)), 0);
    place.verify();
}

#[test]
fn appends_go_to_the_end() {
    let place = TestPlace::new();
    let files = &place.files;
    let one = file(files, ROOT, b"log");
    let mut expected = Vec::new();
    for number in 0..200u8 {
        let line = vec![number; 13];
        let at = files.write(one, WritePosition::End, &line).unwrap();
        assert_eq!(at, expected.len() as u64);
        expected.extend(line);
    }
    assert_eq!(files.read(one, 0, 10_000).unwrap(), expected);
    place.verify();
}

#[test]
fn cut_and_extended_files_read_zeros() {
    let place = TestPlace::new();
    let files = &place.files;
    for (from, cut, to) in [
        (80, 40, 90),
        (80, 40, 4000),
        (3000, 700, 3000),
        (3000, 1024, 1500),
        (3000, 0, 10),
    ] {
        let one = file(files, ROOT, b"file");
        files.write(one, WritePosition::At(0), &vec![7; from]).unwrap();
        files.set_attributes(one, &size(cut)).unwrap();
        place.verify();
        let after = files.set_attributes(one, &size(to)).unwrap();
        assert_eq!(after.size, to);
        let mut expected = vec![7; cut as usize];
        expected.resize(to as usize, 0);
        assert_eq!(files.read(one, 0, 10_000).unwrap(), expected, "{from} {cut} {to}");
        files.write(one, WritePosition::End, b"end").unwrap();
        expected.extend_from_slice(b"end");
        assert_eq!(files.read(one, 0, 10_000).unwrap(), expected);
        place.verify();
        files.unlink(ROOT, b"file").unwrap();
        place.verify();
    }
}

#[test]
fn a_file_may_end_anywhere_below_two_to_the_63() {
    let place = TestPlace::new();
    let files = &place.files;
    let one = file(files, ROOT, b"file");
    let end = i64::MAX as u64;
    files.write(one, WritePosition::At(end - 3), b"end").unwrap();
    assert_eq!(attributes(files, one).size, end);
    assert_eq!(files.read(one, end - 5, 10).unwrap(), b"\0\0end");
    fails(
        files.write(one, WritePosition::At(end), b"x"),
        ErrorKind::TooLarge,
    );
    fails(files.write(one, WritePosition::End, b"x"), ErrorKind::TooLarge);
    fails(
        files.write(one, WritePosition::At(u64::MAX), b"x"),
        ErrorKind::TooLarge,
    );
    fails(files.set_attributes(one, &size(end + 1)), ErrorKind::TooLarge);
    assert_eq!(
        files.seek(one, 0, SeekTarget::Data).unwrap(),
        (end - 3) / 512 * 512
    );
    place.verify();
    files.set_attributes(one, &size(5)).unwrap();
    place.verify();
}

#[test]
fn holes_are_found_and_punched() {
    let place = TestPlace::new();
    let files = &place.files;
    let one = file(files, ROOT, b"file");
    files.write(one, WritePosition::At(0), &[1; 5120]).unwrap();
    assert_eq!(attributes(files, one).blocks, 10);
    fails(files.seek(one, 5120, SeekTarget::Hole), ErrorKind::NoSuchOffset);
    assert_eq!(files.seek(one, 5, SeekTarget::Hole).unwrap(), 5120);
    files.allocate(one, AllocateMode::PunchHole, 1000, 1100).unwrap();
    let mut expected = vec![1; 5120];
    expected[1000..2100].fill(0);
    assert_eq!(files.read(one, 0, 6000).unwrap(), expected);
    assert_eq!(files.seek(one, 0, SeekTarget::Hole).unwrap(), 1024);
    assert_eq!(files.seek(one, 1024, SeekTarget::Data).unwrap(), 2048);
    assert_eq!(files.seek(one, 1100, SeekTarget::Hole).unwrap(), 1100);
    assert_eq!(attributes(files, one).blocks, 8);
    files.allocate(one, AllocateMode::Zero, 5000, 1000).unwrap();
    expected.resize(6000, 0);
    expected[5000..].fill(0);
    assert_eq!(files.read(one, 0, 9000).unwrap(), expected);
    files
        .allocate(one, AllocateMode::ZeroKeepSize, 5900, 1000)
        .unwrap();
    files.allocate(one, AllocateMode::KeepSize, 0, 100_000).unwrap();
    assert_eq!(attributes(files, one).size, 6000);
    files.allocate(one, AllocateMode::Extend, 0, 7000).unwrap();
    assert_eq!(attributes(files, one).size, 7000);
    files.allocate(one, AllocateMode::PunchHole, 0, 1 << 40).unwrap();
    assert_eq!(attributes(files, one).blocks, 0);
    fails(files.seek(one, 0, SeekTarget::Data), ErrorKind::NoSuchOffset);
    fails(
        files.allocate(one, AllocateMode::Extend, 0, 0),
        ErrorKind::InvalidArgument,
    );
    fails(
        files.allocate(one, AllocateMode::Extend, u64::MAX, 2),
        ErrorKind::TooLarge,
    );
    place.verify();
}

#[test]
fn ranges_are_copied_with_their_holes() {
    let place = TestPlace::new();
    let files = &place.files;
    let (one, other) = (file(files, ROOT, b"one"), file(files, ROOT, b"other"));
    files.write(one, WritePosition::At(0), &[1; 600]).unwrap();
    files.write(one, WritePosition::At(4096), &[2; 600]).unwrap();
    files.write(other, WritePosition::At(0), &[9; 9000]).unwrap();
    assert_eq!(files.copy_range(one, 100, other, 300, 1 << 40).unwrap(), 4596);
    let mut expected = vec![9; 9000];
    let source = files.read(one, 100, 10_000).unwrap();
    expected[300..4896].copy_from_slice(&source);
    assert_eq!(files.read(other, 0, 10_000).unwrap(), expected);
    assert_eq!(files.copy_range(one, 5000, other, 0, 10).unwrap(), 0);
    fails(
        files.copy_range(one, 0, one, 100, 200),
        ErrorKind::InvalidArgument,
    );
    assert_eq!(files.copy_range(one, 0, one, 10_000, 5000).unwrap(), 4696);
    assert_eq!(
        files.read(one, 10_000, 10_000).unwrap(),
        files.read(one, 0, 4696).unwrap()
    );
    place.verify();
}

#[test]
fn extended_attributes_are_kept_with_their_inode() {
    let place = TestPlace::new();
    let files = &place.files;
    for one in [file(files, ROOT, b"one"), directory(files, ROOT, b"inner")] {
        assert!(files.extended_attributes(one).unwrap().is_empty());
        fails(files.extended_attribute(one, b"user.a"), ErrorKind::NoAttribute);
        let set = |name: &[u8], value: &[u8], mode| files.set_extended_attribute(one, name, value, mode);
        fails(set(b"user.a", b"1", SetMode::Replace), ErrorKind::NoAttribute);
        set(b"user.b", b"", SetMode::Create).unwrap();
        set(b"user.a", &vec![1; 65_536], SetMode::Any).unwrap();
        fails(set(b"user.a", b"1", SetMode::Create), ErrorKind::Exists);
        fails(
            set(b"user.c", &vec![1; 65_537], SetMode::Any),
            ErrorKind::AttributeTooLarge,
        );
        fails(set(b"", b"", SetMode::Any), ErrorKind::InvalidArgument);
        assert_eq!(files.extended_attributes(one).unwrap(), [b"user.a", b"user.b"]);
        assert_eq!(files.extended_attribute(one, b"user.a").unwrap().len(), 65_536);
        files.remove_extended_attribute(one, b"user.b").unwrap();
        fails(
            files.remove_extended_attribute(one, b"user.b"),
            ErrorKind::NoAttribute,
        );
        place.verify();
    }
    files.unlink(ROOT, b"one").unwrap();
    files.remove_directory(ROOT, b"inner").unwrap();
    place.verify();
}

#[test]
fn a_directory_is_read_in_parts() {
    let place = TestPlace::new();
    let files = &place.files;
    let inner = directory(files, ROOT, b"inner");
    for number in 0..100 {
        file(files, inner, format!("{number:02}").as_bytes());
    }
    file(files, ROOT, b"z");
    let (mut read, mut after): (Vec<Vec<u8>>, Option<Vec<u8>>) = (Vec::new(), None);
    loop {
        let part = files.read_directory(inner, after.as_deref(), 7).unwrap();
        let Some(last) = part.last() else { break };
        after = Some(last.name.clone());
        read.extend(part.into_iter().map(|entry| entry.name));
    }
    assert_eq!(read, names(files, inner));
    assert_eq!(read.len(), 100);
    fails(files.read_directory(Inode(999), None, 1), ErrorKind::Stale);
}

#[test]
fn paths_lead_through_links_and_parents() {
    let place = TestPlace::new();
    let files = &place.files;
    files.create_directories(b"/a/b/c", 0o755).unwrap();
    files.write_file(b"/a/b/file", b"text", 0o600).unwrap();
    let a = files.resolve(b"/a").unwrap();
    let link = |parent, name: &[u8], target: &'static [u8]| {
        let node = NewNode {
            target,
            ..node(FileKind::Symlink)
        };
        files.create(parent, name, &node).unwrap().inode
    };
    let made = link(a, b"link", b"b/../b/file");
    link(ROOT, b"root", b"/a/b");
    link(ROOT, b"loop", b"loop");
    for path in [
        &b"/a/b/file"[..],
        b"a//b/./file",
        b"/a/link",
        b"/root/file",
        b"/a/b/c/../../link",
        b"/../a/link",
    ] {
        assert_eq!(files.read_file(path).unwrap(), b"text", "{}", path.escape_ascii());
    }
    assert_eq!(files.resolve_with(b"/a/link", LastLink::Keep).unwrap(), made);
    fails(files.resolve(b"/loop"), ErrorKind::Loop);
    fails(files.resolve(b"/a/none"), ErrorKind::NotFound);
    fails(files.resolve(b"/a/none/x"), ErrorKind::NotFound);
    fails(files.resolve(b"/a/b/file/x"), ErrorKind::NotADirectory);
    fails(files.resolve(b"/a/b/file/"), ErrorKind::NotADirectory);
    fails(files.resolve(&[b'a'; 4096]), ErrorKind::NameTooLong);
    fails(
        files.create_directories(b"/a/link", 0o755),
        ErrorKind::NotADirectory,
    );
    let mut paths = Vec::new();
    files
        .walk(b"/", &mut |entry| {
            paths.push(String::from_utf8(entry.path.clone()).unwrap());
            Ok(())
        })
        .unwrap();
    assert_eq!(
        paths,
        [
            "/",
            "/a",
            "/a/b",
            "/a/b/c",
            "/a/b/file",
            "/a/link",
            "/loop",
            "/root"
        ]
    );
    let usage = files.usage(b"/a").unwrap();
    assert_eq!((usage.directories, usage.files, usage.bytes), (3, 2, 15));
    files.remove_all(b"/a").unwrap();
    fails(files.resolve(b"/a"), ErrorKind::NotFound);
    place.verify();
}

#[test]
fn contents_become_compressed_and_plain_again() {
    let place = TestPlace::with(&stepping_options(4096, 100));
    let files = &place.files;
    let compressed = directory(files, Inode::ROOT, b"compressed");
    let set =
        |inode, value: &[u8]| files.set_extended_attribute(inode, COMPRESSION_ATTRIBUTE, value, SetMode::Any);
    set(compressed, b"zstd").unwrap();
    let count = |ending: &str| {
        let name = format!("files.test.{ending}");
        place.db.existing_keyspace(&name).unwrap().iter().count()
    };
    let data: Vec<u8> = (0..200_000_u32).map(|at| (at / 1000) as u8).collect();
    let deeper = directory(files, compressed, b"deeper");
    let inherited = file(files, deeper, b"inherited");
    files.write(inherited, WritePosition::At(0), &data).unwrap();
    assert_eq!((count("blocks"), count("compressed")), (0, 49));
    let plain = file(files, Inode::ROOT, b"plain");
    files.write(plain, WritePosition::At(0), &data).unwrap();
    assert_eq!((count("blocks"), count("compressed")), (49, 49));
    assert_eq!(files.extended_attributes(plain).unwrap().len(), 0);
    set(plain, b"zstd").unwrap();
    assert_eq!(
        files.extended_attribute(plain, COMPRESSION_ATTRIBUTE).unwrap(),
        b"zstd"
    );
    assert_eq!((count("blocks"), count("compressed")), (0, 98));
    set(inherited, b"none").unwrap();
    assert_eq!((count("blocks"), count("compressed")), (49, 49));
    for inode in [inherited, plain] {
        assert!(files.read(inode, 0, data.len()).unwrap() == data);
    }
    fails(set(plain, b"gzip"), ErrorKind::InvalidArgument);
    files
        .remove_extended_attribute(compressed, COMPRESSION_ATTRIBUTE)
        .unwrap();
    fails(
        files.extended_attribute(compressed, COMPRESSION_ATTRIBUTE),
        ErrorKind::NoAttribute,
    );
    files.unlink(Inode::ROOT, b"plain").unwrap();
    assert_eq!((count("blocks"), count("compressed")), (49, 0));
    place.verify();
}
