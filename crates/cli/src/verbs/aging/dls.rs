//! `aging dls`: the dynamic layout score, of a grep or of a recorded trace.

use super::grep_test::{ColdChoice, empty_caches, reader};
use super::{figure, told};
use crate::context::CommandContext;
use crate::jobs::stop;
use crate::terminal::exit::{CommandExit, failure};
use crate::terminal::screen::{self, ScreenOutput};
use crate::values::sizes::count;
use alluvium_aging::measure::cold::CacheState;
use alluvium_aging::measure::events::{DeviceNumber, reads_of};
use alluvium_aging::measure::grep::{NEEDLE, grep};
use alluvium_aging::measure::recorder::EventRecorder;
use alluvium_aging::measure::score::DynamicLayoutScore;
use alluvium_aging::volumes::own_images::device_of;
use anyhow::{Context as _, Result};
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  alluvium aging dls ~/src                            # records the reads of a grep with cold caches; needs root
  cat /sys/kernel/tracing/trace > trace.txt
  alluvium aging dls --input trace.txt --device 7,0   # a trace of the event block_rq_issue
  blkparse sda.blktrace.0 | alluvium aging dls --input /dev/stdin

The score by request is the share of reads that begin where the previous one ended, and the score by block counts blocks of 4 KiB. On \
other devices than loop devices, reads of other programs are in the trace, too.";

/// Compute the dynamic layout score: the share of reads that continue the previous one.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DlsCommand {
    /// The directory that is searched while reads are recorded.
    #[arg(value_name = "DIR", required_unless_present = "input")]
    pub directory: Option<PathBuf>,
    /// A trace instead: the text of tracefs (events block_rq_issue) or of blkparse.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["directory", "cold"])]
    pub input: Option<PathBuf>,
    /// The device in the trace, as major and minor number.
    #[arg(long, value_name = "MAJOR,MINOR", requires = "input", value_parser = parse_device)]
    pub device: Option<DeviceNumber>,
    /// How to empty the caches.
    #[arg(long, value_name = "HOW", default_value = "best")]
    pub cold: ColdChoice,
}

fn parse_device(text: &str) -> Result<DeviceNumber, String> {
    DeviceNumber::parse(text).ok_or_else(|| format!("{text:?} is not a device: write 7,0 or 8:16"))
}

impl DlsCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let (score, caches) = match (&self.input, &self.directory) {
            (Some(input), _) => (self.score_of_trace(input)?, None),
            (None, Some(directory)) => {
                let (score, caches) = self.record(directory)?;
                (score, Some(caches))
            }
            (None, None) => {
                return Err(super::super::bench::usage(
                    "name a directory, or a trace as --input",
                ));
            }
        };
        let mut out = ScreenOutput::new();
        if context.is_json() {
            out.json(&serde_json::json!({
                "requests": score.requests,
                "blocks": score.blocks,
                "seeks": score.seeks(),
                "score_by_request": score.by_request(),
                "score_by_block": score.by_block(),
                "caches": caches.map(CacheState::describe),
            }))?;
        } else {
            out.line(&format!(
                "dynamic layout score {} by block, {} by request",
                figure(score.by_block(), 4),
                figure(score.by_request(), 4)
            ))?;
            out.line(&format!(
                "{} reads of {} blocks, {} of them elsewhere than the previous one ended",
                count(score.requests),
                count(score.blocks),
                count(score.seeks())
            ))?;
            if let Some(caches) = caches {
                out.line(caches.describe())?;
            }
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }

    fn score_of_trace(&self, input: &Path) -> Result<DynamicLayoutScore> {
        let text = std::fs::read(input).with_context(|| format!("reading {}", input.display()))?;
        let text = String::from_utf8_lossy(&text);
        let reads = reads_of(&text, self.device).map_err(|devices| {
            let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
            super::super::bench::usage(format!(
                "the trace has reads of several devices: choose one as --device {}",
                devices.join(" or ")
            ))
        })?;
        if reads.is_empty() {
            let text = format!(
                "{} has no reads: record the event block_rq_issue, or select the right --device",
                input.display()
            );
            return Err(failure(CommandExit::Failed, text));
        }
        Ok(DynamicLayoutScore::of(&reads))
    }

    fn record(&self, directory: &Path) -> Result<(DynamicLayoutScore, CacheState)> {
        let caches = empty_caches(self.cold, directory)?;
        let device = device_of(directory).map_err(told)?;
        if !device.is_loop {
            screen::note(&format!(
                "note: reads of other programs from device {} count, too",
                device.number
            ));
        }
        let scratch = std::env::temp_dir().join(format!("alluvium-aging-{}", std::process::id()));
        let recorder = EventRecorder::start(device.number, &scratch).map_err(told)?;
        let searched = grep(directory, NEEDLE, reader(false), &stop::asked);
        let recorded = recorder.finish().map_err(told);
        // The directory exists only if tracefs was mounted in it.
        let _ = std::fs::remove_dir(&scratch);
        searched.map_err(told)?;
        let recorded = recorded?;
        if recorded.lost > 0 {
            let text = format!(
                "the kernel dropped {} events because its buffer was full: search a smaller directory",
                recorded.lost
            );
            return Err(failure(CommandExit::Failed, text));
        }
        Ok((DynamicLayoutScore::of(&recorded.requests), caches))
    }
}
