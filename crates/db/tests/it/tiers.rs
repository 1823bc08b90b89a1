//! Stores in several directories: discovery, refusals and data placement.

use alluvium::simulation::{DirectoryOpener as _, StoreScale};
use alluvium::{
    Db, ErrorKind, HashedForm, HashedOptions, Keyspace, KeyspaceOptions, LevelsOptions, OpenMode, Options,
    Purpose, Structure, TierOptions, TransactionOptions,
};
use alluvium_device::file::FileDirectory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{AlignedBuffer, Directory, FileOptions};
use alluvium_storage::extents::{ExtentOptions, TierLimits, UNIT};
use alluvium_storage::tiers::list::LIST_FILE;
use alluvium_storage::{LogOptions, TierDirectories};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

pub(crate) fn small() -> Options {
    Options::new().memory(16 << 20).workers(0)
}

/// Returns directories that do not exist yet: one for the first tier and three for others.
pub(crate) fn places() -> (TempDir, [PathBuf; 4]) {
    let place = tempfile::tempdir().unwrap();
    let paths = ["fast", "one", "two", "three"].map(|name| place.path().join(name));
    (place, paths)
}

pub(crate) fn with(tiers: &[&PathBuf]) -> Options {
    let options = small().fast_bytes(0);
    tiers
        .iter()
        .fold(options, |all, path| all.tier(path, TierOptions::new()))
}

pub(crate) fn fill(db: &Db) -> Keyspace {
    let keyspace = db.keyspace("k").unwrap();
    let hashed = KeyspaceOptions::new().structure(Structure::Hashed(HashedOptions::default()));
    let hashed = db.keyspace_with("h", &hashed).unwrap();
    for number in 0..500u32 {
        keyspace.put(number.to_be_bytes(), vec![7; 2000]).unwrap();
        hashed.put(number.to_be_bytes(), vec![7; 2000]).unwrap();
    }
    db.compact().unwrap();
    keyspace
}

/// Creates a store with these tiers, the last ones holding data, and closes it.
pub(crate) fn create(first: &Path, tiers: &[&PathBuf]) {
    let db = with(tiers).open(first).unwrap();
    fill(&db);
    let live: Vec<u64> = db
        .stats()
        .tiers
        .iter()
        .map(|tier| tier.space.live_bytes)
        .collect();
    assert!(live[1] > 2 * 500 * 2000, "{live:?}");
    db.close().unwrap();
}

pub(crate) fn is_whole(db: &Db) {
    let found = db.existing_keyspace("k").unwrap().iter().map(Result::unwrap);
    assert_eq!(found.count(), 500);
    let hashed = db.existing_keyspace("h").unwrap();
    let found = hashed.unordered().map(Result::unwrap);
    assert_eq!(found.filter(|(_, value)| value[..] == [7; 2000]).count(), 500);
    assert_eq!(db.check().unwrap(), [""; 0]);
}

fn refusal(options: &Options, path: &Path) -> String {
    options.open(path).unwrap_err().to_string()
}

#[test]
fn a_store_remembers_where_its_tiers_are() {
    let (_place, [fast, one, two, _]) = places();
    create(&fast, &[&one, &two]);
    for mode in [OpenMode::Existing, OpenMode::OpenOrCreate, OpenMode::ReadOnly] {
        let db = small().mode(mode).open(&fast).unwrap();
        assert_eq!(db.stats().tiers.len(), 3);
        is_whole(&db);
    }
    assert!(refusal(&small().mode(OpenMode::New), &fast).contains("already contains a store"));
    let further = small().mode(OpenMode::Existing);
    assert!(refusal(&further, &one).contains("give that directory first"));
}

#[test]
fn the_order_in_which_tiers_are_given_does_not_matter_and_one_may_have_moved() {
    let (_place, [fast, one, two, three]) = places();
    create(&fast, &[&one, &two]);
    is_whole(&with(&[&two, &one]).open(&fast).unwrap());
    let moved = Command::new("mv").args([&one, &three]).status().unwrap();
    assert!(moved.success());
    let text = refusal(&small(), &fast);
    assert!(
        text.contains("one is not tier 1") && text.contains("--tier"),
        "{text}"
    );
    is_whole(&with(&[&three]).open(&fast).unwrap());
    is_whole(&small().open(&fast).unwrap());
}

#[test]
fn directories_that_are_the_same_or_inside_of_each_other_are_refused_before_anything_is_made() {
    let (_place, [fast, one, ..]) = places();
    let inside = fast.join("slow");
    let around = fast.parent().unwrap().to_owned();
    let again = one.join("..").join("one");
    for tiers in [
        vec![&fast],
        vec![&inside],
        vec![&around],
        vec![&one, &again],
        vec![&one, &one],
    ] {
        let error = with(&tiers).open(&fast).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("inside"), "{error}");
        assert!(!fast.exists() && !one.exists());
    }
    let many: Vec<PathBuf> = (0..8)
        .map(|number| one.with_extension(number.to_string()))
        .collect();
    let text = refusal(&with(&many.iter().collect::<Vec<_>>()), &fast);
    assert!(text.contains("at most 7") && !fast.exists(), "{text}");
}

