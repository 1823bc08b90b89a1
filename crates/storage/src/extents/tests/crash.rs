//! Crashes a store at every device operation, with every behaviour of unsynced data that the
//! simulator supports, and again after the recovery. The recovered extents must be those of the
//! durable superblock, and must contain the data that was written to them.

use super::*;
use alluvium_base::Purpose;
use alluvium_device::simulated::{CrashSurvival, SimDirectory, SimOptions};
use alluvium_device::{AlignedBuffer, BLOCK, FileOptions};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bug in the layer above, planted to check that the test detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Space is reused before a superblock that no longer needs it is durable.
    ReusedTooEarly,
    /// The superblock is written before the map.
    NamedTooEarly,
    /// The data of installed extents is not synced before the superblock is written.
    TierNotSynced,
}

/// The stamp, reference count and live bytes of each installed extent.
type Installed = BTreeMap<Extent, (u64, u32, u64)>;

/// The test's durable superblock. A new superblock is durable immediately here, because crashes
/// while it is written are tested elsewhere.
#[derive(Clone)]
struct Named {
    generation: u64,
    pointer: MapPointer,
    installed: Installed,
}

struct Story {
    simulated: SimDirectory,
    bed: Bed,
    bug: Bug,
    random: fastrand::Rng,
    installed: Installed,
    stamp: u64,
    named: Arc<Mutex<Named>>,
}

fn tiers(simulated: &SimDirectory) -> Arc<TierFiles> {
    Arc::new(TierFiles::open(&[simulated as &dyn Directory; 2], FileOptions::DIRECT).unwrap())
}

impl Story {
    fn begin(seed: u64, bug: Bug) -> Story {
        let simulated = SimDirectory::with(SimOptions::new(seed));
        drop(TierFiles::create(&[&simulated as &dyn Directory; 2]).unwrap());
        let directory: Arc<dyn Directory> = Arc::new(simulated.clone());
        let tiers = tiers(&simulated);
        let extents = Extents::create(Arc::clone(&tiers), ExtentOptions::default()).unwrap();
        let bed = Bed {
            directory,
            tiers,
            extents,
            options: ExtentOptions::default(),
        };
        bed.tiers.sync(Purpose::Other).unwrap();
        let pointer = bed.checkpoint(1);
        let named = Named {
            generation: 1,
            pointer,
            installed: Installed::new(),
        };
        Story {
            simulated,
            bed,
            bug,
            random: fastrand::Rng::with_seed(seed),
            installed: Installed::new(),
            stamp: seed << 32,
            named: Arc::new(Mutex::new(named)),
        }
    }

    /// Opens the store after a crash, and compares it with the durable superblock.
    fn recover(image: &SimDirectory, named: &Named, bug: Bug, seed: u64) -> Story {
        let directory: Arc<dyn Directory> = Arc::new(image.clone());
        let tiers = tiers(image);
        let extents = Extents::open(
            &directory,
            Arc::clone(&tiers),
            &named.pointer,
            ExtentOptions::default(),
        )
        .unwrap();
        let bed = Bed {
            directory,
            tiers,
            extents,
            options: ExtentOptions::default(),
        };
        let reachable = named
            .installed
            .iter()
            .map(|(&extent, &(_, references, _))| (extent, references));
        assert_eq!(bed.extents.check(reachable), []);
        assert_eq!(bed.extents.check_map(image, &named.pointer).unwrap(), []);
        for (extent, &(stamp, _, live)) in &named.installed {
            assert_eq!(bed.extents.live(*extent), live, "{extent}");
            for at in [extent.offset(), extent.range().end - BLOCK] {
                let file = bed.tiers.get(extent.tier).unwrap();
                let bytes = file.read_at(at, BLOCK as usize, Purpose::Check).unwrap();
                assert_eq!(bytes[..8], stamp.to_le_bytes(), "{extent} at {at}");
            }
        }
        Story {
            simulated: image.clone(),
            bed,
            bug,
            random: fastrand::Rng::with_seed(seed),
            installed: named.installed.clone(),
            stamp: seed << 32,
            named: Arc::new(Mutex::new(named.clone())),
        }
    }

    fn write(&mut self) {
        let units = if self.random.u8(..6) == 0 {
            self.random.u32(1..40)
        } else {
            self.random.u32(1..4)
        };
        let tier = self.random.u8(..2);
        let extent = self
            .bed
            .extents
            .allocate(tier, units, AllocationClass::Normal)
            .unwrap();
        self.stamp += 1;
        let block = AlignedBuffer::padded(&self.stamp.to_le_bytes());
        let file = self.bed.tiers.get(tier).unwrap();
        let block = file.write_at(extent.offset(), block, Purpose::Other).unwrap();
        file.write_at(extent.range().end - BLOCK, block, Purpose::Other)
            .unwrap();
        if self.random.u8(..8) == 0 {
            return self.bed.extents.abandon(extent);
        }
        let live = self.random.u64(..=extent.bytes());
        self.bed.extents.install(&[(extent, live)]);
        self.installed.insert(extent, (self.stamp, 1, live));
    }

