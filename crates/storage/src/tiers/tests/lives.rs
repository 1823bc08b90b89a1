//! Tests of a chain of faults: a fault on a tier, an opening by the next process, a checkpoint that
//! is acknowledged, and a power failure.

use super::*;

const OPERATIONS: [DeviceOperation; 10] = [
    DeviceOperation::Write,
    DeviceOperation::Sync,
    DeviceOperation::Grow,
    DeviceOperation::Create,
    DeviceOperation::Rename,
    DeviceOperation::SyncDirectory,
    DeviceOperation::Read,
    DeviceOperation::Open,
    DeviceOperation::PunchHole,
    DeviceOperation::Truncate,
];

/// Returns the texts on all tiers when `text` is durable.
fn expected(text: &str, tiers: u64) -> Vec<String> {
    (0..tiers).map(|tier| format!("{text} on tier {tier}")).collect()
}

#[test]
fn what_was_acknowledged_after_a_fault_on_any_tier_survives_the_loss_of_power() {
    let mut met = 0;
    for (operation, tier, nth) in OPERATIONS
        .into_iter()
        .flat_map(|operation| (0..3).map(move |tier| (operation, tier)))
        .flat_map(|(operation, tier)| (1..8).map(move |nth| (operation, tier, nth)))
    {
        for fault in [InjectedFault::failing, InjectedFault::full, InjectedFault::short] {
            let said = format!("{operation:?} {nth} on tier {tier}: {:?}", fault(operation));
            let first = machines(3);
            let store = Store::create(directories(&first), &options(1), b"").unwrap();
            let mut last = checkpoint(&store, "durable").map(|_| "durable").unwrap();
            first[tier].inject(fault(operation).at(nth));
            for text in ["second", "third"] {
                match checkpoint(&store, text) {
                    Ok(_) => last = text,
                    Err(_) => break,
                }
            }
            met += first[tier].faults_hit();
            // The process ends, but the machine keeps running and preserves its page cache.
            let next = crashed(&first, CrashSurvival::Process);
            drop(store);
            let store = open(directories(&next)).unwrap_or_else(|error| panic!("{said}: {error}"));
            let found = texts(&store);
            let newer = match last {
                "durable" => "second",
                _ => "third",
            };
            assert!(
                found == expected(last, 3) || found == expected(newer, 3),
                "{said}: {found:?} after {last}"
            );
            assert_eq!(check(&store), [""; 0], "{said}");
            checkpoint(&store, "acknowledged").unwrap();
            for survival in CrashSurvival::POWER_LOSS {
                let again = open(directories(&crashed(&next, survival))).unwrap();
                assert_eq!(texts(&again), expected("acknowledged", 3), "{said}, {survival:?}");
                assert_eq!(check(&again), [""; 0], "{said}, {survival:?}");
            }
        }
    }
    assert!(met > 60, "{met} faults");
}

#[test]
fn an_opening_that_fails_on_any_tier_changes_nothing_that_the_next_one_needs() {
    let mut met = 0;
    for (operation, tier, nth) in OPERATIONS
        .into_iter()
        .flat_map(|operation| (0..3).map(move |tier| (operation, tier)))
        .flat_map(|(operation, tier)| (1..7).map(move |nth| (operation, tier, nth)))
    {
        let said = format!("{operation:?} {nth} on tier {tier}");
        let first = machines(3);
        let store = Store::create(directories(&first), &options(1), b"").unwrap();
        checkpoint(&store, "durable").unwrap();
        drop(store);
        first[tier].inject(InjectedFault::failing(operation).at(nth));
        let opened = open(directories(&first));
        first[tier].clear_faults();
        met += first[tier].faults_hit();
        drop(opened);
        let next = crashed(&first, CrashSurvival::Process);
        let store = open(directories(&next)).unwrap_or_else(|error| panic!("{said}: {error}"));
        assert_eq!(texts(&store), expected("durable", 3), "{said}");
        checkpoint(&store, "acknowledged").unwrap();
        for survival in CrashSurvival::POWER_LOSS {
            let again = open(directories(&crashed(&next, survival))).unwrap();
            assert_eq!(texts(&again), expected("acknowledged", 3), "{said}, {survival:?}");
        }
    }
    assert!(met > 10, "{met} faults");
}

#[test]
fn a_tier_of_an_earlier_moment_or_cut_short_is_damage_and_never_an_answer() {
    let first = machines(2);
    let store = Store::create(directories(&first), &options(1), b"").unwrap();
    checkpoint(&store, "early").unwrap();
    store.close().unwrap();
    let early = crashed(&first, CrashSurvival::None);
    let store = open(directories(&first)).unwrap();
    for round in 0..6 {
        checkpoint(&store, &format!("round {round}")).unwrap();
    }
    store.close().unwrap();
    let mut damaged = vec![(crashed(&first, CrashSurvival::None)[0].clone(), early[1].clone())];
    for len in [0, 512, UNIT] {
        let images = crashed(&first, CrashSurvival::None);
        images[1]
            .corrupt(&tier_file(1), &Corruption::Truncate { len })
            .unwrap();
        damaged.push((images[0].clone(), images[1].clone()));
    }
    for (zeroth, first) in damaged {
        let both = [zeroth, first];
        let store = match open(directories(&both)) {
            Ok(store) => store,
            Err(Error::Corrupt { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let nodes = nodes(&store.superblock());
        assert_eq!(text(&store, &nodes[0]).unwrap(), "round 5 on tier 0");
        let error = text(&store, &nodes[1]).unwrap_err();
        assert!(error.to_string().contains("tier-1.data"), "{error}");
        // Newly written data can be read.
        let pointer = write(&store, 1, "fresh").unwrap();
        assert_eq!(text(&store, &pointer).unwrap(), "fresh");
        store.health().unwrap();
    }
}

#[test]
fn a_creation_takes_nothing_from_the_tiers_of_a_store_that_holds_anything() {
    // The last step of the creation failed, and the store was then opened and written to.
    let first = machines(2);
    first[1].inject(InjectedFault::failing(DeviceOperation::Rename).sticky());
    assert!(Store::create(directories(&first), &options(1), b"").is_err());
    assert!(
        open(directories(&first)).is_err(),
        "the mark has not got its name"
    );
    first[1].clear_faults();
    let next = crashed(&first, CrashSurvival::Process);
    let store = open(directories(&next)).unwrap();
    checkpoint(&store, "kept").unwrap();
    drop(store);
    let other = [SimDirectory::new(5), next[1].clone()];
    let refused = Store::create(directories(&other), &options(2), b"").unwrap_err();
    assert!(matches!(refused, Error::WrongTier { tier: 1, .. }), "{refused}");
    for survival in CrashSurvival::POWER_LOSS {
        let again = open(directories(&crashed(&next, survival))).unwrap();
        assert_eq!(texts(&again), expected("kept", 2), "{survival:?}");
    }
}
