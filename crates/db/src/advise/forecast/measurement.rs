//! Measures the quantities that the models predict.

use super::CostQuantity;
use super::question::KeyspaceContents;
use alluvium_device::machine;

/// Minimum number of lookups of one kind, and of operations, needed to measure a quantity.
const LOOKUPS: u64 = 1000;

/// The counters at one point in time, and a summary of the keyspace's contents.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ForecastSample {
    pub(crate) user_bytes: u64,
    pub(crate) device_bytes: u64,
    pub(crate) found: u64,
    pub(crate) found_reads: u64,
    pub(crate) absent: u64,
    pub(crate) absent_reads: u64,
    pub(crate) operations: u64,
    /// Processor time used by the whole process, in microseconds, if the system reports it.
    pub(crate) processor_us: Option<u64>,
    /// Minimum number of bytes written by users that is needed to measure write amplification.
    pub(crate) enough_bytes: u64,
    pub(crate) held: KeyspaceContents,
}

fn ratio(one: f64, other: f64) -> Option<f64> {
    (other > 0.0).then(|| one / other)
}

impl ForecastSample {
    /// Measures a quantity between an earlier point in time and this one. Returns `None` if there
    /// were too few operations in between.
    pub(crate) fn since(&self, before: &ForecastSample, what: CostQuantity) -> Option<f64> {
        let more = |now: u64, then: u64| now.saturating_sub(then);
        let reads = |reads: u64, lookups: u64| {
            let is_enough = lookups >= LOOKUPS;
            is_enough.then(|| reads as f64 / lookups as f64)
        };
        let held = &self.held;
        match what {
            CostQuantity::WriteAmplification => {
                let user = more(self.user_bytes, before.user_bytes);
                let is_enough = user > 0 && user >= self.enough_bytes;
                is_enough.then(|| more(self.device_bytes, before.device_bytes) as f64 / user as f64)
            }
            CostQuantity::HitReads => reads(
                more(self.found_reads, before.found_reads),
                more(self.found, before.found),
            ),
            CostQuantity::MissReads => reads(
                more(self.absent_reads, before.absent_reads),
                more(self.absent, before.absent),
            ),
            CostQuantity::MemoryPerKey => ratio(held.guide_bytes, held.keys),
            CostQuantity::SpaceAmplification => ratio(held.bytes, held.keys * held.record_bytes),
            CostQuantity::ProcessorTime => {
                let operations = more(self.operations, before.operations);
                let us = more(self.processor_us?, before.processor_us?);
                let is_enough = operations >= LOOKUPS;
                is_enough.then(|| us as f64 * 1000.0 / operations as f64)
            }
        }
    }
}

/// Returns the processor time used by the process, in microseconds, or `None` if the system does
/// not report it.
pub(crate) fn processor_us() -> Option<u64> {
    machine::processor_time().map(|time| time.user_us + time.system_us)
}

impl ForecastSample {
    /// Returns the values when a store is opened. All of its counters are zero, but the process may
    /// have used processor time already.
    pub(crate) fn at_opening() -> ForecastSample {
        ForecastSample {
            processor_us: processor_us(),
            ..ForecastSample::default()
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_a_difference_and_too_little_is_none() {
        let before = ForecastSample {
            user_bytes: 1000,
            device_bytes: 5000,
            found: 10_000,
            found_reads: 500,
            absent: 50,
            operations: 20_000,
            processor_us: Some(7_000),
            ..ForecastSample::default()
        };
        let after = ForecastSample {
            user_bytes: 3000,
            device_bytes: 13_000,
            found: 14_000,
            found_reads: 3500,
            absent: 1049,
            absent_reads: 12,
            operations: 30_000,
            processor_us: Some(27_000),
            enough_bytes: 2000,
            held: KeyspaceContents {
                keys: 100.0,
                record_bytes: 116.0,
                bytes: 14_500.0,
                guide_bytes: 320.0,
            },
        };
        let of = |what| after.since(&before, what);
        assert_eq!(of(CostQuantity::WriteAmplification), Some(4.0));
        assert_eq!(of(CostQuantity::HitReads), Some(0.75));
        assert_eq!(of(CostQuantity::MissReads), None, "999 are too few");
        assert_eq!(of(CostQuantity::MemoryPerKey), Some(3.2));
        assert_eq!(of(CostQuantity::SpaceAmplification), Some(1.25));
        assert_eq!(of(CostQuantity::ProcessorTime), Some(2000.0));
        let quiet = after.since(&after, CostQuantity::WriteAmplification);
        assert_eq!(quiet, None);
    }
}
