//! Tests of roots that were returned to the store but never became durable. The durable state must
//! open unchanged.

use super::*;

/// Writes a root that does not become part of any generation of the store.
fn stand_in_vain(paged: &PagedDictionary) {
    drop(paged.checkpoint_root().unwrap());
}

#[test]
fn roots_that_never_became_durable_are_not_taken_for_what_a_crash_leaves() {
    for kind in KINDS {
        for in_vain in 1..4 {
            let directory = MemoryDirectory::new();
            let home = home(Arc::new(directory.clone()));
            let paged = PagedDictionary::create(home, options(kind), 0).unwrap();
            let mut world = World::new(7);
            for _ in 0..3 {
                let memtable = world.memtable(60);
                world.take(&paged, &memtable);
                checkpoint(&paged);
            }
            let durable = world.state.clone();
            for _ in 0..in_vain {
                let memtable = world.memtable(60);
                world.take(&paged, &memtable);
                stand_in_vain(&paged);
            }
            // This overwrites pages of all these roots.
            let memtable = world.memtable(120);
            world.take(&paged, &memtable);
            paged.prepare().unwrap();
            world.require(&paged);
            drop(paged);
            let again = reopen(Arc::new(directory), kind).expect("it has a generation");
            require(&again, &no_memtables(), MAX_SEQUENCE, &durable);
            sound(&again);
        }
    }
}

#[test]
fn a_root_that_stood_twice_is_durable_once_its_generation_is() {
    let directory = MemoryDirectory::new();
    let home = home(Arc::new(directory.clone()));
    let paged = PagedDictionary::create(home, options(BEPS), 0).unwrap();
    let mut world = World::new(8);
    for round in 0..40 {
        let memtable = world.memtable(100);
        world.take(&paged, &memtable);
        // Request the root again without having changed the pages, so nothing is written.
        let first = paged.checkpoint_root().unwrap().root.clone();
        assert_eq!(paged.checkpoint_root().unwrap().root, first, "round {round}");
        checkpoint(&paged);
    }
    // The images for older roots must have been dropped.
    let kept = 2 * 1000 * (512 + 1024);
    assert!(
        paged.journal_bytes() <= kept,
        "{} of {kept} bytes",
        paged.journal_bytes()
    );
    drop(paged);
    let again = reopen(Arc::new(directory), BEPS).expect("it has a generation");
    require(&again, &no_memtables(), MAX_SEQUENCE, &world.state);
}

#[test]
fn while_a_part_of_a_memtable_is_in_the_pages_no_root_is_handed_out() {
    for kind in KINDS {
        let directory = SimDirectory::new(12);
        let paged = PagedDictionary::create(home(Arc::new(directory.clone())), options(kind), 0).unwrap();
        let mut world = World::new(5);
        let first = world.memtable(100);
        world.take(&paged, &first);
        checkpoint(&paged);
        let before = world.state.clone();
        // Long values make a slice need many pages.
        let memtable = Memtable::new(16 << 20);
        for number in 0..900 {
            let key = format!("{number:03}").into_bytes();
            world.sequence += 1;
            memtable
                .insert(&key, Message::put(world.sequence, &[b'v'; 2500]))
                .unwrap();
            world.state.insert(key, vec![b'v'; 2500]);
        }
        paged.shared.home.horizon.raise(world.sequence);
        let memtable = Arc::new(memtable);
        let begin = || {
            let share = MemtableSlice::whole(Arc::clone(&memtable), world.sequence);
            paged.incorporate(share, AllocationClass::Normal).unwrap()
        };
        let mut taking = begin();
        taking.poll(1).unwrap();
        // Fill most of the free disk space with other data. What is left is enough for only a few
        // slices.
        directory.set_capacity(directory.used());
        let buffer = &paged.core().buffer;
        let counted = paged.statistics();
        let spare = (paged.file_bytes() - 8192) / 1024 - counted.pages + counted.free;
        let held: Vec<u64> = (600..spare)
            .map(|_| buffer.allocate().unwrap().number())
            .collect();
        let error = taking.publish().unwrap_err();
        assert_eq!(error.kind(), alluvium_base::ErrorKind::Full, "{error}");
        let refused = paged.checkpoint_root().map(drop).unwrap_err();
        assert_eq!(refused.kind(), alluvium_base::ErrorKind::Full, "{refused}");
        let again =
            reopen(Arc::new(directory.image(CrashSurvival::ALL[0], 1)), kind).expect("it has a generation");
        require(&again, &no_memtables(), MAX_SEQUENCE, &before);
        directory.set_capacity(u64::MAX);
        held.into_iter()
            .for_each(|page| buffer.free(buffer.take_over(page).unwrap()));
        let mut taking = begin();
        taking.poll(1).unwrap();
        taking.publish().unwrap();
        checkpoint(&paged);
        require(&paged, &no_memtables(), MAX_SEQUENCE, &world.state);
        sound(&paged);
    }
}
