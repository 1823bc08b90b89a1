//! Random operations in branches and beside them, compared with file systems in plain collections.

use crate::tests::generate::operation;
use crate::tests::model::changes;
use crate::tests::perform::{FileOperation, OperationOutcome, perform};
use crate::tests::reference::{ReferenceFiles, ViewState};
use crate::tests::{order, stepping_options};
use crate::{ContentOrder, ErrorKind, Files, FilesBranch, Inode, PathChangeKind};
use alluvium::simulation::DirectoryOpener;
use alluvium::{Db, Options};
use alluvium_device::simulated::SimDirectory;
use alluvium_sim::environment::effort;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Changes that were made, in order, with their outcomes.
type ChangeRecord = Vec<(FileOperation, OperationOutcome)>;

/// A branch with what it should show.
struct ModelBranch {
    parent: Option<String>,
    view: Option<FilesBranch>,
    /// What it began with, and what it shows now.
    base: ReferenceFiles,
    reference: ReferenceFiles,
    changes: ChangeRecord,
    /// Number of changes below it when it began.
    began_at: u64,
    /// Number of changes in it, for its branches.
    changed: u64,
}

struct BranchRun {
    random: Rng,
    directory: Arc<SimDirectory>,
    db: Db,
    files: Files,
    reference: ReferenceFiles,
    changed: u64,
    branches: BTreeMap<String, ModelBranch>,
    /// What the named snapshots show.
    snapshots: BTreeMap<String, ReferenceFiles>,
    next: u32,
    commits: u32,
    inner_commits: u32,
    conflicts: u32,
}

/// Returns what a branch that begins now shows. Nothing of it goes before the commit.
fn begun(reference: &ReferenceFiles) -> ReferenceFiles {
    let mut begun = reference.clone();
    for inode in reference.nodes.keys() {
        *begun.other_holds.entry(*inode).or_default() += 1;
    }
    begun.view = view_of_branch();
    begun
}

fn view_of_branch() -> ViewState {
    ViewState {
        created: Some(BTreeSet::new()),
        holds: BTreeMap::new(),
    }
}

impl BranchRun {
    fn new(seed: u64) -> BranchRun {
        let directory = Arc::new(SimDirectory::new(seed));
        let (db, files) = BranchRun::open(&directory, order(seed));
        BranchRun {
            random: Rng::with_seed(seed),
            directory,
            db,
            files,
            reference: ReferenceFiles::new(),
            changed: 0,
            branches: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            next: 0,
            commits: 0,
            inner_commits: 0,
            conflicts: 0,
        }
    }

    fn open(directory: &Arc<SimDirectory>, order: ContentOrder) -> (Db, Files) {
        let options = Options::new().memory(16 << 20).workers(1);
        let db = options.open_in(Arc::clone(directory) as Arc<_>).unwrap();
        let files = Files::open_with(&db, "model", &stepping_options(512, 100).order(order)).unwrap();
        (db, files)
    }

    fn step(&mut self) {
        match self.random.u8(..200) {
            0..8 if self.branches.len() < 4 => self.begin(),
            8..13 if !self.branches.is_empty() => self.end(),
            13..15 => self.close_views(),
            15 | 16 => self.step_snapshots(),
            17..40 => self.step_alone(),
            _ if !self.branches.is_empty() => self.step_in_branch(),
            _ => self.step_alone(),
        }
    }

    /// Creates a snapshot, or removes one.
    fn step_snapshots(&mut self) {
        if self.snapshots.len() > 2 {
            let index = self.random.usize(..self.snapshots.len());
            let name = self.snapshots.keys().nth(index).unwrap().clone();
            self.files.remove_snapshot(&name).unwrap();
            self.snapshots.remove(&name);
            return;
        }
        self.next += 1;
        // The names of branches and snapshots do not meet.
        let name = format!("branch{}", self.random.u32(..=self.next));
        match self.files.create_snapshot(&name) {
            Ok(snapshot) => {
                self.reference.compare(&snapshot);
                let replaced = self.snapshots.insert(name, self.reference.clone());
                assert!(replaced.is_none());
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
                assert!(self.snapshots.contains_key(&name));
            }
        }
    }

    /// Removes the file system with all that belongs to it, and creates an empty one.
    fn remove(&mut self) {
        self.close_views();
        Files::remove(&self.db, "model").unwrap();
        assert!(self.db.snapshots().is_empty(), "{:?}", self.db.snapshots());
        self.files = Files::open_with(&self.db, "model", &stepping_options(512, 100)).unwrap();
        self.reference = ReferenceFiles::new();
        self.changed = 0;
        self.branches.clear();
        self.snapshots.clear();
    }

    fn step_alone(&mut self) {
        let operation = operation(&mut self.random, &self.reference);
        let actual = perform(&self.files, &operation);
        let expected = self.reference.perform(&operation, &actual);
        assert_eq!(actual, expected, "{operation:?}");
        self.changed += u64::from(changes(&operation));
    }

