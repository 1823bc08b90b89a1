//! Tests of the extent lifecycle against a simple model that keeps owners and frozen maps as
//! ordinary maps. The model knows which extents must not be allocated: those owned by a step or the
//! store, those in a frozen map that a crash may bring back, and those that a guard can reach.

use super::*;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The reference count and live bytes of every installed extent.
type Installed = BTreeMap<Extent, (u32, u64)>;

/// A bug in the layer above, planted to check that the model detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// A generation is reported as durable before its map is written.
    DurableTooEarly,
    /// Space is reclaimed as if no guards existed.
    GuardsForgotten,
    /// An installed extent is released while it still has a second owner.
    ReleasedTooOften,
}

struct Model {
    bed: Bed,
    bug: Bug,
    random: fastrand::Rng,
    provisional: Vec<Extent>,
    installed: Installed,
    /// Extents unlinked at an epoch that a guard may still pin.
    unlinked: Vec<(Extent, u64)>,
    /// Total size in bytes of the extents that died since the last freeze.
    dying_bytes: u64,
    /// The maps that may be opened after a crash, starting with the durable one.
    cuts: VecDeque<(u64, MapPointer, Installed)>,
    generation: u64,
    epoch: u64,
    safe: u64,
    reused: u64,
    seen: Vec<bool>,
    /// Maximum number of bytes that each tier may occupy: its limit, or what it occupied after a
    /// crash.
    most_occupied: [u64; 2],
}

/// The size limits of the two tiers in bytes.
const LIMITS: [u64; 2] = [700 * UNIT, 500 * UNIT];

impl Model {
    fn new(seed: u64, bug: Bug) -> Model {
        let [first, second] = LIMITS.map(|bytes| TierLimits {
            max_bytes: Some(bytes),
            ..TierLimits::default()
        });
        let options = ExtentOptions {
            max_bytes: first.max_bytes,
            ..ExtentOptions::default()
        }
        .with_tier(1, second);
        let mut model = Model {
            bed: bed(2, options),
            bug,
            random: fastrand::Rng::with_seed(seed),
            provisional: Vec::new(),
            installed: Installed::new(),
            unlinked: Vec::new(),
            dying_bytes: 0,
            cuts: VecDeque::new(),
            generation: 1,
            epoch: 1,
            safe: 0,
            reused: 0,
            seen: vec![false; 4000],
            most_occupied: LIMITS,
        };
        model.write_cut();
        model
    }

    /// Panics if a newly allocated extent already has an owner.
    fn expect_unowned(&mut self, new: Extent) {
        let cuts = self.cuts.iter().flat_map(|(_, _, cut)| cut.keys());
        let safe = self.safe;
        let reachable = self
            .unlinked
            .iter()
            .filter(|(_, epoch)| *epoch >= safe)
            .map(|(extent, _)| extent);
        let owned = self
            .provisional
            .iter()
            .chain(self.installed.keys())
            .chain(cuts)
            .chain(reachable);
        if let Some(owner) = owned.into_iter().find(|owner| owner.overlaps(&new)) {
            panic!("{new} were handed out, {owner} are protected");
        }
        for unit in new.start..new.end() {
            let seen = &mut self.seen[unit as usize * 2 + usize::from(new.tier)];
            self.reused += u64::from(*seen);
            *seen = true;
        }
    }

    fn allocate(&mut self) {
        let random = &mut self.random;
        let most = if random.u8(..10) == 0 {
            random.u32(1..200)
        } else {
            random.u32(1..12)
        };
        let least = random.u32(1..=most);
        let class = match random.u8(..8) {
            0 => AllocationClass::Essential,
            1 => AllocationClass::Freeing,
            _ => AllocationClass::Normal,
        };
        let near = random.choice(self.installed.keys()).copied();
        match self
            .bed
            .extents
            .allocate_between(random.u8(..2), least..=most, class, near)
        {
            Ok(extent) => {
                assert!((least..=most).contains(&extent.units));
                assert_eq!(
                    (self.bed.extents.references(extent), self.bed.extents.live(extent)),
                    (1, 0)
                );
                self.expect_unowned(extent);
                self.provisional.push(extent);
            }
            Err(error) => assert!(error.is_full(), "{error}"),
        }
    }

