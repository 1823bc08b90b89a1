//! Checks a table's invariants by reading every byte that a lookup could read.

use super::filter::LevelFilter;
use super::run::{BoaRun, BoaRunLayout, RunCursor};
use super::table::{BoaState, BoaTable};
use crate::blocks::{BlockExtent, BlockSpace, BlockStreamReader, Result};
use crate::records::RecordBody;
use alluvium_filters::routing::{RoutingArray, RoutingScan};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoaViolation {
    /// The level, counted from one.
    pub level: usize,
    /// The index of the run on the level, the oldest first.
    pub run: usize,
    /// The invariant, and the details of the violation.
    pub what: String,
}

impl fmt::Display for BoaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level {}, run {}: {}", self.level, self.run, self.what)
    }
}

/// The contents of a run: the previous pointers and check characters of each prefix.
type RunPrefixes = BTreeMap<u64, (BTreeSet<u8>, BTreeSet<u32>)>;

impl<S: BlockSpace> BoaTable<S> {
    /// Returns every violation of the table's invariants (O1 to O6).
    ///
    /// # Errors
    /// When a read fails.
    pub fn check(&self) -> Result<Vec<BoaViolation>> {
        let mut found = Vec::new();
        for (above, level) in self.state.levels.iter().enumerate() {
            if level.runs.len() >= self.state.options.growth as usize {
                found.push(BoaViolation {
                    level: above + 1,
                    run: level.runs.len(),
                    what: "O3: too many runs".into(),
                });
            }
            let has_filter =
                level.filter.is_some() == (!level.runs.is_empty() && self.state.options.kind.has_filters());
            if !has_filter {
                found.push(BoaViolation {
                    level: above + 1,
                    run: 0,
                    what: "O4: filter without runs, or none".into(),
                });
            }
            let mut prefixes = Vec::new();
            for (at, run) in level.runs.iter().enumerate() {
                let mut say = |what: String| {
                    found.push(BoaViolation {
                        level: above + 1,
                        run: at,
                        what,
                    });
                };
                prefixes.push(self.state.check_run(
                    above + 1,
                    run,
                    level.filter.as_ref(),
                    &self.space,
                    &mut say,
                )?);
            }
            if let Some(filter) = &level.filter {
                let mut say = |run, what| {
                    found.push(BoaViolation {
                        level: above + 1,
                        run,
                        what,
                    });
                };
                self.state
                    .check_filter(filter, &prefixes, &self.space, &mut say)?;
            }
        }
        Ok(found)
    }

    /// Returns every extent that the table uses, including records stored outside their runs.
    ///
    /// # Errors
    /// When a read fails.
    pub fn extents(&self) -> Result<Vec<BlockExtent>> {
        let mut all: Vec<BlockExtent> = self.committed.into_iter().collect();
        for level in &self.state.levels {
            all.extend(level.filter.iter().flat_map(LevelFilter::extents));
            for run in &level.runs {
                all.extend(run.extents());
                let mut cursor = RunCursor::new(&self.space, self.state.form(), run.clone());
                while let Some(entry) = cursor.next()? {
                    if let RecordBody::Outside(extent) = entry.body {
                        all.push(extent);
                    }
                }
            }
        }
        all.sort_unstable();
        Ok(all)
    }
}