    fn any(&mut self) -> String {
        let index = self.random.usize(..self.branches.len());
        self.branches.keys().nth(index).unwrap().clone()
    }

    fn begin(&mut self) {
        self.next += 1;
        let name = format!("branch{}", self.next);
        let parent = (!self.branches.is_empty() && self.random.u8(..3) == 0).then(|| self.any());
        let parent = parent.filter(|parent| self.branches[parent].parent.is_none());
        let begun = self.files.begin_branch(&name, parent.as_deref());
        begun.unwrap();
        let (base, began_at) = match &parent {
            None => (&self.reference, self.changed),
            Some(parent) => (&self.branches[parent].reference, self.branches[parent].changed),
        };
        let branch = ModelBranch {
            view: None,
            base: base.clone(),
            reference: self::begun(base),
            parent,
            changes: Vec::new(),
            began_at,
            changed: 0,
        };
        self.branches.insert(name, branch);
    }

    fn step_in_branch(&mut self) {
        let name = self.any();
        let branch = self.branches.get_mut(&name).unwrap();
        let view = branch
            .view
            .get_or_insert_with(|| self.files.open_branch(&name).unwrap());
        let operation = operation(&mut self.random, &branch.reference);
        let actual = perform(view, &operation);
        let expected = branch.reference.perform(&operation, &actual);
        assert_eq!(actual, expected, "{operation:?} in {name}");
        let is_done = !matches!(actual, OperationOutcome::Fails(_));
        if changes(&operation) {
            branch.changed += 1;
            if is_done {
                branch.changes.push((operation, actual));
            }
        }
    }

    /// Ends the views of branches, and with them what they hold.
    fn close_views(&mut self) {
        for name in self.branches.keys().cloned().collect::<Vec<_>>() {
            self.close(&name);
        }
    }

    fn close(&mut self, name: &str) {
        let branch = self.branches.get_mut(name).unwrap();
        if branch.view.take().is_some() {
            branch.reference.view.holds.clear();
            branch.reference.remove_all_unneeded();
        }
    }