#[test]
fn a_directory_of_another_store_and_one_of_none_are_refused_by_name() {
    let (_place, [fast, one, two, three]) = places();
    create(&fast, &[&one]);
    create(&two, &[&three]);
    let text = refusal(&with(&[&three]), &fast);
    assert!(
        text.contains("three is not tier 1") && text.contains("another store"),
        "{text}"
    );
    let text = refusal(&with(&[&two]), &fast);
    assert!(text.contains("first directory of a store"), "{text}");
    let empty = fast.with_extension("empty");
    assert!(with(&[&empty]).open(&fast).is_err() && !empty.exists());
    FileDirectory::create(&empty).unwrap();
    let text = refusal(&with(&[&empty]), &fast);
    assert!(text.contains("it is empty"), "{text}");
    assert!(
        empty.read_dir().unwrap().next().is_none(),
        "nothing was made there"
    );
    let text = refusal(&with(&[&one, &empty]), &fast);
    assert!(
        text.contains("1 tiers besides its first directory, but 2 were given"),
        "{text}"
    );
    // Nor is a tier of another store accepted as a new one.
    let text = refusal(&with(&[&one]), &empty.with_extension("new"));
    assert!(text.contains("it holds a tier of a store"), "{text}");
    is_whole(&small().open(&fast).unwrap());
    is_whole(&small().open(&two).unwrap());
}

#[test]
fn a_list_that_is_lost_or_damaged_is_made_again_from_what_is_given() {
    let (_place, [fast, one, ..]) = places();
    create(&fast, &[&one]);
    let directory = FileDirectory::open(&fast).unwrap();
    let list = directory.open(LIST_FILE, FileOptions::DIRECT).unwrap();
    list.write_at(0, AlignedBuffer::padded(&[1; 4096]), Purpose::Other)
        .unwrap();
    drop(list);
    let text = refusal(&small(), &fast);
    assert!(text.contains("give the directory of each tier"), "{text}");
    directory.remove(LIST_FILE).unwrap();
    assert_eq!(refusal(&small(), &fast), text);
    is_whole(&with(&[&one]).open(&fast).unwrap());
    is_whole(&small().open(&fast).unwrap());
}

#[test]
fn a_limit_is_kept_until_another_is_set() {
    let (_place, [fast, one, ..]) = places();
    let limited = |bytes| small().tier(&one, TierOptions::new().max_bytes(bytes));
    assert!(refusal(&limited(1 << 20), &fast).contains("16777216") && !fast.exists());
    let capacity = |options: &Options| options.open(&fast).unwrap().stats().tiers[1].capacity_bytes;
    assert_eq!(capacity(&limited(64 << 20)), 64 << 20);
    assert_eq!(capacity(&small()), 64 << 20);
    assert_eq!(capacity(&with(&[&one])), 64 << 20);
    assert_eq!(capacity(&limited(32 << 20)), 32 << 20);
    assert_eq!(capacity(&small()), 32 << 20);
}

#[test]
fn a_copy_has_as_many_tiers_and_so_has_what_is_restored_of_it() {
    let (_place, [fast, one, two, three]) = places();
    create(&fast, &[&one]);
    let backup = fast.with_extension("backup");
    small().open(&fast).unwrap().checkpoint_to(&backup).unwrap();
    is_whole(&small().open(&backup).unwrap());
    assert!(fast.with_extension("backup.tier-1").is_dir());
    let text = with(&[&one, &two])
        .restore(&backup, &three, |_| ())
        .unwrap_err()
        .to_string();
    assert!(text.contains("give one for each"), "{text}");
    with(&[&two]).restore(&backup, &three, |_| ()).unwrap();
    let restored = small().open(&three).unwrap();
    is_whole(&restored);
    let named: Vec<String> = restored
        .stats()
        .tiers
        .iter()
        .map(|tier| tier.directory.clone())
        .collect();
    assert!(named[1].ends_with("two"), "{named:?}");
    drop(restored);
    assert!(small().try_repair(&three, |_| ()).unwrap().is_whole());
    assert!(small().repair(&three).unwrap().is_whole());
    is_whole(&small().open(&three).unwrap());
}

