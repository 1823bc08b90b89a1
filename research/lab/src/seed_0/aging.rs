//! A1 to A7: how file systems age, by the runs of `alluvium aging`.
//!
//! The number of an experiment is that of the files or operations of its workload: 1,000 are one
//! percent of the document's data, and one of its 100 steps (20 pulls of Git).

use crate::entry::{AxisPosition, ExperimentMethod, MeasurementProcedure};
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};
use crate::scratch::ScratchDirectory;
use alluvium_aging::measure::grep::GrepReader;
use alluvium_aging::run::constants::ConstantsPlan;
use alluvium_aging::run::report::{SeriesSummary, overall_correlations, requests_per_gib, summaries};
use alluvium_aging::run::runner::{RunSetup, run};
use alluvium_aging::run::{AgingPlan, AgingRow, CacheMode, RunListener, RunState};
use alluvium_aging::run::{TreeAge, WorkloadKind, WorkloadSettings};
use alluvium_aging::volumes::file_system::FileSystemKind;
use alluvium_aging::volumes::own_mount::OwnProgram;
use alluvium_aging::workload::git::GarbageCollection;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;

const QUICK: u64 = 5000;
const FULL: u64 = 100_000;
const MOST: u64 = 100_000;
/// Files or operations for one percent of the document's data.
const PERCENT: u64 = 1000;
const SEED: u64 = 1;
/// Size of each image, which is sparse.
const IMAGE: u64 = 4 << 30;
/// The read-ahead that Linux has unless it is told otherwise.
const READ_AHEAD_KIB: u32 = 128;
const STORE_MEMORY: u64 = 256 << 20;
/// Measurements after the first one.
const MEASUREMENTS: u64 = 4;

const COST: &str = "cost";
const READS: &str = "reads";
const SCORE: &str = "score";
const CORRELATION: &str = "correlation";
const WRITTEN: &str = "written";
const UNAGED: &str = "unaged";

/// The measures of a run on ext4, XFS, Btrfs and Alluvium.
macro_rules! measures {
    () => {
        &[
            ("time of the aged tree", |measured| {
                measured.series_with_prefix(COST)
            }),
            ("device reads of the aged tree", |measured| {
                measured.series_with_prefix(READS)
            }),
            ("dynamic layout score", |measured| {
                measured.series_with_prefix(SCORE)
            }),
            ("correlation of score and cost", |measured| {
                measured.series_with_prefix(CORRELATION)
            }),
        ]
    };
}

const fn here(measure: fn(u64) -> Result<MeasurementSet>) -> ExperimentMethod {
    ExperimentMethod::Here {
        quick: QUICK,
        full: FULL,
        most: MOST,
        measure,
    }
}

pub(super) const A1: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/A1",
    ours: measures!(),
    work: here(|number| aged(WorkloadKind::Intrafile, number)),
};

pub(super) const A2: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/A2",
    ours: measures!(),
    work: here(|number| aged(WorkloadKind::Interfile, number)),
};

pub(super) const A3: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/A3",
    ours: measures!(),
    work: here(|number| aged(WorkloadKind::Git, number)),
};

pub(super) const A4: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/A4",
    ours: &[("device reads of an unaged tree", |measured| {
        measured.series_with_prefix(UNAGED)
    })],
    work: here(by_file_size),
};

pub(super) const A5: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/A5",
    ours: &[("time of the aged tree", |measured| {
        measured.series_with_prefix(COST)
    })],
    work: ExperimentMethod::Waits(
        "a control group around a whole run of the Lab; `alluvium aging run git --warm 512M` measures it",
    ),
};

pub(super) const A6: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/A6",
    ours: &[
        ("device reads of the aged tree", |measured| {
            measured.series_with_prefix(READS)
        }),
        ("bytes written by the pulls", |measured| {
            measured.series_with_prefix(WRITTEN)
        }),
    ],
    work: here(by_node_size),
};

pub(super) const A7: MeasurementProcedure = MeasurementProcedure {
    id: "seed-0/A7",
    ours: measures!(),
    work: here(|number| aged(WorkloadKind::Mail, number)),
};

/// Returns the plan of a run. Each measured step is a step of the document.
fn plan(kind: WorkloadKind, number: u64, file_systems: Vec<String>) -> AgingPlan {
    let percent = (number / PERCENT).max(1);
    let steps = (kind.default_steps() * percent / 100).max(2);
    AgingPlan {
        workload: WorkloadSettings {
            steps,
            interval: steps.div_ceil(MEASUREMENTS),
            scale_percent: percent,
            collection: GarbageCollection::Off,
            ..WorkloadSettings::published(kind, SEED)
        },
        file_systems,
        directory: None,
        image_bytes: IMAGE,
        read_ahead_kib: READ_AHEAD_KIB,
        caches: CacheMode::Cold,
        warm_bytes: None,
        settle_s: 0,
    }
}

