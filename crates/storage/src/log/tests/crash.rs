//! Crashes a log at every device operation and between operations, and recovers it on the same boot
//! or after a power failure. The recovery and the recovered log are crashed again.

use super::super::*;
use super::story::{Crash, Model, Story, open_image};
use super::{growing, small};
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use fastrand::Rng;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of crash images opened, by depth.
static IMAGES: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

fn survivals(rng: &mut Rng) -> CrashSurvival {
    CrashSurvival::ALL[rng.usize(..CrashSurvival::ALL.len())]
}

/// Opens a crash image and checks it against the model. Also crashes the opening at some of its
/// operations, and goes on with the recovered log.
fn verify(
    image: &SimDirectory,
    options: LogOptions,
    model: &Model,
    crash: Crash,
    depth: usize,
    rng: &mut Rng,
    context: &str,
) {
    IMAGES[depth].fetch_add(1, Ordering::Relaxed);
    let nested = Arc::new(Mutex::new(Vec::new()));
    if depth > 0 {
        let (nested, mut rng) = (Arc::clone(&nested), rng.fork());
        image.on_operation(move |point| {
            if rng.u8(..3) == 0 {
                let (survival, seed) = (survivals(&mut rng), rng.u64(..));
                let text = format!("{} {} {survival:?}", point.index, point.operation);
                nested.lock().push((survival, point.image(survival, seed), text));
            }
        });
    }
    let opened = open_image(image, options, model);
    image.clear_hook();
    let (log, replayed) = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
    model.judge(crash, &replayed, log.completed(), context);
    for (survival, image, text) in nested.lock().drain(..) {
        let context = format!("{context} > during recovery {text}");
        let crash = crash.and(Crash::of(survival));
        verify(&image, options, model, crash, depth - 1, rng, &context);
    }
    if depth > 0 {
        let model = model.recovered(&replayed, &log);
        let mut story = Story::of(image.clone(), options, log, model, rng.fork());
        for step in 0..rng.usize(1..12) {
            let context = format!("{context} > after recovery, step {step}");
            story.step().unwrap_or_else(|error| panic!("{context}: {error}"));
            if rng.u8(..4) == 0 {
                crash_now(&story, depth - 1, rng, &context);
            }
        }
        crash_now(&story, depth - 1, rng, context);
    }
}

fn crash_now(story: &Story, depth: usize, rng: &mut Rng, context: &str) {
    let survival = survivals(rng);
    let image = story.directory.image(survival, rng.u64(..));
    let model = story.model.lock().clone();
    let context = format!("{context} > {survival:?}");
    verify(
        &image,
        story.options,
        &model,
        Crash::of(survival),
        depth,
        rng,
        &context,
    );
}

/// Runs a story of `steps` steps. Verifies a crash image before about one in `rarity` device
/// operations, and after about one in `rarity` steps.
fn run(seed: u64, options: LogOptions, steps: usize, rarity: u32, depth: usize) -> Story {
    let mut story = Story::new(seed, options);
    let mut rng = Rng::with_seed(!seed);
    let (model, mut hook_rng) = (Arc::clone(&story.model), rng.fork());
    story.directory.on_operation(move |point| {
        if hook_rng.u32(..rarity) != 0 {
            return;
        }
        let survival = survivals(&mut hook_rng);
        let image = point.image(survival, hook_rng.u64(..));
        let model = model.lock().clone();
        let context = format!(
            "seed {seed}: before operation {} ({} {}) {survival:?}",
            point.index, point.operation, point.file
        );
        verify(
            &image,
            options,
            &model,
            Crash::of(survival),
            depth,
            &mut hook_rng,
            &context,
        );
    });
    for step in 0..steps {
        let context = format!("seed {seed}: step {step}");
        story.step().unwrap_or_else(|error| panic!("{context}: {error}"));
        if rng.u32(..rarity) == 0 {
            crash_now(&story, depth, &mut rng, &context);
        }
    }
    story.directory.clear_hook();
    assert_eq!(story.log().check().unwrap(), [], "seed {seed}");
    story
}

#[test]
fn every_crash_leaves_what_was_told_and_nothing_else() {
    let count = std::env::var("ALLUVIUM_LOG_SEEDS").map_or(12, |count| count.parse().unwrap());
    for seed in 0..count {
        let access = [SegmentAccess::Mapped, SegmentAccess::Written][seed as usize % 2];
        let sizes = if seed % 4 < 2 { small() } else { growing() };
        let options = LogOptions {
            access,
            lanes: 1 + seed as usize % 3,
            ..sizes
        };
        run(seed, options, 150, 12, 2);
    }
    let images: Vec<u64> = IMAGES.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    assert!(images[0] > 0 && images[1] > 0 && images[2] > 0, "{images:?}");
    println!("images by depth: {images:?}");
}

/// A log is killed while its records are only in the page cache. The next opening loses power, and
/// the one after it is killed. Whatever the first of these openings left behind must not be
/// mistaken for records that the second wrote in the same place.
#[test]
fn what_an_opening_left_that_lost_power_is_not_taken_for_what_the_next_one_wrote() {
    let mut opened = 0;
    for seed in 0..4 {
        let access = [SegmentAccess::Mapped, SegmentAccess::Written][seed as usize % 2];
        let options = LogOptions { access, ..small() };
        let mut story = Story::new(seed, options);
        for _ in 0..40 {
            story.step().unwrap();
        }
        let model = story.model.lock().clone();
        let killed = story.directory.image(CrashSurvival::Process, seed);
        let images = |image: &SimDirectory, survivals: Vec<(CrashSurvival, u64)>| {
            let images = Arc::new(Mutex::new(Vec::new()));
            let taken = Arc::clone(&images);
            image.on_operation(move |point| {
                let images = survivals.iter().map(|&(survival, seed)| {
                    let text = format!("{} {} {survival:?} {seed}", point.index, point.operation);
                    (point.image(survival, seed), text)
                });
                taken.lock().extend(images);
            });
            let log = open_image(image, options, &model);
            image.clear_hook();
            drop(log.unwrap());
            std::mem::take(&mut *images.lock())
        };
        let random = (0..6).map(|seed| (CrashSurvival::Random, seed)).collect();
        for (lost, first) in images(&killed, random) {
            for (image, second) in images(&lost, vec![(CrashSurvival::Process, 0)]) {
                opened += 1;
                if let Err(error) = open_image(&image, options, &model) {
                    panic!("seed {seed}: power lost before {first}, killed before {second}: {error}");
                }
            }
        }
    }
    assert!(opened > 5_000, "{opened}");
}
