//! `completions`: prints shell completion scripts.

use crate::terminal::exit::CommandExit;
use crate::terminal::screen::ScreenOutput;
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
pub struct CompletionsCommand {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

impl CompletionsCommand {
    pub(crate) fn run(&self, mut command: Command) -> Result<CommandExit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "alluvium", &mut script);
        let mut out = ScreenOutput::new();
        out.write_all(&script)?;
        out.flush()?;
        Ok(CommandExit::Done)
    }
}
