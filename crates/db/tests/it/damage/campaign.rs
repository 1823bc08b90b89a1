//! Damages every file in every way, and measures how much of the store is readable before and after
//! a repair.

use super::*;
use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _};
use alluvium::{Error, RepairReport};
use alluvium_device::AlignedBuffer;
use alluvium_device::simulated::Corruption;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Flip,
    EightFlips,
    Zeroed,
    Garbage,
    Misplaced,
    Stale,
    Truncated,
    Extended,
    Deleted,
}

const KINDS: [Kind; 9] = [
    Kind::Flip,
    Kind::EightFlips,
    Kind::Zeroed,
    Kind::Garbage,
    Kind::Misplaced,
    Kind::Stale,
    Kind::Truncated,
    Kind::Extended,
    Kind::Deleted,
];

/// Size in bytes of the block that a disk loses as a whole.
const BLOCK: u64 = 4096;

/// Results of the cases of one kind.
#[derive(Clone, Debug, Default)]
struct Row {
    cases: usize,
    /// Cases in which the file was not opened for reading.
    unopened: usize,
    /// Cases in which a reader got an error.
    met: usize,
    /// Cases in which a check reported the damage.
    named: usize,
    /// Cases that a repair could not handle.
    hopeless: usize,
    /// Cases in which a repair reported lost data.
    lost: usize,
    /// Smallest fraction of the pairs that was readable after a repair, and the sum of these
    /// fractions.
    least: f64,
    sum: f64,
}

/// Applies damage of this kind to a store. Returns whether anything changed.
fn damage(world: &World, damaged: &SimDirectory, kind: Kind, file: &str, block: u64, seed: u64) -> bool {
    let mut random = fastrand::Rng::with_seed(seed);
    let from = block / BLOCK * BLOCK;
    let len = shared(damaged).open(file, FileOptions::BUFFERED).unwrap().len();
    let mut flip = || {
        let offset = from + random.u64(..BLOCK.min(len - from));
        let bit = random.u8(..8);
        damaged
            .corrupt(file, &Corruption::FlipBit { offset, bit })
            .unwrap()
    };
    match kind {
        Kind::Flip => flip(),
        Kind::EightFlips => (0..8).fold(false, |any, _| flip() | any),
        Kind::Zeroed => {
            let range = from..len.min(from + BLOCK);
            damaged.corrupt(file, &Corruption::Zero { range }).unwrap()
        }
        Kind::Garbage => {
            let bytes: Vec<u8> = (0..BLOCK.min(len - from)).map(|_| random.u8(..)).collect();
            put_block(damaged, file, from, &bytes)
        }
        Kind::Misplaced => {
            let to = random.u64(..len.div_ceil(BLOCK)) * BLOCK;
            let len = BLOCK.min(len - from).min(len - to);
            damaged
                .corrupt(file, &Corruption::Misdirect { from, to, len })
                .unwrap()
        }
        Kind::Stale => match shared(&world.older).open(file, FileOptions::BUFFERED) {
            Ok(older) if older.len() >= from + BLOCK => {
                let bytes = older.read_at(from, BLOCK as usize, Purpose::Other).unwrap();
                len >= from + BLOCK && put_block(damaged, file, from, &bytes)
            }
            _ => false,
        },
        Kind::Truncated => damaged
            .corrupt(file, &Corruption::Truncate { len: from })
            .unwrap(),
        Kind::Extended => {
            let len = len + random.u64(1..40) * 512;
            damaged.corrupt(file, &Corruption::Extend { len }).unwrap()
        }
        Kind::Deleted => damaged.corrupt(file, &Corruption::Remove).unwrap(),
    }
}

fn put_block(damaged: &SimDirectory, file: &str, from: u64, bytes: &[u8]) -> bool {
    let file = shared(damaged).open(file, FileOptions::BUFFERED).unwrap();
    let before = file.read_at(from, bytes.len(), Purpose::Other).unwrap();
    file.write_at(from, AlignedBuffer::padded(bytes), Purpose::Other)
        .unwrap();
    before[..] != bytes[..]
}