#[test]
fn a_flipped_bit_on_a_further_tier_is_found_by_a_check() {
    let (_place, [fast, one, ..]) = places();
    create(&fast, &[&one]);
    let directory = FileDirectory::open(&one).unwrap();
    let file = directory.open("tier-1.data", FileOptions::BUFFERED).unwrap();
    let purpose = Purpose::Other;
    // In the middle of a value.
    let pages = (0..file.len() / 4096).map(|page| file.read_at(page * 4096, 4096, purpose).unwrap());
    let is_of_values = |page: &AlignedBuffer| page[1000..1100].iter().all(|&byte| byte == 7);
    let (number, mut page) = pages.enumerate().find(|(_, page)| is_of_values(page)).unwrap();
    page[1000] ^= 1;
    file.write_at(number as u64 * 4096, page, purpose).unwrap();
    let found = small().open(&fast).unwrap().check().unwrap();
    assert!(
        found.iter().any(|finding| finding.contains("tier-1.data")),
        "{found:?}"
    );
}

/// Size of a small first tier, in units.
const FAST_UNITS: u64 = 160;

/// Number of records. At 4,000 bytes each, they total nearly twice the first tier.
const RECORDS: u32 = 9000;

/// Returns a store in memory with a small first tier and a limited second one.
fn narrow(units: u64) -> Db {
    let limits = TierLimits {
        max_bytes: Some(units * UNIT),
        min_reserve: 8 * UNIT,
        max_reserve: 8 * UNIT,
        planned_bytes: None,
        starts_small: false,
    };
    let extents = ExtentOptions {
        max_bytes: Some(FAST_UNITS * UNIT),
        min_reserve: 8 * UNIT,
        max_reserve: 8 * UNIT,
        ..ExtentOptions::default()
    };
    // Runs are so long that an extent is only a small part of one.
    let mut scale = StoreScale::small(26, 1 << 20, 4 << 20);
    scale.log = LogOptions::with_limit(4 << 20);
    scale.extents = extents.with_tier(1, limits);
    let directories =
        TierDirectories::from(Arc::new(MemoryDirectory::new())).and(Arc::new(MemoryDirectory::new()));
    small().simulated(scale, || 1000).open_in(directories).unwrap()
}

/// Number of keyspace kinds: the tree, levels, and each form of the hashed structure.
const KINDS: usize = 4;

fn kind(db: &Db, number: usize) -> Keyspace {
    let levels = Structure::Levels(LevelsOptions::samt(4));
    let bundle = HashedForm::Boa {
        lambda: 4,
        refined: true,
    };
    let hashed =
        [HashedForm::Silt, bundle].map(|form| Structure::Hashed(HashedOptions::default().form(form)));
    let [silt, bundle] = hashed;
    let structure = [Structure::Tiered, levels, silt, bundle][number].clone();
    let options = KeyspaceOptions::new().structure(structure);
    db.keyspace_with("k", &options).unwrap()
}

#[test]
fn where_the_first_tier_has_no_space_writes_go_to_the_next() {
    for number in 0..KINDS {
        let db = narrow(2000);
        let keyspace = kind(&db, number);
        for record in 0..RECORDS {
            let key = record.wrapping_mul(0x9e37_79b1).to_be_bytes();
            keyspace.put(key, vec![record as u8; 4000]).unwrap();
            while db.work().unwrap() {}
        }
        let stats = db.stats();
        let used = |tier: usize| stats.tiers[tier].space.live_extent_bytes;
        assert!(
            used(0) <= FAST_UNITS * UNIT && used(1) > 100 * UNIT,
            "{} and {}",
            used(0),
            used(1)
        );
        assert_eq!(keyspace.unordered().count(), RECORDS as usize);
        assert_eq!(db.check().unwrap(), [""; 0], "kind {number}");
    }
}

#[test]
fn a_large_transaction_leaves_space_on_the_first_tier_for_the_log() {
    for number in 0..KINDS {
        let db = narrow(3000);
        let keyspace = kind(&db, number);
        for round in 0..2u8 {
            let options = TransactionOptions::new().memory(1 << 20);
            let transaction = db.begin_with(&options);
            for record in 0..RECORDS {
                let key = record.wrapping_mul(0x9e37_79b1).to_be_bytes();
                transaction.put(&keyspace, key, vec![round; 4000]).unwrap();
            }
            transaction.commit().unwrap();
            let used = db.stats().tiers[0].space;
            let left = FAST_UNITS * UNIT - used.live_extent_bytes - used.dead_bytes;
            assert!(
                left > FAST_UNITS * UNIT / 32,
                "kind {number}, round {round}: {left}"
            );
            // The first tier has space for the log and for the memtables of small commits.
            for record in 0..200u32 {
                keyspace.put(record.to_le_bytes(), vec![9; 4000]).unwrap();
                while db.work().unwrap() {}
            }
        }
        db.compact().unwrap();
        assert_eq!(db.check().unwrap(), [""; 0], "kind {number}");
    }
}

