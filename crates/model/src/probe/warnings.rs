//! Warnings that a measurement may not describe the device.

use super::costs::{RequestCosts, SMALL, STEP, median};
use alluvium_base::MIB;
use alluvium_base::cost::AccessKind;
use alluvium_base::measurements::{
    DeviceMeasurements, Medium, OffsetOrder, ProbePoint, ProbeSample, TransferSlice,
};
use std::fmt;

/// Minimum plausible time in nanoseconds of a 4 KiB read from flash, including the system call.
const IMPLAUSIBLE_NS: f64 = 5_000.0;

/// If reads in a small part of the file take less than this fraction of the time of reads in the
/// whole file, a cache is assumed to serve them.
const CACHED: f64 = 0.6;

/// If a write takes less than this fraction of the time of a sync, a cache is assumed to absorb
/// writes.
const UNSYNCED: f64 = 0.25;

/// If the throughput falls below this fraction of its initial value, the device is assumed to be
/// throttled.
const FALLEN: f64 = 0.75;

/// Minimum R² of a good fit.
const EXPLAINED: f64 = 0.9;

/// A measurement is considered noisy if the relative spread of repeated measurements exceeds this
/// value at half of the points.
const SPREAD: f64 = 0.25;

/// Minimum fraction of the time during which requests must make progress. Below it, the device is
/// assumed to have paused.
const BUSY: f64 = 0.8;

/// Minimum file length in bytes. A shorter file may fit into a cache of the device.
const SMALL_FILE: u64 = 256 * MIB;

/// A reason why a measurement may not describe the device, entirely or in part.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbeWarning {
    /// The file system is in memory and has no device.
    InMemory {
        /// Type of the file system.
        file_system: String,
    },
    /// The page cache served the requests instead of the device.
    PageCache {
        /// Type of the file system.
        file_system: String,
    },
    /// A remote machine served the requests.
    OverNetwork {
        /// Type of the file system.
        file_system: String,
    },
    /// Reads are faster than a device could be.
    Implausible {
        /// Time of a 4 KiB read in nanoseconds.
        read_ns: f64,
    },
    /// Reads of a small part of the file are much faster than reads of the whole file, so a cache
    /// served them.
    CachedReads {
        /// Time in nanoseconds of a 4 KiB read in a part of 2 MiB.
        near_ns: f64,
        /// Time in nanoseconds of a 4 KiB read in the whole file.
        far_ns: f64,
    },
    /// Writes complete long before they are durable, so a cache accepts them.
    CachedWrites {
        /// Time of a 4 KiB write in nanoseconds.
        write_ns: f64,
        /// Time in nanoseconds of a sync that follows such a write.
        sync_ns: f64,
    },
    ShortFile {
        /// Length of the file in bytes.
        bytes: u64,
    },
    /// The throughput decreased during the measurement.
    Throttled {
        /// The operation whose throughput decreased, in the words of the message.
        what: &'static str,
        /// Ratio of the final throughput to the initial throughput.
        share: f64,
    },
    /// Repeated measurements differ: at half of the points, by a relative spread of at least
    /// `spread`.
    Noisy {
        /// Median of the relative spread over all points.
        spread: f64,
    },
    /// At times, no request made progress.
    Paused {
        /// Fraction of the time without progress, as the median over all samples.
        share: f64,
    },
    /// A fitted model does not explain the measurements.
    PoorFit {
        kind: AccessKind,
        model: &'static str,
        r_squared: f64,
    },
    /// A model could not be fitted to the measurements.
    NoFit {
        kind: AccessKind,
        model: &'static str,
        why: String,
    },
}

impl ProbeWarning {
    /// Returns whether the warning means that the profile does not describe the device.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        match self {
            ProbeWarning::InMemory { .. }
            | ProbeWarning::PageCache { .. }
            | ProbeWarning::Implausible { .. } => true,
            ProbeWarning::PoorFit { kind, model, .. } | ProbeWarning::NoFit { kind, model, .. } => {
                *kind == AccessKind::Read && *model == AFFINE
            }
            _ => false,
        }
    }
}

const AFFINE: &str = "affine model";
const PDAM: &str = "PDAM";

fn kind_name(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "reads",
        AccessKind::Write => "writes",
    }
}