    fn change(&mut self) {
        let Some(&extent) = self.random.choice(self.installed.keys()) else {
            return;
        };
        let (_, references, live) = self.installed.get_mut(&extent).unwrap();
        match self.random.u8(..6) {
            0 => {
                self.bed.extents.retain(extent);
                *references += 1;
            }
            1 => {
                let bytes = *live / 2;
                self.bed.extents.sub_live(extent, bytes);
                *live -= bytes;
            }
            _ => {
                *references -= 1;
                self.bed.extents.release(extent, 0);
                if *references == 0 {
                    self.installed.remove(&extent);
                }
            }
        }
    }

    fn checkpoint(&mut self) {
        let generation = self.named.lock().generation + 1;
        let frozen = self.bed.extents.freeze(generation);
        if self.bug != Bug::TierNotSynced {
            self.bed.tiers.sync(Purpose::Other).unwrap();
        }
        if self.bug == Bug::ReusedTooEarly {
            self.bed.extents.made_durable(generation);
            self.reclaim();
            self.write();
        }
        let named = |pointer, installed: &Installed| Named {
            generation,
            pointer,
            installed: installed.clone(),
        };
        let cut = self.installed.clone();
        if self.bug == Bug::NamedTooEarly {
            let pointer = self.named.lock().pointer;
            *self.named.lock() = named(pointer, &cut);
        }
        let pointer = self.bed.extents.write_map(&self.bed.directory, frozen).unwrap();
        *self.named.lock() = named(pointer, &cut);
        self.bed.extents.made_durable(generation);
    }

    fn reclaim(&mut self) {
        let limit = ReclaimLimit {
            extents: self.random.usize(1..50),
            operations: self.random.u32(..5),
        };
        self.bed.extents.reclaim(1, limit).unwrap();
    }

    fn step(&mut self) {
        match self.random.u8(..20) {
            0..8 => self.write(),
            8..14 => self.change(),
            14..17 => self.reclaim(),
            _ => self.checkpoint(),
        }
    }
}

/// Runs a story and crashes it at every `stride`-th device operation. After each crash, another
/// story runs on the recovered store and is crashed too, down to a depth of `depth`. Adds the
/// number of recovered crashes to `points`.
fn crash_everywhere(mut story: Story, steps: usize, stride: u64, depth: u32, points: &Arc<AtomicU64>) {
    let (named, bug, points_here) = (Arc::clone(&story.named), story.bug, Arc::clone(points));
    let mut operation = 0u64;
    story.simulated.on_operation(move |point| {
        operation += 1;
        if !operation.is_multiple_of(stride) {
            return;
        }
        let named = named.lock().clone();
        for (index, survival) in CrashSurvival::ALL.into_iter().enumerate() {
            let seed = operation * 8 + index as u64 + u64::from(depth) * 1000;
            let image = point.image(survival, seed);
            let mut story = Story::recover(&image, &named, bug, seed);
            points_here.fetch_add(1, Ordering::Relaxed);
            if depth > 0 && operation.is_multiple_of(stride * 5) {
                crash_everywhere(story, 12, 3, depth - 1, &points_here);
            } else {
                // The store must be usable after the recovery.
                (0..3).for_each(|_| story.write());
                story.checkpoint();
                let names = image.list().unwrap();
                assert_eq!(
                    names.iter().filter(|name| name.ends_with(".map")).count(),
                    1,
                    "{names:?}"
                );
                let named = story.named.lock().clone();
                Story::recover(
                    &story.simulated.image(CrashSurvival::None, seed),
                    &named,
                    bug,
                    seed,
                );
            }
        }
    });
    for _ in 0..steps {
        story.step();
    }
    story.simulated.clear_hook();
}

#[test]
fn every_crash_opens_to_the_state_that_is_named() {
    // Set the environment variable to run more stories.
    let stories = std::env::var("ALLUVIUM_STORIES").map_or(1, |stories| stories.parse().unwrap());
    let points = Arc::new(AtomicU64::new(0));
    for seed in 0..stories {
        crash_everywhere(Story::begin(seed, Bug::None), 200, 4, 1, &points);
    }
    let points = points.load(Ordering::Relaxed);
    println!("{points} crashes survived");
    assert!(points > 1500 * stories, "{points} crashes");
}

#[test]
fn planted_bugs_lose_data_that_the_test_misses_not() {
    for bug in [Bug::ReusedTooEarly, Bug::NamedTooEarly, Bug::TierNotSynced] {
        let points = Arc::new(AtomicU64::new(0));
        let noticed = (0..3).any(|seed| {
            let story = std::panic::AssertUnwindSafe(Story::begin(seed, bug));
            let points = Arc::clone(&points);
            std::panic::catch_unwind(move || crash_everywhere({ story }.0, 250, 1, 0, &points)).is_err()
        });
        assert!(noticed, "{bug:?}");
    }
}
