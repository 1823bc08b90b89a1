//! E5: lookups by many threads.

use super::harness::{LARGE, NAME, ScratchDirectory, at_name, line, lines, thousands};
use super::perfect::{self, PerfectHashFile};
use crate::entry::{ExperimentMethod, MeasurementProcedure};
use crate::measurements::MeasurementSet;
use alluvium_device::BLOCK;
use alluvium_hashes::index::format::{HASH_BYTES, hash_of};
use alluvium_hashes::index::{StaticIndex, StaticIndexKind};
use anyhow::{Context, Result, ensure};
use research_filters::perfect::PerfectHashIndex as PerfectIndex;
use std::time::{Duration, Instant};

const RATE: &str = "rate";
const THREADS: u64 = 16;

pub(super) const E5: MeasurementProcedure = MeasurementProcedure {
    id: "seed-1/E5",
    ours: &[("lookups a second", |measured| lines(measured, RATE))],
    work: ExperimentMethod::Here {
        quick: 20_000,
        full: 4_000_000,
        most: 20_000_000,
        measure,
    },
};

fn measure(count: u64) -> Result<MeasurementSet> {
    let scratch = ScratchDirectory::new()?;
    let memory = LARGE.bytes(count) / 4;
    LARGE.build(&scratch, count, LARGE.options(StaticIndexKind::Dense, memory))?;
    let index = StaticIndex::open(&*scratch.directory, NAME)?;
    let lookups = (count / 8).max(THREADS);
    let took = timed(lookups, count, |key, value| {
        ensure!(
            index.get(key)?.as_deref() == Some(value),
            "the index has lost a key"
        );
        Ok(())
    })?;
    let perfect = perfect::build(LARGE, &scratch, count, memory)?;
    let other = timed(lookups, count, |key, value| perfect.verify(key, value))?;
    let points = vec![
        at_name("tries", thousands(lookups, took)),
        at_name("perfect hashes", thousands(lookups, other)),
    ];
    Ok(MeasurementSet {
        counts: vec![line(RATE, "alluvium", points)],
        ..MeasurementSet::default()
    })
}

/// Looks up random keys with all threads. Returns the time.
fn timed(lookups: u64, count: u64, get: impl Fn(&[u8], &[u8]) -> Result<()> + Sync) -> Result<Duration> {
    let started = Instant::now();
    std::thread::scope(|scope| {
        let get = &get;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    let (mut key, mut value) = (Vec::new(), Vec::new());
                    for _ in 0..lookups / THREADS {
                        LARGE.record(random.u64(0..count), &mut key, &mut value);
                        get(&key, &value)?;
                    }
                    Ok(())
                })
            })
            .collect();
        let mut ended = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.try_for_each(|ended: Result<()>| ended)
    })?;
    Ok(started.elapsed())
}

impl PerfectHashFile {
    /// Reads the record of a key and compares it with the expected value.
    fn verify(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let index = PerfectIndex::open(HASH_BYTES as u32, &self.index)?;
        let place = index.lookup(&hash_of(0, key))?.context("a key without a place")?;
        let record = (key.len() + value.len()) as u64;
        let (start, end) = (place * record, (place + 1) * record);
        let offset = start / BLOCK * BLOCK;
        let len = (end.next_multiple_of(BLOCK) - offset) as usize;
        let bytes = self.device.read_at(offset, len, alluvium_base::Purpose::Lookup)?;
        let found = &bytes[(start - offset) as usize..(end - offset) as usize];
        ensure!(found == [key, value].concat(), "the index has lost a key");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_through_both_indexes() {
        let points = lines(&measure(2000).unwrap(), RATE).remove(0).points;
        assert!(points.iter().all(|point| point.value > 0.0), "{points:?}");
    }
}
