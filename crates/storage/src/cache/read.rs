//! Misses: one read for many readers of the same node, one batch for many nodes, and the settlement
//! of finished reads. Blocking reads are in `fetch.rs`.
//!
//! ```text
//! begin   look again | it is being read: join | else take memory, note the flight
//!         (the flight's shard is locked)
//! submit  one batch per tier and 256 nodes, under a hold of the epochs
//! finish  the first thread that waits: wait for the device, verify, decode,
//!         then publish, remove the flight (the flight's shard is locked)
//! ```
//!
//! The second lookup and the registration of the flight are one atomic step, and so are publication
//! and the removal of the flight. So no node is read twice. A reader that joins a flight has been
//! pinned since before its node was published, so the frame stays valid for its guard.

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

/// Maximum number of nodes in one batch.
/// Tuning: `256` since 2026-11-21.
const MAX_BATCH: usize = 256;
/// Cost in bytes of the record of one node in flight, including its request and its outcome.
/// Tuning: `320` since 2026-11-21.
const RECORD_BYTES: u64 = 320;
/// Read-ahead stops while more than 1/`REQUESTED_FRACTION` of the budget is being read.
/// Tuning: `8` since 2026-11-21.
const REQUESTED_FRACTION: u64 = 8;

/// One batch in flight, and the result for each of its nodes.
pub(super) type Reading = Turn<Job, Arc<[Settled]>>;
/// The result of reading one node.
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
    /// The location to read: the node's own pointer, or that of a copy.
    pub(super) read: NodePointer,
    key: Key,
    pub(super) hash: u64,
    memory: Memory,
    residence: Residence,
    /// Whether this is a read-ahead, for which no reader waits yet.
    ahead: bool,
}

/// A submitted batch.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) device: Arc<dyn Device>,
    pub(super) ticket: Ticket,
    entries: Vec<Entry>,
    /// The reads of the batch, in the order of their requests.
    groups: Vec<Group>,
    purpose: Purpose,
    /// Prevents the extents being read from being freed and overwritten.
    _hold: Hold,
    reading_bytes: u64,
    _charge: Charge,
}

/// The requests of a batch to the device, and their cost.
pub(super) struct Requests {
    pub(super) groups: Vec<Group>,
    /// Bytes of the records, of private memory and of shared buffers.
    pub(super) bytes: u64,
    pub(super) reading_bytes: u64,
}

/// The bytes that a read returned for a node.
pub(super) enum Brought<'b> {
    /// The outcome of a separate read, whose buffer is the node's memory.
    Own(Outcome),
    /// The buffer of a separate read of a copy that succeeded.
    Copy(Buffer),
    /// A part of a buffer shared by several nodes.
    Shared(&'b [u8]),
}

/// What [`Shared::begin`] found or started for one node.
#[derive(Debug)]
pub(super) enum Joined {
    /// The node is in the cache.
    Frame(FrameId),
    /// The node is entry `index` of a batch.
    Reading {
        reading: Arc<Reading>,
        index: usize,
        /// Whether another call started the read.
        others: bool,
    },
    /// No frame is available for the node.
    Skipped,
}

/// What to do when no frame is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Otherwise {
    /// Read into private memory.
    Private,
    /// Do not read.
    Skip,
}

/// A batch under construction. If it is dropped before submission (by a panic), its readers are
/// notified.
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
    /// Returns the frame of a cached node.
    #[inline]
    pub(super) fn look(&self, key: &Key, hash: u64, guard: &Guard) -> Option<FrameId> {
        self.tables
            .find(hash, guard, |frame| self.header(frame).holds(key))
    }

    /// Finds every node of `pointers` or starts reading it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for an invalid pointer. No read was started then.
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

    /// Like [`Shared::begin`], but passes the last batch to `read` after submitting all others.
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

    /// Like [`Shared::begin`] for several readers, each of which waits only for its own few nodes.
    /// The batches of a tier are submitted together, with a ticket each.
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

    /// Returns the node if it is cached, or its flight. The hash's shard must be locked.
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

    /// Builds the requests of a batch.
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

    /// Returns the memory that a node's encoded bytes are read into by a separate read.
    fn memory_of(&self, entry: &Entry) -> Buffer {
        let len = entry.pointer.read_len();
        match entry.memory {
            // SAFETY: the frame was taken for this entry alone, and has room for the encoded node,
            // which is never longer than the decoded one.
            Memory::Frame(frame) => unsafe { self.arena.buffer(self.data_at(frame), len) },
            Memory::Private(_) => Buffer::zeroed(len),
        }
    }

    /// Waits for a batch, or for the thread that finishes it. `None` if that thread panicked.
    pub(super) fn finish(&self, reading: &Reading, guard: &Guard) -> Option<Arc<[Settled]>> {
        reading.finish(|job| {
            job.device.wait(&job.ticket);
            self.settle(job, guard)
        })
    }

    /// Settles a batch if that does not block. Returns whether it is settled or abandoned.
    pub(super) fn try_finish(&self, reading: &Reading, guard: &Guard) -> bool {
        let is_ready = |job: &Job| job.device.poll(&job.ticket);
        reading.try_finish(is_ready, |job| self.settle(job, guard)) != Progress::Waiting
    }

    /// Like [`Shared::try_finish`], without querying the device.
    pub(super) fn try_settle(&self, reading: &Reading, guard: &Guard) -> bool {
        let is_ready = |job: &Job| job.ticket.is_complete();
        reading.try_finish(is_ready, |job| self.settle(job, guard)) != Progress::Waiting
    }

    /// Settles every read in flight that the device has completed, even if its reader has not come
    /// back for it.
    pub(super) fn settle_all(&self, guard: &Guard) {
        if self.reading_bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        for reading in self.flights.readings() {
            self.try_finish(&reading, guard);
        }
    }

    /// Settles a submitted batch that has completed.
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

    /// Verifies, decodes and publishes the nodes of a completed batch.
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
                    // The shared read failed: each node is read separately and gets its own result.
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

    /// Reads a single node, in this thread.
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
        // Only lookups offer nodes for copying; scans and compactions do not.
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
            // A waiting reader may still read the node, so the frame is retired like any other.
            Ok(Home::Frame(frame)) if !listed => self.retire(&[*frame], guard),
            Ok(Home::Frame(frame)) if manner != Manner::Proven => self.note_cold(*frame),
            Ok(_) => {}
            Err(_) => self.counters.failed(guard),
        }
        home.map_err(Arc::new)
    }

    /// Returns the initial CLOCK state of a node that was read.
    fn manner(&self, hash: u64, residence: Residence, ahead: bool) -> Manner {
        match residence {
            Residence::PassThrough => Manner::Passing,
            Residence::Keep if self.ghosts.recall(hash) => Manner::Proven,
            Residence::Keep if ahead => Manner::Awaited,
            Residence::Keep => Manner::Trial,
        }
    }

    /// Publishes a frame whose bytes are written. Returns whether the page table had a free word
    /// for it.
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
        // Copies the encoded node to scratch memory, because the decoded one overwrites it.
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

    /// Inserts a newly written node, if a frame is available.
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
