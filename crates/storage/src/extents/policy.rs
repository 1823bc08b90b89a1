//! The space policy as pure functions. They choose where to allocate an extent, by how much to grow
//! a file, which space to return to the file system, and whether to write the map as a delta or a
//! snapshot. All sizes are in units unless a name contains "bytes".

use super::{AllocationClass, UNIT};
use alluvium_base::MIB;

/// Minimum and maximum number of units that a single device operation allocates or extends the file
/// by.
pub(super) const STEP: std::ops::RangeInclusive<u32> = (MIB / UNIT) as u32..=(64 * MIB / UNIT) as u32;

/// A tier is fragmented if more than 1/`FRAGMENTED` of its units are free but no free run is long
/// enough for a request. Shorter runs may be allocated then.
const FRAGMENTED: u32 = 8;

/// While the file can still grow, a shorter run must have at least 1/`SHORTEST_PART` of the wanted
/// length.
const SHORTEST_PART: u32 = 4;

/// Whether sizes in a tier depend on how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InitialSizing {
    /// Extents, growth steps and the reserve have their full sizes from the start.
    Whole,
    /// While little is used, extents, growth steps and the reserve are proportional to the used
    /// space.
    Small,
}

/// Number of used units up to which a tier that starts small has no reserve. Deleting so few units
/// would free less space than the file system keeps for itself.
const TINY: u32 = (MIB / UNIT) as u32;

/// Returns the maximum length of an extent, in units, for a request that needs at least `least`
/// units and prefers `wanted`. In a tier that starts small, an extent may at most double the used
/// space, unless that is less than `least`.
pub(super) fn longest(used: u32, least: u32, wanted: u32, start: InitialSizing) -> u32 {
    debug_assert!(least <= wanted, "{least} to {wanted} units");
    match start {
        InitialSizing::Whole => wanted,
        InitialSizing::Small => wanted.min(used.max(least)),
    }
}

/// The units kept backed for essential allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpaceReserve {
    /// Number of units of which each class of essential allocations may use a part.
    pub(super) shared: u32,
    /// Number of units that only compactions that free space may use.
    pub(super) freeing: u32,
}

impl SpaceReserve {
    pub(super) fn units(self) -> u32 {
        self.shared + self.freeing
    }
}

/// Input of [`choose_allocation_step`]: a request, and the state of its tier.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllocationInput {
    /// The preferred number of units, which is also the maximum.
    pub(super) wanted: u32,
    /// The minimum number of units, without which the request fails.
    pub(super) least: u32,
    pub(super) class: AllocationClass,
    /// Length of the tier's file in units.
    pub(super) file: u32,
    /// Number of free units, and length of the longest run of free units.
    pub(super) free: u32,
    pub(super) free_longest: u32,
    /// Number of free units that occupy space on the file system, and length of the longest run of
    /// them.
    pub(super) backed: u32,
    pub(super) backed_longest: u32,
    /// Units reserved for essential allocations.
    pub(super) reserve: SpaceReserve,
    /// Number of free units that may or may not occupy space on the file system.
    pub(super) unknown: u32,
    /// Whether the last attempt to get space for `wanted` units failed because the file system was
    /// full or the tier was at its limit.
    pub(super) refused: bool,
    /// Whether the request has already tried the free units in an unknown state.
    pub(super) probed: bool,
}

/// The next step of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllocationStep {
    /// Allocate the extent from a run of this many backed units.
    Take(u32),
    /// Allocate file system space for a free run of this many units, then choose again.
    BackRun(u32),
    /// Allocate file system space for this many free units anywhere, then choose again.
    BackAny(u32),
    /// Extend the file by at least this many units, then choose again.
    Grow(u32),
    /// The disk is full. Search the free units in an unknown state for this many that do occupy
    /// space.
    Probe(u32),
    /// Fail for lack of space. Only this many units are available to the request.
    Full(u32),
}

