//! Crashes at device operations while branches and snapshots begin, change and end, and while the
//! file system is removed. What is found afterwards is the state after some step: the files and all
//! branches and snapshots of one moment, each of them whole.

use crate::tests::crashes::{TakenImages, TreeDescription, describe, open, reopen, take_images};
use crate::tests::node;
use crate::{
    AttributeChange, ErrorKind, FileKind, FileSystem, Files, Inode, RenameMode, SetMode, WritePosition,
};
use alluvium::Db;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_sim::environment::{number, points};
use fastrand::Rng;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Crash images that the gate judges.
const POINTS: u64 = 600;

/// Steps of a run.
const STEPS: u32 = 200;

const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// The files, and each branch and snapshot of them, without a name or by its name.
type StoreDescription = BTreeMap<String, TreeDescription>;

fn describe_all(files: &Files) -> StoreDescription {
    let mut found = BTreeMap::from([(String::new(), describe(files))]);
    for branch in files.branches().unwrap() {
        let view = files.open_branch(&branch.name).unwrap();
        found.insert(branch.name, describe(&view));
    }
    for name in files.snapshots() {
        let view = files.open_snapshot(&name).unwrap();
        found.insert(format!("snapshot {name}"), describe(&view));
    }
    found
}

struct BranchCrashRun {
    seed: u64,
    random: Rng,
    directory: SimDirectory,
    taken: Arc<Mutex<TakenImages>>,
    db: Db,
    files: Files,
    next: u32,
    /// States that a crash may leave: the last durable one and those after it.
    states: Vec<StoreDescription>,
    judged: u64,
    ends: u32,
    removals: u32,
    distinct: BTreeSet<usize>,
}

impl BranchCrashRun {
    fn new(seed: u64) -> BranchCrashRun {
        let directory = SimDirectory::new(seed);
        let (db, files) = open(&directory, seed);
        BranchCrashRun {
            seed,
            random: Rng::with_seed(seed),
            taken: take_images(&directory),
            directory,
            db,
            states: vec![describe_all(&files)],
            files,
            next: 0,
            judged: 0,
            ends: 0,
            removals: 0,
            distinct: BTreeSet::new(),
        }
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            self.taken.lock().random = Some(Rng::with_seed(self.random.u64(..)));
            let is_durable = self.step();
            self.taken.lock().random = None;
            let completed = self.states.len() - 1;
            let state = describe_all(&self.files);
            if self.states.last() != Some(&state) {
                self.states.push(state);
            }
            let images = std::mem::take(&mut self.taken.lock().images);
            for (survival, image) in images {
                self.judge(survival, &image, completed);
            }
            if is_durable {
                self.states.drain(..self.states.len() - 1);
            }
        }
        self.directory.clear_hook();
    }

    /// Takes a step, and returns whether its result is durable.
    fn step(&mut self) -> bool {
        let branches: Vec<String> = self
            .files
            .branches()
            .unwrap()
            .into_iter()
            .map(|found| found.name)
            .collect();
        let any = |random: &mut Rng| {
            (!branches.is_empty()).then(|| branches[random.usize(..branches.len())].clone())
        };
        match self.random.u8(..44) {
            40 | 41 => self.step_snapshots(),
            42 if self.random.u8(..3) == 0 => self.step_removal(),
            0 | 1 if branches.len() < 3 => {
                self.next += 1;
                let parent = any(&mut self.random).filter(|_| self.random.bool());
                let name = format!("branch{}", self.next);
                let begun = self.files.begin_branch(&name, parent.as_deref());
                // A branch of a branch has none.
                begun.is_ok()
            }
            2..5 if !branches.is_empty() => {
                let name = any(&mut self.random).unwrap();
                self.end(&name)
            }
            5 => {
                self.files.sync().unwrap();
                true
            }
            6 => {
                self.db.work().unwrap();
                false
            }
            7 if self.random.u8(..3) == 0 => {
                self.db.checkpoint().unwrap();
                false
            }
            8..15 => {
                change(&mut self.random, &self.files);
                false
            }
            _ => {
                match any(&mut self.random) {
                    Some(name) => change(&mut self.random, &self.files.open_branch(&name).unwrap()),
                    None => change(&mut self.random, &self.files),
                }
                false
            }
        }
    }

    /// Creates a snapshot, or removes one.
    fn step_snapshots(&mut self) -> bool {
        let names = self.files.snapshots();
        if names.len() > 1 {
            let name = &names[self.random.usize(..names.len())];
            self.files.remove_snapshot(name).unwrap();
        } else {
            self.next += 1;
            drop(self.files.create_snapshot(&format!("s{}", self.next)).unwrap());
        }
        false
    }

    /// Removes the file system with its branches and snapshots, and creates an empty one.
    fn step_removal(&mut self) -> bool {
        Files::remove(&self.db, self.files.name()).unwrap();
        self.removals += 1;
        self.files = reopen(&self.db, self.seed);
        true
    }

    fn end(&mut self, name: &str) -> bool {
        let ended = match self.random.u8(..5) {
            0 => self.files.abort_branch(name),
            _ => self.files.commit_branch(name),
        };
        match ended {
            Ok(()) => {
                self.ends += 1;
                true
            }
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.files.abort_branch(name).unwrap();
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                false
            }
        }
    }

    fn judge(&mut self, survival: CrashSurvival, image: &SimDirectory, completed: usize) {
        let (db, files) = open(image, self.seed);
        let found = describe_all(&files);
        // What was acknowledged survives the end of the process.
        let from = if survival == CrashSurvival::Process {
            completed
        } else {
            0
        };
        let legal = self.states[from..].iter().position(|state| *state == found);
        let Some(legal) = legal else {
            let names = |state: &StoreDescription| {
                let names = state
                    .iter()
                    .map(|(name, tree)| (name.clone(), tree.keys().cloned().collect::<Vec<_>>()));
                names.collect::<Vec<_>>()
            };
            panic!(
                "seed {}, {survival:?}: no legal state; found {:?}, expected {:?} or one of {} before",
                self.seed,
                names(&found),
                self.states.last().map(names),
                self.states.len() - 1 - from,
            );
        };
        self.distinct.insert(self.states.len() - legal - from);
        let verify = || {
            let report = files.check().unwrap();
            assert!(report.is_whole(), "seed {}, {survival:?}: {report}", self.seed);
        };
        verify();
        // Everything goes on: a new branch begins, and all others end.
        files.begin_branch("last", None).unwrap();
        change(&mut self.random, &files.open_branch("last").unwrap());
        let mut left = files.branches().unwrap();
        left.sort_by_key(|branch| branch.parent.is_none());
        for branch in left {
            match files.commit_branch(&branch.name) {
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    files.abort_branch(&branch.name).unwrap();
                }
                ended => ended.unwrap(),
            }
        }
        verify();
        // None is left but the named ones.
        assert_eq!(
            db.snapshots().len(),
            files.snapshots().len(),
            "{:?}",
            db.snapshots()
        );
        drop(files);
        db.close().unwrap();
        self.judged += 1;
    }
}

