//! Changing the tiers of an open store: adding a tier, or draining one so that its device can be
//! replaced.

use crate::admin::path_checks;
use crate::admin::tiers::{check, resolve_path};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::options::TierOptions;
use alluvium_device::Directory;
use alluvium_device::file::FileDirectory;
use alluvium_storage::extents::TierLimits;
use alluvium_storage::tiers::list::{TierEntry, TierList};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of times that a drain rewrites the store. A compaction that runs during a rewrite
/// may still write its output to the tier, so that the next rewrite has to move it.
const PASSES: usize = 5;
/// How often, and for how long each time, a drain waits for readers that still use the rewritten
/// runs.
const WAITS: usize = 100;
const WAIT: Duration = Duration::from_millis(5);

impl Db {
    /// Adds a tier in an empty directory. The store treats the new tier as slower than the existing
    /// ones, and compactions may write to it once it has been added. Reads and writes continue
    /// during the call. The store records the path of the tier.
    ///
    /// If the process crashes during the call, the store opens either with the tier or without it.
    /// If the directory cannot become a tier, nothing has changed. If the first directory's disk is
    /// full or fails after the tier was added, the tier is not durable yet: the call returns the
    /// error and can be repeated.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (fast, large) = (place.path().join("fast"), place.path().join("large"));
    /// use alluvium::{Db, TierOptions};
    /// let db = Db::open(&fast)?;
    /// db.add_tier(&large, TierOptions::new().max_bytes(1 << 40))?;
    /// assert_eq!(db.stats().tiers.len(), 2);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`] if the directory belongs to the store or is inside one of its
    /// directories, or if the store already has the maximum number of tiers; a `WrongTier` error
    /// that describes what the directory contains, if it is not empty; [`Error::is_full`]; I/O
    /// errors.
    pub fn add_tier(&self, path: impl AsRef<Path>, options: TierOptions) -> Result<()> {
        self.shared().healthy()?;
        // Exclude copies of the store, and other changes to its tiers, during this call.
        let _alone = self.engine().copying.write();
        self.engine().health()?;
        let path = resolve_path(path.as_ref());
        let store = &self.engine().store;
        let own = |directory: &Arc<dyn Directory>| PathBuf::from(directory.describe());
        let known: Vec<PathBuf> = store.directories().iter().map(own).collect();
        let unfinished = usize::from(store.superblock().tiers);
        if let Some(tier) = known
            .iter()
            .skip(unfinished)
            .position(|known| resolve_path(known) == path)
        {
            return self.end_adding((unfinished + tier) as u8);
        }
        let further = known
            .iter()
            .skip(1)
            .map(|path| (path.clone(), TierOptions::new()));
        let all: Vec<_> = further.chain([(path.clone(), options)]).collect();
        check(&known[0], &all)?;
        path_checks::no_file(&path)?;
        let directory: Arc<dyn Directory> = Arc::new(FileDirectory::create(&path)?);
        self.add_tier_on(&directory, options)
    }

    /// Adds a tier in a directory provided by the caller.
    pub(crate) fn add_tier_on(&self, directory: &Arc<dyn Directory>, options: TierOptions) -> Result<()> {
        let limits = TierLimits {
            max_bytes: options.max_bytes,
            ..TierLimits::default()
        };
        let tier = self.engine().store.begin_adding(directory, limits)?;
        self.end_adding(tier)
    }

    /// Makes an added tier durable, then admits new data to it.
    fn end_adding(&self, tier: u8) -> Result<()> {
        let store = &self.engine().store;
        // Record the path of the tier before the superblock includes the tier.
        self.note_tiers(tier, false)?;
        self.engine().checkpoint_now()?;
        Ok(store.end_adding(tier)?)
    }

