//! The binary `alluvium`; everything is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    alluvium_cli::main()
}
