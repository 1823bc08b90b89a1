//! `probe`: measures what requests to the device of a directory cost.
//!
//! *Scope*: the command line, the accepted locations, the storage of samples, and the display of
//! conclusions.
//!
//! *Must not depend on*: how requests are measured (`alluvium_device::probe`), and the conclusions
//! from them (`alluvium_model::probe`).

mod chart;
mod json;
mod keep;
mod location;
mod svg;
#[cfg(test)]
mod tests;
mod text;

use crate::context::CommandContext;
use crate::jobs::{progress, stop};
use crate::store::private;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::sizes::{self, ByteSize};
use alluvium_base::cost::AccessKind;
use alluvium_base::measurements::{DeviceMeasurements, OffsetOrder, ProbePoint};
use alluvium_device::file::FileDirectory;
use alluvium_device::probe::{
    self, ProbeControl, ProbeFailure, ProbePart, ProbePlan, ProbeProgress, ProcessClock,
};
use alluvium_model::probe::ProbeConclusions;
use anyhow::{Context as _, Result};
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  alluvium probe                        # the device of the store, in 20 seconds and at most 1 GiB
  alluvium probe /mnt/new --svg costs.svg
  alluvium probe --seconds 50 --space 8G --json
  alluvium probe --stored               # shows the saved samples

The probe reads and writes only a file of its own, which has no name, so nothing is left of it. \
In the directory of a store it saves the samples as probe.txt. Other work on the machine disturbs the figures, \
and the probe slows down other work.";

/// Measure the costs of reads, writes and syncs on the device of a directory, how many requests it
/// serves at a time, and what follows for a store.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ProbeCommand {
    /// The directory [default: that of the store].
    pub path: Option<PathBuf>,
    /// The time for the measurement in seconds, 1 to 600.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// The size of the file, as in 512M or 8G [default: a tenth of the free space, 16M to 1G].
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub space: Option<ByteSize>,
    /// Draw the costs into an SVG file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Measure even if the directory is on a network file system.
    #[arg(long)]
    pub network: bool,
    /// Save the samples in the directory even if it has no store yet.
    #[arg(long, conflicts_with = "no_store")]
    pub store: bool,
    /// Do not save the samples in the directory of the store.
    #[arg(long)]
    pub no_store: bool,
    /// Show the saved samples, and measure nothing.
    #[arg(long, conflicts_with_all = ["space", "store", "no_store", "network"])]
    pub stored: bool,
}

/// Returns whether a directory contains saved samples.
pub(super) fn is_kept(store: &Path) -> bool {
    store.join(alluvium_model::probe::format::FILE).exists()
}

/// Reads saved samples from a directory or a file.
pub(super) fn read_kept(path: &Path) -> Result<DeviceMeasurements> {
    let is_file = path.is_file();
    let directory = path.parent().filter(|_| is_file).unwrap_or(path);
    match is_file && !path.ends_with(alluvium_model::probe::format::FILE) {
        true => keep::read_file(path),
        false => keep::read(directory),
    }
}

/// Measures the device of a directory without saving the samples.
pub(super) fn measure_directory(path: &Path, seconds: u64) -> Result<DeviceMeasurements> {
    let command = ProbeCommand {
        path: None,
        seconds,
        space: None,
        svg: None,
        network: false,
        store: false,
        no_store: true,
        stored: false,
    };
    command.measure(path)
}

impl ProbeCommand {
    pub(crate) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let path = self.path.as_deref().unwrap_or(&context.path);
        let measured = match self.stored {
            true => keep::read(path)?,
            false => self.measure(path)?,
        };
        let conclusions = ProbeConclusions::of(&measured);
        let mut out = ScreenOutput::new();
        match context.is_json() {
            true => out.json(&json::of(path, &measured, &conclusions))?,
            false => text::print(&mut out, path, &measured, &conclusions)?,
        }
        out.flush()?;
        for warning in conclusions.warnings.iter().filter(|_| !context.is_json()) {
            screen::note(&format!("note: {warning}"));
        }
        if let Some(file) = &self.svg {
            let svg = svg::draw(&measured, &conclusions)?;
            private::write(file, svg.as_bytes()).with_context(|| format!("--svg {}", file.display()))?;
        }
        Ok(CommandExit::Done)
    }

    fn measure(&self, path: &Path) -> Result<DeviceMeasurements> {
        let ground = location::look(path, self.network, self.space)?;
        let keeps = !self.no_store && (self.store || keep::is_store(path));
        let directory = FileDirectory::open(path).map_err(|error| location::refused(path, error))?;
        let plan = ProbePlan {
            budget_ns: self.seconds * 1_000_000_000,
            space_bytes: ground.space_bytes,
            rounds: ProbePlan::ROUNDS,
            seed: 1,
        };
        stop::listen()?;
        let bar = progress::milliseconds(self.seconds * 1000);
        let mut follow = |progress: ProbeProgress| {
            bar.set_position(progress.elapsed_ns / 1_000_000);
            bar.set_message(doing(progress.part));
            match stop::asked() {
                true => ProbeControl::Stop,
                false => ProbeControl::Continue,
            }
        };
        let watch = ProcessClock::new();
        let measured = probe::measure(&directory, &ground.place, &plan, &watch, &mut follow);
        bar.finish_and_clear();
        let measured = measured.map_err(|error| match error {
            ProbeFailure::Stopped => failure(
                CommandExit::Interrupted,
                "stopped: there is no result, and no file is left",
            ),
            ProbeFailure::NoSpace { free } => location::full(path, free),
            ProbeFailure::Device(error) => location::refused(path, error),
        })?;
        if keeps {
            keep::write(path, &measured)?;
        }
        Ok(measured)
    }
}

/// Returns the text that the progress bar shows during a part of the measurement.
fn doing(part: ProbePart) -> String {
    match part {
        ProbePart::Fill => "writing the file".to_owned(),
        ProbePart::Syncs => "syncs".to_owned(),
        ProbePart::Lasting => "reading as fast as can be".to_owned(),
        ProbePart::Point(point) => named(point),
    }
}

/// Describes a kind of request in words.
fn named(point: ProbePoint) -> String {
    let order = match point.order {
        OffsetOrder::Random => "random ",
        OffsetOrder::Sequential => "",
        OffsetOrder::Near => "near ",
    };
    let depth = match point.depth {
        1 => String::new(),
        depth => format!(", {depth} at a time"),
    };
    format!(
        "{order}{} of {}{depth}",
        plural(point.kind),
        sizes::human(point.bytes)
    )
}

/// Returns the plural form of the name of a kind of request.
fn plural(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "reads",
        AccessKind::Write => "writes",
    }
}
