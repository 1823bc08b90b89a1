//! `aging grep-test`: the recursive grep test of a directory.

use super::told;
use crate::context::CommandContext;
use crate::jobs::stop;
use crate::terminal::exit::CommandExit;
use crate::terminal::screen::ScreenOutput;
use crate::values::sizes::{count, human};
use alluvium_aging::measure::cold::{CacheState, advise, drop_caches};
use alluvium_aging::measure::grep::{GrepReader, NEEDLE, grep};
use alluvium_aging::measure::totals::TreeTotals;
use alluvium_aging::volumes::own_images::remount_own;
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  alluvium aging grep-test ~/src
  alluvium aging grep-test ~/src --cold advise     # drops the pages of these files only
  alluvium aging grep-test ~/src --cold none       # warm

The time is divided by the size of the tree on ext4, with blocks of 4 KiB, so that file systems with other blocks or compression compare. \
Dropping the caches needs root, and slows down all programs for a while.";

/// Measure how long a recursive grep of a directory takes with cold caches, per GiB.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct GrepTestCommand {
    /// The directory.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// How to empty the caches.
    #[arg(long, value_name = "HOW", default_value = "best")]
    pub cold: ColdChoice,
    /// The text to search.
    #[arg(long, value_name = "TEXT", default_value = NEEDLE, hide_default_value = true)]
    pub text: String,
    /// Read the files in this process, instead of with the program grep.
    #[arg(long)]
    pub builtin: bool,
}

/// How caches are emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColdChoice {
    /// Remount an image of `alluvium aging`; elsewhere drop all caches as root, or else advise.
    Best,
    /// Remount, in an image of `alluvium aging` only.
    Remount,
    /// Drop the caches of the whole machine.
    Drop,
    /// Advise the kernel to drop the pages of the files.
    Advise,
    /// Leave the caches warm.
    None,
}

/// Empties caches as chosen, and returns what was done.
pub(super) fn empty_caches(choice: ColdChoice, directory: &Path) -> Result<CacheState> {
    let advised = || {
        advise(directory, &stop::asked)
            .map(|()| CacheState::Advised)
            .map_err(told)
    };
    match choice {
        ColdChoice::None => Ok(CacheState::Warm),
        ColdChoice::Advise => advised(),
        ColdChoice::Drop => drop_caches().map(|()| CacheState::Dropped).map_err(told),
        ColdChoice::Remount => match remount_own(directory).map_err(told)? {
            true => Ok(CacheState::Remounted),
            false => Err(super::super::bench::usage(format!(
                "{} is not in an image of `alluvium aging`, which would be remounted: choose --cold drop or advise",
                directory.display()
            ))),
        },
        ColdChoice::Best => match remount_own(directory).map_err(told)? {
            true => Ok(CacheState::Remounted),
            false => drop_caches().map(|()| CacheState::Dropped).or_else(|_| advised()),
        },
    }
}

/// Returns who reads the files.
pub(super) fn reader(builtin: bool) -> GrepReader {
    match builtin {
        true => GrepReader::Builtin,
        false => GrepReader::preferred(),
    }
}

impl GrepTestCommand {
    pub(super) fn run(&self, context: &CommandContext) -> Result<CommandExit> {
        let reader = reader(self.builtin);
        let caches = empty_caches(self.cold, &self.directory)?;
        let outcome = grep(&self.directory, &self.text, reader, &stop::asked).map_err(told)?;
        let totals = TreeTotals::of(&self.directory, &stop::asked).map_err(told)?;
        let gib = totals.ext4_bytes as f64 / f64::from(1 << 30);
        let per_gib = outcome.seconds / gib;
        let read_by = match reader {
            GrepReader::Program => "grep",
            GrepReader::Builtin => "this process",
        };
        let mut out = ScreenOutput::new();
        if context.is_json() {
            out.json(&serde_json::json!({
                "seconds": outcome.seconds,
                "seconds_per_gib": per_gib,
                "ext4_bytes": totals.ext4_bytes,
                "bytes": totals.bytes,
                "files": totals.files,
                "directories": totals.directories,
                "matches": outcome.matches,
                "caches": caches.describe(),
                "read_by": read_by,
            }))?;
        } else {
            out.line(&format!(
                "{:.3} s, {per_gib:.2} s/GiB, read by {read_by}",
                outcome.seconds
            ))?;
            out.line(&format!(
                "{} files, {} on ext4, {} with the text",
                count(totals.files),
                human(totals.ext4_bytes),
                count(outcome.matches)
            ))?;
            out.line(caches.describe())?;
        }
        out.flush()?;
        Ok(CommandExit::Done)
    }
}