impl fmt::Display for ProbeWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: &f64| ns / 1e3;
        let percent = |share: &f64| share * 100.0;
        match self {
            ProbeWarning::InMemory { file_system } => write!(
                f,
                "{file_system} keeps files in memory: the figures show the speed of memory, not of a \
                 device; choose a directory on a device"
            ),
            ProbeWarning::PageCache { file_system } => write!(
                f,
                "{file_system} does not support direct I/O: the figures show the speed of the page cache, \
                 not of the device"
            ),
            ProbeWarning::OverNetwork { file_system } => write!(
                f,
                "{file_system} is a network file system: all figures include the network and the file server"
            ),
            ProbeWarning::Implausible { read_ns } => write!(
                f,
                "a random read of 4 KiB takes {:.1} µs, less than on any device: a cache served the reads",
                us(read_ns)
            ),
            ProbeWarning::CachedReads { near_ns, far_ns } => write!(
                f,
                "a read of 4 KiB takes {:.0} µs in 2 MiB that are read repeatedly, and {:.0} µs in the \
                 whole file: a cache below the file system serves some reads; measure with more --space",
                us(near_ns),
                us(far_ns)
            ),
            ProbeWarning::CachedWrites { write_ns, sync_ns } => write!(
                f,
                "a write of 4 KiB takes {:.0} µs, and the sync after it {:.0} µs: the device caches writes, \
                 so a durable write costs the sync as well",
                us(write_ns),
                us(sync_ns)
            ),
            ProbeWarning::ShortFile { bytes } => write!(
                f,
                "the file has {} MiB, which the cache of a device may hold; measure with more --space and \
                 --seconds",
                bytes / MIB
            ),
            ProbeWarning::Throttled { what, share } => write!(
                f,
                "{what} fell to {:.0} % of its initial value: the device or the machine's host slows down \
                 after bursts; measure with more --seconds",
                percent(share)
            ),
            ProbeWarning::Noisy { spread } => write!(
                f,
                "half of all measurements differ by {:.0} % or more when they are repeated: other programs \
                 use the device or the processors; measure again when they are idle",
                percent(spread)
            ),
            ProbeWarning::Paused { share } => write!(
                f,
                "in {:.0} % of the time no request completed: other programs used the processors, or the \
                 host throttles requests; times and throughputs exclude these pauses",
                percent(share)
            ),
            ProbeWarning::PoorFit { .. } | ProbeWarning::NoFit { .. } => self.fmt_fit(f),
        }
    }
}

impl ProbeWarning {
    /// Formats a warning that concerns a fit.
    fn fmt_fit(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeWarning::PoorFit {
                kind,
                model,
                r_squared,
            } => write!(
                f,
                "the {model} explains {:.0} % of the variance of {}: do not rely on its parameters",
                r_squared.max(0.0) * 100.0,
                kind_name(*kind)
            ),
            ProbeWarning::NoFit { kind, model, why } => {
                write!(f, "cannot fit the {model} to {}: {why}", kind_name(*kind))
            }
            _ => Ok(()),
        }
    }
}

/// Returns all warnings about the measurements, the most severe first.
pub(super) fn of(
    measured: &DeviceMeasurements,
    reads: &RequestCosts,
    writes: &RequestCosts,
) -> Vec<ProbeWarning> {
    let mut warnings = Vec::new();
    let file_system = measured.file_system.clone();
    warnings.extend(match measured.medium {
        Medium::Device => None,
        Medium::Memory => Some(ProbeWarning::InMemory { file_system }),
        Medium::PageCache => Some(ProbeWarning::PageCache { file_system }),
        Medium::Network => Some(ProbeWarning::OverNetwork { file_system }),
    });
    caches(measured, &mut warnings);
    falls(measured, &mut warnings);
    match spread(measured).filter(|spread| *spread > SPREAD) {
        Some(spread) => warnings.push(ProbeWarning::Noisy { spread }),
        // In noisy measurements, a slower last round does not prove throttling.
        None => falls_of_rounds(measured, &mut warnings),
    }
    if let Some(share) = busy(measured).filter(|share| *share < BUSY) {
        warnings.push(ProbeWarning::Paused { share: 1.0 - share });
    }
    for costs in [reads, writes] {
        fits(costs, &mut warnings);
    }
    warnings
}

/// Returns the time of one request in nanoseconds, as the median over the rounds.
fn typical_ns(measured: &DeviceMeasurements, point: ProbePoint) -> Option<f64> {
    let times = measured.samples_of(point).map(|window| window.typical_ns as f64);
    let times: Vec<f64> = times.collect();
    (!times.is_empty()).then(|| median(&times))
}

/// Estimates the fraction of the time during which requests made progress, from the typical times
/// of single requests, as the median over all samples.
fn busy(measured: &DeviceMeasurements) -> Option<f64> {
    let windows = measured.samples.iter().filter(|window| window.typical_ns > 0);
    let shares: Vec<f64> = windows
        .map(|window| window.bytes_per_s() / window.undisturbed_bytes_per_s())
        .collect();
    (!shares.is_empty()).then(|| median(&shares))
}

fn caches(measured: &DeviceMeasurements, warnings: &mut Vec<ProbeWarning>) {
    let far_ns = typical_ns(measured, ProbePoint::reads(SMALL));
    let near_ns = typical_ns(measured, ProbePoint::reads(SMALL).in_order(OffsetOrder::Near));
    if let Some(read_ns) = far_ns.filter(|ns| *ns < IMPLAUSIBLE_NS) {
        // A file system in memory already has a warning.
        if measured.medium != Medium::Memory {
            warnings.push(ProbeWarning::Implausible { read_ns });
        }
    } else if let (Some(near_ns), Some(far_ns)) = (near_ns, far_ns)
        && near_ns < CACHED * far_ns
    {
        warnings.push(ProbeWarning::CachedReads { near_ns, far_ns });
    }
    let mut syncs = measured.syncs_ns.clone();
    syncs.sort_unstable();
    let sync_ns = syncs.get(syncs.len() / 2).map(|ns| *ns as f64);
    if let (Some(write_ns), Some(sync_ns)) = (typical_ns(measured, ProbePoint::writes(SMALL)), sync_ns)
        && write_ns < UNSYNCED * sync_ns
    {
        warnings.push(ProbeWarning::CachedWrites { write_ns, sync_ns });
    }
    if measured.medium == Medium::Device && measured.span_bytes < SMALL_FILE {
        let bytes = measured.span_bytes;
        warnings.push(ProbeWarning::ShortFile { bytes });
    }
}

