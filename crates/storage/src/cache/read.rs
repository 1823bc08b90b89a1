//! Cache misses. All readers of a node share one read, one batch reads several nodes, and the first
//! thread that waits publishes the results. Blocking reads are in `fetch.rs`.
//!
//! ```text
//! begin   look again | it is being read: join | else take memory, note the flight
//!         (the flight's shard is locked)
//! submit  one batch per tier and 256 nodes, under a hold of the epochs
//! finish  the first thread that waits: wait for the device, verify, decode,
//!         then publish, remove the flight (the flight's shard is locked)
//! ```
//!
//! A flight is the in-flight table's entry for a node that is being read. Looking up the node again
//! and registering its flight are one atomic step, and so are publishing the node and removing its
//! flight. Therefore no node is read twice. The guard of a reader that joins a flight was created
//! before the node was published, so the frame stays valid while that guard lives.

use super::budget::{BudgetCharge, ChargePurpose};
use super::frame::{FrameId, InitialHeat, NodeKey};
use super::in_flight::InFlightNode;
use super::node_ref::{HeapNode, NodeStorage};
use super::read_groups::{ReadGroup, grouped};
use super::single_flight::{JobProgress, SingleFlight};
use super::verify::batch_for_tier;
use super::{CacheRetention, NodeCacheInner};
use crate::{EpochGuard, EpochHold, Error, NodeCodec, NodePointer, Result};
use alluvium_base::Purpose;
use alluvium_device::{AlignedBuffer, Device, IoBatch, IoOutcome, Ticket};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of nodes in one batch.
/// Tuning: `256` since 2026-11-21.
const MAX_BATCH: usize = 256;
/// Bytes charged to the budget for the bookkeeping, the request and the outcome of one node in
/// flight.
/// Tuning: `320` since 2026-11-21.
const RECORD_BYTES: u64 = 320;
/// Read-ahead pauses while the nodes being read exceed 1/`REQUESTED_FRACTION` of the budget.
/// Tuning: `8` since 2026-11-21.
const REQUESTED_FRACTION: u64 = 8;

/// A batch of reads in flight, and the results for its nodes.
pub(super) type BatchRead = SingleFlight<SubmittedBatch, Arc<[NodeResult]>>;
/// The result of reading a node: its storage, or the error.
pub(super) type NodeResult = std::result::Result<NodeStorage, Arc<Error>>;

/// The memory into which a node is read.
#[derive(Debug)]
enum NodeBuffer {
    Frame(FrameId),
    Private(BudgetCharge),
}

/// One node of a batch, and how it is read.
#[derive(Debug)]
pub(super) struct BatchEntry {
    pub(super) pointer: NodePointer,
    /// The location to read: the node's own pointer, or that of a promoted copy.
    pub(super) read: NodePointer,
    key: NodeKey,
    pub(super) hash: u64,
    memory: NodeBuffer,
    residence: CacheRetention,
    /// Whether the node is read ahead, so that no reader is waiting for it yet.
    ahead: bool,
}

#[derive(Debug)]
pub(super) struct SubmittedBatch {
    pub(super) device: Arc<dyn Device>,
    pub(super) ticket: Ticket,
    entries: Vec<BatchEntry>,
    /// The batch's device reads, in request order. One read may cover several nodes.
    groups: Vec<ReadGroup>,
    purpose: Purpose,
    /// Keeps the extents that are being read from being freed and overwritten.
    _hold: EpochHold,
    reading_bytes: u64,
    _charge: BudgetCharge,
}

/// How the nodes of a batch are grouped into device requests, and how much memory the requests use.
pub(super) struct BatchRequests {
    pub(super) groups: Vec<ReadGroup>,
    /// Bytes of bookkeeping, private memory and shared buffers.
    pub(super) bytes: u64,
    pub(super) reading_bytes: u64,
}

/// The bytes of one node, as returned by a device read.
pub(super) enum NodeBytes<'b> {
    /// The outcome of a read of this node alone, which used the node's own memory as its buffer.
    Own(IoOutcome),
    /// The buffer of a successful read of this node's promoted copy alone.
    Copy(AlignedBuffer),
    /// This node's part of a buffer that several nodes share.
    Shared(&'b [u8]),
}

