//! Consistency check of the extents: compares them with the reachable extents and the map on disk,
//! and verifies the bookkeeping. All violations are returned.

use super::open::read_map;
use super::state::{ExtentPhase, ExtentState};
use super::tier::{ExtentCounts, TierExtents};
use super::unit_set::UnitSet;
use super::{Extent, Extents, MAX_TIER_UNITS, MapPointer};
use crate::Result;
use alluvium_device::Directory;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A violated invariant of [`extents`](super).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtentViolation {
    /// A live extent is unreachable, so its space is leaked.
    Leaked {
        extent: Extent,
        /// The reference count of the extent, although there is no reference to it.
        references: u32,
    },
    /// A reachable extent is not live, or is live with a different length.
    NotLive {
        /// The extent as named by the references to it.
        extent: Extent,
        /// The state of the extent's first unit.
        found: String,
    },
    /// The reference count of an extent differs from the number of references found.
    References {
        /// The extent whose reference count is wrong.
        extent: Extent,
        /// The reference count stored in the tier.
        counted: u32,
        /// The number of references found.
        reachable: u64,
    },
    Overlap {
        /// The overlapping extent with the lower start.
        first: Extent,
        second: Extent,
    },
    /// The number of live bytes exceeds the size of the extent (X6).
    LiveBytes {
        /// The extent whose live bytes exceed its size.
        extent: Extent,
        /// The number of live bytes.
        live: u64,
    },
    /// An extent reaches beyond the end of its tier's file.
    OutsideFile {
        /// The extent that reaches too far.
        extent: Extent,
        /// Length of the file in units.
        units: u32,
    },
    /// The bookkeeping of a tier is inconsistent (X1, X6).
    Inconsistent {
        tier: u8,
        /// What the contradiction is.
        what: String,
    },
    /// An extent that has not changed since the last freeze differs between the map on disk and
    /// memory (X4).
    Map {
        /// The extent that differs.
        extent: Extent,
        /// Reference count and live bytes on disk, or `None` if the map does not contain the
        /// extent.
        on_disk: Option<(u32, u64)>,
        /// Reference count and live bytes in memory, or `None` if the extent is not live.
        in_memory: Option<(u32, u64)>,
    },
}

impl fmt::Display for ExtentViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExtentViolation::Leaked { extent, references } => {
                write!(
                    f,
                    "{extent} are live with {references} references, but nothing refers to them"
                )
            }
            ExtentViolation::NotLive { extent, found } => {
                write!(f, "{extent} are in use, but are not allocated: {found}")
            }
            ExtentViolation::References {
                extent,
                counted,
                reachable,
            } => {
                write!(
                    f,
                    "{extent} have {counted} references, but {reachable} were found"
                )
            }
            ExtentViolation::Overlap { first, second } => {
                write!(f, "{first} and {second} overlap, and both are in use")
            }
            ExtentViolation::LiveBytes { extent, live } => {
                write!(f, "{extent} have {live} live bytes, more than their size")
            }
            ExtentViolation::OutsideFile { extent, units } => {
                write!(f, "{extent} reach past the file's {units} units")
            }
            ExtentViolation::Inconsistent { tier, what } => write!(f, "tier {tier}: {what}"),
            ExtentViolation::Map {
                extent,
                on_disk,
                in_memory,
            } => {
                write!(
                    f,
                    "{extent}: the map on disk has {on_disk:?} (references, live bytes), but memory has {in_memory:?}"
                )
            }
        }
    }
}

impl Extents {
    /// Compares the live extents with the reachable ones, and checks that the bookkeeping is
    /// consistent. Each entry of `reachable` is an extent and a number of references to it; the
    /// numbers of repeated entries are added up. The extents must not change during the check.
    pub fn check(&self, reachable: impl Iterator<Item = (Extent, u32)>) -> Vec<ExtentViolation> {
        let mut violations = Vec::new();
        let mut wanted: BTreeMap<Extent, u64> = BTreeMap::new();
        for (extent, references) in reachable {
            *wanted.entry(extent).or_default() += u64::from(references);
        }
        find_overlaps(&wanted, &mut violations);
        for slot in self.shared.slots.iter() {
            let tier = slot.tier.lock();
            check_live(&tier, &mut wanted, &mut violations);
            check_inside(&tier, &mut violations);
        }
        for extent in wanted.into_keys() {
            let slot = self.shared.slots.get(usize::from(extent.tier));
            let found = slot.map(|slot| slot.tier.lock().states.head(extent.start));
            let found = match found {
                None => "the tier does not exist".to_owned(),
                Some(None) => "no extent begins there".to_owned(),
                Some(Some(head)) => format!("{:?}, {} units", head.life, head.units),
            };
            violations.push(ExtentViolation::NotLive { extent, found });
        }
        violations
    }