    fn any_installed(&mut self) -> Option<Extent> {
        self.random.choice(self.installed.keys()).copied()
    }

    fn finish_step(&mut self) {
        if self.provisional.is_empty() {
            return;
        }
        let at = self.random.usize(..self.provisional.len());
        let mut extent = self.provisional.swap_remove(at);
        if self.random.u8(..4) == 0 {
            let units = self.random.u32(1..=extent.units);
            extent = self.bed.extents.trim(extent, units);
        }
        if self.random.u8(..4) == 0 {
            self.bed.extents.abandon(extent);
        } else {
            let live = self.random.u64(..=extent.bytes());
            self.bed.extents.install(&[(extent, live)]);
            self.installed.insert(extent, (1, live));
        }
    }

    fn count(&mut self) {
        let Some(extent) = self.any_installed() else {
            return;
        };
        let (references, live) = self.installed.get_mut(&extent).unwrap();
        match self.random.u8(..3) {
            0 => {
                self.bed.extents.retain(extent);
                *references += 1;
            }
            1 => {
                let bytes = self.random.u64(..=extent.bytes() - *live);
                self.bed.extents.add_live(extent, bytes);
                *live += bytes;
            }
            _ => {
                let bytes = self.random.u64(..=*live);
                self.bed.extents.sub_live(extent, bytes);
                *live -= bytes;
            }
        }
    }

    fn release(&mut self) {
        let Some(extent) = self.any_installed() else {
            return;
        };
        let references = &mut self.installed.get_mut(&extent).unwrap().0;
        *references -= 1;
        let last = *references == 0;
        if last {
            self.installed.remove(&extent);
            self.unlinked.push((extent, self.epoch));
            self.dying_bytes += extent.bytes();
        } else if self.bug == Bug::ReleasedTooOften {
            let _ = self.bed.extents.release(extent, self.epoch);
        }
        assert_eq!(self.bed.extents.release(extent, self.epoch), last);
        assert_eq!(self.bed.extents.references(extent) == 0, last);
    }

    fn write_cut(&mut self) {
        let frozen = self.bed.extents.freeze(self.generation);
        self.dying_bytes = 0;
        if self.bug == Bug::DurableTooEarly {
            self.bed.extents.made_durable(self.generation);
        }
        let cut = self.installed.clone();
        let later = self.random.u8(..4);
        // Changes made after the freeze but before the map is written belong to the next
        // generation.
        for _ in 0..later {
            self.release();
            self.count();
            self.allocate();
        }
        if self.random.u8(..5) == 0 && !self.cuts.is_empty() {
            drop(frozen);
        } else {
            let pointer = self.bed.extents.write_map(&self.bed.directory, frozen).unwrap();
            self.cuts.push_back((self.generation, pointer, cut));
            let violations = self
                .bed
                .extents
                .check_map(self.bed.directory.as_ref(), &pointer)
                .unwrap();
            assert_eq!(violations, []);
        }
        self.generation += 1;
    }

    fn make_durable(&mut self) {
        if self.cuts.len() > 1 {
            let durable = self.random.usize(1..self.cuts.len());
            self.cuts.drain(..durable);
            let (generation, _, _) = self.cuts[0];
            self.bed.extents.made_durable(generation);
        }
    }

