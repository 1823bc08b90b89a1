//! Random operations on an overlay and on a copy of its lower directory have the same answers and
//! lead to the same tree, before and after the changes are applied.

use super::OverlayBench;
use super::faults::MountedVolume;
use super::images::{ImageTimes, TreeImage, assert_same, image, without_times};
use super::operations::PathOperation;
use crate::contract::FileSystem;
use crate::types::{FileKind, Inode};
use crate::{AccessTimes, ApplyOutcome, Files, OrdinaryDirectory, Overlay, OverlayOptions, apply};
use alluvium_sim::environment::effort;
use fastrand::Rng;
use std::path::Path;
use std::sync::Arc;

/// Fills a directory with everything that overlays distinguish.
pub(super) fn fill(path: &Path, seed: u64) {
    fill_files(&OrdinaryDirectory::open(path, AccessTimes::Update).unwrap(), seed);
}

fn fill_files(files: &dyn FileSystem, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    for path in ["a", "b", "a/c", "b/a", "a/c/b"] {
        super::make(files, path, FileKind::Directory);
    }
    let large: Vec<u8> = (0..300_000_u32).map(|n| (n / 7 % 251) as u8).collect();
    super::put(files, "a/d", &large);
    super::put(files, "e", b"small");
    super::link(files, "e", "b/e").unwrap();
    super::link(files, "a/d", "a/c/d").unwrap();
    super::make(files, "b/d", FileKind::Symlink);
    for _ in 0..60 {
        let _ = PathOperation::random(&mut rng).run(files);
    }
}

/// A lower, a copy of it, and where changes are kept.
struct ModelCase<'a> {
    lower: &'a dyn Fn() -> Arc<dyn FileSystem>,
    upper: &'a dyn Fn() -> Arc<dyn FileSystem>,
    /// Makes what the upper has durable, and returns the upper for the apply.
    commit: &'a dyn Fn() -> Arc<dyn FileSystem>,
    model: &'a dyn FileSystem,
    view_image: &'a dyn Fn(&Overlay) -> TreeImage,
    errors: ErrorComparison,
}

/// What is compared of errors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ErrorComparison {
    Number,
    Existence,
}

impl ModelCase<'_> {
    fn check(&self, seed: u64, operations: usize) {
        println!("seed {seed}");
        let untouched = image(&*(self.lower)(), ImageTimes::With);
        let options = OverlayOptions {
            name: "test".to_owned(),
            nesting: 0,
        };
        let mut overlay = Overlay::create((self.lower)(), (self.upper)(), Inode::ROOT, &options).unwrap();
        let mut rng = Rng::with_seed(seed ^ 0xa11);
        for number in 0..operations {
            let operation = PathOperation::random(&mut rng);
            let (found, wanted) = (operation.run(&overlay), operation.run(self.model));
            // Two file systems may find several reasons for a refusal in different orders.
            let are_refused = self.errors == ErrorComparison::Existence && found.is_err() && wanted.is_err();
            assert!(
                found == wanted || are_refused,
                "seed {seed}, operation {number}: {operation:?}: {found:?}, not {wanted:?}"
            );
            if rng.u32(0..100) == 0 {
                overlay = Overlay::open((self.lower)(), (self.upper)(), Inode::ROOT).unwrap();
            }
        }
        let view = (self.view_image)(&overlay);
        let model = image(self.model, ImageTimes::Without);
        assert_same(
            &without_times(&view),
            &model,
            &format!("seed {seed}: view and model"),
        );
        let now = image(&*(self.lower)(), ImageTimes::With);
        assert_same(&now, &untouched, &format!("seed {seed}: untouched lower"));
        overlay.commit().unwrap();
        drop(overlay);
        let outcome = apply(&*(self.lower)(), (self.commit)(), Inode::ROOT).unwrap();
        assert_eq!(outcome, ApplyOutcome::Complete);
        let applied = image(&*(self.lower)(), ImageTimes::With);
        assert_same(&applied, &view, &format!("seed {seed}: applied lower and view"));
    }
}

fn check(bench: &OverlayBench, seed: u64, operations: usize) {
    fill(&bench.path("lower"), seed);
    bench.copy("lower", "model");
    let case = ModelCase {
        lower: &|| bench.lower(),
        upper: &|| bench.upper(),
        commit: &|| bench.upper(),
        model: &OrdinaryDirectory::open(&bench.path("model"), AccessTimes::Update).unwrap(),
        view_image: &|_| bench.view_image(),
        errors: ErrorComparison::Number,
    };
    case.check(seed, operations);
}

/// Creates a file system in a store in memory. It is gone when the store is.
fn stored_files() -> Files {
    let db = alluvium::Options::new().memory(16 << 20).in_memory().unwrap();
    Files::open(&db, "files").unwrap()
}

#[test]
fn a_transaction_of_a_store_keeps_the_changes_of_an_ordinary_directory() {
    if !super::is_root() {
        return;
    }
    for seed in 200..effort(215, 500) {
        let bench = OverlayBench::new();
        fill(&bench.path("lower"), seed);
        bench.copy("lower", "model");
        let files = stored_files();
        let transaction = Arc::new(files.begin());
        let case = ModelCase {
            lower: &|| bench.lower(),
            upper: &|| transaction.clone(),
            commit: &|| {
                transaction.commit().unwrap();
                Arc::new(files.another_view())
            },
            model: &OrdinaryDirectory::open(&bench.path("model"), AccessTimes::Update).unwrap(),
            view_image: &|overlay| image(overlay, ImageTimes::With),
            errors: ErrorComparison::Number,
        };
        case.check(seed, 150);
        assert!(files.check().unwrap().is_whole());
    }
}

#[test]
fn files_of_a_store_are_the_lower_of_a_branch() {
    for seed in 300..effort(315, 600) {
        let (lower, upper, model) = (stored_files(), stored_files(), stored_files());
        fill_files(&lower, seed);
        fill_files(&model, seed);
        let case = ModelCase {
            lower: &|| Arc::new(lower.another_view()),
            upper: &|| Arc::new(upper.another_view()),
            commit: &|| Arc::new(upper.another_view()),
            model: &model,
            view_image: &|overlay| image(overlay, ImageTimes::With),
            errors: ErrorComparison::Existence,
        };
        case.check(seed, 150);
        assert!(lower.check().unwrap().is_whole() && upper.check().unwrap().is_whole());
    }
}

#[test]
fn random_operations_on_a_view_and_on_a_copy_have_the_same_results() {
    if !super::is_root() {
        return;
    }
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
        let volume = match make {
            "" => MountedVolume::in_memory("size=400m"),
            _ => MountedVolume::image(name, make),
        };
        let Some(volume) = volume else { continue };
        for seed in 100..104 {
            check(&OverlayBench::within(Some(volume.path())), seed, 150);
        }
    }
}
