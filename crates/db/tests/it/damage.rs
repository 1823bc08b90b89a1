//! Damage of every kind to every structure. A reader gets an error or the data that was written,
//! `check` names all damage that a reader could encounter, a backup of a damaged store is refused,
//! and a repair preserves the intact data.
//!
//! `ALLUVIUM_DAMAGE_FLIPS` and `ALLUVIUM_DAMAGE_CASES` set the number of cases in the two
//! campaigns; the defaults are small.

mod campaign;
mod catalog;
mod flips;
mod leaves;
mod living;
mod maps;

use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _, StoreScale};
use alluvium::{Compression, Db, KeyspaceOptions, Options};
use alluvium_base::Purpose;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_device::{Directory, FileOptions};
use alluvium_sim::environment::effort;
use std::collections::BTreeMap;
use std::sync::Arc;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Contents of a store: the pairs of each keyspace and of the named snapshot.
type Contents = BTreeMap<String, Pairs>;

/// The snapshot's name, which also distinguishes its contents from the current ones.
const SNAPSHOT: &str = "early";

/// The state that a store was left in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Closed,
    Compacted,
    Killed,
}

const ALL: [Left; 3] = [Left::Closed, Left::Compacted, Left::Killed];

/// Options with little memory, so that a small store has several runs, leaves and generations.
fn small() -> Options {
    let mut scale = StoreScale::small(0xda_3a6e, 48 << 10, 384 << 10);
    scale.log.lanes = 1;
    Options::new().simulated(scale, || 1000).workers(0)
}

fn shared(world: &SimDirectory) -> Arc<dyn Directory> {
    Arc::new(world.clone())
}

/// A store as it was left, and its contents.
struct World {
    left: Left,
    directory: SimDirectory,
    /// An image of the same store from some generations earlier.
    older: SimDirectory,
    contents: Contents,
}

fn write_round(db: &Db, round: u32) {
    let with = |compression| KeyspaceOptions::new().compression(compression);
    let plain = db.keyspace("plain").unwrap();
    let lz4 = db.keyspace_with("lz4", &with(Compression::Lz4)).unwrap();
    let zstd = db.keyspace_with("zstd", &with(Compression::Zstd)).unwrap();
    let long = db.keyspace("long").unwrap();
    for number in 0..220u32 {
        let key = (number * 7 + round).to_be_bytes();
        plain.put(key, vec![(number + round) as u8; 90]).unwrap();
        let text = format!("{number} of round {round}, ").repeat(12);
        lz4.put(key, &text).unwrap();
        zstd.put(key, text.repeat(2)).unwrap();
        if number % 6 == 0 {
            let mut random = fastrand::Rng::with_seed(u64::from(number * 10 + round));
            let len = if number % 66 == 0 { 150_000 } else { 3000 };
            let value: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
            long.put(key, value).unwrap();
        }
        if number % 40 == 39 {
            while db.work().unwrap() {}
        }
    }
    plain.delete((round * 50).to_be_bytes()).unwrap();
    let (low, high) = ((round * 300).to_be_bytes(), (round * 300 + 60).to_be_bytes());
    plain.delete_range(low, Some(&high)).unwrap();
    lz4.delete_range(low, Some(&high)).unwrap();
}

fn world(left: Left) -> World {
    let directory = SimDirectory::new(5);
    let db = small().create_in(shared(&directory)).unwrap();
    let mut older = None;
    for round in 0..5 {
        write_round(&db, round);
        if round == 1 {
            let _ = db.create_snapshot(SNAPSHOT).unwrap();
        }
        if round < 4 {
            db.checkpoint().unwrap();
        }
        if round == 2 {
            older = Some(directory.image(CrashSurvival::Process, 1));
        }
    }
    let directory = match left {
        Left::Compacted => {
            db.compact().unwrap();
            db.close().unwrap();
            directory
        }
        Left::Closed => {
            db.checkpoint().unwrap();
            db.close().unwrap();
            directory
        }
        Left::Killed => {
            db.sync().unwrap();
            let died = directory.image(CrashSurvival::Process, 2);
            db.abandon();
            died
        }
    };
    let db = small().open_read_only_in(shared(&directory)).unwrap();
    let (mut contents, mut errors) = (Contents::new(), Vec::new());
    for name in db.keyspaces() {
        let keyspace = db.existing_keyspace(&name).unwrap();
        contents.insert(name.clone(), collect(keyspace.iter(), &mut errors));
        let snapshot = db.open_snapshot(SNAPSHOT).unwrap();
        contents.insert(
            format!("{name} {SNAPSHOT}"),
            collect(snapshot.iter(&keyspace), &mut errors),
        );
    }
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    World {
        left,
        directory,
        older: older.unwrap(),
        contents,
    }
}

