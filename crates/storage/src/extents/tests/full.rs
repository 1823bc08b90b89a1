//! Tests of a full disk: errors are returned before anything changes, essential writes can still
//! use the reserve, and work goes on once there is space again.

use super::*;
use alluvium_base::{MIB, Purpose};
use alluvium_device::file::FileDirectory;
use alluvium_device::simulated::{InjectedFault, SimDirectory};
use alluvium_device::{AlignedBuffer, DeviceOperation};

fn simulated(capacity: u64) -> (SimDirectory, Bed) {
    let simulated = SimDirectory::new(1);
    simulated.set_capacity(capacity);
    let directory: Arc<dyn Directory> = Arc::new(simulated.clone());
    let tiers = Arc::new(TierFiles::create(&[directory.as_ref()]).unwrap());
    let extents = Extents::create(Arc::clone(&tiers), ExtentOptions::default()).unwrap();
    (
        simulated,
        Bed {
            directory,
            tiers,
            extents,
            options: ExtentOptions::default(),
        },
    )
}

impl Bed {
    /// Writes every block of an extent. On a full disk, this fails unless the extent has its space
    /// allocated.
    fn fill(&self, extent: Extent) {
        let file = self.tiers.get(extent.tier).unwrap();
        file.write_at(
            extent.offset(),
            AlignedBuffer::zeroed(extent.bytes() as usize),
            Purpose::Other,
        )
        .unwrap();
    }

    /// Allocates and writes extents until there is no space left, and returns them.
    fn exhaust(&self, class: AllocationClass) -> Vec<Extent> {
        let mut taken = Vec::new();
        loop {
            match self.extents.allocate_between(0, 1..=8, class, None) {
                Ok(extent) => {
                    self.fill(extent);
                    self.extents.install(&[(extent, UNIT)]);
                    taken.push(extent);
                }
                Err(error) => {
                    assert!(error.is_full(), "{error}");
                    return taken;
                }
            }
        }
    }

    fn check(&self, owned: &[Extent]) {
        assert_eq!(self.extents.check(owned.iter().map(|&extent| (extent, 1))), []);
    }
}

#[test]
fn the_reserve_is_for_the_essential_and_what_is_handed_out_can_be_written() {
    for capacity in [3 * MIB, 10 * MIB, 33 * MIB + 5000, 200 * MIB] {
        let (simulated, bed) = simulated(capacity);
        let mut owned = bed.exhaust(AllocationClass::Normal);
        let error = bed.extents.allocate(0, 1, AllocationClass::Normal).unwrap_err();
        assert!(matches!(error, Error::Full { reserve: true, .. }), "{error}");
        let [essential, freeing] = [AllocationClass::Essential, AllocationClass::Freeing].map(|class| {
            let extents = bed.exhaust(class);
            let units: u32 = extents.iter().map(|extent| extent.units).sum();
            owned.extend(extents);
            u64::from(units) * UNIT
        });
        assert!(
            essential + freeing >= 2 * MIB,
            "{essential} and {freeing} bytes of reserve"
        );
        assert!(
            freeing >= essential && freeing >= MIB,
            "{freeing} bytes for what frees space"
        );
        assert!(capacity - simulated.used() < UNIT, "all of the disk was used");
        assert!(matches!(
            bed.extents.allocate(0, 1, AllocationClass::Freeing),
            Err(Error::Full { reserve: false, .. })
        ));
        bed.check(&owned);
    }
}

#[test]
fn work_goes_on_by_itself_once_there_is_space() {
    let (simulated, bed) = simulated(20 * MIB);
    let mut owned = bed.exhaust(AllocationClass::Normal);
    simulated.set_capacity(40 * MIB);
    let more = bed.exhaust(AllocationClass::Normal);
    assert!(more.len() as u64 * 8 * UNIT >= 19 * MIB);
    owned.extend(more);
    // A checkpoint succeeds on the full disk, and dead extents become free.
    bed.checkpoint(1);
    for extent in owned.drain(10..) {
        bed.extents.release(extent, 0);
    }
    bed.checkpoint(2);
    while bed.extents.reclaim(1, ReclaimLimit::default()).unwrap().more {}
    owned.extend(bed.exhaust(AllocationClass::Normal));
    assert!(owned.len() > 20);
    bed.check(&owned);
}

