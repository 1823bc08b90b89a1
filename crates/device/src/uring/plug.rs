//! Gathers requests that a thread submits one by one, and submits them to the kernel together.

use super::coordinator::RingCoordinator;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

thread_local! {
    /// The rings with requests that this thread has yet to submit to the kernel, or `None` while it
    /// is not gathering.
    static GATHERED: RefCell<Option<Vec<Weak<RingCoordinator>>>> = const { RefCell::new(None) };
}

/// While this value lives, requests that its thread submits without waiting are gathered. They are
/// handed to the kernel together when the value is dropped, when the thread waits for a request, or
/// when another thread enters the same ring.
///
/// Gathering pays off because notifying a device of new requests costs about as much as the
/// requests themselves. Only rings gather; other devices start each batch on submission. A nested
/// instance has no effect.
#[must_use = "requests are gathered while it lives"]
pub struct SubmissionPlug {
    is_outermost: bool,
    /// Makes the plug `!Send`, because it gathers in its own thread.
    _thread: PhantomData<*const ()>,
}

impl SubmissionPlug {
    /// Starts gathering in this thread.
    pub fn new() -> SubmissionPlug {
        let is_outermost = GATHERED.with_borrow_mut(|gathered| {
            let is_first = gathered.is_none();
            gathered.get_or_insert_default();
            is_first
        });
        SubmissionPlug {
            is_outermost,
            _thread: PhantomData,
        }
    }

    /// Submits the requests that this thread has gathered so far.
    pub fn hand_over() {
        let gathered = GATHERED.with_borrow_mut(|gathered| gathered.as_mut().map(std::mem::take));
        launch(&gathered.unwrap_or_default());
    }
}

impl Default for SubmissionPlug {
    fn default() -> SubmissionPlug {
        SubmissionPlug::new()
    }
}

impl fmt::Debug for SubmissionPlug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmissionPlug").finish_non_exhaustive()
    }
}

impl Drop for SubmissionPlug {
    fn drop(&mut self) {
        if self.is_outermost {
            launch(&GATHERED.take().unwrap_or_default());
        }
    }
}

fn launch(gathered: &[Weak<RingCoordinator>]) {
    // A dropped ring has already waited for its requests (U4).
    let rings = gathered.iter().filter_map(Weak::upgrade);
    rings.for_each(|station| station.launch());
}

/// Returns whether this thread is gathering, and records the ring if so.
pub(super) fn notes(station: &Arc<RingCoordinator>) -> bool {
    GATHERED.with_borrow_mut(|gathered| {
        let Some(gathered) = gathered else {
            return false;
        };
        if !gathered
            .iter()
            .any(|known| known.as_ptr() == Arc::as_ptr(station))
        {
            gathered.push(Arc::downgrade(station));
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use crate::file::FileDirectory;
    use crate::{AlignedBuffer, Directory, FileOptions, IoBatch, SubmissionPlug};
    use alluvium_base::Purpose;

    #[test]
    fn what_a_thread_gathers_is_handed_over_when_it_waits_and_in_the_end() {
        let place = tempfile::tempdir_in(std::env::temp_dir()).unwrap();
        let directory = FileDirectory::open(place.path()).unwrap();
        if !directory.notes().is_empty() {
            crate::skipped!("io_uring", "{:?}", directory.notes());
            return;
        }
        let file = directory.create("f", FileOptions::DIRECT).unwrap();
        file.grow(4 << 20).unwrap();
        let read = |page: u64| {
            let mut batch = IoBatch::new();
            batch.read(page * 4096, AlignedBuffer::zeroed(4096), Purpose::Other);
            file.submit(batch)
        };
        let gathering = SubmissionPlug::new();
        let tickets: Vec<_> = (0..8).map(read).collect();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(tickets.iter().all(|ticket| !file.poll(ticket)), "none was begun");
        // Waiting for one request submits all, and so does a blocking read.
        file.wait(&tickets[7]);
        tickets.iter().for_each(|ticket| file.wait(ticket));
        let one = read(9);
        file.read_at(0, 4096, Purpose::Other).unwrap();
        while !file.poll(&one) {}
        // Another thread waits for a request that this one has gathered.
        let theirs = read(10);
        std::thread::scope(|scope| drop(scope.spawn(|| file.wait(&theirs))));
        // More requests than a ring can hold at once, and nested gathering.
        drop(SubmissionPlug::new());
        let many: Vec<_> = (0..1000).map(read).collect();
        drop(gathering);
        for ticket in many {
            while !file.poll(&ticket) {}
            assert_eq!(ticket.take_buffers().unwrap().len(), 1);
        }
    }

    #[test]
    fn a_directory_waits_for_what_a_thread_still_gathers() {
        let place = tempfile::tempdir_in(std::env::temp_dir()).unwrap();
        let directory = FileDirectory::open(place.path()).unwrap();
        let file = directory.create("f", FileOptions::DIRECT).unwrap();
        file.grow(1 << 20).unwrap();
        let gathering = SubmissionPlug::new();
        let mut batch = IoBatch::new();
        batch.read(0, AlignedBuffer::zeroed(4096), Purpose::Other);
        let ticket = file.submit(batch);
        drop((file, directory));
        assert_eq!(ticket.take_buffers().unwrap().len(), 1);
        drop(gathering);
    }
}
