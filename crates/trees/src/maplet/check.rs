//! Checks each invariant of a maplet on the device, independently of the others.

use super::pages::{MapletEntryReader, MapletPageReader};
use super::{Maplet, format};
use alluvium_base::{Purpose, checksum};
use alluvium_dictionary::read::{CheckReadTotals, DataFiles, NodeTotals};
use alluvium_filters as filters;
use alluvium_filters::{EntryChunk, FilterBuilder, Fingerprint, PageView, SpillView};
use alluvium_storage::Error;
use alluvium_storage::store::Store;
use std::collections::BTreeMap;
use std::fmt;

/// A violation of one of a maplet's invariants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapletViolation {
    /// The page number, or `None` for the directory.
    pub page: Option<u32>,
    /// A description of the expected and the actual state.
    pub what: String,
}

impl fmt::Display for MapletViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.page {
            Some(page) => write!(f, "maplet page {page}: {}", self.what),
            None => write!(f, "maplet directory: {}", self.what),
        }
    }
}

fn of(page: impl Into<Option<u32>>, what: impl Into<String>) -> MapletViolation {
    MapletViolation {
        page: page.into(),
        what: what.into(),
    }
}

impl Maplet {
    /// Checks the maplet and returns all violations of its invariants. Reads the whole maplet,
    /// bypassing the cache. The following must hold:
    ///
    /// - The directory on the device equals the one in memory.
    /// - The extents do not overlap, and contain the pages that belong to them.
    /// - Every page matches its checksum and is well-formed.
    /// - A maplet built from the same entries has the same pages (Q1), values and counts.
    #[must_use]
    pub fn check(&self, store: &Store) -> Vec<MapletViolation> {
        self.check_from(DataFiles::of(store), &mut CheckReadTotals::default())
    }

    /// Like [`Maplet::check`], but reads data files directly, so that the store need not be open.
    /// Adds the number of nodes and bytes that were read to `read`.
    pub(crate) fn check_from(
        &self,
        files: DataFiles<'_>,
        read: &mut CheckReadTotals,
    ) -> Vec<MapletViolation> {
        let mut violations = self.check_directory(files);
        let parts = self.shared.root.parts.iter();
        parts
            .chain([self.pointer()])
            .for_each(|node| read.directories.add(node));
        self.check_pages(files, &mut violations);
        read.maplets += NodeTotals {
            nodes: self.shared.root.pages.into(),
            bytes: u64::from(self.shared.root.pages) * u64::from(self.geometry().page_bytes()),
        };
        if violations.is_empty()
            && let Err(violation) = self.check_against_rebuilt(files)
        {
            violations.push(violation);
        }
        violations
    }

    /// Returns how many of `fingerprints`, which must be in ascending order, are missing from the
    /// maplet. Reads the whole maplet, bypassing the cache.
    ///
    /// # Errors
    /// I/O errors; an error if the maplet is damaged.
    pub(crate) fn missing(&self, files: DataFiles<'_>, fingerprints: &[Fingerprint]) -> Result<u64, Error> {
        debug_assert!(fingerprints.is_sorted(), "entries are read in their order");
        let mut entries = MapletEntryReader::new(self, files.tiers, Purpose::Check)?;
        let (mut chunk, mut wanted, mut missing) = (EntryChunk::new(), fingerprints.iter().peekable(), 0);
        while entries.fill(&mut chunk)? {
            for entry in chunk.entries() {
                let has = entry.fingerprint();
                while wanted.next_if(|fingerprint| **fingerprint < has).is_some() {
                    missing += 1;
                }
                while wanted.next_if(|fingerprint| **fingerprint == has).is_some() {}
            }
            chunk.clear();
        }
        Ok(missing + wanted.count() as u64)
    }

