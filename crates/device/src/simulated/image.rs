//! The state of a disk after a crash.

use super::content::{Change, Content, Patch, WHOLE};
use super::file::{FileState, masked};
use super::names::FileId;
use super::world::{World, boot_id};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a machine stops, which determines the contents of its disk afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Survival {
    /// The process was killed (`kill -9`). All completed changes survive, also in the page cache
    /// and in mapped memory, without becoming durable; requests in flight are executed wholly, in
    /// part or not at all. The boot stays the same.
    Process,
    /// Power was lost after all changes, including requests in flight, had reached the disk.
    All,
    /// Power was lost, and only synced changes survive.
    None,
    /// Power was lost. Names, lengths and holes survive up to some point in time, as with a
    /// journal; any subset of the sectors of each unsynced write survives.
    Random,
    /// Power was lost, and later changes survive where earlier ones do not: names without contents,
    /// lengths without bytes (which read as zeros), contents without names, only the last changes,
    /// or any subset.
    Reordered,
}

impl Survival {
    /// All kinds of survival.
    pub const ALL: [Survival; 5] = [
        Survival::Process,
        Survival::All,
        Survival::None,
        Survival::Random,
        Survival::Reordered,
    ];

    /// The kinds of survival after a power loss.
    pub const POWER_LOSS: [Survival; 4] = [
        Survival::All,
        Survival::None,
        Survival::Random,
        Survival::Reordered,
    ];
}

/// Which changes survive, by their position in the order of all changes.
#[derive(Clone, Copy)]
enum Keep {
    All,
    Nothing,
    Before(u64),
    From(u64),
    /// Each with probability 1/2.
    Some,
    /// Each write wholly, in part, or not at all.
    Torn,
}

/// Which changes survive, by kind.
struct Fate {
    rng: fastrand::Rng,
    names: Keep,
    /// Lengths, holes and allocations.
    shapes: Keep,
    bytes: Keep,
}

impl Fate {
    fn new(survival: Survival, mut rng: fastrand::Rng, orders: std::ops::RangeInclusive<u64>) -> Fate {
        let cut = rng.u64(orders);
        let (names, shapes, bytes) = match survival {
            Survival::Process => (Keep::All, Keep::All, Keep::All),
            Survival::All => (Keep::All, Keep::All, Keep::All),
            Survival::None => (Keep::Nothing, Keep::Nothing, Keep::Nothing),
            Survival::Random => (Keep::Before(cut), Keep::Before(cut), Keep::Torn),
            Survival::Reordered => match rng.u8(..8) {
                0 => (Keep::All, Keep::All, Keep::Nothing),
                1 => (Keep::All, Keep::Nothing, Keep::Nothing),
                2 => (Keep::Nothing, Keep::All, Keep::All),
                3 => (Keep::Nothing, Keep::Nothing, Keep::All),
                4 => (Keep::From(cut), Keep::From(cut), Keep::From(cut)),
                5 => (Keep::Some, Keep::All, Keep::From(cut)),
                6 => (Keep::Some, Keep::Some, Keep::Some),
                _ => (Keep::Some, Keep::Some, Keep::Torn),
            },
        };
        Fate {
            rng,
            names,
            shapes,
            bytes,
        }
    }

    fn keeps(rng: &mut fastrand::Rng, keep: Keep, order: u64) -> bool {
        match keep {
            Keep::All => true,
            Keep::Nothing => false,
            Keep::Before(cut) => order < cut,
            Keep::From(cut) => order >= cut,
            Keep::Some | Keep::Torn => rng.bool(),
        }
    }

    /// Applies the surviving part of a change.
    fn apply(&mut self, content: &mut Content, order: u64, change: &Change) {
        let Change::Write(patches) = change else {
            if Self::keeps(&mut self.rng, self.shapes, order) {
                content.apply(change);
            }
            return;
        };
        if let Keep::Torn = self.bytes {
            self.tear(content, patches);
        } else if Self::keeps(&mut self.rng, self.bytes, order) {
            content.apply(change);
        }
    }

    /// Applies the surviving part of a write that is torn.
    fn tear(&mut self, content: &mut Content, patches: &[Patch]) {
        let tear = Tear::new(&mut self.rng);
        for patch in patches {
            content.put(patch.page, patch.mask & tear.mask(&mut self.rng), &patch.data);
        }
    }
}

