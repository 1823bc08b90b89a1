mod check;
mod crash;
mod faults;
mod full;
mod model;
mod threads;

use super::*;
use crate::Error;
use alluvium_device::Directory;
use alluvium_device::memory::MemoryDirectory;

struct Bed {
    directory: Arc<dyn Directory>,
    tiers: Arc<TierFiles>,
    extents: Extents,
    options: ExtentOptions,
}

fn bed(count: usize, options: ExtentOptions) -> Bed {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let tiers = Arc::new(TierFiles::create(&vec![directory.as_ref(); count]).unwrap());
    let extents = Extents::create(Arc::clone(&tiers), options).unwrap();
    Bed {
        directory,
        tiers,
        extents,
        options,
    }
}

impl Bed {
    fn live(&self, tier: u8, units: u32, live: u64) -> Extent {
        let extent = self
            .extents
            .allocate(tier, units, AllocationClass::Normal)
            .unwrap();
        self.extents.install(&[(extent, live)]);
        extent
    }

    fn checkpoint(&self, generation: u64) -> MapPointer {
        let pointer = self
            .extents
            .write_map(&self.directory, self.extents.freeze(generation))
            .unwrap();
        self.extents.made_durable(generation);
        pointer
    }

    fn reopen(&self, pointer: &MapPointer) -> Result<Extents, Error> {
        let tiers = Arc::clone(&self.tiers);
        Extents::open(&self.directory, tiers, pointer, self.options)
    }
}

#[test]
fn a_map_is_opened_as_it_was_frozen() {
    let bed = bed(2, ExtentOptions::default());
    let kept = bed.live(0, 8, 1000);
    let shared = bed.live(1, 1, UNIT);
    bed.extents.retain(shared);
    let gone = bed.live(0, 3, 5);
    bed.checkpoint(1);
    assert!(bed.extents.release(gone, 1));
    let provisional = bed.extents.allocate(0, 2, AllocationClass::Normal).unwrap();
    let pointer = bed.checkpoint(2);
    let late = bed.live(0, 1, 1);
    let opened = bed.reopen(&pointer).unwrap();
    assert_eq!((opened.references(kept), opened.live(kept)), (1, 1000));
    assert_eq!((opened.references(shared), opened.live(shared)), (2, UNIT));
    for extent in [gone, provisional, late] {
        assert_eq!(opened.references(extent), 0, "{extent}");
    }
    assert_eq!(opened.usage().total().live_extents, 2);
}

#[test]
fn space_is_reused_only_after_the_generation_and_the_epoch() {
    let bed = bed(1, ExtentOptions::default());
    let first = bed.live(0, 8, 1);
    bed.checkpoint(1);
    bed.extents.release(first, 7);
    let limit = ReclaimLimit::default();
    assert_eq!(
        bed.extents.reclaim(100, limit).unwrap().freed_bytes,
        0,
        "generation 2 is not durable"
    );
    bed.checkpoint(2);
    assert_eq!(
        bed.extents.reclaim(7, limit).unwrap().freed_bytes,
        0,
        "epoch 7 is not safe"
    );
    assert_eq!(bed.extents.reclaim(8, limit).unwrap().freed_bytes, 8 * UNIT);
    assert_eq!(
        bed.extents.allocate(0, 8, AllocationClass::Normal).unwrap(),
        first
    );
}

#[test]
fn an_extent_in_use_is_found_by_any_place_in_it() {
    let bed = bed(2, ExtentOptions::default());
    let extents: Vec<Extent> = [1, 2, 8, 3, MAX_EXTENT_UNITS]
        .into_iter()
        .map(|units| bed.live(1, units, 10))
        .collect();
    for extent in &extents {
        // Test about sixty units of a long extent.
        let range = extent.range();
        let step = UNIT * ((range.end - range.start) / UNIT / 61).max(1);
        for offset in range.step_by(step as usize) {
            for inside in [0, 1, UNIT - 1] {
                assert_eq!(bed.extents.extent_at(1, offset + inside), Some(*extent));
            }
        }
    }
    let provisional = bed.extents.allocate(1, 4, AllocationClass::Normal).unwrap();
    bed.extents.release(extents[2], 1);
    for gone in [provisional, extents[2]] {
        assert_eq!(bed.extents.extent_at(1, gone.offset() + UNIT), None);
    }
    assert_eq!(bed.extents.extent_at(0, extents[0].offset()), None);
    assert_eq!(bed.extents.extent_at(7, 0), None);
    assert_eq!(bed.extents.extent_at(1, u64::MAX), None);
}