#[test]
fn where_all_tiers_are_full_deletes_go_through_and_writes_return_with_space() {
    for number in 0..KINDS {
        full_and_back(number);
    }
}

fn full_and_back(kind_number: usize) {
    let db = narrow(FAST_UNITS);
    let keyspace = kind(&db, kind_number);
    let key = |number: u32| number.wrapping_mul(0x9e37_79b1).to_be_bytes();
    let full = (0..).find_map(|number: u32| {
        let written = keyspace.put(key(number), vec![number as u8; 4000]);
        while db.work().is_ok_and(|more| more) {}
        written.err().map(|error| (number, error))
    });
    let (count, error) = full.unwrap();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    // In a store this small, a bundle of arrays mostly occupies partially filled extents.
    let parts = if kind_number < 3 { 2 } else { 4 };
    assert!(
        u64::from(count) * 4000 > 2 * FAST_UNITS * UNIT / parts,
        "both tiers had {count}"
    );
    for number in 0..count {
        keyspace.delete(key(number)).unwrap();
    }
    db.compact().unwrap();
    // A record in a hash store occupies space until all parts have merged it, and each part has its
    // own extents.
    let again = if kind_number < 2 { count / 2 } else { count / 4 };
    // Dead data is freed once no reader can see it.
    while db.work().unwrap() {}
    for number in 0..again {
        keyspace.put(key(number), vec![1; 4000]).unwrap();
        while db.work().unwrap() {}
    }
    assert_eq!(keyspace.unordered().count(), again as usize);
    assert_eq!(db.check().unwrap(), [""; 0]);
}

#[test]
fn a_tier_is_drained_and_takes_nothing_until_it_is_used_again() {
    let (_place, [fast, one, two, three]) = places();
    create(&fast, &[&one, &two]);
    let live = |db: &Db| -> Vec<u64> {
        db.stats()
            .tiers
            .iter()
            .map(|tier| tier.space.live_bytes)
            .collect()
    };
    let db = small().fast_bytes(0).open(&fast).unwrap();
    for (path, words) in [(&fast, "first directory"), (&three, "not a tier of the store")] {
        let text = db.drain_tier(path).unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
    }
    assert!(live(&db)[1] > 0 && live(&db)[2] == 0);
    db.drain_tier(&one).unwrap();
    assert_eq!(live(&db)[1], 0);
    assert!(live(&db)[2] > 2 * 500 * 2000, "{:?}", live(&db));
    is_whole(&db);
    db.close().unwrap();
    // The directory can be moved now, while its tier stays drained.
    let moved = Command::new("mv").args([&one, &three]).status().unwrap();
    assert!(moved.success());
    let db = with(&[&three]).open(&fast).unwrap();
    db.compact().unwrap();
    assert_eq!(live(&db)[1], 0);
    is_whole(&db);
    db.use_tier(&three).unwrap();
    fill(&db);
    assert!(live(&db)[1] > 500 * 2000, "{:?}", live(&db));
    is_whole(&db);
}

#[test]
fn where_the_others_have_no_space_a_tier_is_not_drained_and_nothing_is_lost() {
    let (_place, [fast, one, ..]) = places();
    create(&fast, &[&one]);
    let db = small().fast_bytes(0).max_bytes(1 << 20).open(&fast).unwrap();
    // The drain detects in advance, or in a compaction, that there is too little space.
    let kind = db.drain_tier(&one).unwrap_err().kind();
    assert!(
        [ErrorKind::InvalidArgument, ErrorKind::Full].contains(&kind),
        "{kind:?}"
    );
    db.use_tier(&one).unwrap();
    db.compact().unwrap();
    is_whole(&db);
}

#[test]
fn what_shrank_comes_back_to_the_faster_tier() {
    let mut scale = StoreScale::small(0xa11, 6 << 10, 96 << 10);
    scale.extents.planned_bytes = Some(512 << 10);
    let directories =
        TierDirectories::from(Arc::new(MemoryDirectory::new())).and(Arc::new(MemoryDirectory::new()));
    let db = Options::new()
        .simulated(scale, || 1000)
        .open_in(directories)
        .unwrap();
    let keyspace = kind(&db, 1);
    let live = |tier: usize| db.stats().tiers[tier].space.live_bytes;
    for number in 0..4000u32 {
        keyspace.put(number.to_be_bytes(), [number as u8; 300]).unwrap();
    }
    db.compact().unwrap();
    assert!(live(1) > 4000 * 300, "{}", live(1));
    keyspace.delete_range(100u32.to_be_bytes(), None).unwrap();
    db.compact().unwrap();
    // The catalog was last rewritten when it had more entries.
    assert!(live(1) <= 8192, "what is left fits the first tier: {}", live(1));
    assert_eq!(keyspace.iter().count(), 100);
    assert_eq!(db.check().unwrap(), [""; 0]);
}
