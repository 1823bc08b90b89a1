//! The names of a simulated directory, which implement [`Directory`].

use super::handle::SimFile;
use super::names::{FileId, NameChange};
use super::world::SimWorld;
use super::{CrashSurvival, SimDirectory};
use crate::locks::LockSharing;
use crate::{
    BootId, Device, DeviceCounters, DeviceOperation, Directory, DirectoryLock, Error, FileOptions,
    FileSystemSpace, MemoryRegion, Result,
};
use alluvium_base::Purpose;
use parking_lot::MutexGuard;
use std::sync::Arc;

impl SimDirectory {
    fn not_found(name: &str) -> Error {
        Error::NotFound {
            file: name.to_owned(),
        }
    }

    /// Starts an operation on names, which is a crash point. The operation is refused after a
    /// failed sync of the directory, or failed by a planned fault.
    fn name_operation(&self, operation: DeviceOperation, name: &str) -> Result<MutexGuard<'_, SimWorld>> {
        let mut world = self.point(operation, name, 0, 0, Purpose::Other)?;
        if world.failed_syncs > self.failed_syncs {
            return Err(Error::Poisoned {
                operation,
                file: self.describe(),
            });
        }
        world.apply_fault(operation, name, 0, 0)?;
        Ok(world)
    }

    fn take(&self, name: &str, sharing: LockSharing) -> Result<DirectoryLock> {
        struct SimLock(SimDirectory, String);
        impl Drop for SimLock {
            fn drop(&mut self) {
                self.0.shared.world.lock().locks.give_back(&self.1);
            }
        }
        {
            let mut world = self.shared.world.lock();
            self.alive(&world, DeviceOperation::Lock, name)?;
            world.apply_fault(DeviceOperation::Lock, name, 0, 0)?;
            world.locks.take(name, sharing)?;
        }
        let lock = DirectoryLock::new(SimLock(self.clone(), name.to_owned()));
        let exists = self.shared.world.lock().names.get(name).is_some();
        if !exists {
            let mut world = self.name_operation(DeviceOperation::Create, name)?;
            // The hook may have changed the names meanwhile.
            if world.names.get(name).is_none() {
                world.create(&Arc::from(name));
            }
        }
        Ok(lock)
    }

    fn handle(
        &self,
        world: &mut SimWorld,
        file: FileId,
        name: &str,
        options: FileOptions,
    ) -> Arc<dyn Device> {
        let state = world.file(file);
        state.handles += 1;
        let failed_syncs = state.failed_syncs;
        Arc::new(SimFile::new(self.clone(), file, name, options, failed_syncs))
    }

    /// Returns the machine as it would boot if it crashed now. [`CrashSurvival`] and `seed`
    /// determine what survives. The image is an independent world without faults, hooks, clock,
    /// locks or handles, whose seed is derived from `seed`.
    ///
    /// Within a hook, this returns the image at the crash point.
    #[must_use]
    pub fn image(&self, survival: CrashSurvival, seed: u64) -> SimDirectory {
        let mut world = self.shared.world.lock();
        world.notice_all();
        SimDirectory::of(world.survivor(survival, seed))
    }
}

impl Directory for SimDirectory {
    fn create(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        let mut world = self.name_operation(DeviceOperation::Create, name)?;
        if world.names.get(name).is_some() {
            let file = name.to_owned();
            return Err(Error::AlreadyExists { file });
        }
        let file = world.create(&Arc::from(name));
        Ok(self.handle(&mut world, file, name, options))
    }

    fn open(&self, name: &str, options: FileOptions) -> Result<Arc<dyn Device>> {
        let mut world = self.shared.world.lock();
        self.alive(&world, DeviceOperation::Open, name)?;
        world.trace_operation(DeviceOperation::Open, name, 0, 0);
        world.apply_fault(DeviceOperation::Open, name, 0, 0)?;
        let file = world.names.get(name).ok_or_else(|| Self::not_found(name))?;
        Ok(self.handle(&mut world, file, name, options))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut world = self.name_operation(DeviceOperation::Rename, from)?;
        let file = world.names.get(from).ok_or_else(|| Self::not_found(from))?;
        let replaced = world.names.get(to);
        world.trace_operation(DeviceOperation::Rename, to, 0, 0);
        let (from, to) = (from.into(), to.into());
        world.rename(NameChange::Rename { from, to, file });
        if let Some(replaced) = replaced {
            world.collect(replaced);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut world = self.name_operation(DeviceOperation::Remove, name)?;
        let file = world.names.get(name).ok_or_else(|| Self::not_found(name))?;
        let name = name.into();
        world.rename(NameChange::Remove { name, file });
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut world = self.shared.world.lock();
        self.alive(&world, DeviceOperation::List, "")?;
        world.apply_fault(DeviceOperation::List, "", 0, 0)?;
        Ok(world.names.iter().map(|(name, _)| name.to_string()).collect())
    }

    fn sync(&self) -> Result<()> {
        let mut world = self.point(DeviceOperation::SyncDirectory, "", 0, 0, Purpose::Other)?;
        self.shared.counters.sync(Purpose::Other);
        if world.failed_syncs > self.failed_syncs {
            let (operation, file) = (DeviceOperation::SyncDirectory, self.describe());
            return Err(Error::Poisoned { operation, file });
        }
        if let Err(error) = world.apply_fault(DeviceOperation::SyncDirectory, "", 0, 0) {
            world.failed_syncs += 1;
            let mut rng = world.rng.fork();
            world.names.settle(|_| rng.bool());
            return Err(error);
        }
        world.names.make_durable();
        world.collect_all();
        Ok(())
    }

    fn lock(&self, name: &str) -> Result<DirectoryLock> {
        self.take(name, LockSharing::Exclusive)
    }

    fn lock_shared(&self, name: &str) -> Result<DirectoryLock> {
        self.take(name, LockSharing::Shared)
    }

    fn space(&self) -> Result<FileSystemSpace> {
        let world = self.shared.world.lock();
        self.alive(&world, DeviceOperation::Open, "")?;
        let total = world.options.capacity;
        Ok(FileSystemSpace {
            free: total.saturating_sub(world.used()),
            total,
        })
    }

    fn boot_id(&self) -> BootId {
        self.shared.world.lock().boot
    }

    fn is_removed(&self) -> bool {
        false
    }

    fn counters(&self) -> &DeviceCounters {
        &self.shared.counters
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn register_memory(&self, _region: MemoryRegion) {}

    fn describe(&self) -> String {
        "a simulated directory".to_owned()
    }
}
