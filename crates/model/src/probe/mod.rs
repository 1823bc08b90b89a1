//! What follows from the samples of a probe: fits, advice, a profile, and warnings.
//!
//! *Knows*: which samples each fit needs, when a fit is worth nothing, and what shows that a cache
//! has answered, that a device was slowed down, or that others have disturbed it.
//!
//! *Does not know*: how anything was measured. The samples are `base::measured`.
//!
//! *Read in this order*: this file (conclusions and advice), `costs.rs` (fits), `warnings.rs`,
//! [`mod@format`] (samples as bytes).
//!
//! Source: Bender et al. 2021, §3.1 (PDAM) and §3.2 (affine).
//!
//! Invariants:
//!
//! - **D1** Conclusions are a function of the samples alone: stored ones give the same again.
//! - **D2** What could not be concluded is an error or `None`, never a number.

mod costs;
pub mod format;
#[cfg(test)]
mod tests;
mod warnings;

pub use costs::{Costs, Fitted, Gain, Parallelism};
pub use warnings::Warning;

use crate::fit::BadSamples;
use crate::fit::affine::AffineFit;
use crate::nodes;
use crate::profile::best_node;
use alluvium_base::cost::AccessKind;
use alluvium_base::measured::{Issue, Measured, Order, Point};
use alluvium_base::{DeviceProfile, KIB, MIB};

/// The shares of the bandwidth for which natural sizes are told.
pub const SHARES: [f64; 2] = [0.5, 0.9];

/// The sizes of pages that a store may have, in bytes.
const PAGES: (u64, u64) = (4 * KIB, 64 * KIB);

/// The least and the most bytes of read-ahead that are advised.
const READ_AHEAD: (u64, u64) = (64 * KIB, 16 * MIB);

/// The bytes of a record for which sizes of pages and nodes are told: YCSB's, with its key.
pub const RECORD: u64 = 124;

/// The share of the best throughput that the advised depth reaches.
const ENOUGH: f64 = 0.9;

/// What follows from samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusions {
    /// What reads cost.
    pub reads: Costs,
    /// What writes cost.
    pub writes: Costs,
    /// What syncs cost; `None` if none was measured.
    pub sync: Option<Sync>,
    /// What an I/O takes of a processor.
    pub processor: Processor,
    /// What the costs advise; `None` without an affine model of reads.
    pub advice: Option<Advice>,
    /// The device as a store is told of it; `None` without an affine model of reads.
    pub profile: Option<DeviceProfile>,
    /// Why not to rely on all of it.
    pub warnings: Vec<Warning>,
}

/// How long syncs take, each behind a write of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// How many were measured.
    pub count: usize,
    /// Half of them took at most as long, in nanoseconds.
    pub median_ns: u64,
    /// Nine of ten took at most as long, in nanoseconds.
    pub most_ns: u64,
}

/// What a read of 4 KiB takes of processors, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// By a call of its own.
    pub alone_ns: Option<u64>,
    /// In a batch.
    pub batched_ns: Option<u64>,
    /// How many a batch has.
    pub batch: u32,
}

/// What the costs of reads advise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The size of pages, in bytes: what is read for a record, waste of transfer and of space
    /// together, costs least.
    pub page_bytes: u64,
    /// How much to read ahead in scans, in bytes: requests as long get nine tenths of the
    /// bandwidth.
    pub read_ahead_bytes: u64,
    /// How many requests to keep under way.
    pub depth: u32,
    /// The size of a B-tree's nodes at which a lookup costs least, in bytes (Corollary 7).
    pub b_tree_node_bytes: Option<u64>,
    /// The size of a Bε-tree's nodes at which an insert costs least, in bytes.
    pub buffered_node_bytes: Option<u64>,
}

impl Conclusions {
    /// Draws conclusions from samples.
    #[must_use]
    pub fn of(measured: &Measured) -> Conclusions {
        let reads = Costs::of(measured, AccessKind::Read);
        let writes = Costs::of(measured, AccessKind::Write);
        let sync = sync(measured);
        let processor = processor(measured);
        let fit = reads.affine.as_ref().ok().map(|fitted| fitted.fit);
        let advice = fit.map(|fit| advice(measured, &fit));
        let profile = fit.map(|fit| profile(&fit, &reads, processor));
        let warnings = warnings::of(measured, &reads, &writes);
        Conclusions {
            reads,
            writes,
            sync,
            processor,
            advice,
            profile,
            warnings,
        }
    }

