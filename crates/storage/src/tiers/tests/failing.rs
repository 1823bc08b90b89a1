//! Tests in which a tier other than the first fails, is skipped, and later returns to use.

use super::*;

fn failing(store: &Store) -> [bool; 3] {
    [0, 1, 2].map(|tier| store.tiers().fails(tier))
}

#[test]
fn a_tier_that_fails_takes_nothing_new_and_checkpoints_go_on_without_it() {
    for operation in [
        DeviceOperation::Write,
        DeviceOperation::Sync,
        DeviceOperation::Grow,
    ] {
        let machines = machines(3);
        let store = Store::create(directories(&machines), &options(1), b"").unwrap();
        checkpoint(&store, "first").unwrap();
        machines[2].inject(InjectedFault::failing(operation).sticky());
        let error = (0..256).find_map(|_| write(&store, 2, "lost").err()).unwrap();
        let text = error.to_string();
        assert_eq!(error.failing_tier(), Some((2, FailedAccess::Writing)), "{text}");
        assert!(
            text.contains("tier 2 in a simulated directory") && text.contains("tier-2.data"),
            "{text}"
        );
        assert_eq!(failing(&store), [false, false, true], "{operation}");
        assert!(!store.takes_extents(2) && !store.is_closed(2) && store.takes_extents(1));
        assert!(!store.tiers().has_unreadable(), "it is read as before");
        // The failure does not affect the other tiers.
        store.health().unwrap();
        write(&store, 1, "second").unwrap();
        checkpoint_now(&store);
        store.reclaim(crate::extents::ReclaimLimit::default()).unwrap();
        // The tier cannot return to use while it still fails.
        let elsewhere = || Ok(Arc::new(machines[2].clone()) as _);
        assert!(operation != DeviceOperation::Sync || store.readmit_tier(2, elsewhere).is_err());
        machines[2].clear_faults();
        store
            .readmit_tier(2, || unreachable!("its directory is there"))
            .unwrap();
        assert_eq!(failing(&store), [false; 3]);
        write(&store, 2, "third").unwrap();
    }
}

#[test]
fn what_lies_on_a_further_tier_is_durable_before_anything_refers_to_it() {
    let machines = machines(2);
    let store = Store::create(directories(&machines), &options(1), b"").unwrap();
    let pointer = write(&store, 1, "durable").unwrap();
    let left = machines[1].image(CrashSurvival::None, 7);
    let file = left
        .open(&tier_file(1), FileOptions::DIRECT)
        .unwrap()
        .read_at(pointer.offset, 512, Purpose::Other)
        .unwrap();
    assert!(file.starts_with(b"durable"));
}

#[test]
fn a_directory_that_has_lost_its_mark_or_a_part_of_its_file_is_not_used_again() {
    let machines = machines(2);
    let store = Store::create(directories(&machines), &options(1), b"").unwrap();
    write(&store, 1, "first").unwrap();
    machines[1].rename(MARK_FILE, "elsewhere").unwrap();
    checkpoint_now(&store);
    assert!(store.tiers().fails(1));
    let cause = store.tier_failure(1).unwrap().to_string();
    assert!(cause.contains("was removed"), "{cause}");
    let refused = store.readmit_tier(1, || Ok(Arc::new(machines[1].clone()) as _));
    assert!(refused.unwrap_err().to_string().contains("holds no tier"));
    machines[1].rename("elsewhere", MARK_FILE).unwrap();
    // Another directory has the right marker file, but a shorter data file.
    let other = machines[1].image(CrashSurvival::Process, 3);
    let file = other.open(&tier_file(1), FileOptions::DIRECT).unwrap();
    file.truncate(0).unwrap();
    machines[1].rename(&tier_file(1), "elsewhere").unwrap();
    let refused = store.readmit_tier(1, || Ok(Arc::new(other.clone()) as _));
    assert!(refused.unwrap_err().to_string().contains("its file has 0 bytes"));
    assert!(store.tiers().fails(1), "it is as it was before");
    machines[1].rename("elsewhere", &tier_file(1)).unwrap();
    store
        .readmit_tier(1, || unreachable!("its directory is there"))
        .unwrap();
    assert!(!store.tiers().fails(1));
}

#[test]
fn a_tier_that_comes_back_in_another_directory_is_looked_for_there_alone() {
    let machines = machines(2);
    let store = Store::create(directories(&machines), &options(1), b"").unwrap();
    checkpoint(&store, "first").unwrap();
    let mut own = machines[1].clone();
    // Run more rounds than a store can have tiers.
    for round in 1..12 {
        // The file system that the store has open no longer exists, and was mounted again.
        let again = own.image(CrashSurvival::Process, round);
        for operation in [
            DeviceOperation::List,
            DeviceOperation::Open,
            DeviceOperation::Read,
        ] {
            own.inject(InjectedFault::failing(operation).sticky());
        }
        let said = check(&store);
        let tells = |said: &String| Error::reports_unreadable_tier(said);
        assert!(!said.is_empty() && said.iter().all(tells), "{said:?}");
        assert!(store.tiers().fails(1), "what a check meets is remembered");
        store
            .readmit_tier(1, || Ok(Arc::new(again.clone()) as _))
            .unwrap();
        assert_eq!(store.directories_of(1).len(), 1 + round as usize);
        assert_eq!(check(&store), [""; 0]);
        checkpoint(&store, "next").unwrap();
        assert!(!store.tiers().fails(1), "nothing is asked of the stale one");
        own = again;
    }
}

fn checkpoint_now(store: &Store) {
    store.begin_checkpoint().unwrap().finish(b"payload", 0).unwrap();
}

#[test]
fn the_first_tier_is_none_that_fails_by_itself() {
    let machines = machines(2);
    let store = Store::create(directories(&machines), &options(1), b"").unwrap();
    machines[0].inject(
        InjectedFault::failing(DeviceOperation::Write)
            .on(&tier_file(0))
            .sticky(),
    );
    let error = store.poison_on_error(write(&store, 0, "lost")).unwrap_err();
    assert_eq!(error.failing_tier(), None, "{error}");
    assert!(!store.tiers().fails(0) && store.health().is_err());
    assert!(store.tiers().failure(0).is_none());
}
