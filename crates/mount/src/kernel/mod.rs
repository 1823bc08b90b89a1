//! The conversation with the kernel over a mounted `/dev/fuse`: threads read requests and write
//! answers, and one thread writes notices.
//!
//! *Scope*: the messages of `linux/fuse.h`.
//!
//! *Must not depend on*: how a mount is attached; what an operation does.
//!
//! Invariants:
//!
//! - **K1** Every request but those without an answer is answered once, also if its bytes are not
//!   understood: ENOSYS tells the kernel to do without.

mod answers;
mod decode;
mod dispatch;
mod requests;

pub use decode::{decode_kernel_bytes, kernel_examples};

use crate::attach::clone_device;
use crate::notices::{KernelNotice, NoticeQueue};
use crate::options::{MountOptions, PageRetention, WriteCaching};
use crate::serve::{ErrorNumber, MountServer};
use answers::{AnswerWriter, MountAcceptance, STALE_ENTRY, STALE_INODE};
use parking_lot::{Condvar, Mutex};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest write, and longest read, in one request.
const LONGEST_TRANSFER: usize = 1 << 20;
/// A buffer for any request: the longest write, its arguments and more.
const BUFFER_BYTES: usize = LONGEST_TRANSFER + 4096;
const PAGE_BYTES: usize = 4096;
/// Requests that the kernel has under way at once without a program that waits for them.
const BACKGROUND_REQUESTS: u16 = 64;
/// The oldest version of the interface that has all that is needed: Linux 5.4.
const OLDEST_MINOR: u32 = 31;

/// What the kernel offers and a mount accepts, by the bits of `linux/fuse.h`.
mod flags {
    pub(super) const ASYNC_READ: u64 = 1 << 0;
    pub(super) const ATOMIC_TRUNCATE: u64 = 1 << 3;
    pub(super) const LARGE_WRITES: u64 = 1 << 5;
    pub(super) const UMASK_IS_APPLIED_HERE: u64 = 1 << 6;
    pub(super) const CHECK_PAGES: u64 = 1 << 12;
    pub(super) const LIST_ATTRIBUTES: u64 = 1 << 13;
    pub(super) const LIST_ATTRIBUTES_ADAPTIVELY: u64 = 1 << 14;
    pub(super) const ASYNC_DIRECT: u64 = 1 << 15;
    pub(super) const WRITE_BACK: u64 = 1 << 16;
    pub(super) const PARALLEL_DIRECTORIES: u64 = 1 << 18;
    pub(super) const ACCESS_LISTS: u64 = 1 << 20;
    pub(super) const MORE_PAGES: u64 = 1 << 22;
    pub(super) const CACHE_LINKS: u64 = 1 << 23;
    pub(super) const PRIVILEGES_ARE_REMOVED_HERE: u64 = 1 << 28;
    pub(super) const EXTENDED_FLAGS: u64 = 1 << 29;
    pub(super) const MORE_FLAGS: u64 = 1 << 30;
}

/// The threads that serve a mount.
pub(crate) struct KernelSession {
    threads: Vec<JoinHandle<()>>,
    end: Arc<SessionEnd>,
}

/// Whether the kernel has ended the mount.
struct SessionEnd {
    /// Threads that still read requests.
    reading: Mutex<usize>,
    changed: Condvar,
}

impl KernelSession {
    /// Serves a mounted device.
    pub(crate) fn start(server: &Arc<MountServer>, device: OwnedFd) -> io::Result<KernelSession> {
        greet(device.as_fd(), server.options())?;
        let mut devices = Vec::new();
        for _ in 1..server.options().threads.max(1) {
            devices.push(clone_device(device.as_fd())?);
        }
        let notifying = device.try_clone()?;
        devices.push(device);
        let end = Arc::new(SessionEnd {
            reading: Mutex::new(devices.len()),
            changed: Condvar::new(),
        });
        let mut threads = Vec::with_capacity(devices.len() + 1);
        for device in devices {
            let (server, end) = (server.clone(), end.clone());
            threads.push(thread("requests", move || {
                let _ending = ReadingThread {
                    server: &server,
                    end: &end,
                };
                read_requests(&server, device.as_fd());
            })?);
        }
        let notices = server.notices().clone();
        threads.push(thread("notices", move || {
            send_notices(&notices, notifying.as_fd());
        })?);
        Ok(KernelSession { threads, end })
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.end.reading.lock() == 0
    }

    /// Waits until the kernel has ended the mount, and returns whether it has.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut reading = self.end.reading.lock();
        while *reading > 0 {
            if self.end.changed.wait_until(&mut reading, until).timed_out() {
                return *reading == 0;
            }
        }
        true
    }

    /// Waits for the threads. The mount has ended.
    pub(crate) fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of a mount panicked");
            }
        }
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// Counts a thread until it ends, in whatever way.
struct ReadingThread<'a> {
    server: &'a MountServer,
    end: &'a SessionEnd,
}

impl Drop for ReadingThread<'_> {
    fn drop(&mut self) {
        let mut reading = self.end.reading.lock();
        *reading -= 1;
        if *reading == 0 {
            self.server.notices().end();
            self.end.changed.notify_all();
        }
    }
}

