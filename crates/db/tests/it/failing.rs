//! A tier after the first whose device fails or disappears. Data on the other tiers stays
//! available, new data is written there, and no acknowledged write is lost.
//!
//! The fault story is small in `cargo test`. `ALLUVIUM_TIER_FAULTS` sets the number of seeds, and
//! `ALLUVIUM_TIER_FAULTS_SEED` the first seed.

use crate::tiers::{places, small, with};
use alluvium::simulation::{self, DirectoryOpener as _, SimulationOperations as _, StoreScale};
use alluvium::{
    Db, Durability, Error, ErrorKind, HashedForm, HashedOptions, Keyspace, KeyspaceOptions, LevelsOptions,
    Options, Purpose, Structure, WriteBatch,
};
use alluvium_device::simulated::{CrashSurvival, InjectedFault, SimDirectory};
use alluvium_device::{DeviceOperation, Directory};
use alluvium_sim::PrefixDirectory;
use alluvium_sim::environment::number;
use alluvium_storage::TierDirectories;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

/// Name of the second tier's data file within the machine's directory.
const FILE: &str = "two.tier-1.data";

fn options() -> Options {
    let mut scale = StoreScale::small(0xa11, 6 << 10, 96 << 10);
    // Place compaction output on the second tier.
    scale.extents.planned_bytes = Some(0);
    Options::new().simulated(scale, || 1000)
}

/// Returns two directories of one machine, so that a crash affects both at the same moment.
fn tiers_of(machine: &SimDirectory) -> TierDirectories {
    let whole: Arc<dyn Directory> = Arc::new(machine.reopen());
    TierDirectories::from(Arc::new(PrefixDirectory::of(&whole, "one.")))
        .and(Arc::new(PrefixDirectory::of(&whole, "two.")))
}

/// The forms of hashed keyspaces, one of which each store uses.
const FORMS: [HashedForm; 4] = [
    HashedForm::Silt,
    HashedForm::Boa {
        lambda: 2,
        refined: false,
    },
    HashedForm::Boa {
        lambda: 4,
        refined: true,
    },
    HashedForm::Bot { lambda: 2 },
];

const KINDS: usize = 3;

fn keyspaces(db: &Db, form: HashedForm) -> [Keyspace; KINDS] {
    let levels = KeyspaceOptions::new().structure(Structure::Levels(LevelsOptions::samt(2)));
    let hashed = KeyspaceOptions::new().structure(Structure::Hashed(HashedOptions::default().form(form)));
    [
        db.keyspace("tree").unwrap(),
        db.keyspace_with("levels", &levels).unwrap(),
        db.keyspace_with("hashed", &hashed).unwrap(),
    ]
}

fn value_of(number: u32) -> Vec<u8> {
    vec![number as u8; 100 + number as usize % 50]
}

const RECORDS: u32 = 600;

/// A store with records of all structures on its second tier.
fn filled(machine: &SimDirectory, form: HashedForm) -> (Db, [Keyspace; KINDS]) {
    let db = options().create_in(tiers_of(machine)).unwrap();
    let all = keyspaces(&db, form);
    for keyspace in &all {
        for number in 0..RECORDS {
            keyspace.put(number.to_be_bytes(), value_of(number)).unwrap();
        }
    }
    db.compact().unwrap();
    let live = db.stats().tiers[1].space.live_bytes;
    assert!(
        live > KINDS as u64 * 100 * u64::from(RECORDS),
        "{live} bytes on the second tier"
    );
    (db, all)
}

fn fails(db: &Db) -> bool {
    let tier = &db.stats().tiers[1];
    assert_eq!(tier.failure.is_some(), !tier.takes_data, "{tier:?}");
    tier.failure.is_some()
}

fn written(db: &Db) -> u64 {
    db.stats().tiers[1].space.live_bytes
}

fn is_whole(db: &Db, all: &[Keyspace; KINDS], records: u32) {
    for keyspace in all {
        let found: BTreeMap<_, _> = keyspace.unordered().map(Result::unwrap).collect();
        assert_eq!(found.len(), records as usize);
        for (number, (key, value)) in (0..).zip(&found) {
            assert_eq!(
                (&key[..], &value[..]),
                (&u32::to_be_bytes(number)[..], &value_of(number)[..])
            );
        }
    }
    assert_eq!(db.check().unwrap(), [""; 0]);
}

#[test]
fn a_read_of_a_failing_tier_names_it_and_all_else_goes_on() {
    for form in FORMS {
        reads_fail(form);
    }
}

