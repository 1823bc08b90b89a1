//! The binary `alluvium`. All of its code is in the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    alluvium_cli::main()
}
