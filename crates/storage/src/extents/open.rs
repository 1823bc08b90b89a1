//! Reads the extent map that a superblock names. Reading fails unless the map matches its pointer
//! exactly.

use super::allocate::file_units;
use super::format::{
    MapEntry, MapPointer, decode_record, first_link, map_file, map_number, place, record_len,
};
use super::map::MapState;
use super::tier::{ExtentChange, TierExtents};
use super::{Extent, ExtentOptions, Extents, ExtentsInner};
use crate::node::tier_file;
use crate::{DiskLocation, Error, OnDiskObject, Result, TierFiles};
use alluvium_base::{MIB, Purpose};
use alluvium_device::{BLOCK, Device, Directory, FileOptions};
use std::ops::Range;
use std::sync::Arc;

/// Number of bytes of a map file to read at once.
const READ: u64 = MIB;

impl Extents {
    /// Opens the extents of a store by reading the map that its superblock names. Every unit
    /// outside the map's extents is free.
    ///
    /// Nothing is written. Map files that a crash left behind are removed once the next generation
    /// is durable.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the file does not match the pointer exactly, or if a tier's data file
    /// is too short; [`Error::NewerFormat`]; I/O errors.
    pub fn open(
        directory: &Arc<dyn Directory>,
        tiers: Arc<TierFiles>,
        map: &MapPointer,
        options: ExtentOptions,
    ) -> Result<Extents> {
        let numbers = 0..tiers.count() as u8;
        let units = numbers
            .map(|number| file_units(&tiers, number))
            .collect::<Result<Vec<u32>>>()?;
        let mut maps = read_map(directory.as_ref(), map, &units)?;
        for (tier, units) in maps.iter_mut().zip(units) {
            tier.opened(units);
        }
        let mut state = MapState::for_existing_files(directory, |number| (number != map.file).then_some(0))?;
        state.next_file = state.next_file.max(map.file.saturating_add(1));
        state.current = Some((*map, None));
        Ok(Extents {
            shared: Arc::new(ExtentsInner::new(tiers, options, maps, state)),
        })
    }

    /// Rebuilds the extents of a durable generation with a damaged map from all extents reachable
    /// from that generation. The next checkpoint writes a new map, and the old map files are
    /// removed once that checkpoint is durable. If a tier's data file is too short for the extents,
    /// it is extended.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if two extents overlap or a tier does not exist; I/O errors.
    pub fn rebuild(
        directory: &Arc<dyn Directory>,
        tiers: Arc<TierFiles>,
        reached: &[ReachableExtent],
        generation: u64,
        options: ExtentOptions,
    ) -> Result<Extents> {
        let mut maps: Vec<TierExtents> = (0..tiers.count() as u8).map(TierExtents::new).collect();
        let mut ends = vec![0; maps.len()];
        for &ReachableExtent {
            extent,
            references,
            live,
        } in reached
        {
            debug_assert!(references > 0, "{extent} is reached (X6)");
            let tier = usize::from(extent.tier);
            let change = ExtentChange {
                start: extent.start,
                units: extent.units,
                now: Some((references, live.min(extent.bytes()))),
                known: false,
            };
            if !maps.get_mut(tier).is_some_and(|map| map.load(&change)) {
                let place = DiskLocation::new(OnDiskObject::Node, tier_file(extent.tier), extent.offset());
                let expected = "extents in an existing tier, of which no two overlap";
                return Err(Error::corrupt(place, expected, extent.to_string()));
            }
            ends[tier] = ends[tier].max(extent.range().end);
        }
        for (tier, end) in maps.iter_mut().zip(ends) {
            let file = tiers.get(tier.number)?;
            if file.len() < end {
                file.grow(end)?;
            }
            tier.opened(file_units(&tiers, tier.number)?);
        }
        let state = MapState::for_existing_files(directory, |_| Some(generation.saturating_add(1)))?;
        Ok(Extents {
            shared: Arc::new(ExtentsInner::new(tiers, options, maps, state)),
        })
    }
}

