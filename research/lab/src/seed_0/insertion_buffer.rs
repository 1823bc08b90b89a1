//! B1, B3 and B5: a B-tree with an insertion buffer in front of its leaves, with page transfers
//! counted.

use super::insert_plan::{InsertPlan, PAGES, RATIO};
use super::recycling::{BUFFERED, LEAF, SEED, counts, fill, spot, window_of};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Directory, FileOptions};
use alluvium_model::SplitMix64;
use anyhow::{Result, ensure};
use research_models::recycling::BinChoice;
use research_trees::insertion::{AbsorptionMode, FlushPolicy, InsertionOptions, InsertionTree};

const RATES: &str = "rates";
const GAIN: &str = "gain";
const BESIDE: &str = "beside the simulation";

pub(super) const B1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/B1",
    ours: &[
        ("time with a buffer", |measured| {
            measured.series_with_prefix(RATIO)
        }),
        ("pages moved", |measured| measured.series_with_prefix(PAGES)),
    ],
    work: ExperimentMethod::Here {
        quick: 200_000,
        full: 2_000_000,
        most: 20_000_000,
        measure: with_and_without,
    },
};

const LARGEST: &str = "largest";
const TAIL: &str = "95th percentile";

pub(super) const B3: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/B3",
    ours: &[("how probable a leaf is", |measured| measured.counts.clone())],
    work: ExperimentMethod::Here {
        quick: 200_000,
        full: 5_000_000,
        most: 50_000_000,
        measure: evenness,
    },
};

pub(super) const B5: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/B5",
    ours: &[
        ("records a flush", |measured| measured.series_with_prefix(RATES)),
        ("golden gate beside InnoDB's random walk", |measured| {
            measured.series_with_prefix(GAIN)
        }),
        ("the tree beside the simulation", |measured| {
            measured.series_with_prefix(BESIDE)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 200_000,
        full: 1_000_000,
        most: 10_000_000,
        measure: rates,
    },
};

/// Returns the tree of the document's simulation, with these options.
fn tree(options: InsertionOptions) -> Result<InsertionTree> {
    let file = MemoryDirectory::new().create("leaves", FileOptions::DIRECT)?;
    Ok(InsertionTree::new(file, options)?)
}

fn simulated(policy: FlushPolicy, waiting: usize) -> InsertionOptions {
    InsertionOptions {
        page_bytes: 4096,
        leaf_records: LEAF,
        waiting_records: waiting,
        policy,
        absorption: AbsorptionMode::Off,
        leaves_in_memory: 0,
        seed: SEED,
    }
}

fn with_and_without(records: u64) -> Result<MeasurementSet> {
    Ok(counts(InsertPlan::new(records)?.ours()?))
}

fn evenness(records: u64) -> Result<MeasurementSet> {
    ensure!(records >= 1000, "--records {records}: so few make no leaves");
    let mut lines = Vec::new();
    for (title, policy) in [
        ("random walk", FlushPolicy::RandomWalk),
        ("golden gate", FlushPolicy::GoldenGate),
    ] {
        let mut tree = tree(simulated(policy, BUFFERED.min(records as usize / 16)))?;
        let mut random = SplitMix64::from_seed(SEED);
        for _ in 0..records {
            tree.put(&random.bits().to_be_bytes(), &[])?;
        }
        // Keys are even numbers. The probability of a leaf is proportional to the length of its
        // range.
        let share = |fence: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..fence.len()].copy_from_slice(fence);
            u64::from_be_bytes(bytes) as f64 / 2f64.powi(64)
        };
        let mut fences: Vec<f64> = tree.fences().map(share).collect();
        fences.push(1.0);
        let mut shares: Vec<f64> = fences.windows(2).map(|pair| pair[1] - pair[0]).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let times = |quantile: f64| {
            let at = (quantile * (shares.len() - 1) as f64).round() as usize;
            shares[at] * shares.len() as f64
        };
        let put = |place, quantile| FigurePoint {
            at: name(place),
            value: times(quantile),
        };
        lines.push(FigureSeries {
            name: title.into(),
            points: vec![put(LARGEST, 1.0), put(TAIL, 0.95)],
        });
    }
    Ok(counts(lines))
}

