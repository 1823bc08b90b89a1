//! A device whose operations take long: others go on while one is under way.
//!
//! What is slow runs on a thread of its own. Each time it is about to write data to the device, or
//! to sync them, it stops, and its caller does something else. Walks stop between keys, too. Only
//! one of the two threads runs at a time, and they take turns at points that the seed gives: so a
//! seed gives the same history each time.

use crate::fault;
use alluvium_base::Purpose;
use alluvium_device::forward::{ForwardDevice, ForwardDirectory};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Batch, Device, Directory, FileOptions, Request, Ticket};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What a thread that stops at the device tells its caller, and is told.
struct Turn {
    stops: Sender<()>,
    goes_on: Receiver<()>,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Has the caller of [`slowly`] do something else, if this thread runs what is slow.
pub(super) fn stop() {
    TURN.with_borrow(|turn| {
        let Some(turn) = turn else { return };
        // A caller that panics is gone: then there is nothing to wait for.
        if turn.stops.send(()).is_ok() {
            _ = turn.goes_on.recv();
        }
    });
}

/// Does something that uses the device, and something else during each operation of the device.
pub(super) fn slowly<R: Send>(act: impl FnOnce() -> R + Send, mut meanwhile: impl FnMut()) -> R {
    let (stops, stopped) = channel();
    let (go_on, goes_on) = channel();
    let planted = fault::planted();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            TURN.set(Some(Turn { stops, goes_on }));
            let done = fault::with_any(planted, act);
            TURN.set(None);
            done
        });
        // Dropped with this, so that the thread goes on if `meanwhile` panics.
        let go_on = go_on;
        while stopped.recv().is_ok() {
            meanwhile();
            _ = go_on.send(());
        }
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A directory in memory whose operations are slow.
#[derive(Debug)]
pub(super) struct SlowDirectory(pub(super) MemoryDirectory);

impl ForwardDirectory for SlowDirectory {
    fn inner(&self) -> &dyn Directory {
        &self.0
    }

    fn wrap(&self, file: Arc<dyn Device>, _: FileOptions) -> Arc<dyn Device> {
        Arc::new(SlowFile(file))
    }
}

#[derive(Debug)]
struct SlowFile(Arc<dyn Device>);

impl ForwardDevice for SlowFile {
    fn inner(&self) -> &dyn Device {
        &*self.0
    }

    /// Stops before any of the requests has taken effect. Who else wants a page that is being read
    /// waits for its reader, and commits wait for what is written to the log: nothing could go on
    /// if those stopped.
    fn submit(&self, batch: Batch) -> Ticket {
        let requests = batch.into_requests();
        let is_background = |request: &Request| {
            let is_read = matches!(request, Request::Read { .. });
            let purpose = request.purpose();
            !is_read && matches!(purpose, Purpose::Incorporate | Purpose::Compact | Purpose::Trunk)
        };
        if requests.iter().any(is_background) {
            stop();
        }
        let mut batch = Batch::new();
        for request in requests {
            batch.push(request);
        }
        self.0.submit(batch)
    }
}

#[test]
fn something_else_is_done_during_each_operation() {
    use alluvium_device::Buffer;
    let directory = SlowDirectory(MemoryDirectory::new());
    let file = Directory::create(&directory, "a", FileOptions::DIRECT).unwrap();
    file.grow(4096).unwrap();
    let (mut turns, mut seen) = (0, Vec::new());
    let read = || file.read_at(0, 512, Purpose::Compact).unwrap()[0];
    slowly(
        || {
            file.write_at(0, Buffer::padded(&[7]), Purpose::Compact).unwrap();
            file.write_at(0, Buffer::padded(&[8]), Purpose::Compact).unwrap();
        },
        || {
            turns += 1;
            seen.push(read());
        },
    );
    assert_eq!(read(), 8);
    assert!(turns >= 2, "{turns} turns");
    assert_eq!(seen[0], 0, "the first write has not taken effect");
    assert!(
        seen.contains(&7),
        "nor has the second, after the first has: {seen:?}"
    );
    let found = std::panic::catch_unwind(|| slowly(|| panic!("a slow thing fails"), || ()));
    assert!(found.is_err());
}