    /// Moves all data from a tier to the other tiers, and admits no new data until [`Db::use_tier`]
    /// is called. Reads and writes continue during the call. The directory remains a tier of the
    /// store but is almost empty afterwards, so it can be moved to another device while the store
    /// is closed.
    ///
    /// The call rewrites all data of the store, like [`Db::compact`]. A crash during the call loses
    /// no data: the tier remains closed to new data when the store is reopened, and the call can be
    /// repeated.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (fast, large) = (place.path().join("fast"), place.path().join("large"));
    /// use alluvium::{Options, TierOptions};
    /// let db = Options::new().fast_bytes(0).tier(&large, TierOptions::new()).open(&fast)?;
    /// db.keyspace("rivers")?.put("Elbe", "1094 km")?;
    /// db.compact()?;
    /// db.drain_tier(&large)?;
    /// assert_eq!(db.stats().tiers[1].space.live_bytes, 0);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::BadOption`] if the directory is not one of the tiers after the first, if the other
    /// tiers have too little space for its data, or if readers still use some of its data; the
    /// errors of [`Db::compact`].
    pub fn drain_tier(&self, path: impl AsRef<Path>) -> Result<()> {
        self.shared().healthy()?;
        let tier = self.further_tier(path.as_ref())?;
        let engine = self.engine();
        let store = &engine.store;
        self.require_space_without(tier)?;
        self.note_tiers(tier, true)?;
        store.close_tier(tier);
        for _ in 0..PASSES {
            engine.compact()?;
            for _ in 0..WAITS {
                let usage = &store.usage().0.tiers[usize::from(tier)];
                match (usage.live_extents, usage.dead_bytes) {
                    (0, 0) => return Ok(()),
                    (0, _) => {}
                    // A concurrent compaction has written output to the tier; the next pass moves
                    // it.
                    _ => break,
                }
                // Readers that started before the rewrite may still use the old runs.
                std::thread::sleep(WAIT);
                engine.checkpoint_now()?;
            }
        }
        Err(bad(format!(
            "{} still holds data that readers use or that was written in the meantime: drain it again",
            path.as_ref().display()
        )))
    }

    /// Lets a drained or failed tier accept new data again. The data file of a failed tier is
    /// reopened.
    ///
    /// If the tier was drained, the store must record that it no longer is, which needs space in
    /// the first directory. If that directory is full, the tier accepts data anyway, so that
    /// compactions can free space; the call then returns an error and can be repeated later.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the directory is not one of the tiers after the first, or if there
    /// is no space to record the change; a `WrongTier` error that describes what the directory
    /// contains now; I/O errors if the tier still fails. After a `WrongTier` or I/O error, the tier
    /// is unchanged.
    pub fn use_tier(&self, path: impl AsRef<Path>) -> Result<()> {
        self.shared().healthy()?;
        let path = path.as_ref();
        let tier = self.further_tier(path)?;
        self.readmit(tier, || Ok(Arc::new(FileDirectory::open(path)?) as _))
    }

    /// Lets a drained or failed tier accept new data again. If a failed tier cannot be reopened in
    /// its current directory, calls `opened` and reopens the tier in the directory that it returns.
    pub(crate) fn readmit(
        &self,
        tier: u8,
        opened: impl FnOnce() -> alluvium_storage::Result<Arc<dyn Directory>>,
    ) -> Result<()> {
        let engine = self.engine();
        engine.store.readmit_tier(tier, opened)?;
        // Open the tier before recording the change: if the first directory is full, compactions
        // into the tier free space there.
        engine.store.open_tier(tier);
        // Wake background work that waited for the tier.
        engine.call_all();
        let noted = match self.note_tiers(tier, false) {
            Err(error) if error.is_full() => {
                engine.store.give_up_copies();
                engine.reclaim()?;
                self.note_tiers(tier, false)
            }
            other => other,
        };
        match noted {
            Err(error) if error.is_full() => Err(self.unremembered(tier, &error)),
            other => other,
        }
    }

    /// Returns the error for a tier that accepts data again although the store could not record the
    /// change.
    fn unremembered(&self, tier: u8, error: &Error) -> Error {
        let directories = self.engine().store.directories();
        let path = directories.get(tier).map(|directory| directory.describe());
        let first = directories.first().describe();
        bad(format!(
            "{} takes data again, but only until the store is closed: {first} has no space to record the \
            change ({error}); free 4096 bytes there, or wait until compactions have moved data, then run \
            `alluvium tiers use` (`Db::use_tier`) again",
            path.unwrap_or_default()
        ))
    }

