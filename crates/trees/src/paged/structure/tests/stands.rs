//! Roots that were handed out and never became durable: what is durable opens as it was.

use super::*;

/// Hands out a root that no generation gets.
fn stand_in_vain(paged: &Paged) {
    drop(paged.stand().unwrap());
}

#[test]
fn roots_that_never_became_durable_are_not_taken_for_what_a_crash_leaves() {
    for kind in KINDS {
        for in_vain in 1..4 {
            let directory = MemoryDirectory::new();
            let home = home(Arc::new(directory.clone()));
            let paged = Paged::create(home, options(kind), 0).unwrap();
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
            // Pages of all of them are written over.
            let memtable = world.memtable(120);
            world.take(&paged, &memtable);
            paged.prepare().unwrap();
            world.require(&paged);
            drop(paged);
            let again = reopen(Arc::new(directory), kind).expect("it has a generation");
            require(&again, &no_memtables(), LAST, &durable);
            sound(&again);
        }
    }
}

#[test]
fn a_root_that_stood_twice_is_durable_once_its_generation_is() {
    let directory = MemoryDirectory::new();
    let home = home(Arc::new(directory.clone()));
    let paged = Paged::create(home, options(TreeKind::Beps), 0).unwrap();
    let mut world = World::new(8);
    for round in 0..12 {
        let memtable = world.memtable(100);
        world.take(&paged, &memtable);
        // The same pages, asked twice: the second time nothing is written.
        let first = paged.stand().unwrap().root.clone();
        assert_eq!(paged.stand().unwrap().root, first, "round {round}");
        checkpoint(&paged);
    }
    // What older roots needed is forgotten.
    let kept = 2 * (2 * (24 + 64) + 64 + 80) * (512 + 1024);
    assert!(
        paged.journal_bytes() <= kept,
        "{} of {kept} bytes",
        paged.journal_bytes()
    );
    drop(paged);
    let again = reopen(Arc::new(directory), TreeKind::Beps).expect("it has a generation");
    require(&again, &no_memtables(), LAST, &world.state);
}
