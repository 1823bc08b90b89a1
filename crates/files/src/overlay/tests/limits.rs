//! Full disks, other file systems within the directory, and the order in which data is made
//! durable.

use super::faults::{FailingFileSystem, MountedVolume};
use super::images::{ImageTimes, assert_same, image};
use super::{OverlayBench, find, get, make, put, remove_directory, rename, unlink};
use crate::contract::FileSystem;
use crate::types::{FileKind, Inode};
use crate::{ApplyOutcome, ErrorKind, Overlay, OverlayOptions, apply};
use std::sync::Arc;

#[test]
fn an_apply_to_a_full_disk_changes_nothing_and_succeeds_later() {
    let Some(volume) = MountedVolume::in_memory("size=4m") else {
        return;
    };
    let lower = || -> Arc<dyn FileSystem> {
        Arc::new(crate::OrdinaryDirectory::open(volume.path(), crate::AccessTimes::Keep).unwrap())
    };
    put(&*lower(), "replaced", b"old");
    std::fs::write(volume.path().join("ballast"), vec![1; 3 << 20]).unwrap();
    let bench = OverlayBench::new();
    let options = OverlayOptions {
        name: "full".into(),
        nesting: 0,
    };
    let overlay = Overlay::create(lower(), bench.upper(), Inode::ROOT, &options).unwrap();
    put(&overlay, "replaced", b"new");
    put(&overlay, "large", &vec![2; 2 << 20]);
    let wanted = image(&overlay, ImageTimes::With);
    overlay.commit().unwrap();
    for _ in 0..2 {
        let full = apply(&*lower(), bench.upper(), Inode::ROOT).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::NoSpace);
        assert_eq!(get(&*lower(), "replaced").unwrap(), b"old");
        assert!(find(&*lower(), "large").is_err());
    }
    // Others make space: the change is no conflict any more.
    std::fs::write(volume.path().join("ballast"), "").unwrap();
    assert_eq!(
        apply(&*lower(), bench.upper(), Inode::ROOT).unwrap(),
        ApplyOutcome::Complete
    );
    let (mut found, mut wanted) = (image(&*lower(), ImageTimes::With), wanted);
    found.remove("/ballast");
    wanted.remove("/ballast");
    assert_same(&found, &wanted, "an apply with space");
}

#[test]
fn a_full_upper_refuses_an_operation_and_keeps_the_view_whole() {
    let Some(volume) = MountedVolume::in_memory("size=1m,nr_inodes=40") else {
        return;
    };
    let bench = OverlayBench::new();
    let lower = bench.lower();
    for number in 0..30 {
        make(&*lower, &format!("d{number}"), FileKind::Directory);
        put(&*lower, &format!("d{number}/file"), b"text");
    }
    let upper = Arc::new(crate::OrdinaryDirectory::open(volume.path(), crate::AccessTimes::Update).unwrap());
    let options = OverlayOptions {
        name: "full".into(),
        nesting: 0,
    };
    let overlay = Overlay::create(bench.lower(), upper.clone(), Inode::ROOT, &options).unwrap();
    let mut refused = 0;
    for number in 0..29 {
        let before = image(&overlay, ImageTimes::Without);
        if let Err(error) = rename(&overlay, &format!("d{number}"), &format!("d{}/in", number + 1)) {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            let now = image(&overlay, ImageTimes::Without);
            assert_same(&now, &before, &format!("a refused rename of d{number}"));
            refused += 1;
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn file_systems_within_the_directory_are_shown_and_not_changed() {
    let bench = OverlayBench::new();
    std::fs::create_dir(bench.path("lower/mounted")).unwrap();
    let Some(_volume) = MountedVolume::over(&bench.path("lower/mounted")) else {
        return;
    };
    std::fs::write(bench.path("lower/mounted/file"), "mounted").unwrap();
    std::fs::write(bench.path("lower/file"), "own").unwrap();
    let overlay = bench.create();
    assert_eq!(get(&overlay, "mounted/file").unwrap(), b"mounted");
    let file = find(&overlay, "mounted/file").unwrap();
    let number = |result: crate::Result<()>| result.unwrap_err().errno();
    let write = overlay.write(file, crate::WritePosition::End, b"more").map(drop);
    assert_eq!(number(write), libc::EXDEV);
    assert_eq!(number(unlink(&overlay, "mounted/file")), libc::EXDEV);
    assert_eq!(number(rename(&overlay, "file", "mounted/other")), libc::EXDEV);
    assert_eq!(number(rename(&overlay, "mounted/file", "other")), libc::EXDEV);
    assert_eq!(number(rename(&overlay, "mounted", "elsewhere")), libc::EXDEV);
    assert_eq!(number(remove_directory(&overlay, "mounted")), libc::EXDEV);
    let mounted = find(&overlay, "mounted").unwrap();
    let create = overlay
        .create(mounted, b"new", &super::node(FileKind::Regular, 0o644))
        .map(drop);
    assert_eq!(number(create), libc::EXDEV);
    put(&overlay, "file", b"changed");
    overlay.commit().unwrap();
    assert_eq!(bench.apply().unwrap(), ApplyOutcome::Complete);
}

#[test]
fn data_is_durable_before_what_depends_on_it() {
    let bench = OverlayBench::new();
    for directory in ["moved", "gone"] {
        std::fs::create_dir(bench.path("lower").join(directory)).unwrap();
    }
    std::fs::write(bench.path("lower/file"), "old").unwrap();
    let overlay = bench.create();
    put(&overlay, "file", b"new");
    rename(&overlay, "moved", "there").unwrap();
    remove_directory(&overlay, "gone").unwrap();
    overlay.commit().unwrap();
    let lower = FailingFileSystem::new(bench.lower(), i64::MAX);
    apply(&lower, bench.upper(), Inode::ROOT).unwrap();
    let calls = lower.calls();
    let first = |wanted: &str| calls.iter().position(|call| call.starts_with(wanted)).unwrap();
    let last = |wanted: &str| calls.iter().rposition(|call| call.starts_with(wanted)).unwrap();
    let synced = |from: usize, to: usize| calls[from..to].iter().any(|call| call == "sync");
    let (sealed, detached) = (first("create sealed"), last("rename to p"));
    assert!(synced(last("write"), sealed), "{calls:?}");
    assert!(synced(sealed, first("rename")), "{calls:?}");
    let placed = [first("rename to there"), first("rename to file")];
    assert!(placed.iter().all(|placed| synced(detached, *placed)), "{calls:?}");
    let removed = first("unlink sealed");
    assert!(placed.iter().all(|placed| synced(*placed, removed)), "{calls:?}");
    assert_eq!(calls.last().unwrap(), "sync");
}
