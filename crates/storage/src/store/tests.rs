use super::*;
use crate::extents::{AllocationClass, Extent, UNIT};
use crate::log::{LogDurability, LogOptions};
use crate::node::NodePointer;
use crate::{DiskLocation, Error, OnDiskObject};
use alluvium_base::Purpose;
use alluvium_base::bytes::ByteReader;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{Corruption, CrashSurvival, InjectedFault, SimDirectory};
use alluvium_device::{AlignedBuffer, DeviceOperation};

mod faults;

fn options() -> StoreOptions {
    StoreOptions {
        id: 42,
        cache_bytes: 4 << 20,
        log: LogOptions::with_limit(1 << 20),
        ..StoreOptions::default()
    }
}

/// The replayed log records, as pairs of a sequence number and a payload.
type Replayed = Vec<(u64, Vec<u8>)>;

fn open(directory: &Arc<dyn Directory>) -> Result<(Store, Replayed)> {
    let mut records = Vec::new();
    let store = Store::open(Arc::clone(directory), &options())?.replay(&mut |record| {
        records.push((record.first, record.payload.to_vec()));
        Ok(())
    })?;
    Ok((store, records))
}

/// Writes a node that contains `text`, and performs a checkpoint with a pointer to the node as its
/// payload. The previous checkpoint's node is released.
fn checkpoint(store: &Store, text: &str, cut: u64) -> Result<u64> {
    let options = WriterOptions {
        extent_units: 1,
        ..store.writer_options(Purpose::Trunk, AllocationClass::Freeing)
    };
    let mut writer = store.node_writer(options)?;
    let mut node = vec![0; store.page_size().bytes()];
    node[..text.len()].copy_from_slice(text.as_bytes());
    let pointer = writer.add(&node)?;
    let written = writer.finish()?;
    store.extents().install(&written.extents);
    if let Ok(old) = root(&store.superblock()) {
        store.extents().release(extent_of(&old), store.epochs().current());
    }
    let mut payload = Vec::new();
    pointer.encode(&mut payload);
    store.begin_checkpoint()?.finish(&payload, cut)
}

fn root(superblock: &Superblock) -> Result<NodePointer> {
    let place = DiskLocation::new(OnDiskObject::Superblock, "superblock", 0);
    NodePointer::decode(
        &mut ByteReader::new(&superblock.payload),
        &place,
        superblock.page_size,
    )
}

/// Returns all violations in a store in which only the root node's extent is reachable.
fn check(store: &Store) -> Vec<String> {
    let reachable = root(&store.superblock()).ok().map(|root| (extent_of(&root), 1));
    let mut found = store.check(reachable.into_iter()).unwrap();
    found.extend(store.cache().check().iter().map(ToString::to_string));
    found
}

fn extent_of(pointer: &NodePointer) -> Extent {
    Extent {
        tier: pointer.tier,
        start: (pointer.offset / UNIT) as u32,
        units: 1,
    }
}

fn text(store: &Store) -> String {
    text_at(store, &root(&store.superblock()).unwrap())
}

fn text_at(store: &Store, pointer: &NodePointer) -> String {
    let guard = store.epochs().pin();
    let node = store.cache().get(pointer, &guard, Purpose::Lookup).unwrap();
    let end = node.iter().position(|&byte| byte == 0).unwrap();
    String::from_utf8(node[..end].to_vec()).unwrap()
}

#[test]
fn what_a_checkpoint_and_the_log_hold_is_there_again_after_a_crash() {
    let sim = SimDirectory::new(1);
    let directory: Arc<dyn Directory> = Arc::new(sim.clone());
    let store = Store::create(directory, &options(), b"").unwrap();
    store.log().append(1, 1, b"one", LogDurability::Disk).unwrap();
    checkpoint(&store, "holds one", 1).unwrap();
    store.log().append(2, 1, b"two", LogDurability::Disk).unwrap();
    for survival in CrashSurvival::ALL {
        let image: Arc<dyn Directory> = Arc::new(sim.image(survival, 5));
        let (store, records) = open(&image).unwrap();
        assert_eq!(text(&store), "holds one");
        assert_eq!(records, [(2, b"two".to_vec())], "{survival:?}");
        assert_eq!(check(&store), Vec::<String>::new());
    }
}

