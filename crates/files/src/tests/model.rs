//! Random operations and transactions, compared with a file system in plain collections.

use super::generate::operation;
use super::perform::{FileOperation, OperationOutcome, perform};
use super::reference::{ReferenceFiles, ViewState};
use super::{order, stepping_options};
use crate::{ErrorKind, Files, FilesTransaction, Inode};
use alluvium::simulation::DirectoryOpener;
use alluvium::{Concurrency, Db, Isolation, Options, TransactionOptions};
use alluvium_device::simulated::SimDirectory;
use alluvium_sim::environment::effort;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// An open transaction with what it should see and what it has done.
struct ModelTransaction {
    transaction: FilesTransaction,
    reference: ReferenceFiles,
    log: Vec<(FileOperation, OperationOutcome)>,
    /// Whether its reads are isolated from the commits of others.
    is_serializable: bool,
    is_locking: bool,
    /// Whether a lock could not be had.
    is_lost: bool,
}

struct ModelRun {
    random: Rng,
    directory: Arc<SimDirectory>,
    db: Db,
    files: Files,
    reference: ReferenceFiles,
    open: Vec<ModelTransaction>,
    layout: (u32, u32, u64),
    conflicts: u32,
    commits: u32,
}

impl ModelRun {
    fn new(seed: u64, layout: (u32, u32, u64)) -> ModelRun {
        let directory = Arc::new(SimDirectory::new(seed));
        let (db, files) = ModelRun::open(&directory, layout);
        ModelRun {
            random: Rng::with_seed(seed),
            directory,
            db,
            files,
            reference: ReferenceFiles::new(),
            open: Vec::new(),
            layout,
            conflicts: 0,
            commits: 0,
        }
    }

    fn open(directory: &Arc<SimDirectory>, layout: (u32, u32, u64)) -> (Db, Files) {
        let options = Options::new().memory(16 << 20).workers(1);
        let db = options.open_in(Arc::clone(directory) as Arc<_>).unwrap();
        let options = stepping_options(layout.0, layout.1).order(order(layout.2));
        let files = Files::open_with(&db, "model", &options).unwrap();
        (db, files)
    }

    fn step(&mut self) {
        match self.random.u8(..100) {
            0..3 if self.open.len() < 2 => self.begin(),
            0..50 if !self.open.is_empty() => self.step_in_transaction(),
            50..53 if !self.open.is_empty() => self.end_transaction(),
            _ => self.step_alone(),
        }
    }

    fn step_alone(&mut self) {
        // A single operation would wait for the locks of a transaction of this thread.
        if self.open.iter().any(|open| open.is_locking) {
            return;
        }
        let operation = operation(&mut self.random, &self.reference);
        let actual = perform(&self.files, &operation);
        let expected = self.reference.perform(&operation, &actual);
        assert_eq!(actual, expected, "{operation:?}");
    }

    fn begin(&mut self) {
        let concurrency = match self.random.u8(..3) {
            0 => Concurrency::Locking,
            _ => Concurrency::Optimistic,
        };
        let isolation = match self.random.u8(..3) {
            0 => Isolation::Snapshot,
            _ => Isolation::Serializable,
        };
        let mut options = TransactionOptions::new()
            .concurrency(concurrency)
            .isolation(isolation)
            .lock_timeout(Duration::from_millis(1));
        if self.random.bool() {
            options = options.memory(8 << 10);
        }
        self.open.push(ModelTransaction {
            transaction: self.files.begin_with(&options),
            reference: self.seen_by_new_transaction(),
            log: Vec::new(),
            is_serializable: isolation == Isolation::Serializable,
            is_locking: concurrency == Concurrency::Locking,
            is_lost: false,
        });
    }

    fn seen_by_new_transaction(&self) -> ReferenceFiles {
        let mut reference = self.reference.clone();
        // Inodes that only others hold remain visible.
        for inode in reference.nodes.keys() {
            *reference.other_holds.entry(*inode).or_default() += 1;
        }
        reference.view = ViewState {
            created: Some(BTreeSet::new()),
            holds: BTreeMap::new(),
        };
        reference
    }

    /// A locking serializable transaction sees what others commit. Its locks protect what it has
    /// seen.
    fn show_commit_to_locking_transactions(&mut self) {
        let seen = self.seen_by_new_transaction();
        for open in &mut self.open {
            if open.is_locking && open.is_serializable && !open.is_lost {
                open.reference = seen.clone();
                for (operation, actual) in &open.log {
                    let again = open.reference.perform(operation, actual);
                    assert_eq!(&again, actual, "{operation:?} under locks");
                }
            }
        }
    }

