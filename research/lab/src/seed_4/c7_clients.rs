//! C7: a B-tree whose large nodes serve few clients as well as many; by simulation and on the local
//! device.

use crate::entry::{AxisPosition, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet};
use crate::scratch::ScratchDirectory;
use alluvium_device::{Directory, FileOptions};
use alluvium_model::SplitMix64;
use anyhow::{Context, Result, ensure};
use research_models::pdam::{NodePlacement, PdamTreeModel};
use research_trees::pdam::{self, PdamShape, ReadAhead, ReaderScheduler, RemainderPolicy};
use std::time::Instant;

/// Keys in a block, and blocks that a device moves in one step.
const BLOCK: u64 = 64;
const PARALLEL: u64 = 8;
const QUERIES: usize = 2_000;
const SEED: u64 = 1;

/// Parameters of the tree on the device: bytes of a block, maximum number of keys, and queries per
/// figure.
const BLOCK_BYTES: u32 = 4096;
const MOST_WRITTEN: u64 = 1 << 26;
const ANSWERED: u64 = 2_000;
/// Number of rounds, of which each figure is the best. The layouts alternate.
const ROUNDS: usize = 3;

const STEPS: &str = "steps";
const RATE: &str = "rate";
const COUNTED: &str = "counted";
const FROM_BEST: &str = "beside the best";

pub(super) const PROCEDURE: MeasurementProcedure = MeasurementProcedure {
    id: "seed-4/C7",
    ours: &[
        ("steps of a query", |measured| measured.series_with_prefix(STEPS)),
        ("van Emde Boas beside the better of the others", |measured| {
            measured.series_with_prefix(FROM_BEST)
        }),
        ("queries a second on the device", |measured| {
            measured.series_with_prefix(RATE)
        }),
        ("steps of a query on the device", |measured| {
            measured.series_with_prefix(COUNTED)
        }),
    ],
    work: ExperimentMethod::Here {
        quick: 1 << 22,
        full: 1 << 30,
        most: 1 << 40,
        measure,
    },
};

