use super::sketch_runs::{SketchItem, SketchMerge, SketchRunShape, SketchRunWriter, group_of, reduce};
use super::tape::Tape;
use crate::blocks::{BlockSpace, MachineModel, MemoryBlockSpace};

const SHAPE: SketchRunShape = SketchRunShape {
    prefix_bits: 12,
    payload_bits: 40,
};

/// Writes `runs` runs of random items whose payloads number them, and returns all items as a
/// stable sort has them.
fn written(
    space: &MemoryBlockSpace,
    machine: MachineModel,
    runs: u64,
    most: u64,
    seed: u64,
) -> (Tape, Vec<SketchItem>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut tape, mut all, mut number) = (Tape::default(), Vec::new(), 0);
    for _ in 0..runs {
        let mut items: Vec<SketchItem> = (0..random.u64(1..=most))
            .map(|_| {
                number += 1;
                SketchItem {
                    prefix: random.u64(..1 << 12) >> random.u32(..12),
                    payload: number,
                }
            })
            .collect();
        items.sort_by_key(|item| item.prefix);
        let mut run = SketchRunWriter::new(&tape, SHAPE, items.len() as u64);
        for &item in &items {
            run.push(&mut tape, space, machine, item).unwrap();
        }
        run.finish(&mut tape, space, machine).unwrap();
        all.extend(items);
    }
    all.sort_by_key(|item| item.prefix);
    (tape, all)
}

fn merged(space: &MemoryBlockSpace, machine: MachineModel, tape: Tape) -> Vec<SketchItem> {
    let (mut tape, places) = reduce(tape, space, machine, SHAPE).unwrap();
    let mut stream = SketchMerge::new(&tape, space, machine, &places, SHAPE).unwrap();
    let mut items = Vec::new();
    while let Some(item) = stream.next().unwrap() {
        items.push(item);
    }
    stream.end(space);
    tape.clear(space);
    assert_eq!(space.used_bytes(), 0);
    items
}

#[test]
fn merges_are_stable_whatever_the_number_of_runs() {
    let machines = [
        MachineModel::Oblivious,
        MachineModel::Blocks {
            block_bytes: 128,
            memory_bytes: 512,
        },
        MachineModel::Blocks {
            block_bytes: 256,
            memory_bytes: 1 << 14,
        },
    ];
    for machine in machines {
        for (runs, most) in [
            (1, 50),
            (2, 1),
            (2, 100),
            (3, 20),
            (5, 30),
            (8, 70),
            (17, 40),
            (64, 5),
            (100, 9),
        ] {
            let space = MemoryBlockSpace::new(128, 1 << 30);
            let (tape, expected) = written(&space, machine, runs, most, runs);
            assert_eq!(
                merged(&space, machine, tape),
                expected,
                "{runs} runs below {machine:?}"
            );
        }
    }
}

#[test]
fn a_funnel_merges_from_two_to_a_thousand_runs_at_once() {
    for runs in [2u64, 3, 4, 7, 8, 9, 16, 31, 33, 100, 256, 500, 1000] {
        let space = MemoryBlockSpace::new(1, 1 << 32);
        let (mut tape, expected) = written(&space, MachineModel::Oblivious, runs, 12, runs);
        let mut places = super::sketch_runs::ReverseRunScan::new(&tape, &space, MachineModel::Oblivious)
            .next(runs, SHAPE)
            .unwrap();
        places.reverse();
        let mut stream = SketchMerge::new(&tape, &space, MachineModel::Oblivious, &places, SHAPE).unwrap();
        let mut items = Vec::new();
        while let Some(item) = stream.next().unwrap() {
            items.push(item);
        }
        assert_eq!(items, expected, "{runs} runs");
        stream.end(&space);
        tape.clear(&space);
        assert_eq!(space.used_bytes(), 0);
    }
    // The cube rule: all at once with K³ items, groups of the cube root with fewer.
    assert_eq!(group_of(MachineModel::Oblivious, 10, 1000), 10);
    assert_eq!(group_of(MachineModel::Oblivious, 27, 1000), 3);
    assert_eq!(group_of(MachineModel::Oblivious, 2, 2), 2);
}

#[test]
fn a_funnel_needs_few_transfers_below_any_memory() {
    // 64 runs of 4096 items: the merge reads and writes each item a few times at most, though
    // the memory does not hold a block for each run.
    let space = MemoryBlockSpace::new(1, 1 << 32)
        .with_meter(512, 512 * 24)
        .with_meter(4096, 4096 * 16);
    let (tape, expected) = written(&space, MachineModel::Oblivious, 64, 8000, 5);
    let scan = [0, 1].map(|meter| tape.bytes().div_ceil([512, 4096][meter]));
    space.cool();
    let before = [0, 1].map(|meter| space.transfers(meter));
    assert_eq!(
        merged(&space, MachineModel::Oblivious, tape).len(),
        expected.len()
    );
    for meter in 0..2 {
        let moved = space.transfers(meter).since(before[meter]).total();
        // Items in buffers are 24 bytes, on the tape about 6.
        assert!(
            moved < 30 * scan[meter],
            "meter {meter}: {moved}, one scan is {}",
            scan[meter]
        );
    }
}

#[test]
fn tapes_are_read_as_they_were_written_across_seals() {
    let mut random = fastrand::Rng::with_seed(8);
    for machine in [
        MachineModel::Oblivious,
        MachineModel::Blocks {
            block_bytes: 128,
            memory_bytes: 4096,
        },
    ] {
        let space = MemoryBlockSpace::new(128, 1 << 24);
        let (mut tape, mut expected) = (Tape::default(), Vec::new());
        for round in 0..200u32 {
            let piece = vec![round as u8; random.usize(..400)];
            tape.append(&space, machine, &piece).unwrap();
            expected.extend(piece);
            if round % 50 == 20 {
                tape.seal(&space).unwrap();
                space.commit(b"root").unwrap();
            }
        }
        assert_eq!(tape.bytes(), expected.len() as u64);
        for _ in 0..200 {
            let from = random.usize(..expected.len());
            let end = random.usize(from..=expected.len());
            let mut read = Vec::new();
            let mut reader = tape.reader(&space, machine, from as u64..end as u64).unwrap();
            crate::records::RecordSource::take(&mut reader, (end - from) as u64, &mut read).unwrap();
            assert_eq!(read, expected[from..end]);
        }
        assert!(tape.reader(&space, machine, 0..tape.bytes() + 1).is_err());
    }
}
