//! Commits that wait for a device whose sync duration the test controls.

use super::kinds;
use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Durability, Options};
use alluvium_device::forward::{ForwardDevice, ForwardDirectory};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{
    Device, DeviceOperation, Directory, Error, FileMapping, FileOptions, IoBatch, IoRequest, Result, Ticket,
};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};

/// A gate that makes syncs wait while it is closed.
#[derive(Debug, Default)]
struct Gate {
    /// Whether the gate is closed, and how many syncs are waiting.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, is_closed: bool) {
        self.state.lock().unwrap().0 = is_closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.0).unwrap();
        state.1 -= 1;
    }

    fn wait_for_a_sync(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.1 == 0).unwrap());
    }
}

#[derive(Debug)]
struct Slow {
    inner: MemoryDirectory,
    gate: Arc<Gate>,
}

impl ForwardDirectory for Slow {
    fn inner(&self) -> &dyn Directory {
        &self.inner
    }

    fn wrap(&self, inner: Arc<dyn Device>, _options: FileOptions) -> Arc<dyn Device> {
        let gate = Arc::clone(&self.gate);
        Arc::new(SlowFile { inner, gate })
    }
}

#[derive(Debug)]
struct SlowFile {
    inner: Arc<dyn Device>,
    gate: Arc<Gate>,
}

impl ForwardDevice for SlowFile {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn submit(&self, batch: IoBatch) -> Ticket {
        let mut passed_on = IoBatch::new();
        for request in batch.into_requests() {
            if matches!(request, IoRequest::Sync { .. }) {
                self.gate.pass();
            }
            passed_on.push(request);
        }
        self.inner.submit(passed_on)
    }

    /// Without a mapping, the log uses requests to write and sync.
    fn map(&self, _range: Range<u64>) -> Result<FileMapping> {
        Err(Error::Unsupported {
            operation: DeviceOperation::Map,
            file: self.inner.name().to_owned(),
            why: "a test".to_owned(),
        })
    }
}

#[test]
fn no_lock_is_held_while_a_commit_waits_for_the_device() {
    let gate = Arc::new(Gate::default());
    let directory = Slow {
        inner: MemoryDirectory::new(),
        gate: Arc::clone(&gate),
    };
    let options = Options::new().memory(16 << 20).workers(0);
    let db = options.open_in(Arc::new(directory)).unwrap();
    let seas = db.keyspace("seas").unwrap();
    for options in kinds() {
        seas.put("x", "0").unwrap();
        let first = db.begin_with(&options);
        first.put(&seas, "x", "1").unwrap();
        gate.set(true);
        std::thread::scope(|scope| {
            let committer = scope.spawn(|| first.commit_with(Durability::Disk));
            gate.wait_for_a_sync();
            let second = db.begin_with(&options);
            let seen = second.get(&seas, "x");
            let put = second.put(&seas, "x", "2");
            let has_waited = !committer.is_finished();
            // The thread must end, whatever the result.
            gate.set(false);
            committer.join().unwrap().unwrap();
            assert!(has_waited, "{options:?}: acknowledged before it was synced");
            assert_eq!(seen.unwrap().unwrap(), b"1", "{options:?}");
            put.unwrap();
            second.commit_with(Durability::Disk).unwrap();
        });
        assert_eq!(seas.get("x").unwrap().unwrap(), b"2");
    }
}
