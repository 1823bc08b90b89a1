//! Checks a table's invariants by reading every byte that a lookup could read.

use super::filter::Filter;
use super::run::{Layout, Run, RunCursor};
use super::table::{Boa, State};
use crate::blocks::{Extent, Reader, Result, Space};
use crate::records::Body;
use alluvium_filters::routing::{Latest, Scan};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The level, counted from one.
    pub level: usize,
    /// The index of the run on the level, the oldest first.
    pub run: usize,
    /// The invariant, and the details of the violation.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level {}, run {}: {}", self.level, self.run, self.what)
    }
}

/// The contents of a run: the previous pointers and check characters of each prefix.
type Prefixes = BTreeMap<u64, (BTreeSet<u8>, BTreeSet<u32>)>;

impl<S: Space> Boa<S> {
    /// Returns every violation of the table's invariants (O1 to O6).
    ///
    /// # Errors
    /// When a read fails.
    pub fn check(&self) -> Result<Vec<Violation>> {
        let mut found = Vec::new();
        for (above, level) in self.state.levels.iter().enumerate() {
            if level.runs.len() >= self.state.options.growth as usize {
                found.push(Violation {
                    level: above + 1,
                    run: level.runs.len(),
                    what: "O3: too many runs".into(),
                });
            }
            let has_filter =
                level.filter.is_some() == (!level.runs.is_empty() && self.state.options.kind.has_filters());
            if !has_filter {
                found.push(Violation {
                    level: above + 1,
                    run: 0,
                    what: "O4: filter without runs, or none".into(),
                });
            }
            let mut prefixes = Vec::new();
            for (at, run) in level.runs.iter().enumerate() {
                let mut say = |what: String| {
                    found.push(Violation {
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
                    found.push(Violation {
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
    pub fn extents(&self) -> Result<Vec<Extent>> {
        let mut all: Vec<Extent> = self.committed.into_iter().collect();
        for level in &self.state.levels {
            all.extend(level.filter.iter().flat_map(Filter::extents));
            for run in &level.runs {
                all.extend(run.extents());
                let mut cursor = RunCursor::new(&self.space, self.state.form(), run.clone());
                while let Some(entry) = cursor.next()? {
                    if let Body::Outside(extent) = entry.body {
                        all.push(extent);
                    }
                }
            }
        }
        all.sort_unstable();
        Ok(all)
    }
}

impl State {
    fn check_run(
        &self,
        level: usize,
        run: &Run,
        filter: Option<&Filter>,
        space: &dyn Space,
        say: &mut impl FnMut(String),
    ) -> Result<Prefixes> {
        let prefix_bits = filter.map_or(run.prefix_bits, Filter::prefix_bits);
        let check_level = self.check_level(level, prefix_bits);
        let mut cursor = RunCursor::new(space, self.form(), run.clone());
        let (mut prefixes, mut last, mut entries, mut bytes) = (Prefixes::new(), None, 0, 0);
        while let Some(entry) = cursor.next()? {
            if last.is_some_and(|last| last > entry.fingerprint) {
                say(format!("O2: record {entries} comes before a greater one"));
            }
            last = Some(entry.fingerprint);
            entries += 1;
            bytes += entry.bytes(self.family.width());
            let prefix = run.prefix(entry.fingerprint);
            if run.layout == Layout::Buckets && run.bucket_of(prefix) != cursor.bucket() {
                say(format!("O6: record {entries} is in bucket {}", cursor.bucket()));
            }
            let (key, _) = entry.take_apart(space)?;
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
        filter: &Filter,
        runs: &[Prefixes],
        space: &dyn Space,
        say: &mut impl FnMut(usize, String),
    ) -> Result<()> {
        match filter {
            Filter::Latest { shape, extent } => {
                let mut bytes = vec![0; shape.bytes() as usize];
                space.read(extent.at, &mut bytes)?;
                check_chains(*shape, &bytes, runs, say)
            }
            Filter::Refined {
                geometry,
                bits,
                table,
                list,
            } => {
                let chunk = self.options.block_bytes();
                let (list, table) = (
                    Reader::new(space, *list, chunk),
                    Reader::new(space, *table, chunk),
                );
                self.check_sketches(&mut Scan::new(*geometry, *bits, list, table), runs, say)
            }
        }
    }

    /// Compares a list with the sketches of the runs (O5).
    fn check_sketches(
        &self,
        scan: &mut Scan<Reader<'_>, Reader<'_>>,
        runs: &[Prefixes],
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
    shape: Latest,
    bytes: &[u8],
    runs: &[Prefixes],
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
