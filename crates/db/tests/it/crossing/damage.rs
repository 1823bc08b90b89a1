//! Flips bits in a copy of the store. Every read of the copy must return the correct data, or an
//! error that `check` also reports.

use super::model::Pair;
use super::reading::show;
use super::world::{DAMAGED, Outcome, World, directories, told};
use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _};
use alluvium::{Db, Value};
use alluvium_base::Purpose;
use alluvium_device::simulated::{Corruption, CrashSurvival, SimDirectory};
use alluvium_device::{Directory as _, FileOptions};

const BLOCK: u64 = 512;
/// Maximum number of blocks examined to find one in use.
const TRIES: u64 = 64;
/// Number of flipped bits, of which readers encounter only a few.
const FLIPS: u64 = 8;

/// The result of reading a copy.
#[derive(Default)]
struct Seen {
    /// The first error returned to a reader.
    error: Option<String>,
}

impl Seen {
    fn value<T>(&mut self, result: alluvium::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.error.get_or_insert(error.to_string());
                None
            }
        }
    }

    /// Iterates until the end or the first error.
    fn walk(&mut self, walk: impl Iterator<Item = alluvium::Result<(Vec<u8>, Value)>>) -> (Vec<Pair>, bool) {
        let mut pairs = Vec::new();
        for found in walk {
            match self.value(found) {
                Some((key, value)) => pairs.push((key, value.into_vec())),
                None => return (pairs, false),
            }
        }
        (pairs, true)
    }
}

/// Flips a bit of some file other than the log, where damage can look like the end of the log.
fn flip(disk: &SimDirectory, seed: u64) -> Outcome<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let list = |why: alluvium_device::Error| format!("a list of files: {why}");
    let mut files = disk.list().map_err(list)?;
    files.retain(|name| !name.contains("log"));
    files.sort();
    let Some(file) = files.get(random.usize(..files.len().max(1))) else {
        return Ok("nothing".to_owned());
    };
    let failed = |why: alluvium_device::Error| format!("{file}: {why}");
    let opened = disk.open(file, FileOptions::BUFFERED).map_err(failed)?;
    let blocks = opened.len() / BLOCK;
    // Files are preallocated, so most blocks are still unused.
    for _ in 0..TRIES.min(blocks) {
        let block = random.u64(..blocks) * BLOCK;
        let bytes = opened
            .read_at(block, BLOCK as usize, Purpose::Other)
            .map_err(failed)?;
        if bytes.iter().any(|&byte| byte != 0) {
            let (offset, bit) = (block + random.u64(..BLOCK), random.u8(..8));
            disk.corrupt(file, &Corruption::FlipBit { offset, bit })
                .map_err(failed)?;
            return Ok(format!("bit {bit} of byte {offset} of {file} is flipped"));
        }
    }
    Ok("nothing".to_owned())
}

impl World<'_> {
    /// Damages a copy of the disk and reads all of it.
    pub(super) fn damage_copy(&mut self, seed: u64) -> Outcome {
        if !self.checkpoint()? {
            return Ok(());
        }
        let disks = self.disks.iter().map(|disk| disk.image(CrashSurvival::All, seed));
        let disks: Vec<SimDirectory> = disks.collect();
        let disk = &disks[seed as usize % disks.len()];
        let flips = (0..FLIPS).map(|number| flip(disk, seed.wrapping_add(number)));
        let what = flips.collect::<Outcome<Vec<String>>>()?.join(", ");
        // A copy that does not open has reported its damage.
        let Ok(db) = self.options().open_existing_in(directories(&disks)) else {
            return Ok(());
        };
        let read = self.read_damaged(&db);
        db.abandon();
        read.map_err(|why| format!("{what}: {why}"))
    }

    fn read_damaged(&self, db: &Db) -> Outcome {
        let mut seen = Seen::default();
        for (number, name) in self.names.iter().enumerate() {
            let plan = &self.plan.keyspaces[number];
            let Some(keyspace) = seen.value(db.existing_keyspace(name)) else {
                continue;
            };
            let expected = match plan.lasts() {
                true => self.model.keyspace(number).all(self.now_ms()),
                false => Vec::new(),
            };
            let (found, is_whole) = seen.walk(keyspace.unordered());
            for (key, value) in &found {
                if !expected.iter().any(|pair| pair.0 == *key && pair.1 == *value) {
                    return Err(format!("keyspace {number}: {} is wrong", show(key, Some(value))));
                }
            }
            if is_whole && found.len() != expected.len() {
                let (found, expected) = (found.len(), expected.len());
                return Err(format!(
                    "keyspace {number}: {found} keys of {expected}, and no error"
                ));
            }
            for (key, value) in &expected {
                if let Some(found) = seen.value(keyspace.get(key))
                    && found.as_deref() != Some(value)
                {
                    let (found, is) = (show(key, found.as_deref()), show(key, Some(value)));
                    return Err(format!("keyspace {number}: found {found}, where there is {is}"));
                }
            }
        }
        let Some(error) = seen.error else {
            return Ok(());
        };
        self.coverage.hit(DAMAGED);
        match told("check", db.check())?.is_empty() {
            true => Err(format!("check finds nothing, and a reader met: {error}")),
            false => Ok(()),
        }
    }
}