fn falls(measured: &DeviceMeasurements, warnings: &mut Vec<ProbeWarning>) {
    fallen(
        warnings,
        "the rate of sequential writes",
        last_to_first(&measured.filled),
    );
    fallen(
        warnings,
        "the rate of sequential reads",
        last_to_first(&measured.sustained),
    );
}

fn falls_of_rounds(measured: &DeviceMeasurements, warnings: &mut Vec<ProbeWarning>) {
    for (what, kind) in [
        ("the rate of random reads", AccessKind::Read),
        ("the rate of random writes", AccessKind::Write),
    ] {
        fallen(warnings, what, rounds(measured, kind));
    }
}

fn fallen(warnings: &mut Vec<ProbeWarning>, what: &'static str, share: Option<f64>) {
    if let Some(share) = share.filter(|share| *share < FALLEN) {
        warnings.push(ProbeWarning::Throttled { what, share });
    }
}

/// Returns the ratio of the throughput in the last quarter of a transfer to that in the first
/// quarter.
fn last_to_first(slices: &[TransferSlice]) -> Option<f64> {
    let quarter = slices.len() / 4;
    if quarter == 0 {
        return None;
    }
    let rate = |slices: &[TransferSlice]| {
        let whole = slices.iter().fold((0, 0), |(bytes, ns), slice| {
            (bytes + slice.bytes, ns + slice.elapsed_ns)
        });
        whole.0 as f64 / (whole.1 as f64).max(1.0)
    };
    let (first, last) = (rate(&slices[..quarter]), rate(&slices[slices.len() - quarter..]));
    (first > 0.0).then_some(last / first)
}

/// Returns the ratio of the throughput in the last round to that in the first round, as the
/// geometric mean over all points with random offsets.
fn rounds(measured: &DeviceMeasurements, kind: AccessKind) -> Option<f64> {
    let last = measured.samples.iter().map(|window| window.round).max()?;
    let mut logarithms = Vec::new();
    let of_first = |window: &&ProbeSample| {
        window.round == 0 && window.point.kind == kind && window.point.order == OffsetOrder::Random
    };
    for first in measured.samples.iter().filter(of_first) {
        let later = measured
            .samples_of(first.point)
            .find(|window| window.round == last && last > 0);
        let ratio = later.map(|window| window.bytes_per_s() / first.bytes_per_s());
        logarithms.extend(
            ratio
                .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
                .map(f64::ln),
        );
    }
    let count = logarithms.len();
    (count > 0).then(|| (logarithms.iter().sum::<f64>() / count as f64).exp())
}

/// Returns the median over all points of the relative spread of repeated measurements.
fn spread(measured: &DeviceMeasurements) -> Option<f64> {
    let mut spreads = Vec::new();
    for first in measured.samples.iter().filter(|window| window.round == 0) {
        let rates: Vec<f64> = measured
            .samples_of(first.point)
            .map(ProbeSample::undisturbed_bytes_per_s)
            .collect();
        let (least, most) = (
            rates.iter().copied().fold(f64::INFINITY, f64::min),
            rates.iter().copied().fold(0.0, f64::max),
        );
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        if rates.len() > 1 && mean > 0.0 {
            spreads.push((most - least) / mean);
        }
    }
    spreads.sort_by(f64::total_cmp);
    spreads.get(spreads.len() / 2).copied()
}

fn fits(costs: &RequestCosts, warnings: &mut Vec<ProbeWarning>) {
    let kind = costs.kind;
    match &costs.affine {
        Ok(fitted) if fitted.fit.goodness.r_squared < EXPLAINED => warnings.push(ProbeWarning::PoorFit {
            kind,
            model: AFFINE,
            r_squared: fitted.fit.goodness.r_squared,
        }),
        Ok(_) => {}
        Err(why) => warnings.push(ProbeWarning::NoFit {
            kind,
            model: AFFINE,
            why: why.to_string(),
        }),
    }
    // If the device serves one request at a time, its throughput does not depend on the number of
    // concurrent requests, so R² means nothing.
    if costs.parallelism == super::DeviceParallelism::One {
        return;
    }
    match &costs.parallel {
        Ok(fit) if fit.goodness.r_squared < EXPLAINED => warnings.push(ProbeWarning::PoorFit {
            kind,
            model: PDAM,
            r_squared: fit.goodness.r_squared,
        }),
        Ok(_) => {}
        Err(why) => warnings.push(ProbeWarning::NoFit {
            kind,
            model: PDAM,
            why: format!("with requests of {} KiB, {why}", STEP >> 10),
        }),
    }
}
