//! Misses: one read for many readers of the same node, one batch for many nodes, and what a
//! finished read becomes. Threads that wait for what they miss are in `fetch.rs`.
//!
//! ```text
//! begin   look again | it is being read: join | else take memory, note the flight
//!         (the flight's shard is locked)
//! submit  one batch per tier and 256 nodes, under a hold of the epochs
//! finish  the first thread that waits: wait for the device, verify, decode,
//!         then publish, remove the flight (the flight's shard is locked)
//! ```
//!
//! Looking again and noting the flight are one step, and so are publishing and removing it: no node
//! is read twice. A reader that joins a flight is pinned since before its node was published, so
//! the frame stays valid for its guard.

use super::budget::{Charge, Owner};
use super::flights::Flight;
use super::frame::{FrameId, Key, Manner};
use super::node_ref::{Home, Private};
use super::requests::{Group, grouped};
use super::sound::issue_of;
use super::turn::{Progress, Turn};
use super::{Residence, Shared};
use crate::{Codec, Error, Guard, Hold, NodePointer, Result};
use alluvium_base::Purpose;
use alluvium_device::{Batch, Buffer, Device, Outcome, Ticket};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most nodes in one batch.
const MAX_BATCH: usize = 256;
/// What the record of one node in flight costs, its request and its outcome included.
const RECORD_BYTES: u64 = 320;
/// While more than this fraction of the budget is being read, nothing more is read ahead.
const REQUESTED_FRACTION: u64 = 8;

/// One batch in flight, and the nodes that came of it.
pub(super) type Reading = Turn<Job, Arc<[Settled]>>;
/// What became of one node.
pub(super) type Settled = std::result::Result<Home, Arc<Error>>;

/// The memory that a node is read into.
#[derive(Debug)]
enum Memory {
    Frame(FrameId),
    Private(Charge),
}

/// One node of a batch.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) pointer: NodePointer,
    /// What is read: the pointer, or where a copy is.
    pub(super) read: NodePointer,
    key: Key,
    pub(super) hash: u64,
    memory: Memory,
    residence: Residence,
    /// No reader waits for it yet.
    ahead: bool,
}

/// A batch that was submitted.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) device: Arc<dyn Device>,
    pub(super) ticket: Ticket,
    entries: Vec<Entry>,
    /// The requests, in their order.
    groups: Vec<Group>,
    purpose: Purpose,
    /// Keeps what is being read from being freed and overwritten.
    _hold: Hold,
    reading_bytes: u64,
    _charge: Charge,
}

/// What a batch asks of the device, and what that costs.
pub(super) struct Requests {
    pub(super) groups: Vec<Group>,
    /// Bytes of its records, of private memory and of what several nodes share.
    pub(super) bytes: u64,
    pub(super) reading_bytes: u64,
}

/// What a read has brought of a node.
pub(super) enum Brought<'b> {
    /// Its own outcome, whose buffer is the node's memory.
    Own(Outcome),
    /// The same of a copy, read without an error.
    Copy(Buffer),
    /// A part of what several nodes share.
    Shared(&'b [u8]),
}

/// What [`Shared::begin`] found or began for one node.
#[derive(Debug)]
pub(super) enum Joined {
    /// It is in the cache.
    Frame(FrameId),
    /// It is the n-th node of a batch.
    Reading {
        reading: Arc<Reading>,
        index: usize,
        /// Whether another call began it.
        others: bool,
    },
    /// There is no frame for it.
    Skipped,
}

/// What to do when no frame is to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Otherwise {
    /// Read into private memory.
    Private,
    /// Do not read.
    Skip,
}

/// A batch that is being put together. Dropped unsubmitted (by a panic), it tells those who wait.
pub(super) struct Issue {
    pub(super) tier: u8,
    pub(super) reading: Arc<Reading>,
    pub(super) entries: Vec<Entry>,
}

impl Drop for Issue {
    fn drop(&mut self) {
        if !self.entries.is_empty() {
            self.reading.abandon();
        }
    }
}

impl Shared {
    /// Returns the frame of a node that is in the cache.
    #[inline]
    pub(super) fn look(&self, key: &Key, hash: u64, guard: &Guard) -> Option<FrameId> {
        self.tables
            .find(hash, guard, |frame| self.header(frame).holds(key))
    }

    /// Finds or begins to read every node of `pointers`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a pointer that cannot be one; nothing was begun then.
    pub(super) fn begin(
        &self,
        pointers: &[NodePointer],
        guard: &Guard,
        purpose: Purpose,
        residence: Residence,
        otherwise: Otherwise,
    ) -> Result<Vec<Joined>> {
        let submit = |issue| self.submit(issue, purpose);
        self.begin_and(pointers, guard, purpose, residence, otherwise, submit)
    }

