//! Runs as amounts: how many records a run has, and what a merge of several leaves.
//!
//! A run has records of keys that were new, and of requests that the popularity of the workload
//! draws. Several runs of requests hold one record for each different key of all of them
//! (`Unique`, see [`popularity`](crate::popularity)). All amounts are those of a run over the
//! whole range of keys, of which a pivot has the share of its width: keys are scattered.

use super::bytes::Amount;
use crate::Popularity;

/// How many different keys requests hold, from a table where each is a long sum.
#[derive(Clone, Debug)]
pub(super) struct Uniques {
    popularity: Popularity,
    /// Of e^(i/8) requests each; empty where there is a closed form.
    table: Vec<f64>,
}

/// Entries of the table for each factor of e.
const GRAIN: f64 = 8.0;
/// Requests up to e^34: more than a store sees.
const ENTRIES: usize = 273;

impl Uniques {
    pub(super) fn new(popularity: Popularity) -> Uniques {
        let of = |entry: usize| popularity.unique_of((entry as f64 / GRAIN).exp());
        let table = match popularity.groups().len() {
            0..=4 => Vec::new(),
            _ => (0..ENTRIES).map(of).collect(),
        };
        Uniques { popularity, table }
    }

    pub(super) fn popularity(&self) -> &Popularity {
        &self.popularity
    }

    pub(super) fn keys(&self) -> f64 {
        self.popularity.keys()
    }

    /// Returns how many different keys a number of requests holds.
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

/// The records of a run, as if it had the whole range of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Run {
    /// Keys that it has whatever was requested: new ones, or what a full compaction left.
    pub(super) base: f64,
    /// Requests whose newest records it has.
    pub(super) requests: f64,
    /// Of those records, the share that are deletes.
    pub(super) deletes: f64,
    /// Sequence numbers that it spans, if they are stored.
    pub(super) span: f64,
    /// The share of the range of keys that it was written for.
    pub(super) width: f64,
    /// Tells it from others: several pivots may use one run.
    pub(super) id: u64,
}

impl Run {
    /// Returns what the run has in a share of the range of keys.
    pub(super) fn amount(&self, uniques: &Uniques, width: f64) -> Amount {
        let requested = uniques.of(self.requests);
        let fresh = self.base * (1.0 - (requested / uniques.keys()).min(1.0));
        let deletes = requested * self.deletes;
        Amount {
            puts: (fresh + requested - deletes) * width,
            deletes: deletes * width,
            span: self.span,
        }
    }

    pub(super) fn records(&self, uniques: &Uniques, width: f64) -> f64 {
        self.amount(uniques, width).records()
    }
}

/// What a merge of runs leaves in its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Older {
    /// There are older records elsewhere: deletes stay.
    Elsewhere,
    /// There are none: deletes go, and sequence numbers are not stored any more.
    None,
}

/// Returns the run that others merge to, oldest first, for a share of the range of keys.
pub(super) fn merge<'r>(
    runs: impl Iterator<Item = &'r Run>,
    older: Older,
    uniques: &Uniques,
    width: f64,
) -> Run {
    let mut sum = Run {
        width,
        ..Run::default()
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
    if older == Older::None {
        let left = sum.amount(uniques, 1.0).puts;
        return Run {
            base: left,
            width,
            ..Run::default()
        };
    }
    sum
}

/// Runs with the one maplet that tells which of them may have a key.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) runs: Vec<Run>,
    /// The share of the range of keys that its maplet was written for.
    pub(super) width: f64,
}

impl Group {
    pub(super) fn one(run: Run) -> Group {
        Group {
            width: run.width,
            runs: vec![run],
        }
    }

    /// Returns the entries of its maplet.
    pub(super) fn entries(&self, uniques: &Uniques) -> f64 {
        let runs = self.runs.iter();
        runs.map(|run| run.records(uniques, self.width)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(base: f64, requests: f64, deletes: f64) -> Run {
        Run {
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
        let uniques = Uniques::new(Popularity::uniform(1000).unwrap());
        let loaded = run(1000.0, 0.0, 0.0);
        let updates = run(0.0, 500.0, 0.2);
        let apart = updates.records(&uniques, 1.0);
        assert!((apart - 393.6).abs() < 0.1, "1000(1 - e^(-1/2)): {apart}");
        let merged = merge([&loaded, &updates].into_iter(), Older::Elsewhere, &uniques, 1.0);
        assert!((merged.records(&uniques, 1.0) - 1000.0).abs() < 1e-9);
        let bottom = merge([&loaded, &updates].into_iter(), Older::None, &uniques, 0.5);
        let wanted = 1000.0 - 0.2 * apart;
        assert!((bottom.base - wanted).abs() < 1e-9 && bottom.requests == 0.0);
        assert_eq!((bottom.amount(&uniques, 0.5).deletes, bottom.span), (0.0, 0.0));
    }

    #[test]
    fn the_table_agrees_with_the_sum() {
        let popularity = Popularity::zipf(1_000_000, 0.99).unwrap();
        let uniques = Uniques::new(popularity.clone());
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