#[test]
fn checkpoints_go_on_when_the_disk_is_full_to_the_last_byte() {
    let (simulated, bed) = simulated(64 * MIB);
    let mut owned = bed.exhaust(AllocationClass::Normal);
    simulated.set_capacity(simulated.used());
    bed.checkpoint(1);
    for generation in 2..200 {
        let changed = owned[generation as usize % owned.len()];
        bed.extents.retain(changed);
        let pointer = bed.checkpoint(generation);
        bed.extents.release(changed, generation);
        assert_eq!(
            bed.extents.check_map(bed.directory.as_ref(), &pointer).unwrap(),
            []
        );
    }
    // After reopening, it is unknown which free units occupy space. They must be found even though
    // the disk has no other space.
    bed.checkpoint(200);
    let last = owned.pop().unwrap();
    bed.extents.release(last, 0);
    bed.checkpoint(201);
    let pointer = bed.checkpoint(202);
    let opened = bed.reopen(&pointer).unwrap();
    let extent = opened.allocate(0, last.units, AllocationClass::Freeing).unwrap();
    bed.fill(extent);
}

#[test]
fn a_disk_that_is_full_at_any_request_changes_nothing() {
    for operation in [
        DeviceOperation::Grow,
        DeviceOperation::Create,
        DeviceOperation::Write,
    ] {
        for sticky in [true, false] {
            for call in 1.. {
                let (simulated, bed) = simulated(1 << 40);
                let fault = InjectedFault::full(operation).at(call);
                simulated.inject(if sticky { fault.sticky() } else { fault });
                let owned = churn(&bed);
                let hits = simulated.faults_hit();
                simulated.clear_faults();
                bed.check(&owned);
                let pointer = bed.checkpoint(100);
                let opened = bed.reopen(&pointer).unwrap();
                assert_eq!(opened.check(owned.iter().map(|&extent| (extent, 1))), []);
                if hits == 0 {
                    assert!(call > 1, "{operation} happens");
                    break;
                }
            }
        }
    }
}

/// Allocates, releases, checkpoints and reclaims extents. A full disk may only make allocations
/// fail.
fn churn(bed: &Bed) -> Vec<Extent> {
    let mut owned: Vec<Extent> = Vec::new();
    for generation in 1..6 {
        for step in 0..24 {
            let before = bed.extents.usage().total().provisional_bytes;
            match bed
                .extents
                .allocate(0, 1 + (step * 7) % 40, AllocationClass::Normal)
            {
                Ok(extent) => {
                    bed.extents.install(&[(extent, 1)]);
                    owned.push(extent);
                }
                Err(error) => {
                    assert!(error.is_full(), "{error}");
                    assert_eq!(bed.extents.usage().total().provisional_bytes, before);
                }
            }
            if step % 3 == 0 && owned.len() > 5 {
                let dying = owned.swap_remove(step as usize % 5);
                bed.extents.release(dying, generation);
            }
        }
        match bed
            .extents
            .write_map(&bed.directory, bed.extents.freeze(generation))
        {
            Ok(_) => bed.extents.made_durable(generation),
            Err(error) => assert!(error.is_full(), "{error}"),
        }
        bed.extents
            .reclaim(
                generation,
                ReclaimLimit {
                    extents: 1000,
                    operations: 100,
                },
            )
            .unwrap();
    }
    owned
}

