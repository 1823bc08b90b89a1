//! Draws conclusions from the samples of a probe: fitted cost models, advice, a device profile, and
//! warnings.
//!
//! *Scope*: which samples each fit needs, when a fit is unusable, and the signs that a cache
//! answered requests, that the device was throttled, or that other load disturbed the measurement.
//!
//! *Must not depend on*: the method of measurement. The samples are defined in
//! `base::measurements`.
//!
//! Source: Bender et al. 2021, §3.1 (PDAM) and §3.2 (affine).
//!
//! Invariants:
//!
//! - **D1** Conclusions depend only on the samples, so stored samples lead to the same conclusions.
//! - **D2** A conclusion that cannot be drawn is an error or `None`, never a number.

mod costs;
pub mod format;
#[cfg(test)]
mod tests;
mod warnings;

pub use costs::{AffineEstimate, DeviceParallelism, ParallelGain, RequestCosts};
pub use warnings::ProbeWarning;

use crate::fit::BadSamples;
use crate::fit::affine::AffineFit;
use crate::nodes;
use crate::profile::best_node;
use alluvium_base::cost::AccessKind;
use alluvium_base::measurements::{DeviceMeasurements, IssueMode, OffsetOrder, ProbePoint};
use alluvium_base::{DeviceProfile, KIB, MIB};

/// Fractions of the device's bandwidth for which natural transfer sizes are reported.
pub const SHARES: [f64; 2] = [0.5, 0.9];

/// Minimum and maximum page size of a store, in bytes.
const PAGES: (u64, u64) = (4 * KIB, 64 * KIB);

/// Minimum and maximum advised read-ahead, in bytes.
const READ_AHEAD: (u64, u64) = (64 * KIB, 16 * MIB);

/// Record size, in bytes, assumed when advising page and node sizes. This is the size of a YCSB
/// record including its key.
pub const RECORD: u64 = 124;

/// Fraction of the best throughput that the advised number of requests in flight must achieve.
const ENOUGH: f64 = 0.9;

/// The costs, advice and warnings that follow from the samples of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeConclusions {
    pub reads: RequestCosts,
    pub writes: RequestCosts,
    /// Latencies of syncs; `None` if no syncs were measured.
    pub sync: Option<SyncLatencies>,
    /// CPU time of a read.
    pub processor: ReadCpuTime,
    /// Advice that follows from the costs; `None` if the affine model cannot be fitted to reads.
    pub advice: Option<DeviceAdvice>,
    /// Device profile for a store; `None` if the affine model cannot be fitted to reads.
    pub profile: Option<DeviceProfile>,
    /// Reasons why some of the conclusions may be wrong.
    pub warnings: Vec<ProbeWarning>,
}

/// Latencies of syncs that each followed a write of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncLatencies {
    pub count: usize,
    pub median_ns: u64,
    /// 90th percentile of the latencies in nanoseconds, not their maximum.
    pub most_ns: u64,
}

/// CPU time of a 4 KiB read, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCpuTime {
    /// CPU time if each read has its own system call.
    pub alone_ns: Option<u64>,
    /// CPU time of each read if a system call submits a batch of reads.
    pub batched_ns: Option<u64>,
    /// Number of reads in such a batch.
    pub batch: u32,
}

/// Advice on settings that follows from the costs of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAdvice {
    /// Page size in bytes that minimises the sum of two costs per record: the page's transfer time
    /// and the space wasted in the page.
    pub page_bytes: u64,
    /// Read-ahead of scans in bytes. Requests of this length use nine tenths of the bandwidth.
    pub read_ahead_bytes: u64,
    /// Number of requests that should be in flight.
    pub depth: u32,
    /// Size in bytes of B-tree nodes that minimises the cost of lookups (Corollary 7).
    pub b_tree_node_bytes: Option<u64>,
    /// Size in bytes of Bε-tree nodes that minimises the cost of inserts.
    pub buffered_node_bytes: Option<u64>,
}

impl ProbeConclusions {
    #[must_use]
    pub fn of(measured: &DeviceMeasurements) -> ProbeConclusions {
        let reads = RequestCosts::of(measured, AccessKind::Read);
        let writes = RequestCosts::of(measured, AccessKind::Write);
        let sync = sync(measured);
        let processor = processor(measured);
        let fit = reads.affine.as_ref().ok().map(|fitted| fitted.fit);
        let advice = fit.map(|fit| advice(measured, &fit));
        let profile = fit.map(|fit| profile(&fit, &reads, processor));
        let warnings = warnings::of(measured, &reads, &writes);
        ProbeConclusions {
            reads,
            writes,
            sync,
            processor,
            advice,
            profile,
            warnings,
        }
    }

