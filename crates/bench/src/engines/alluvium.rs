//! The adapter for Alluvium. It uses the public library with default settings, apart from the
//! requested structure.

use crate::engine::{BenchEngine, CapEnforcement, EachPair, EngineSession, EngineSetup, WriteLogging};
use alluvium::{Db, Keyspace, KeyspaceOptions, Options, Structure};
use anyhow::{Context, Result, bail};

/// Lower bound in bytes of the memory that Alluvium is told to use.
const LEAST: u64 = 16 << 20;

struct AlluviumEngine {
    db: Db,
    keyspace: Keyspace,
}

pub(super) fn open(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    if setup.log == WriteLogging::Off {
        bail!("alluvium cannot turn off its log: leave out --without-log, or measure alluvium separately");
    }
    let options = match (setup.memory, setup.kept) {
        (Some(bytes), _) => Options::new().memory(bytes),
        (None, CapEnforcement::WithinCap) => Options::new(),
        // By default, Alluvium would use this much on a machine whose memory is the limit.
        (None, CapEnforcement::Free) => Options::new().memory((setup.cap / 4).max(LEAST)),
    };
    let db = options.open(setup.directory.join("store"))?;
    let keyspace = match setup.option("structure") {
        None => db.keyspace("usertable")?,
        Some(text) => {
            let structure: Structure = text
                .parse()
                .with_context(|| format!("alluvium.structure={text}"))?;
            db.keyspace_with("usertable", &KeyspaceOptions::new().structure(structure))?
        }
    };
    Ok(Box::new(AlluviumEngine { db, keyspace }))
}

impl BenchEngine for AlluviumEngine {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        Ok(Box::new(self.keyspace.clone()))
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }

    fn settings(&self) -> Vec<(String, String)> {
        let stats = self.db.stats();
        vec![
            ("version".into(), env!("CARGO_PKG_VERSION").into()),
            ("memory".into(), stats.memory.budget.to_string()),
            (
                "durability".into(),
                format!("{:?}", self.keyspace.durability()).to_lowercase(),
            ),
            ("compression".into(), "none".into()),
            ("structure".into(), self.keyspace.options().structure.to_string()),
        ]
    }

    fn remarks(&self) -> String {
        self.db.stats().to_string()
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self.keyspace);
        Ok(self.db.close()?)
    }
}

impl EngineSession for Keyspace {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(Keyspace::put(self, key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        Ok(Keyspace::delete(self, key)?)
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = Keyspace::get(self, key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        let mut pairs = self.range(from..);
        let mut count = 0;
        while count < limit
            && let Some((key, value)) = pairs.lend()?
        {
            each(key, value);
            count += 1;
        }
        Ok(count)
    }

    fn multi_get(&mut self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<usize> {
        let values = Keyspace::multi_get(self, keys.iter().copied())?;
        for (place, value) in values.iter().enumerate() {
            if let Some(value) = value {
                found(place, value);
            }
        }
        Ok(values.iter().flatten().count())
    }
}