#[test]
fn many_checkpoints_use_space_again() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let store = Store::create(Arc::clone(&directory), &options(), b"").unwrap();
    for round in 1..=200u64 {
        let generation = checkpoint(&store, &format!("round {round}"), 0).unwrap();
        assert_eq!(generation, round + 1);
        for _ in 0..3 {
            store.reclaim(ReclaimLimit::default()).unwrap();
        }
    }
    assert!(
        store.usage().0.total().file_bytes < 16 << 20,
        "{:?}",
        store.usage().0
    );
    assert_eq!(text(&store), "round 200");
    store.close().unwrap();
    let (store, _) = open(&directory).unwrap();
    assert_eq!(text(&store), "round 200");
}

#[test]
fn a_store_is_open_once() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let store = Store::create(Arc::clone(&directory), &options(), b"").unwrap();
    let locked = |error: Error| matches!(error, Error::Device(alluvium_device::Error::Locked { .. }));
    assert!(locked(
        Store::open(Arc::clone(&directory), &options()).unwrap_err()
    ));
    assert!(matches!(
        Store::create(Arc::clone(&directory), &options(), b""),
        Err(Error::StoreExists { .. })
    ));
    drop(store);
    assert!(open(&directory).is_ok(), "a dropped handle gives the lock back");
}

#[test]
fn a_stranger_s_directory_is_left_as_it_was() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    assert!(matches!(
        Store::open(Arc::clone(&directory), &options()),
        Err(Error::NotAStore { .. })
    ));
    assert_eq!(
        directory.list().unwrap(),
        Vec::<String>::new(),
        "not even a lock file"
    );
    directory.create("letters.txt", FileOptions::BUFFERED).unwrap();
    let Err(Error::NotAStore { why, .. }) = Store::open(Arc::clone(&directory), &options()) else {
        panic!()
    };
    assert!(why.contains("check the path"), "{why}");
}