    /// Returns the device profile, unless something other than the device was measured or no fit
    /// explains the measurements.
    ///
    /// # Errors
    /// The first fatal warning, or the reason why the affine model cannot be fitted to reads.
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

fn sync(measured: &DeviceMeasurements) -> Option<SyncLatencies> {
    let mut sorted = measured.syncs_ns.clone();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    Some(SyncLatencies {
        count: sorted.len(),
        median_ns: sorted[last / 2],
        most_ns: sorted[last - last / 10],
    })
}

/// Returns the CPU time of a read, as the median over the rounds.
fn processor(measured: &DeviceMeasurements) -> ReadCpuTime {
    let middle = |point: ProbePoint| {
        let windows = measured.samples_of(point).filter(|window| window.requests > 0);
        let mut each: Vec<u64> = windows.map(|window| window.cpu_ns / window.requests).collect();
        each.sort_unstable();
        each.get(each.len() / 2).copied()
    };
    let batches = measured
        .samples
        .iter()
        .map(|window| window.point)
        .filter(|point| point.issue == IssueMode::Batch && point.kind == AccessKind::Read && point.depth > 1);
    let batch = batches.max_by_key(|point| point.depth);
    ReadCpuTime {
        alone_ns: middle(ProbePoint::reads(costs::SMALL).in_batches(1)),
        batched_ns: batch.and_then(middle),
        batch: batch.map_or(0, |point| point.depth),
    }
}

fn profile(fit: &AffineFit, reads: &RequestCosts, processor: ReadCpuTime) -> DeviceProfile {
    DeviceProfile {
        // This cannot overflow, because no measured time exceeds five centuries.
        setup_ns: (fit.setup_s * 1e9).round() as u64,
        byte_ps: (fit.per_byte_s * 1e12).round().max(1.0) as u64,
        parallelism: reads.gain.map_or(1, |gain| gain.slots()),
        io_cpu_ns: processor.alone_ns.unwrap_or(DeviceProfile::SSD.io_cpu_ns),
    }
}

fn advice(measured: &DeviceMeasurements, fit: &AffineFit) -> DeviceAdvice {
    let half = fit.natural_bytes(0.5);
    let page = best_node(RECORD, half.min(DeviceProfile::MAX_HALF_BANDWIDTH as f64) as u64);
    let read_ahead = fit.natural_bytes(ENOUGH).clamp(1.0, READ_AHEAD.1 as f64) as u64;
    let alpha = fit.alpha(RECORD);
    let bytes = |elements: f64| (elements * RECORD as f64).round() as u64;
    DeviceAdvice {
        page_bytes: nearest_power(page).clamp(PAGES.0, PAGES.1),
        read_ahead_bytes: read_ahead.next_power_of_two().clamp(READ_AHEAD.0, READ_AHEAD.1),
        depth: depth(measured),
        b_tree_node_bytes: nodes::best_b_tree_node(alpha).ok().map(bytes),
        buffered_node_bytes: nodes::best_buffered_node(alpha).ok().map(bytes),
    }
}

/// Returns the power of two nearest to a number on a logarithmic scale.
fn nearest_power(number: u64) -> u64 {
    let above = number.max(1).next_power_of_two();
    let below = (above / 2).max(1);
    // The boundary between two powers is their geometric mean, so compare squares.
    match u128::from(number).pow(2) < u128::from(above) * u128::from(below) {
        true => below,
        false => above,
    }
}

/// Returns the smallest number of requests in flight at which small random reads nearly reach their
/// best throughput.
fn depth(measured: &DeviceMeasurements) -> u32 {
    let rates = costs::rates(measured, |point| {
        point.kind == AccessKind::Read
            && point.order == OffsetOrder::Random
            && point.issue == IssueMode::Steady
            && point.bytes == costs::STEP
    });
    let best = rates.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
    let enough = rates.iter().filter(|&&(_, rate)| rate >= ENOUGH * best);
    enough.map(|&(depth, _)| depth).min().unwrap_or(1)
}