/// Returns the program `alluvium` of the search path.
fn own_program() -> Option<PathBuf> {
    let places = std::env::var_os("PATH")?;
    std::env::split_paths(&places)
        .map(|place| place.join("alluvium"))
        .find(|path| path.is_file())
}

/// Returns the file systems that this machine can make, and notes about the others.
fn available(wanted: &[&str]) -> (Vec<String>, Vec<String>) {
    let (mut names, mut notes) = (Vec::new(), Vec::new());
    for name in wanted {
        let kind: FileSystemKind = name.parse().expect("the names are those of the crate");
        match kind.require() {
            Err(why) => notes.push(why.to_string()),
            Ok(()) if kind == FileSystemKind::Alluvium && own_program().is_none() => {
                notes.push(
                    "alluvium is left out: the program `alluvium` is not in the search path".to_owned(),
                );
            }
            Ok(()) => names.push((*name).to_owned()),
        }
    }
    (names, notes)
}

/// Discards the progress of a run.
struct SilentListener;

impl RunListener for SilentListener {
    fn note(&mut self, _: &str) {}

    fn step(&mut self, _: &str, _: u64, _: u64) {}

    fn measured(&mut self, _: &str, _: &AgingRow) {}
}

/// Performs a run in a temporary directory.
fn performed(plan: &AgingPlan) -> Result<RunState> {
    ensure!(
        !plan.file_systems.is_empty(),
        "no file system can be made here: install e2fsprogs, xfsprogs or btrfs-progs"
    );
    let scratch = ScratchDirectory::new()?;
    let setup = RunSetup {
        output: scratch.path().join("output"),
        work: scratch.path().join("work"),
        program: OwnProgram {
            binary: own_program().unwrap_or_default(),
            memory: STORE_MEMORY,
        },
        reader: GrepReader::preferred(),
        constants: ConstantsPlan {
            bytes: 64 << 20,
            time: Duration::from_secs(1),
        },
    };
    run(plan, &setup, &|| false, &mut SilentListener).context("aging file systems, which needs root")
}

fn at_name(what: &str, system: &str, points: Vec<FigurePoint>) -> FigureSeries {
    FigureSeries {
        name: format!("{what}, {system}"),
        points,
    }
}

fn one(at: &'static str, value: Option<f64>) -> Vec<FigurePoint> {
    value
        .into_iter()
        .map(|value| FigurePoint { at: name(at), value })
        .collect()
}

/// Returns how many times the value of the unaged tree that of the aged one is.
fn reads_ratio(row: &SeriesSummary) -> Option<f64> {
    let (aged, unaged) = row.aged_requests_per_gib.zip(row.unaged_requests_per_gib)?;
    (unaged > 0.0).then(|| aged / unaged)
}

/// Ages the file systems of this machine by a workload.
fn aged(kind: WorkloadKind, number: u64) -> Result<MeasurementSet> {
    let (systems, notes) = available(&["ext4", "xfs", "btrfs", "alluvium"]);
    let state = performed(&plan(kind, number, systems))?;
    Ok(MeasurementSet {
        counts: figures(&state),
        notes,
        ..MeasurementSet::default()
    })
}

/// Returns the figures of a run.
fn figures(state: &RunState) -> Vec<FigureSeries> {
    let mut counts = Vec::new();
    for row in summaries(state) {
        let system = &row.file_system;
        counts.push(at_name(
            COST,
            system,
            [
                ("measured", Some(row.time_ratio)),
                ("predicted", row.predicted_ratio),
                ("modelled disk", row.disk_ratio),
            ]
            .into_iter()
            .flat_map(|(at, value)| one(at, value))
            .collect(),
        ));
        counts.push(at_name(READS, system, one("last step", reads_ratio(&row))));
    }
    for (system, series) in &state.series {
        for (age, word) in [(TreeAge::Aged, "aged"), (TreeAge::Unaged, "unaged")] {
            let rows = series.rows.iter().filter(|row| row.age == age);
            let points = rows.filter_map(|row| {
                Some(FigurePoint {
                    at: AxisPosition::Number(row.step as f64),
                    value: row.score()?,
                })
            });
            counts.push(at_name(SCORE, &format!("{system}, {word}"), points.collect()));
        }
    }
    for (cost, found) in ["time", "device reads"].iter().zip(overall_correlations(state)) {
        counts.push(at_name(CORRELATION, cost, one("this device", found.pearson)));
    }
    counts.retain(|line| !line.points.is_empty());
    counts
}