    /// The same; the last batch is given to `read` once all others are submitted.
    pub(super) fn begin_and(
        &self,
        pointers: &[NodePointer],
        guard: &Guard,
        purpose: Purpose,
        residence: Residence,
        otherwise: Otherwise,
        read: impl FnOnce(Issue),
    ) -> Result<Vec<Joined>> {
        self.check_all(pointers)?;
        let mut issues: Vec<Issue> = Vec::new();
        let mut joined = Vec::with_capacity(pointers.len());
        for pointer in pointers {
            if let Some(full) = issues.iter().position(|issue| issue.entries.len() == MAX_BATCH) {
                self.submit(issues.swap_remove(full), purpose);
            }
            joined.push(self.join(pointer, guard, residence, otherwise, &mut issues));
        }
        let last = issues.pop();
        for issue in issues {
            self.submit(issue, purpose);
        }
        if let Some(last) = last {
            read(last);
        }
        Ok(joined)
    }

    /// The same for several who ask each for a few nodes and wait each for its own: one handing
    /// over to the device, a ticket each.
    pub(super) fn begin_each(
        &self,
        wanted: &[&[NodePointer]],
        guard: &Guard,
        purpose: Purpose,
        residence: Residence,
    ) -> Result<Vec<Vec<Joined>>> {
        for pointers in wanted {
            self.check_all(pointers)?;
        }
        let mut issues: Vec<Issue> = Vec::new();
        let mut all = Vec::with_capacity(wanted.len());
        for pointers in wanted {
            let mut own: Vec<Issue> = Vec::new();
            let join = |pointer| self.join(pointer, guard, residence, Otherwise::Skip, &mut own);
            all.push(pointers.iter().map(join).collect());
            issues.append(&mut own);
        }
        while let Some(tier) = issues.first().map(|issue| issue.tier) {
            let (these, others) = issues.into_iter().partition(|issue| issue.tier == tier);
            issues = others;
            self.submit_many(these, tier, purpose);
        }
        Ok(all)
    }

    pub(super) fn check_all(&self, pointers: &[NodePointer]) -> Result<()> {
        for pointer in pointers {
            self.tiers.get(pointer.tier)?;
            pointer.check(&pointer.place(), self.page_size)?;
        }
        Ok(())
    }

    pub(super) fn join(
        &self,
        pointer: &NodePointer,
        guard: &Guard,
        residence: Residence,
        otherwise: Otherwise,
        issues: &mut Vec<Issue>,
    ) -> Joined {
        let key = Key::of(pointer);
        let hash = key.hash();
        if let Some(joined) = self.joined(&key, hash, &self.flights.shard(hash), guard) {
            return joined;
        }
        // Outside the lock: taking a frame may evict 64 others.
        let class = usize::from(pointer.pages) - 1;
        let patient = otherwise == Otherwise::Skip;
        if patient && self.reading_bytes.load(Ordering::Relaxed) > self.budget.limit() / REQUESTED_FRACTION {
            return Joined::Skipped;
        }
        let memory = match self.take_frame(class, guard, residence) {
            Some(frame) => Memory::Frame(frame),
            None if patient => return Joined::Skipped,
            None => {
                self.counters.private(guard);
                let bytes = self.page_size.node_bytes(pointer.pages) as u64;
                Memory::Private(Charge::new(&self.budget, Owner::Private, bytes))
            }
        };
        let mut shard = self.flights.shard(hash);
        if let Some(joined) = self.joined(&key, hash, &shard, guard) {
            drop(shard);
            if let Memory::Frame(frame) = memory {
                self.return_frame(frame, guard);
            }
            return joined;
        }
        let read = self.copies.find(pointer, hash).unwrap_or(*pointer);
        let issue = issue_of(issues, read.tier);
        let (reading, index) = (Arc::clone(&issue.reading), issue.entries.len());
        issue.entries.push(Entry {
            pointer: *pointer,
            read,
            key,
            hash,
            memory,
            residence,
            ahead: patient,
        });
        shard.push(Flight {
            key,
            reading: Arc::clone(&reading),
            index,
        });
        drop(shard);
        if residence == Residence::PassThrough {
            self.passing.fetch_add(1, Ordering::Relaxed);
        }
        self.counters.missed(guard);
        Joined::Reading {
            reading,
            index,
            others: false,
        }
    }

