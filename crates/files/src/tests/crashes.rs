//! Crashes at device operations: what is found afterwards is the state after some operation that
//! was not yet durable or the last durable one, whole, and never a part of an operation.

use super::generate::operation;
use super::perform::{FileOperation, OperationOutcome, perform};
use super::reference::{ReferenceFiles, ViewState};
use super::{order, stepping_options};
use crate::{ErrorKind, FileKind, FileSystem, Files, Inode};
use alluvium::simulation::{DirectoryOpener, StoreScale};
use alluvium::{Db, Durability, Options, TransactionOptions};
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_sim::environment::{number, points};
use fastrand::Rng;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Crash images that the gate judges.
const POINTS: u64 = 2500;

/// Operations of a run.
const STEPS: u32 = 250;

/// A file or directory as a crash test compares it.
pub(super) type DescribedFile = (Inode, FileKind, u32, Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>);

/// All files and directories, by their paths.
pub(super) type TreeDescription = BTreeMap<Vec<u8>, DescribedFile>;

pub(super) fn describe(files: &dyn FileSystem) -> TreeDescription {
    let mut found = TreeDescription::new();
    let mut open = vec![(Vec::new(), Inode::ROOT)];
    while let Some((path, inode)) = open.pop() {
        let attributes = files.attributes(inode).unwrap();
        let contents = match attributes.kind {
            FileKind::Regular => files.read(inode, 0, attributes.size as usize).unwrap(),
            FileKind::Symlink => files.read_link(inode).unwrap(),
            _ => Vec::new(),
        };
        let names = files.extended_attributes(inode).unwrap();
        let extended = names.into_iter().map(|name| {
            let value = files.extended_attribute(inode, &name).unwrap();
            (name, value)
        });
        let described = (
            inode,
            attributes.kind,
            attributes.mode,
            contents,
            extended.collect(),
        );
        if attributes.kind == FileKind::Directory {
            for entry in files.read_directory(inode, None, 1000).unwrap() {
                open.push(([&path[..], b"/", &entry.name].concat(), entry.inode));
            }
        }
        found.insert(path, described);
    }
    found
}

fn describe_reference(files: &ReferenceFiles) -> TreeDescription {
    let mut found = TreeDescription::new();
    let mut open = vec![(Vec::new(), Inode::ROOT)];
    while let Some((path, inode)) = open.pop() {
        let node = &files.nodes[&inode];
        let described = (
            inode,
            node.kind,
            node.mode,
            node.contents.clone(),
            node.extended.clone(),
        );
        for (name, inode) in &node.entries {
            open.push(([&path[..], b"/", name].concat(), *inode));
        }
        found.insert(path, described);
    }
    found
}

/// Images of the device, taken while an operation runs.
#[derive(Default)]
pub(super) struct TakenImages {
    pub(super) images: Vec<(CrashSurvival, SimDirectory)>,
    pub(super) random: Option<Rng>,
}

/// Takes images of a device while `random` is set.
pub(super) fn take_images(directory: &SimDirectory) -> Arc<Mutex<TakenImages>> {
    let taken = Arc::new(Mutex::new(TakenImages::default()));
    let taker = Arc::clone(&taken);
    directory.on_operation(move |point| {
        let mut taken = taker.lock();
        let TakenImages { images, random } = &mut *taken;
        let Some(random) = random else { return };
        if images.len() < 8 && random.u8(..6) == 0 {
            let survival = CrashSurvival::ALL[random.usize(..CrashSurvival::ALL.len())];
            images.push((survival, point.image(survival, random.u64(..))));
        }
    });
    taken
}

struct CrashRun {
    seed: u64,
    random: Rng,
    directory: SimDirectory,
    taken: Arc<Mutex<TakenImages>>,
    db: Db,
    files: Files,
    reference: ReferenceFiles,
    /// States that a crash may leave: the last durable one and those after it.
    states: Vec<TreeDescription>,
    judged: u64,
    distinct: BTreeSet<usize>,
}

fn options(seed: u64) -> Options {
    let scale = StoreScale::small(u128::from(seed) + 1, 24 << 10, 384 << 10);
    Options::new().simulated(scale, || 1_000)
}

pub(super) fn open(directory: &SimDirectory, seed: u64) -> (Db, Files) {
    let db = options(seed).open_in(Arc::new(directory.clone())).unwrap();
    let files = reopen(&db, seed);
    (db, files)
}

/// Opens the file system, or creates it.
pub(super) fn reopen(db: &Db, seed: u64) -> Files {
    let options = stepping_options(512, 200).order(order(seed));
    Files::open_with(db, "crashed", &options).unwrap()
}

impl CrashRun {
    fn new(seed: u64) -> CrashRun {
        let directory = SimDirectory::new(seed);
        let (db, files) = open(&directory, seed);
        let reference = ReferenceFiles::new();
        let taken = take_images(&directory);
        CrashRun {
            seed,
            random: Rng::with_seed(seed),
            directory,
            taken,
            db,
            files,
            states: vec![describe_reference(&reference)],
            reference,
            judged: 0,
            distinct: BTreeSet::new(),
        }
    }

