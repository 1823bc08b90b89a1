//! Crash points, which are the moments right before the device changes.

use super::{CrashSurvival, SimDirectory, world::SimWorld};
use crate::{DeviceOperation, Error, Result};
use alluvium_base::Purpose;
use parking_lot::{MutexGuard, ReentrantMutex};
use std::cell::RefCell;
use std::sync::atomic::Ordering;

type HookCallback = Box<dyn FnMut(&CrashPoint<'_>) + Send>;

/// The callback, with a lock that serialises its calls.
#[derive(Default)]
pub(super) struct OperationHook {
    callback: ReentrantMutex<RefCell<Option<HookCallback>>>,
}

/// The moment right before an operation takes effect.
#[derive(Clone, Copy, Debug)]
pub struct CrashPoint<'a> {
    /// The directory, for taking images. Operations on it by a hook do not call a hook.
    pub directory: &'a SimDirectory,
    /// Number of the operation, which is the value of [`SimDirectory::operations`] before it.
    pub index: u64,
    pub operation: DeviceOperation,
    /// Name of the file, or empty for a sync of the directory.
    pub file: &'a str,
    /// Offset in the file, or 0 if not applicable.
    pub offset: u64,
    /// Length in bytes, or the new length, or 0 if not applicable.
    pub len: u64,
    pub purpose: Purpose,
}

impl CrashPoint<'_> {
    /// Like [`SimDirectory::image`], for a crash at this point.
    #[must_use]
    pub fn image(&self, survival: CrashSurvival, seed: u64) -> SimDirectory {
        self.directory.image(survival, seed)
    }
}

impl SimDirectory {
    /// Calls `hook` right before each operation counted by [`SimDirectory::operations`] takes
    /// effect. The world is not locked during the call, so the hook may take images, open stores on
    /// them and hook those. It may also [`crash`](SimDirectory::crash) this directory, which makes
    /// the operation fail.
    ///
    /// A hook must use [`CrashPoint::directory`] rather than hold a clone of its own directory.
    /// Otherwise, neither would ever be freed.
    ///
    /// # Panics
    /// If called from within the hook.
    pub fn on_operation(&self, hook: impl FnMut(&CrashPoint<'_>) + Send + 'static) {
        self.set_hook(Some(Box::new(hook)));
    }

    /// Removes the hook.
    ///
    /// # Panics
    /// If called from within the hook.
    pub fn clear_hook(&self) {
        self.set_hook(None);
    }

    fn set_hook(&self, hook: Option<HookCallback>) {
        let slot = self.shared.hook.callback.lock();
        self.shared.hooked.store(hook.is_some(), Ordering::SeqCst);
        let old = slot
            .try_borrow_mut()
            .map(|mut slot| std::mem::replace(&mut *slot, hook));
        assert!(old.is_ok(), "a hook cannot replace itself");
    }

    /// The entry point of every operation before it takes effect: counts and traces the operation,
    /// calls the hook, and returns with the world locked.
    pub(super) fn point(
        &self,
        operation: DeviceOperation,
        file: &str,
        offset: u64,
        len: u64,
        purpose: Purpose,
    ) -> Result<MutexGuard<'_, SimWorld>> {
        let mut world = self.shared.world.lock();
        self.alive(&world, operation, file)?;
        let index = world.operations;
        world.operations += 1;
        world.trace_operation(operation, file, offset, len);
        world.write_back_some_page();
        if !self.shared.hooked.load(Ordering::SeqCst) {
            return Ok(world);
        }
        drop(world);
        let point = CrashPoint {
            directory: self,
            index,
            operation,
            file,
            offset,
            len,
            purpose,
        };
        self.call_hook(&point);
        let world = self.shared.world.lock();
        self.alive(&world, operation, file)?;
        Ok(world)
    }

    fn call_hook(&self, point: &CrashPoint<'_>) {
        let slot = self.shared.hook.callback.lock();
        // The slot is already borrowed, because the hook itself operates on its own directory.
        let Ok(mut hook) = slot.try_borrow_mut() else {
            return;
        };
        let Some(hook) = hook.as_mut() else { return };
        {
            let mut world = self.shared.world.lock();
            world.notice_all();
            world.noticed = true;
        }
        hook(point);
        self.shared.world.lock().noticed = false;
    }

    /// Fails if the machine has crashed.
    pub(super) fn alive(&self, world: &SimWorld, operation: DeviceOperation, file: &str) -> Result<()> {
        if world.crashed {
            return Err(Error::Crashed {
                operation,
                file: file.to_owned(),
            });
        }
        Ok(())
    }
}