/// The state of a node after [`NodeCacheInner::begin`]: cached, being read, or skipped.
#[derive(Debug)]
pub(super) enum NodeLookup {
    /// The node is in the cache.
    Frame(FrameId),
    /// The node is being read as entry `index` of a batch.
    Reading {
        reading: Arc<BatchRead>,
        index: usize,
        /// Whether another call started the read.
        others: bool,
    },
    /// No frame is available for the node, so it is not read.
    Skipped,
}

/// What to do about a node for which no frame is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoFramePolicy {
    /// Read the node into private memory, which is charged to the budget.
    Private,
    Skip,
}

/// A batch that has not been submitted yet. If a panic drops it before submission, the readers that
/// wait for it are notified.
pub(super) struct ReadBatchBuilder {
    pub(super) tier: u8,
    pub(super) reading: Arc<BatchRead>,
    pub(super) entries: Vec<BatchEntry>,
}

impl Drop for ReadBatchBuilder {
    fn drop(&mut self) {
        if !self.entries.is_empty() {
            self.reading.abandon();
        }
    }
}

impl NodeCacheInner {
    /// Returns the frame of a node, or `None` if the node is not cached.
    #[inline]
    pub(super) fn find_frame(&self, key: &NodeKey, hash: u64, guard: &EpochGuard) -> Option<FrameId> {
        self.tables
            .find(hash, guard, |frame| self.header(frame).holds(key))
    }

    /// Looks up every node of `pointers`, and starts reading those that are not cached.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a pointer is invalid, in which case no read is started.
    pub(super) fn begin(
        &self,
        pointers: &[NodePointer],
        guard: &EpochGuard,
        purpose: Purpose,
        residence: CacheRetention,
        otherwise: NoFramePolicy,
    ) -> Result<Vec<NodeLookup>> {
        let submit = |issue| self.submit(issue, purpose);
        self.begin_and(pointers, guard, purpose, residence, otherwise, submit)
    }