/// Chooses the next step of an allocation. Backed units are preferred, then free units without
/// space, then growing the file. Runs shorter than wanted are used only if the tier is fragmented
/// or there is no more space.
pub(super) fn choose_allocation_step(view: &AllocationInput) -> AllocationStep {
    debug_assert!(
        view.least <= view.wanted,
        "{} to {} units",
        view.least,
        view.wanted
    );
    let spare = view.backed.saturating_sub(view.class.leaves(view.reserve));
    let fits = |units| view.backed_longest >= units && spare >= units;
    if fits(view.wanted) {
        return AllocationStep::Take(view.wanted);
    }
    if view.refused {
        let units = view.backed_longest.min(spare).min(view.wanted);
        return if units >= view.least {
            AllocationStep::Take(units)
        } else if view.unknown > 0 && !view.probed {
            AllocationStep::Probe(view.wanted + view.reserve_missing())
        } else {
            AllocationStep::Full(units)
        };
    }
    let run = if view.free_longest >= view.wanted {
        Some(view.wanted)
    } else {
        let shortest = view.least.max(view.wanted / SHORTEST_PART);
        let fragmented = view.free > view.file / FRAGMENTED && view.free_longest >= shortest;
        fragmented.then_some(view.free_longest)
    };
    let unbacked = view.free - view.backed;
    match run {
        Some(run) if fits(run) => AllocationStep::Take(run),
        Some(run) if view.backed_longest < run => AllocationStep::BackRun(run),
        // The free run is long enough, but allocating it would use part of the reserve.
        Some(run) if unbacked > 0 => AllocationStep::BackAny((run - spare).min(unbacked)),
        Some(run) => AllocationStep::Grow(run - spare),
        None => AllocationStep::Grow(view.wanted + view.reserve_missing()),
    }
}

impl AllocationInput {
    fn reserve_missing(&self) -> u32 {
        self.class.leaves(self.reserve).saturating_sub(self.backed)
    }
}

/// Returns how many units to request from the file system when `needed` are needed: a sixteenth of
/// the file, but at least 1 MiB and at most 64 MiB. In a tier that starts small, the minimum is a
/// quarter of the file if that is less than 1 MiB.
pub(super) fn step(file: u32, needed: u32, start: InitialSizing) -> u32 {
    let least = match start {
        InitialSizing::Whole => *STEP.start(),
        InitialSizing::Small => (file / 4).min(*STEP.start()),
    };
    (file / 16).clamp(least, *STEP.end()).max(needed)
}

/// Number of units up to which the reserve does not shrink with the used space, because a smaller
/// reserve would be useless. Only a larger reserve is limited to an eighth of the used space.
const LEAST_RESERVE: u32 = (2 * MIB / UNIT) as u32;

const _: () = assert!(
    *STEP.start() <= *STEP.end() && LEAST_RESERVE > 0,
    "a step has units"
);
const _: () = assert!(
    FRAGMENTED > 1 && SHORTEST_PART > 1,
    "parts are smaller than the whole"
);

/// Returns the number of units to keep backed for essential allocations: the configured minimum
/// `wanted`, limited to an eighth of the used units or to [`LEAST_RESERVE`], whichever is more. If
/// a 64th of the used units is more than that, it is the reserve, up to the configured maximum
/// `most`. A tier that starts small has a smaller reserve while it uses only a few MiB.
pub(super) fn reserve(used: u32, (wanted, most): (u32, u32), start: InitialSizing) -> u32 {
    let least = match start {
        InitialSizing::Whole => wanted.min(LEAST_RESERVE),
        InitialSizing::Small => wanted.min(LEAST_RESERVE).min(2 * used.saturating_sub(TINY)),
    };
    let wanted = wanted.min(used / 8).max(least);
    wanted.max((used / 64).min(most))
}

/// Returns the number of units to reserve for compactions that free space, of which one needs
/// `wanted` units. The reserve is at most an eighth of the used units.
pub(super) fn reserve_for_freeing(used: u32, wanted: u32) -> u32 {
    wanted.min(used / 8)
}

/// Returns the number of free units to keep from the file system because they will be reused soon:
/// the reserve, plus one growth step of a file as long as the used units.
pub(super) fn pool(used: u32, reserve: u32, start: InitialSizing) -> u32 {
    reserve + step(used, 0, start)
}