impl BoaState {
    fn check_run(
        &self,
        level: usize,
        run: &BoaRun,
        filter: Option<&LevelFilter>,
        space: &dyn BlockSpace,
        say: &mut impl FnMut(String),
    ) -> Result<RunPrefixes> {
        let prefix_bits = filter.map_or(run.prefix_bits, LevelFilter::prefix_bits);
        let check_level = self.check_level(level, prefix_bits);
        let mut cursor = RunCursor::new(space, self.form(), run.clone());
        let (mut prefixes, mut last, mut entries, mut bytes) = (RunPrefixes::new(), None, 0, 0);
        while let Some(entry) = cursor.next()? {
            if last.is_some_and(|last| last > entry.fingerprint) {
                say(format!("O2: record {entries} comes before a greater one"));
            }
            last = Some(entry.fingerprint);
            entries += 1;
            bytes += entry.bytes(self.family.width());
            let prefix = run.prefix(entry.fingerprint);
            if run.layout == BoaRunLayout::Buckets && run.bucket_of(prefix) != cursor.bucket() {
                say(format!("O6: record {entries} is in bucket {}", cursor.bucket()));
            }
            let (key, _) = entry.load_pair(space)?;
            if self.family.of(&key) != entry.fingerprint {
                say(format!("O2: record {entries} has the fingerprint of another key"));
            }
            let known = prefixes
                .entry(self.alphabet.prefix(entry.fingerprint, prefix_bits))
                .or_default();
            known.0.insert(entry.previous);
            known
                .1
                .insert(self.alphabet.check(entry.fingerprint, check_level));
        }
        if entries != run.entries || bytes != run.bytes {
            say(format!(
                "O2: {entries} records of {bytes} bytes, {} of {} said",
                run.entries, run.bytes
            ));
        }
        Ok(prefixes)
    }

    fn check_filter(
        &self,
        filter: &LevelFilter,
        runs: &[RunPrefixes],
        space: &dyn BlockSpace,
        say: &mut impl FnMut(usize, String),
    ) -> Result<()> {
        match filter {
            LevelFilter::Latest { shape, extent } => {
                let mut bytes = vec![0; shape.bytes() as usize];
                space.read(extent.at, &mut bytes)?;
                check_chains(*shape, &bytes, runs, say)
            }
            LevelFilter::Refined {
                geometry,
                bits,
                table,
                list,
            } => {
                let chunk = self.options.block_bytes();
                let (list, table) = (
                    BlockStreamReader::new(space, *list, chunk),
                    BlockStreamReader::new(space, *table, chunk),
                );
                self.check_sketches(&mut RoutingScan::new(*geometry, *bits, list, table), runs, say)
            }
        }
    }

    /// Compares a list with the sketches of the runs (O5).
    fn check_sketches(
        &self,
        scan: &mut RoutingScan<BlockStreamReader<'_>, BlockStreamReader<'_>>,
        runs: &[RunPrefixes],
        say: &mut impl FnMut(usize, String),
    ) -> Result<()> {
        let mut found = Vec::new();
        while let Some(entry) = scan.next()? {
            let check = entry.payload & (self.alphabet.characters() - 1);
            found.push((
                entry.prefix,
                entry.payload >> self.alphabet.character_bits(),
                check,
            ));
        }
        let mut expected = Vec::new();
        for (at, run) in runs.iter().enumerate() {
            for (prefix, (_, checks)) in run {
                expected.extend(checks.iter().map(|check| (*prefix, at as u32, *check)));
            }
        }
        expected.sort_unstable();
        if found != expected {
            say(
                0,
                format!(
                    "O5: {} sketches, {} expected, or others",
                    found.len(),
                    expected.len()
                ),
            );
        }
        Ok(())
    }
}

/// Follows the chain of each prefix from the filter through the runs (O4).
fn check_chains(
    shape: RoutingArray,
    bytes: &[u8],
    runs: &[RunPrefixes],
    say: &mut impl FnMut(usize, String),
) -> Result<()> {
    for prefix in 0..1u64 << shape.prefix_bits() {
        let place = shape.place(prefix);
        let bytes = bytes
            .get(place.start as usize..place.end as usize)
            .unwrap_or_default();
        let latest = shape.read(bytes, prefix)?;
        let mut expected = None;
        for (at, run) in runs.iter().enumerate() {
            let Some((previous, _)) = run.get(&prefix) else {
                continue;
            };
            let wanted = expected.unwrap_or(at as u32);
            if previous.iter().any(|previous| u32::from(*previous) != wanted) {
                say(
                    at,
                    format!("O4: prefix {prefix} has previous {previous:?}, not {wanted}"),
                );
            }
            expected = Some(at as u32);
        }
        if latest != expected {
            say(
                0,
                format!("O4: prefix {prefix} leads to {latest:?}, not {expected:?}"),
            );
        }
    }
    Ok(())
}
