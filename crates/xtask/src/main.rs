//! `cargo run -p xtask -- tidy`: checks the rules of the project.

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::api::Api;
use xtask::tidy::{self, Workspace};

/// Workshop commands of Alluvium.
#[derive(Parser)]
#[command(name = "xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the project rules that can be checked in text. Prints every finding, and fails if
    /// there is one.
    Tidy {
        /// First lower the numbers in crates/xtask/ratchet.toml to the current state of the
        /// workspace.
        #[arg(long)]
        update_ratchet: bool,
    },
    /// Print the public API of the crate `alluvium`.
    Api {
        /// Write the listing to crates/db/api.txt instead.
        #[arg(long)]
        write: bool,
    },
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().command {
        Command::Api { write } => {
            let root = std::env::current_dir()?;
            let api = Api::read(&root)?;
            for foreign in &api.foreign {
                eprintln!("{foreign}, which crates/db/src/lib.rs does not re-export");
            }
            match write {
                true => api.write(&root)?,
                false => print!("{}", api.listing()),
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Tidy { update_ratchet } => {
            let mut workspace = Workspace::load(&std::env::current_dir()?)?;
            if update_ratchet {
                tidy::ratchet::lower(&mut workspace)?;
                tidy::language::lower(&mut workspace)?;
            }
            let findings = tidy::check(&workspace);
            for finding in &findings {
                eprintln!("{finding}");
            }
            if !findings.is_empty() {
                eprintln!("tidy: {} findings in {}", findings.len(), workspace.summary());
                return Ok(ExitCode::FAILURE);
            }
            println!("tidy: nothing to mend in {}", workspace.summary());
            Ok(ExitCode::SUCCESS)
        }
    }
}