/// Input of [`choose_reclaim_step`]: the state of a tier.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReclaimInput {
    /// Number of free units that may occupy space on the file system.
    pub(super) occupying: u32,
    /// Number of free units that are known to occupy space on the file system.
    pub(super) backed: u32,
    /// Number of consecutive free units at the end of the file.
    pub(super) tail: u32,
    /// Length of the tier's file in units.
    pub(super) file: u32,
    /// Number of units that are not free.
    pub(super) used: u32,
    /// Number of units to keep backed for essential allocations.
    pub(super) reserve: u32,
    pub(super) start: InitialSizing,
}

/// A step that returns free space to the file system, or allocates space for the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReclaimStep {
    /// Truncate the free units at the end of the file. The tail to cut off may include any number
    /// of holes, but at most this many units that may occupy space on the file system.
    Truncate(u32),
    /// Punch holes in up to this many free units to return their space.
    Punch(u32),
    /// Allocate space for this many more units of the reserve.
    Refill(u32),
    Nothing,
}

/// Chooses the next reclamation step. Free space beyond the pool goes back to the file system, by
/// truncation if enough of it is at the end of the file. Otherwise the reserve is refilled.
pub(super) fn choose_reclaim_step(view: &ReclaimInput) -> ReclaimStep {
    let excess = view
        .occupying
        .saturating_sub(pool(view.used, view.reserve, view.start));
    // Returning fewer units than this is not worth a device operation.
    let worth = match view.start {
        InitialSizing::Whole => *STEP.start(),
        InitialSizing::Small => (view.used / 4).clamp(1, *STEP.start()),
    };
    if excess >= worth || (excess > 0 && view.occupying == view.file) {
        return if view.tail >= worth {
            ReclaimStep::Truncate(excess)
        } else {
            ReclaimStep::Punch(excess)
        };
    }
    match view.reserve.saturating_sub(view.backed) {
        0 => ReclaimStep::Nothing,
        missing => ReclaimStep::Refill(missing),
    }
}

/// How an extent map is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapWrite {
    /// Append the changes since the last write to the current map file.
    Delta,
    /// Write the complete map to a new file.
    Snapshot,
}