    /// Reads a map and compares it with memory, except for extents that have changed since the last
    /// freeze. `map` must be the newest pointer, and there must be no frozen map that is still to
    /// be written.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if the map cannot be read; I/O errors.
    pub fn check_map(&self, directory: &dyn Directory, map: &MapPointer) -> Result<Vec<ExtentViolation>> {
        let mut violations = Vec::new();
        let units: Vec<u32> = self
            .shared
            .slots
            .iter()
            .map(|slot| slot.tier.lock().units)
            .collect();
        let on_disk = read_map(directory, map, &units)?;
        for (slot, on_disk) in self.shared.slots.iter().zip(&on_disk) {
            compare_map(&slot.tier.lock(), on_disk, &mut violations);
        }
        Ok(violations)
    }
}

fn find_overlaps(wanted: &BTreeMap<Extent, u64>, violations: &mut Vec<ExtentViolation>) {
    // The extents are sorted by tier and start. If an extent overlaps any earlier one, it also
    // overlaps the one of them that ends last, so compare it only with that extent.
    let mut furthest: Option<Extent> = None;
    for &second in wanted.keys() {
        let end = |extent: &Extent| u64::from(extent.start) + u64::from(extent.units);
        match furthest {
            Some(first) if first.tier == second.tier && u64::from(second.start) < end(&first) => {
                violations.push(ExtentViolation::Overlap { first, second });
                if end(&second) > end(&first) {
                    furthest = Some(second);
                }
            }
            _ => furthest = Some(second),
        }
    }
}

/// Compares the live extents of a tier with the reachable ones, and removes from `wanted` those
/// found live.
fn check_live(tier: &TierExtents, wanted: &mut BTreeMap<Extent, u64>, violations: &mut Vec<ExtentViolation>) {
    for (start, head) in tier
        .states
        .heads()
        .filter(|(_, head)| head.life == ExtentPhase::Live)
    {
        let extent = tier.extent(start, head.units);
        let counted = head.references;
        match wanted.remove(&extent) {
            None => violations.push(ExtentViolation::Leaked {
                extent,
                references: counted,
            }),
            Some(reachable) if reachable != u64::from(counted) => {
                violations.push(ExtentViolation::References {
                    extent,
                    counted,
                    reachable,
                });
            }
            Some(_) => {}
        }
    }
}

/// Checks that the bookkeeping of a tier is consistent.
fn check_inside(tier: &TierExtents, violations: &mut Vec<ExtentViolation>) {
    let mut whats = Vec::new();
    // Treat units in use by a device operation as free.
    let mut free = tier.free.clone();
    for held in &tier.held {
        if free.count_in(held.clone()) > 0 {
            whats.push(format!("units {held:?} are both free and held"));
        }
        free.reach(held.end);
        free.set(held.clone());
    }
    let mut end = 0;
    for (start, head) in tier.states.heads() {
        let extent = tier.extent(start, head.units);
        if start < end {
            whats.push(format!("{extent} begin inside another extent"));
        } else if let Some(stray) = (end..start).find(|&unit| !tier.states.is_free(unit)) {
            whats.push(format!("unit {stray} is inside no extent"));
        }
        end = extent.end();
        whats.extend(check_extent(&extent, &head, free.count_in(start..end)));
        if head.live > extent.bytes() {
            violations.push(ExtentViolation::LiveBytes {
                extent,
                live: head.live,
            });
        }
        if end > tier.units {
            violations.push(ExtentViolation::OutsideFile {
                extent,
                units: tier.units,
            });
        }
    }
    whats.extend(check_lists(tier));
    whats.extend(check_sets(tier, &free));
    violations.extend(whats.into_iter().map(|what| ExtentViolation::Inconsistent {
        tier: tier.number,
        what,
    }));
}