    /// Returns the number of the tier in this directory, or an error if the directory is not one of
    /// the tiers after the first.
    fn further_tier(&self, path: &Path) -> Result<u8> {
        let wanted = resolve_path(path);
        let directories = self.engine().store.directories();
        let is_it = |tier: &u8| {
            let directory = directories.get(*tier);
            directory.is_some_and(|directory| resolve_path(Path::new(&directory.describe())) == wanted)
        };
        match (0..directories.count() as u8).find(is_it) {
            Some(0) => Err(bad(format!(
                "{} is the first directory of the store, which holds the superblock and the log: it cannot be drained",
                path.display()
            ))),
            Some(tier) => Ok(tier),
            None => Err(bad(format!("{} is not a tier of the store", path.display()))),
        }
    }

    fn require_space_without(&self, tier: u8) -> Result<()> {
        let store = &self.engine().store;
        let held = store.usage().0.tiers[usize::from(tier)].live_extent_bytes;
        let (spaces, _) = store.tier_space();
        let others = spaces
            .iter()
            .zip(0u8..)
            .filter(|(space, number)| *number != tier && space.is_open);
        let free = others.fold(0u64, |sum, (space, _)| sum.saturating_add(space.free_bytes));
        if free >= held {
            return Ok(());
        }
        Err(bad(format!(
            "the tier holds {held} bytes, but the other tiers have space for {free} only: raise their limits, or delete data"
        )))
    }

    /// Writes the list of tiers to the first directory, with each tier's path and whether it is
    /// drained.
    fn note_tiers(&self, changed: u8, is_drained: bool) -> Result<()> {
        let store = &self.engine().store;
        let all = store.directories().iter().zip(0..).skip(1);
        let listed = all.map(|(directory, tier)| TierEntry {
            tier,
            path: directory.describe(),
            max_bytes: store.extents().limits(tier).max_bytes,
            is_drained: match tier == changed {
                true => is_drained,
                false => store.is_closed(tier),
            },
        });
        let list = TierList {
            store: store.superblock().store,
            tiers: listed.collect(),
        };
        let first = &**store.directory();
        match TierList::read(first) {
            // Skip the write if the list is unchanged, so that a full disk cannot make it fail.
            Ok(Some(written)) if written == list => Ok(()),
            _ => Ok(list.write(first)?),
        }
    }
}

fn bad(why: String) -> Error {
    Error::BadOption { option: "tier", why }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::admin::simulation::{DirectoryOpener as _, SimulationOperations as _, StoreScale};
    use crate::error::ErrorKind;
    use crate::options::Options;
    use alluvium_device::DeviceOperation;
    use alluvium_device::simulated::{InjectedFault, SimDirectory};
    use alluvium_sim::PrefixDirectory;
    use alluvium_storage::TierDirectories;

    #[test]
    fn a_tier_is_used_again_although_the_first_directory_is_full() {
        let machine = SimDirectory::new(1);
        let whole: Arc<dyn Directory> = Arc::new(machine.reopen());
        let part = |prefix| Arc::new(PrefixDirectory::of(&whole, prefix));
        let directories = TierDirectories::from(part("one.")).and(part("two."));
        let scale = StoreScale::small(7, 6 << 10, 96 << 10);
        let db = Options::new()
            .simulated(scale, || 1000)
            .open_in(directories)
            .unwrap();
        let (store, is_drained) = (&db.engine().store, || {
            let list = TierList::read(&**db.engine().store.directory());
            list.unwrap().unwrap().tiers[0].is_drained
        });
        let full = || {
            InjectedFault::full(DeviceOperation::Grow)
                .on("one.tiers.new")
                .sticky()
        };
        // A tier that has failed was not drained, so the recorded list does not change.
        db.note_tiers(1, false).unwrap();
        machine.inject(full());
        db.use_tier_in(1).unwrap();
        machine.clear_faults();
        // A drained tier accepts data even if that cannot be recorded, and the error explains what
        // to do.
        db.note_tiers(1, true).unwrap();
        store.close_tier(1);
        machine.inject(full());
        let error = db.use_tier_in(1).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        assert!(
            text.contains("takes data again") && text.contains("4096 bytes"),
            "{text}"
        );
        assert!(store.takes_extents(1) && is_drained());
        machine.clear_faults();
        db.use_tier_in(1).unwrap();
        assert!(store.takes_extents(1) && !is_drained());
    }
}