    fn check_directory(&self, files: DataFiles<'_>) -> Vec<MapletViolation> {
        let mut violations = Vec::new();
        match Maplet::open_from(files, self.pointer(), Purpose::Check) {
            Err(error) => violations.push(of(None, error.to_string())),
            Ok(read) => {
                let (read, here) = (&read.shared, &self.shared);
                if (&read.root, &read.body) != (&here.root, &here.body) {
                    violations.push(of(None, "it is another one than when the maplet was opened"));
                }
            }
        }
        let format::MapletRoot {
            stretches,
            parts,
            pages,
            ..
        } = &self.shared.root;
        for (at, one) in stretches.iter().enumerate() {
            for two in &stretches[at + 1..] {
                if one.extent.overlaps(&two.extent) {
                    violations.push(of(None, format!("{} and {} overlap", one.extent, two.extent)));
                }
            }
        }
        let page_size = files.page_size;
        let nodes = parts.iter().chain([self.pointer()]);
        let directory: u64 = nodes.map(|node| page_size.node_bytes(node.pages) as u64).sum();
        let wanted = u64::from(*pages) * page_size.bytes() as u64 + directory;
        if self.bytes() != wanted {
            violations.push(of(
                None,
                format!("{} live bytes, {wanted} of nodes", self.bytes()),
            ));
        }
        violations
    }

    fn check_pages(&self, files: DataFiles<'_>, violations: &mut Vec<MapletViolation>) {
        let geometry = self.geometry();
        let mut pages =
            match MapletPageReader::new(self, 0..self.shared.root.pages, files.tiers, Purpose::Check) {
                Ok(pages) => pages,
                Err(error) => return violations.push(of(None, error.to_string())),
            };
        while let Some((number, page)) = pages.next() {
            let found = match page {
                Err(error) => vec![error.to_string()],
                Ok(page) if number < geometry.pages() => match PageView::new(geometry, page) {
                    Ok(view) => view.check(number).iter().map(ToString::to_string).collect(),
                    Err(error) => vec![error.to_string()],
                },
                Ok(page) => SpillView::new(geometry, page, number)
                    .err()
                    .map(|error| error.to_string())
                    .into_iter()
                    .collect(),
            };
            violations.extend(found.into_iter().map(|what| of(number, what)));
        }
    }

    fn check_against_rebuilt(&self, files: DataFiles<'_>) -> Result<(), MapletViolation> {
        let checksums = &self.shared.body.checksums;
        let (mut number, mut differing) = (0u32, None);
        let sink = |page: &[u8]| -> filters::Result<()> {
            if checksums.get(number as usize) != Some(&checksum(page)) {
                differing.get_or_insert(number);
            }
            number += 1;
            Ok(())
        };
        let mut builder = FilterBuilder::new(*self.geometry(), sink);
        let mut entries = MapletEntryReader::new(self, files.tiers, Purpose::Check)
            .map_err(|error| of(None, error.to_string()))?;
        let (mut chunk, mut values) = (EntryChunk::new(), BTreeMap::new());
        while entries
            .fill(&mut chunk)
            .map_err(|error| of(None, error.to_string()))?
        {
            for counted in chunk.iter() {
                *values.entry(counted.entry.value()).or_insert(0u64) += 1;
                if counted.count != 1 {
                    let what = format!("{:?} occurs {} times", counted.entry, counted.count);
                    return Err(of(self.geometry().page_of(counted.entry.fingerprint()), what));
                }
                let pushed: filters::Result<()> = builder.push(counted.entry, 1);
                pushed.map_err(|error| of(None, error.to_string()))?;
            }
            chunk.clear();
        }
        let built = builder
            .finish()
            .map_err(|error: filters::Error| of(None, error.to_string()))?;
        if let Some(page) = differing {
            return Err(of(page, "building the same entries gives other bytes"));
        }
        let root = &self.shared.root;
        let values: Vec<(u16, u64)> = values.into_iter().collect();
        let found = (built.pages, built.spilled, built.distinct, &values[..]);
        let claimed = (root.pages, root.spilled, root.entries, self.values());
        if found != claimed {
            let what = format!("pages, spilled records, entries and values {claimed:?}, found {found:?}");
            return Err(of(None, what));
        }
        Ok(())
    }
}
