//! Records of a measurement, and helpers for lines of figures.

use crate::entry::AxisPosition;
use crate::measurements::{FigurePoint, FigureSeries, MeasurementSet, name};
pub(super) use crate::scratch::ScratchDirectory;
use alluvium_hashes::index::{StaticIndexBuilder, StaticIndexKind, StaticIndexOptions};
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// File name of the index.
pub(super) const NAME: &str = "index";

/// Minimum memory of a sort, in bytes.
pub(super) const LEAST_MEMORY: u64 = 8 << 20;

/// Records of a given length. Keys have 20 bytes, or 8 in small records.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordSizes {
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
}

/// The records of most experiments.
pub(super) const LARGE: RecordSizes = RecordSizes {
    key_bytes: 20,
    value_bytes: 1000,
};

/// The records of the experiment with small items.
pub(super) const SMALL: RecordSizes = RecordSizes {
    key_bytes: 8,
    value_bytes: 8,
};

impl RecordSizes {
    pub(super) fn options(self, kind: StaticIndexKind, memory: u64) -> StaticIndexOptions {
        let mut options = StaticIndexOptions::new(self.key_bytes, self.value_bytes);
        options.kind = kind;
        options.memory_bytes = usize::try_from(memory.max(LEAST_MEMORY)).unwrap_or(usize::MAX);
        options
    }

    /// Returns the bytes of `count` records.
    pub(super) fn bytes(self, count: u64) -> u64 {
        count * u64::from(self.key_bytes + self.value_bytes)
    }

    /// Returns the key for a number, and a value, in the given buffers.
    pub(super) fn record(self, number: u64, key: &mut Vec<u8>, value: &mut Vec<u8>) {
        key.clear();
        key.extend(number.to_le_bytes());
        key.resize(self.key_bytes as usize, 0x55);
        value.clear();
        value.extend(number.wrapping_mul(0x9e37_79b9).to_le_bytes());
        value.resize(self.value_bytes as usize, 0xaa);
    }

    /// Calls a function with each record of a range.
    pub(super) fn each(
        self,
        numbers: std::ops::Range<u64>,
        mut take: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for number in numbers {
            self.record(number, &mut key, &mut value);
            take(&key, &value)?;
        }
        Ok(())
    }

    /// Builds an index of the first `count` numbers. Returns the time.
    pub(super) fn build(
        self,
        scratch: &ScratchDirectory,
        count: u64,
        options: StaticIndexOptions,
    ) -> Result<Duration> {
        let started = Instant::now();
        let mut builder = StaticIndexBuilder::new(Arc::clone(&scratch.directory) as _, NAME, options)?;
        self.each(0..count, |key, value| Ok(builder.push(key, value)?))?;
        anyhow::ensure!(builder.finish()? == count, "every key is another");
        Ok(started.elapsed())
    }
}

/// Returns the rate in thousands per second.
pub(super) fn thousands(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64() / 1000.0
}

/// Returns a line whose name starts with the measure and a separator.
pub(super) fn line(measure: &str, whose: &str, points: Vec<(AxisPosition, f64)>) -> FigureSeries {
    FigureSeries {
        name: format!("{measure}: {whose}"),
        points: points
            .into_iter()
            .map(|(at, value)| FigurePoint { at, value })
            .collect(),
    }
}

/// Returns a figure at a category.
pub(super) fn at_name(place: &'static str, value: f64) -> (AxisPosition, f64) {
    (name(place), value)
}

/// Returns a figure at a number.
pub(super) fn at_number(number: f64, value: f64) -> (AxisPosition, f64) {
    (AxisPosition::Number(number), value)
}

/// Returns the lines of one measure.
pub(super) fn lines(measured: &MeasurementSet, measure: &str) -> Vec<FigureSeries> {
    let of = |line: &FigureSeries| {
        let whose = line.name.strip_prefix(measure)?.strip_prefix(": ")?;
        Some(FigureSeries {
            name: whose.to_owned(),
            points: line.points.clone(),
        })
    };
    measured.counts.iter().filter_map(of).collect()
}
