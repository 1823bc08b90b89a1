//! B1, B3 and B5: a B-tree with an insertion buffer before its leaves, whose pages are counted.

use super::inserts::{Inserts, PAGES, RATIO};
use super::recycling::{BUFFERED, INSERTED, LEAF, SEED, counts, fill, spot, window_of};
use crate::entry::{Axis, Experiment, Form, Measure, Published, Value, Work, at, named};
use crate::measured::{Line, Measured, Spot, name};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Directory, FileOptions};
use alluvium_model::Random;
use anyhow::{Result, ensure};
use research_models::recycling::Choice;
use research_trees::insertion::{Absorption, Options, Policy, Tree};

const RATES: &str = "rates";
const GAIN: &str = "gain";
const BESIDE: &str = "beside the simulation";

/// What holds of every entry here.
const OURS: &str = "Ours is a tree of ours with such a buffer, not InnoDB: its leaves are pages in memory that are counted, its inner nodes and its buffer are no pages. B7 has InnoDB itself.";

pub(super) const B1: Experiment = Experiment {
    id: "seed-0/B1",
    title: "Inserts with and without an insertion buffer",
    shows: "An insertion buffer saves most of the time at first, and less the more leaves there are.",
    section: "§5.5",
    figure: "Figure 5.1",
    setting: "InnoDB, batches of 10,000 rows, 50 million rows; the first 200,000 are in memory.",
    differs: &[
        OURS,
        "Memory holds 1 record in 250, as in the document; with a buffer, half of it is the buffer. Pages of 16 KiB moved stand for time: each takes as long as another.",
        "Places are those of the document's 50 million inserts: of fewer, as large parts.",
    ],
    measures: &[
        Measure {
            name: "time with a buffer",
            unit: "parts of the time without",
            axis: INSERTED,
            published: &[Published {
                name: "InnoDB",
                section: "§5.5",
                points: &[at(1e6, Value::Is(0.123)), at(5e7, Value::Is(0.683))],
            }],
            note: "Over a 250th of all inserts.",
            ours: |measured| measured.under(RATIO),
        },
        Measure {
            name: "pages moved",
            unit: "for an insert",
            axis: INSERTED,
            published: &[],
            note: "The document shows it as time alone.",
            ours: |measured| measured.under(PAGES),
        },
    ],
    work: Work::Here {
        quick: 200_000,
        full: 2_000_000,
        most: 20_000_000,
        measure: with_and_without,
    },
};

const LARGEST: &str = "largest";
const TAIL: &str = "95th percentile";

pub(super) const B3: Experiment = Experiment {
    id: "seed-0/B3",
    title: "How even the leaves behind an insertion buffer are",
    shows: "No leaf of InnoDB's tree is much more probable than another.",
    section: "§5.6",
    figure: "Figure 5.3",
    setting: "InnoDB, 5 million rows with random keys.",
    differs: &[
        OURS,
        "Leaves split in as few even parts as their records fit; InnoDB's have 16 KiB.",
    ],
    measures: &[Measure {
        name: "how probable a leaf is",
        unit: "times the average leaf",
        axis: Axis {
            name: "leaf",
            form: Form::Names,
        },
        published: &[Published {
            name: "InnoDB",
            section: "§5.6",
            points: &[named(LARGEST, Value::Below(2.3)), named(TAIL, Value::Below(1.6))],
        }],
        note: "",
        ours: |measured| measured.counts.clone(),
    }],
    work: Work::Here {
        quick: 200_000,
        full: 5_000_000,
        most: 50_000_000,
        measure: evenness,
    },
};

pub(super) const B5: Experiment = Experiment {
    id: "seed-0/B5",
    title: "How many records one flush of a leaf takes along, in a tree",
    shows: "In a tree flushes take as many records as in the simulation, and in the order of keys more than by InnoDB's random walk.",
    section: "§5.6",
    figure: "Figures 5.5a to 5.5e",
    setting: "InnoDB with its own policy and with Golden Gate, keys uniform, Pareto and normal; merge ratio every 10,000 inserts.",
    differs: &[
        OURS,
        "A buffer of 2,500 records before leaves of at most 160, as in the document's simulation. Leaves split by rank, so the distribution of keys makes no difference: one line stands for all.",
    ],
    measures: &[
        Measure {
            name: "records a flush",
            unit: "records",
            axis: INSERTED,
            published: &[],
            note: "The document shows them as curves alone.",
            ours: |measured| measured.under(RATES),
        },
        Measure {
            name: "golden gate beside InnoDB's random walk",
            unit: "times its records a flush",
            axis: INSERTED,
            published: &[Published {
                name: "InnoDB",
                section: "§5.6",
                points: &[at(100_000.0, Value::About(1.3))],
            }],
            note: "The document does not say after how many inserts; it shrinks with more leaves.",
            ours: |measured| measured.under(GAIN),
        },
        Measure {
            name: "the tree beside the simulation",
            unit: "times its records a flush",
            axis: INSERTED,
            published: &[],
            note: "1 if the tree does what is simulated.",
            ours: |measured| measured.under(BESIDE),
        },
    ],
    work: Work::Here {
        quick: 200_000,
        full: 1_000_000,
        most: 10_000_000,
        measure: rates,
    },
};

