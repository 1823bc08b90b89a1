//! NoticeQueue to the kernel of what others have changed. The file system reports changes from any
//! thread, also while requests are served; a thread of its own passes them on, because the kernel
//! takes a notice only once the requests about the same directory are answered (M2).

use crate::nodes::KernelReferences;
use alluvium_files::{ChangeListener, Inode};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the kernel is to drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelNotice {
    /// What it knows of a name.
    Entry { parent: Inode, name: Vec<u8> },
    /// The attributes and the contents of an inode.
    Contents(Inode),
}

#[derive(Default)]
struct NoticeList {
    waiting: VecDeque<KernelNotice>,
    /// Number of notices that were ever queued.
    queued: u64,
    /// Number of notices that the kernel has taken.
    delivered: u64,
    has_ended: bool,
}

/// The notices of a mount that wait for the kernel.
pub(crate) struct NoticeQueue {
    nodes: Arc<KernelReferences>,
    queue: Mutex<NoticeList>,
    changed: Condvar,
    epoch: AtomicU64,
}

impl NoticeQueue {
    pub(crate) fn new(nodes: Arc<KernelReferences>) -> NoticeQueue {
        NoticeQueue {
            nodes,
            queue: Mutex::default(),
            changed: Condvar::new(),
            epoch: AtomicU64::new(0),
        }
    }

    /// Returns the number of changes that were reported so far.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Queues a notice that the kernel's copy of an inode's contents is wrong.
    pub(crate) fn inode_is_stale(&self, inode: Inode) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        if self.nodes.knows(inode) {
            self.nodes.set_default_list(inode, None);
            self.push(KernelNotice::Contents(inode));
        }
    }

    fn push(&self, notice: KernelNotice) {
        let mut queue = self.queue.lock();
        if queue.has_ended || queue.waiting.back() == Some(&notice) {
            return;
        }
        queue.waiting.push_back(notice);
        queue.queued += 1;
        self.changed.notify_all();
    }

    /// Passes notices on until the mount ends.
    pub(crate) fn deliver(&self, send: impl Fn(&KernelNotice)) {
        while let Some(notice) = self.next() {
            send(&notice);
            self.queue.lock().delivered += 1;
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<KernelNotice> {
        let mut queue = self.queue.lock();
        loop {
            if queue.has_ended {
                return None;
            }
            if let Some(notice) = queue.waiting.pop_front() {
                return Some(notice);
            }
            self.changed.wait(&mut queue);
        }
    }

    /// Waits until the kernel has taken all notices that are queued now, or the mount has ended.
    pub(crate) fn settle(&self) {
        self.settle_until(None);
    }

    /// Like [`NoticeQueue::settle`], but gives up at the deadline, if there is one.
    fn settle_until(&self, deadline: Option<Instant>) {
        let mut queue = self.queue.lock();
        let last = queue.queued;
        while queue.delivered < last && !queue.has_ended {
            let Some(deadline) = deadline else {
                self.changed.wait(&mut queue);
                continue;
            };
            if self.changed.wait_until(&mut queue, deadline).timed_out() {
                return;
            }
        }
    }

    /// Drops the notices that wait: the mount has ended.
    pub(crate) fn end(&self) {
        let mut queue = self.queue.lock();
        queue.has_ended = true;
        queue.waiting.clear();
        self.changed.notify_all();
    }
}

/// The kernel knows entries only of directories that it refers to, so the mount drops notices of
/// others at once: a commit of a million new files in new directories costs nothing here.
impl ChangeListener for NoticeQueue {
    fn name_changed(&self, parent: Inode, name: &[u8]) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        if self.nodes.knows(parent) {
            let name = name.to_vec();
            self.push(KernelNotice::Entry { parent, name });
        }
    }

    fn inode_changed(&self, inode: Inode) {
        self.inode_is_stale(inode);
    }

    fn settle(&self, most: Duration) {
        self.settle_until(Instant::now().checked_add(most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_the_kernel_does_not_know_needs_no_notice() {
        let notices = NoticeQueue::new(Arc::new(KernelReferences::new()));
        notices.name_changed(Inode(7), b"name");
        assert_eq!((notices.queue.lock().queued, notices.epoch()), (0, 1));
        notices.name_changed(Inode::ROOT, b"name");
        notices.name_changed(Inode::ROOT, b"name");
        assert_eq!((notices.queue.lock().queued, notices.epoch()), (1, 3));
    }

    #[test]
    fn settling_gives_up_where_the_kernel_takes_nothing() {
        let notices = NoticeQueue::new(Arc::new(KernelReferences::new()));
        notices.name_changed(Inode::ROOT, b"name");
        ChangeListener::settle(&notices, Duration::from_millis(5));
        assert_eq!(notices.queue.lock().delivered, 0);
    }

    #[test]
    fn settling_waits_for_the_kernel_and_ends_with_the_mount() {
        let notices = Arc::new(NoticeQueue::new(Arc::new(KernelReferences::new())));
        notices.name_changed(Inode::ROOT, b"name");
        let settling = notices.clone();
        let waiting = std::thread::spawn(move || settling.settle());
        let delivering = notices.clone();
        let thread = std::thread::spawn(move || {
            delivering.deliver(|notice| assert!(matches!(notice, KernelNotice::Entry { .. })));
        });
        waiting.join().unwrap();
        assert_eq!(notices.queue.lock().delivered, 1);
        ChangeListener::settle(&*notices, Duration::from_secs(60));
        notices.end();
        thread.join().unwrap();
        notices.settle();
    }
}