    /// Returns the node, or the flight that it is on. The hash's shard is locked.
    fn joined(&self, key: &Key, hash: u64, shard: &[Flight], guard: &Guard) -> Option<Joined> {
        if let Some(frame) = self.look(key, hash, guard) {
            return Some(Joined::Frame(frame));
        }
        let flight = shard.iter().find(|flight| flight.key == *key)?;
        self.counters.joined(guard);
        Some(Joined::Reading {
            reading: Arc::clone(&flight.reading),
            index: flight.index,
            others: true,
        })
    }

    pub(super) fn device(&self, tier: u8) -> &Arc<dyn Device> {
        let device = self.tiers.get(tier);
        device.expect("the tier was looked up when the batch was begun")
    }

    fn submit(&self, issue: Issue, purpose: Purpose) {
        let device = self.device(issue.tier);
        let (batch, requests) = self.requests(&issue, purpose);
        self.submitted(issue, requests, device, device.submit(batch), purpose);
    }

    fn submit_many(&self, issues: Vec<Issue>, tier: u8, purpose: Purpose) {
        let device = self.device(tier);
        let all = issues.iter().map(|issue| self.requests(issue, purpose));
        let (batches, requests): (Vec<Batch>, Vec<Requests>) = all.unzip();
        let tickets = device.submit_many(batches);
        assert_eq!(tickets.len(), requests.len(), "a ticket for each batch");
        for ((issue, requests), ticket) in issues.into_iter().zip(requests).zip(tickets) {
            self.submitted(issue, requests, device, ticket, purpose);
        }
    }

    /// Returns what the device is asked for.
    pub(super) fn requests(&self, issue: &Issue, purpose: Purpose) -> (Batch, Requests) {
        let groups = grouped(issue.entries.iter().map(|entry| &entry.read));
        let mut batch = Batch::with_capacity(groups.len());
        let (mut bytes, mut reading_bytes) = (0, 0);
        for entry in &issue.entries {
            bytes += RECORD_BYTES;
            reading_bytes += self.page_size.node_bytes(entry.pointer.pages) as u64;
            if let Memory::Private(_) = entry.memory {
                bytes += entry.pointer.read_len() as u64;
            }
        }
        for group in &groups {
            let buffer = if let [node] = group.nodes[..] {
                self.memory_of(&issue.entries[node])
            } else {
                let len = group.bytes.end - group.bytes.start;
                bytes += len;
                Buffer::zeroed(len as usize)
            };
            batch.read(group.bytes.start, buffer, purpose);
        }
        self.reading_bytes.fetch_add(reading_bytes, Ordering::Relaxed);
        let requests = Requests {
            groups,
            bytes,
            reading_bytes,
        };
        (batch, requests)
    }

    fn submitted(
        &self,
        mut issue: Issue,
        requests: Requests,
        device: &Arc<dyn Device>,
        ticket: Ticket,
        purpose: Purpose,
    ) {
        issue.reading.ready(Job {
            device: Arc::clone(device),
            ticket,
            entries: std::mem::take(&mut issue.entries),
            groups: requests.groups,
            purpose,
            _hold: self.epochs.hold(),
            reading_bytes: requests.reading_bytes,
            _charge: Charge::new(&self.budget, Owner::Working, requests.bytes),
        });
    }

    /// Returns the memory that a node's encoded bytes are read into when the read is not shared.
    fn memory_of(&self, entry: &Entry) -> Buffer {
        let len = entry.pointer.read_len();
        match entry.memory {
            // SAFETY: the frame was taken for this entry alone, and has room for the encoded node,
            // which is never longer than the decoded one.
            Memory::Frame(frame) => unsafe { self.arena.buffer(self.data_at(frame), len) },
            Memory::Private(_) => Buffer::zeroed(len),
        }
    }

    /// Waits for a batch, or for the thread that finishes it. `None` when that thread panicked.
    pub(super) fn finish(&self, reading: &Reading, guard: &Guard) -> Option<Arc<[Settled]>> {
        reading.finish(|job| {
            job.device.wait(&job.ticket);
            self.settle(job, guard)
        })
    }

    /// Settles a batch if that does not block. Returns whether it is settled.
    pub(super) fn try_finish(&self, reading: &Reading, guard: &Guard) -> bool {
        let is_ready = |job: &Job| job.device.poll(&job.ticket);
        reading.try_finish(is_ready, |job| self.settle(job, guard)) != Progress::Waiting
    }

    /// The same without asking the device.
    pub(super) fn try_settle(&self, reading: &Reading, guard: &Guard) -> bool {
        let is_ready = |job: &Job| job.ticket.is_complete();
        reading.try_finish(is_ready, |job| self.settle(job, guard)) != Progress::Waiting
    }