    /// Returns the profile, unless something else than the device was measured, or no fit explains
    /// it.
    ///
    /// # Errors
    /// The first warning that forbids it, or why reads have no affine model.
    pub fn reliable_profile(&self) -> Result<DeviceProfile, String> {
        if let Some(warning) = self.warnings.iter().find(|warning| warning.is_fatal()) {
            return Err(warning.to_string());
        }
        self.reads
            .affine
            .as_ref()
            .map_err(BadSamples::to_string)
            .and_then(|_| self.profile.ok_or_else(|| "reads were not measured".to_owned()))
    }
}

fn sync(measured: &Measured) -> Option<Sync> {
    let mut sorted = measured.syncs_ns.clone();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    Some(Sync {
        count: sorted.len(),
        median_ns: sorted[last / 2],
        most_ns: sorted[last - last / 10],
    })
}

/// Returns the processor time of a request: the middle of the rounds.
fn processor(measured: &Measured) -> Processor {
    let middle = |point: Point| {
        let windows = measured.at(point).filter(|window| window.requests > 0);
        let mut each: Vec<u64> = windows.map(|window| window.cpu_ns / window.requests).collect();
        each.sort_unstable();
        each.get(each.len() / 2).copied()
    };
    let batches = measured
        .windows
        .iter()
        .map(|window| window.point)
        .filter(|point| point.issue == Issue::Batch && point.kind == AccessKind::Read && point.depth > 1);
    let batch = batches.max_by_key(|point| point.depth);
    Processor {
        alone_ns: middle(Point::reads(costs::SMALL).in_batches(1)),
        batched_ns: batch.and_then(middle),
        batch: batch.map_or(0, |point| point.depth),
    }
}

fn profile(fit: &AffineFit, reads: &Costs, processor: Processor) -> DeviceProfile {
    DeviceProfile {
        // What is longer than five centuries was not measured.
        setup_ns: (fit.setup_s * 1e9).round() as u64,
        byte_ps: (fit.per_byte_s * 1e12).round().max(1.0) as u64,
        parallelism: reads.gain.map_or(1, |gain| gain.slots()),
        io_cpu_ns: processor.alone_ns.unwrap_or(DeviceProfile::SSD.io_cpu_ns),
    }
}

fn advice(measured: &Measured, fit: &AffineFit) -> Advice {
    let half = fit.natural_bytes(0.5);
    let page = best_node(RECORD, half.min(DeviceProfile::MAX_HALF_BANDWIDTH as f64) as u64);
    let read_ahead = fit.natural_bytes(ENOUGH).clamp(1.0, READ_AHEAD.1 as f64) as u64;
    let alpha = fit.alpha(RECORD);
    let bytes = |elements: f64| (elements * RECORD as f64).round() as u64;
    Advice {
        page_bytes: nearest_power(page).clamp(PAGES.0, PAGES.1),
        read_ahead_bytes: read_ahead.next_power_of_two().clamp(READ_AHEAD.0, READ_AHEAD.1),
        depth: depth(measured),
        b_tree_node_bytes: nodes::best_b_tree_node(alpha).ok().map(bytes),
        buffered_node_bytes: nodes::best_buffered_node(alpha).ok().map(bytes),
    }
}

/// Returns the power of two whose ratio to a number is nearest to one.
fn nearest_power(number: u64) -> u64 {
    let above = number.max(1).next_power_of_two();
    let below = (above / 2).max(1);
    // Compared by their squares: the geometric mean is between the two.
    match u128::from(number).pow(2) < u128::from(above) * u128::from(below) {
        true => below,
        false => above,
    }
}

/// Returns the least depth at which small random reads have nearly their best throughput.
fn depth(measured: &Measured) -> u32 {
    let rates = costs::rates(measured, |point| {
        point.kind == AccessKind::Read
            && point.order == Order::Random
            && point.issue == Issue::Steady
            && point.bytes == costs::STEP
    });
    let best = rates.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
    let enough = rates.iter().filter(|&&(_, rate)| rate >= ENOUGH * best);
    enough.map(|&(depth, _)| depth).min().unwrap_or(1)
}
