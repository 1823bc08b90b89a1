//! E4: updates of an index in batches, compared with a rebuild.

use super::harness::{LARGE, NAME, ScratchDirectory, at_number, line, lines};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use alluvium_hashes::index::{IndexUpdater, StaticIndexKind};
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

const GAIN: &str = "gain";
const BATCHES: u64 = 5;

pub(super) const E4: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/E4",
    ours: &[(
        "time to build after each batch, against that of updates",
        |measured| lines(measured, GAIN),
    )],
    work: ExperimentMethod::Here {
        quick: 8_000,
        full: 1_000_000,
        most: 4_000_000,
        measure,
    },
};

fn measure(count: u64) -> Result<MeasurementSet> {
    let memory = LARGE.bytes(count * (BATCHES + 1)) / 4;
    let options = LARGE.options(StaticIndexKind::Dense, memory);
    let scratch = ScratchDirectory::new()?;
    let first = LARGE.build(&scratch, count, options)?;
    let (mut updated, mut rebuilt) = (first, first);
    let mut points = Vec::new();
    for batch in 1..=BATCHES {
        updated += update(&scratch, count * batch..count * (batch + 1), options.memory_bytes)?;
        let other = ScratchDirectory::new()?;
        rebuilt += LARGE.build(&other, count * (batch + 1), options)?;
        points.push(at_number(
            batch as f64,
            rebuilt.as_secs_f64() / updated.as_secs_f64(),
        ));
    }
    Ok(MeasurementSet {
        counts: vec![line(GAIN, "alluvium", points)],
        ..MeasurementSet::default()
    })
}

fn update(scratch: &ScratchDirectory, numbers: std::ops::Range<u64>, memory: usize) -> Result<Duration> {
    let started = Instant::now();
    let end = numbers.end;
    let mut updater = IndexUpdater::new(Arc::clone(&scratch.directory) as _, NAME, memory)?;
    LARGE.each(numbers, |key, value| Ok(updater.put(key, value)?))?;
    anyhow::ensure!(updater.finish()? == end, "every key is another");
    Ok(started.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_has_a_figure() {
        let points = lines(&measure(300).unwrap(), GAIN).remove(0).points;
        assert_eq!(points.len(), 5);
        assert!(points.iter().all(|point| point.value > 0.0));
    }
}