    /// Like [`NodeCacheInner::begin`], but passes the last batch to `read` instead of submitting
    /// it.
    pub(super) fn begin_and(
        &self,
        pointers: &[NodePointer],
        guard: &EpochGuard,
        purpose: Purpose,
        residence: CacheRetention,
        otherwise: NoFramePolicy,
        read: impl FnOnce(ReadBatchBuilder),
    ) -> Result<Vec<NodeLookup>> {
        self.check_all(pointers)?;
        let mut issues: Vec<ReadBatchBuilder> = Vec::new();
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

    /// Like [`NodeCacheInner::begin`], but for several readers, each of which waits only for its
    /// own nodes. All batches of a tier are submitted together, and each batch has its own ticket.
    pub(super) fn begin_each(
        &self,
        wanted: &[&[NodePointer]],
        guard: &EpochGuard,
        purpose: Purpose,
        residence: CacheRetention,
    ) -> Result<Vec<Vec<NodeLookup>>> {
        for pointers in wanted {
            self.check_all(pointers)?;
        }
        let mut issues: Vec<ReadBatchBuilder> = Vec::new();
        let mut all = Vec::with_capacity(wanted.len());
        for pointers in wanted {
            let mut own: Vec<ReadBatchBuilder> = Vec::new();
            let join = |pointer| self.join(pointer, guard, residence, NoFramePolicy::Skip, &mut own);
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
        guard: &EpochGuard,
        residence: CacheRetention,
        otherwise: NoFramePolicy,
        issues: &mut Vec<ReadBatchBuilder>,
    ) -> NodeLookup {
        let key = NodeKey::of(pointer);
        let hash = key.hash();
        if let Some(joined) = self.find_or_join(&key, hash, &self.flights.shard(hash), guard) {
            return joined;
        }
        // Take the frame before locking the in-flight table's shard, because taking it may evict 64
        // other frames.
        let class = usize::from(pointer.pages) - 1;
        let patient = otherwise == NoFramePolicy::Skip;
        if patient && self.reading_bytes.load(Ordering::Relaxed) > self.budget.limit() / REQUESTED_FRACTION {
            return NodeLookup::Skipped;
        }
        let memory = match self.take_frame(class, guard, residence) {
            Some(frame) => NodeBuffer::Frame(frame),
            None if patient => return NodeLookup::Skipped,
            None => {
                self.counters.private(guard);
                let bytes = self.page_size.node_bytes(pointer.pages) as u64;
                NodeBuffer::Private(BudgetCharge::new(&self.budget, ChargePurpose::Private, bytes))
            }
        };
        let mut shard = self.flights.shard(hash);
        if let Some(joined) = self.find_or_join(&key, hash, &shard, guard) {
            drop(shard);
            if let NodeBuffer::Frame(frame) = memory {
                self.return_frame(frame, guard);
            }
            return joined;
        }
        let read = self.copies.find(pointer, hash).unwrap_or(*pointer);
        let issue = batch_for_tier(issues, read.tier);
        let (reading, index) = (Arc::clone(&issue.reading), issue.entries.len());
        issue.entries.push(BatchEntry {
            pointer: *pointer,
            read,
            key,
            hash,
            memory,
            residence,
            ahead: patient,
        });
        shard.push(InFlightNode {
            key,
            reading: Arc::clone(&reading),
            index,
        });
        drop(shard);
        if residence == CacheRetention::PassThrough {
            self.passing.fetch_add(1, Ordering::Relaxed);
        }
        self.counters.missed(guard);
        NodeLookup::Reading {
            reading,
            index,
            others: false,
        }
    }

    /// Returns the frame of a cached node, or the flight of a node that is being read, or `None` if
    /// the node is neither. The caller must hold the lock of the in-flight shard for `hash`.
    fn find_or_join(
        &self,
        key: &NodeKey,
        hash: u64,
        shard: &[InFlightNode],
        guard: &EpochGuard,
    ) -> Option<NodeLookup> {
        if let Some(frame) = self.find_frame(key, hash, guard) {
            return Some(NodeLookup::Frame(frame));
        }
        let flight = shard.iter().find(|flight| flight.key == *key)?;
        self.counters.joined(guard);
        Some(NodeLookup::Reading {
            reading: Arc::clone(&flight.reading),
            index: flight.index,
            others: true,
        })
    }

    pub(super) fn device(&self, tier: u8) -> &Arc<dyn Device> {
        let device = self.tiers.get(tier);
        device.expect("the tier was looked up when the batch was begun")
    }

    fn submit(&self, issue: ReadBatchBuilder, purpose: Purpose) {
        let device = self.device(issue.tier);
        let (batch, requests) = self.requests(&issue, purpose);
        self.submitted(issue, requests, device, device.submit(batch), purpose);
    }

    fn submit_many(&self, issues: Vec<ReadBatchBuilder>, tier: u8, purpose: Purpose) {
        let device = self.device(tier);
        let all = issues.iter().map(|issue| self.requests(issue, purpose));
        let (batches, requests): (Vec<IoBatch>, Vec<BatchRequests>) = all.unzip();
        let tickets = device.submit_many(batches);
        assert_eq!(tickets.len(), requests.len(), "a ticket for each batch");
        for ((issue, requests), ticket) in issues.into_iter().zip(requests).zip(tickets) {
            self.submitted(issue, requests, device, ticket, purpose);
        }
    }

    /// Builds the device requests of a batch, and counts the memory they use.
    pub(super) fn requests(&self, issue: &ReadBatchBuilder, purpose: Purpose) -> (IoBatch, BatchRequests) {
        let groups = grouped(issue.entries.iter().map(|entry| &entry.read));
        let mut batch = IoBatch::with_capacity(groups.len());
        let (mut bytes, mut reading_bytes) = (0, 0);
        for entry in &issue.entries {
            bytes += RECORD_BYTES;
            reading_bytes += self.page_size.node_bytes(entry.pointer.pages) as u64;
            if let NodeBuffer::Private(_) = entry.memory {
                bytes += entry.pointer.read_len() as u64;
            }
        }
        for group in &groups {
            let buffer = if let [node] = group.nodes[..] {
                self.memory_of(&issue.entries[node])
            } else {
                let len = group.bytes.end - group.bytes.start;
                bytes += len;
                AlignedBuffer::zeroed(len as usize)
            };
            batch.read(group.bytes.start, buffer, purpose);
        }
        self.reading_bytes.fetch_add(reading_bytes, Ordering::Relaxed);
        let requests = BatchRequests {
            groups,
            bytes,
            reading_bytes,
        };
        (batch, requests)
    }

    fn submitted(
        &self,
        mut issue: ReadBatchBuilder,
        requests: BatchRequests,
        device: &Arc<dyn Device>,
        ticket: Ticket,
        purpose: Purpose,
    ) {
        issue.reading.ready(SubmittedBatch {
            device: Arc::clone(device),
            ticket,
            entries: std::mem::take(&mut issue.entries),
            groups: requests.groups,
            purpose,
            _hold: self.epochs.hold(),
            reading_bytes: requests.reading_bytes,
            _charge: BudgetCharge::new(&self.budget, ChargePurpose::Working, requests.bytes),
        });
    }

    /// Returns the buffer for a read of this node's encoded bytes alone.
    fn memory_of(&self, entry: &BatchEntry) -> AlignedBuffer {
        let len = entry.pointer.read_len();
        match entry.memory {
            // SAFETY: the frame was taken for this entry alone. It has room for the encoded node,
            // which is never longer than the decoded node.
            NodeBuffer::Frame(frame) => unsafe { self.arena.buffer(self.data_at(frame), len) },
            NodeBuffer::Private(_) => AlignedBuffer::zeroed(len),
        }
    }

    /// Waits until this thread or another has finished a batch, and returns the result for each
    /// node. Returns `None` if the other thread panicked.
    pub(super) fn finish(&self, reading: &BatchRead, guard: &EpochGuard) -> Option<Arc<[NodeResult]>> {
        reading.finish(|job| {
            job.device.wait(&job.ticket);
            self.settle(job, guard)
        })
    }

    /// Publishes the results of a batch if this is possible without blocking. Returns whether the
    /// batch is now finished or abandoned.
    pub(super) fn try_finish(&self, reading: &BatchRead, guard: &EpochGuard) -> bool {
        let is_ready = |job: &SubmittedBatch| job.device.poll(&job.ticket);
        reading.try_finish(is_ready, |job| self.settle(job, guard)) != JobProgress::Waiting
    }

    /// Like [`NodeCacheInner::try_finish`], but relies on completions already received instead of
    /// polling the device.
    pub(super) fn try_settle(&self, reading: &BatchRead, guard: &EpochGuard) -> bool {
        let is_ready = |job: &SubmittedBatch| job.ticket.is_complete();
        reading.try_finish(is_ready, |job| self.settle(job, guard)) != JobProgress::Waiting
    }

    /// Publishes the results of every read that the device has completed, whether or not its reader
    /// is waiting for it.
    pub(super) fn settle_all(&self, guard: &EpochGuard) {
        if self.reading_bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        for reading in self.flights.readings() {
            self.try_finish(&reading, guard);
        }
    }

    /// Publishes the results of a batch whose reads have completed.
    fn settle(&self, job: SubmittedBatch, guard: &EpochGuard) -> Arc<[NodeResult]> {
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

    /// Verifies, decodes and publishes every node of a completed batch. Returns the result for each
    /// node.
    pub(super) fn settle_each(
        &self,
        entries: Vec<BatchEntry>,
        groups: &[ReadGroup],
        outcomes: Vec<IoOutcome>,
        device: &dyn Device,
        purpose: Purpose,
        guard: &EpochGuard,
    ) -> Arc<[NodeResult]> {
        assert_eq!(outcomes.len(), groups.len(), "an outcome per request");
        let mut entries: Vec<Option<BatchEntry>> = entries.into_iter().map(Some).collect();
        let mut settled: Vec<Option<NodeResult>> = entries.iter().map(|_| None).collect();
        for (group, outcome) in groups.iter().zip(outcomes) {
            let mut entry_of = |node: usize| entries[node].take().expect("a node is in one request");
            if let [node] = group.nodes[..] {
                settled[node] = Some(self.settle_one(entry_of(node), NodeBytes::Own(outcome), guard));
                continue;
            }
            let shared = outcome.into_buffer();
            for &node in &group.nodes {
                let entry = entry_of(node);
                let brought = match &shared {
                    Ok(bytes) => {
                        let at = (entry.read.offset - group.bytes.start) as usize;
                        NodeBytes::Shared(&bytes[at..at + entry.pointer.read_len()])
                    }
                    // The shared read failed, so read each node separately to give it a result of
                    // its own.
                    Err(_) => NodeBytes::Own(self.read_alone(&entry, device, purpose)),
                };
                settled[node] = Some(self.settle_one(entry, brought, guard));
            }
        }
        let settled = settled.into_iter();
        settled
            .map(|settled| settled.expect("a node is in one request"))
            .collect()
    }

    /// Reads a single node with a blocking call in this thread.
    pub(super) fn read_alone(&self, entry: &BatchEntry, device: &dyn Device, purpose: Purpose) -> IoOutcome {
        let mut batch = IoBatch::with_capacity(1);
        batch.read(entry.read.offset, self.memory_of(entry), purpose);
        let outcome = device.perform(batch).pop();
        outcome.expect("a batch has an outcome per request")
    }

    pub(super) fn settle_one(
        &self,
        mut entry: BatchEntry,
        brought: NodeBytes<'_>,
        guard: &EpochGuard,
    ) -> NodeResult {
        let brought = match entry.read.tier == entry.pointer.tier {
            true => brought,
            false => self.verify_copy(&mut entry, brought),
        };
        // Offer only nodes read for lookups for promotion to a faster tier, not those read by scans
        // and compactions.
        let is_from_below = entry.pointer.tier > 0 && entry.read.tier == entry.pointer.tier;
        let offers = is_from_below && entry.residence == CacheRetention::Keep;
        let BatchEntry {
            pointer,
            read: _,
            key,
            hash,
            memory,
            residence,
            ahead,
        } = entry;
        let manner = self.initial_heat(hash, residence, ahead);
        let home = match memory {
            NodeBuffer::Frame(frame) => match self.fill_frame(&pointer, frame, brought, offers) {
                Ok(()) => Ok(NodeStorage::Frame(frame)),
                Err(error) => {
                    self.return_frame(frame, guard);
                    Err(error)
                }
            },
            NodeBuffer::Private(charge) => self.fill_private(&pointer, charge, brought, offers),
        };
        let mut shard = self.flights.shard(hash);
        let listed = match &home {
            Ok(NodeStorage::Frame(frame)) => self.publish(*frame, &key, hash, manner, guard),
            _ => true,
        };
        shard.retain(|flight| flight.key != key);
        drop(shard);
        if residence == CacheRetention::PassThrough {
            self.passing.fetch_sub(1, Ordering::Relaxed);
        }
        match &home {
            // The page table had no free word. A waiting reader may still access the node, so the
            // frame must be retired like any other.
            Ok(NodeStorage::Frame(frame)) if !listed => self.retire(&[*frame], guard),
            Ok(NodeStorage::Frame(frame)) if manner != InitialHeat::Proven => self.push_cold(*frame),
            Ok(_) => {}
            Err(_) => self.counters.failed(guard),
        }
        home.map_err(Arc::new)
    }

    /// Returns the initial CLOCK state of a node that was read from a device.
    fn initial_heat(&self, hash: u64, residence: CacheRetention, ahead: bool) -> InitialHeat {
        match residence {
            CacheRetention::PassThrough => InitialHeat::Passing,
            CacheRetention::Keep if self.ghosts.recall(hash) => InitialHeat::Proven,
            CacheRetention::Keep if ahead => InitialHeat::Awaited,
            CacheRetention::Keep => InitialHeat::Trial,
        }
    }

    /// Publishes a frame whose node is completely written. Returns `false` if the page table has no
    /// free word for the frame, which the caller must then retire.
    pub(super) fn publish(
        &self,
        frame: FrameId,
        key: &NodeKey,
        hash: u64,
        manner: InitialHeat,
        guard: &EpochGuard,
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
        brought: NodeBytes<'_>,
        offers: bool,
    ) -> Result<()> {
        let read = match brought {
            NodeBytes::Own(outcome) => self.tiers.record_failure(pointer.tier, outcome.into_buffer())?,
            NodeBytes::Copy(buffer) => buffer,
            NodeBytes::Shared(bytes) => {
                self.verify(pointer, bytes, offers)?;
                let len = self.page_size.node_bytes(pointer.pages);
                // SAFETY: the frame was taken for this node alone, so no other reference to its
                // bytes exists.
                let mut node = unsafe { self.arena.buffer(self.data_at(frame), len) };
                return NodeCodec::decode(pointer, self.page_size, bytes, &mut node);
            }
        };
        self.verify(pointer, &read, offers)?;
        if pointer.codec == NodeCodec::None {
            return Ok(());
        }
        // Copy the encoded node to scratch memory, because decoding overwrites the frame that
        // contains it.
        let _charge = BudgetCharge::new(
            &self.budget,
            ChargePurpose::Working,
            u64::from(pointer.encoded_len),
        );
        let encoded = read[..pointer.encoded_len as usize].to_vec();
        drop(read);
        let len = self.page_size.node_bytes(pointer.pages);
        // SAFETY: the frame was taken for this node alone, and the buffer through which it was read
        // has been dropped.
        let mut node = unsafe { self.arena.buffer(self.data_at(frame), len) };
        NodeCodec::decode(pointer, self.page_size, &encoded, &mut node)
    }

    fn fill_private(
        &self,
        pointer: &NodePointer,
        charge: BudgetCharge,
        brought: NodeBytes<'_>,
        offers: bool,
    ) -> Result<NodeStorage> {
        let decoded = |encoded: &[u8]| {
            self.verify(pointer, encoded, offers)?;
            let mut node = AlignedBuffer::zeroed(self.page_size.node_bytes(pointer.pages));
            NodeCodec::decode(pointer, self.page_size, encoded, &mut node)?;
            Ok::<_, Error>(node)
        };
        let bytes = match brought {
            NodeBytes::Shared(bytes) => decoded(bytes)?,
            NodeBytes::Own(_) | NodeBytes::Copy(_) => {
                let read = match brought {
                    NodeBytes::Own(outcome) => {
                        self.tiers.record_failure(pointer.tier, outcome.into_buffer())?
                    }
                    NodeBytes::Copy(buffer) => buffer,
                    NodeBytes::Shared(_) => unreachable!("that is another case"),
                };
                if pointer.codec == NodeCodec::None {
                    self.verify(pointer, &read, offers)?;
                    read
                } else {
                    decoded(&read)?
                }
            }
        };
        Ok(NodeStorage::Private(Arc::new(HeapNode {
            bytes,
            _charge: charge,
        })))
    }

    /// Inserts a newly written node if a frame is available and the node is neither cached nor
    /// being read.
    pub(super) fn insert(&self, pointer: &NodePointer, node: &[u8], manner: InitialHeat, guard: &EpochGuard) {
        let key = NodeKey::of(pointer);
        let hash = key.hash();
        if self.find_frame(&key, hash, guard).is_some() {
            return;
        }
        let Some(frame) = self.take_frame(usize::from(pointer.pages) - 1, guard, CacheRetention::Keep) else {
            return;
        };
        // SAFETY: the frame was taken for this node alone, so no other reference to its bytes
        // exists.
        unsafe { self.arena.buffer(self.data_at(frame), node.len()) }.copy_from_slice(node);
        let shard = self.flights.shard(hash);
        if self.find_frame(&key, hash, guard).is_some() || shard.iter().any(|flight| flight.key == key) {
            drop(shard);
            self.return_frame(frame, guard);
        } else if !self.publish(frame, &key, hash, manner, guard) {
            drop(shard);
            self.retire(&[frame], guard);
        } else if manner != InitialHeat::Proven {
            drop(shard);
            self.push_cold(frame);
        }
    }
}
