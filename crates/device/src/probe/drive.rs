//! One window: requests of one kind, at a point's queue depth, for a limited time.

use super::ProbeClock;
use super::arena::ProbeArena;
use super::offsets::OffsetSequence;
use crate::{AlignedBuffer, Device, IoBatch, Result, Ticket};
use alluvium_base::Purpose;
use alluvium_base::cost::AccessKind;
use alluvium_base::measurements::{IssueMode, OffsetOrder, ProbePoint, ProbeSample};
use std::collections::VecDeque;

/// Minimum number of requests per window, no matter how slow they are.
const LEAST: u64 = 4;

/// Maximum number of requests per window, which bounds the memory for their latencies.
const MOST: u64 = 1 << 17;

/// Measures windows on one file.
pub(super) struct WindowDriver<'a> {
    file: &'a dyn Device,
    watch: &'a dyn ProbeClock,
    span: u64,
    rng: fastrand::Rng,
    arena: ProbeArena,
}

/// Intermediate counts of a window.
struct WindowCounts {
    begin_ns: u64,
    begin_cpu_ns: u64,
    end_ns: u64,
    end_cpu_ns: u64,
    requests: u64,
    took_ns: Vec<u64>,
}

struct InFlightRequest {
    ticket: Ticket,
    began_ns: u64,
}