#[test]
fn a_lost_superblock_is_named_by_the_log_and_never_stepped_over() {
    for replaced in [
        Corruption::Zero { range: 8192..16384 },
        Corruption::Zero { range: 0..8192 },
    ] {
        let sim = SimDirectory::new(3);
        let store = Store::create(Arc::new(sim.clone()), &options(), b"").unwrap();
        checkpoint(&store, "second", 0).unwrap();
        store.close().unwrap();
        let newest_is_hit = matches!(&replaced, Corruption::Zero { range } if range.start > 0);
        sim.corrupt("superblock", &replaced).unwrap();
        let opened = open(&(Arc::new(sim) as Arc<dyn Directory>));
        match opened {
            Err(Error::OlderGeneration { opened: 1, named: 2 }) if newest_is_hit => {}
            Ok((store, _)) if !newest_is_hit => assert_eq!(text(&store), "second"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn after_a_failed_sync_changes_are_refused_and_reads_go_on() {
    // Each sync of a checkpoint fails in turn: that of the tier, the map, the superblock and the
    // log.
    let mut failures = 0;
    for nth in 1..20 {
        let sim = SimDirectory::new(4);
        let store = Store::create(Arc::new(sim.clone()), &options(), b"").unwrap();
        checkpoint(&store, "sound", 0).unwrap();
        let sound = root(&store.superblock()).unwrap();
        sim.inject(InjectedFault::failing(DeviceOperation::Sync).at(nth));
        if let Err(error) = checkpoint(&store, "never", 0) {
            failures += 1;
            assert!(!error.is_full(), "{error}");
            assert!(
                matches!(store.begin_checkpoint(), Err(Error::Poisoned { .. })),
                "sync {nth}"
            );
            assert!(matches!(
                store.node_writer(store.writer_options(Purpose::Trunk, AllocationClass::Normal)),
                Err(Error::Poisoned { .. })
            ));
            assert_eq!(text_at(&store, &sound), "sound", "reads go on");
        }
        drop(store);
        let again: Arc<dyn Directory> = Arc::new(sim.image(CrashSurvival::None, nth));
        let (store, _) = open(&again).unwrap();
        assert!(["sound", "never"].contains(&&*text(&store)));
    }
    assert!(failures >= 4, "{failures} of the syncs of a checkpoint failed");
}

#[test]
fn a_full_disk_aborts_a_checkpoint_and_the_next_one_succeeds() {
    let sim = SimDirectory::new(6);
    let store = Store::create(Arc::new(sim.clone()), &options(), b"").unwrap();
    checkpoint(&store, "before", 0).unwrap();
    sim.set_capacity(sim.used());
    let mut refused = 0;
    for round in 0..200 {
        match checkpoint(&store, &format!("round {round}"), 0) {
            Ok(_) => {}
            Err(error) => {
                assert!(error.is_full(), "{error}");
                refused += 1;
                break;
            }
        }
    }
    store.health().unwrap();
    assert!(refused > 0, "space that is not there is not handed out for ever");
    sim.set_capacity(1 << 30);
    checkpoint(&store, "after", 0).unwrap();
    assert_eq!(text(&store), "after");
}

#[test]
fn on_a_full_disk_the_log_gets_space_that_lies_free_in_the_data_files() {
    let sim = SimDirectory::new(6);
    let store = Store::create(Arc::new(sim.clone()), &options(), b"").unwrap();
    checkpoint(&store, "before", 0).unwrap();
    sim.set_capacity(sim.used());
    let mut next = 1;
    let mut append = || -> Result<()> {
        store
            .log()
            .append(next, 1, &[7; 20_000], LogDurability::Process)?;
        next += 1;
        Ok(())
    };
    let refused = std::iter::repeat_with(&mut append).find_map(Result::err).unwrap();
    assert!(
        matches!(refused, Error::Device(_)) && refused.is_full(),
        "{refused}"
    );
    let total = || store.usage().0.total();
    let before = total();
    assert!(
        !store.make_log_space(AllocationClass::Normal).unwrap(),
        "only the reserve is free"
    );
    assert!(store.make_log_space(AllocationClass::Essential).unwrap());
    let given = before.backed_bytes - total().backed_bytes;
    assert!(given >= store.log().segment_bytes() && given < store.log().segment_bytes() + UNIT);
    append().unwrap();
    // Half of the reserve must be left for compactions that free space.
    while store.make_log_space(AllocationClass::Essential).unwrap() {}
    assert!(total().backed_bytes >= before.reserve_bytes / 2);
}

#[test]
fn a_creation_that_a_crash_cuts_short_can_begin_again() {
    let sim = SimDirectory::new(9);
    let images = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&images);
    sim.on_operation(move |point| {
        for (seed, survival) in CrashSurvival::ALL.into_iter().enumerate() {
            sink.lock().push(point.image(survival, seed as u64));
        }
    });
    drop(Store::create(Arc::new(sim.clone()), &options(), b"payload").unwrap());
    let images = std::mem::take(&mut *images.lock());
    assert!(images.len() > 30);
    for image in images {
        let directory: Arc<dyn Directory> = Arc::new(image);
        match open(&directory) {
            Ok((store, _)) => assert_eq!(store.superblock().payload, b"payload"),
            Err(Error::NotAStore { .. }) => {
                let store = Store::create(Arc::clone(&directory), &options(), b"again").unwrap();
                assert_eq!(store.superblock().payload, b"again");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_misdirected_superblock_copy_is_mended() {
    let sim = SimDirectory::new(11);
    let store = Store::create(Arc::new(sim.clone()), &options(), b"payload").unwrap();
    store.close().unwrap();
    let file = sim.open("superblock", FileOptions::DIRECT).unwrap();
    let other = file.read_at(0, 4096, Purpose::Other).unwrap();
    file.write_at(4096, AlignedBuffer::padded(&other), Purpose::Other)
        .unwrap();
    let (store, _) = open(&(Arc::new(sim) as Arc<dyn Directory>)).unwrap();
    assert_eq!(store.superblock().payload, b"payload");
    assert_eq!(check(&store), Vec::<String>::new());
}

#[test]
fn repair_accepts_the_older_generation_and_says_what_is_missing() {
    let sim = SimDirectory::new(13);
    let store = Store::create(Arc::new(sim.clone()), &options(), b"first").unwrap();
    store.log().append(1, 1, b"one", LogDurability::Disk).unwrap();
    store.log().append(2, 1, b"two", LogDurability::Disk).unwrap();
    store.begin_checkpoint().unwrap().finish(b"second", 1).unwrap();
    store.close().unwrap();
    sim.corrupt("superblock", &Corruption::Zero { range: 8192..16384 })
        .unwrap();
    let directory: Arc<dyn Directory> = Arc::new(sim);
    assert!(matches!(
        open(&directory),
        Err(Error::OlderGeneration { opened: 1, named: 2 })
    ));

    let mut replayed = Vec::new();
    let opening = Store::open(Arc::clone(&directory), &options()).unwrap();
    let (store, report) = opening
        .repair(&mut |record| {
            replayed.push(record.payload.to_vec());
            Ok(())
        })
        .unwrap();
    assert_eq!(report.named_generation, 2);
    assert!(replayed.contains(&b"two".to_vec()), "{replayed:?}");
    assert_eq!(store.superblock().payload, b"first");
    store
        .log()
        .append(store.log().completed() + 1, 1, b"three", LogDurability::Disk)
        .unwrap();
    drop(store);
    let (store, records) = open(&directory).unwrap();
    assert_eq!(store.superblock().generation, 3);
    assert_eq!(records.last().unwrap().1, b"three");
}

/// Returns the error of opening a store that was closed cleanly and then damaged by `harm`.
fn said_after(harm: impl FnOnce(&SimDirectory)) -> Error {
    let sim = SimDirectory::new(17);
    let store = Store::create(Arc::new(sim.clone()), &options(), b"").unwrap();
    store.log().append(1, 1, b"one", LogDurability::Disk).unwrap();
    checkpoint(&store, "sound", 0).unwrap();
    store.close().unwrap();
    drop(store);
    harm(&sim);
    open(&(Arc::new(sim) as Arc<dyn Directory>))
        .map(|_| ())
        .unwrap_err()
}

#[test]
fn each_kind_of_bad_input_has_its_own_error_that_names_the_file() {
    let names = |sim: &SimDirectory, prefix: &str| -> Vec<String> {
        sim.list()
            .unwrap()
            .into_iter()
            .filter(|name| name.starts_with(prefix))
            .collect()
    };
    let each = |prefix: &'static str, corruption: Corruption| {
        said_after(move |sim| {
            for name in names(sim, prefix) {
                sim.corrupt(&name, &corruption).unwrap();
            }
        })
    };
    let corrupt = |error: Error, structure: OnDiskObject| match error {
        Error::Corrupt {
            place,
            expected,
            found,
        } if place.object == structure => (expected, found),
        other => panic!("{structure}: {other}"),
    };
    let wrong_magic = said_after(|sim| {
        let file = sim.open("superblock", FileOptions::DIRECT).unwrap();
        file.write_at(0, AlignedBuffer::padded(&[b'x'; 16384]), Purpose::Other)
            .unwrap();
    });
    assert!(corrupt(wrong_magic, OnDiskObject::Superblock).0.contains("magic"));
    corrupt(
        each("superblock", Corruption::Truncate { len: 0 }),
        OnDiskObject::Superblock,
    );
    corrupt(
        each("superblock", Corruption::Zero { range: 0..16384 }),
        OnDiskObject::Superblock,
    );
    let no_superblock = each("superblock", Corruption::Remove);
    assert!(
        matches!(no_superblock, Error::NotAStore { ref why, .. } if why.contains("backup")),
        "{no_superblock}"
    );

    corrupt(
        each("extents-", Corruption::Truncate { len: 0 }),
        OnDiskObject::ExtentMap,
    );
    corrupt(
        each("extents-", Corruption::Zero { range: 0..512 }),
        OnDiskObject::ExtentMap,
    );
    corrupt(
        each("tier-", Corruption::Truncate { len: 0 }),
        OnDiskObject::ExtentMap,
    );
    assert_eq!(
        corrupt(each("extents-", Corruption::Remove), OnDiskObject::ExtentMap).1,
        "no file"
    );
    let no_data = each("tier-", Corruption::Remove);
    assert!(
        matches!(&no_data, Error::NoDataFile { file, .. } if file == "tier-0.data"),
        "{no_data}"
    );
    assert_eq!(no_data.kind(), alluvium_base::ErrorKind::Damaged);
    for harm in [
        Corruption::Truncate { len: 0 },
        Corruption::Remove,
        Corruption::Zero { range: 0..1 << 20 },
    ] {
        let said = each("log-", harm.clone());
        assert!(
            matches!(said, Error::Corrupt { .. } | Error::OlderGeneration { .. }),
            "{harm:?}: {said}"
        );
        assert!(said.to_string().contains("log"), "{said}");
    }
}

#[test]
fn options_that_do_not_fit_are_named_before_anything_is_created() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    for (bad, named) in [
        (
            StoreOptions {
                cache_bytes: 1,
                ..options()
            },
            "cache",
        ),
        (
            StoreOptions {
                log: LogOptions {
                    lanes: 0,
                    ..options().log
                },
                ..options()
            },
            "log lanes",
        ),
    ] {
        let said = Store::create(Arc::clone(&directory), &bad, b"")
            .unwrap_err()
            .to_string();
        assert!(said.contains(named), "{said}");
        assert_eq!(directory.list().unwrap(), Vec::<String>::new(), "{named}");
    }
}

#[test]
fn a_store_is_created_where_its_device_was_measured_and_not_beside_other_files() {
    for (file, is_allowed) in [("probe.txt", true), ("probe.txt.new", true), ("a.txt", false)] {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        directory.create(file, FileOptions::DIRECT).unwrap();
        let created = Store::create(Arc::clone(&directory), &options(), b"");
        assert_eq!(created.is_ok(), is_allowed, "{file}");
        assert!(directory.list().unwrap().contains(&file.to_owned()));
    }
}
