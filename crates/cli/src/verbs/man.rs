//! `man`: writes the manual pages.

use crate::terminal::exit::CommandExit;
use crate::terminal::screen::ScreenOutput;
use anyhow::{Context as _, Result};
use clap::{Args, Command};
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  alluvium man | man -l -                          # shows the main page
  alluvium man --to ~/.local/share/man/man1        # writes a page for every command";

/// Write the manual pages: the main one to standard output, or all of them to a directory.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ManCommand {
    /// The directory for all pages, created if it does not exist [default: print the main page].
    #[arg(long, value_name = "DIRECTORY")]
    pub to: Option<PathBuf>,
}

impl ManCommand {
    pub(crate) fn run(&self, command: Command) -> Result<CommandExit> {
        match &self.to {
            Some(directory) => {
                let what = || format!("writing manual pages to {}", directory.display());
                std::fs::create_dir_all(directory).with_context(what)?;
                clap_mangen::generate_to(command, directory).with_context(what)?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(command).render(&mut page)?;
                let mut out = ScreenOutput::new();
                out.write_all(&page)?;
                out.flush()?;
            }
        }
        Ok(CommandExit::Done)
    }
}
