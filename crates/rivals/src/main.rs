//! The program `alluvium-rivals`: `alluvium bench` starts it for every engine that is not its own.

use alluvium_rivals::ENGINES;
use std::process::ExitCode;

fn main() -> ExitCode {
    let verb = std::env::args().nth(1);
    match verb.as_deref() {
        Some("engines") => {
            for engine in ENGINES {
                println!("{}", engine.name);
            }
            ExitCode::SUCCESS
        }
        Some("child") => alluvium_bench::run::child(ENGINES),
        _ => {
            eprintln!(
                "alluvium-rivals: `alluvium bench ycsb --engines …` starts this; by itself it only says what it was built with: `alluvium-rivals engines`"
            );
            ExitCode::from(2)
        }
    }
}