    /// Settles every read in flight that the device is done with, even if its reader has not come
    /// back for it.
    pub(super) fn settle_all(&self, guard: &Guard) {
        if self.reading_bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        for reading in self.flights.readings() {
            self.try_finish(&reading, guard);
        }
    }

    /// Settles a batch that was submitted and has completed.
    fn settle(&self, job: Job, guard: &Guard) -> Arc<[Settled]> {
        let reading = self.reading_bytes.fetch_sub(job.reading_bytes, Ordering::Relaxed);
        debug_assert!(reading >= job.reading_bytes, "bytes being read are counted");
        let outcomes = job.ticket.take();
        self.settle_each(
            job.entries,
            &job.groups,
            outcomes,
            &*job.device,
            job.purpose,
            guard,
        )
    }

    /// Verifies, decodes and publishes the nodes of a batch that the device has finished.
    pub(super) fn settle_each(
        &self,
        entries: Vec<Entry>,
        groups: &[Group],
        outcomes: Vec<Outcome>,
        device: &dyn Device,
        purpose: Purpose,
        guard: &Guard,
    ) -> Arc<[Settled]> {
        assert_eq!(outcomes.len(), groups.len(), "an outcome per request");
        let mut entries: Vec<Option<Entry>> = entries.into_iter().map(Some).collect();
        let mut settled: Vec<Option<Settled>> = entries.iter().map(|_| None).collect();
        for (group, outcome) in groups.iter().zip(outcomes) {
            let mut entry_of = |node: usize| entries[node].take().expect("a node is in one request");
            if let [node] = group.nodes[..] {
                settled[node] = Some(self.settle_one(entry_of(node), Brought::Own(outcome), guard));
                continue;
            }
            let shared = outcome.into_buffer();
            for &node in &group.nodes {
                let entry = entry_of(node);
                let brought = match &shared {
                    Ok(bytes) => {
                        let at = (entry.read.offset - group.bytes.start) as usize;
                        Brought::Shared(&bytes[at..at + entry.pointer.read_len()])
                    }
                    // Each has what becomes of its own bytes.
                    Err(_) => Brought::Own(self.read_alone(&entry, device, purpose)),
                };
                settled[node] = Some(self.settle_one(entry, brought, guard));
            }
        }
        let settled = settled.into_iter();
        settled
            .map(|settled| settled.expect("a node is in one request"))
            .collect()
    }

    /// Reads a node by itself, in this thread.
    pub(super) fn read_alone(&self, entry: &Entry, device: &dyn Device, purpose: Purpose) -> Outcome {
        let mut batch = Batch::with_capacity(1);
        batch.read(entry.read.offset, self.memory_of(entry), purpose);
        let outcome = device.perform(batch).pop();
        outcome.expect("a batch has an outcome per request")
    }

    pub(super) fn settle_one(&self, mut entry: Entry, brought: Brought<'_>, guard: &Guard) -> Settled {
        let brought = match entry.read.tier == entry.pointer.tier {
            true => brought,
            false => self.sound(&mut entry, brought),
        };
        // Lookups keep what they read; scans and compactions do not.
        let is_from_below = entry.pointer.tier > 0 && entry.read.tier == entry.pointer.tier;
        let offers = is_from_below && entry.residence == Residence::Keep;
        let Entry {
            pointer,
            read: _,
            key,
            hash,
            memory,
            residence,
            ahead,
        } = entry;
        let manner = self.manner(hash, residence, ahead);
        let home = match memory {
            Memory::Frame(frame) => match self.fill_frame(&pointer, frame, brought, offers) {
                Ok(()) => Ok(Home::Frame(frame)),
                Err(error) => {
                    self.return_frame(frame, guard);
                    Err(error)
                }
            },
            Memory::Private(charge) => self.fill_private(&pointer, charge, brought, offers),
        };
        let mut shard = self.flights.shard(hash);
        let listed = match &home {
            Ok(Home::Frame(frame)) => self.publish(*frame, &key, hash, manner, guard),
            _ => true,
        };
        shard.retain(|flight| flight.key != key);
        drop(shard);
        if residence == Residence::PassThrough {
            self.passing.fetch_sub(1, Ordering::Relaxed);
        }
        match &home {
            // A reader that waits for the node may still read it: it is retired like any other.
            Ok(Home::Frame(frame)) if !listed => self.retire(&[*frame], guard),
            Ok(Home::Frame(frame)) if manner != Manner::Proven => self.note_cold(*frame),
            Ok(_) => {}
            Err(_) => self.counters.failed(guard),
        }
        home.map_err(Arc::new)
    }

