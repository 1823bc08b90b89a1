//! Fills the disk at each step of a checkpoint, and tests how the store continues after a failed
//! sync.

use super::*;
use crate::log::SegmentAccess as LogAccess;

/// Performs a checkpoint that replaces the caller's current root node, even if that node is not
/// durable. Returns the new root.
fn checkpoint_after(store: &Store, before: &NodePointer, text: &str) -> (Option<NodePointer>, Result<u64>) {
    let options = WriterOptions {
        extent_units: 1,
        ..store.writer_options(Purpose::Trunk, AllocationClass::Freeing)
    };
    let mut node = vec![0; store.page_size().bytes()];
    node[..text.len()].copy_from_slice(text.as_bytes());
    let write = || -> Result<NodePointer> {
        let mut writer = store.node_writer(options)?;
        let pointer = writer.add(&node)?;
        store.extents().install(&writer.finish()?.extents);
        Ok(pointer)
    };
    let pointer = match write() {
        Ok(pointer) => pointer,
        Err(error) => return (None, Err(error)),
    };
    store
        .extents()
        .release(extent_of(before), store.epochs().current());
    let mut payload = Vec::new();
    pointer.encode(&mut payload);
    let finished = store.begin_checkpoint().unwrap().finish(&payload, 0);
    (Some(pointer), finished)
}

#[test]
fn a_full_disk_at_any_step_of_a_checkpoint_leaves_a_known_generation() {
    let (mut at_superblock, mut at_note) = (0, 0);
    for access in [LogAccess::Mapped, LogAccess::Written] {
        for operation in [
            DeviceOperation::Write,
            DeviceOperation::Grow,
            DeviceOperation::Create,
        ] {
            for file in ["tier-", "extents-", "superblock", "log-"] {
                for nth in 1..4 {
                    let fault = InjectedFault::full(operation).on_files_starting(file).at(nth);
                    let (durable, refused) = checkpoint_with(fault, access, nth);
                    at_superblock += u32::from(refused && file == "superblock" && durable == "before");
                    at_note += u32::from(refused && durable == "now");
                }
            }
        }
    }
    assert!(at_superblock > 1 && at_note > 0, "{at_superblock}, {at_note}");
}

/// Performs a checkpoint during which a fault occurs, lets the store go on, and opens it after a
/// crash. Returns the text of the durable root, and whether the checkpoint failed.
fn checkpoint_with(fault: InjectedFault, access: LogAccess, seed: u64) -> (String, bool) {
    let said = format!("{fault:?} {access:?}");
    let sim = SimDirectory::new(seed);
    let options = StoreOptions {
        log: LogOptions {
            access,
            ..options().log
        },
        ..options()
    };
    let store = Store::create(Arc::new(sim.clone()), &options, b"").unwrap();
    checkpoint(&store, "before", 0).unwrap();
    let before = root(&store.superblock()).unwrap();
    sim.inject(fault);
    let (now, finished) = checkpoint_after(&store, &before, "now");
    let durable = text(&store);
    match &finished {
        Ok(_) => assert_eq!(durable, "now"),
        Err(error) => assert!(error.is_full(), "{said}: {error}"),
    }
    store.health().unwrap();
    for survival in CrashSurvival::POWER_LOSS {
        let image: Arc<dyn Directory> = Arc::new(sim.image(survival, seed));
        let (again, _) = open(&image).unwrap();
        let found = text(&again);
        assert!(found == durable || found == "now", "{said}: {found}");
        assert_eq!(check(&again), Vec::<String>::new(), "{said}");
    }
    sim.clear_faults();
    let (_, later) = checkpoint_after(&store, &now.unwrap_or(before), "after");
    later.unwrap();
    assert_eq!(check(&store), Vec::<String>::new(), "{said}");
    let image: Arc<dyn Directory> = Arc::new(sim.image(CrashSurvival::None, seed));
    assert_eq!(text(&open(&image).unwrap().0), "after");
    (durable, finished.is_err())
}

/// After a failed sync, pages in the page cache look valid although they are not on disk. When the
/// store is reopened on the same boot, all later acknowledgements and releases depend on the
/// superblock that was found, so that superblock must be made durable.
#[test]
fn nothing_of_an_earlier_life_counts_as_synced_after_a_failed_sync() {
    let mut reopened_ahead = 0;
    for file in ["superblock", "tier-", "extents-"] {
        for nth in 1..4 {
            for seed in 0..12 {
                let sim = SimDirectory::new(seed);
                let store = Store::create(Arc::new(sim.clone()), &options(), b"").unwrap();
                checkpoint(&store, "sound", 0).unwrap();
                sim.inject(
                    InjectedFault::failing(DeviceOperation::Sync)
                        .on_files_starting(file)
                        .at(nth),
                );
                let failed = (0..4).find_map(|round| checkpoint(&store, &format!("never {round}"), 0).err());
                assert!(failed.is_some_and(|error| !error.is_full()));
                drop(store);
                // The process ends and is started again.
                let again = sim.reopen();
                again.clear_faults();
                let (store, _) = open(&(Arc::new(again.clone()) as Arc<dyn Directory>)).unwrap();
                let found = store.superblock().generation;
                reopened_ahead += u32::from(text(&store) != "sound");
                // The log is released up to the superblock's cut, and then the power fails.
                drop(store);
                let image: Arc<dyn Directory> = Arc::new(again.image(CrashSurvival::None, seed));
                let (store, _) = open(&image).unwrap_or_else(|error| panic!("{file} {nth} {seed}: {error}"));
                assert_eq!(store.superblock().generation, found, "{file} {nth} {seed}");
                assert_eq!(check(&store), Vec::<String>::new(), "{file} {nth} {seed}");
            }
        }
    }
    assert!(
        reopened_ahead > 0,
        "no superblock was found that no sync had made durable"
    );
}
