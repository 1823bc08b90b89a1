//! A device whose operations are slow, so that other work can run in the middle of them.
//!
//! The slow operation runs on a separate thread. Whenever it is about to write data to the device
//! or to sync it, it stops, and its caller runs other work. Iterators also stop between keys. Only
//! one of the two threads runs at a time. The seed determines where they switch, so that each seed
//! reproduces its history.

use crate::locking::fault;
use alluvium_base::Purpose;
use alluvium_device::forward::{ForwardDevice, ForwardDirectory};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Device, Directory, FileOptions, IoBatch, IoRequest, Ticket};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The channels between the thread of a slow operation and the operation's caller.
struct Turn {
    stops: Sender<()>,
    goes_on: Receiver<()>,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Stops the current thread while the caller of [`slowly`] runs other work. Does nothing unless the
/// thread is running a slow operation.
pub(super) fn stop() {
    TURN.with_borrow(|turn| {
        let Some(turn) = turn else { return };
        // If the caller has panicked, the channel is closed, and there is nothing to wait for.
        if turn.stops.send(()).is_ok() {
            _ = turn.goes_on.recv();
        }
    });
}

/// Runs `act`, an operation that uses the device, and calls `meanwhile` whenever the operation
/// stops. Returns the result of `act`.
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
        // This closure drops the sender, so that the thread continues if `meanwhile` panics.
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

/// An in-memory directory with slow operations.
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

    /// Stops before a background write is submitted. Other requests must not stop, because nothing
    /// else could run: readers of a page wait for that page to be read, and commits wait for log
    /// writes.
    fn submit(&self, batch: IoBatch) -> Ticket {
        let requests = batch.into_requests();
        let is_background = |request: &IoRequest| {
            let is_read = matches!(request, IoRequest::Read { .. });
            let purpose = request.purpose();
            !is_read && matches!(purpose, Purpose::Incorporate | Purpose::Compact | Purpose::Trunk)
        };
        if requests.iter().any(is_background) {
            stop();
        }
        let mut batch = IoBatch::new();
        for request in requests {
            batch.push(request);
        }
        self.0.submit(batch)
    }
}

#[test]
fn something_else_is_done_during_each_operation() {
    use alluvium_device::AlignedBuffer;
    let directory = SlowDirectory(MemoryDirectory::new());
    let file = Directory::create(&directory, "a", FileOptions::DIRECT).unwrap();
    file.grow(4096).unwrap();
    let (mut turns, mut seen) = (0, Vec::new());
    let read = || file.read_at(0, 512, Purpose::Compact).unwrap()[0];
    slowly(
        || {
            file.write_at(0, AlignedBuffer::padded(&[7]), Purpose::Compact)
                .unwrap();
            file.write_at(0, AlignedBuffer::padded(&[8]), Purpose::Compact)
                .unwrap();
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
