//! What a view shows, and what stands in the upper file system.

use super::{OverlayBench, find, get, link, make, put, rename, unlink};
use crate::contract::FileSystem;
use crate::types::{AttributeChange, FileKind, Inode, SeekTarget, WritePosition};
use crate::{ErrorKind, Overlay, OverlayOptions};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

#[test]
fn an_inode_keeps_its_number_when_it_is_changed_moved_and_seen_again() {
    let bench = OverlayBench::new();
    std::fs::create_dir_all(bench.path("lower/a/b")).unwrap();
    std::fs::write(bench.path("lower/a/b/file"), "text").unwrap();
    let number = std::fs::metadata(bench.path("lower/a/b/file")).unwrap().ino();
    let overlay = bench.create();
    assert_eq!(find(&overlay, "a/b/file").unwrap(), Inode(number));
    put(&overlay, "a/b/file", b"changed");
    rename(&overlay, "a/b", "moved").unwrap();
    let new = make(&overlay, "moved/new", FileKind::Regular);
    let reopened = bench.open();
    assert_eq!(find(&reopened, "moved/file").unwrap(), Inode(number));
    assert_eq!(find(&reopened, "moved/new").unwrap(), new);
    // Without looking up names first, as a kernel does that knows the inode.
    let later = bench.open();
    assert_eq!(later.read(Inode(number), 0, 9).unwrap(), b"changed");
    let after = make(&later, "later", FileKind::Regular);
    assert!(after.0 > new.0);
}

#[test]
fn only_changed_blocks_of_a_large_file_are_copied_up() {
    let bench = OverlayBench::new();
    let data: Vec<u8> = (0..8 << 20).map(|n: u32| (n / 5 % 253) as u8).collect();
    std::fs::write(bench.path("lower/large"), &data).unwrap();
    let overlay = bench.create();
    let file = find(&overlay, "large").unwrap();
    overlay
        .write(file, WritePosition::At(5_000_001), b"changed")
        .unwrap();
    overlay.write(file, WritePosition::End, b"end").unwrap();
    let mut wanted = data.clone();
    wanted[5_000_001..5_000_008].copy_from_slice(b"changed");
    wanted.extend_from_slice(b"end");
    assert!(overlay.read(file, 0, 9 << 20).unwrap() == wanted);
    let kept = std::fs::metadata(bench.path("upper/c").join(format!("{:x}", file.0))).unwrap();
    assert_eq!(kept.size(), wanted.len() as u64);
    assert!(kept.blocks() * 512 <= 64 << 10, "{} blocks", kept.blocks());
    overlay.commit().unwrap();
    bench.apply().unwrap();
    assert!(std::fs::read(bench.path("lower/large")).unwrap() == wanted);
}

#[test]
fn a_file_that_was_cut_and_extended_has_zeros_where_the_lower_has_data() {
    let bench = OverlayBench::new();
    std::fs::write(bench.path("lower/large"), vec![7; 1 << 20]).unwrap();
    let overlay = bench.create();
    let file = find(&overlay, "large").unwrap();
    for size in [300_001, 900_000] {
        let change = AttributeChange {
            size: Some(size),
            ..AttributeChange::default()
        };
        overlay.set_attributes(file, &change).unwrap();
    }
    overlay.write(file, WritePosition::At(300_500), b"x").unwrap();
    let mut wanted = vec![7; 300_001];
    wanted.resize(900_000, 0);
    wanted[300_500] = b'x';
    assert!(overlay.read(file, 0, 1 << 20).unwrap() == wanted);
    assert_eq!(overlay.seek(file, 5000, SeekTarget::Data).unwrap(), 5000);
    assert_eq!(overlay.seek(file, 0, SeekTarget::Hole).unwrap() % 4096, 0);
    assert_eq!(overlay.seek(file, 899_999, SeekTarget::Hole).unwrap(), 899_999);
    assert_eq!(
        overlay.seek(file, 900_000, SeekTarget::Data).unwrap_err().kind(),
        ErrorKind::NoSuchOffset
    );
}

