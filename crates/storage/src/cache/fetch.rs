//! Blocking reads: a single node is read with a blocking call, several nodes with one system call.
//!
//! A thread that needs a single node does not submit the read to a ring. It reads the node with a
//! blocking call, and other threads that need the same node wait for it. With 16 threads on two
//! processors, such a read costs 17 µs of processor time. Submitting it to a shared ring cost 26 µs
//! because of the wake-ups.

use super::budget::{BudgetCharge, ChargePurpose};
use super::frame::NodeKey;
use super::node_ref::NodeStorage;
use super::read::{NoFramePolicy, NodeBytes, NodeLookup, NodeResult, ReadBatchBuilder, SubmittedBatch};
use super::single_flight::JobProgress;
use super::{CacheRetention, NodeCacheInner, NodeRef, failure};
use crate::{EpochGuard, NodePointer, Result};
use alluvium_base::Purpose;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl NodeCacheInner {
    /// Returns a reference to every node of `pointers`. Reads the nodes that are not cached, and
    /// waits for these reads.
    pub(super) fn fetch<'g>(
        self: &'g Arc<Self>,
        pointers: &[NodePointer],
        guard: &'g EpochGuard,
        purpose: Purpose,
        residence: CacheRetention,
    ) -> Result<Vec<NodeRef<'g>>> {
        if let [pointer] = pointers {
            return Ok(vec![self.fetch_one(pointer, guard, purpose, residence)?]);
        }
        let joined = self.read_together(pointers, guard, purpose, residence, NoFramePolicy::Private)?;
        // Finish all reads before returning the first error, so that no batch of this call is left
        // unfinished.
        let homes: Vec<_> = joined
            .into_iter()
            .map(|joined| self.settled_result(joined, guard, residence))
            .collect();
        assert_eq!(homes.len(), pointers.len(), "a node for each pointer");
        let mut nodes = Vec::with_capacity(pointers.len());
        for (pointer, home) in pointers.iter().zip(homes) {
            nodes.push(match self.found(pointer, home, guard) {
                Some(node) => node?,
                None => self.fetch_one(pointer, guard, purpose, residence)?,
            });
        }
        Ok(nodes)
    }

    /// Returns a reference to a node. If the node is neither cached nor being read by another
    /// thread, reads it with a blocking call in this thread, because submitting the read and waking
    /// up would cost more than the read itself.
    pub(super) fn fetch_one<'g>(
        self: &'g Arc<Self>,
        pointer: &NodePointer,
        guard: &'g EpochGuard,
        purpose: Purpose,
        residence: CacheRetention,
    ) -> Result<NodeRef<'g>> {
        self.check_all(std::slice::from_ref(pointer))?;
        loop {
            let mut issues = Vec::new();
            let joined = self.join(pointer, guard, residence, NoFramePolicy::Private, &mut issues);
            let home = match issues.pop() {
                Some(issue) => Some(self.read_in_this_thread(issue, purpose, guard)[0].clone()),
                None => self.settled_result(joined, guard, residence),
            };
            if let Some(node) = self.found(pointer, home, guard) {
                return node;
            }
        }
    }

    /// Looks up every node of `pointers` and reads those that are not cached. This thread performs
    /// the last batch itself, which is usually the only one, and submits earlier ones to the
    /// device.
    fn read_together(
        &self,
        pointers: &[NodePointer],
        guard: &EpochGuard,
        purpose: Purpose,
        residence: CacheRetention,
        otherwise: NoFramePolicy,
    ) -> Result<Vec<NodeLookup>> {
        self.begin_and(pointers, guard, purpose, residence, otherwise, |issue| {
            self.read_in_this_thread(issue, purpose, guard);
        })
    }

    /// Like [`NodeCacheInner::fetch`], reads the nodes that are not cached and waits for the reads,
    /// but returns no references. A node for which no frame is available is skipped, and failed
    /// reads are ignored: a later lookup of such a node reads it again.
    pub(super) fn read_through(
        &self,
        pointers: &[NodePointer],
        guard: &EpochGuard,
        purpose: Purpose,
        residence: CacheRetention,
    ) -> Result<()> {
        for joined in self.read_together(pointers, guard, purpose, residence, NoFramePolicy::Skip)? {
            if let NodeLookup::Reading { reading, .. } = joined {
                self.finish(&reading, guard);
            }
        }
        Ok(())
    }

    /// Reads a batch of nodes with blocking calls in this thread and publishes the results. Other
    /// readers of these nodes wait for this thread.
    fn read_in_this_thread(
        &self,
        mut issue: ReadBatchBuilder,
        purpose: Purpose,
        guard: &EpochGuard,
    ) -> Arc<[NodeResult]> {
        let device = &**self.device(issue.tier);
        let reading = Arc::clone(&issue.reading);
        reading.run_at_once(|| {
            if issue.entries.len() == 1 {
                let entry = issue.entries.remove(0);
                let outcome = self.read_alone(&entry, device, purpose);
                return Arc::new([self.settle_one(entry, NodeBytes::Own(outcome), guard)]);
            }
            let (batch, requests) = self.requests(&issue, purpose);
            debug_assert_eq!(batch.len(), requests.groups.len(), "a request for each group");
            let _charge = BudgetCharge::new(&self.budget, ChargePurpose::Working, requests.bytes);
            let outcomes = device.perform(batch);
            self.reading_bytes
                .fetch_sub(requests.reading_bytes, Ordering::Relaxed);
            let entries = std::mem::take(&mut issue.entries);
            self.settle_each(entries, &requests.groups, outcomes, device, purpose, guard)
        })
    }

    /// Converts the result of a read into a reference to the node. Returns `None` if the read was
    /// abandoned; the caller must then look up the node again.
    fn found<'g>(
        self: &'g Arc<Self>,
        pointer: &NodePointer,
        home: Option<NodeResult>,
        guard: &'g EpochGuard,
    ) -> Option<Result<NodeRef<'g>>> {
        let Some(home) = home else {
            self.forget_abandoned(pointer);
            return None;
        };
        Some(match home {
            Ok(NodeStorage::Frame(frame)) => Ok(self.node_ref(frame, pointer, guard)),
            Ok(NodeStorage::Private(node)) => Ok(NodeRef::private(node)),
            Err(error) => Err(failure::copy(&error)),
        })
    }

    fn settled_result(
        &self,
        joined: NodeLookup,
        guard: &EpochGuard,
        residence: CacheRetention,
    ) -> Option<NodeResult> {
        let (home, used_before) = match joined {
            NodeLookup::Frame(frame) => {
                self.counters.hit(guard);
                (Ok(NodeStorage::Frame(frame)), true)
            }
            NodeLookup::Reading {
                reading,
                index,
                others,
            } => (self.finish(&reading, guard)?[index].clone(), others),
            NodeLookup::Skipped => unreachable!("a read that is waited for falls back to private memory"),
        };
        if let Ok(NodeStorage::Frame(frame)) = &home
            && used_before
            && residence == CacheRetention::Keep
        {
            self.header(*frame).touch();
        }
        Some(home)
    }

    /// Removes the in-flight entry of a node whose batch was abandoned, so that the node can be
    /// read again.
    fn forget_abandoned(&self, pointer: &NodePointer) {
        let key = NodeKey::of(pointer);
        let mut shard = self.flights.shard(key.hash());
        let never = |_: &SubmittedBatch| false;
        shard.retain(|flight| {
            flight.key != key
                || flight
                    .reading
                    .try_finish(never, |_| unreachable!("it is never ready"))
                    != JobProgress::Abandoned
        });
    }
}
