//! S5 with large pairs whose values are stored outside the leaves: bytes written and jumps of
//! scans. Both are counted, not timed.

use super::harness::{KEY, LevelsStore, StoreSizing, key, line};
use super::stitching::{COPY_ALL, F0, F3, F15, K, PAGE_VALUE, shuffled};
use crate::entry::FigureComputation;
use crate::measurements::{FigureSeries, MeasurementSet, name};
use alluvium::LevelsOptions;
use anyhow::Result;

const WRITTEN: &str = "written apart";
const JUMPS: &str = "jumps apart";
const LONG_WRITTEN: &str = "written apart of 64 KiB";
const LONG_JUMPS: &str = "jumps apart of 64 KiB";
const PASSED_ON: &str = "copy all but values";
const DEFRAGMENTED: &str = "f = 0, defragmented";

/// A workload of large pairs.
#[derive(Clone, Copy)]
struct LargePairWorkload {
    /// Ratio of small records to large pairs.
    fewer: u64,
    value_bytes: usize,
    /// Pairs in a sequence: 2 MiB of values.
    sequence: u64,
    written: &'static str,
    jumps: &'static str,
}

/// Pairs that fill a page of the document.
const PAGES: LargePairWorkload = LargePairWorkload {
    fewer: 20,
    value_bytes: PAGE_VALUE,
    sequence: 540,
    written: WRITTEN,
    jumps: JUMPS,
};
/// Pairs of sixteen pages. The keys of a sequence fill less than a leaf.
const LONG: LargePairWorkload = LargePairWorkload {
    fewer: 320,
    value_bytes: (64 << 10) - KEY,
    sequence: 30,
    written: LONG_WRITTEN,
    jumps: LONG_JUMPS,
};
/// Number of scans after which all fragmented values have been rewritten.
const SCANS: usize = 12;

/// Write amplification for pairs of 4 KiB.
pub(super) const WRITES: (&str, FigureComputation) = ("bytes written, pairs of 4 KiB", |measured| {
    measured.series_with_prefix(WRITTEN)
});

/// Jumps of a scan per pair of 4 KiB.
pub(super) const SEEKS: (&str, FigureComputation) = ("jumps of a scan, pairs of 4 KiB", |measured| {
    measured.series_with_prefix(JUMPS)
});

/// Write amplification for pairs of 64 KiB.
pub(super) const LONG_WRITES: (&str, FigureComputation) = ("bytes written, pairs of 64 KiB", |measured| {
    measured.series_with_prefix(LONG_WRITTEN)
});

/// Jumps of a scan per pair of 64 KiB.
pub(super) const LONG_SEEKS: (&str, FigureComputation) = ("jumps of a scan, pairs of 64 KiB", |measured| {
    measured.series_with_prefix(LONG_JUMPS)
});

fn ways() -> [(&'static str, LevelsOptions); 6] {
    let samt = || LevelsOptions::samt(K);
    [
        (F0, samt().stitch(0).move_values()),
        (F3, samt().stitch(3).move_values()),
        (F15, samt().stitch(15).move_values()),
        (COPY_ALL, samt().move_values()),
        (PASSED_ON, samt()),
        (DEFRAGMENTED, samt().stitch(0).move_values().defragment(100)),
    ]
}

/// Returns the number of units, and the number of sequences appended to each.
fn units(records: u64, sequence: u64) -> (u64, u64) {
    let sequences = (records / sequence).max(1);
    let units = (sequences as f64).sqrt().round().max(1.0) as u64;
    (units, (sequences / units).max(1))
}

fn keys((units, passes): (u64, u64), sequence: u64) -> impl Iterator<Item = [u8; KEY]> {
    (0..passes).flat_map(move |pass| {
        let units = shuffled(units, pass).into_iter();
        units.flat_map(move |unit| (0..sequence).map(move |place| key(unit, pass * sequence + place)))
    })
}

/// Loads and scans a store with each configuration.
fn measure(pairs: LargePairWorkload, small_records: u64) -> Result<Vec<FigureSeries>> {
    let records = (small_records / pairs.fewer).max(1);
    let sequence = pairs.sequence.min(records);
    let (units, passes) = units(records, sequence);
    let count = units * passes * sequence;
    let shape = StoreSizing::of(sequence, pairs.value_bytes).apart();
    let (mut written, mut jumps) = (Vec::new(), Vec::new());
    for (way, levels) in ways() {
        let store = LevelsStore::new(shape, &levels)?;
        store.load(keys((units, passes), sequence))?;
        if way == DEFRAGMENTED {
            for _ in 0..SCANS {
                store.jumps(count)?;
                store.work()?;
            }
        }
        written.push((name(way), store.amplification()));
        jumps.push((name(way), store.jumps(count)?));
    }
    Ok(vec![
        line(pairs.written, "Alluvium", written),
        line(pairs.jumps, "Alluvium", jumps),
    ])
}

/// Adds the measurements of large pairs to those of small pairs.
pub(super) fn beside(mut measured: MeasurementSet, small_records: u64) -> Result<MeasurementSet> {
    measured.counts.extend(measure(PAGES, small_records)?);
    measured.counts.extend(measure(LONG, small_records)?);
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(line: &FigureSeries, way: &'static str) -> f64 {
        let spot = line.points.iter().find(|spot| spot.at == name(way));
        spot.unwrap().value
    }

    #[test]
    fn the_threshold_decides_what_is_written_and_how_often_scans_jump() {
        let lines = measure(PAGES, 20 * 12_000).unwrap();
        let of = |line: usize, way: &'static str| value(&lines[line], way);
        println!("{lines:?}");
        let (written, jumps) = (|way: &'static str| of(0, way), |way: &'static str| of(1, way));
        assert!(written(F0) < written(F15) && written(F15) <= written(COPY_ALL) * 1.01);
        assert!(
            written(F0) * 1.3 < written(COPY_ALL),
            "large values are taken over"
        );
        assert!(jumps(COPY_ALL) <= jumps(F0) && jumps(DEFRAGMENTED) <= jumps(F0));
    }

    #[test]
    fn long_values_are_written_once_where_they_are_passed_on() {
        let lines = measure(LONG, 320 * 400).unwrap();
        println!("{lines:?}");
        let of = |line: usize, way: &'static str| value(&lines[line], way);
        assert!(of(0, PASSED_ON) < 1.2 && of(0, PASSED_ON) * 1.3 < of(0, COPY_ALL));
    }
}
