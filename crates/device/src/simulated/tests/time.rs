//! Virtual time.

use super::*;
use crate::{IoBatch, Ticket};
use alluvium_base::cost::{AccessKind, CostClock, CostFault, DeviceAccess};
use std::collections::BTreeSet;

/// A device with two slots of 100 ns per step, on which a write excludes other accesses to its
/// block.
#[derive(Default)]
struct TwoSlots {
    step: u64,
    used: u64,
    written: BTreeSet<(u64, u64)>,
}

impl CostClock for TwoSlots {
    fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault> {
        let now = now_ns / 100;
        if now > self.step || self.used == 2 {
            self.step = now.max(self.step + 1);
            self.used = 0;
            self.written.clear();
        }
        let (file, block) = (access.file, access.offset / 512);
        if access.kind == AccessKind::Write && !self.written.insert((file, block)) {
            return Err(CostFault { file, block });
        }
        self.used += 1;
        Ok((self.step + 1) * 100)
    }
}

fn timed(completion: CompletionOrder) -> (SimDirectory, Arc<dyn Device>) {
    let directory = SimDirectory::with(SimOptions {
        completion,
        ..SimOptions::new(1)
    });
    let file = durable_file(&directory, "a", 1 << 16, FileOptions::DIRECT);
    directory.set_clock(Box::new(TwoSlots::default()));
    (directory, file)
}

fn reads(count: u64) -> IoBatch {
    let mut batch = IoBatch::new();
    for block in 0..count {
        batch.read(block * 512, AlignedBuffer::zeroed(512), Purpose::Other);
    }
    batch
}

#[test]
fn a_batch_is_issued_at_one_moment_and_waiting_moves_time_to_its_end() {
    for completion in [CompletionOrder::InOrder, CompletionOrder::Shuffled] {
        let (directory, file) = timed(completion);
        let ticket = file.submit(reads(5));
        assert_eq!((directory.now_ns(), directory.in_flight()), (0, 5));
        file.wait(&ticket);
        assert_eq!(directory.now_ns(), 300);
        file.read_at(0, 512, Purpose::Other).expect("inside the file");
        assert_eq!(directory.now_ns(), 400);
        directory.advance(1000);
        file.read_at(0, 512, Purpose::Other).expect("inside the file");
        assert_eq!(directory.now_ns(), 1500, "what an idle device did not do is lost");
        file.sync(Purpose::Other).expect("no fault");
        assert_eq!(directory.now_ns(), 1500, "a sync is free");
    }
}

#[test]
fn a_poll_completes_what_is_due_and_else_moves_to_the_next_completion() {
    let (directory, file) = timed(CompletionOrder::InOrder);
    let tickets: Vec<Ticket> = (0..6).map(|_| file.submit(reads(1))).collect();
    directory.advance(250);
    assert!(file.poll(&tickets[3]), "due at 200");
    assert!(!tickets[4].is_complete(), "due at 300");
    assert_eq!(directory.now_ns(), 250);
    assert!(file.poll(&tickets[5]));
    assert_eq!(directory.now_ns(), 300);
}

#[test]
fn a_write_takes_effect_when_its_time_has_come() {
    let (directory, file) = timed(CompletionOrder::InOrder);
    let mut batch = IoBatch::new();
    batch.write(0, AlignedBuffer::padded(&[1; 512]), Purpose::Other);
    let ticket = file.submit(batch);
    let kept = |seed| sectors(&directory.image(CrashSurvival::Process, seed), "a")[0];
    assert_eq!(
        (0..40).map(kept).collect::<BTreeSet<u8>>().len(),
        2,
        "it is in flight"
    );
    file.wait(&ticket);
    assert_eq!((0..40).map(kept).collect::<BTreeSet<u8>>(), BTreeSet::from([1]));
    assert_eq!(
        directory.image(CrashSurvival::None, 0).now_ns(),
        0,
        "an image has its own time and no clock"
    );
}

#[test]
#[should_panic(expected = "one of them a write; issue the one after the other is complete")]
fn two_writes_of_one_block_in_one_step_are_a_bug_of_the_caller() {
    let (_directory, file) = timed(CompletionOrder::InOrder);
    let mut batch = IoBatch::new();
    for _ in 0..2 {
        batch.write(512, AlignedBuffer::zeroed(512), Purpose::Other);
    }
    file.submit(batch);
}

#[test]
fn a_mapped_sync_is_charged_as_a_write_of_its_range() {
    let (directory, _) = timed(CompletionOrder::InOrder);
    let file = directory.open("a", FileOptions::BUFFERED).expect("it exists");
    let mapping = file.map(0..4096).expect("a buffered file");
    mapping.sync(0..4096, Purpose::Other).expect("no fault");
    assert_eq!(directory.now_ns(), 100);
}
