//! Tests of how data is placed on tiers, of the state after a crash, and of tiers that are full or
//! fail.

use super::*;

#[test]
fn what_is_on_several_tiers_is_there_again_after_every_crash() {
    let machines = machines(3);
    let store = Store::create(directories(&machines), &options(1), b"").unwrap();
    for survival in CrashSurvival::ALL {
        let created = open(directories(&crashed(&machines, survival))).unwrap();
        assert_eq!(texts(&created), Vec::<String>::new());
    }
    checkpoint(&store, "first").unwrap();
    checkpoint(&store, "second").unwrap();
    write(&store, 1, "lost").unwrap();
    for survival in CrashSurvival::ALL {
        let again = open(directories(&crashed(&machines, survival))).unwrap();
        let expected = [0, 1, 2].map(|tier| format!("second on tier {tier}"));
        assert_eq!(texts(&again), expected, "{survival:?}");
        assert_eq!(check(&again), Vec::<String>::new(), "{survival:?}");
        checkpoint(&again, "third").unwrap();
    }
}

#[test]
fn a_creation_that_fails_anywhere_leaves_a_store_or_what_the_next_one_removes() {
    let mut finished = 0;
    for operation in [
        DeviceOperation::Create,
        DeviceOperation::Write,
        DeviceOperation::Sync,
        DeviceOperation::Grow,
        DeviceOperation::Rename,
        DeviceOperation::SyncDirectory,
    ] {
        for (at, nth) in (0..2).flat_map(|at| (1..8).map(move |nth| (at, nth))) {
            let machines = machines(2);
            machines[at].inject(InjectedFault::failing(operation).at(nth));
            let created = Store::create(directories(&machines), &options(1), b"");
            if created.is_ok() {
                continue;
            }
            for survival in CrashSurvival::POWER_LOSS {
                let images = crashed(&machines, survival);
                let said = format!("{operation:?} {nth} of tier {at}, {survival:?}");
                match open(directories(&images)) {
                    Ok(store) => {
                        finished += 1;
                        assert_eq!(check(&store), Vec::<String>::new(), "{said}");
                    }
                    Err(Error::NotAStore { .. }) => {
                        let store = Store::create(directories(&images), &options(2), b"").unwrap();
                        checkpoint(&store, "again").unwrap();
                        assert_eq!(check(&store), Vec::<String>::new(), "{said}");
                    }
                    Err(error) => panic!("{said}: {error}"),
                }
            }
        }
    }
    assert!(finished > 0, "some failed behind the superblock");
}

#[test]
fn a_full_tier_refuses_what_comes_to_it_and_no_other_does() {
    let machines = machines(2);
    let store = Store::create(directories(&machines), &options(1), b"").unwrap();
    checkpoint(&store, "before").unwrap();
    machines[1].set_capacity(machines[1].used());
    let error = std::iter::repeat_with(|| write(&store, 1, "ballast"))
        .take(200)
        .find_map(Result::err)
        .unwrap();
    assert!(error.is_full(), "{error}");
    assert!(!store.extents().has_space(1, AllocationClass::Normal));
    assert!(store.extents().has_space(0, AllocationClass::Normal));
    write(&store, 0, "fits").unwrap();
    store.health().unwrap();
    store
        .begin_checkpoint()
        .unwrap()
        .finish(&store.superblock().payload, 0)
        .unwrap();
    let again = open(directories(&crashed(&machines, CrashSurvival::None))).unwrap();
    assert_eq!(texts(&again), ["before on tier 0", "before on tier 1"]);
}

#[test]
fn each_tier_has_limits_reserves_and_counters_of_its_own() {
    let machines = machines(3);
    let small = TierLimits {
        max_bytes: Some(40 * UNIT),
        ..TierLimits::default()
    };
    let reserved = TierLimits {
        min_reserve: 512 * UNIT,
        max_reserve: 512 * UNIT,
        ..TierLimits::default()
    };
    let options = StoreOptions {
        extents: ExtentOptions::default()
            .with_tier(1, small)
            .with_tier(2, reserved),
        ..options(1)
    };
    let store = Store::create(directories(&machines), &options, b"").unwrap();
    let mut fitted = [0; 3];
    for (tier, fitted) in fitted.iter_mut().enumerate() {
        *fitted = (0..100)
            .take_while(|_| write(&store, tier as u8, "some").is_ok())
            .count();
    }
    let (usage, _) = store.usage();
    assert_eq!((fitted[0], fitted[2]), (100, 100));
    assert_eq!(fitted[1], 24, "40 units less a reserve of 16");
    assert_eq!(usage.tiers[1].occupied_bytes, 40 * UNIT);
    assert!(usage.tiers[0].occupied_bytes >= 100 * UNIT);
    assert_eq!(
        usage.occupied_bytes,
        usage.tiers.iter().map(|tier| tier.occupied_bytes).sum::<u64>()
    );
    assert_eq!(usage.tiers[0].reserve_bytes, 16 * UNIT);
    assert!(
        usage.tiers[2].reserve_bytes > usage.tiers[1].reserve_bytes
            || usage.tiers[2].reserve_bytes == 16 * UNIT
    );
    for tier in 0..3 {
        let counters = store.directories().get(tier).unwrap().counters().snapshot();
        let written = counters.of(Purpose::Trunk).written_bytes;
        let expected = (fitted[usize::from(tier)] * store.page_size().bytes()) as u64;
        assert_eq!(written, expected, "tier {tier}");
    }
    drop(store);
    let again = Store::open(directories(&machines), &options).unwrap();
    let again = again.replay(&mut |_| Ok(())).unwrap();
    let fits = (0..100).take_while(|_| write(&again, 1, "more").is_ok()).count();
    assert_eq!(fits, 24, "nothing was durable, and the limit holds again");
}