fn reads_fail(form: HashedForm) {
    let machine = SimDirectory::new(1);
    let (db, _) = filled(&machine, form);
    db.close().unwrap();
    // The cache holds no data of the second tier.
    let db = options().open_existing_in(tiers_of(&machine)).unwrap();
    let all = keyspaces(&db, form);
    machine.inject(InjectedFault::failing(DeviceOperation::Read).on(FILE).sticky());
    for keyspace in &all {
        let error = keyspace.get(7u32.to_be_bytes()).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Io, "{text}");
        for words in ["tier 1 in", "fails at reading", FILE, "alluvium tiers use"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
    assert!(fails(&db));
    // The check cannot verify the second tier, and finds no damage elsewhere.
    let report = db.check_report(|_| ()).unwrap();
    assert_eq!(report.findings, [""; 0]);
    assert!(!report.is_whole(), "{report}");
    let [said] = &report.unreadable[..] else {
        panic!("{report}")
    };
    for words in ["tier 1 in", "fails at reading", "the data on it was not checked"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // A merge that needs the tier fails with the same error, but the store still accepts writes.
    let error = db.compact().unwrap_err();
    assert!(error.to_string().contains("tier 1 in"), "{error}");
    let before = written(&db);
    for keyspace in &all {
        for number in RECORDS..2 * RECORDS {
            keyspace.put(number.to_be_bytes(), value_of(number)).unwrap();
            let found = keyspace.get(number.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(&value_of(number)[..]));
            db.work().unwrap();
        }
    }
    db.checkpoint().unwrap();
    assert_eq!(written(&db), before, "nothing new lies there");
    machine.clear_faults();
    assert!(fails(&db), "it is not used before the user says so");
    db.use_tier_in(1).unwrap();
    assert!(!fails(&db));
    is_whole(&db, &all, 2 * RECORDS);
    db.compact().unwrap();
    assert!(written(&db) > before, "it takes data again");
    is_whole(&db, &all, 2 * RECORDS);
}

/// Makes reads of the second tier fail, and lets each keyspace encounter the failure. The cache
/// holds no data of that tier.
fn unreadable(machine: &SimDirectory) -> (Db, [Keyspace; KINDS]) {
    let (db, _) = filled(machine, HashedForm::Silt);
    db.close().unwrap();
    let db = options().open_existing_in(tiers_of(machine)).unwrap();
    let all = keyspaces(&db, HashedForm::Silt);
    machine.inject(InjectedFault::failing(DeviceOperation::Read).on(FILE).sticky());
    for keyspace in &all {
        keyspace.get(7u32.to_be_bytes()).unwrap_err();
    }
    assert!(fails(&db));
    (db, all)
}

#[test]
fn writing_goes_on_beside_what_cannot_be_read_as_long_as_there_is_space() {
    const MORE: u32 = 12_000;
    for kind in 0..2 {
        let machine = SimDirectory::new(4 + kind as u64);
        let (db, all) = unreadable(&machine);
        let (keyspace, before) = (&all[kind], written(&db));
        for number in RECORDS..RECORDS + MORE {
            let put = keyspace.put(number.to_be_bytes(), value_of(number));
            put.unwrap_or_else(|error| panic!("record {number} of {}: {error}", keyspace.name()));
            db.work().unwrap();
        }
        while db.work().unwrap() {}
        db.checkpoint().unwrap();
        assert_eq!(written(&db), before, "nothing new lies on the tier that fails");
        let device = db.stats().device;
        let merged = [Purpose::Incorporate, Purpose::Compact].map(|purpose| device.of(purpose).written_bytes);
        let times = merged.iter().sum::<u64>() / (u64::from(MORE) * 125);
        println!("{}: each byte was written {times} times", keyspace.name());
        assert!(times < 60, "{times} times");
        // Data on the first tier stays readable during the failure, and all data is readable
        // afterwards.
        for number in (RECORDS..RECORDS + MORE).step_by(97) {
            let found = keyspace.get(number.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(&value_of(number)[..]));
        }
        machine.clear_faults();
        let left = machine.image(CrashSurvival::POWER_LOSS[kind], 9);
        db.abandon();
        let db = options().open_existing_in(tiers_of(&left)).unwrap();
        for (number, keyspace) in keyspaces(&db, HashedForm::Silt).iter().enumerate() {
            let count = if number == kind { RECORDS + MORE } else { RECORDS };
            assert_eq!(keyspace.unordered().count(), count as usize);
        }
        db.compact().unwrap();
        assert_eq!(db.check().unwrap(), [""; 0]);
        assert!(written(&db) > before, "it takes data again");
    }
}

#[test]
fn what_cannot_be_written_to_a_tier_is_written_to_another() {
    let mut forms = FORMS.into_iter().cycle();
    for operation in [
        DeviceOperation::Write,
        DeviceOperation::Sync,
        DeviceOperation::Grow,
    ] {
        for sticky in [false, true] {
            let form = forms.next().unwrap();
            let machine = SimDirectory::new(2);
            let (db, all) = filled(&machine, form);
            let before = written(&db);
            let fault = InjectedFault::failing(operation).on(FILE);
            machine.inject(if sticky { fault.sticky() } else { fault });
            for keyspace in &all {
                for number in RECORDS..4 * RECORDS {
                    keyspace.put(number.to_be_bytes(), value_of(number)).unwrap();
                }
            }
            let context = format!("{operation}, sticky: {sticky}");
            db.compact().unwrap();
            assert!(fails(&db), "{context}");
            let failure = db.stats().tiers[1].failure.clone().unwrap();
            assert!(failure.contains("fails at writing"), "{failure}");
            let first = db.stats().tiers[0].space.live_bytes;
            assert!(
                first > before,
                "{context}: all that is new lies on the first tier, {first} bytes"
            );
            is_whole(&db, &all, 4 * RECORDS);
            db.close().unwrap();
            machine.clear_faults();
            // Reopening the store puts the tier back into use.
            let db = options().open_existing_in(tiers_of(&machine)).unwrap();
            assert!(!fails(&db), "{context}");
            is_whole(&db, &keyspaces(&db, form), 4 * RECORDS);
            db.compact().unwrap();
            assert!(written(&db) > before, "{context}");
        }
    }
}

#[test]
fn a_tier_that_still_fails_is_not_used_again() {
    let machine = SimDirectory::new(3);
    let (db, all) = filled(&machine, HashedForm::Silt);
    machine.inject(InjectedFault::failing(DeviceOperation::Sync).on(FILE).sticky());
    all[0].put("more", value_of(1)).unwrap();
    db.compact().unwrap();
    assert!(fails(&db));
    let error = db.use_tier_in(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(fails(&db));
    machine.clear_faults();
    db.use_tier_in(1).unwrap();
    assert!(!fails(&db));
    db.compact().unwrap();
    assert_eq!(db.check().unwrap(), [""; 0]);
}

#[test]
fn a_directory_that_goes_away_takes_nothing_new_and_is_not_missed_by_the_others() {
    let (_place, [fast, one, ..]) = places();
    let db = with(&[&one]).open(&fast).unwrap();
    let keyspace = db.keyspace("k").unwrap();
    for number in 0..2000u32 {
        keyspace.put(number.to_be_bytes(), value_of(number)).unwrap();
    }
    db.compact().unwrap();
    assert!(written(&db) > 0);
    let removed = Command::new("rm").arg("-r").arg(&one).status().unwrap();
    assert!(removed.success());
    keyspace.put("a", "b").unwrap();
    db.checkpoint().unwrap();
    let failure = db.stats().tiers[1].failure.clone().unwrap();
    assert!(
        failure.contains("was removed") && failure.contains(&one.display().to_string()),
        "{failure}"
    );
    // The removed file is still open, so its data can be read and rewritten to the first tier.
    db.compact().unwrap();
    assert_eq!(keyspace.iter().count(), 2001);
    assert!(db.use_tier(&one).is_err());
    assert_eq!(db.stats().tiers[1].space.live_bytes, 0);
    assert_eq!(db.stats().tiers.len(), 2);
    drop(db);
    let text = small().open(&fast).unwrap_err().to_string();
    assert!(text.contains("one is not tier 1"), "{text}");
}

/// What follows the fault in a run of the fault story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// A power loss.
    Nothing,
    /// `use_tier` puts the tier back into use.
    Use,
    /// The store is reopened.
    Reopen,
}

/// A run: which call of the second tier's device fails, and what follows.
#[derive(Clone, Copy, Debug)]
struct Run {
    seed: u64,
    operation: DeviceOperation,
    call: u64,
    is_sticky: bool,
    form: HashedForm,
    after: After,
    survival: CrashSurvival,
}

type Pairs = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

/// A store and its acknowledged durable contents.
struct Life {
    db: Db,
    all: [Keyspace; KINDS],
    held: Pairs,
    random: fastrand::Rng,
    run: Run,
}

impl Life {
    fn commit(&mut self) {
        let mut batch = WriteBatch::new().durability(Durability::Disk);
        for _ in 0..self.random.usize(1..6) {
            let kind = self.random.usize(..KINDS);
            let key = self.random.u32(..300).to_be_bytes();
            if self.random.u8(..5) == 0 {
                batch.delete(&self.all[kind], key).unwrap();
                self.held.remove(&(kind, key.to_vec()));
            } else {
                let value = vec![self.random.u8(..); self.random.usize(10..220)];
                batch.put(&self.all[kind], key, &value).unwrap();
                self.held.insert((kind, key.to_vec()), value);
            }
        }
        // The first tier works, so every commit succeeds.
        let written = self.db.write(&batch);
        written.unwrap_or_else(|error| panic!("{:?}: a commit: {error}", self.run));
    }

    fn read(&mut self) {
        let (kind, key) = (self.random.usize(..KINDS), self.random.u32(..300).to_be_bytes());
        match self.all[kind].get(key) {
            Ok(found) => assert_eq!(
                found.as_deref(),
                self.held.get(&(kind, key.to_vec())).map(|value| &value[..]),
                "{:?}",
                self.run
            ),
            Err(error) => self.is_of_the_tier(&error),
        }
    }

    fn is_of_the_tier(&self, error: &Error) {
        assert_eq!(
            simulation::failing_tier(error),
            Some(1),
            "{:?}: {error}",
            self.run
        );
    }

    fn step(&mut self) {
        match self.random.u8(..10) {
            0..6 => self.commit(),
            6 => self.read(),
            7 => {
                let worked = self.db.work();
                worked.unwrap_or_else(|error| panic!("{:?}: work: {error}", self.run));
            }
            8 => {
                if let Err(error) = self.db.compact() {
                    self.is_of_the_tier(&error);
                }
            }
            _ => self
                .db
                .checkpoint()
                .unwrap_or_else(|error| panic!("{:?}: {error}", self.run)),
        }
    }

    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step();
        }
    }

    fn write_on(&mut self, commits: usize) {
        for _ in 0..commits {
            self.commit();
            let worked = self.db.work();
            worked.unwrap_or_else(|error| panic!("{:?}: work: {error}", self.run));
        }
    }

    fn compare(&self) {
        let mut found = Pairs::new();
        for (kind, keyspace) in self.all.iter().enumerate() {
            let pairs = keyspace
                .unordered()
                .map(|pair| pair.unwrap_or_else(|error| panic!("{:?}: {error}", self.run)));
            found.extend(pairs.map(|(key, value)| ((kind, key), value.into_vec())));
        }
        assert!(
            found == self.held,
            "{:?}: acknowledged and lost, or never written",
            self.run
        );
        assert_eq!(self.db.check().unwrap(), [""; 0], "{:?}", self.run);
    }
}