/// An extent reachable from a durable generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachableExtent {
    /// The extent as named by the references to it.
    pub extent: Extent,
    /// Number of references to the extent.
    pub references: u32,
    /// Number of bytes of the extent that are in use.
    pub live: u64,
}

impl MapState {
    /// Creates the map state of a store whose directory already contains map files. For each file
    /// number, `until` returns the generation that must be durable before the file may be removed,
    /// or `None` if the file must stay.
    fn for_existing_files(
        directory: &Arc<dyn Directory>,
        until: impl Fn(u64) -> Option<u64>,
    ) -> Result<MapState> {
        let names = directory.list()?;
        let numbers = names.iter().filter_map(|name| map_number(name));
        let newest = numbers.clone().max().unwrap_or(0);
        Ok(MapState {
            directory: Some(Arc::clone(directory)),
            current: None,
            next_file: newest.saturating_add(1),
            replaced: numbers
                .filter_map(|number| Some((number, until(number)?)))
                .collect(),
            frozen: false,
        })
    }
}

/// Reads the map that a pointer refers to, and returns the state of every tier. Records beyond the
/// end given by the pointer are ignored. `units` contains the length of each tier's data file in
/// units.
pub(super) fn read_map(
    directory: &dyn Directory,
    pointer: &MapPointer,
    units: &[u32],
) -> Result<Vec<TierExtents>> {
    let file = match directory.open(&map_file(pointer.file), FileOptions::DIRECT.read_only()) {
        Err(alluvium_device::Error::NotFound { .. }) => {
            return Err(Error::corrupt(place(pointer.file, 0), "an extent map", "no file"));
        }
        file => file?,
    };
    read_map_of(file.as_ref(), pointer, units)
}

/// Like [`read_map`], but reads from a file that is already open.
fn read_map_of(file: &dyn Device, pointer: &MapPointer, units: &[u32]) -> Result<Vec<TierExtents>> {
    if file.len() < pointer.length {
        let (expected, found) = (
            format!("{} bytes", pointer.length),
            format!("{} bytes", file.len()),
        );
        return Err(Error::corrupt(place(pointer.file, 0), expected, found));
    }
    let mut loader = MapLoader::new(units);
    let mut window = MapReadWindow {
        file,
        end: pointer.length,
        at: 0,
        bytes: Vec::new(),
    };
    let mut read = MapPointer {
        length: 0,
        checksum: first_link(pointer.file),
        generation: 0,
        snapshot: 0,
        records: 0,
        ..*pointer
    };
    while read.length < pointer.length {
        let here = place(pointer.file, read.length);
        let len = record_len(window.bytes(BLOCK as usize)?, &here)?;
        let (header, sum) = decode_record(window.bytes(len)?, read.checksum, &here, |header, entry| {
            loader.load(header.tier, &entry, &here)
        })?;
        if header.file != pointer.file || header.generation < read.generation {
            let expected = format!("file {}, generation {} or later", pointer.file, read.generation);
            return Err(Error::corrupt(here, expected, format!("{header:?}")));
        }
        window.skip(len);
        read.length += len as u64;
        read.checksum = sum;
        read.generation = header.generation;
        read.records = read.records.saturating_add(1);
        if read.length == pointer.snapshot {
            read.snapshot = read.length;
        }
    }
    if read != *pointer {
        return Err(Error::corrupt(
            pointer.place(),
            format!("{pointer:?}"),
            format!("{read:?}"),
        ));
    }
    loader.finish(&pointer.place())
}

/// Checks that every record of a map file matches the pointer.
pub(crate) fn require_map(directory: &dyn Directory, pointer: &MapPointer, tiers: &TierFiles) -> Result<()> {
    let numbers = 0..tiers.count() as u8;
    let units = numbers
        .map(|number| file_units(tiers, number))
        .collect::<Result<Vec<u32>>>()?;
    read_map(directory, pointer, &units).map(drop)
}