    /// Returns how a node that was read begins here.
    fn manner(&self, hash: u64, residence: Residence, ahead: bool) -> Manner {
        match residence {
            Residence::PassThrough => Manner::Passing,
            Residence::Keep if self.ghosts.recall(hash) => Manner::Proven,
            Residence::Keep if ahead => Manner::Awaited,
            Residence::Keep => Manner::Trial,
        }
    }

    /// Makes a frame visible whose bytes are written. Returns whether the page table had a free
    /// word for it.
    pub(super) fn publish(
        &self,
        frame: FrameId,
        key: &Key,
        hash: u64,
        manner: Manner,
        guard: &Guard,
    ) -> bool {
        let header = self.header(frame);
        let bytes = self.geometry.cut(header.class()).frame_bytes as u64;
        self.resident_bytes.fetch_add(bytes, Ordering::Relaxed);
        header.publish(key, manner);
        self.tables.insert(hash, frame, guard)
    }

    fn fill_frame(
        &self,
        pointer: &NodePointer,
        frame: FrameId,
        brought: Brought<'_>,
        offers: bool,
    ) -> Result<()> {
        let read = match brought {
            Brought::Own(outcome) => self.tiers.judge(pointer.tier, outcome.into_buffer())?,
            Brought::Copy(buffer) => buffer,
            Brought::Shared(bytes) => {
                self.verify(pointer, bytes, offers)?;
                let len = self.page_size.node_bytes(pointer.pages);
                // SAFETY: the frame was taken for this node alone.
                let mut node = unsafe { self.arena.buffer(self.data_at(frame), len) };
                return Codec::decode(pointer, self.page_size, bytes, &mut node);
            }
        };
        self.verify(pointer, &read, offers)?;
        if pointer.codec == Codec::None {
            return Ok(());
        }
        // The encoded node is moved out of the way of the decoded one.
        let _charge = Charge::new(&self.budget, Owner::Working, u64::from(pointer.encoded_len));
        let encoded = read[..pointer.encoded_len as usize].to_vec();
        drop(read);
        let len = self.page_size.node_bytes(pointer.pages);
        // SAFETY: the frame was taken for this node alone, and the buffer that it was read through
        // is gone.
        let mut node = unsafe { self.arena.buffer(self.data_at(frame), len) };
        Codec::decode(pointer, self.page_size, &encoded, &mut node)
    }

    fn fill_private(
        &self,
        pointer: &NodePointer,
        charge: Charge,
        brought: Brought<'_>,
        offers: bool,
    ) -> Result<Home> {
        let decoded = |encoded: &[u8]| {
            self.verify(pointer, encoded, offers)?;
            let mut node = Buffer::zeroed(self.page_size.node_bytes(pointer.pages));
            Codec::decode(pointer, self.page_size, encoded, &mut node)?;
            Ok::<_, Error>(node)
        };
        let bytes = match brought {
            Brought::Shared(bytes) => decoded(bytes)?,
            Brought::Own(_) | Brought::Copy(_) => {
                let read = match brought {
                    Brought::Own(outcome) => self.tiers.judge(pointer.tier, outcome.into_buffer())?,
                    Brought::Copy(buffer) => buffer,
                    Brought::Shared(_) => unreachable!("that is another case"),
                };
                if pointer.codec == Codec::None {
                    self.verify(pointer, &read, offers)?;
                    read
                } else {
                    decoded(&read)?
                }
            }
        };
        Ok(Home::Private(Arc::new(Private {
            bytes,
            _charge: charge,
        })))
    }

    /// Puts a node that was just written into the cache, if there is a frame for it.
    pub(super) fn insert(&self, pointer: &NodePointer, node: &[u8], manner: Manner, guard: &Guard) {
        let key = Key::of(pointer);
        let hash = key.hash();
        if self.look(&key, hash, guard).is_some() {
            return;
        }
        let Some(frame) = self.take_frame(usize::from(pointer.pages) - 1, guard, Residence::Keep) else {
            return;
        };
        // SAFETY: the frame was taken for this node alone.
        unsafe { self.arena.buffer(self.data_at(frame), node.len()) }.copy_from_slice(node);
        let shard = self.flights.shard(hash);
        if self.look(&key, hash, guard).is_some() || shard.iter().any(|flight| flight.key == key) {
            drop(shard);
            self.return_frame(frame, guard);
        } else if !self.publish(frame, &key, hash, manner, guard) {
            drop(shard);
            self.retire(&[frame], guard);
        } else if manner != Manner::Proven {
            drop(shard);
            self.note_cold(frame);
        }
    }
}
