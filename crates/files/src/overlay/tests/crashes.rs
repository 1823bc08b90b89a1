//! An apply that ends after any number of its calls is finished by the next, and the tree is the
//! same as without the end.

use super::faults::FailingFileSystem;
use super::images::{ImageTimes, TreeImage, assert_same, image};
use super::operations::PathOperation;
use super::{OverlayBench, apply, find, get, link, make, put, remove_directory, rename, unlink};
use crate::contract::FileSystem;
use crate::types::{AllocateMode, AttributeChange, FileKind, Inode, RenameMode, SetMode, WritePosition};
use crate::{AccessTimes, ApplyOutcome, OrdinaryDirectory};
use alluvium_sim::environment::effort;
use fastrand::Rng;

fn large() -> Vec<u8> {
    (0..300_000_u32).map(|n| (n / 3 % 241) as u8).collect()
}

/// A lower directory with everything that [`change`] changes.
fn fill(files: &dyn FileSystem) {
    for directory in [
        "out",
        "out/in",
        "swap1",
        "swap2",
        "gone",
        "gone/deep",
        "into",
        "plain",
    ] {
        make(files, directory, FileKind::Directory);
    }
    for file in [
        "replaced",
        "moved",
        "out/in/file",
        "swap1/one",
        "swap2/two",
        "gone/deep/file",
        "gone/rescued",
    ] {
        put(files, file, file.as_bytes());
    }
    for file in [
        "becomes directory",
        "exchanged file",
        "mode",
        "plain/renamed",
        "plain/overwritten",
    ] {
        put(files, file, b"old");
    }
    for directory in ["becomes file", "exchanged directory", "exchanged directory/inner"] {
        make(files, directory, FileKind::Directory);
    }
    for file in ["large", "shared", "plain/all names"] {
        put(files, file, &large());
    }
    link(files, "shared", "plain/unknown").unwrap();
    link(files, "plain/all names", "plain/other").unwrap();
    make(files, "symlink", FileKind::Symlink);
}

/// Changes something of every kind, in particular in orders that no single pass of renames has.
fn change(files: &dyn FileSystem) {
    put(files, "replaced", b"new contents");
    rename(files, "moved", "plain/moved here").unwrap();
    // A directory that comes to lie in what lay in it.
    rename(files, "out/in", "in").unwrap();
    rename(files, "out", "in/out").unwrap();
    let exchange = |one: &str, two: &str| {
        let root = Inode::ROOT;
        files
            .rename(root, one.as_bytes(), root, two.as_bytes(), RenameMode::Exchange)
            .unwrap();
    };
    exchange("swap1", "swap2");
    exchange("exchanged file", "exchanged directory");
    rename(files, "gone/rescued", "rescued").unwrap();
    unlink(files, "gone/deep/file").unwrap();
    remove_directory(files, "gone/deep").unwrap();
    remove_directory(files, "gone").unwrap();
    unlink(files, "becomes directory").unwrap();
    make(files, "becomes directory", FileKind::Directory);
    put(files, "becomes directory/file", b"within");
    remove_directory(files, "becomes file").unwrap();
    put(files, "becomes file", b"a file");
    make(files, "tree", FileKind::Directory);
    make(files, "tree/branch", FileKind::Directory);
    put(files, "tree/branch/leaf", b"leaf");
    link(files, "tree/branch/leaf", "tree/second").unwrap();
    make(files, "tree/link", FileKind::Symlink);
    rename(files, "into", "tree/branch/into").unwrap();
    rename(files, "plain/renamed", "plain/overwritten").unwrap();
    let partial = find(files, "large").unwrap();
    files
        .write(partial, WritePosition::At(200_001), b"changed")
        .unwrap();
    let shared = find(files, "shared").unwrap();
    files.write(shared, WritePosition::At(5000), b"in place").unwrap();
    files
        .allocate(shared, AllocateMode::PunchHole, 100_000, 50_000)
        .unwrap();
    let cut = AttributeChange {
        size: Some(280_000),
        ..AttributeChange::default()
    };
    files.set_attributes(shared, &cut).unwrap();
    files
        .write(shared, WritePosition::At(290_000), b"beyond")
        .unwrap();
    let all = find(files, "plain/all names").unwrap();
    find(files, "plain/other").unwrap();
    files.write(all, WritePosition::End, b"end").unwrap();
    let mode = find(files, "mode").unwrap();
    let secret = AttributeChange {
        mode: Some(0o400),
        ..AttributeChange::default()
    };
    files
        .set_extended_attribute(mode, b"user.mark", b"new", SetMode::Any)
        .unwrap();
    files.set_attributes(mode, &secret).unwrap();
    unlink(files, "symlink").unwrap();
}

/// A bench whose overlay is committed, with what the lower shall become.
fn committed(
    fill: impl FnOnce(&OverlayBench),
    change: impl FnOnce(&dyn FileSystem),
) -> (OverlayBench, TreeImage) {
    let bench = OverlayBench::new();
    fill(&bench);
    let overlay = bench.create();
    change(&overlay);
    let wanted = bench.view_image();
    overlay.commit().unwrap();
    (bench, wanted)
}

