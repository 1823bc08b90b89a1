//! The state of a disk after a crash.

use super::content::{FileChange, FileContent, PagePatch, WHOLE};
use super::file::{SimFileState, masked};
use super::names::FileId;
use super::world::{SimWorld, boot_id};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a machine stops, which determines what is on its disk afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashSurvival {
    /// The process was killed (`kill -9`). All completed changes survive, even in the page cache
    /// and in mapped memory, without becoming durable. Requests in flight are executed entirely, in
    /// part or not at all. The boot stays the same.
    Process,
    /// The power failed after all changes, including requests in flight, had reached the disk.
    All,
    /// The power failed, and only synced changes survive.
    None,
    /// The power failed. Names, lengths and holes survive up to some point in time, as with a
    /// journal, and any subset of the sectors of each unsynced write survives.
    Random,
    /// The power failed, and later changes may survive without earlier ones: names without
    /// contents, lengths without bytes (which read as zeros), contents without names, only the last
    /// changes, or any subset.
    Reordered,
}

impl CrashSurvival {
    pub const ALL: [CrashSurvival; 5] = [
        CrashSurvival::Process,
        CrashSurvival::All,
        CrashSurvival::None,
        CrashSurvival::Random,
        CrashSurvival::Reordered,
    ];

    /// The kinds of survival after a power failure.
    pub const POWER_LOSS: [CrashSurvival; 4] = [
        CrashSurvival::All,
        CrashSurvival::None,
        CrashSurvival::Random,
        CrashSurvival::Reordered,
    ];
}

/// Which changes survive, depending on their position in the order of all changes.
#[derive(Clone, Copy)]
enum SurvivalRule {
    All,
    Nothing,
    Before(u64),
    From(u64),
    /// Each change survives with probability 1/2.
    Some,
    /// Each write survives entirely, in part, or not at all.
    Torn,
}

/// Which changes survive, by kind.
struct SurvivalPlan {
    rng: fastrand::Rng,
    names: SurvivalRule,
    /// Changes of lengths, holes and allocations.
    shapes: SurvivalRule,
    bytes: SurvivalRule,
}

impl SurvivalPlan {
    fn new(
        survival: CrashSurvival,
        mut rng: fastrand::Rng,
        orders: std::ops::RangeInclusive<u64>,
    ) -> SurvivalPlan {
        let cut = rng.u64(orders);
        let (names, shapes, bytes) = match survival {
            CrashSurvival::Process => (SurvivalRule::All, SurvivalRule::All, SurvivalRule::All),
            CrashSurvival::All => (SurvivalRule::All, SurvivalRule::All, SurvivalRule::All),
            CrashSurvival::None => (
                SurvivalRule::Nothing,
                SurvivalRule::Nothing,
                SurvivalRule::Nothing,
            ),
            CrashSurvival::Random => (
                SurvivalRule::Before(cut),
                SurvivalRule::Before(cut),
                SurvivalRule::Torn,
            ),
            CrashSurvival::Reordered => match rng.u8(..8) {
                0 => (SurvivalRule::All, SurvivalRule::All, SurvivalRule::Nothing),
                1 => (SurvivalRule::All, SurvivalRule::Nothing, SurvivalRule::Nothing),
                2 => (SurvivalRule::Nothing, SurvivalRule::All, SurvivalRule::All),
                3 => (SurvivalRule::Nothing, SurvivalRule::Nothing, SurvivalRule::All),
                4 => (
                    SurvivalRule::From(cut),
                    SurvivalRule::From(cut),
                    SurvivalRule::From(cut),
                ),
                5 => (SurvivalRule::Some, SurvivalRule::All, SurvivalRule::From(cut)),
                6 => (SurvivalRule::Some, SurvivalRule::Some, SurvivalRule::Some),
                _ => (SurvivalRule::Some, SurvivalRule::Some, SurvivalRule::Torn),
            },
        };
        SurvivalPlan {
            rng,
            names,
            shapes,
            bytes,
        }
    }

    fn keeps(rng: &mut fastrand::Rng, keep: SurvivalRule, order: u64) -> bool {
        match keep {
            SurvivalRule::All => true,
            SurvivalRule::Nothing => false,
            SurvivalRule::Before(cut) => order < cut,
            SurvivalRule::From(cut) => order >= cut,
            SurvivalRule::Some | SurvivalRule::Torn => rng.bool(),
        }
    }

    /// Applies the part of a change that survives.
    fn apply(&mut self, content: &mut FileContent, order: u64, change: &FileChange) {
        let FileChange::Write(patches) = change else {
            if Self::keeps(&mut self.rng, self.shapes, order) {
                content.apply(change);
            }
            return;
        };
        if let SurvivalRule::Torn = self.bytes {
            self.tear(content, patches);
        } else if Self::keeps(&mut self.rng, self.bytes, order) {
            content.apply(change);
        }
    }

    /// Applies the part of a torn write that survives.
    fn tear(&mut self, content: &mut FileContent, patches: &[PagePatch]) {
        let tear = TornWrite::new(&mut self.rng);
        for patch in patches {
            content.put(patch.page, patch.mask & tear.mask(&mut self.rng), &patch.data);
        }
    }
}

/// How a write was interrupted.
enum TornWrite {
    Whole,
    Lost,
    Sectors,
    Pages,
}

