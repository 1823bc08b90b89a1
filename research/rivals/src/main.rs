//! The program `alluvium-rivals`: `alluvium bench` starts it for every third-party engine.

use alluvium_rivals::studies::STUDIES;
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
        Some("studies") => {
            for study in STUDIES {
                println!("{}", study.name);
            }
            ExitCode::SUCCESS
        }
        Some("study") => study(),
        Some("queue") => queue(),
        #[cfg(feature = "leveldb")]
        Some("leveldb-writes") => leveldb_writes(),
        #[cfg(feature = "agentfs")]
        Some("agentfs") => agent_files(),
        Some("transactions-child") => alluvium_bench::transactions::child(TRANSACTIONAL),
        _ => {
            eprintln!(
                "alluvium-rivals: `alluvium bench ycsb --engines …` starts this; by itself it only says what it was built with: `alluvium-rivals engines`"
            );
            ExitCode::from(2)
        }
    }
}

/// Mounts a database of AgentFS: `agentfs DATABASE DIRECTORY`.
#[cfg(feature = "agentfs")]
fn agent_files() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let [database, directory] = &words[..] else {
        eprintln!("alluvium-rivals agentfs DATABASE DIRECTORY");
        return ExitCode::from(2);
    };
    match alluvium_rivals::agent_fs::serve(database, directory.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("alluvium-rivals agentfs: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Lets jobs go through a queue: `queue DIRECTORY JOBS ROUNDS ENGINE[:structure=…]…`. Prints the
/// thousands of jobs a second in each tenth of the run, for each engine.
fn queue() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let [directory, jobs, rounds, engines @ ..] = &words[..] else {
        eprintln!("alluvium-rivals queue DIRECTORY JOBS ROUNDS ENGINE[:structure=STRUCTURE]…");
        return ExitCode::from(2);
    };
    let (Ok(jobs), Ok(rounds)) = (jobs.parse(), rounds.parse()) else {
        eprintln!("alluvium-rivals queue: JOBS and ROUNDS are numbers, as in 1000000 10000000");
        return ExitCode::from(2);
    };
    let study = alluvium_rivals::queue::QueueStudy { jobs, rounds };
    for engine in engines {
        match study.run_named(engine, directory.as_ref()) {
            Ok(rates) => {
                let rates: Vec<String> = rates.iter().map(|rate| format!("{:.0}", rate / 1000.0)).collect();
                println!("{engine}: {} thousand a second", rates.join(" "));
            }
            Err(error) => {
                eprintln!("alluvium-rivals queue {engine}: {error:#}");
                return ExitCode::from(3);
            }
        }
    }
    ExitCode::SUCCESS
}

/// Runs a study and prints the measurements as JSON: `study NAME DIRECTORY RECORDS`.
fn study() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let [name, directory, records] = &words[..] else {
        eprintln!("alluvium-rivals study NAME DIRECTORY RECORDS: `alluvium-lab run` starts this");
        return ExitCode::from(2);
    };
    let found = STUDIES.iter().find(|study| study.name == name);
    let (Some(study), Ok(records)) = (found, records.parse()) else {
        let names: Vec<&str> = STUDIES.iter().map(|study| study.name).collect();
        eprintln!(
            "alluvium-rivals study {name:?} {records:?}: write one of {}, and a number of records",
            names.join(", ")
        );
        return ExitCode::from(2);
    };
    alluvium_bench::run::end_with_parent();
    let made = study.make(directory.as_ref(), records);
    match made.and_then(|measured| Ok(serde_json::to_string(&measured)?)) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("alluvium-rivals study {name}: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Counts the bytes that LevelDB writes: `leveldb-writes DIRECTORY KEYS SKEW ROUNDS`.
#[cfg(feature = "leveldb")]
fn leveldb_writes() -> ExitCode {
    use alluvium_rivals::leveldb_writes::{InsertStudy, count};
    let words: Vec<String> = std::env::args().skip(2).collect();
    let [directory, keys, skew, rounds] = &words[..] else {
        eprintln!(
            "alluvium-rivals leveldb-writes DIRECTORY KEYS SKEW ROUNDS: an empty directory, and three numbers"
        );
        return ExitCode::from(2);
    };
    let (Ok(keys), Ok(skew), Ok(rounds)) = (keys.parse(), skew.parse(), rounds.parse()) else {
        eprintln!("alluvium-rivals leveldb-writes: KEYS, SKEW and ROUNDS are numbers, as in 1000000 0.99 3");
        return ExitCode::from(2);
    };
    let study = InsertStudy {
        keys,
        skew,
        rounds,
        seed: 1,
    };
    match count(directory.as_ref(), &study) {
        Ok(written) => {
            println!(
                "{keys} keys, skew {skew}, {} inserts: LevelDB {:.2}, model {:.2}, simulation {:.2}",
                written.inserts, written.counted, written.model, written.simulated
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("alluvium-rivals leveldb-writes: {error:#}");
            ExitCode::from(3)
        }
    }
}
