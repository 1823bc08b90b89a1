//! LevelDB's insert throughput and write amplification: stores of several sizes, with uniform and
//! Zipf-distributed keys (Lim 2015, §4.2 and Figure 4.3).

use super::{StudyDirectory, line};
use crate::leveldb::writes::{InsertRate, InsertStudy, rate};
use alluvium_lab::MeasurementSet;
use anyhow::{Result, ensure};
use std::path::Path;

/// Sizes of stores, in tenths of the largest.
const TENTHS: [u64; 4] = [1, 2, 5, 10];
/// Minimum number of keys. LevelDB's first level can hold the smallest store of that size.
const FEWEST: u64 = 100_000;

pub(super) fn measure(directory: &Path, records: u64) -> Result<MeasurementSet> {
    ensure!(
        records >= FEWEST,
        "--records {records}: {FEWEST} are the fewest of which stores have several levels"
    );
    let mut counts = Vec::new();
    for (name, skew) in [("uniform", 0.0), ("Zipf 0.99", 0.99)] {
        let mut points: Vec<(f64, InsertRate)> = Vec::new();
        for tenths in TENTHS {
            let keys = records / 10 * tenths;
            let place = StudyDirectory::new(&directory.join(format!("{name}-{keys}")))?;
            let study = InsertStudy {
                keys,
                skew,
                rounds: 1.0,
                seed: 1,
            };
            points.push((keys as f64, rate(place.path(), &study)?));
        }
        let written = |rate: &InsertRate| rate.written;
        let inserts = |rate: &InsertRate| rate.inserts;
        counts.push(line(format!("written, {name}"), &figures(&points, written)));
        counts.push(line(format!("inserts, {name}"), &figures(&points, inserts)));
        let by_written = points.iter().map(|(_, rate)| (rate.written, rate.inserts));
        let mut by_written: Vec<(f64, f64)> = by_written.collect();
        by_written.sort_by(|a, b| a.0.total_cmp(&b.0));
        counts.push(line(format!("inserts by written, {name}"), &by_written));
    }
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}

fn figures(points: &[(f64, InsertRate)], figure: fn(&InsertRate) -> f64) -> Vec<(f64, f64)> {
    points.iter().map(|(keys, rate)| (*keys, figure(rate))).collect()
}