#[test]
fn a_tier_that_fails_to_read_damages_no_read_of_another() {
    let machines = machines(2);
    let store = Store::create(directories(&machines), &options(1), b"").unwrap();
    checkpoint(&store, "sound").unwrap();
    let again = open(directories(&crashed(&machines, CrashSurvival::None))).unwrap();
    drop(again);
    drop(store);
    let store = open(directories(&machines)).unwrap();
    let nodes = nodes(&store.superblock());
    machines[1].inject(
        InjectedFault::failing(DeviceOperation::Read)
            .on("tier-1.data")
            .sticky(),
    );
    assert_eq!(text(&store, &nodes[0]).unwrap(), "sound on tier 0");
    let error = text(&store, &nodes[1]).unwrap_err();
    assert!(error.to_string().contains("tier-1.data"), "{error}");
    store.health().unwrap();
    machines[1].clear_faults();
    assert_eq!(text(&store, &nodes[1]).unwrap(), "sound on tier 1");
}

#[test]
fn a_failed_sync_of_any_tier_loses_nothing_durable_and_of_the_first_one_stops_the_store() {
    for tier in 0..3 {
        let machines = machines(3);
        let store = Store::create(directories(&machines), &options(1), b"").unwrap();
        checkpoint(&store, "durable").unwrap();
        let file = tier_file(tier);
        machines[usize::from(tier)].inject(InjectedFault::failing(DeviceOperation::Sync).on(&file));
        let error = checkpoint(&store, "never").unwrap_err();
        assert!(error.to_string().contains(&file), "{error}");
        let is_stopped = matches!(store.health(), Err(Error::Poisoned { .. }));
        assert_eq!(is_stopped, tier == 0, "{file}");
        for survival in CrashSurvival::POWER_LOSS {
            let again = open(directories(&crashed(&machines, survival))).unwrap();
            assert!(texts(&again)[0].starts_with("durable"), "{file}: {survival:?}");
            assert_eq!(check(&again), Vec::<String>::new());
        }
    }
}

#[test]
fn a_copy_has_every_tier_under_an_identity_of_its_own() {
    let machines = machines(2);
    let store = Store::create(directories(&machines), &options(1), b"").unwrap();
    checkpoint(&store, "copied").unwrap();
    let kept = store.pin_durable(&options(1)).unwrap();
    checkpoint(&store, "later").unwrap();
    let targets = super::machines(2);
    let alone = kept.copy_to(Arc::new(targets[0].clone()), 9, &mut |_| Ok(()));
    assert!(matches!(alone, Err(Error::BadOption { option: "tiers", .. })));
    // An aborted copy leaves no files behind, and the next copy starts over.
    let mut left = 3;
    let stopped = kept.copy_to(directories(&targets), 9, &mut |_| {
        left -= 1;
        let cause = "stopped".to_owned();
        if left > 0 {
            Ok(())
        } else {
            Err(Error::Poisoned { cause })
        }
    });
    assert!(matches!(stopped, Err(Error::Poisoned { .. })));
    for target in &targets {
        assert_eq!(target.list().unwrap(), [LOCK_FILE]);
    }
    kept.copy_to(directories(&targets), 9, &mut |_| Ok(())).unwrap();
    let copy = StoreCopy::open(directories(&targets)).unwrap();
    assert_eq!(copy.findings(), Vec::<String>::new());
    let images = crashed(&targets, CrashSurvival::None);
    let copied = open(directories(&images)).unwrap();
    assert_eq!(texts(&copied), ["copied on tier 0", "copied on tier 1"]);
    assert_eq!(check(&copied), Vec::<String>::new());
    drop((copied, store));
    let mixed = [machines[0].clone(), targets[1].clone()];
    let error = open(directories(&mixed)).unwrap_err();
    assert!(error.to_string().contains("another store"), "{error}");
    directories(&targets).undo_creation();
    for target in &targets {
        assert_eq!(
            target.list().unwrap(),
            [LOCK_FILE],
            "an undone copy leaves nothing"
        );
    }
}

#[test]
fn the_map_of_every_tier_is_rebuilt_from_what_is_reached() {
    let machines = machines(2);
    let store = Store::create(directories(&machines), &options(1), b"").unwrap();
    checkpoint(&store, "kept").unwrap();
    let map = crate::extents::map_file(store.superblock().map.file);
    drop(store);
    let zero = Corruption::Zero { range: 0..512 };
    machines[0].corrupt(&map, &zero).unwrap();
    assert!(matches!(open(directories(&machines)), Err(Error::Corrupt { .. })));
    let mut opening = Store::open_without_map(directories(&machines), &options(0)).unwrap();
    assert!(opening.map_damage().is_some());
    let reached: Vec<_> = nodes(opening.superblock())
        .iter()
        .map(|node| crate::extents::ReachableExtent {
            extent: extent_of(node),
            references: 1,
            live: node.read_len() as u64,
        })
        .collect();
    opening.rebuild_map(&reached).unwrap();
    let (store, _) = opening.repair(&mut |_| Ok(())).unwrap();
    assert_eq!(texts(&store), ["kept on tier 0", "kept on tier 1"]);
    assert_eq!(check(&store), Vec::<String>::new());
}