/// Reads the kernel's offer, and accepts it.
fn greet(device: BorrowedFd<'_>, options: &MountOptions) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let length = read(device, &mut buffer)?;
    let offer = buffer.get(..length).and_then(requests::decode_offer);
    let offer = offer.ok_or_else(|| io::Error::other("the kernel does not begin with an offer"))?;
    if offer.version.0 != requests::VERSION.0 || offer.version.1 < OLDEST_MINOR {
        let (major, minor) = offer.version;
        return Err(io::Error::other(format!(
            "the kernel's version of FUSE is {major}.{minor}, and 7.{OLDEST_MINOR} is needed: use Linux 5.4 or newer"
        )));
    }
    let mut writer = AnswerWriter::new();
    writer.acceptance(&MountAcceptance {
        readahead: offer.readahead,
        flags: offer.flags & wanted(options),
        background: BACKGROUND_REQUESTS,
        write_bytes: LONGEST_TRANSFER as u32,
        pages: (LONGEST_TRANSFER / PAGE_BYTES) as u16,
    });
    send(device, offer.number, 0, &writer.into_bytes())
}

fn wanted(options: &MountOptions) -> u64 {
    let pages = match options.pages {
        // The kernel drops pages on a notice, and also where it learns of another size. With
        // FUSE_EXPLICIT_INVAL_DATA it would not do the latter: a reader who learns of an append
        // before the notice arrives would then see zeros, from the old last page.
        PageRetention::UntilNotice => 0,
        PageRetention::UntilOpened => flags::CHECK_PAGES,
    };
    let writes = match options.writes {
        WriteCaching::Through => 0,
        WriteCaching::Back => flags::WRITE_BACK,
    };
    pages
        | writes
        | flags::ASYNC_READ
        | flags::ATOMIC_TRUNCATE
        | flags::LARGE_WRITES
        | flags::UMASK_IS_APPLIED_HERE
        | flags::LIST_ATTRIBUTES
        | flags::LIST_ATTRIBUTES_ADAPTIVELY
        | flags::ASYNC_DIRECT
        | flags::PARALLEL_DIRECTORIES
        | flags::ACCESS_LISTS
        | flags::MORE_PAGES
        | flags::CACHE_LINKS
        | flags::PRIVILEGES_ARE_REMOVED_HERE
        | flags::EXTENDED_FLAGS
        | flags::MORE_FLAGS
}

/// Reads one request.
fn read(device: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    use rustix::io::Errno;
    loop {
        match rustix::io::read(device, &mut *buffer) {
            Ok(length) => return Ok(length),
            // The program that waited for the request has been interrupted.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes an answer or a notice, which the kernel takes whole.
fn send(device: BorrowedFd<'_>, number: u64, code: i32, body: &[u8]) -> io::Result<()> {
    let header = answers::encode_header(number, code, body.len());
    rustix::io::writev(device, &[IoSlice::new(&header), IoSlice::new(body)])?;
    Ok(())
}

/// Answers requests until the kernel ends the mount.
fn read_requests(server: &MountServer, device: BorrowedFd<'_>) {
    let mut buffer = vec![0; BUFFER_BYTES];
    // Fresh memory for each long answer would cost a page fault for every 4 KiB.
    let mut spare = Vec::new();
    loop {
        let length = match read(device, &mut buffer) {
            Ok(length) => length,
            Err(error) => {
                if error.raw_os_error() != Some(libc::ENODEV) {
                    tracing::warn!("a mount has ended: {error}");
                }
                return;
            }
        };
        let Some(bytes) = buffer.get(..length) else {
            return;
        };
        let Some(number) = requests::decode_number(bytes) else {
            continue;
        };
        let answer = match requests::decode_request(bytes) {
            Some(request) => server.answer(|serving| dispatch::answer(serving, &request, &mut spare)),
            None => Err(ErrorNumber(libc::ENOSYS)),
        };
        let sent = match answer {
            Ok(None) => Ok(()),
            Ok(Some(body)) => {
                let sent = send(device, number, 0, &body);
                if body.capacity() > spare.capacity() {
                    spare = body;
                }
                sent
            }
            Err(ErrorNumber(error)) => send(device, number, -error, &[]),
        };
        // A request that was interrupted needs no answer any more.
        if let Err(error) = sent {
            tracing::debug!("the kernel did not take an answer: {error}");
        }
    }
}

fn send_notices(notices: &NoticeQueue, device: BorrowedFd<'_>) {
    notices.deliver(|notice| {
        let mut writer = AnswerWriter::new();
        let code = match notice {
            KernelNotice::Entry { parent, name } => {
                writer.stale_entry(*parent, name);
                STALE_ENTRY
            }
            KernelNotice::Contents(inode) => {
                writer.stale_inode(*inode);
                STALE_INODE
            }
        };
        if let Err(error) = send(device, 0, code, &writer.into_bytes()) {
            // ENOENT: the kernel does not know it.
            tracing::debug!("the kernel did not take {notice:?}: {error}");
        }
    });
}