/// Returns whether the fault occurred.
fn live(run: Run) -> bool {
    let mut machine = SimDirectory::new(run.seed);
    let db = options().create_in(tiers_of(&machine)).unwrap();
    let mut life = Life {
        all: keyspaces(&db, run.form),
        db,
        held: Pairs::new(),
        random: fastrand::Rng::with_seed(run.seed),
        run,
    };
    life.steps(60);
    let fault = InjectedFault::failing(run.operation).on(FILE).at(run.call);
    machine.inject(if run.is_sticky { fault.sticky() } else { fault });
    life.steps(60);
    if run.operation == DeviceOperation::Read && run.is_sticky {
        // Compactions continue despite the unreadable tier.
        life.write_on(250);
    }
    let is_met = machine.faults_hit() > 0;
    match run.after {
        After::Nothing => {}
        After::Use => {
            machine.clear_faults();
            let used = life.db.use_tier_in(1);
            used.unwrap_or_else(|error| panic!("{run:?}: {error}"));
            life.compare();
            life.steps(30);
        }
        After::Reopen => {
            life.db.abandon();
            // The process dies, but the machine keeps running and retains its page cache.
            machine = machine.image(CrashSurvival::Process, run.seed);
            life.db = options().open_existing_in(tiers_of(&machine)).unwrap();
            life.all = keyspaces(&life.db, run.form);
            life.compare();
            life.steps(30);
        }
    }
    let left = machine.image(run.survival, run.seed);
    life.db.abandon();
    life.db = options().open_existing_in(tiers_of(&left)).unwrap();
    life.all = keyspaces(&life.db, run.form);
    life.compare();
    life.db.abandon();
    is_met
}