/// How one write was interrupted.
enum Tear {
    Whole,
    Lost,
    Sectors,
    Pages,
}

impl Tear {
    fn new(rng: &mut fastrand::Rng) -> Tear {
        match rng.u8(..8) {
            0 | 1 => Tear::Whole,
            2 | 3 => Tear::Lost,
            4 => Tear::Pages,
            _ => Tear::Sectors,
        }
    }

    fn mask(&self, rng: &mut fastrand::Rng) -> u8 {
        match self {
            Tear::Whole => WHOLE,
            Tear::Lost => 0,
            Tear::Sectors => rng.u8(..),
            Tear::Pages => {
                if rng.bool() {
                    WHOLE
                } else {
                    0
                }
            }
        }
    }
}

/// Returns the part of a write that an interruption leaves.
pub(super) fn torn(rng: &mut fastrand::Rng, change: &Change) -> Change {
    let Change::Write(patches) = change else {
        unreachable!("only writes are torn");
    };
    let tear = Tear::new(rng);
    let part: Vec<Patch> = patches
        .iter()
        .filter_map(|patch| masked(patch, tear.mask(rng)))
        .collect();
    Change::Write(part)
}

impl World {
    /// Returns the world after a crash now.
    pub(super) fn survivor(&self, survival: Survival, seed: u64) -> World {
        let own = seed ^ self.options.seed.rotate_left(17) ^ (survival as u64) << 56;
        let mut options = self.options;
        options.seed = fastrand::Rng::with_seed(own).u64(..);
        let mut world = World::new(options);
        world.order = self.order;
        world.next_file = self.next_file;
        let in_flight = self.unfinished();
        if survival == Survival::Process {
            world.boot = self.boot;
            self.kill(&mut world, in_flight);
            return world;
        }
        world.boot = boot_id(options.seed, alluvium_base::checksum(&self.boot.0));
        let orders = self.first_pending()..=self.order;
        let mut fate = Fate::new(survival, fastrand::Rng::with_seed(own), orders);
        world.names = match survival {
            Survival::All => self.names.as_now(),
            _ => self
                .names
                .survivor(|order| Fate::keeps(&mut fate.rng, fate.names, order)),
        };
        let ids: BTreeSet<FileId> = world.names.iter().map(|(_, id)| id).collect();
        for id in ids {
            if let Some(file) = self.files.get(&id) {
                let flights = in_flight.iter().filter(|(file, _)| *file == id);
                let flights = flights.map(|(_, change)| &**change);
                world
                    .files
                    .insert(id, self.lose(survival, &mut fate, file, flights));
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
    fn unfinished(&self) -> Vec<(FileId, Arc<Change>)> {
        if self.crashed {
            return self.interrupted.clone();
        }
        self.flights
            .iter()
            .filter_map(|flight| Some((flight.file, self.change_of(flight)?)))
            .collect()
    }

    /// Returns one file after a power loss.
    fn lose<'a>(
        &self,
        survival: Survival,
        fate: &mut Fate,
        file: &FileState,
        in_flight: impl Iterator<Item = &'a Change>,
    ) -> FileState {
        let mut content = match survival {
            Survival::All => file.current.clone(),
            _ => file.durable.clone(),
        };
        if survival == Survival::All {
            in_flight.for_each(|change| content.apply(change));
        } else if survival != Survival::None {
            for pending in &file.pending {
                fate.apply(&mut content, pending.order, &pending.change);
            }
            for change in in_flight {
                if let Change::Write(patches) = change {
                    fate.tear(&mut content, patches);
                }
            }
            content.trim();
        }
        FileState::settled(content, file.older.clone())
    }

    /// Builds the world after the process was killed: completed changes are kept, and none becomes
    /// durable.
    fn kill(&self, world: &mut World, in_flight: Vec<(FileId, Arc<Change>)>) {
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

impl FileState {
    /// Returns the file as it is when no process has it open any more.
    fn after_kill(&self) -> FileState {
        FileState {
            durable: self.durable.clone(),
            current: self.current.clone(),
            older: self.older.clone(),
            pending: self.pending.clone(),
            ..FileState::default()
        }
    }
}
