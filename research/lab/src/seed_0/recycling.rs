//! B2, B4 and B6: simulations of insertion buffers in front of the leaves of a B-tree.

use crate::entry::{AxisPosition, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet};
use anyhow::{Result, ensure};
use research_models::recycling::{BinChoice, InsertionBuffer, KeyDistribution, LeafWeights};

pub(super) const SEED: u64 = 1;

pub(super) const B2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/B2",
    ours: &[("the most probable leaf", |measured| measured.counts.clone())],
    work: ExperimentMethod::Here {
        quick: 200_000,
        full: 4_000_000,
        most: 100_000_000,
        measure: weights,
    },
};

pub(super) const B4: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/B4",
    ours: &[("keys a flush", |measured| measured.counts.clone())],
    work: ExperimentMethod::Here {
        quick: 200_000,
        full: 1_000_000,
        most: 10_000_000,
        measure: flushes,
    },
};

pub(super) const B6: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/B6",
    ours: &[("keys a flush beyond the first", |measured| {
        measured.counts.clone()
    })],
    work: ExperimentMethod::Here {
        quick: 500_000,
        full: 2_000_000,
        most: 10_000_000,
        measure: buffers,
    },
};

/// Capacity of the document's buffer, and of a leaf, in records.
pub(super) const BUFFERED: usize = 2_500;
pub(super) const LEAF: usize = 160;
/// Number of inserts over which a rate is measured.
const WINDOW: usize = 50_000;

fn weights(keys: u64) -> Result<MeasurementSet> {
    let mut lines = ["largest", "95th percentile"].map(|name| FigureSeries {
        name: name.into(),
        points: Vec::new(),
    });
    for leaf in [40, 160, 640] {
        let leaves = LeafWeights::grow(usize::try_from(keys)?, leaf, SEED)?;
        for (line, value) in lines.iter_mut().zip([leaves.largest(), leaves.quantile(0.95)]) {
            line.points.push(spot(leaf as f64, value));
        }
    }
    Ok(counts(lines.into()))
}

fn flushes(keys: u64) -> Result<MeasurementSet> {
    let choices = [
        ("fullest bin", BinChoice::FullestBin),
        ("golden gate", BinChoice::GoldenGate),
        ("random ball", BinChoice::RandomBall),
    ];
    let mut lines = Vec::new();
    for (name, choice) in choices {
        let rates = fill(keys, BUFFERED, choice)?;
        // Each point of a logarithmic axis once: 50, 100, 200 and 400 thousand, and the end.
        let window = rates.first().map_or(1, |(inserts, _)| *inserts);
        let is_last = |inserts: usize| inserts == rates.len() * window;
        let wanted = |inserts: usize| is_last(inserts) || (inserts / window).is_power_of_two();
        let points = rates.iter().filter(|(inserts, _)| wanted(*inserts));
        lines.push(FigureSeries {
            name: name.into(),
            points: points
                .map(|&(inserts, rate)| spot(inserts as f64, rate))
                .collect(),
        });
    }
    Ok(counts(lines))
}

fn buffers(keys: u64) -> Result<MeasurementSet> {
    let choices = [
        ("golden gate", BinChoice::GoldenGate),
        ("random ball", BinChoice::RandomBall),
    ];
    let mut lines = Vec::new();
    for (name, choice) in choices {
        let mut points: Vec<FigurePoint> = Vec::new();
        let mut smallest = None;
        for buffered in [1, 2, 4, 8].map(|times| times * BUFFERED) {
            let rates = fill(keys, buffered, choice)?;
            let beyond = rates.last().map_or(0.0, |(_, rate)| rate - 1.0);
            let smallest = *smallest.get_or_insert(beyond);
            ensure!(
                smallest > 0.0,
                "--records {keys}: so few keys are all in the buffer"
            );
            points.push(spot(buffered as f64, beyond / smallest));
        }
        lines.push(FigureSeries {
            name: name.into(),
            points,
        });
    }
    Ok(counts(lines))
}

/// Inserts keys. Returns the average keys per flush of each window.
pub(super) fn fill(keys: u64, buffered: usize, choice: BinChoice) -> Result<Vec<(usize, f64)>> {
    let keys = usize::try_from(keys)?;
    let (window, buffered) = window_of(keys, buffered);
    let buffer = InsertionBuffer {
        keys: KeyDistribution::Uniform { below: 1000.0 },
        buffered,
        leaf: LEAF,
        choice,
    };
    let flushed = buffer.fill(keys, window, SEED)?;
    Ok(flushed
        .iter()
        .map(|flushed| (flushed.inserts, flushed.rate))
        .collect())
}

/// Returns the window of a rate, in inserts, and the buffer capacity. Runs with fewer keys are
/// scaled down.
pub(super) fn window_of(keys: usize, buffered: usize) -> (usize, usize) {
    (WINDOW.min(keys / 4).max(1), buffered.min(keys / 16).max(1))
}

pub(super) fn spot(place: f64, value: f64) -> FigurePoint {
    FigurePoint {
        at: AxisPosition::Number(place),
        value,
    }
}

pub(super) fn counts(counts: Vec<FigureSeries>) -> MeasurementSet {
    MeasurementSet {
        counts,
        ..MeasurementSet::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::value_at;

    #[test]
    fn leaves_are_even_and_flushes_are_as_the_document_says() {
        let leaves = weights(50_000).unwrap().counts;
        let largest = value_at(&leaves[0], 160.0).unwrap();
        assert!((1.2..2.0).contains(&largest), "{largest}");
        let rates = flushes(100_000).unwrap().counts;
        let [full, gate, ball] = [0, 1, 2].map(|line: usize| value_at(&rates[line], 100_000.0).unwrap());
        assert!(full > gate && gate > ball && ball > 1.0, "{full} {gate} {ball}");
        let growth = buffers(500_000).unwrap().counts;
        for line in &growth {
            let most = value_at(line, 20_000.0).unwrap();
            assert!((6.0..14.0).contains(&most), "{line:?}");
        }
        assert_eq!(flushes(2_000).unwrap().counts.len(), 3);
    }
}