impl TornWrite {
    fn new(rng: &mut fastrand::Rng) -> TornWrite {
        match rng.u8(..8) {
            0 | 1 => TornWrite::Whole,
            2 | 3 => TornWrite::Lost,
            4 => TornWrite::Pages,
            _ => TornWrite::Sectors,
        }
    }

    fn mask(&self, rng: &mut fastrand::Rng) -> u8 {
        match self {
            TornWrite::Whole => WHOLE,
            TornWrite::Lost => 0,
            TornWrite::Sectors => rng.u8(..),
            TornWrite::Pages => {
                if rng.bool() {
                    WHOLE
                } else {
                    0
                }
            }
        }
    }
}

/// Returns what is left of an interrupted write.
pub(super) fn torn(rng: &mut fastrand::Rng, change: &FileChange) -> FileChange {
    let FileChange::Write(patches) = change else {
        unreachable!("only writes are torn");
    };
    let tear = TornWrite::new(rng);
    let part: Vec<PagePatch> = patches
        .iter()
        .filter_map(|patch| masked(patch, tear.mask(rng)))
        .collect();
    FileChange::Write(part)
}

impl SimWorld {
    /// Returns the world as it would be if it crashed now.
    pub(super) fn survivor(&self, survival: CrashSurvival, seed: u64) -> SimWorld {
        let own = seed ^ self.options.seed.rotate_left(17) ^ (survival as u64) << 56;
        let mut options = self.options;
        options.seed = fastrand::Rng::with_seed(own).u64(..);
        let mut world = SimWorld::new(options);
        world.order = self.order;
        world.next_file = self.next_file;
        let in_flight = self.unfinished();
        if survival == CrashSurvival::Process {
            world.boot = self.boot;
            self.kill(&mut world, in_flight);
            return world;
        }
        world.boot = boot_id(options.seed, alluvium_base::checksum(&self.boot.0));
        let orders = self.first_pending()..=self.order;
        let mut fate = SurvivalPlan::new(survival, fastrand::Rng::with_seed(own), orders);
        world.names = match survival {
            CrashSurvival::All => self.names.as_now(),
            _ => self
                .names
                .survivor(|order| SurvivalPlan::keeps(&mut fate.rng, fate.names, order)),
        };
        let ids: BTreeSet<FileId> = world.names.iter().map(|(_, id)| id).collect();
        for id in ids {
            if let Some(file) = self.files.get(&id) {
                let flights = in_flight.iter().filter(|(file, _)| *file == id);
                let flights = flights.map(|(_, change)| &**change);
                world
                    .files
                    .insert(id, self.after_power_loss(survival, &mut fate, file, flights));
            }
        }
        world
    }

    fn first_pending(&self) -> u64 {
        let files = self.files.values();
        let pending = files.filter_map(|file| file.pending.first().map(|pending| pending.order));
        let first = pending.chain(self.names.first_pending()).min();
        first.unwrap_or(self.order)
    }

    /// Returns the writes in flight.
    fn unfinished(&self) -> Vec<(FileId, Arc<FileChange>)> {
        if self.crashed {
            return self.interrupted.clone();
        }
        self.flights
            .iter()
            .filter_map(|flight| Some((flight.file, self.change_of(flight)?)))
            .collect()
    }

    /// Returns a file as it is after a power failure.
    fn after_power_loss<'a>(
        &self,
        survival: CrashSurvival,
        fate: &mut SurvivalPlan,
        file: &SimFileState,
        in_flight: impl Iterator<Item = &'a FileChange>,
    ) -> SimFileState {
        let mut content = match survival {
            CrashSurvival::All => file.current.clone(),
            _ => file.durable.clone(),
        };
        if survival == CrashSurvival::All {
            in_flight.for_each(|change| content.apply(change));
        } else if survival != CrashSurvival::None {
            for pending in &file.pending {
                fate.apply(&mut content, pending.order, &pending.change);
            }
            for change in in_flight {
                if let FileChange::Write(patches) = change {
                    fate.tear(&mut content, patches);
                }
            }
            content.trim();
        }
        SimFileState::settled(content, file.older.clone())
    }

    /// Builds the world after the process was killed: completed changes are kept, but none becomes
    /// durable.
    fn kill(&self, world: &mut SimWorld, in_flight: Vec<(FileId, Arc<FileChange>)>) {
        world.names = self.names.clone();
        let reachable: BTreeSet<FileId> = world.names.reachable().collect();
        world.files = self
            .files
            .iter()
            .filter(|(id, _)| reachable.contains(id))
            .map(|(id, file)| (*id, file.after_kill()))
            .collect::<BTreeMap<_, _>>();
        for (id, change) in in_flight {
            let part = torn(&mut world.rng, &change);
            if world.files.contains_key(&id) {
                world.complete(id, Arc::new(part));
            }
        }
        world.trace = world.options.seed;
    }
}

impl SimFileState {
    /// Returns the file as it is once the killed process no longer has it open.
    fn after_kill(&self) -> SimFileState {
        SimFileState {
            durable: self.durable.clone(),
            current: self.current.clone(),
            older: self.older.clone(),
            pending: self.pending.clone(),
            ..SimFileState::default()
        }
    }
}
