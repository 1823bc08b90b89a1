//! The program `alluvium-rivals`: `alluvium bench` starts it for every engine that is not its own.

use alluvium_rivals::{ENGINES, TRANSACTIONAL};
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
        Some("transactional-engines") => {
            for engine in TRANSACTIONAL {
                println!("{}", engine.name);
            }
            ExitCode::SUCCESS
        }
        Some("transactions-child") => alluvium_bench::transactions::child(TRANSACTIONAL),
        _ => {
            eprintln!(
                "alluvium-rivals: `alluvium bench ycsb --engines …` starts this; by itself it only says what it was built with: `alluvium-rivals engines`"
            );
            ExitCode::from(2)
        }
    }
}
