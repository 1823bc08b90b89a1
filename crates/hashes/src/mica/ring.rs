//! A ring of frames, through which a thread sends requests to the thread that owns a partition.
//!
//! One thread writes requests to frames. The other replaces each request with its reply in the same
//! frame, and the first thread then consumes the replies. Two counters determine which thread owns
//! a frame. Each counter is written by only one thread, once per burst:
//!
//! ```text
//!   answered         asked         answered + frames
//!      ├── answerer's ──┼── asker's ────┤      what it has asked, and not taken, is behind `answered`
//! ```
//!
//! - **M8** Only one thread at a time accesses a frame. The responder (answerer) owns the frames
//!   from number `answered` up to but excluding number `asked`, and the requester (asker) owns all
//!   others. Incrementing a counter transfers ownership of frames and their contents.

use super::sync::{AtomicU64, HandoffCell, Ordering};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A buffer for a request and, later, for its reply.
#[derive(Debug)]
pub struct RingFrame {
    bytes: Box<[u8]>,
    length: usize,
}

impl RingFrame {
    /// Returns the contents of the frame, up to the length that was set.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns the whole buffer. The caller writes the contents and then calls
    /// [`RingFrame::set_length`].
    pub fn buffer(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Sets the length of the contents, in bytes.
    ///
    /// # Panics
    /// If the length exceeds the size of the buffer.
    pub fn set_length(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes.len(), "{bytes} of {}", self.bytes.len());
        self.length = bytes;
    }
}

/// A counter with a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CacheLineCounter(AtomicU64);

#[derive(Debug)]
struct FrameRing {
    frames: Box<[HandoffCell<RingFrame>]>,
    /// Total number of requests sent. Only the requester writes it.
    asked: CacheLineCounter,
    /// Total number of replies sent. Only the responder writes it.
    answered: CacheLineCounter,
    /// Whether the requester or the responder has been dropped.
    is_disconnected: AtomicBool,
}

impl FrameRing {
    fn cell(&self, number: u64) -> &HandoffCell<RingFrame> {
        &self.frames[(number % self.frames.len() as u64) as usize]
    }
}

/// The end of a ring that sends requests and receives replies.
#[derive(Debug)]
pub struct RingRequester {
    ring: Arc<FrameRing>,
    /// Total number of requests written, including those that have not been sent yet.
    written: u64,
    /// Total number of replies consumed, which never exceeds `answered`.
    taken: u64,
    /// The ring's counter `answered` as of the last time it was loaded.
    answered: u64,
}

/// The end of a ring that receives requests and sends replies.
#[derive(Debug)]
pub struct RingResponder {
    ring: Arc<FrameRing>,
    answered: u64,
    /// The ring's counter `asked` as of the last time it was loaded.
    asked: u64,
}

/// Creates a ring with `frames` frames of `bytes` bytes each, and returns its two ends.
///
/// ```
/// use alluvium_hashes::mica::ring;
/// let (mut asker, mut answerer) = ring(4, 64);
/// let frame = asker.next_frame().unwrap();
/// frame.buffer()[..3].copy_from_slice(b"who");
/// frame.set_length(3);
/// asker.send();
/// assert_eq!(answerer.poll(), 1);
/// answerer.frame(0).buffer()[..2].copy_from_slice(b"me");
/// answerer.frame(0).set_length(2);
/// answerer.publish(1);
/// assert_eq!(asker.poll(), 1);
/// assert_eq!(asker.reply(0), b"me");
/// asker.take(1);
/// ```
///
/// # Panics
/// If `frames` is zero.
#[must_use]
pub fn ring(frames: usize, bytes: usize) -> (RingRequester, RingResponder) {
    assert!(frames > 0, "a ring has frames");
    let frame = || RingFrame {
        bytes: vec![0; bytes].into_boxed_slice(),
        length: 0,
    };
    let ring = Arc::new(FrameRing {
        frames: (0..frames).map(|_| HandoffCell::new(frame())).collect(),
        asked: CacheLineCounter::default(),
        answered: CacheLineCounter::default(),
        is_disconnected: AtomicBool::new(false),
    });
    let asker = RingRequester {
        ring: Arc::clone(&ring),
        written: 0,
        taken: 0,
        answered: 0,
    };
    let answerer = RingResponder {
        ring,
        answered: 0,
        asked: 0,
    };
    (asker, answerer)
}

impl RingRequester {
    /// Returns the number of frames that are free for requests.
    #[must_use]
    pub fn free(&self) -> usize {
        self.ring.frames.len() - (self.written - self.taken) as usize
    }

