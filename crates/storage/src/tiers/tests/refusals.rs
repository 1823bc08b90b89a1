//! Tests of directories that belong to another store or are in the wrong order.

use super::*;

fn refused(directories: TierDirectories) -> Error {
    match open(directories) {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

#[track_caller]
fn expect_wrong(error: &Error, expected: u8, says: &str) {
    let Error::WrongTier { tier, why, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(*tier, expected, "{error}");
    assert!(why.contains(says), "{error}");
}

/// Returns the simulated machines of a cleanly closed store with three tiers.
fn three(id: u128) -> Vec<SimDirectory> {
    let machines = machines(3);
    let store = Store::create(directories(&machines), &options(id), b"").unwrap();
    checkpoint(&store, "whole").unwrap();
    store.close().unwrap();
    machines
}

fn chosen(machines: &[SimDirectory], order: &[usize]) -> TierDirectories {
    let chosen: Vec<_> = order.iter().map(|&at| machines[at].clone()).collect();
    directories(&chosen)
}

#[test]
fn missing_and_surplus_directories_are_refused() {
    let mut machines = three(1);
    for order in [&[0][..], &[0, 1], &[0, 1, 2, 3]] {
        machines.push(SimDirectory::new(9));
        let said = refused(chosen(&machines, order)).to_string();
        assert!(said.contains("has 3 tiers, but"), "{said}");
        assert!(said.contains("give the directory of each tier"), "{said}");
    }
    let error = refused(chosen(&machines, &[0, 1, 3]));
    expect_wrong(
        &error,
        2,
        "it is empty; give the directory that holds tier-2.data",
    );
    assert_eq!(
        machines[3].list().unwrap(),
        Vec::<String>::new(),
        "nothing is created"
    );
    machines[2].corrupt(&tier_file(2), &Corruption::Remove).unwrap();
    expect_wrong(
        &refused(chosen(&machines, &[0, 1, 2])),
        2,
        "tier-2.data is missing",
    );
}

#[test]
fn swapped_directories_are_refused() {
    let machines = three(1);
    let error = refused(chosen(&machines, &[0, 2, 1]));
    expect_wrong(&error, 1, "it holds tier 2; give the directories in the order");
    let said = refused(chosen(&machines, &[1, 0, 2])).to_string();
    assert!(said.contains("whose first directory is elsewhere"), "{said}");
    let error = refused(chosen(&machines, &[0, 1, 1]));
    expect_wrong(&error, 2, "it holds tier 1;");
    open(directories(&machines)).unwrap();
}

#[test]
fn directories_of_other_stores_are_refused() {
    let (machines, others) = (three(1), three(2));
    let foreign = [machines[0].clone(), machines[1].clone(), others[2].clone()];
    expect_wrong(&refused(directories(&foreign)), 2, "tier 2 of another store");
    let first = [machines[0].clone(), others[0].clone(), machines[2].clone()];
    let error = refused(directories(&first));
    expect_wrong(&error, 1, "it is the first directory of a store");
    let something = SimDirectory::new(4);
    something.create("notes", FileOptions::DIRECT).unwrap();
    let other = [machines[0].clone(), something, machines[2].clone()];
    expect_wrong(&refused(directories(&other)), 1, "it holds no tier of a store");
}

#[test]
fn a_store_is_created_in_empty_directories_only() {
    let old = three(1);
    let fresh = SimDirectory::new(7);
    for (second, says) in [(&old[1], "it holds a tier of a store"), (&old[0], "it holds")] {
        let both = [fresh.clone(), second.clone()];
        let error = Store::create(directories(&both), &options(2), b"").unwrap_err();
        expect_wrong(&error, 1, says);
        assert_eq!(fresh.list().unwrap(), Vec::<String>::new());
    }
    let error = Store::create(directories(&old[1..]), &options(2), b"").unwrap_err();
    assert!(matches!(error, Error::NotAStore { .. }), "{error}");
    let one: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let twice = TierDirectories::from(Arc::clone(&one)).and(Arc::clone(&one));
    let said = Store::create(twice, &options(2), b"").unwrap_err().to_string();
    assert!(said.contains("for tier 0 and for tier 1"), "{said}");
    let said = Store::create(directories(&machines(9)), &options(2), b"").unwrap_err();
    assert!(said.to_string().contains("9 directories were given"), "{said}");
    open(directories(&old)).unwrap();
}

#[test]
fn a_tier_in_use_is_locked_with_its_store() {
    let machines = three(1);
    let store = open(directories(&machines)).unwrap();
    let stranger = [SimDirectory::new(8), machines[2].clone()];
    assert!(machines[2].lock(LOCK_FILE).is_err());
    assert!(Store::create(directories(&stranger), &options(5), b"").is_err());
    store.close().unwrap();
    machines[2].lock(LOCK_FILE).unwrap();
}

#[test]
fn a_damaged_or_lost_mark_is_named_and_mended_only_by_a_repair() {
    let flip = Corruption::FlipBit { offset: 20, bit: 3 };
    let short = Corruption::Truncate {
        len: MARK_BYTES as u64 - 512,
    };
    for damage in [flip, short, Corruption::Remove] {
        let machines = three(1);
        let store = open(directories(&machines)).unwrap();
        machines[1].corrupt(MARK_FILE, &damage).unwrap();
        let found = check(&store);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("(T2)"), "{found:?}");
        store.close().unwrap();
        let said = refused(directories(&machines)).to_string();
        assert!(
            said.contains("mark of a tier") || said.contains("no tier of a store"),
            "{said}"
        );
        let opening = Store::open_without_map(directories(&machines), &options(0)).unwrap();
        let (store, _) = opening.repair(&mut |_| Ok(())).unwrap();
        store.close().unwrap();
        let again = open(directories(&crashed(&machines, CrashSurvival::None))).unwrap();
        assert_eq!(texts(&again)[1], "whole on tier 1");
    }
}

#[test]
fn a_mark_of_another_tier_is_never_mended() {
    let (machines, others) = (three(1), three(2));
    let mixed = [machines[0].clone(), others[1].clone(), machines[2].clone()];
    for given in [directories(&mixed), chosen(&machines, &[0, 2, 1])] {
        let error = Store::open_without_map(given, &options(0)).unwrap_err();
        assert!(matches!(error, Error::WrongTier { tier: 1, .. }), "{error}");
    }
}

#[test]
fn a_mark_from_a_newer_version_is_refused() {
    let machines = three(1);
    let file = machines[1].open(MARK_FILE, FileOptions::DIRECT).unwrap();
    let mut bytes = file.read_at(0, MARK_BYTES, Purpose::Other).unwrap()[..MARK_BYTES - 8].to_vec();
    bytes[8] = 2;
    let sum = alluvium_base::checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    file.write_at(0, AlignedBuffer::padded(&bytes), Purpose::Other)
        .unwrap();
    for opened in [
        Store::open(directories(&machines), &options(0)),
        Store::open_without_map(directories(&machines), &options(0)),
    ] {
        assert!(matches!(opened, Err(Error::NewerFormat { found: 2, .. })));
    }
}

#[test]
fn a_node_for_a_tier_that_the_store_does_not_have_is_refused() {
    let machines = three(1);
    let store = open(directories(&machines)).unwrap();
    let error = write(&store, 3, "nowhere").unwrap_err();
    assert!(
        error.to_string().contains("the store has only tiers 0 to 2"),
        "{error}"
    );
}