fn collect(pairs: alluvium::Iter, errors: &mut Vec<String>) -> Pairs {
    let mut found = Pairs::new();
    for pair in pairs {
        match pair {
            Ok((key, value)) => {
                found.insert(key, value.into_vec());
            }
            Err(error) => {
                errors.push(error.to_string());
                break;
            }
        }
    }
    found
}

/// Result of a full read of a store.
#[derive(Debug, Default)]
struct Reading {
    errors: Vec<String>,
    /// Results that differ from the written data.
    wrong: Vec<String>,
    /// Number of lookups that returned the written pair.
    intact: usize,
}

/// Reads everything: iterates over each keyspace and its snapshot, and looks up each key.
fn read(db: &Db, wanted: &Contents) -> Reading {
    read_some(db, wanted, 0, 1)
}

/// Like [`read`], but looks up only every `every`th key, starting at number `from`.
fn read_some(db: &Db, wanted: &Contents, from: usize, every: usize) -> Reading {
    let mut reading = Reading::default();
    for (what, wanted) in wanted {
        let (name, early) = match what.strip_suffix(SNAPSHOT) {
            Some(name) => (name.trim_end(), true),
            None => (&**what, false),
        };
        let keyspace = match db.existing_keyspace(name) {
            Ok(keyspace) => keyspace,
            Err(error) => {
                reading.errors.push(error.to_string());
                continue;
            }
        };
        let snapshot = match early.then(|| db.open_snapshot(SNAPSHOT)).transpose() {
            Ok(snapshot) => snapshot,
            Err(error) => {
                reading.errors.push(error.to_string());
                continue;
            }
        };
        let before = reading.errors.len();
        let found = match &snapshot {
            Some(snapshot) => collect(snapshot.iter(&keyspace), &mut reading.errors),
            None => collect(keyspace.iter(), &mut reading.errors),
        };
        let failed = reading.errors.len() > before;
        for (key, value) in &found {
            if wanted.get(key) != Some(value) {
                reading.wrong.push(format!("{what}: a scan shows {key:?}"));
            }
        }
        if !failed && found.len() < wanted.len() {
            reading.wrong.push(format!(
                "{what}: a scan shows {} of {}",
                found.len(),
                wanted.len()
            ));
        }
        for (key, value) in wanted.iter().skip(from % every).step_by(every) {
            let got = match &snapshot {
                Some(snapshot) => snapshot.get(&keyspace, key),
                None => keyspace.get(key),
            };
            match got {
                Ok(Some(got)) if got == value[..] => reading.intact += 1,
                Ok(_) => reading.wrong.push(format!("{what}: a lookup of {key:?}")),
                Err(error) => reading.errors.push(error.to_string()),
            }
        }
    }
    reading
}

/// Returns the 512-byte blocks that are in use. Many blocks are empty, because files are
/// preallocated.
fn used_blocks(world: &SimDirectory) -> Vec<(String, u64)> {
    let mut blocks = Vec::new();
    for name in shared(world).list().unwrap() {
        let file = shared(world).open(&name, FileOptions::BUFFERED).unwrap();
        for offset in (0..file.len()).step_by(512) {
            let len = (file.len() - offset).min(512) as usize;
            let block = file.read_at(offset, len, Purpose::Other).unwrap();
            if block.iter().any(|&byte| byte != 0) {
                blocks.push((name.clone(), offset));
            }
        }
    }
    blocks
}

/// Returns the number of cases: a few in the gate, `all` in `.ci/nightly`, or the value of an
/// environment variable.
fn size(variable: &str, all: usize) -> usize {
    let default = effort(all / 5, all);
    std::env::var(variable).map_or(default, |size| size.parse().expect("a number of cases"))
}
