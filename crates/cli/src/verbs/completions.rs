//! `completions`: prints shell completion scripts.

use crate::terminal::exit::Exit;
use crate::terminal::screen::Output;
use anyhow::Result;
use clap::{Args, Command};
use clap_complete::Shell;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  alluvium completions bash > ~/.local/share/bash-completion/completions/alluvium
  alluvium completions zsh > ~/.zfunc/_alluvium
  alluvium completions fish > ~/.config/fish/completions/alluvium.fish";

/// Print a completion script for a shell.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, mut command: Command) -> Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "alluvium", &mut script);
        let mut out = Output::new();
        out.write_all(&script)?;
        out.flush()?;
        Ok(Exit::Done)
    }
}
