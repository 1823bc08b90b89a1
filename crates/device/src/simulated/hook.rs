//! Crash points: the moments just before the device changes.

use super::{SimDirectory, Survival, world::World};
use crate::{Error, Operation, Result};
use alluvium_base::Purpose;
use parking_lot::{MutexGuard, ReentrantMutex};
use std::cell::RefCell;
use std::sync::atomic::Ordering;

type Callback = Box<dyn FnMut(&CrashPoint<'_>) + Send>;

/// The callback, and the lock that keeps it to one thread at a time.
#[derive(Default)]
pub(super) struct Hook {
    callback: ReentrantMutex<RefCell<Option<Callback>>>,
}

/// A moment just before an operation takes effect.
#[derive(Clone, Copy, Debug)]
pub struct CrashPoint<'a> {
    /// The directory, for images. A hook that operates on it operates unhooked.
    pub directory: &'a SimDirectory,
    /// The operation's number: [`SimDirectory::operations`] before it.
    pub index: u64,
    /// What is about to happen.
    pub operation: Operation,
    /// The file it happens to; empty for a sync of the directory.
    pub file: &'a str,
    /// Where in the file, 0 where none applies.
    pub offset: u64,
    /// How many bytes, or the new length, 0 where none applies.
    pub len: u64,
    /// What it is for.
    pub purpose: Purpose,
}

impl CrashPoint<'_> {
    /// Returns the machine as it boots after a crash at this point, as [`SimDirectory::image`].
    #[must_use]
    pub fn image(&self, survival: Survival, seed: u64) -> SimDirectory {
        self.directory.image(survival, seed)
    }
}

impl SimDirectory {
    /// Calls `hook` immediately before each operation that [`SimDirectory::operations`] counts
    /// takes effect. The world is not locked meanwhile: the hook may take images, open stores on
    /// them and hook those; it may also [`crash`](SimDirectory::crash) this directory, and then the
    /// operation fails.
    ///
    /// A hook must not hold a clone of the directory it is set on, or neither is ever freed: use
    /// [`CrashPoint::directory`].
    ///
    /// # Panics
    /// When called from within the hook.
    pub fn on_operation(&self, hook: impl FnMut(&CrashPoint<'_>) + Send + 'static) {
        self.set_hook(Some(Box::new(hook)));
    }

    /// Calls no hook any more.
    ///
    /// # Panics
    /// When called from within the hook.
    pub fn clear_hook(&self) {
        self.set_hook(None);
    }

    fn set_hook(&self, hook: Option<Callback>) {
        let slot = self.shared.hook.callback.lock();
        self.shared.hooked.store(hook.is_some(), Ordering::SeqCst);
        let old = slot
            .try_borrow_mut()
            .map(|mut slot| std::mem::replace(&mut *slot, hook));
        assert!(old.is_ok(), "a hook cannot replace itself");
    }

    /// Every operation passes here before it takes effect: it is counted and traced, and the hook
    /// is called. The world comes back locked.
    pub(super) fn point(
        &self,
        operation: Operation,
        file: &str,
        offset: u64,
        len: u64,
        purpose: Purpose,
    ) -> Result<MutexGuard<'_, World>> {
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
        // Borrowed already: the hook itself operates on its own directory.
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

    /// Fails when the machine has crashed.
    pub(super) fn alive(&self, world: &World, operation: Operation, file: &str) -> Result<()> {
        if world.crashed {
            return Err(Error::Crashed {
                operation,
                file: file.to_owned(),
            });
        }
        Ok(())
    }
}
