//! Adds a tier to an open store, and crashes the machines at each operation.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const FIRST: &str = "first";
const SECOND: &str = "second";

fn added(store: &Store, machine: &SimDirectory) -> Result<u8> {
    let directory: Arc<dyn Directory> = Arc::new(machine.clone());
    let tier = store.begin_adding(&directory, TierLimits::default())?;
    assert!(!store.takes_extents(tier), "not before it is durable");
    // The payload stays the same, but the superblock of the new generation includes the tier.
    let payload = store.superblock().payload;
    store.begin_checkpoint()?.finish(&payload, 0)?;
    store.end_adding(tier)?;
    assert!(store.takes_extents(tier));
    Ok(tier)
}

#[test]
fn a_tier_is_added_and_holds_data_after_the_next_opening() {
    let all = machines(3);
    let store = Store::create(directories(&all[..1]), &options(1), b"").unwrap();
    checkpoint(&store, FIRST).unwrap();
    assert_eq!(added(&store, &all[1]).unwrap(), 1);
    assert_eq!(added(&store, &all[2]).unwrap(), 2);
    assert_eq!((store.tiers().count(), store.tier_space().0.len()), (3, 3));
    checkpoint(&store, SECOND).unwrap();
    assert_eq!(check(&store), [""; 0]);
    drop(store);
    let images = crashed(&all, CrashSurvival::None);
    let store = open(directories(&images)).unwrap();
    let expected = [0, 1, 2].map(|tier| format!("{SECOND} on tier {tier}"));
    assert_eq!(texts(&store), expected);
    assert_eq!(check(&store), [""; 0]);
    drop(store);
    assert!(
        open(directories(&images[..2])).is_err(),
        "the superblock counts three"
    );
}

#[test]
fn a_crash_at_any_operation_leaves_the_store_with_the_tier_or_without() {
    let (mut with, mut without) = (0, 0);
    for survival in [
        CrashSurvival::None,
        CrashSurvival::All,
        CrashSurvival::Random,
        CrashSurvival::Reordered,
    ] {
        for call in 0.. {
            let all = machines(2);
            let store = Store::create(directories(&all[..1]), &options(1), b"").unwrap();
            checkpoint(&store, FIRST).unwrap();
            // The operations of both machines are counted together.
            let calls = Arc::new(AtomicU64::new(0));
            let images = Arc::new(Mutex::new(None));
            for machine in &all {
                let (calls, images, every) = (Arc::clone(&calls), Arc::clone(&images), all.clone());
                machine.on_operation(move |_| {
                    if calls.fetch_add(1, Ordering::Relaxed) == call {
                        *images.lock().unwrap() = Some(crashed(&every, survival));
                    }
                });
            }
            added(&store, &all[1]).unwrap();
            all.iter().for_each(SimDirectory::clear_hook);
            let Some(images) = images.lock().unwrap().take() else {
                break;
            };
            let superblock =
                superblock::SuperblockFile::open(&images[0], alluvium_device::FileAccessMode::ReadOnly);
            let count = usize::from(superblock.unwrap().durable().tiers);
            *[&mut without, &mut with][count - 1] += 1;
            let store = open(directories(&images[..count])).unwrap();
            assert_eq!(texts(&store), [format!("{FIRST} on tier 0")]);
            assert_eq!(check(&store), [""; 0], "{survival:?} at {call}");
            // Files of an interrupted addition do not prevent another attempt.
            if count == 1 {
                added(&store, &images[1]).unwrap();
            }
            checkpoint(&store, SECOND).unwrap();
            assert_eq!(texts(&store).len(), 2);
            assert_eq!(check(&store), [""; 0], "{survival:?} at {call}");
        }
    }
    assert!(with > 4 && without > 20, "{with} with it, {without} without");
}

#[test]
fn an_addition_that_fails_leaves_the_store_as_it_was() {
    let all = machines(2);
    let store = Store::create(directories(&all[..1]), &options(1), b"").unwrap();
    checkpoint(&store, FIRST).unwrap();
    for operation in [
        DeviceOperation::Create,
        DeviceOperation::Write,
        DeviceOperation::Sync,
        DeviceOperation::SyncDirectory,
    ] {
        let broken = SimDirectory::new(9);
        let directory: Arc<dyn Directory> = Arc::new(broken.clone());
        broken.inject(InjectedFault::failing(operation).at(1));
        store.begin_adding(&directory, TierLimits::default()).unwrap_err();
        assert_eq!(store.tiers().count(), 1, "{operation:?}");
    }
    let directory: Arc<dyn Directory> = Arc::new(all[1].clone());
    let narrow = TierLimits {
        max_bytes: Some(UNIT),
        ..TierLimits::default()
    };
    let refused = store.begin_adding(&directory, narrow).unwrap_err();
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    all[1].create("mine", FileOptions::DIRECT).unwrap();
    let refused = store.begin_adding(&directory, TierLimits::default()).unwrap_err();
    assert!(refused.to_string().contains("it holds mine"), "{refused}");
    all[1].remove("mine").unwrap();
    assert_eq!(added(&store, &all[1]).unwrap(), 1);
    checkpoint(&store, SECOND).unwrap();
    assert_eq!(check(&store), [""; 0]);
}