    /// Returns a free frame for the caller to write a request to, or `None` if there is none. The
    /// next [`RingRequester::send`] sends the request.
    pub fn next_frame(&mut self) -> Option<&mut RingFrame> {
        if self.free() == 0 {
            return None;
        }
        let number = self.written;
        self.written += 1;
        // SAFETY: the previous reply in this frame was consumed. The frame is not passed to the
        // responder before `send`, which needs a mutable borrow of `self`. Until then only the
        // requester accesses it (M8).
        Some(unsafe { self.ring.cell(number).reach_mut() })
    }

    /// Undoes the last [`RingRequester::next_frame`], whose frame must not have been sent.
    ///
    /// # Panics
    /// If all frames have been sent.
    pub fn cancel_frame(&mut self) {
        let asked = self.ring.asked.0.load(Ordering::Relaxed);
        assert!(self.written > asked, "what was sent is not taken back");
        self.written -= 1;
    }

    /// Sends all requests written since the last call.
    pub fn send(&mut self) {
        self.ring.asked.0.store(self.written, Ordering::Release);
    }

    /// Returns the number of replies that have arrived but have not been consumed.
    pub fn poll(&mut self) -> usize {
        self.answered = self.ring.answered.0.load(Ordering::Acquire);
        assert!(
            self.answered <= self.written,
            "what was not asked is not answered"
        );
        (self.answered - self.taken) as usize
    }

    /// Returns reply number `index` of those that the last [`RingRequester::poll`] counted.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[must_use]
    pub fn reply(&self, index: usize) -> &[u8] {
        let number = self.taken + index as u64;
        assert!(number < self.answered, "{index} is no answer");
        // SAFETY: the responder has passed back the frame, and the requester does not write it
        // again before `take`, which needs a mutable borrow of `self`. So nothing changes it during
        // the borrow (M8).
        unsafe { self.ring.cell(number).reach() }.bytes()
    }

    /// Consumes the first `count` replies and frees their frames.
    ///
    /// # Panics
    /// If fewer than `count` replies have arrived.
    pub fn take(&mut self, count: usize) {
        assert!(self.taken + count as u64 <= self.answered, "{count} answers");
        self.taken += count as u64;
    }

    /// Returns whether the responder has been dropped.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.ring.is_disconnected.load(Ordering::Acquire)
    }
}

impl RingResponder {
    /// Returns the number of requests that have arrived but have not been answered.
    pub fn poll(&mut self) -> usize {
        self.asked = self.ring.asked.0.load(Ordering::Acquire);
        let waiting = self.asked - self.answered;
        assert!(waiting <= self.ring.frames.len() as u64, "{waiting} frames wait");
        waiting as usize
    }

    fn cell(&self, index: usize) -> &HandoffCell<RingFrame> {
        let number = self.answered + index as u64;
        assert!(number < self.asked, "{index} does not wait");
        self.ring.cell(number)
    }

    /// Returns request number `index` of those that the last [`RingResponder::poll`] counted.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[must_use]
    pub fn bytes(&self, index: usize) -> &[u8] {
        // SAFETY: the request was sent and is not answered, so only the responder accesses the
        // frame (M8).
        unsafe { self.cell(index).reach() }.bytes()
    }

    /// Returns frame number `index` of those that the last [`RingResponder::poll`] counted.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn frame(&mut self, index: usize) -> &mut RingFrame {
        // SAFETY: the request was sent and is not answered, so only the responder accesses the
        // frame (M8). `self` is mutably borrowed as long as the returned reference, so there is no
        // second reference.
        unsafe { self.cell(index).reach_mut() }
    }

    /// Sends the first `count` frames back to the requester as replies.
    ///
    /// # Panics
    /// If fewer than `count` requests are waiting.
    pub fn publish(&mut self, count: usize) {
        let answered = self.answered + count as u64;
        assert!(answered <= self.asked, "{count} frames were not asked");
        self.answered = answered;
        self.ring.answered.0.store(answered, Ordering::Release);
    }

    /// Returns whether the requester has been dropped.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.ring.is_disconnected.load(Ordering::Acquire)
    }
}

impl Drop for RingRequester {
    fn drop(&mut self) {
        let left = &self.ring.is_disconnected;
        left.store(true, Ordering::Release);
    }
}

