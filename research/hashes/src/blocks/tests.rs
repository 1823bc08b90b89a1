use super::*;
use alluvium_filters::golomb::ByteSource as _;

/// Counts transfers of a cache that is a list, most recent first.
struct Naive {
    block: u64,
    capacity: usize,
    list: Vec<(u64, bool)>,
    device: std::collections::HashSet<u64>,
    transfers: BlockTransfers,
}

impl Naive {
    fn touch(&mut self, at: u64, bytes: u64, writes: bool) {
        for block in at / self.block..(at + bytes).div_ceil(self.block) {
            let whole = block * self.block >= at && (block + 1) * self.block <= at + bytes;
            let held = self.list.iter().position(|(held, _)| *held == block);
            let dirty = held.map(|at| self.list.remove(at).1);
            if held.is_none() && (!writes || !whole && self.device.contains(&block)) {
                self.transfers.reads += 1;
            }
            self.list.insert(0, (block, writes || dirty.unwrap_or(false)));
            if self.list.len() > self.capacity {
                let (block, dirty) = self.list.pop().unwrap();
                if dirty {
                    self.transfers.writes += 1;
                    self.device.insert(block);
                }
            }
        }
    }
}

#[test]
fn the_meter_counts_as_a_plain_list_does() {
    let mut random = fastrand::Rng::with_seed(1);
    for (block, capacity) in [(64, 1), (64, 4), (100, 33)] {
        let mut meter = TransferMeter::new(block, block * capacity as u64);
        let mut naive = Naive {
            block,
            capacity,
            list: Vec::new(),
            device: std::collections::HashSet::new(),
            transfers: BlockTransfers::default(),
        };
        for _ in 0..20_000 {
            let (at, bytes, writes) = (random.u64(..8000), random.u64(1..300), random.bool());
            if writes {
                meter.write(at, bytes);
            } else {
                meter.read(at, bytes);
            }
            naive.touch(at, bytes, writes);
            assert_eq!(meter.transfers(), naive.transfers);
        }
    }
}

#[test]
fn discarded_blocks_are_never_written_and_flushed_ones_once() {
    let mut meter = TransferMeter::new(10, 100);
    meter.write(0, 50);
    meter.discard(0, 45);
    meter.flush();
    meter.flush();
    assert_eq!(meter.transfers(), BlockTransfers { reads: 0, writes: 1 });
    meter.write(42, 3);
    meter.cool();
    meter.read(40, 10);
    assert_eq!(meter.transfers(), BlockTransfers { reads: 1, writes: 2 });
    assert!((meter.transfers().cost(5.0) - 11.0).abs() < 1e-9);
    // A write below one read in cost is allowed: omega has no lower bound here.
    assert!((meter.transfers().cost(0.5) - 2.0).abs() < 1e-9);
}

#[test]
fn space_is_taken_given_back_and_full() {
    let space = MemoryBlockSpace::new(64, 64 * 100);
    let mut random = fastrand::Rng::with_seed(2);
    let mut held: Vec<BlockExtent> = Vec::new();
    for _ in 0..5000 {
        if random.bool() {
            match space.allocate(random.u64(1..1000)) {
                Ok(extent) => {
                    assert!(
                        held.iter().all(|other| extent.at >= other.at + other.bytes
                            || other.at >= extent.at + extent.bytes)
                    );
                    held.push(extent);
                }
                Err(error) => assert!(matches!(error, Error::Full { .. })),
            }
        } else if !held.is_empty() {
            let at = random.usize(..held.len());
            let extent = held.swap_remove(at);
            let kept = space.trim(extent, extent.bytes / 2 + 1).unwrap();
            space.release(kept);
        }
        let used: u64 = held.iter().map(|extent| extent.bytes.next_multiple_of(64)).sum();
        assert_eq!(space.used_bytes(), used);
    }
}

#[test]
fn a_crash_leaves_the_last_commit() {
    let space = MemoryBlockSpace::new(64, 1 << 16);
    let old = space.allocate(1000).unwrap();
    space.write(old.at, &[7; 1000]).unwrap();
    space.commit(b"first").unwrap();
    space.release(old);
    let new = space.allocate(1000).unwrap();
    assert!(
        new.at >= 1000,
        "what a commit reaches is not used again before the next"
    );
    space.write(new.at, &[8; 1000]).unwrap();
    space.inject(BlockFault::WritesFrom(1));
    assert!(space.commit(b"second").is_err());
    let found = space.crashed();
    assert_eq!(found.root().unwrap(), b"first");
    assert_eq!(found.extents(), [old]);
    let mut bytes = [0; 1000];
    found.read(old.at, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 1000]);
}

#[test]
#[should_panic(expected = "B1")]
fn writing_what_the_last_commit_reaches_is_a_bug() {
    let space = MemoryBlockSpace::new(64, 1 << 16);
    let extent = space.allocate(10).unwrap();
    space.commit(b"").unwrap();
    let _ = space.write(extent.at, &[1]);
}

#[test]
fn damage_is_refused_by_place_and_steps_leave_nothing() {
    let space = MemoryBlockSpace::new(64, 1 << 16);
    let extent = space.allocate(2000).unwrap();
    space.write(extent.at, &[1; 2000]).unwrap();
    space.damage(extent.at + 1500, 4);
    let error = space
        .read(extent.at + 1300, &mut [0; 300])
        .unwrap_err()
        .to_string();
    assert!(error.contains("byte 1024: checksum"), "{error}");
    space.read(extent.at, &mut [0; 1000]).unwrap();
    let draft = SpaceTransaction::new(&space);
    draft.release(extent);
    let more = draft.allocate(500).unwrap();
    draft.trim(more, 100).unwrap();
    drop(draft);
    assert_eq!(space.extents(), [extent]);
    let draft = SpaceTransaction::new(&space);
    draft.release(extent);
    let kept = draft.allocate(500).unwrap();
    draft.apply_releases();
    assert_eq!(space.extents(), [kept]);
}

#[test]
fn streams_move_whole_blocks() {
    for chunk in [1, 64, 100, 4096] {
        let space = MemoryBlockSpace::new(1, 1 << 16);
        space.allocate(13).unwrap();
        let extent = space.allocate(3000).unwrap();
        let bytes: Vec<u8> = (0..3000).map(|at| (at % 251) as u8).collect();
        let mut writer = BlockStreamWriter::new(&space, extent, chunk);
        for piece in bytes.chunks(7) {
            writer.put(piece).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), 3000);
        assert!(
            space.written().0 <= 3000u64.div_ceil(chunk as u64) + 1,
            "{:?}",
            space.written()
        );
        let mut reader = BlockStreamReader::new(&space, extent, chunk);
        let mut read = Vec::new();
        reader.take(1000, &mut read).unwrap();
        while let Some(byte) = reader.byte().unwrap() {
            read.push(byte);
        }
        assert_eq!(read, bytes);
        assert!(reader.take(1, &mut read).is_err());
    }
}
