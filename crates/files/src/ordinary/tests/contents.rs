//! Contents, holes and extended attributes.

use super::Workbench;
use crate::contract::FileSystem;
use crate::error::ErrorKind;
use crate::types::{AllocateMode, AttributeChange, Inode, SeekTarget, SetMode, WritePosition};
use std::os::unix::fs::MetadataExt;

/// Larger than the blocks of usual file systems.
const BLOCK: u64 = 64 << 10;

#[test]
fn reads_end_at_the_end_of_the_file_and_holes_are_zeros() {
    let bench = Workbench::new();
    let file = bench.file("file");
    bench.files.write(file, WritePosition::At(10), b"abc").unwrap();
    assert_eq!(bench.files.read(file, 8, 100).unwrap(), b"\0\0abc");
    assert_eq!(bench.files.read(file, 13, 100).unwrap(), b"");
    assert_eq!(bench.files.write(file, WritePosition::End, b"def").unwrap(), 13);
    assert_eq!(bench.files.write(file, WritePosition::End, b"").unwrap(), 16);
    let cut = AttributeChange {
        size: Some(12),
        ..AttributeChange::default()
    };
    assert_eq!(bench.files.set_attributes(file, &cut).unwrap().size, 12);
    assert_eq!(
        std::fs::read(bench.path("file")).unwrap(),
        b"\0\0\0\0\0\0\0\0\0\0ab"
    );
}

#[test]
fn reads_and_writes_of_many_bytes_are_whole() {
    let bench = Workbench::new();
    let file = bench.file("file");
    let data: Vec<u8> = (0..9_000_001_u32).map(|n| (n % 251) as u8).collect();
    bench.files.write(file, WritePosition::At(3), &data).unwrap();
    assert_eq!(bench.files.read(file, 3, data.len()).unwrap(), data);
    let copy = bench.file("copy");
    assert_eq!(
        bench.files.copy_range(file, 3, copy, 0, u64::MAX).unwrap_or(0),
        data.len() as u64
    );
    assert_eq!(std::fs::read(bench.path("copy")).unwrap(), data);
}

#[test]
fn holes_are_punched_found_and_filled() {
    let bench = Workbench::new();
    let file = bench.file("file");
    let files = &bench.files;
    files
        .write(file, WritePosition::At(0), &vec![7; 3 * BLOCK as usize])
        .unwrap();
    match files.allocate(file, AllocateMode::PunchHole, BLOCK, BLOCK) {
        Err(error) if error.kind() == ErrorKind::NotSupported => {
            alluvium_device::skipped!("holes", "the file system of the temporary directory has none");
            return;
        }
        other => other.unwrap(),
    }
    files.sync().unwrap();
    assert_eq!(files.seek(file, 0, SeekTarget::Hole).unwrap(), BLOCK);
    assert_eq!(files.seek(file, BLOCK, SeekTarget::Data).unwrap(), 2 * BLOCK);
    let end = files.seek(file, 3 * BLOCK, SeekTarget::Data).unwrap_err();
    assert_eq!((end.kind(), end.errno()), (ErrorKind::NoSuchOffset, libc::ENXIO));
    files
        .allocate(file, AllocateMode::KeepSize, 0, 8 * BLOCK)
        .unwrap();
    assert_eq!(files.attributes(file).unwrap().size, 3 * BLOCK);
    files.allocate(file, AllocateMode::Extend, 0, 4 * BLOCK).unwrap();
    let real = std::fs::metadata(bench.path("file")).unwrap();
    assert_eq!(real.size(), 4 * BLOCK);
    assert!(real.blocks() * 512 >= 8 * BLOCK);
    assert_eq!(
        files
            .allocate(file, AllocateMode::Extend, 0, 0)
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn a_copy_within_a_file_does_not_overlap_itself() {
    let bench = Workbench::new();
    let file = bench.file("file");
    bench
        .files
        .write(file, WritePosition::At(0), b"0123456789")
        .unwrap();
    let overlap = bench.files.copy_range(file, 0, file, 2, 5).unwrap_err();
    assert_eq!(overlap.kind(), ErrorKind::InvalidArgument);
    assert_eq!(bench.files.copy_range(file, 0, file, 5, 5).unwrap(), 5);
    assert_eq!(std::fs::read(bench.path("file")).unwrap(), b"0123401234");
}

#[test]
fn extended_attributes_are_set_listed_and_removed() {
    let bench = Workbench::new();
    let file = bench.file("file");
    let files = &bench.files;
    let long = vec![9; 3000];
    files
        .set_extended_attribute(file, b"user.b", b"", SetMode::Create)
        .unwrap();
    files
        .set_extended_attribute(file, b"user.a", &long, SetMode::Any)
        .unwrap();
    assert_eq!(files.extended_attributes(file).unwrap(), [b"user.a", b"user.b"]);
    assert_eq!(files.extended_attribute(file, b"user.a").unwrap(), long);
    assert_eq!(files.extended_attribute(file, b"user.b").unwrap(), b"");
    let again = files
        .set_extended_attribute(file, b"user.a", b"", SetMode::Create)
        .unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists);
    let absent = files
        .set_extended_attribute(file, b"user.c", b"", SetMode::Replace)
        .unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::NoAttribute);
    files.remove_extended_attribute(file, b"user.a").unwrap();
    assert_eq!(files.extended_attributes(file).unwrap(), [b"user.b"]);
    let link = bench
        .create(Inode::ROOT, "link", crate::FileKind::Symlink, 0)
        .inode;
    assert_eq!(files.extended_attributes(link).unwrap(), [b""; 0]);
    let refused = files
        .set_extended_attribute(link, b"user.a", b"", SetMode::Any)
        .unwrap_err();
    assert_eq!(refused.errno(), libc::EPERM);
}

#[test]
fn threads_that_append_overwrite_nothing() {
    let bench = Workbench::new();
    let file = bench.file("log");
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let files = &bench.files;
            scope.spawn(move || {
                for _ in 0..200 {
                    let record = [thread; 100];
                    let at = files.write(file, WritePosition::End, &record).unwrap();
                    assert_eq!(files.read(file, at, 100).unwrap(), record);
                }
            });
        }
    });
    assert_eq!(bench.files.attributes(file).unwrap().size, 4 * 200 * 100);
}