    fn end(&mut self) {
        let name = self.any();
        if let Some(view) = &self.branches[&name].view {
            let busy = self.files.commit_branch(view.name()).unwrap_err();
            assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
        }
        self.close(&name);
        let is_outer = |branch: &ModelBranch| branch.parent.as_deref() == Some(&name);
        if self.branches.values().any(is_outer) {
            let busy = self.files.commit_branch(&name).unwrap_err();
            assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
            return;
        }
        self.compare_changes(&name);
        if self.random.u8(..6) == 0 {
            self.files.abort_branch(&name).unwrap();
            self.branches.remove(&name);
            return;
        }
        match self.files.commit_branch(&name) {
            Ok(()) => self.committed(&name),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(!error.paths().is_empty(), "{error}");
                let branch = &self.branches[&name];
                let changed = match &branch.parent {
                    None => self.changed,
                    Some(parent) => self.branches[parent].changed,
                };
                assert!(changed > branch.began_at, "{error}: nothing has changed");
                self.conflicts += 1;
                self.files.abort_branch(&name).unwrap();
                self.branches.remove(&name);
            }
        }
    }

    /// Repeats the changes of a branch where its commit stands in the serial order: every one must
    /// return the same again.
    fn committed(&mut self, name: &str) {
        let branch = self.branches.remove(name).unwrap();
        let below = match &branch.parent {
            None => &mut self.reference,
            Some(parent) => &mut self.branches.get_mut(parent).unwrap().reference,
        };
        let mut own = std::mem::replace(&mut below.view, view_of_branch());
        for (operation, actual) in &branch.changes {
            let again = below.perform(operation, actual);
            assert_eq!(&again, actual, "{operation:?} would return something else now");
        }
        if let (Some(all), Some(created)) = (&mut own.created, below.view.created.take()) {
            all.extend(created);
        }
        below.view = own;
        below.remove_all_unneeded();
        let count = branch.changes.len() as u64;
        match branch.parent {
            None => {
                self.commits += 1;
                self.changed += count;
            }
            Some(parent) => {
                self.inner_commits += 1;
                let parent = self.branches.get_mut(&parent).unwrap();
                parent.changed += count;
                parent.changes.extend(branch.changes);
            }
        }
    }

    /// Compares the changes that a branch reports with those of the model.
    fn compare_changes(&self, name: &str) {
        let branch = &self.branches[name];
        let (now, before) = (names_of(&branch.reference), names_of(&branch.base));
        let paths = (paths_of(&branch.reference), paths_of(&branch.base));
        let mut expected = BTreeMap::new();
        for place in now.keys().chain(before.keys()) {
            let paths = match (now.get(place), before.get(place)) {
                (one, other) if one == other => continue,
                (Some(_), _) => &paths.0,
                (None, _) => &paths.1,
            };
            let path = [&paths[&place.0][..], b"/", &place.1].concat();
            let is_in = |reference| path_exists(reference, &path);
            let change = match (is_in(&branch.base), is_in(&branch.reference)) {
                (true, true) => PathChangeKind::Changed,
                (false, _) => PathChangeKind::Added,
                (true, false) => PathChangeKind::Removed,
            };
            expected.insert(path, change);
        }
        let found = self.files.branch_changes(name).unwrap();
        let found: BTreeMap<_, _> = found
            .into_iter()
            .map(|found| (found.path, found.change))
            .collect();
        for (path, change) in &expected {
            assert_eq!(found.get(path), Some(change), "{}", path.escape_ascii());
        }
        for (path, change) in &found {
            let is_now = path_exists(&branch.reference, path);
            let is_before = path_exists(&branch.base, path);
            let is_right = match change {
                PathChangeKind::Added => is_now && !is_before,
                PathChangeKind::Changed => is_now && is_before,
                PathChangeKind::Removed => !is_now && is_before,
            };
            assert!(is_right, "{change:?} {}", path.escape_ascii());
        }
        for (inode, node) in &branch.reference.nodes {
            let Some(before) = branch.base.nodes.get(inode).filter(|_| node.links > 0) else {
                continue;
            };
            let parts = |node: &crate::tests::reference::ReferenceNode| {
                (node.mode, node.contents.clone(), node.extended.clone())
            };
            let all = now.iter().filter(|(_, named)| *named == inode);
            let mut all = all.map(|((directory, name), _)| [&paths.0[directory][..], b"/", name].concat());
            let is_found = *inode == Inode::ROOT || all.any(|path| found.contains_key(&path));
            assert!(parts(node) == parts(before) || is_found, "{inode:?} in {name}");
        }
    }

    fn verify(&self) {
        self.reference.compare(&self.files);
        let report = self.files.check().unwrap();
        assert!(report.is_whole(), "{report}");
        assert_eq!(report.branches, self.branches.len() as u64);
        for (name, branch) in &self.branches {
            branch.reference.compare(&self.files.open_branch(name).unwrap());
        }
        for (name, expected) in &self.snapshots {
            let snapshot = self.files.open_snapshot(name).unwrap();
            expected.compare(&snapshot);
            let report = snapshot.check().unwrap();
            assert!(report.is_whole(), "{name}: {report}");
        }
        assert!(self.files.snapshots().iter().eq(self.snapshots.keys()));
        let listed = self.files.branches().unwrap();
        let listed: Vec<_> = listed
            .into_iter()
            .map(|found| (found.name, found.parent))
            .collect();
        let known: Vec<_> = self
            .branches
            .iter()
            .map(|(name, branch)| (name.clone(), branch.parent.clone()))
            .collect();
        assert_eq!(listed, known);
    }

    fn reopen(&mut self) {
        self.close_views();
        self.reference.view.holds.clear();
        self.reference.remove_all_unneeded();
        let nothing = Arc::new(SimDirectory::new(0));
        let (db, files) = BranchRun::open(&nothing, ContentOrder::ByInode);
        drop(std::mem::replace(&mut self.files, files));
        std::mem::replace(&mut self.db, db).close().unwrap();
        (self.db, self.files) = BranchRun::open(&self.directory, ContentOrder::ByInode);
    }
}

fn names_of(reference: &ReferenceFiles) -> BTreeMap<(Inode, Vec<u8>), Inode> {
    let all = reference.nodes.iter().flat_map(|(directory, node)| {
        let entries = node.entries.iter();
        entries.map(|(name, inode)| ((*directory, name.clone()), *inode))
    });
    all.collect()
}

fn path_exists(reference: &ReferenceFiles, path: &[u8]) -> bool {
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let found = names.try_fold(Inode::ROOT, |at, name| {
        reference.nodes[&at].entries.get(name).copied()
    });
    found.is_some()
}

/// Returns the paths of directories, without a slash at the end.
fn paths_of(reference: &ReferenceFiles) -> BTreeMap<Inode, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![(Inode::ROOT, Vec::new())];
    while let Some((directory, path)) = open.pop() {
        for (name, inode) in &reference.nodes[&directory].entries {
            open.push((*inode, [&path[..], b"/", name].concat()));
        }
        found.insert(directory, path);
    }
    found
}

#[test]
fn branches_are_as_a_simple_model_says() {
    let (mut commits, mut inner, mut conflicts) = (0, 0, 0);
    for seed in 0..effort(6, 200) {
        println!("seed {seed}");
        let mut run = BranchRun::new(seed);
        for segment in 0..6 {
            for _ in 0..200 {
                run.step();
            }
            run.verify();
            if segment % 2 == 1 {
                run.reopen();
                run.verify();
            }
            if segment == 3 && seed % 2 == 1 {
                run.remove();
                run.verify();
            }
        }
        commits += run.commits;
        inner += run.inner_commits;
        conflicts += run.conflicts;
    }
    println!("{commits} commits, {inner} of inner branches, {conflicts} conflicts");
    assert!(
        commits > 5 && inner > 3 && conflicts > 3,
        "{commits}, {inner}, {conflicts}"
    );
}