    fn step_in_transaction(&mut self) {
        let index = self.random.usize(..self.open.len());
        let open = &mut self.open[index];
        if open.is_lost {
            return;
        }
        let operation = operation(&mut self.random, &open.reference);
        let actual = perform(&open.transaction, &operation);
        if actual == OperationOutcome::Fails(ErrorKind::Conflict) {
            open.is_lost = true;
            return;
        }
        let expected = open.reference.perform(&operation, &actual);
        assert_eq!(actual, expected, "{operation:?} in a transaction");
        if let (FileOperation::Hold(inode), OperationOutcome::Done) = (&operation, &actual) {
            *self.reference.other_holds.entry(*inode).or_default() += 1;
        }
        open.log.push((operation, actual));
    }

    fn end_transaction(&mut self) {
        // The commits of others wait for the locks of a locking transaction.
        let locking = self.open.iter().position(|open| open.is_locking);
        let index = locking.unwrap_or_else(|| self.random.usize(..self.open.len()));
        let open = self.open.swap_remove(index);
        let has_written = open.transaction.changed() > 0;
        let is_committed = match open.is_lost || self.random.u8(..4) == 0 {
            true => {
                open.transaction.rollback();
                false
            }
            false => match open.transaction.commit() {
                Ok(()) => true,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                    self.conflicts += 1;
                    false
                }
            },
        };
        if is_committed {
            self.commits += 1;
            // What has only read stands where it began.
            if has_written {
                self.replay(&open);
            }
        }
        for (operation, actual) in &open.log {
            if let (FileOperation::Hold(inode), OperationOutcome::Done) = (operation, actual) {
                let count = self.reference.other_holds.get_mut(inode).unwrap();
                *count -= 1;
                if *count == 0 {
                    self.reference.other_holds.remove(inode);
                }
            }
        }
        self.reference.remove_all_unneeded();
        if is_committed {
            self.show_commit_to_locking_transactions();
        }
    }

    /// Repeats a committed transaction where it stands in the serial order: every operation must
    /// return the same again.
    fn replay(&mut self, open: &ModelTransaction) {
        let own = std::mem::replace(
            &mut self.reference.view,
            ViewState {
                created: Some(BTreeSet::new()),
                holds: BTreeMap::new(),
            },
        );
        for (operation, actual) in &open.log {
            let again = self.reference.perform(operation, actual);
            let is_read = !changes(operation);
            if open.is_serializable || !is_read {
                assert_eq!(&again, actual, "{operation:?} would return something else now");
            }
        }
        self.reference.view = own;
        // What the transaction held is released, and removed if it has no name.
        self.reference.remove_all_unneeded();
    }

    fn verify(&mut self) {
        if self.open.iter().all(|open| !open.is_locking) {
            self.reference.compare(&self.files);
        }
        let report = self.files.check().unwrap();
        assert!(report.is_whole(), "{report}");
        for open in &self.open {
            if !open.is_lost && !open.is_locking {
                open.reference.compare(&open.transaction);
            }
        }
    }

    fn reopen(&mut self) {
        while !self.open.is_empty() {
            self.end_transaction();
        }
        let inodes: Vec<Inode> = self.reference.view.holds.keys().copied().collect();
        let snapshot = self.files.freeze();
        self.reference.compare(&snapshot);
        drop(snapshot);
        // The process ends while it holds inodes.
        for inode in inodes {
            self.reference.view.holds.remove(&inode);
        }
        self.reference.remove_all_unneeded();
        let nothing = Arc::new(SimDirectory::new(0));
        let (db, files) = ModelRun::open(&nothing, self.layout);
        drop(std::mem::replace(&mut self.files, files));
        std::mem::replace(&mut self.db, db).close().unwrap();
        (self.db, self.files) = ModelRun::open(&self.directory, self.layout);
    }
}

pub(super) fn changes(operation: &FileOperation) -> bool {
    !matches!(
        operation,
        FileOperation::Lookup(..)
            | FileOperation::Attributes(..)
            | FileOperation::Parent(..)
            | FileOperation::Read(..)
            | FileOperation::Seek(..)
            | FileOperation::List(..)
            | FileOperation::GetExtended(..)
            | FileOperation::ListExtended(..)
            | FileOperation::Hold(..)
            | FileOperation::Release(..)
    )
}

#[test]
fn files_are_as_a_simple_model_says() {
    let (mut conflicts, mut commits) = (0, 0);
    let layouts = [(512, 100), (512, 0), (4096, 2048), (1024, 1024)];
    for seed in 0..effort(8, 200) {
        println!("seed {seed}");
        let (block, inline) = layouts[seed as usize % layouts.len()];
        let mut run = ModelRun::new(seed, (block, inline, seed / 4));
        for segment in 0..6 {
            for _ in 0..250 {
                run.step();
            }
            run.verify();
            if segment % 2 == 1 {
                run.reopen();
                run.verify();
            }
        }
        conflicts += run.conflicts;
        commits += run.commits;
    }
    assert!(
        conflicts > 5 && commits > 20,
        "{conflicts} conflicts, {commits} commits"
    );
}