impl Drop for RingResponder {
    fn drop(&mut self) {
        let left = &self.ring.is_disconnected;
        left.store(true, Ordering::Release);
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    fn ask(asker: &mut RingRequester, number: u64) -> bool {
        let Some(frame) = asker.next_frame() else {
            return false;
        };
        frame.buffer()[..8].copy_from_slice(&number.to_le_bytes());
        frame.set_length(8);
        true
    }

    #[test]
    fn answers_come_in_order_whatever_the_bursts_and_no_frame_is_used_twice() {
        for frames in [1, 2, 7, 64] {
            let (mut asker, mut answerer) = ring(frames, 8);
            let mut random = fastrand::Rng::with_seed(frames as u64);
            let (mut asked, mut taken) = (0_u64, 0_u64);
            while taken < 5000 {
                for _ in 0..random.usize(..=frames) {
                    asked += u64::from(ask(&mut asker, asked));
                }
                assert_eq!(asker.free() as u64, frames as u64 - (asked - taken));
                asker.send();
                let waiting = answerer.poll();
                let count = random.usize(..=waiting);
                for index in 0..count {
                    let number = u64::from_le_bytes(answerer.bytes(index).try_into().unwrap());
                    let frame = answerer.frame(index);
                    frame.buffer()[..8].copy_from_slice(&(number * 3).to_le_bytes());
                }
                answerer.publish(count);
                let there = asker.poll();
                let count = random.usize(..=there);
                for index in 0..count {
                    assert_eq!(asker.reply(index), (taken * 3).to_le_bytes());
                    taken += 1;
                }
                asker.take(count);
            }
        }
    }

    #[test]
    fn a_frame_that_is_not_sent_is_not_seen_and_may_be_taken_back() {
        let (mut asker, mut answerer) = ring(2, 8);
        assert!(ask(&mut asker, 1) && ask(&mut asker, 2) && !ask(&mut asker, 3));
        assert_eq!(answerer.poll(), 0);
        asker.cancel_frame();
        asker.send();
        assert_eq!(answerer.poll(), 1);
        assert_eq!(asker.free(), 1);
        assert!(!answerer.is_disconnected());
        drop(asker);
        assert!(answerer.is_disconnected());
    }

    #[test]
    #[should_panic(expected = "does not wait")]
    fn what_was_not_asked_is_not_reached() {
        let (_asker, mut answerer) = ring(2, 8);
        answerer.frame(0);
    }

    #[test]
    fn two_threads_meet_in_it() {
        const COUNT: u64 = 20_000;
        let (mut asker, mut answerer) = ring(16, 8);
        let answering = std::thread::spawn(move || {
            let mut done = 0;
            while done < COUNT {
                let count = answerer.poll();
                for index in 0..count {
                    let number = u64::from_le_bytes(answerer.bytes(index).try_into().unwrap());
                    assert_eq!(number, done);
                    done += 1;
                    let frame = answerer.frame(index);
                    frame.buffer()[..8].copy_from_slice(&(!number).to_le_bytes());
                }
                answerer.publish(count);
                std::thread::yield_now();
            }
        });
        let (mut asked, mut taken) = (0, 0);
        while taken < COUNT {
            while asked < COUNT && ask(&mut asker, asked) {
                asked += 1;
            }
            asker.send();
            let count = asker.poll();
            for index in 0..count {
                assert_eq!(asker.reply(index), (!taken).to_le_bytes());
                taken += 1;
            }
            asker.take(count);
            std::thread::yield_now();
        }
        answering.join().unwrap();
    }
}

#[cfg(all(test, alluvium_model_check))]
mod model_check {
    use super::*;
    use loom::thread;

    /// Passes two frames around the ring until three requests have been answered. The model
    /// checker's cells detect two threads that access the same frame.
    #[test]
    fn a_frame_has_one_thread_at_a_time() {
        loom::model(|| {
            let (mut asker, mut answerer) = ring(2, 1);
            let answering = thread::spawn(move || {
                let mut done = 0;
                while done < 3 {
                    let count = answerer.poll();
                    for index in 0..count {
                        let byte = answerer.bytes(index)[0];
                        assert_eq!(byte, done);
                        answerer.frame(index).buffer()[0] = byte + 100;
                        done += 1;
                    }
                    answerer.publish(count);
                    thread::yield_now();
                }
            });
            let (mut asked, mut taken) = (0, 0);
            while taken < 3 {
                while asked < 3
                    && let Some(frame) = asker.next_frame()
                {
                    frame.set_length(1);
                    frame.buffer()[0] = asked;
                    asked += 1;
                }
                asker.send();
                let count = asker.poll();
                for index in 0..count {
                    assert_eq!(asker.reply(index), [taken + 100]);
                    taken += 1;
                }
                asker.take(count);
                thread::yield_now();
            }
            answering.join().unwrap();
        });
    }
}