#[test]
fn a_directory_created_where_one_was_removed_is_empty() {
    let bench = OverlayBench::new();
    std::fs::create_dir(bench.path("lower/a")).unwrap();
    std::fs::write(bench.path("lower/a/file"), "old").unwrap();
    let overlay = bench.create();
    unlink(&overlay, "a/file").unwrap();
    super::remove_directory(&overlay, "a").unwrap();
    make(&overlay, "a", FileKind::Directory);
    let a = find(&overlay, "a").unwrap();
    assert!(overlay.read_directory(a, None, 9).unwrap().is_empty());
    assert_eq!(get(&overlay, "a/file").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_held_directory_that_was_removed_takes_no_names() {
    let bench = OverlayBench::new();
    std::fs::create_dir(bench.path("lower/a")).unwrap();
    let overlay = bench.create();
    let created = make(&overlay, "b", FileKind::Directory);
    for (name, inode) in [("a", find(&overlay, "a").unwrap()), ("b", created)] {
        overlay.hold(inode).unwrap();
        super::remove_directory(&overlay, name).unwrap();
        let refused = overlay
            .create(inode, b"file", &super::node(FileKind::Regular, 0o644))
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{name}");
        assert_eq!(overlay.attributes(inode).unwrap().links, 0);
        assert!(overlay.read_directory(inode, None, 9).unwrap().is_empty());
        overlay.release(inode).unwrap();
    }
    assert_eq!(overlay.attributes(created).unwrap_err().kind(), ErrorKind::Stale);
}

#[test]
fn stages_of_other_commits_are_not_part_of_a_view() {
    let bench = OverlayBench::new();
    std::fs::create_dir(bench.path("lower/.alluvium-apply-0-other")).unwrap();
    let overlay = bench.create();
    assert!(overlay.read_directory(Inode::ROOT, None, 9).unwrap().is_empty());
    let found = overlay.lookup(Inode::ROOT, b".alluvium-apply-0-other");
    assert_eq!(found.unwrap_err().kind(), ErrorKind::NotFound);
    let refused = overlay.create(
        Inode::ROOT,
        b".alluvium-apply-0-x",
        &super::node(FileKind::Regular, 0o644),
    );
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    overlay.commit().unwrap();
}

#[test]
fn an_overlay_lies_over_another_overlay() {
    let bench = OverlayBench::new();
    std::fs::write(bench.path("lower/file"), "lower").unwrap();
    std::fs::create_dir(bench.path("second")).unwrap();
    let first = Arc::new(bench.create());
    put(&*first, "first", b"first");
    let second_upper = || -> Arc<dyn FileSystem> {
        Arc::new(crate::OrdinaryDirectory::open(&bench.path("second"), crate::AccessTimes::Update).unwrap())
    };
    let options = OverlayOptions {
        name: "inner".into(),
        nesting: 1,
    };
    let second = Overlay::create(first.clone(), second_upper(), Inode::ROOT, &options).unwrap();
    put(&second, "first", b"changed");
    put(&second, "second", b"second");
    link(&second, "file", "linked").unwrap();
    assert_eq!(get(&*first, "first").unwrap(), b"first");
    second.commit().unwrap();
    super::apply(&*first, second_upper(), Inode::ROOT).unwrap();
    assert_eq!(get(&*first, "first").unwrap(), b"changed");
    first.commit().unwrap();
    bench.apply().unwrap();
    let lower = bench.path("lower");
    assert_eq!(std::fs::read(lower.join("second")).unwrap(), b"second");
    assert_eq!(std::fs::metadata(lower.join("linked")).unwrap().nlink(), 2);
    assert_eq!(std::fs::read_dir(&lower).unwrap().count(), 4);
}

#[test]
fn threads_change_a_view_at_the_same_time() {
    let bench = OverlayBench::new();
    for thread in 0..4 {
        std::fs::create_dir(bench.path("lower").join(thread.to_string())).unwrap();
    }
    let overlay = bench.create();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let overlay = &overlay;
            scope.spawn(move || {
                for number in 0..50 {
                    let path = format!("{thread}/{number}");
                    put(overlay, &path, path.as_bytes());
                    rename(overlay, &path, &format!("{}/{thread}-{number}", (thread + 1) % 4)).unwrap();
                }
            });
        }
    });
    overlay.commit().unwrap();
    bench.apply().unwrap();
    for thread in 0..4 {
        for number in 0..50 {
            let path = format!("lower/{}/{thread}-{number}", (thread + 1) % 4);
            assert_eq!(
                std::fs::read(bench.path(&path)).unwrap(),
                format!("{thread}/{number}").into_bytes()
            );
        }
    }
}

#[test]
fn a_symbolic_link_has_no_attributes_of_users_whatever_the_upper_allows() {
    let bench = OverlayBench::new();
    let db = alluvium::Options::new().memory(16 << 20).in_memory().unwrap();
    let upper = Arc::new(crate::Files::open(&db, "upper").unwrap());
    let options = OverlayOptions {
        name: "test".into(),
        nesting: 0,
    };
    let overlay = Overlay::create(bench.lower(), upper, Inode::ROOT, &options).unwrap();
    let link = make(&overlay, "link", FileKind::Symlink);
    let refused = overlay
        .set_extended_attribute(link, b"user.a", b"", crate::SetMode::Any)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotPermitted);
    assert_eq!(overlay.attributes(link).unwrap().mode, 0o777);
}