/// Reads unaged trees whose files have different sizes, with as many bytes in all.
fn by_file_size(number: u64) -> Result<MeasurementSet> {
    const KIB: [u64; 4] = [4, 16, 64, 256];
    let (systems, notes) = available(&["ext4", "xfs", "btrfs"]);
    let mut counts: Vec<FigureSeries> = Vec::new();
    for kib in KIB {
        let mut plan = plan(WorkloadKind::Interfile, number, systems.clone());
        let percent = (plan.workload.scale_percent * KIB[0]).div_ceil(kib);
        plan.workload = WorkloadSettings {
            steps: 0,
            scale_percent: percent,
            file_bytes: kib << 10,
            ..plan.workload
        };
        for (system, series) in &performed(&plan)?.series {
            let unaged = series.row(0, TreeAge::Unaged);
            let Some(value) = unaged.and_then(requests_per_gib) else {
                continue;
            };
            let line = format!("{UNAGED}, {system}");
            let point = FigurePoint {
                at: AxisPosition::Number(kib as f64),
                value,
            };
            match counts.iter_mut().find(|other| other.name == line) {
                Some(other) => other.points.push(point),
                None => counts.push(at_name(UNAGED, system, vec![point])),
            }
        }
    }
    Ok(MeasurementSet {
        counts,
        notes,
        ..MeasurementSet::default()
    })
}

/// Pulls into Btrfs with nodes of different lengths.
fn by_node_size(number: u64) -> Result<MeasurementSet> {
    const KIB: [u64; 5] = [4, 8, 16, 32, 64];
    let names = KIB.map(|kib| format!("btrfs-{kib}K"));
    let (systems, notes) = available(&names.each_ref().map(String::as_str));
    // Each note says what is missing for one of them.
    ensure!(
        !systems.is_empty(),
        "no file system can be made here: {}",
        notes.first().map_or("", String::as_str)
    );
    let rows = summaries(&performed(&plan(WorkloadKind::Git, number, systems))?);
    let figure = |of: fn(&SeriesSummary) -> Option<f64>| -> Vec<FigurePoint> {
        let point = |(kib, name): (&u64, &String)| {
            let row = rows.iter().find(|row| row.file_system == *name)?;
            Some(FigurePoint {
                at: AxisPosition::Number(*kib as f64),
                value: of(row)?,
            })
        };
        KIB.iter().zip(&names).filter_map(point).collect()
    };
    let counts = vec![
        at_name(READS, "btrfs", figure(|row| row.aged_requests_per_gib)),
        at_name(
            WRITTEN,
            "btrfs",
            figure(|row| Some(row.written_bytes? as f64 / 1e6)),
        ),
    ];
    Ok(MeasurementSet {
        counts,
        notes,
        ..MeasurementSet::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_sets_data_and_steps_together() {
        let of = |kind, number| {
            let settings = plan(kind, number, Vec::new()).workload;
            (
                settings.scale_percent,
                settings.steps,
                settings.measured_steps().len(),
            )
        };
        assert_eq!(of(WorkloadKind::Mail, FULL), (100, 100, 5));
        assert_eq!(of(WorkloadKind::Git, FULL), (100, 2000, 5));
        assert_eq!(of(WorkloadKind::Git, 5000), (5, 100, 5));
        assert_eq!(of(WorkloadKind::Mail, 1), (1, 2, 3));
    }

    #[test]
    fn figures_divide_the_aged_tree_by_the_unaged_one() {
        let row = |age, step, requests, score, seconds| AgingRow {
            step,
            age,
            files: 1,
            ext4_bytes: 1 << 30,
            seconds,
            seconds_per_gib: seconds,
            read_requests: Some(requests),
            read_bytes: None,
            written_bytes: None,
            request_score: None,
            block_score: Some(score),
            seeks: None,
            layout_score: None,
            tree_score: None,
            fragmentation: None,
            predicted_s: Some(seconds * 2.0),
            modelled_disk_s: None,
        };
        let mut state = RunState::new(plan(WorkloadKind::Mail, 1, Vec::new()));
        state.series_mut("ext4").rows = vec![
            row(TreeAge::Aged, 0, 10, 1.0, 1.0),
            row(TreeAge::Unaged, 0, 10, 1.0, 1.0),
            row(TreeAge::Aged, 2, 40, 0.25, 3.0),
            row(TreeAge::Unaged, 2, 10, 0.75, 2.0),
        ];
        let measured = MeasurementSet {
            counts: figures(&state),
            ..MeasurementSet::default()
        };
        let values = |what: &str| -> Vec<(String, Vec<f64>)> {
            let lines = measured.series_with_prefix(what).into_iter();
            lines
                .map(|line| (line.name, line.points.iter().map(|point| point.value).collect()))
                .collect()
        };
        assert_eq!(values(COST), [("ext4".to_owned(), vec![1.5, 1.5])]);
        assert_eq!(values(READS), [("ext4".to_owned(), vec![4.0])]);
        assert_eq!(
            values(SCORE),
            [
                ("ext4, aged".to_owned(), vec![1.0, 0.25]),
                ("ext4, unaged".to_owned(), vec![1.0, 0.75])
            ]
        );
        let correlations = values(CORRELATION);
        assert_eq!(correlations.len(), 2);
        assert!(
            correlations.iter().all(|(_, values)| values[0] < -0.8),
            "{correlations:?}"
        );
    }
}