fn rates(records: u64) -> Result<MeasurementSet> {
    ensure!(
        records >= 1000,
        "--records {records}: so few are all in the buffer"
    );
    let policies = [
        (
            "fullest bin",
            FlushPolicy::FullestBin,
            Some(BinChoice::FullestBin),
        ),
        (
            "golden gate",
            FlushPolicy::GoldenGate,
            Some(BinChoice::GoldenGate),
        ),
        (
            "random ball",
            FlushPolicy::RandomBall,
            Some(BinChoice::RandomBall),
        ),
        ("random walk", FlushPolicy::RandomWalk, None),
    ];
    let mut lines = Vec::new();
    let mut found = Vec::new();
    for (title, policy, choice) in policies {
        let rates = insert(policy, records)?;
        let line = |what: &str, points| FigureSeries {
            name: format!("{what}, {title}"),
            points,
        };
        if let Some(choice) = choice {
            let wanted = fill(records, BUFFERED, choice)?;
            let beside = rates
                .iter()
                .zip(wanted)
                .map(|(rate, wanted)| spot(rate.0, rate.1 / wanted.1));
            lines.push(line(BESIDE, beside.collect()));
        }
        lines.push(line(
            RATES,
            rates.iter().map(|rate| spot(rate.0, rate.1)).collect(),
        ));
        found.push(rates);
    }
    let gain = found[1].iter().zip(&found[3]);
    lines.push(FigureSeries {
        name: format!("{GAIN}, alluvium"),
        points: gain.map(|(gate, walk)| spot(gate.0, gate.1 / walk.1)).collect(),
    });
    Ok(counts(lines))
}

/// Inserts records. Returns the average records per flush of each window, as the simulation does.
fn insert(policy: FlushPolicy, records: u64) -> Result<Vec<(f64, f64)>> {
    let (window, waiting) = window_of(usize::try_from(records)?, BUFFERED);
    let mut tree = tree(simulated(policy, waiting))?;
    let mut random = SplitMix64::from_seed(SEED);
    // The simulation draws the seed of its choices first.
    random.bits();
    let (mut rates, mut before) = (Vec::new(), tree.counts());
    for inserted in 1..=records as usize {
        // Draws a fraction of the key range exactly as the simulation does.
        let share = (random.unit() + f64::EPSILON / 4.0).min(1.0 - f64::EPSILON);
        tree.put(&share.to_bits().to_be_bytes(), &[])?;
        if inserted % window == 0 {
            rates.push((inserted as f64, tree.counts().since(&before).rate()));
            before = tree.counts();
        }
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::value_at;

    #[test]
    fn a_buffer_saves_most_at_first_and_the_tree_does_what_is_simulated() {
        let measured = with_and_without(20_000).unwrap();
        for line in measured.series_with_prefix(RATIO) {
            let [first, last] = [1e6, 5e7].map(|place| value_at(&line, place).unwrap());
            assert!(first < 0.5 && last > first && last < 1.1, "{line:?}");
        }
        let measured = rates(20_000).unwrap();
        for line in measured.series_with_prefix(BESIDE) {
            // The first window has too few flushes for a comparison.
            for spot in &line.points[1..] {
                assert!((spot.value - 1.0).abs() < 0.1, "{line:?}");
            }
        }
        assert_eq!(measured.series_with_prefix(RATES).len(), 4);
        for spot in &measured.series_with_prefix(GAIN)[0].points {
            assert!(spot.value > 1.0, "{spot:?}");
        }
        let leaves = evenness(20_000).unwrap().counts;
        for line in &leaves {
            assert!(
                line.points[0].value < 2.3 && line.points[1].value < 1.6,
                "{line:?}"
            );
        }
    }

    #[test]
    fn a_look_at_two_thousand_records_gives_every_figure() {
        for procedure in [&B1, &B3, &B5] {
            let ExperimentMethod::Here { measure, .. } = procedure.work else {
                panic!("{} counts by itself", procedure.id);
            };
            let measured = measure(2000).unwrap();
            for (name, ours) in procedure.ours {
                let lines = ours(&measured);
                assert!(!lines.is_empty(), "{}: {name}", procedure.id);
                let mut spots = lines.iter().flat_map(|line| &line.points);
                assert!(spots.all(|spot| spot.value.is_finite()), "{name}: {lines:?}");
            }
            assert!(measure(10).is_err());
        }
    }
}
