use super::*;
use crate::PageSize;
use crate::extents::MapPointer;
use alluvium_device::DeviceOperation;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{InjectedFault, SimDirectory};

fn generation(generation: u64) -> Superblock {
    Superblock {
        store: 5,
        generation,
        cut: generation * 10,
        synced: 0,
        page_size: PageSize::MIN,
        tiers: 1,
        map: MapPointer {
            file: 1,
            length: 512,
            checksum: 0,
            generation,
            snapshot: 512,
            records: 1,
        },
        payload: format!("root {generation}").into_bytes(),
    }
}

fn created(generations: u64) -> MemoryDirectory {
    let directory = MemoryDirectory::new();
    begin_creation(&directory).unwrap();
    let mut file = SuperblockFile::create(&directory, generation(1)).unwrap();
    for next in 2..=generations {
        file.write(generation(next)).unwrap();
    }
    assert_eq!(file.check().unwrap(), Vec::<String>::new());
    directory
}

fn damage(directory: &dyn Directory, slot: usize, bytes: &[u8]) {
    let file = directory.open(FILE, FileOptions::DIRECT).unwrap();
    file.write_at(
        (slot * SLOT_BYTES) as u64,
        AlignedBuffer::padded(bytes),
        Purpose::Other,
    )
    .unwrap();
}

fn open(directory: &MemoryDirectory) -> Result<SuperblockFile> {
    SuperblockFile::open(directory, FileAccessMode::ReadWrite)
}

#[test]
fn the_newest_generation_is_opened() {
    for generations in 1..6 {
        assert_eq!(
            open(&created(generations)).unwrap().durable(),
            &generation(generations)
        );
    }
}

#[test]
fn one_damaged_copy_is_mended_from_the_other() {
    for slot in [2, 3] {
        let directory = created(2);
        damage(&directory, slot, &[7; 100]);
        let file = open(&directory).unwrap();
        assert_eq!(file.durable(), &generation(2));
        assert_eq!(
            file.check().unwrap(),
            Vec::<String>::new(),
            "slot {slot} is mended"
        );
    }
}

#[test]
fn a_copy_that_a_full_disk_kept_from_being_mended_is_mended_by_a_check() {
    let directory = SimDirectory::new(1);
    begin_creation(&directory).unwrap();
    drop(SuperblockFile::create(&directory, generation(1)).unwrap());
    let mut file = SuperblockFile::open(&directory, FileAccessMode::ReadWrite).unwrap();
    // The disk has no space for one of a generation's two copies, and then the process ends.
    directory.inject(InjectedFault::full(DeviceOperation::Write).on(FILE).at(1));
    assert!(file.write(generation(2)).is_err());
    drop(file);
    directory.clear_faults();
    directory.inject(InjectedFault::full(DeviceOperation::Write).on(FILE).sticky());
    let file = SuperblockFile::open(&directory, FileAccessMode::ReadWrite).unwrap();
    assert_eq!(file.durable(), &generation(2));
    assert_eq!(file.check().unwrap(), Vec::<String>::new(), "still full");
    let copies = |of: &SuperblockFile| {
        let slots = read_slots(&*of.file).unwrap();
        let is_durable =
            |slot: &&SuperblockSlot| matches!(slot, SuperblockSlot::Valid(found) if found == of.durable());
        slots.iter().filter(is_durable).count()
    };
    assert_eq!(copies(&file), 1);
    directory.clear_faults();
    assert_eq!(file.check().unwrap(), Vec::<String>::new());
    assert_eq!(copies(&file), 2);
    // Damage that occurs later is reported as such.
    damage(&directory, 2, &[7; 100]);
    assert_eq!(file.check().unwrap().len(), 1);
}

#[test]
fn two_damaged_copies_leave_the_older_generation_and_four_are_an_error() {
    let directory = created(2);
    damage(&directory, 2, &[7; 100]);
    damage(&directory, 3, &[0; SLOT_BYTES]);
    assert_eq!(
        open(&directory).unwrap().durable(),
        &generation(1),
        "the log will say that 2 is missing"
    );
    damage(&directory, 0, &[7; 100]);
    damage(&directory, 1, &[7; 100]);
    assert!(matches!(open(&directory), Err(Error::Corrupt { .. })));
}

#[test]
fn a_truncated_file_opens_from_what_is_left_and_is_made_whole() {
    let directory = created(2);
    let file = directory.open(FILE, FileOptions::DIRECT).unwrap();
    file.truncate(3 * SLOT_BYTES as u64).unwrap();
    assert_eq!(open(&directory).unwrap().check().unwrap(), Vec::<String>::new());
    file.truncate(0).unwrap();
    assert!(matches!(open(&directory), Err(Error::Corrupt { .. })));
}

#[test]
fn a_directory_without_a_superblock_says_what_it_is() {
    let why = |directory: &MemoryDirectory| match open(directory) {
        Err(Error::NotAStore { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let directory = MemoryDirectory::new();
    assert!(why(&directory).contains("empty"));
    directory.create("letters.txt", FileOptions::BUFFERED).unwrap();
    assert!(why(&directory).contains("check the path"));
    assert!(
        begin_creation(&directory).is_err(),
        "the file is of something else"
    );
    directory.remove("letters.txt").unwrap();
    begin_creation(&directory).unwrap();
    assert!(why(&directory).contains("interrupted"));
    directory.remove(NEW_FILE).unwrap();
    directory.create("tier-0.data", FileOptions::DIRECT).unwrap();
    assert!(why(&directory).contains("missing"));
}

#[test]
fn creation_begins_again_after_a_crash_but_never_over_a_store() {
    let directory = MemoryDirectory::new();
    begin_creation(&directory).unwrap();
    directory.create("tier-0.data", FileOptions::DIRECT).unwrap();
    begin_creation(&directory).unwrap();
    assert_eq!(
        directory.list().unwrap(),
        [NEW_FILE],
        "the leftovers of the first try are gone"
    );
    SuperblockFile::create(&directory, generation(1)).unwrap();
    assert!(matches!(
        begin_creation(&directory),
        Err(Error::StoreExists { .. })
    ));
    directory.create("tier-0.data", FileOptions::DIRECT).unwrap();
    directory.remove(FILE).unwrap();
    let again = begin_creation(&directory);
    assert!(
        matches!(again, Err(Error::NotAStore { .. })),
        "a lost superblock is not a fresh start"
    );
}

#[test]
fn a_newer_format_is_named_even_beside_an_older_superblock() {
    let directory = created(2);
    let mut bytes = generation(3).encode(0);
    bytes[8] = 9;
    let sum = alluvium_base::checksum(&bytes[..SLOT_BYTES - 8]).to_le_bytes();
    bytes[SLOT_BYTES - 8..].copy_from_slice(&sum);
    damage(&directory, 0, &bytes);
    assert!(matches!(
        open(&directory),
        Err(Error::NewerFormat {
            found: 9,
            supported: 2,
            ..
        })
    ));
}
