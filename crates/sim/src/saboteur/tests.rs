use super::*;
use alluvium_base::Purpose;
use alluvium_device::AlignedBuffer;
use alluvium_device::memory::MemoryDirectory;

const FILE: &str = "slots";

/// Returns a directory with the planted bug, a file of eight blocks in it, and the same file
/// without the bug.
fn file(bug: PlantedBug) -> (Arc<dyn Directory>, Arc<dyn Device>, Arc<dyn Device>) {
    let honest = Arc::new(MemoryDirectory::new());
    let directory = SabotagedDirectory::wrap(Arc::clone(&honest) as Arc<dyn Directory>, bug);
    let file = directory.create(FILE, FileOptions::DIRECT).unwrap();
    file.grow(4096).unwrap();
    let truth = honest.open(FILE, FileOptions::DIRECT).unwrap();
    (directory, file, truth)
}

fn write(file: &Arc<dyn Device>, block: u64, byte: u8) {
    file.write_at(block * 512, AlignedBuffer::padded(&[byte; 512]), Purpose::Other)
        .unwrap();
}

fn blocks(file: &Arc<dyn Device>) -> Vec<u8> {
    let bytes = file.read_at(0, 4096, Purpose::Other).unwrap();
    bytes.chunks(512).map(|block| block[511]).collect()
}

#[test]
fn only_the_first_writes_take_place() {
    let (_, file, truth) = file(PlantedBug::OnlyFirstWrites("slot", 2));
    (0..4).for_each(|block| write(&file, block, 1));
    assert_eq!(blocks(&truth)[..4], [1, 1, 0, 0]);
}

#[test]
fn second_copies_are_dropped_and_other_files_are_left_alone() {
    let (directory, file, truth) = file(PlantedBug::DropSecondCopy("slot"));
    (0..4).for_each(|block| write(&file, block, 1));
    assert_eq!(blocks(&truth)[..4], [1, 0, 1, 0]);
    let other = directory.create("other", FileOptions::DIRECT).unwrap();
    other.grow(4096).unwrap();
    (0..4).for_each(|block| write(&other, block, 1));
    assert_eq!(blocks(&other)[..4], [1, 1, 1, 1]);
}

#[test]
fn rewrites_are_lost_and_one_slot_serves_for_two() {
    let (_, stale, truth) = file(PlantedBug::LoseRewrites(""));
    write(&stale, 0, 1);
    write(&stale, 0, 2);
    assert_eq!(blocks(&truth)[0], 1);
    let (_, wrong, truth) = file(PlantedBug::WrongSlot { file: "", mask: 512 });
    write(&wrong, 3, 7);
    assert_eq!(blocks(&truth)[2..4], [7, 0]);
}

#[test]
fn writes_are_torn_and_holes_are_wide() {
    let (_, torn, truth) = file(PlantedBug::TearWrites(""));
    torn.write_at(0, AlignedBuffer::padded(&[3; 1024]), Purpose::Other)
        .unwrap();
    assert_eq!(blocks(&truth)[..2], [3, 0]);
    let (_, wide, truth) = file(PlantedBug::PunchWide("", 512));
    (0..4).for_each(|block| write(&wide, block, 1));
    wide.punch_hole(0..512).unwrap();
    assert_eq!(blocks(&truth)[..4], [0, 0, 1, 1]);
}

#[test]
fn writes_wait_until_something_is_freed() {
    let (directory, file, truth) = file(PlantedBug::FreeBeforeWrite("slots"));
    let other = directory.create("other", FileOptions::DIRECT).unwrap();
    other.grow(4096).unwrap();
    write(&file, 1, 5);
    file.sync(Purpose::Other).unwrap();
    assert_eq!(blocks(&truth)[1], 0);
    other.punch_hole(0..512).unwrap();
    assert_eq!(blocks(&truth)[1], 5);
}

#[test]
fn syncs_are_skipped_delayed_or_come_after_a_write() {
    let syncs = |bug, expected: [u64; 3]| {
        let (directory, file, _) = file(bug);
        let other = directory.create("other", FileOptions::DIRECT).unwrap();
        other.grow(512).unwrap();
        let count = || directory.counters().snapshot().total().syncs;
        file.sync(Purpose::Other).unwrap();
        let first = count();
        file.sync(Purpose::Other).unwrap();
        let second = count();
        write(&other, 0, 1);
        assert_eq!([first, second, count()], expected, "{bug:?}");
    };
    syncs(PlantedBug::SkipSync("slots"), [0, 0, 0]);
    syncs(PlantedBug::DelaySync("slots"), [0, 1, 1]);
    syncs(
        PlantedBug::SyncAfterWrite {
            file: "slots",
            before: "other",
        },
        [0, 0, 2],
    );
    syncs(PlantedBug::SkipRemove, [1, 2, 2]);
}
