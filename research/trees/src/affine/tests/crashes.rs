//! Crashes before every operation of the device.
//!
//! `cargo test` runs a small number of crashes. To run more, from another seed:
//!
//! ```text
//! ALLUVIUM_SIM_POINTS=60000 ALLUVIUM_SIM_SEED=7 \
//!     cargo test --release -p research-trees --lib -- affine_dictionaries_survive
//! ```

use super::*;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_sim::environment::{number, points};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The last committed state, and the state being committed.
#[derive(Default)]
struct Story {
    states: Vec<Model>,
    committed: u64,
}

fn opened(directory: &SimDirectory, memory_bytes: u64) -> Result<(AffineTree<FileSpace>, u64)> {
    let space = FileSpace::open(directory, "dictionary")?;
    let (tree, own) = AffineTree::open(space, memory_bytes, Arc::new(Append))?;
    let number = own.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
    Ok((tree, number))
}

/// Opens the dictionary after a crash, and compares it with the permitted states.
fn compare(image: &SimDirectory, story: &Mutex<Story>) {
    let story = story.lock().unwrap();
    let (tree, number) = match opened(image, 0) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(
                story.committed == 0,
                "a dictionary that was committed opens: {error}"
            );
            return;
        }
    };
    let newest = story.states.len() as u64 - 1;
    assert!(
        (story.committed..=newest).contains(&number),
        "commit {number} is neither {} nor {newest}",
        story.committed
    );
    assert_eq!(contents(&tree), story.states[number as usize]);
    sound(&tree);
}

fn run(variant: AffineVariant, seed: u64, points: u64) -> u64 {
    let directory = SimDirectory::new(seed);
    let story = Arc::new(Mutex::new(Story::default()));
    story.lock().unwrap().states.push(Model::new());
    let seen = Arc::new(AtomicU64::new(0));
    let (hook_story, hook_seen) = (Arc::clone(&story), Arc::clone(&seen));
    directory.on_operation(move |point| {
        let at = hook_seen.fetch_add(1, Ordering::Relaxed);
        let survival = CrashSurvival::ALL[(at % 5) as usize];
        compare(&point.image(survival, seed ^ at), &hook_story);
    });
    let options = AffineOptions {
        memory_bytes: if seed.is_multiple_of(2) { 0 } else { 4 << 10 },
        ..options(variant, 512, 8, 8)
    };
    let space = FileSpace::create(&directory, "dictionary").unwrap();
    let mut tree = AffineTree::create(space, options, Arc::new(Append)).unwrap();
    let (mut model, mut random, mut commits) = (Model::new(), fastrand::Rng::with_seed(seed), 0u64);
    while seen.load(Ordering::Relaxed) < points {
        for _ in 0..random.u32(1..40) {
            let next = change(&mut random, 500);
            change_tree(&mut tree, &next).unwrap();
            change_model(&mut model, &next);
        }
        commits += 1;
        story.lock().unwrap().states.push(model.clone());
        // The slot of a commit is then longer than a sector, so that a crash can tear it.
        tree.commit(&commits.to_le_bytes().repeat(60)).unwrap();
        story.lock().unwrap().committed = commits;
        if random.u32(0..8) == 0 {
            drop(tree);
            let (again, number) = opened(&directory, options.memory_bytes).unwrap();
            assert_eq!(number, commits);
            tree = again;
        }
    }
    directory.clear_hook();
    assert!(
        tree.height() > 1 || variant == AffineVariant::BTree,
        "{:?}",
        tree.levels()
    );
    seen.load(Ordering::Relaxed)
}

#[test]
fn affine_dictionaries_survive_every_crash() {
    let points = points(2000);
    let seed = number("ALLUVIUM_SIM_SEED", 1);
    let mut seen = 0;
    for (at, variant) in (0..).zip(AffineVariant::ALL) {
        seen += run(variant, seed + at, points / 5);
    }
    assert!(seen >= points / 5 * 5, "{seen}");
}

#[test]
fn a_file_survives_failures_of_its_device() {
    use alluvium_device::DeviceOperation;
    use alluvium_device::simulated::InjectedFault;
    for nth in 0..40 {
        let directory = SimDirectory::new(nth);
        let space = FileSpace::create(&directory, "dictionary").unwrap();
        let options = options(AffineVariant::WeightBalanced, 512, 8, 8);
        let mut tree = AffineTree::create(space, options, Arc::new(Append)).unwrap();
        let operation = if nth.is_multiple_of(2) {
            DeviceOperation::Write
        } else {
            DeviceOperation::Sync
        };
        directory.inject(InjectedFault::failing(operation).at(nth / 2 + 1));
        let (mut model, mut random) = (Model::new(), fastrand::Rng::with_seed(nth));
        let mut committed = Model::new();
        let mut pending = committed.clone();
        let error = loop {
            let next = change(&mut random, 300);
            change_model(&mut model, &next);
            pending.clone_from(&model);
            if let Err(error) = change_tree(&mut tree, &next).and_then(|()| tree.commit(b"")) {
                break error;
            }
            committed.clone_from(&model);
        };
        assert!(!matches!(error, Error::Damaged { .. }), "{error}");
        assert!(tree.insert(b"a", b"b").is_err(), "it refuses work");
        drop(tree);
        directory.clear_faults();
        let (tree, _) = opened(&directory.reopen(), 0).unwrap();
        let found = contents(&tree);
        assert!(found == committed || found == pending, "{nth}");
    }
}