/// Opens the damaged store, reads all of it, checks it, repairs it and reads it again.
fn probe(world: &World, damaged: &SimDirectory, file: &str, row: &mut Row, what: &str) {
    let total: usize = world.contents.values().map(Pairs::len).sum();
    let mut intact = None;
    match small().open_read_only_in(shared(damaged)) {
        Ok(db) => {
            let checked = db.check().unwrap();
            let reading = read(&db, &world.contents);
            row.named += usize::from(!checked.is_empty());
            row.met += usize::from(!reading.errors.is_empty());
            assert_eq!(reading.wrong, Vec::<String>::new(), "{what}");
            let seen = reading.errors.is_empty() || checked.iter().any(|finding| finding.contains(file));
            assert!(seen, "{what}: {:?}, but {checked:?}", reading.errors);
            intact = Some(reading.intact);
        }
        Err(Error::Storage(_)) => row.unopened += 1,
        Err(error) => panic!("{what}: {error}"),
    }
    let report: RepairReport = match small().repair_in(shared(damaged)) {
        Ok(report) => report,
        Err(Error::Storage(_)) => {
            row.hopeless += 1;
            assert_eq!(intact, None, "{what}: it could be read, and not be repaired");
            return;
        }
        Err(error) => panic!("{what}: {error}"),
    };
    row.lost += usize::from(!report.lost.is_empty());
    let db = small()
        .open_existing_in(shared(damaged))
        .unwrap_or_else(|error| panic!("{what}: {error} after\n{report}"));
    let reading = read(&db, &world.contents);
    let part = reading.intact as f64 / total as f64;
    row.least = row.least.min(part);
    row.sum += part;
    if report.lost.is_empty() {
        assert_eq!(reading.wrong, Vec::<String>::new(), "{what}\n{report}");
    }
    if reading.intact < total {
        assert!(
            !report.is_whole(),
            "{what}: {} of {total}\n{report}",
            reading.intact
        );
    }
    if let Some(intact) = intact {
        let kept = reading.intact as f64 / intact.max(1) as f64;
        assert!(
            kept >= 0.999,
            "{what}: {} of {intact} that were intact\n{report}",
            reading.intact
        );
    }
    db.abandon();
}

#[test]
fn damage_is_noticed_and_what_is_intact_is_saved() {
    let cases = size("ALLUVIUM_DAMAGE_CASES", 135);
    let worlds = ALL.map(world);
    let blocks_of = worlds.each_ref().map(|world| used_blocks(&world.directory));
    let mut rows: BTreeMap<(Kind, bool), Row> = BTreeMap::new();
    for case in 0..cases {
        let world = &worlds[case % worlds.len()];
        let kind = KINDS[case / worlds.len() % KINDS.len()];
        let mut random = fastrand::Rng::with_seed(case as u64 + 1);
        let blocks = &blocks_of[case % worlds.len()];
        let names = shared(&world.directory).list().unwrap();
        // Damage each file in turn, then a random block in use.
        let (mut file, mut block) = blocks[random.usize(..blocks.len())].clone();
        if random.bool() {
            let name = &names[random.usize(..names.len())];
            let of_file: Vec<&(String, u64)> = blocks.iter().filter(|(file, _)| file == name).collect();
            if !of_file.is_empty() {
                (file, block) = of_file[random.usize(..of_file.len())].clone();
            }
        }
        let damaged = world.directory.image(CrashSurvival::Process, case as u64);
        if !damage(world, &damaged, kind, &file, block, case as u64) {
            continue;
        }
        let row = rows.entry((kind, file.starts_with("log-"))).or_insert(Row {
            least: 1.0,
            ..Row::default()
        });
        row.cases += 1;
        let what = format!("case {case}: {:?}, {kind:?} in {file} at {block}", world.left);
        let probed = catch_unwind(AssertUnwindSafe(|| probe(world, &damaged, &file, row, &what)));
        assert!(probed.is_ok(), "{what}");
    }
    println!("damage      log  cases unopened  met named hopeless lost  least  mean");
    for ((kind, of_log), row) in &rows {
        let repaired = row.cases - row.hopeless;
        println!(
            "{:<11} {:<4} {:>5} {:>8} {:>4} {:>5} {:>8} {:>4} {:>6.4} {:>5.4}",
            format!("{kind:?}"),
            if *of_log { "yes" } else { "no" },
            row.cases,
            row.unopened,
            row.met,
            row.named,
            row.hopeless,
            row.lost,
            row.least,
            row.sum / repaired.max(1) as f64,
        );
    }
}
