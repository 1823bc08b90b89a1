//! Engines that give wrong answers fail the run.

use super::{job, rows};
use alluvium_bench::engine::{BenchEngine, EachPair, EngineEntry, EngineSession, EngineSetup};
use alluvium_bench::workload::values::ValueGenerator;
use anyhow::Result;

/// An engine's fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sin {
    LosesRecords,
    AnswersForAnother,
    ShortensValues,
    ScansOutOfOrder,
    ForgetsOneOfMany,
}

struct Sinner(Sin, usize);

macro_rules! opens {
    ($name:ident, $sin:expr) => {
        fn $name(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
            Ok(Box::new(Sinner($sin, setup.value_bytes)))
        }
    };
}

opens!(loses, Sin::LosesRecords);
opens!(confuses, Sin::AnswersForAnother);
opens!(shortens, Sin::ShortensValues);
opens!(disorders, Sin::ScansOutOfOrder);
opens!(forgets, Sin::ForgetsOneOfMany);

impl BenchEngine for Sinner {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        Ok(Box::new(Thread(self)))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct Thread<'a>(&'a Sinner);

impl EngineSession for Thread<'_> {
    fn put(&mut self, _: &[u8], _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn delete(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut value = vec![0; self.0.1];
        match self.0.0 {
            Sin::LosesRecords => return Ok(false),
            Sin::AnswersForAnother => ValueGenerator::fill(&mut value, b"another", 1),
            Sin::ShortensValues => value.truncate(self.0.1 - 1),
            _ => ValueGenerator::fill(&mut value, key, 1),
        }
        found(&value);
        Ok(true)
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        let mut value = vec![0; self.0.1];
        for _ in 0..limit {
            ValueGenerator::fill(&mut value, from, 1);
            each(from, &value);
        }
        Ok(limit)
    }

    fn multi_get(&mut self, keys: &[&[u8]], _: &mut dyn FnMut(usize, &[u8])) -> Result<usize> {
        Ok(keys.len() - 1)
    }
}

#[test]
fn every_wrong_answer_is_noticed() {
    let entry = |open| EngineEntry {
        name: "sinner",
        options: &[],
        open,
    };
    for (open, phase, words) in [
        (
            loses as fn(&EngineSetup) -> Result<Box<dyn BenchEngine>>,
            "c",
            "nothing was found",
        ),
        (confuses, "c", "another value was found"),
        (shortens, "b", "another value was found"),
        (disorders, "e", "out of order"),
        (forgets, "m", "63 were found"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let job = job("sinner", place.path(), &["load", phase]);
        let error = rows(&job, &[entry(open)]).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_deleted_record_that_is_found_is_noticed() {
    let place = tempfile::tempdir().unwrap();
    let mut job = job("sinner", place.path(), &[]);
    job.phases = alluvium_bench::workload::script::parse("load, delete=50%", None).unwrap();
    let entry = EngineEntry {
        name: "sinner",
        options: &[],
        open: disorders,
    };
    let text = format!("{:#}", rows(&job, &[entry]).unwrap_err());
    assert!(text.contains("was deleted, but is found"), "{text}");
}
