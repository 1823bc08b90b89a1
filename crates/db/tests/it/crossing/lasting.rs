//! State that outlives a store: named snapshots, backups, renamed keyspaces, and the contents after
//! a close or a crash.

use super::model::{Change, Model, Pair};
use super::ops::{Ending, KeyspaceNumber};
use super::plan::KeyspacePlan;
use super::reading;
use super::world::{LOST, MOST_HELD, Outcome, World, directories, told};
use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _};
use alluvium::{Db, Durability};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_storage::TierDirectories;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

impl World<'_> {
    pub(super) fn name_snapshot(&mut self) -> Outcome {
        if self.named.len() >= MOST_HELD {
            return Ok(());
        }
        let name = format!("s{}", self.named_so_far);
        self.named_so_far += 1;
        if self
            .done("a named snapshot", self.db().create_snapshot(&name))?
            .is_some()
        {
            self.named.insert(name, self.model.clone());
        }
        self.sync()
    }

    pub(super) fn remove_snapshot(&mut self, place: usize) -> Outcome {
        let Some(place) = place.checked_rem(self.named.len()) else {
            return Ok(());
        };
        let name = self
            .named
            .keys()
            .nth(place)
            .cloned()
            .expect("a place of the list");
        if self
            .done("the end of a named snapshot", self.db().remove_snapshot(&name))?
            .is_some()
        {
            self.named.remove(&name);
        }
        self.sync()
    }

    pub(super) fn reopen(&mut self, ending: Ending) -> Outcome {
        self.held.clear();
        self.snapshots.clear();
        self.widen();
        self.settle()?;
        self.handles.clear();
        let db = self.db.take().expect("it is open");
        let (mut candidates, mut copies) = (Vec::new(), Vec::new());
        match ending {
            Ending::Closed => told("close", db.close())?,
            Ending::Dropped => drop(db),
            Ending::Crashed(survival, seed) => {
                let before = match survival {
                    CrashSurvival::Process => &mut self.before_kill,
                    _ => &mut self.before_loss,
                };
                candidates = std::mem::take(before);
                let disks = self.disks.iter();
                let images = || -> Vec<SimDirectory> {
                    disks.clone().map(|disk| disk.image(survival, seed)).collect()
                };
                copies = images();
                let images = images();
                db.abandon();
                drop(db);
                self.disks = images;
            }
        }
        candidates.push(self.model.clone());
        let volatile = |(_, keyspace): &(usize, &KeyspacePlan)| !keyspace.lasts();
        let volatile = self.plan.keyspaces.iter().enumerate().filter(volatile);
        for (number, _) in volatile {
            let models = candidates.iter_mut().chain(self.named.values_mut());
            models.for_each(|model| model.clear(number));
        }
        self.open()?;
        self.recover(candidates, &copies)?;
        self.sync()
    }

    /// Makes the state after a crash the same under all options by emptying the keyspaces that may
    /// be volatile, and syncing so that no commit can be lost.
    fn settle(&mut self) -> Outcome {
        let emptied = self.plan.keyspaces.iter().enumerate();
        let emptied = emptied.filter(|(_, keyspace)| keyspace.is_emptied);
        let emptied: Vec<_> = emptied
            .map(|(of, _)| (of, Change::DeleteRange(Vec::new(), None)))
            .collect();
        if !emptied.is_empty() {
            self.commit(Durability::Process, &emptied)?;
        }
        match self.plan.knobs.loses_nothing {
            true => self.sync(),
            false => Ok(()),
        }
    }

    /// Determines which of the permitted states the store has recovered. `copies` are its disks
    /// before it was opened.
    fn recover(&mut self, mut candidates: Vec<Model>, copies: &[SimDirectory]) -> Outcome {
        if let [_] = &candidates[..] {
            self.model = candidates.remove(0);
            return Ok(());
        }
        let all = candidates.len();
        let everything = self.everything()?;
        let now_ms = self.now_ms();
        let is_it = |model: &Model| {
            let mut keyspaces = everything.iter().enumerate();
            keyspaces.all(|(number, pairs): (usize, &Vec<Pair>)| model.keyspace(number).all(now_ms) == *pairs)
        };
        let mut places: Vec<usize> = (0..all).filter(|&place| is_it(&candidates[place])).collect();
        self.retain_by_future(&candidates, &mut places, copies)?;
        let place = places
            .pop()
            .ok_or("after a kill no prefix of the commits is there")?;
        if place + 1 < all {
            self.coverage.hit(LOST);
        }
        self.model = candidates.swap_remove(place);
        Ok(())
    }

    /// Keeps the candidates that stay like the store as time passes. Those with a lost delete that
    /// takes effect later are like those without until then.
    fn retain_by_future(
        &self,
        candidates: &[Model],
        places: &mut Vec<usize>,
        copies: &[SimDirectory],
    ) -> Outcome {
        let now_ms = self.now_ms();
        let keyspaces = 0..self.names.len();
        let is_same = |one: &Model, other: &Model, time_ms: u64| {
            let mut all = keyspaces.clone();
            all.all(|of| one.keyspace(of).all(time_ms) == other.keyspace(of).all(time_ms))
        };
        let times = places.iter().flat_map(|&place| candidates[place].times());
        let mut times: BTreeSet<u64> = times.filter(|time| *time > now_ms).collect();
        times.retain(|&time| {
            let mut pairs = places.windows(2);
            !pairs.all(|pair| is_same(&candidates[pair[0]], &candidates[pair[1]], time))
        });
        if times.is_empty() {
            return Ok(());
        }
        let clock = Arc::new(AtomicU64::new(now_ms));
        let options = self.options_with(Arc::clone(&clock));
        let copy = told("a copy", options.open_in(directories(copies)))?;
        for time in times {
            clock.store(time, Ordering::Relaxed);
            for (of, name) in self.names.iter().enumerate() {
                let keyspace = told("a keyspace of a copy", copy.existing_keyspace(name))?;
                let found = reading::gathered(keyspace.unordered(), &self.plan.keyspaces[of])?;
                places.retain(|&place| candidates[place].keyspace(of).all(time) == found);
            }
        }
        copy.abandon();
        Ok(())
    }

    pub(super) fn back_up(&mut self) -> Outcome {
        let [copy, restored] = [(); 2].map(|()| {
            let all = (1..self.plan.tiers).map(|_| MemoryDirectory::new());
            all.fold(
                TierDirectories::from(Arc::new(MemoryDirectory::new())),
                |all, one| all.and(Arc::new(one)),
            )
        });
        let copied = self.db().checkpoint_to_in(&copy, |_| ());
        if self.done("a backup", copied)?.is_none() {
            return Ok(());
        }
        let options = self.options();
        told("a restore", options.restore_in(&copy, &restored, |_| ()))?;
        let db = told("the restored store", options.open_existing_in(&restored))?;
        let same = self.same_as(&db).and_then(|()| self.check(&db));
        db.abandon();
        same.map_err(|why| format!("restored: {why}"))
    }

    /// Compares the model with another store, in which the volatile keyspaces are empty.
    fn same_as(&self, db: &Db) -> Outcome {
        for (number, name) in self.names.iter().enumerate() {
            let keyspace = told("a keyspace", db.existing_keyspace(name))?;
            let plan = &self.plan.keyspaces[number];
            let expected = match plan.lasts() {
                true => self.model.keyspace(number).all(self.now_ms()),
                false => Vec::new(),
            };
            let found = reading::gathered(keyspace.unordered(), plan)?;
            reading::same_pairs(&found, &expected).map_err(|why| format!("keyspace {number}: {why}"))?;
        }
        Ok(())
    }

    pub(super) fn drop_keyspace(&mut self, of: KeyspaceNumber) -> Outcome {
        self.held.retain(|held| held.keyspace() != of);
        if self
            .done("a drop", self.db().drop_keyspace(&self.names[of]))?
            .is_none()
        {
            return Ok(());
        }
        // A keyspace dropped on a full disk can be created again once there is space.
        self.widen();
        let made = self.plan.keyspaces[of].open(self.db(), &self.names[of]);
        self.handles[of] = told("a keyspace that is made again", made)?;
        // Snapshots from before the drop contain nothing of the new keyspace.
        let snapshots = self.snapshots.iter_mut().map(|(_, model)| model);
        let models = snapshots.chain(self.named.values_mut()).chain([&mut self.model]);
        models.for_each(|model| model.clear(of));
        self.sync()
    }

    pub(super) fn rename_keyspace(&mut self, of: KeyspaceNumber) -> Outcome {
        let to = match self.names[of].strip_suffix('x') {
            Some(name) => name.to_owned(),
            None => format!("{}x", self.names[of]),
        };
        let renamed = self.db().rename_keyspace(&self.names[of], &to);
        if self.done("a new name", renamed)?.is_some() {
            self.names[of] = to;
        }
        self.sync()
    }

    pub(super) fn check(&self, db: &Db) -> Outcome {
        match told("check", db.check())? {
            findings if findings.is_empty() => Ok(()),
            findings => Err(format!("check: {findings:?}")),
        }
    }
}
