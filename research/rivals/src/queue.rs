//! A queue in an engine: the first key is read and deleted, and a key is put behind the last one.
//! A store that keeps deleted keys for a while must not slow down with their number.

use crate::ENGINES;
use crate::studies::StudyDirectory;
use alluvium_bench::engine::{
    BenchEngine, CapEnforcement, EngineEntry, EngineSession, EngineSetup, WriteLogging,
};
use alluvium_bench::engines::{self, OWN};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::Instant;

/// Bytes of a value.
const VALUE: [u8; 100] = [7; 100];

/// Memory of an engine in bytes.
const MEMORY: u64 = 256 << 20;

/// Number of parts of the run, whose rates are reported one by one.
const PARTS: u64 = 10;

/// A queue of a number of jobs, and the number of jobs that are taken and added.
#[derive(Clone, Copy, Debug)]
pub struct QueueStudy {
    pub jobs: u64,
    pub rounds: u64,
}

fn take_first(session: &mut dyn EngineSession, key: &mut Vec<u8>) -> Result<()> {
    key.clear();
    session.scan(b"", 1, &mut |found, _| key.extend_from_slice(found))?;
    ensure!(key.len() == 8, "the queue is not empty");
    session.delete(key)
}

impl QueueStudy {
    /// Runs the study in a new directory, with the engine that has this name. After a colon, the
    /// name may have an option, as in `alluvium:structure=paged`.
    ///
    /// # Errors
    /// An engine that was not compiled in; a directory that exists; errors of the engine.
    pub fn run_named(self, name: &str, directory: &Path) -> Result<Vec<f64>> {
        let (name, option) = name.split_once(':').unwrap_or((name, ""));
        let known = engines::find(&OWN, name).or_else(|| engines::find(ENGINES, name));
        let engine = known.with_context(|| format!("no engine {name}: compile it in by its feature"))?;
        let place = StudyDirectory::new(directory)?;
        let option = option
            .split_once('=')
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let setup = EngineSetup {
            directory: place.path().to_owned(),
            cap: MEMORY,
            kept: CapEnforcement::Free,
            memory: None,
            log: WriteLogging::On,
            threads: 1,
            value_bytes: VALUE.len(),
            records: self.jobs,
            options: option.into_iter().collect(),
        };
        self.run(&engine, &setup)
    }

    /// Fills a queue and lets it run. Returns the jobs a second that went through it in each tenth
    /// of the run.
    ///
    /// # Errors
    /// Errors of the engine; a job that is taken out of order.
    fn run(self, engine: &EngineEntry, setup: &EngineSetup) -> Result<Vec<f64>> {
        let opened = (engine.open)(setup)?;
        let rates = self.run_in(&*opened)?;
        opened.close()?;
        Ok(rates)
    }

    fn run_in(self, engine: &dyn BenchEngine) -> Result<Vec<f64>> {
        let mut session = engine.session()?;
        for job in 0..self.jobs {
            session.put(&job.to_be_bytes(), &VALUE)?;
        }
        let (mut rates, mut key) = (Vec::new(), Vec::new());
        for part in 0..PARTS {
            let began = Instant::now();
            let rounds = self.rounds * part / PARTS..self.rounds * (part + 1) / PARTS;
            let count = rounds.end - rounds.start;
            for round in rounds {
                take_first(&mut *session, &mut key)?;
                ensure!(key == round.to_be_bytes(), "job {round} comes first, not {key:?}");
                session.put(&(self.jobs + round).to_be_bytes(), &VALUE)?;
            }
            rates.push(count as f64 / began.elapsed().as_secs_f64());
        }
        Ok(rates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_go_through_the_queue_in_order() {
        let place = tempfile::tempdir().unwrap();
        let study = QueueStudy {
            jobs: 50,
            rounds: 500,
        };
        for engine in [
            "alluvium",
            "alluvium:structure=paged",
            "alluvium:structure=levels,k=4",
        ] {
            let rates = study.run_named(engine, &place.path().join("queue")).unwrap();
            assert!(rates.len() == 10 && rates.iter().all(|rate| *rate > 0.0));
        }
        let unknown = study
            .run_named("abacus", &place.path().join("queue"))
            .unwrap_err();
        assert!(unknown.to_string().contains("abacus"));
    }
}
