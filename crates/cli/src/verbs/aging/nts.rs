//! `aging nts`: natural transfer sizes.

use super::told;
use crate::context::CommandContext;
use crate::jobs::stop;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::sizes::human;
use crate::verbs::probe;
use alluvium_aging::measure::natural::{BandwidthPoint, NaturalSizes, ReadOrder, ReadTarget};
use alluvium_base::cost::AccessKind;
use alluvium_base::measurements::{DeviceMeasurements, IssueMode, OffsetOrder};
use anyhow::Result;
use clap::Args;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  alluvium aging nts /mnt/disk         # a directory: a file is made in it, as by `alluvium probe`
  alluvium aging nts /dev/sdb          # a block device, which is only read
  alluvium aging nts big.img --json

Reads are made one at a time, past the page cache. The seek time and the bandwidth are those of the affine model that fits the times of \
random reads.";

/// Measure bandwidth by the length of reads, random and sequential, and the lengths that reach 50 %
/// and 90 % of the largest one.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct NtsCommand {
    /// A block device or a file, which is read, or a directory, in which a file is made.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// The time for the measurement in seconds, 1 to 600.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
}

impl NtsCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let points = match self.path.is_dir() {
            true => points_of(&probe::measure_directory(&self.path, self.seconds)?),
            false => {
                stop::listen()?;
                let target = ReadTarget::open(&self.path).map_err(told)?;
                for note in &target.notes {
                    screen::note(&format!("note: {note}"));
                }
                let time = Duration::from_secs(self.seconds);
                target.measure(time, 1, &stop::asked).map_err(told)?
            }
        };
        let sizes = NaturalSizes::of(&points).ok_or_else(|| {
            failure(
                CommandExit::Failed,
                "too few reads were measured: give more --seconds",
            )
        })?;
        let mut out = ScreenOutput::new();
        match context.is_json() {
            true => out.json(&json(&points, &sizes)?)?,
            false => print(&mut out, &points, &sizes)?,
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}

/// Returns the bandwidths of single reads: the median of each length over the rounds of a probe.
fn points_of(measured: &DeviceMeasurements) -> Vec<BandwidthPoint> {
    let mut rates: BTreeMap<(bool, u64), Vec<f64>> = BTreeMap::new();
    for sample in &measured.samples {
        let point = sample.point;
        let is_single =
            point.kind == AccessKind::Read && point.issue == IssueMode::Steady && point.depth == 1;
        let is_sequential = point.order == OffsetOrder::Sequential;
        if is_single && (is_sequential || point.order == OffsetOrder::Random) {
            let rate = sample.undisturbed_bytes_per_s();
            rates.entry((is_sequential, point.bytes)).or_default().push(rate);
        }
    }
    let median = |mut rates: Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let point = |((is_sequential, bytes), rates)| BandwidthPoint {
        order: match is_sequential {
            true => ReadOrder::Sequential,
            false => ReadOrder::Random,
        },
        bytes,
        bytes_per_s: median(rates),
    };
    rates.into_iter().map(point).collect()
}

fn json(points: &[BandwidthPoint], sizes: &NaturalSizes) -> Result<serde_json::Value> {
    Ok(serde_json::json!({
        "peak_bytes_per_s": sizes.peak_bytes_per_s,
        "natural_bytes_50": sizes.half_bytes,
        "natural_bytes_90": sizes.nine_tenths_bytes,
        "seek_s": sizes.model.seek_s,
        "bytes_per_s": sizes.model.bytes_per_s,
        "bandwidths": serde_json::to_value(points)?,
    }))
}

fn print(out: &mut ScreenOutput, points: &[BandwidthPoint], sizes: &NaturalSizes) -> Result<()> {
    let mut lengths: Vec<u64> = points.iter().map(|point| point.bytes).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let rate = |order, bytes| {
        let is_it = |point: &&BandwidthPoint| point.order == order && point.bytes == bytes;
        let found = points.iter().find(is_it);
        found.map_or_else(|| "–".to_owned(), |point| mib_per_s(point.bytes_per_s))
    };
    let rows: Vec<Vec<String>> = lengths
        .into_iter()
        .map(|bytes| {
            let rates = [ReadOrder::Random, ReadOrder::Sequential].map(|order| rate(order, bytes));
            [vec![human(bytes)], rates.to_vec()].concat()
        })
        .collect();
    out.table(&["read of", "random MiB/s", "sequential MiB/s"], &rows)?;
    let size = |size: Option<f64>| size.map_or_else(|| "beyond 4 MiB".to_owned(), |size| human(size as u64));
    out.line(&format!(
        "natural sizes: 50 % {}, 90 % {}, of {} MiB/s",
        size(sizes.half_bytes),
        size(sizes.nine_tenths_bytes),
        mib_per_s(sizes.peak_bytes_per_s)
    ))?;
    out.line(&format!(
        "model: seek {:.1} µs, {} MiB/s",
        sizes.model.seek_s * 1e6,
        mib_per_s(sizes.model.bytes_per_s)
    ))?;
    Ok(())
}

fn mib_per_s(bytes_per_s: f64) -> String {
    format!("{:.0}", bytes_per_s / f64::from(1 << 20))
}
