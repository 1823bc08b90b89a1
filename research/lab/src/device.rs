//! What a probe says of the device under the directory for temporary files.

use super::scratch::Scratch;
use alluvium_device::probe::{self, Flow, LEAST_SPACE, Plan, ProcessWatch};
use alluvium_model::probe::Conclusions;
use anyhow::{Context, Result};

/// Bytes of a record of the size of an experiment: the probe's file has as many.
const RECORD: u64 = 4096;
/// The records of the quick and the full size, and the most.
pub(super) const QUICK: u64 = (64 << 20) / RECORD;
pub(super) const FULL: u64 = (4 << 30) / RECORD;
pub(super) const MOST: u64 = (64 << 30) / RECORD;

/// Probes the device with a file of `records` records, and 16 MiB at least.
pub(super) fn probed(records: u64) -> Result<Conclusions> {
    let space_bytes = records.saturating_mul(RECORD).max(LEAST_SPACE);
    let scratch = Scratch::new()?;
    let place = probe::place_of(scratch.path()).context("asking the file system")?;
    let plan = Plan {
        budget_ns: if records > QUICK {
            55_000_000_000
        } else {
            6_000_000_000
        },
        space_bytes,
        rounds: Plan::ROUNDS,
        seed: 1,
    };
    let watch = ProcessWatch::new();
    let measured = probe::measure(&*scratch.directory, &place, &plan, &watch, &mut |_| Flow::GoOn)?;
    Ok(Conclusions::of(&measured))
}
