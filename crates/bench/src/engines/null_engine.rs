//! An engine that does nothing beyond what its callers can observe. Its costs are the overhead of
//! measuring.

use crate::engine::{BenchEngine, EachPair, EngineSession, EngineSetup};
use crate::workload::values::ValueGenerator;
use anyhow::Result;

struct NullEngine {
    value_bytes: usize,
}

pub(super) fn open(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    Ok(Box::new(NullEngine {
        value_bytes: setup.value_bytes,
    }))
}

struct NullSession {
    value: Vec<u8>,
}

impl BenchEngine for NullEngine {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        Ok(Box::new(NullSession {
            value: vec![0; self.value_bytes],
        }))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn keeps_nothing(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl EngineSession for NullSession {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        std::hint::black_box((key, value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        std::hint::black_box(key);
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        ValueGenerator::fill(&mut self.value, key, 0);
        found(&self.value);
        Ok(true)
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        let mut key = from.to_vec();
        for _ in 0..limit {
            ValueGenerator::fill(&mut self.value, &key, 0);
            each(&key, &self.value);
            key.push(0);
        }
        Ok(limit)
    }
}