    fn run(&mut self) {
        self.taken.lock().random = Some(Rng::with_seed(self.seed));
        for _ in 0..STEPS {
            let is_durable = match self.random.u8(..20) {
                0 => self.transaction(),
                1 => {
                    self.files.sync().unwrap();
                    true
                }
                2 => {
                    self.db.work().unwrap();
                    false
                }
                3 if self.random.u8(..5) == 0 => {
                    self.db.checkpoint().unwrap();
                    false
                }
                _ => {
                    let operation = operation(&mut self.random, &self.reference);
                    let actual = perform(&self.files, &operation);
                    let expected = self.reference.perform(&operation, &actual);
                    assert_eq!(actual, expected, "{operation:?}");
                    false
                }
            };
            let completed = self.states.len() - 1;
            let state = describe_reference(&self.reference);
            if self.states.last() != Some(&state) {
                self.states.push(state);
            }
            self.judge_all(completed);
            if is_durable {
                self.states.drain(..self.states.len() - 1);
            }
        }
        self.taken.lock().random = None;
        self.directory.clear_hook();
    }

    /// Runs a transaction, and returns whether its commit is durable.
    fn transaction(&mut self) -> bool {
        let options = match self.random.u8(..3) {
            0 => TransactionOptions::new().memory(2 << 10),
            _ => TransactionOptions::new(),
        };
        let transaction = self.files.begin_with(&options);
        let mut reference = self.reference.clone();
        for inode in reference.nodes.keys() {
            *reference.other_holds.entry(*inode).or_default() += 1;
        }
        let own = std::mem::replace(
            &mut reference.view,
            ViewState {
                created: Some(BTreeSet::new()),
                holds: BTreeMap::new(),
            },
        );
        for _ in 0..self.random.u8(1..25) {
            let operation = operation(&mut self.random, &reference);
            if matches!(operation, FileOperation::Hold(_) | FileOperation::Release(_)) {
                continue;
            }
            let actual = perform(&transaction, &operation);
            assert_ne!(actual, OperationOutcome::Fails(ErrorKind::Conflict));
            assert_eq!(reference.perform(&operation, &actual), actual, "{operation:?}");
        }
        if self.random.u8(..4) == 0 {
            transaction.rollback();
            return false;
        }
        // A transaction without writes has nothing to wait for.
        let is_durable = self.random.bool() && transaction.changed() > 0;
        match is_durable {
            true => transaction.commit_with(Durability::Disk).unwrap(),
            false => transaction.commit().unwrap(),
        }
        reference.view = own;
        reference.other_holds = self.reference.other_holds.clone();
        reference.remove_all_unneeded();
        self.reference = reference;
        is_durable
    }

    /// Judges the images taken in the last step. Before it, `completed` was the newest state.
    fn judge_all(&mut self, completed: usize) {
        let images = std::mem::take(&mut self.taken.lock().images);
        for (survival, image) in images {
            self.judge(survival, &image, completed);
        }
    }

    fn judge(&mut self, survival: CrashSurvival, image: &SimDirectory, completed: usize) {
        let (db, files) = open(image, self.seed);
        let found = describe(&files);
        // What was acknowledged survives the end of the process.
        let from = if survival == CrashSurvival::Process {
            completed
        } else {
            0
        };
        let legal = self.states[from..].iter().position(|state| *state == found);
        let Some(legal) = legal else {
            let paths = |state: &TreeDescription| state.keys().cloned().collect::<Vec<_>>();
            panic!(
                "seed {}, {survival:?}: the files are of no legal state; paths found {:?}, expected {:?} or one of {} before",
                self.seed,
                paths(&found),
                self.states.last().map(paths),
                self.states.len() - 1,
            );
        };
        self.distinct.insert(self.states.len() - legal - from);
        let report = files.check().unwrap();
        assert!(report.is_whole(), "seed {}, {survival:?}: {report}", self.seed);
        assert_eq!(report.orphans, 0, "the opening removes orphans");
        let used = files
            .create(Inode::ROOT, b"new", &super::node(FileKind::Regular))
            .unwrap();
        assert!(
            found.values().all(|(inode, ..)| *inode != used.inode),
            "an inode number is used twice"
        );
        drop(files);
        db.close().unwrap();
        self.judged += 1;
    }
}

#[test]
fn no_crash_leaves_a_part_of_an_operation() {
    let points = points(POINTS);
    let mut seed = number("ALLUVIUM_SIM_SEED", 1);
    let (mut judged, mut distinct) = (0, BTreeSet::new());
    while judged < points {
        let mut run = CrashRun::new(seed);
        run.run();
        judged += run.judged;
        distinct.extend(run.distinct);
        seed += 1;
    }
    println!("{judged} crashes in {seed} runs, {} distances", distinct.len());
    assert!(distinct.len() > 5, "{distinct:?}");
}
