//! The command line of `cargo run -p xtask`: `tidy` checks the rules of the project, `api` lists
//! the public API.

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::api::PublicApi;
use xtask::tidy::{self, Workspace};

/// Workshop commands of Alluvium.
#[derive(Parser)]
#[command(name = "xtask")]
struct TaskArguments {
    #[command(subcommand)]
    command: TaskCommand,
}

#[derive(Subcommand)]
enum TaskCommand {
    /// Check the project rules that can be checked in text. Prints every finding, and fails if
    /// there are any.
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
    match TaskArguments::parse().command {
        TaskCommand::Api { write } => {
            let root = std::env::current_dir()?;
            let api = PublicApi::read(&root)?;
            for foreign in &api.foreign {
                eprintln!("{foreign}, which crates/db/src/lib.rs does not re-export");
            }
            match write {
                true => api.write(&root)?,
                false => print!("{}", api.listing()),
            }
            Ok(ExitCode::SUCCESS)
        }
        TaskCommand::Tidy { update_ratchet } => {
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