/// Returns the byte ranges that a map says are in use in each tier's data file, in ascending order.
/// Adjacent extents form a single range. The map file must be open already, because it may have
/// been removed since a newer map was written.
pub(crate) fn live_ranges(
    file: &dyn Device,
    pointer: &MapPointer,
    tiers: &TierFiles,
) -> Result<Vec<Vec<Range<u64>>>> {
    let numbers = 0..tiers.count() as u8;
    let units = numbers
        .map(|number| file_units(tiers, number))
        .collect::<Result<Vec<u32>>>()?;
    let ranges = |tier: TierExtents| {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (start, head) in tier.states.heads() {
            let range = tier.extent(start, head.units).range();
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        ranges
    };
    Ok(read_map_of(file, pointer, &units)?
        .into_iter()
        .map(ranges)
        .collect())
}

/// Applies the entries of map records to the states of the tiers.
struct MapLoader {
    /// The state of each tier, and the length of its data file in units.
    maps: Vec<(TierExtents, u32)>,
    /// For each tier, the number of units of extents beyond the end of its data file. Early records
    /// may contain such extents if the file was truncated later, but a later record must then
    /// remove them.
    behind: Vec<i64>,
}

impl MapLoader {
    fn new(units: &[u32]) -> MapLoader {
        MapLoader {
            maps: units
                .iter()
                .enumerate()
                .map(|(number, &units)| (TierExtents::new(number as u8), units))
                .collect(),
            behind: vec![0; units.len()],
        }
    }

    fn load(&mut self, tier: u8, entry: &MapEntry, place: &DiskLocation) -> Result<()> {
        let bad = |expected: String, found| Err(Error::corrupt(place.clone(), expected, found));
        let tiers = self.maps.len();
        let Some((map, units)) = self.maps.get_mut(usize::from(tier)) else {
            return bad(format!("a tier below {tiers}"), format!("tier {tier}"));
        };
        debug_assert!(entry.units > 0, "what was decoded has units");
        let inside = (units.saturating_sub(entry.start) / entry.units).min(entry.repeats + 1);
        for repeat in 0..inside {
            let change = ExtentChange {
                start: entry.start + repeat * entry.units,
                units: entry.units,
                now: entry.now,
                known: !entry.new,
            };
            if !map.load(&change) {
                return bad(
                    "an entry that fits those before it".to_owned(),
                    format!("{change:?}"),
                );
            }
        }
        let behind = i64::from(entry.units) * i64::from(entry.repeats + 1 - inside);
        self.behind[usize::from(tier)] += match (entry.new, entry.now) {
            (true, _) => behind,
            (false, Some(_)) => 0,
            (false, None) => -behind,
        };
        Ok(())
    }

    /// Returns the states of the tiers, or an error if a tier still has an extent beyond the end of
    /// its data file.
    fn finish(self, place: &DiskLocation) -> Result<Vec<TierExtents>> {
        for ((tier, units), behind) in self.maps.iter().zip(&self.behind) {
            if *behind != 0 {
                let expected = format!(
                    "{behind} more units after the {units} of {}",
                    tier_file(tier.number)
                );
                return Err(Error::corrupt(place.clone(), expected, "the end of the file"));
            }
        }
        Ok(self.maps.into_iter().map(|(tier, _)| tier).collect())
    }
}

/// A buffer with the next part of a map file.
struct MapReadWindow<'a> {
    file: &'a dyn Device,
    end: u64,
    at: u64,
    bytes: Vec<u8>,
}

impl MapReadWindow<'_> {
    /// Returns the next `len` bytes, without consuming them.
    fn bytes(&mut self, len: usize) -> Result<&[u8]> {
        while self.bytes.len() < len {
            let from = self.at + self.bytes.len() as u64;
            let most = (self.end - from).min(READ);
            if most == 0 {
                let expected = format!("a record of {len} bytes");
                let found = format!("{} bytes before the end", self.bytes.len());
                return Err(Error::corrupt(
                    DiskLocation::new(OnDiskObject::ExtentMap, self.file.name(), self.at),
                    expected,
                    found,
                ));
            }
            self.bytes
                .extend_from_slice(&self.file.read_at(from, most as usize, Purpose::Recovery)?);
        }
        Ok(&self.bytes[..len])
    }

    fn skip(&mut self, len: usize) {
        assert!(len <= self.bytes.len(), "what is skipped was read");
        self.at += len as u64;
        self.bytes.drain(..len);
    }
}