#[test]
fn a_store_with_a_failing_tier_loses_nothing_that_it_acknowledged() {
    let first = number("ALLUVIUM_TIER_FAULTS_SEED", 1);
    let (mut runs, mut met) = (0u64, 0u64);
    for seed in first..first + number("ALLUVIUM_TIER_FAULTS", 1) {
        for operation in [
            DeviceOperation::Read,
            DeviceOperation::Write,
            DeviceOperation::Sync,
            DeviceOperation::Grow,
            DeviceOperation::PunchHole,
            DeviceOperation::Truncate,
        ] {
            for (call, is_sticky) in [(1, true), (2, false), (5, true), (9, false)] {
                for after in [After::Nothing, After::Use, After::Reopen] {
                    let survival = CrashSurvival::POWER_LOSS[(runs % 4) as usize];
                    let seed = seed.wrapping_mul(1000) + runs;
                    let run = Run {
                        seed,
                        operation,
                        call,
                        is_sticky,
                        form: FORMS[runs as usize / 4 % FORMS.len()],
                        after,
                        survival,
                    };
                    runs += 1;
                    met += u64::from(live(run));
                }
            }
        }
    }
    println!("{runs} runs, of which {met} met their fault");
    assert!(met * 3 > runs, "{met} of {runs} runs met their fault");
}