#[test]
fn a_limit_is_kept_and_space_that_is_freed_returns_to_the_file_system() {
    let options = ExtentOptions {
        max_bytes: Some(32 * MIB),
        ..ExtentOptions::default()
    };
    let bed = bed(1, options);
    let mut owned = bed.exhaust(AllocationClass::Normal);
    let usage = bed.extents.usage();
    assert_eq!(
        (usage.occupied_bytes, usage.total().live_extent_bytes),
        (32 * MIB, 30 * MIB)
    );
    bed.checkpoint(1);
    // Keep the first third of the extents and every other one of the next third, so that the end of
    // the file can be truncated.
    let mut index = 0;
    owned.retain(|&extent| {
        index += 1;
        let stays = index <= 10 || (index < 20 && index % 2 == 0);
        if !stays {
            bed.extents.release(extent, 1);
        }
        stays
    });
    bed.checkpoint(2);
    let (mut punched, mut truncated) = (0, 0);
    loop {
        let done = bed
            .extents
            .reclaim(
                2,
                ReclaimLimit {
                    extents: 3,
                    operations: 1,
                },
            )
            .unwrap();
        punched += done.punched_bytes;
        truncated += done.truncated_bytes;
        if !done.more {
            break;
        }
    }
    let usage = bed.extents.usage();
    assert!(
        truncated > 0 && punched + truncated >= 10 * MIB,
        "{punched} punched, {truncated} cut off"
    );
    assert!(
        usage.occupied_bytes <= usage.total().live_extent_bytes + 6 * MIB,
        "{usage:?}"
    );
    bed.check(&owned);
    owned.extend(bed.exhaust(AllocationClass::Normal));
    assert_eq!(bed.extents.usage().occupied_bytes, 32 * MIB);
    bed.check(&owned);
}

#[test]
fn on_a_real_file_system_space_comes_back_too() {
    let folder = tempfile::tempdir().unwrap();
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::create(folder.path()).unwrap());
    let tiers = Arc::new(TierFiles::create(&[directory.as_ref()]).unwrap());
    let extents = Extents::create(Arc::clone(&tiers), ExtentOptions::default()).unwrap();
    let bed = Bed {
        directory,
        tiers,
        extents,
        options: ExtentOptions::default(),
    };
    let mut owned: Vec<Extent> = (0..12).map(|_| bed.live(0, 8, UNIT)).collect();
    owned.iter().for_each(|&extent| bed.fill(extent));
    bed.checkpoint(1);
    let kept = owned.swap_remove(9);
    owned
        .drain(..)
        .for_each(|extent| _ = bed.extents.release(extent, 0));
    let pointer = bed.checkpoint(2);
    while bed.extents.reclaim(1, ReclaimLimit::default()).unwrap().more {}
    let usage = bed.extents.usage();
    assert!(usage.occupied_bytes <= MIB + 4 * MIB, "{usage:?}");
    bed.check(&[kept]);
    let opened = bed.reopen(&pointer).unwrap();
    assert_eq!(opened.check([(kept, 1)].into_iter()), []);
    let again = opened.allocate(0, 8, AllocationClass::Normal).unwrap();
    assert!(!again.overlaps(&kept));
    bed.fill(again);
}

#[test]
fn a_tier_that_has_refused_is_tried_again_after_a_rollback_has_returned_much_space() {
    let options = ExtentOptions {
        max_bytes: Some(32 * MIB),
        ..ExtentOptions::default()
    };
    let bed = bed(1, options);
    let mut provisional = Vec::new();
    while let Ok(extent) = bed.extents.allocate(0, 4, AllocationClass::Normal) {
        provisional.push(extent);
    }
    assert!(bed.extents.has_refused(0));
    // A failed step returns the little that it had allocated.
    bed.extents.abandon(provisional.pop().unwrap());
    assert!(bed.extents.has_refused(0));
    for extent in provisional.drain(..) {
        bed.extents.abandon(extent);
    }
    assert!(!bed.extents.has_refused(0));
}
