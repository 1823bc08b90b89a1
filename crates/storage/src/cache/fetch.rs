//! Blocking reads: one node by a blocking call, many by one system call.
//!
//! A thread that waits for one node submits nothing: it reads the node with a blocking call, and
//! other threads that join its flight wait for it. With 16 threads on two processors such a read
//! uses 17 µs of processor time. Submitting it to a shared ring used 26 µs because of the wake-ups.

use super::budget::{Charge, Owner};
use super::frame::Key;
use super::node_ref::Home;
use super::read::{Brought, Issue, Job, Joined, Otherwise, Settled};
use super::turn::Progress;
use super::{NodeRef, Residence, Shared, failure};
use crate::{Guard, NodePointer, Result};
use alluvium_base::Purpose;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Shared {
    /// Finds or reads every node of `pointers`, and waits for the reads.
    pub(super) fn fetch<'g>(
        self: &'g Arc<Self>,
        pointers: &[NodePointer],
        guard: &'g Guard,
        purpose: Purpose,
        residence: Residence,
    ) -> Result<Vec<NodeRef<'g>>> {
        if let [pointer] = pointers {
            return Ok(vec![self.fetch_one(pointer, guard, purpose, residence)?]);
        }
        let joined = self.read_together(pointers, guard, purpose, residence, Otherwise::Private)?;
        // Every read is finished before an error is returned, so that no batch of this call stays
        // unfinished.
        let homes: Vec<_> = joined
            .into_iter()
            .map(|joined| self.home(joined, guard, residence))
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

    /// Finds or reads a node, and waits for it. If no other thread is reading it, this thread reads
    /// it with a blocking call: submitting the read and waking up would cost more than the read.
    pub(super) fn fetch_one<'g>(
        self: &'g Arc<Self>,
        pointer: &NodePointer,
        guard: &'g Guard,
        purpose: Purpose,
        residence: Residence,
    ) -> Result<NodeRef<'g>> {
        self.check_all(std::slice::from_ref(pointer))?;
        loop {
            let mut issues = Vec::new();
            let joined = self.join(pointer, guard, residence, Otherwise::Private, &mut issues);
            let home = match issues.pop() {
                Some(issue) => Some(self.read_in_this_thread(issue, purpose, guard)[0].clone()),
                None => self.home(joined, guard, residence),
            };
            if let Some(node) = self.found(pointer, home, guard) {
                return node;
            }
        }
    }

    /// Finds every node of `pointers` or starts reading it. The last batch, normally the only one,
    /// is read in this thread.
    fn read_together(
        &self,
        pointers: &[NodePointer],
        guard: &Guard,
        purpose: Purpose,
        residence: Residence,
        otherwise: Otherwise,
    ) -> Result<Vec<Joined>> {
        self.begin_and(pointers, guard, purpose, residence, otherwise, |issue| {
            self.read_in_this_thread(issue, purpose, guard);
        })
    }

    /// Like [`Shared::fetch`], but skips nodes for which no frame is available, and ignores failed
    /// reads: a reader that looks up such a node reads it again.
    pub(super) fn bring(
        &self,
        pointers: &[NodePointer],
        guard: &Guard,
        purpose: Purpose,
        residence: Residence,
    ) -> Result<()> {
        for joined in self.read_together(pointers, guard, purpose, residence, Otherwise::Skip)? {
            if let Joined::Reading { reading, .. } = joined {
                self.finish(&reading, guard);
            }
        }
        Ok(())
    }

    /// Reads and settles the nodes of a batch in this thread. Other readers of these nodes wait for
    /// it.
    fn read_in_this_thread(&self, mut issue: Issue, purpose: Purpose, guard: &Guard) -> Arc<[Settled]> {
        let device = &**self.device(issue.tier);
        let reading = Arc::clone(&issue.reading);
        reading.run_at_once(|| {
            if issue.entries.len() == 1 {
                let entry = issue.entries.remove(0);
                let outcome = self.read_alone(&entry, device, purpose);
                return Arc::new([self.settle_one(entry, Brought::Own(outcome), guard)]);
            }
            let (batch, requests) = self.requests(&issue, purpose);
            debug_assert_eq!(batch.len(), requests.groups.len(), "a request for each group");
            let _charge = Charge::new(&self.budget, Owner::Working, requests.bytes);
            let outcomes = device.perform(batch);
            self.reading_bytes
                .fetch_sub(requests.reading_bytes, Ordering::Relaxed);
            let entries = std::mem::take(&mut issue.entries);
            self.settle_each(entries, &requests.groups, outcomes, device, purpose, guard)
        })
    }

    /// Returns a node from the result of its read. `None` if the read was abandoned.
    fn found<'g>(
        self: &'g Arc<Self>,
        pointer: &NodePointer,
        home: Option<Settled>,
        guard: &'g Guard,
    ) -> Option<Result<NodeRef<'g>>> {
        let Some(home) = home else {
            self.forget_abandoned(pointer);
            return None;
        };
        Some(match home {
            Ok(Home::Frame(frame)) => Ok(self.node_ref(frame, pointer, guard)),
            Ok(Home::Private(node)) => Ok(NodeRef::private(node)),
            Err(error) => Err(failure::copy(&error)),
        })
    }

    fn home(&self, joined: Joined, guard: &Guard, residence: Residence) -> Option<Settled> {
        let (home, used_before) = match joined {
            Joined::Frame(frame) => {
                self.counters.hit(guard);
                (Ok(Home::Frame(frame)), true)
            }
            Joined::Reading {
                reading,
                index,
                others,
            } => (self.finish(&reading, guard)?[index].clone(), others),
            Joined::Skipped => unreachable!("a read that is waited for falls back to private memory"),
        };
        if let Ok(Home::Frame(frame)) = &home
            && used_before
            && residence == Residence::Keep
        {
            self.header(*frame).touch();
        }
        Some(home)
    }

    /// Removes the flight of a node whose batch was abandoned, so that it can be read again.
    fn forget_abandoned(&self, pointer: &NodePointer) {
        let key = Key::of(pointer);
        let mut shard = self.flights.shard(key.hash());
        let never = |_: &Job| false;
        shard.retain(|flight| {
            flight.key != key
                || flight
                    .reading
                    .try_finish(never, |_| unreachable!("it is never ready"))
                    != Progress::Abandoned
        });
    }
}
