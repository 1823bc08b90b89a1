//! Simulated runs, which consist of a number of records instead of the records themselves.
//!
//! A run contains records of new keys, and records of requests sampled from the workload's
//! popularity distribution. Merging runs of requests leaves one record for each distinct key among
//! the requests (`Unique`, see [`popularity`](crate::popularity)). All numbers are extrapolated to
//! the whole key range. Keys are scattered, so a pivot has a fraction of them that equals its
//! width.

use super::bytes::RecordAmount;
use crate::Popularity;

/// The expected number of distinct keys as a function of the number of requests, interpolated in a
/// table because the exact value is a long sum.
#[derive(Clone, Debug)]
pub(super) struct DistinctKeyTable {
    popularity: Popularity,
    /// Entry i is the expected number of distinct keys among e^(i/8) requests. The table is empty
    /// if the sum is short enough to be computed directly.
    table: Vec<f64>,
}

/// Number of table entries per factor of e.
const GRAIN: f64 = 8.0;
/// Number of table entries. They extend to e^34 requests, more than a store ever receives.
const ENTRIES: usize = 273;

impl DistinctKeyTable {
    pub(super) fn new(popularity: Popularity) -> DistinctKeyTable {
        let of = |entry: usize| popularity.unique_of((entry as f64 / GRAIN).exp());
        let table = match popularity.groups().len() {
            0..=4 => Vec::new(),
            _ => (0..ENTRIES).map(of).collect(),
        };
        DistinctKeyTable { popularity, table }
    }

    pub(super) fn popularity(&self) -> &Popularity {
        &self.popularity
    }

    pub(super) fn keys(&self) -> f64 {
        self.popularity.keys()
    }

    /// Returns the expected number of distinct keys among `requests` requests.
    pub(super) fn of(&self, requests: f64) -> f64 {
        if self.table.is_empty() {
            return self.popularity.unique_of(requests);
        }
        if requests <= 1.0 {
            return requests.max(0.0);
        }
        let place = requests.ln() * GRAIN;
        let entry = (place as usize).min(ENTRIES - 2);
        let share = (place - entry as f64).min(1.0);
        let (low, high) = (self.table[entry].ln(), self.table[entry + 1].ln());
        (low + (high - low) * share).exp()
    }
}

/// The number of records in a run, extrapolated to the whole key range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SimulatedRun {
    /// Number of keys that the run contains regardless of requests: new keys, or all keys after a
    /// full compaction.
    pub(super) base: f64,
    /// Number of requests whose latest records the run contains.
    pub(super) requests: f64,
    /// Fraction of deletes among the records of requests.
    pub(super) deletes: f64,
    /// Number of sequence numbers that the run spans, if they are stored.
    pub(super) span: f64,
    /// Fraction of the key range for which the run was written.
    pub(super) width: f64,
    /// Identifies the run, which several pivots may share.
    pub(super) id: u64,
}

impl SimulatedRun {
    /// Returns how many of the run's records are in a part of the key range of the given width.
    pub(super) fn amount(&self, uniques: &DistinctKeyTable, width: f64) -> RecordAmount {
        let requested = uniques.of(self.requests);
        let fresh = self.base * (1.0 - (requested / uniques.keys()).min(1.0));
        let deletes = requested * self.deletes;
        RecordAmount {
            puts: (fresh + requested - deletes) * width,
            deletes: deletes * width,
            span: self.span,
        }
    }

    pub(super) fn records(&self, uniques: &DistinctKeyTable, width: f64) -> f64 {
        self.amount(uniques, width).records()
    }
}

/// Whether a merge includes all older records of its key range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OlderRecords {
    /// There are older records elsewhere, so the merge must keep deletes.
    Elsewhere,
    /// There are no older records, so the merge drops deletes and sequence numbers.
    None,
}

/// Returns the result of merging runs, which are given oldest first. `width` is the fraction of the
/// key range that is merged.
pub(super) fn merge<'r>(
    runs: impl Iterator<Item = &'r SimulatedRun>,
    older: OlderRecords,
    uniques: &DistinctKeyTable,
    width: f64,
) -> SimulatedRun {
    let mut sum = SimulatedRun {
        width,
        ..SimulatedRun::default()
    };
    let mut deleted = 0.0;
    for run in runs {
        sum.base += run.base;
        sum.requests += run.requests;
        sum.span += run.span;
        deleted += run.requests * run.deletes;
    }
    sum.base = sum.base.min(uniques.keys());
    sum.deletes = if sum.requests > 0.0 {
        deleted / sum.requests
    } else {
        0.0
    };
    if older == OlderRecords::None {
        let left = sum.amount(uniques, 1.0).puts;
        return SimulatedRun {
            base: left,
            width,
            ..SimulatedRun::default()
        };
    }
    sum
}

/// Runs that share a maplet, which returns those of the runs that may contain a key.
#[derive(Clone, Debug)]
pub(super) struct RunGroup {
    pub(super) runs: Vec<SimulatedRun>,
    /// Fraction of the key range for which the maplet was written.
    pub(super) width: f64,
}

impl RunGroup {
    pub(super) fn one(run: SimulatedRun) -> RunGroup {
        RunGroup {
            width: run.width,
            runs: vec![run],
        }
    }

    /// Returns the number of entries of the maplet.
    pub(super) fn entries(&self, uniques: &DistinctKeyTable) -> f64 {
        let runs = self.runs.iter();
        runs.map(|run| run.records(uniques, self.width)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(base: f64, requests: f64, deletes: f64) -> SimulatedRun {
        SimulatedRun {
            base,
            requests,
            deletes,
            span: base + requests,
            width: 1.0,
            id: 0,
        }
    }

    #[test]
    fn merges_keep_one_record_for_each_key() {
        let uniques = DistinctKeyTable::new(Popularity::uniform(1000).unwrap());
        let loaded = run(1000.0, 0.0, 0.0);
        let updates = run(0.0, 500.0, 0.2);
        let apart = updates.records(&uniques, 1.0);
        assert!((apart - 393.6).abs() < 0.1, "1000(1 - e^(-1/2)): {apart}");
        let merged = merge(
            [&loaded, &updates].into_iter(),
            OlderRecords::Elsewhere,
            &uniques,
            1.0,
        );
        assert!((merged.records(&uniques, 1.0) - 1000.0).abs() < 1e-9);
        let bottom = merge([&loaded, &updates].into_iter(), OlderRecords::None, &uniques, 0.5);
        let wanted = 1000.0 - 0.2 * apart;
        assert!((bottom.base - wanted).abs() < 1e-9 && bottom.requests == 0.0);
        assert_eq!((bottom.amount(&uniques, 0.5).deletes, bottom.span), (0.0, 0.0));
    }

    #[test]
    fn the_table_agrees_with_the_sum() {
        let popularity = Popularity::zipf(1_000_000, 0.99).unwrap();
        let uniques = DistinctKeyTable::new(popularity.clone());
        for requests in [0.0, 0.5, 1.0, 17.0, 1e3, 3.3e5, 1e8] {
            let exact = popularity.unique_of(requests);
            assert!(
                (uniques.of(requests) - exact).abs() <= 2e-3 * exact,
                "{requests}: {} {exact}",
                uniques.of(requests)
            );
        }
    }
}