/// Decides whether the next map is a delta or a snapshot. Deltas are appended until their total
/// size exceeds both the snapshot's size and `least_bytes`. A map is therefore at most about twice
/// as large as its snapshot, and each byte of delta causes at most one byte of snapshot to be
/// written later.
pub(super) fn map_write(snapshot_bytes: u64, delta_bytes: u64, least_bytes: u64) -> MapWrite {
    if snapshot_bytes == 0 || delta_bytes > snapshot_bytes.max(least_bytes) {
        MapWrite::Snapshot
    } else {
        MapWrite::Delta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_base::KIB;

    /// Returns the value after `name` in a text of `name value` pairs. A name without a value is a
    /// flag, which counts as 1.
    fn field(text: &str, name: &str) -> Option<u32> {
        let mut words = text.split_whitespace().skip_while(|word| *word != name);
        words.next()?;
        Some(words.next().and_then(|value| value.parse().ok()).unwrap_or(1))
    }

    fn decide(text: &str) -> String {
        let number = |name| field(text, name).unwrap_or(0);
        let view = AllocationInput {
            wanted: number("wanted"),
            least: field(text, "least").unwrap_or(number("wanted")),
            class: match ["essential", "unblocking", "freeing"].map(|name| field(text, name).is_some()) {
                [true, ..] => AllocationClass::Essential,
                [_, true, _] => AllocationClass::Unblocking,
                [.., true] => AllocationClass::Freeing,
                _ => AllocationClass::Normal,
            },
            file: number("file"),
            free: number("free"),
            free_longest: field(text, "stretch").unwrap_or(number("free")),
            backed: number("backed"),
            backed_longest: field(text, "backed-stretch").unwrap_or(number("backed")),
            reserve: SpaceReserve {
                shared: number("reserve"),
                freeing: number("beside"),
            },
            unknown: number("unknown"),
            refused: field(text, "refused").is_some(),
            probed: field(text, "probed").is_some(),
        };
        match choose_allocation_step(&view) {
            AllocationStep::Take(units) => format!("take {units}"),
            AllocationStep::BackRun(units) => format!("back a run of {units}"),
            AllocationStep::BackAny(units) => format!("back any {units}"),
            AllocationStep::Grow(units) => format!("grow {units}"),
            AllocationStep::Probe(units) => format!("probe for {units}"),
            AllocationStep::Full(units) => format!("full, {units} left"),
        }
    }

    #[test]
    fn an_extent_comes_from_what_is_backed_then_free_then_grown() {
        let cases = "
            wanted 8 file 100 free 30 backed 30 reserve 16                          => take 8
            wanted 8 file 0 free 0 backed 0 reserve 16                              => grow 24
            wanted 8 file 0 free 0 backed 0 reserve 16 freeing                      => grow 8
            wanted 8 file 100 free 20 backed 20 reserve 16                          => grow 4
            wanted 8 file 100 free 20 backed 20 reserve 16 freeing                  => take 8
            wanted 8 file 100 free 40 backed 20 reserve 16                          => back any 4
            wanted 8 file 100 free 60 stretch 9 backed 30 backed-stretch 7          => back a run of 8
            wanted 8 file 1000 free 60 stretch 7 backed 30 backed-stretch 7         => grow 8
            wanted 8 file 100 free 60 stretch 7 backed 30 backed-stretch 7 least 1  => take 7
            wanted 8 file 100 free 60 stretch 1 backed 30 backed-stretch 1 least 1  => grow 8
            wanted 8 file 100 free 60 stretch 7 backed 30 backed-stretch 7          => grow 8
            wanted 8 file 100 free 60 stretch 7 backed 3 least 2                    => back a run of 7
            wanted 8 file 100 free 20 backed 20 reserve 16 refused                  => full, 4 left
            wanted 8 file 100 free 20 backed 20 reserve 16 refused least 2          => take 4
            wanted 8 file 100 free 20 backed 20 backed-stretch 3 refused least 2    => take 3
            wanted 8 file 100 free 20 backed 11 reserve 16 unblocking refused       => full, 7 left
            wanted 8 file 100 free 20 backed 12 reserve 16 unblocking refused       => take 8
            wanted 8 file 100 free 40 backed 27 reserve 16 beside 12 essential refused  => full, 7 left
            wanted 8 file 100 free 40 backed 28 reserve 16 beside 12 essential refused  => take 8
            wanted 8 file 100 free 40 backed 23 reserve 16 beside 12 unblocking refused => full, 7 left
            wanted 8 file 100 free 40 backed 35 reserve 16 beside 12 refused            => full, 7 left
            wanted 8 file 100 free 20 backed 8 reserve 16 beside 12 freeing refused     => take 8
            wanted 8 file 100 free 20 backed 20 reserve 16 beside 2                     => grow 6
            wanted 8 file 100 free 20 backed 7 freeing refused                      => full, 7 left
            wanted 8 file 100 free 20 backed 0 unknown 20 freeing refused           => probe for 8
            wanted 8 file 100 free 20 backed 3 unknown 17 reserve 16 refused        => probe for 21
            wanted 8 file 100 free 20 backed 16 reserve 16 essential                => take 8
            wanted 8 file 100 free 14 backed 14 reserve 16 essential refused        => full, 6 left
            wanted 8 file 0 free 0 backed 0 reserve 16 essential                    => grow 16
            wanted 8 file 100 free 20 backed 5 unknown 9 freeing refused probed     => full, 5 left";
        for case in cases.trim().lines() {
            let (text, expected) = case.split_once("=>").expect("a case has an arrow");
            assert_eq!(decide(text), expected.trim(), "{}", text.trim());
        }
    }

    fn give_back(text: &str) -> String {
        let number = |name| field(text, name).unwrap_or(0);
        let view = ReclaimInput {
            occupying: number("occupying"),
            backed: field(text, "backed").unwrap_or(number("occupying")),
            tail: number("tail"),
            file: number("file"),
            used: number("used"),
            reserve: number("reserve"),
            start: match field(text, "small") {
                Some(_) => InitialSizing::Small,
                None => InitialSizing::Whole,
            },
        };
        match choose_reclaim_step(&view) {
            ReclaimStep::Truncate(units) => format!("truncate {units}"),
            ReclaimStep::Punch(units) => format!("punch {units}"),
            ReclaimStep::Refill(units) => format!("refill {units}"),
            ReclaimStep::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn space_beyond_the_pool_goes_back_the_end_first() {
        // A file of 1000 units grows in steps of 62 units, so with 1000 used units, the pool is the
        // reserve plus 62. With fewer used units, the pool is smaller.
        let cases = "
            file 1400 used 1000 occupying 78 tail 50 reserve 16   => nothing
            file 1400 used 1000 occupying 85 tail 50 reserve 16   => nothing
            file 1400 used 1000 occupying 86 tail 50 reserve 16   => truncate 8
            file 1400 used 1000 occupying 300 tail 50 reserve 16  => truncate 222
            file 1400 used 1000 occupying 300 tail 7 reserve 16  => punch 222
            file 1400 used 1000 occupying 70 backed 10 tail 0 reserve 16   => refill 6
            file 5000 used 100 occupying 100 tail 0 reserve 16              => punch 76
            file 25 occupying 25 tail 25 reserve 16               => truncate 1
            file 8 used 3 occupying 5 tail 5 reserve 0            => nothing
            file 8 used 3 occupying 5 tail 5 reserve 0 small      => truncate 5
            file 60 used 40 occupying 20 tail 20 reserve 16 small => nothing
            file 0 occupying 0 tail 0 reserve 16                  => refill 16";
        for case in cases.trim().lines() {
            let (text, expected) = case.split_once("=>").expect("a case has an arrow");
            assert_eq!(give_back(text), expected.trim(), "{}", text.trim());
        }
    }

    #[test]
    fn a_tier_that_starts_small_is_scaled_to_what_is_used_and_then_as_any_other() {
        let bounds = (16, 512);
        let table = [
            (0, 1, 0, 0),
            (3, 3, 0, 0),
            (8, 8, 2, 1),
            (12, 8, 3, 8),
            (16, 8, 4, 16),
            (40, 8, 8, 16),
        ];
        for (used, units, grown, reserved) in table {
            assert_eq!(longest(used, 1, 8, InitialSizing::Small), units, "{used} units");
            assert_eq!(step(used, 0, InitialSizing::Small), grown, "{used} units");
            assert_eq!(
                reserve(used, bounds, InitialSizing::Small),
                reserved,
                "{used} units"
            );
        }
        assert_eq!(longest(2, 5, 8, InitialSizing::Small), 5, "what must be is had");
        for used in [40, 1000, 100_000, 10_000_000] {
            assert_eq!(
                step(used, 0, InitialSizing::Small),
                step(used, 0, InitialSizing::Whole)
            );
            let [small, whole] =
                [InitialSizing::Small, InitialSizing::Whole].map(|start| reserve(used, bounds, start));
            assert_eq!(small, whole);
        }
    }

    #[test]
    fn steps_follow_the_file_and_the_reserve_follows_the_use() {
        let mib = |mib: u64| (mib * MIB / UNIT) as u32;
        let steps = [(0, 1), (16, 1), (64, 4), (512, 32), (4096, 64)];
        for (file, expected) in steps {
            assert_eq!(
                step(mib(file), 0, InitialSizing::Whole),
                mib(expected),
                "{file} MiB"
            );
        }
        assert_eq!(step(0, mib(100), InitialSizing::Whole), mib(100));
        let bounds = (mib(2), mib(64));
        for (used, expected) in [(0, 2), (128, 2), (640, 10), (100_000, 64)] {
            assert_eq!(
                reserve(mib(used), bounds, InitialSizing::Whole),
                mib(expected),
                "{used} MiB"
            );
        }
        let bounds = (mib(32), mib(64));
        for (used, expected) in [(0, 2), (80, 10), (256, 32), (1000, 32), (2560, 40), (100_000, 64)] {
            assert_eq!(
                reserve(mib(used), bounds, InitialSizing::Whole),
                mib(expected),
                "{used} MiB"
            );
        }
    }

    #[test]
    fn the_map_is_written_anew_when_its_deltas_outgrow_it() {
        let least = 64 * KIB;
        assert_eq!(map_write(0, 0, least), MapWrite::Snapshot);
        assert_eq!(map_write(512, least, least), MapWrite::Delta);
        assert_eq!(map_write(512, least + 512, least), MapWrite::Snapshot);
        assert_eq!(map_write(MIB, MIB, least), MapWrite::Delta);
        assert_eq!(map_write(MIB, MIB + 512, least), MapWrite::Snapshot);
    }
}
