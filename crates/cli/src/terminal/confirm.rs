//! Confirmation of irreversible operations.

use super::exit::{CommandExit, failure};
use anyhow::Result;
use clap::Args;
use std::io::{self, BufRead, IsTerminal, Write};

/// Whether to ask for confirmation.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Consent {
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
}

impl Consent {
    /// Returns an error unless --yes was given or the user confirms on the terminal. `loss`
    /// describes the data that will be lost.
    pub(crate) fn ask(self, loss: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        let (input, mut output) = (io::stdin(), io::stderr());
        if !input.is_terminal() || !output.is_terminal() {
            let text = format!("{loss}: add --yes to confirm; nothing was done");
            return Err(failure(CommandExit::Usage, text));
        }
        write!(output, "{loss}. Continue? [y/N] ")?;
        output.flush()?;
        let mut answer = String::new();
        input.lock().read_line(&mut answer)?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(failure(CommandExit::Failed, "nothing was done")),
        }
    }
}