/// Changes files by one operation, which may fail.
fn change(random: &mut Rng, files: &dyn FileSystem) {
    let mut directories = vec![Inode::ROOT];
    let mut others = vec![Inode::ROOT];
    for entry in files.read_directory(Inode::ROOT, None, 100).unwrap() {
        match entry.kind {
            FileKind::Directory => {
                directories.push(entry.inode);
                let within = files.read_directory(entry.inode, None, 100).unwrap();
                others.extend(within.into_iter().map(|entry| entry.inode));
            }
            _ => others.push(entry.inode),
        }
    }
    let mut directory = || directories[random.usize(..directories.len())];
    let (from, to) = (directory(), directory());
    let [name, other] = [(), ()].map(|()| NAMES[random.usize(..NAMES.len())]);
    let inode = others[random.usize(..others.len())];
    let bytes = vec![random.u8(1..); random.usize(..1500)];
    let _ = match random.u8(..12) {
        0..2 => files.create(from, name, &node(FileKind::Directory)).map(drop),
        2..5 => files.create(from, name, &node(FileKind::Regular)).map(drop),
        5 => files.unlink(from, name),
        6 => files.remove_directory(from, name),
        7 => files.rename(from, name, to, other, RenameMode::Replace),
        8 => files.link(inode, to, name).map(drop),
        9 => files.set_extended_attribute(inode, b"user.a", &bytes[..bytes.len().min(90)], SetMode::Any),
        10 => {
            let change = AttributeChange {
                size: Some(random.u64(..2000)),
                ..AttributeChange::default()
            };
            files.set_attributes(inode, &change).map(drop)
        }
        _ => files
            .write(inode, WritePosition::At(random.u64(..1500)), &bytes)
            .map(drop),
    };
}

#[test]
fn no_crash_leaves_a_part_of_a_commit_of_a_branch() {
    let points = points(POINTS);
    let mut seed = number("ALLUVIUM_SIM_SEED", 1);
    let (mut judged, mut ends, mut removals, mut distinct) = (0, 0, 0, BTreeSet::new());
    while judged < points {
        let mut run = BranchCrashRun::new(seed);
        run.run();
        judged += run.judged;
        ends += run.ends;
        removals += run.removals;
        distinct.extend(run.distinct);
        seed += 1;
    }
    println!(
        "{judged} crashes in {seed} runs, {ends} ends, {} distances",
        distinct.len()
    );
    assert!(
        distinct.len() > 4 && ends > 10 && removals > 0,
        "{distinct:?}, {ends}, {removals}"
    );
}