impl<'a> WindowDriver<'a> {
    pub(super) fn new(
        file: &'a dyn Device,
        watch: &'a dyn ProbeClock,
        span: u64,
        seed: u64,
    ) -> WindowDriver<'a> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let arena = ProbeArena::new(&mut rng);
        WindowDriver {
            file,
            watch,
            span,
            rng,
            arena,
        }
    }

    /// Returns a random offset for a request.
    pub(super) fn place(&mut self, bytes: u64) -> u64 {
        self.rng.u64(..self.span / bytes) * bytes
    }

    /// Returns buffers with incompressible contents. Those of the previous call must have been
    /// dropped.
    pub(super) fn buffers(&mut self, bytes: u64, count: u32) -> Vec<AlignedBuffer> {
        self.arena.cut(bytes, count)
    }

    /// Measures a point's requests for about `window_ns`.
    ///
    /// The first `depth` requests are not counted. Neither are requests in flight at the end, which
    /// are awaited.
    pub(super) fn window(&mut self, point: ProbePoint, round: u32, window_ns: u64) -> Result<ProbeSample> {
        let mut places = OffsetSequence::new(point.order, point.bytes, self.span, self.rng.u64(..));
        let buffers = self.buffers(point.bytes, point.depth);
        if point.order == OffsetOrder::Near {
            self.warm_up(point)?;
        }
        let counted = match (point.issue, point.depth) {
            (IssueMode::Steady, 2..) => self.steady(point, &mut places, buffers, window_ns)?,
            (IssueMode::Batch, _) | (IssueMode::Steady, _) => {
                self.batches(point, &mut places, buffers, window_ns)?
            }
        };
        Ok(counted.into_window(point, round))
    }

    /// Reads the range of [`OffsetOrder::Near`] once, so that any cache in the device already
    /// contains it when the measurement begins.
    fn warm_up(&mut self, point: ProbePoint) -> Result<()> {
        let near = super::offsets::NEAR.min(self.span);
        let near = near - near % point.bytes;
        self.file.read_at(0, near as usize, Purpose::Probe).map(drop)
    }

    fn begin(&self) -> WindowCounts {
        let now_ns = self.watch.now_ns();
        let cpu_ns = self.watch.cpu_ns();
        WindowCounts {
            begin_ns: now_ns,
            begin_cpu_ns: cpu_ns,
            end_ns: now_ns,
            end_cpu_ns: cpu_ns,
            requests: 0,
            took_ns: Vec::new(),
        }
    }

    /// Repeatedly submits all requests together and waits for all of them.
    fn batches(
        &mut self,
        point: ProbePoint,
        places: &mut OffsetSequence,
        mut buffers: Vec<AlignedBuffer>,
        window_ns: u64,
    ) -> Result<WindowCounts> {
        let mut counted = self.begin();
        let mut is_first = true;
        loop {
            let mut batch = IoBatch::with_capacity(buffers.len());
            for buffer in buffers.drain(..) {
                add(&mut batch, point, places.next(), buffer);
            }
            let began_ns = self.watch.now_ns();
            buffers = self.file.run(batch)?;
            if std::mem::take(&mut is_first) {
                counted = self.begin();
                continue;
            }
            counted.end_ns = self.watch.now_ns();
            counted.requests += u64::from(point.depth);
            counted.took_ns.push(counted.end_ns.saturating_sub(began_ns));
            if counted.is_full(window_ns) {
                counted.end_cpu_ns = self.watch.cpu_ns();
                return Ok(counted);
            }
        }
    }

    /// Keeps the point's number of requests in flight.
    fn steady(
        &mut self,
        point: ProbePoint,
        places: &mut OffsetSequence,
        buffers: Vec<AlignedBuffer>,
        window_ns: u64,
    ) -> Result<WindowCounts> {
        let mut counted = self.begin();
        let mut to_warm = u64::from(point.depth);
        let mut flying = VecDeque::with_capacity(buffers.len());
        self.send(point, places, buffers, &mut flying);
        while let Some(oldest) = flying.front() {
            self.file.wait_some(&oldest.ticket);
            let now_ns = self.watch.now_ns();
            let mut free = Vec::new();
            for _ in 0..flying.len() {
                let Some(one) = flying.pop_front() else { break };
                if !one.ticket.is_complete() {
                    flying.push_back(one);
                    continue;
                }
                free.extend(one.ticket.take_buffers()?);
                if to_warm > 0 {
                    to_warm -= 1;
                    if to_warm == 0 {
                        counted = self.begin();
                    }
                } else {
                    counted.requests += 1;
                    counted.end_ns = now_ns;
                    counted.took_ns.push(now_ns.saturating_sub(one.began_ns));
                }
            }
            if to_warm == 0 && counted.is_full(window_ns) {
                break;
            }
            self.send(point, places, free, &mut flying);
        }
        counted.end_cpu_ns = self.watch.cpu_ns();
        for one in flying {
            self.file.wait(&one.ticket);
            one.ticket.take_buffers()?;
        }
        Ok(counted)
    }

    /// Submits requests, each with a ticket of its own.
    fn send(
        &self,
        point: ProbePoint,
        places: &mut OffsetSequence,
        buffers: Vec<AlignedBuffer>,
        flying: &mut VecDeque<InFlightRequest>,
    ) {
        if buffers.is_empty() {
            return;
        }
        let batches = buffers.into_iter().map(|buffer| {
            let mut batch = IoBatch::with_capacity(1);
            add(&mut batch, point, places.next(), buffer);
            batch
        });
        let batches = batches.collect();
        let began_ns = self.watch.now_ns();
        let tickets = self.file.submit_many(batches);
        flying.extend(
            tickets
                .into_iter()
                .map(|ticket| InFlightRequest { ticket, began_ns }),
        );
    }
}

fn add(batch: &mut IoBatch, point: ProbePoint, place: u64, buffer: AlignedBuffer) {
    match point.kind {
        AccessKind::Read => batch.read(place, buffer, Purpose::Probe),
        AccessKind::Write => batch.write(place, buffer, Purpose::Probe),
    };
}

impl WindowCounts {
    fn is_full(&self, window_ns: u64) -> bool {
        self.requests >= MOST
            || self.requests >= LEAST && self.end_ns.saturating_sub(self.begin_ns) >= window_ns
    }

    fn into_window(mut self, point: ProbePoint, round: u32) -> ProbeSample {
        self.took_ns.sort_unstable();
        let count = self.took_ns.len();
        let cut = if count < 3 { 0 } else { count.div_ceil(10) };
        let middle = self
            .took_ns
            .get(cut..self.took_ns.len() - cut)
            .unwrap_or_default();
        let sum: u64 = middle.iter().sum();
        ProbeSample {
            point,
            round,
            requests: self.requests,
            elapsed_ns: self.end_ns.saturating_sub(self.begin_ns),
            cpu_ns: self.end_cpu_ns.saturating_sub(self.begin_cpu_ns),
            typical_ns: sum / middle.len().max(1) as u64,
        }
    }
}