fn measure(keys: u64) -> Result<MeasurementSet> {
    let mut counts = played(keys)?;
    let answers = ANSWERED.min(keys / 8).max(100);
    counts.extend(on_device(keys.min(MOST_WRITTEN), answers)?);
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

/// Simulates queries. Returns their steps for each number of clients.
fn played(keys: u64) -> Result<Vec<FigureSeries>> {
    ensure!(keys >= BLOCK, "--records {keys}: a block has {BLOCK} keys");
    let tree = PdamTreeModel {
        keys,
        block: BLOCK,
        parallel: PARALLEL,
    };
    let layouts = [
        ("one block", NodePlacement::OneBlock),
        ("whole nodes", NodePlacement::Whole),
        ("van Emde Boas", NodePlacement::VanEmdeBoas),
    ];
    let mut lines = layouts.map(|(layout, _)| FigureSeries {
        name: format!("{STEPS}, {layout}"),
        points: Vec::new(),
    });
    let mut beside = FigureSeries {
        name: format!("{FROM_BEST}, alluvium"),
        points: Vec::new(),
    };
    for clients in [1, 2, 4, 8] {
        let mut steps = [0.0; 3];
        for ((_, nodes), steps) in layouts.iter().zip(&mut steps) {
            *steps = tree.play(*nodes, clients, QUERIES, SEED)?;
        }
        let place = AxisPosition::Number(clients as f64);
        for (line, value) in lines.iter_mut().zip(steps) {
            let at = place.clone();
            line.points.push(FigurePoint { at, value });
        }
        let [small, large, elastic] = steps;
        beside.points.push(FigurePoint {
            at: place,
            value: elastic / small.min(large),
        });
    }
    Ok(lines.into_iter().chain([beside]).collect())
}

/// Writes the tree with nodes of one block and with nodes of P blocks. Returns queries per second
/// and steps per query, for each number of clients.
fn on_device(keys: u64, answers: u64) -> Result<Vec<FigureSeries>> {
    let scratch = ScratchDirectory::new()?;
    let build = |name, node_blocks| -> Result<pdam::PdamTree> {
        let file = scratch.directory.create(name, FileOptions::DIRECT)?;
        let shape = PdamShape::new(BLOCK_BYTES, node_blocks, 8, 8)?;
        let records = (0..keys).map(|key| (key.to_be_bytes(), key.to_le_bytes()));
        Ok(pdam::PdamTree::build(file, shape, SEED, records)?)
    };
    let (small, large) = (build("small", 1)?, build("large", PARALLEL as u32)?);
    let layouts = [
        ("one block", &small, ReadAhead::None),
        ("whole nodes", &large, ReadAhead::Node),
        ("van Emde Boas", &large, ReadAhead::Shared),
    ];
    let line = |what: &str, layout: &str| FigureSeries {
        name: format!("{what}, {layout}"),
        points: Vec::new(),
    };
    let mut lines: Vec<[FigureSeries; 2]> = Vec::new();
    lines.extend(
        layouts
            .iter()
            .map(|(layout, ..)| [line(RATE, layout), line(COUNTED, layout)]),
    );
    for clients in [1, 2, 4, 8] {
        let mut best = [(0.0, 0.0); 3];
        for round in 0..ROUNDS {
            for ((_, tree, ahead), best) in layouts.iter().zip(&mut best) {
                let found = query(tree, (*ahead, clients), answers, SEED + round as u64)?;
                if found.0 > best.0 {
                    *best = found;
                }
            }
        }
        for (lines, (rate, steps)) in lines.iter_mut().zip(best) {
            for (line, value) in lines.iter_mut().zip([rate, steps]) {
                let at = AxisPosition::Number(clients as f64);
                line.points.push(FigurePoint { at, value });
            }
        }
    }
    Ok(lines.into_iter().flatten().collect())
}

/// Looks up random keys from several clients. Returns queries per second and steps per query.
fn query(
    tree: &pdam::PdamTree,
    (ahead, clients): (ReadAhead, usize),
    answers: u64,
    seed: u64,
) -> Result<(f64, f64)> {
    let mut readers = ReaderScheduler::new(tree, ahead, PARALLEL as u32, RemainderPolicy::Refused)?;
    let mut random = SplitMix64::from_seed(seed);
    let mut seek = |readers: &mut ReaderScheduler<'_>, reader| {
        let key = random.below(usize::try_from(tree.keys())?) as u64;
        readers
            .seek(reader, &key.to_be_bytes())
            .context("asking for a key")
    };
    for reader in 0..clients {
        seek(&mut readers, reader)?;
    }
    let (started, mut answered) = (Instant::now(), 0);
    while answered < answers {
        for (reader, value) in readers.step()? {
            ensure!(value.is_some(), "a key that was written is not found");
            answered += 1;
            seek(&mut readers, reader)?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let steps = readers.steps() as f64 * clients as f64 / answered as f64;
    Ok((answered as f64 / seconds, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_layout_is_within_a_constant_of_the_best_for_every_number_of_clients() {
        let counts = played(1 << 20).unwrap();
        let measured = MeasurementSet {
            counts,
            ..MeasurementSet::default()
        };
        assert_eq!(measured.series_with_prefix(STEPS).len(), 3);
        let beside = measured.series_with_prefix(FROM_BEST);
        for spot in &beside[0].points {
            assert!(spot.value > 0.2 && spot.value <= 2.0, "{spot:?}");
        }
        assert!(measure(1).is_err() && measure(2000).is_ok());
    }

    #[test]
    fn the_device_answers_every_layout_and_number_of_clients() {
        let lines = on_device(300_000, 200).unwrap();
        assert_eq!(lines.len(), 6);
        let steps = |layout: usize, at: usize| lines[2 * layout + 1].points[at].value;
        let spots = lines.iter().flat_map(|line| &line.points);
        assert!(spots.clone().all(|spot| spot.value > 0.0) && spots.count() == 24);
        // Nodes that are read whole serve clients one after the other.
        assert!(steps(1, 3) > 7.9 * steps(1, 0), "{lines:?}");
        assert!(
            steps(2, 0) <= steps(0, 0) && steps(2, 3) < 2.0 * steps(0, 3),
            "{lines:?}"
        );
    }
}