    fn reclaim(&mut self) {
        self.epoch += u64::from(self.random.u8(..3));
        self.safe = self.random.u64(self.safe..=self.epoch);
        let limit = ReclaimLimit {
            extents: self.random.usize(..20),
            operations: self.random.u32(..4),
        };
        let safe = if self.bug == Bug::GuardsForgotten {
            u64::MAX
        } else {
            self.safe
        };
        let before = self.bed.extents.usage().total();
        let done = self.bed.extents.reclaim(safe, limit).unwrap();
        let after = self.bed.extents.usage().total();
        assert_eq!(before.dead_bytes - after.dead_bytes, done.freed_bytes);
        assert!(after.file_bytes + done.truncated_bytes >= before.file_bytes);
    }

    /// Reopens the extents from a map that may be opened after a crash: the durable one, or one
    /// written after it.
    fn reopen(&mut self) {
        let at = self.random.usize(..self.cuts.len());
        let cut = self.cuts.remove(at).unwrap();
        self.bed.extents = self.bed.reopen(&cut.1).unwrap();
        self.installed = cut.2.clone();
        (self.provisional, self.unlinked) = (Vec::new(), Vec::new());
        self.dying_bytes = 0;
        self.cuts = VecDeque::from([cut]);
        self.safe = 0;
        let usage = self.bed.extents.usage();
        self.most_occupied = [0, 1].map(|tier| usage.tiers[tier].occupied_bytes.max(LIMITS[tier]));
        self.check();
        assert_eq!(
            self.bed
                .extents
                .check_map(self.bed.directory.as_ref(), &self.cuts[0].1)
                .unwrap(),
            []
        );
    }

    fn check(&self) {
        let reachable = self
            .installed
            .iter()
            .map(|(&extent, &(references, _))| (extent, references));
        assert_eq!(self.bed.extents.check(reachable), []);
        for (&extent, &(references, live)) in &self.installed {
            let found = (self.bed.extents.references(extent), self.bed.extents.live(extent));
            assert_eq!(found, (references, live), "{extent}");
        }
        let usage = self.bed.extents.usage();
        let total = usage.total();
        let used = total.live_extent_bytes + total.provisional_bytes + total.dead_bytes;
        assert_eq!(total.dying_bytes, self.dying_bytes);
        assert_eq!(total.file_bytes, used + total.free_bytes);
        let lengths: u64 = (0..2).map(|tier| self.bed.tiers.get(tier).unwrap().len()).sum();
        assert_eq!(total.file_bytes, lengths);
        assert_eq!(usage.occupied_bytes, total.file_bytes - total.hole_bytes);
        for (tier, most) in usage.tiers.iter().zip(self.most_occupied) {
            assert!(tier.occupied_bytes <= most);
        }
    }

    fn step(&mut self) {
        match self.random.u8(..100) {
            0..35 => self.allocate(),
            35..60 => self.finish_step(),
            60..70 => self.count(),
            70..85 => self.release(),
            85..90 => self.write_cut(),
            90..94 => self.make_durable(),
            94..99 => self.reclaim(),
            _ => self.reopen(),
        }
    }
}

#[test]
fn no_unit_has_two_owners_and_every_open_finds_the_frozen_state() {
    let mut reused = 0;
    for seed in 0..20 {
        let mut model = Model::new(seed, Bug::None);
        for step in 0..1500 {
            let done = catch_unwind(AssertUnwindSafe(|| {
                model.step();
                if step % 16 == 0 {
                    model.check();
                }
            }));
            assert!(done.is_ok(), "seed {seed}, step {step}");
        }
        reused += model.reused;
    }
    assert!(reused > 10_000, "{reused} units had an earlier owner");
}

#[test]
fn planted_bugs_are_noticed() {
    for bug in [Bug::DurableTooEarly, Bug::GuardsForgotten, Bug::ReleasedTooOften] {
        let noticed = (0..10).filter(|&seed| {
            let run = catch_unwind(|| {
                let mut model = Model::new(seed, bug);
                (0..1500).for_each(|_| model.step());
            });
            run.is_err()
        });
        assert!(noticed.count() >= 8, "{bug:?}");
    }
}
