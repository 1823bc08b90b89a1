//! Requests that a thread submits one by one, and hands to the kernel together.

use super::station::Station;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

thread_local! {
    /// The rings with requests that this thread has not handed over; none while it does not gather.
    static GATHERED: RefCell<Option<Vec<Weak<Station>>>> = const { RefCell::new(None) };
}

/// While it lives, what its thread submits without waiting is handed to the kernel together: when
/// it is dropped, when the thread waits for a request, or when another thread enters the same ring.
///
/// Each time a device is told of new requests costs about as much as the requests themselves.
/// Only rings gather: other devices begin each batch when it is submitted. Within another one it
/// does nothing.
#[must_use = "requests are gathered while it lives"]
pub struct Gathering {
    is_outermost: bool,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Gathering {
    /// From now on this thread gathers.
    pub fn new() -> Gathering {
        let is_outermost = GATHERED.with_borrow_mut(|gathered| {
            let is_first = gathered.is_none();
            gathered.get_or_insert_default();
            is_first
        });
        Gathering {
            is_outermost,
            _thread: PhantomData,
        }
    }

    /// Hands over what this thread has gathered so far.
    pub fn hand_over() {
        let gathered = GATHERED.with_borrow_mut(|gathered| gathered.as_mut().map(std::mem::take));
        launch(&gathered.unwrap_or_default());
    }
}

impl Default for Gathering {
    fn default() -> Gathering {
        Gathering::new()
    }
}

impl fmt::Debug for Gathering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathering").finish_non_exhaustive()
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        if self.is_outermost {
            launch(&GATHERED.take().unwrap_or_default());
        }
    }
}

fn launch(gathered: &[Weak<Station>]) {
    // A ring that is gone has waited for its requests (U4).
    let rings = gathered.iter().filter_map(Weak::upgrade);
    rings.for_each(|station| station.launch());
}

/// Returns whether this thread gathers; the ring is noted then.
pub(super) fn notes(station: &Arc<Station>) -> bool {
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
    use crate::{Batch, Buffer, Directory, FileOptions, Gathering};
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
            let mut batch = Batch::new();
            batch.read(page * 4096, Buffer::zeroed(4096), Purpose::Other);
            file.submit(batch)
        };
        let gathering = Gathering::new();
        let tickets: Vec<_> = (0..8).map(read).collect();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(tickets.iter().all(|ticket| !file.poll(ticket)), "none was begun");
        // Waiting for one hands all over, and so does a blocking read.
        file.wait(&tickets[7]);
        tickets.iter().for_each(|ticket| file.wait(ticket));
        let one = read(9);
        file.read_at(0, 4096, Purpose::Other).unwrap();
        while !file.poll(&one) {}
        // Another thread waits for what this one has gathered.
        let theirs = read(10);
        std::thread::scope(|scope| drop(scope.spawn(|| file.wait(&theirs))));
        // More than a ring takes at once, and a gathering within another.
        drop(Gathering::new());
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
        let gathering = Gathering::new();
        let mut batch = Batch::new();
        batch.read(0, Buffer::zeroed(4096), Purpose::Other);
        let ticket = file.submit(batch);
        drop((file, directory));
        assert_eq!(ticket.take_buffers().unwrap().len(), 1);
        drop(gathering);
    }
}