/// Describes the contradiction in the state of an extent, if there is one.
fn check_extent(extent: &Extent, head: &ExtentState, free: u32) -> Option<String> {
    let ExtentState { life, references, .. } = head;
    if free > 0 {
        return Some(format!("{extent} are {life:?}, but {free} of them are free"));
    }
    if *life == ExtentPhase::Provisional && (head.persisted || head.dirty) {
        return Some(format!("{extent} are provisional and in the map"));
    }
    ((*references == 0) != (*life == ExtentPhase::Dead))
        .then(|| format!("{extent} are {life:?} with {references} references"))
}

/// Compares the counts and the lists of a tier with the states of its extents.
fn check_lists(tier: &TierExtents) -> Vec<String> {
    let mut whats = Vec::new();
    let mut counts = ExtentCounts::default();
    tier.states.heads().for_each(|(_, head)| counts.add(&head));
    if counts != tier.counts {
        whats.push(format!(
            "the extents add up to {counts:?}, but the counters are {:?}",
            tier.counts
        ));
    }
    let starts = |wanted: fn(&ExtentState) -> bool| -> Vec<u32> {
        let heads = tier.states.heads().filter(|(_, head)| wanted(head));
        heads.map(|(start, _)| start).collect()
    };
    let mut listed = tier.dirty.clone();
    listed.sort_unstable();
    let dirty = starts(|head| head.dirty);
    if listed != dirty {
        whats.push(format!(
            "the changed extents are at {dirty:?}, but the list names {listed:?}"
        ));
    }
    let mut listed: Vec<u32> = tier.unlinked().map(|unlinked| unlinked.start).collect();
    listed.sort_unstable();
    let dead = starts(|head| head.life == ExtentPhase::Dead);
    if listed != dead {
        whats.push(format!(
            "the dead extents are at {dead:?}, but the list names {listed:?}"
        ));
    }
    whats
}

/// Compares the sets of free units with the states of the units and with each other.
fn check_sets(tier: &TierExtents, free: &UnitSet) -> Vec<String> {
    let file = 0..tier.units;
    let lost = free
        .gaps_in(file.clone())
        .flatten()
        .find(|&unit| tier.states.is_free(unit));
    let outside = free.runs_in(tier.units..MAX_TIER_UNITS).next();
    let backed = tier
        .backed
        .runs_in(0..MAX_TIER_UNITS)
        .find(|run| !tier.free.contains(run.clone()));
    let holes = tier
        .holes
        .runs_in(0..MAX_TIER_UNITS)
        .find(|run| !free.contains(run.clone()));
    let both = tier
        .backed
        .runs_in(file)
        .find(|run| tier.holes.count_in(run.clone()) > 0);
    let findings = [
        lost.map(|unit| format!("unit {unit} is neither free nor used")),
        outside.map(|run| format!("units {run:?} are free outside the file")),
        backed.map(|run| format!("units {run:?} are backed, but not all are free")),
        holes.map(|run| format!("units {run:?} are holes, but not all are free")),
        both.map(|run| format!("units {run:?} are backed, but some are holes")),
    ];
    findings.into_iter().flatten().collect()
}

/// Compares the state of a tier in memory with that in the map on disk.
fn compare_map(tier: &TierExtents, on_disk: &TierExtents, violations: &mut Vec<ExtentViolation>) {
    let described = |map: &TierExtents, start| {
        let head = map
            .states
            .head(start)
            .filter(|head| head.life == ExtentPhase::Live)?;
        Some((head.units, (head.references, head.live)))
    };
    let starts: BTreeSet<u32> = tier
        .states
        .heads()
        .chain(on_disk.states.heads())
        .map(|(start, _)| start)
        .collect();
    for start in starts {
        if tier.states.head(start).is_some_and(|head| head.dirty) {
            continue;
        }
        let (memory, disk) = (described(tier, start), described(on_disk, start));
        if memory != disk {
            let units = memory.or(disk).map_or(1, |(units, _)| units);
            violations.push(ExtentViolation::Map {
                extent: tier.extent(start, units),
                on_disk: disk.map(|(_, values)| values),
                in_memory: memory.map(|(_, values)| values),
            });
        }
    }
}