/// A tree of the document's simulation, or with other numbers.
fn tree(options: Options) -> Result<Tree> {
    let file = MemoryDirectory::new().create("leaves", FileOptions::DIRECT)?;
    Ok(Tree::new(file, options)?)
}

fn simulated(policy: Policy, waiting: usize) -> Options {
    Options {
        page_bytes: 4096,
        leaf_records: LEAF,
        waiting_records: waiting,
        policy,
        absorption: Absorption::Off,
        leaves_in_memory: 0,
        seed: SEED,
    }
}

fn with_and_without(records: u64) -> Result<Measured> {
    Ok(counts(Inserts::new(records)?.ours()?))
}

fn evenness(records: u64) -> Result<Measured> {
    ensure!(records >= 1000, "--records {records}: so few make no leaves");
    let mut lines = Vec::new();
    for (title, policy) in [
        ("random walk", Policy::RandomWalk),
        ("golden gate", Policy::GoldenGate),
    ] {
        let mut tree = tree(simulated(policy, BUFFERED.min(records as usize / 16)))?;
        let mut random = Random::from_seed(SEED);
        for _ in 0..records {
            tree.put(&random.bits().to_be_bytes(), &[])?;
        }
        // Keys are even numbers: a leaf is as probable as its range is long.
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
        let put = |place, quantile| Spot {
            at: name(place),
            value: times(quantile),
        };
        lines.push(Line {
            name: title.into(),
            points: vec![put(LARGEST, 1.0), put(TAIL, 0.95)],
        });
    }
    Ok(counts(lines))
}

fn rates(records: u64) -> Result<Measured> {
    ensure!(
        records >= 1000,
        "--records {records}: so few are all in the buffer"
    );
    let policies = [
        ("fullest bin", Policy::FullestBin, Some(Choice::FullestBin)),
        ("golden gate", Policy::GoldenGate, Some(Choice::GoldenGate)),
        ("random ball", Policy::RandomBall, Some(Choice::RandomBall)),
        ("random walk", Policy::RandomWalk, None),
    ];
    let mut lines = Vec::new();
    let mut found = Vec::new();
    for (title, policy, choice) in policies {
        let rates = insert(policy, records)?;
        let line = |what: &str, points| Line {
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
    lines.push(Line {
        name: format!("{GAIN}, alluvium"),
        points: gain.map(|(gate, walk)| spot(gate.0, gate.1 / walk.1)).collect(),
    });
    Ok(counts(lines))
}

/// Inserts records, and returns the records of a flush over each window, as the simulation does.
fn insert(policy: Policy, records: u64) -> Result<Vec<(f64, f64)>> {
    let (window, waiting) = window_of(usize::try_from(records)?, BUFFERED);
    let mut tree = tree(simulated(policy, waiting))?;
    let mut random = Random::from_seed(SEED);
    // The simulation draws the seed of its choices first.
    random.bits();
    let (mut rates, mut before) = (Vec::new(), tree.counts());
    for inserted in 1..=records as usize {
        // A share of all keys, as the simulation draws it.
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
    use crate::measured::value_at;

    #[test]
    fn a_buffer_saves_most_at_first_and_the_tree_does_what_is_simulated() {
        let measured = with_and_without(20_000).unwrap();
        for line in measured.under(RATIO) {
            let [first, last] = [1e6, 5e7].map(|place| value_at(&line, place).unwrap());
            assert!(first < 0.5 && last > first && last < 1.1, "{line:?}");
        }
        let measured = rates(20_000).unwrap();
        for line in measured.under(BESIDE) {
            // At first there are few flushes.
            for spot in &line.points[1..] {
                assert!((spot.value - 1.0).abs() < 0.1, "{line:?}");
            }
        }
        assert_eq!(measured.under(RATES).len(), 4);
        for spot in &measured.under(GAIN)[0].points {
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
        for experiment in [&B1, &B3, &B5] {
            let Work::Here { measure, .. } = experiment.work else {
                panic!("{} counts by itself", experiment.id);
            };
            let measured = measure(2000).unwrap();
            for figure in experiment.measures {
                let lines = (figure.ours)(&measured);
                assert!(!lines.is_empty(), "{}: {}", experiment.id, figure.name);
                let mut spots = lines.iter().flat_map(|line| &line.points);
                assert!(
                    spots.all(|spot| spot.value.is_finite()),
                    "{}: {lines:?}",
                    figure.name
                );
            }
            assert!(measure(10).is_err());
        }
    }
}
