//! Probes the device that holds the directory for temporary files.

use super::scratch::ScratchDirectory;
use alluvium_device::probe::{self, LEAST_SPACE, ProbeControl, ProbePlan, ProcessClock};
use alluvium_model::probe::ProbeConclusions;
use anyhow::{Context, Result};

/// Bytes per record. The probe's file has one such block for each record of the experiment.
const RECORD: u64 = 4096;
/// Number of records at the quick size, the full size, and the maximum.
pub(super) const QUICK: u64 = (64 << 20) / RECORD;
pub(super) const FULL: u64 = (4 << 30) / RECORD;
pub(super) const MOST: u64 = (64 << 30) / RECORD;

/// Probes the device with a file of `records` records, but at least 16 MiB.
pub(super) fn probed(records: u64) -> Result<ProbeConclusions> {
    let space_bytes = records.saturating_mul(RECORD).max(LEAST_SPACE);
    let scratch = ScratchDirectory::new()?;
    let place = probe::place_of(scratch.path()).context("asking the file system")?;
    let plan = ProbePlan {
        budget_ns: if records > QUICK {
            55_000_000_000
        } else {
            6_000_000_000
        },
        space_bytes,
        rounds: ProbePlan::ROUNDS,
        seed: 1,
    };
    let watch = ProcessClock::new();
    let measured = probe::measure(&*scratch.directory, &place, &plan, &watch, &mut |_| {
        ProbeControl::Continue
    })?;
    Ok(ProbeConclusions::of(&measured))
}
