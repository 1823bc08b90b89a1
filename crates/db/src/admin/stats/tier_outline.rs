//! The outline of tiers, which shows the runs stored on each tier.

use super::TierStats;
use crate::engine::Engine;
use crate::options::Structure;
use alluvium_trees::run_locations::{RunName, RunPlace};
use std::fmt;

/// A tier and the runs stored on it.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// # db.keyspace("rivers")?.put("Elbe", "1094 km")?;
/// # db.compact()?;
/// let tiers = db.outline_tiers();
/// assert_eq!((tiers.len(), tiers[0].number), (1, 0));
/// let in_runs: u64 = tiers[0].runs.iter().map(|run| run.bytes).sum();
/// assert!(in_runs > 0 && in_runs <= tiers[0].stats.space.live_bytes);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierOutline {
    /// Number of the tier; 0 is the first directory.
    pub number: usize,
    /// Statistics of the tier: space, state and failure.
    pub stats: TierStats,
    /// Runs of the tree and of levels with data on the tier, largest first.
    pub runs: Vec<TierRun>,
    /// Bytes occupied by copies of often-read pages. Only the first tier has such copies, so other
    /// tiers report 0.
    pub copies_bytes: u64,
}

/// The space that a run occupies on one tier.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierRun {
    /// The structure that the run belongs to, with its options: the tree or levels.
    pub structure: Structure,
    /// Identifies the run by its group and index in a tree, or by its level.
    pub name: RunName,
    /// Number of records in the run, over all tiers that store parts of it.
    pub records: u64,
    /// Bytes of the run's nodes and values on this tier.
    pub bytes: u64,
    /// Bytes of the run's filter on this tier.
    pub filter_bytes: u64,
}

impl TierRun {
    /// Returns the name of the run as text, with the options of its levels.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.structure {
            Structure::Levels(_) => format!("{} of {}", self.name, self.structure),
            _ => self.name.to_string(),
        }
    }
}

impl TierOutline {
    /// Returns how full the tier is, in percent of its capacity.
    #[must_use]
    pub fn full_percent(&self) -> u64 {
        let TierStats {
            capacity_bytes,
            available_bytes,
            ..
        } = self.stats;
        let taken = u128::from(capacity_bytes.saturating_sub(available_bytes));
        (taken * 100 / u128::from(capacity_bytes.max(1))) as u64
    }

    /// Returns the tier's state as text: `fails` after a failure, `takes nothing` if it accepts no
    /// new data, otherwise `takes data`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (&self.stats.failure, self.stats.takes_data) {
            (Some(_), _) => "fails",
            (None, false) => "takes nothing",
            (None, true) => "takes data",
        }
    }
}

impl fmt::Display for TierOutline {
    /// Formats the outline with one line for the tier, followed by one line per run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TierStats {
            directory,
            capacity_bytes,
            space,
            ..
        } = &self.stats;
        let (number, state, percent) = (self.number, self.state(), self.full_percent());
        write!(
            f,
            "tier {number} in {directory}: {state}, {percent} % of {capacity_bytes} bytes used, {} live",
            space.live_bytes
        )?;
        if self.copies_bytes > 0 {
            write!(f, ", {} of copies of frequently read pages", self.copies_bytes)?;
        }
        writeln!(f)?;
        if let Some(failure) = &self.stats.failure {
            writeln!(f, "  {failure}")?;
        }
        for run in &self.runs {
            write!(f, "  {}: {} bytes", run.title(), run.bytes)?;
            if run.filter_bytes > 0 {
                write!(f, ", {} of its filter", run.filter_bytes)?;
            }
            writeln!(f, "; {} records", run.records)?;
        }
        Ok(())
    }
}

impl Engine {
    /// Returns each tier with the runs stored on it. The call reads nothing from the device.
    pub(crate) fn outline_tiers(&self) -> Vec<TierOutline> {
        let places = self.dictionaries.run_places();
        let copies_bytes = self.store.copy_stats().bytes;
        let tiers = self.tier_stats().into_iter().enumerate();
        let outline = |(number, stats): (usize, TierStats)| TierOutline {
            number,
            stats,
            runs: runs_on(&places, number),
            copies_bytes: if number == 0 { copies_bytes } else { 0 },
        };
        tiers.map(outline).collect()
    }
}

/// Returns the runs stored on a tier, largest first.
fn runs_on(places: &[(Structure, RunPlace)], tier: usize) -> Vec<TierRun> {
    let tier = u8::try_from(tier).unwrap_or(u8::MAX);
    let on_it = places.iter().filter_map(|(structure, place)| {
        let (bytes, filter_bytes) = place.on(tier);
        (bytes + filter_bytes > 0).then_some(TierRun {
            structure: structure.clone(),
            name: place.name,
            records: place.records,
            bytes,
            filter_bytes,
        })
    });
    let mut runs: Vec<TierRun> = on_it.collect();
    runs.sort_unstable_by_key(|run| (std::cmp::Reverse(run.bytes + run.filter_bytes), run.name));
    runs
}