fn scripted() -> (OverlayBench, TreeImage) {
    let fill = |bench: &OverlayBench| {
        fill(&OrdinaryDirectory::open(&bench.path("lower"), AccessTimes::Update).unwrap());
    };
    committed(fill, change)
}

/// What other programs may rely on at any moment.
fn check_visible(bench: &OverlayBench, wanted: &TreeImage, calls: i64) {
    let lower = bench.lower();
    let replaced = get(&*lower, "replaced").unwrap();
    assert!(
        replaced == b"replaced" || replaced == b"new contents",
        "{calls} calls"
    );
    let large_file = get(&*lower, "large").unwrap();
    assert!(
        large_file == large() || large_file[200_001..200_008] == *b"changed",
        "{calls} calls"
    );
    let all = image(&*lower, ImageTimes::With);
    let tree = |image: &TreeImage| {
        let within = image.iter().filter(|(path, _)| path.starts_with("/tree/"));
        within
            .map(|(path, node)| (path.clone(), node.clone()))
            .collect::<TreeImage>()
    };
    if !tree(&all).is_empty() {
        let (mut found, mut wanted) = (tree(&all), tree(wanted));
        // A file with two names has a third in the stage for a while.
        for image in [&mut found, &mut wanted] {
            image.remove("/tree/second");
            image.remove("/tree/branch/leaf");
        }
        assert_same(&found, &wanted, &format!("the new tree after {calls} calls"));
    }
}

#[test]
fn an_apply_that_ends_after_any_call_is_finished_by_the_next() {
    let mut rng = Rng::with_seed(7);
    let mut calls = 0;
    loop {
        let (bench, wanted) = scripted();
        let ending = FailingFileSystem::new(bench.lower(), calls);
        if apply(&ending, bench.upper(), Inode::ROOT).is_ok() {
            assert!(calls > 120, "only {calls} calls");
            break;
        }
        check_visible(&bench, &wanted, calls);
        // The second apply may end too.
        for _ in 0..rng.u32(0..3) {
            let ending = FailingFileSystem::new(bench.lower(), rng.i64(0..60));
            let _ = apply(&ending, bench.upper(), Inode::ROOT);
        }
        assert_eq!(bench.apply().unwrap(), ApplyOutcome::Complete);
        let applied = image(&*bench.lower(), ImageTimes::With);
        assert_same(&applied, &wanted, &format!("an end after {calls} calls"));
        assert_eq!(bench.apply().unwrap(), ApplyOutcome::Complete);
        assert_same(
            &image(&*bench.lower(), ImageTimes::With),
            &wanted,
            "a second apply",
        );
        calls += effort(1 + rng.i64(0..4), 1);
    }
}

#[test]
fn an_apply_that_cannot_note_its_end_is_repeated() {
    for calls in 0..3 {
        let (bench, wanted) = scripted();
        let upper = std::sync::Arc::new(FailingFileSystem::new(bench.upper(), calls));
        let outcome = apply(&*bench.lower(), upper, Inode::ROOT);
        assert_eq!(outcome.is_err(), calls < 2, "{calls} calls: {outcome:?}");
        assert_eq!(bench.apply().unwrap(), ApplyOutcome::Complete);
        assert_same(
            &image(&*bench.lower(), ImageTimes::With),
            &wanted,
            "a repeated apply",
        );
    }
}

#[test]
fn nothing_is_visible_before_everything_is_built() {
    let (bench, _) = scripted();
    let before = image(&*bench.lower(), ImageTimes::Without);
    let mut calls = 0;
    loop {
        let ending = FailingFileSystem::new(bench.lower(), calls);
        let _ = apply(&ending, bench.upper(), Inode::ROOT);
        let mut now = image(&*bench.lower(), ImageTimes::Without);
        let is_sealed = now.keys().any(|path| path.ends_with("/sealed"));
        now.retain(|path, _| !path.starts_with("/.alluvium"));
        if is_sealed {
            assert!(calls > 40, "only {calls} calls");
            return;
        }
        now.insert("/".to_owned(), before["/"].clone());
        assert_same(&now, &before, &format!("{calls} calls"));
        calls += 1;
    }
}

#[test]
fn random_transactions_survive_ends_of_their_apply() {
    if !super::is_root() {
        return;
    }
    let mut rng = Rng::with_seed(8);
    for seed in 1000..effort(1040, 1600) {
        let (bench, wanted) = committed(
            |bench| super::model::fill(&bench.path("lower"), seed),
            |files| {
                let mut rng = Rng::with_seed(seed);
                for _ in 0..120 {
                    let _ = PathOperation::random(&mut rng).run(files);
                }
            },
        );
        let mut ends = Vec::new();
        loop {
            let calls = rng.i64(0..120);
            let ending = FailingFileSystem::new(bench.lower(), calls);
            if apply(&ending, bench.upper(), Inode::ROOT).is_ok() {
                break;
            }
            ends.push(calls);
            if ends.len() == 4 {
                bench.apply().unwrap();
                break;
            }
        }
        let applied = image(&*bench.lower(), ImageTimes::With);
        assert_same(
            &applied,
            &wanted,
            &format!("seed {seed}, ends after {ends:?} calls"),
        );
    }
}
