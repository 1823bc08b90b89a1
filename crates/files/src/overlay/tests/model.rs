//! Random operations on an overlay and on a copy of its lower directory have the same answers and
//! lead to the same tree, before and after the changes are applied.

use super::OverlayBench;
use super::images::{ImageTimes, assert_same, image};
use super::operations::PathOperation;
use crate::{AccessTimes, ApplyOutcome, OrdinaryDirectory};
use alluvium_sim::environment::effort;
use fastrand::Rng;
use std::path::Path;

/// Fills a directory with everything that overlays distinguish.
pub(super) fn fill(path: &Path, seed: u64) {
    let files = OrdinaryDirectory::open(path, AccessTimes::Update).unwrap();
    let mut rng = Rng::with_seed(seed);
    for (directory, name) in [("", "a"), ("", "b"), ("a", "c"), ("b", "a"), ("a/c", "b")] {
        let path = format!("{directory}/{name}");
        super::make(&files, path.trim_matches('/'), crate::FileKind::Directory);
    }
    let large: Vec<u8> = (0..300_000_u32).map(|n| (n / 7 % 251) as u8).collect();
    super::put(&files, "a/d", &large);
    super::put(&files, "e", b"small");
    super::link(&files, "e", "b/e").unwrap();
    super::link(&files, "a/d", "a/c/d").unwrap();
    super::make(&files, "b/d", crate::FileKind::Symlink);
    for _ in 0..60 {
        let _ = PathOperation::random(&mut rng).run(&files);
    }
}

fn check(bench: &OverlayBench, seed: u64, operations: usize) {
    println!("seed {seed}");
    fill(&bench.path("lower"), seed);
    bench.copy("lower", "before");
    bench.copy("lower", "model");
    let model = OrdinaryDirectory::open(&bench.path("model"), AccessTimes::Update).unwrap();
    let mut overlay = bench.create();
    let mut rng = Rng::with_seed(seed ^ 0xa11);
    for number in 0..operations {
        let operation = PathOperation::random(&mut rng);
        let (found, wanted) = (operation.run(&overlay), operation.run(&model));
        assert!(
            found == wanted,
            "seed {seed}, operation {number}: {operation:?}: {found:?}, not {wanted:?}"
        );
        if rng.u32(0..100) == 0 {
            overlay = bench.open();
        }
    }
    let view = image(&overlay, ImageTimes::Without);
    assert_same(
        &view,
        &image(&model, ImageTimes::Without),
        &format!("seed {seed}: view and model"),
    );
    let before = OrdinaryDirectory::open(&bench.path("before"), AccessTimes::Keep).unwrap();
    let untouched = image(&*bench.lower(), ImageTimes::With);
    assert_same(
        &untouched,
        &image(&before, ImageTimes::With),
        &format!("seed {seed}: untouched lower"),
    );
    let view = image(&overlay, ImageTimes::With);
    overlay.commit().unwrap();
    drop(overlay);
    assert_eq!(bench.apply().unwrap(), ApplyOutcome::Complete);
    let applied = image(&*bench.lower(), ImageTimes::With);
    assert_same(&applied, &view, &format!("seed {seed}: applied lower and view"));
}

#[test]
fn random_operations_on_a_view_and_on_a_copy_have_the_same_results() {
    for seed in 0..effort(40, 1000) {
        check(&OverlayBench::new(), seed, 150);
    }
}

#[test]
fn overlays_work_on_every_file_system() {
    for (name, make) in [
        ("ext4", "mkfs.ext4"),
        ("xfs", "mkfs.xfs"),
        ("btrfs", "mkfs.btrfs"),
        ("tmpfs", ""),
    ] {
        let Some(volume) = super::faults::MountedVolume::new(name, make) else {
            continue;
        };
        for seed in 100..104 {
            check(&OverlayBench::within(Some(&volume.path())), seed, 150);
        }
    }
}
