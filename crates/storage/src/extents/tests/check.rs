//! Tests that `check` reports nothing for a valid store, and every violation otherwise.

use super::*;
use crate::extents::state::{ExtentPhase, ExtentState};
use crate::extents::tier::TierExtents;

/// Returns a store with two live extents, one of which has two references.
fn sample() -> (Bed, Extent, Extent) {
    let bed = bed(1, ExtentOptions::default());
    let (one, two) = (bed.live(0, 1, 100), bed.live(0, 4, 200));
    bed.extents.retain(two);
    (bed, one, two)
}

#[test]
fn what_is_reachable_must_be_exactly_what_is_live() {
    let (bed, one, two) = sample();
    let check = |reachable: &[(Extent, u32)]| bed.extents.check(reachable.iter().copied());
    assert_eq!(check(&[(one, 1), (two, 1), (two, 1)]), []);
    assert_eq!(
        check(&[(two, 2)]),
        [ExtentViolation::Leaked {
            extent: one,
            references: 1
        }]
    );
    assert_eq!(
        check(&[(one, 3), (two, 1)]),
        [
            ExtentViolation::References {
                extent: one,
                counted: 1,
                reachable: 3
            },
            ExtentViolation::References {
                extent: two,
                counted: 2,
                reachable: 1
            },
        ]
    );
    let half = Extent { units: 2, ..two };
    let found = check(&[(one, 1), (two, 2), (half, 1)]);
    assert_eq!(
        found[0],
        ExtentViolation::Overlap {
            first: half,
            second: two
        }
    );
    assert!(matches!(found[1], ExtentViolation::NotLive { extent, .. } if extent == half));
    for wrong in [
        Extent { start: 100, ..one },
        Extent { tier: 7, ..one },
        Extent {
            start: u32::MAX,
            ..two
        },
    ] {
        let found = check(&[(one, 1), (two, 2), (wrong, 1)]);
        assert!(
            matches!(found[..], [ExtentViolation::NotLive { extent, .. }] if extent == wrong),
            "{found:?}"
        );
    }
    let provisional = bed.extents.allocate(0, 1, AllocationClass::Normal).unwrap();
    let found = check(&[(one, 1), (two, 2), (provisional, 1)]);
    assert!(found[0].to_string().contains("Provisional"), "{found:?}");
}

#[test]
fn bookkeeping_that_contradicts_itself_is_named() {
    type Damage = fn(&mut TierExtents, Extent);
    let damages: [(&str, Damage); 12] = [
        ("live bytes", |tier, extent| {
            edit(tier, extent, |head| head.live = extent.bytes() + 1);
        }),
        ("with 0 references", |tier, extent| {
            edit(tier, extent, |head| head.references = 0);
        }),
        ("provisional and in the map", |tier, extent| {
            edit(tier, extent, |head| head.life = ExtentPhase::Provisional);
        }),
        ("add up to", |tier, _| tier.counts.live_bytes += 1),
        ("changed extents", |tier, _| _ = tier.dirty.pop()),
        ("of them are free", |tier, extent| {
            tier.free.insert(extent.start..extent.start + 1);
        }),
        ("neither free nor used", |tier, _| tier.free.remove(10..11)),
        ("free and held", |tier, _| tier.held.push(10..12)),
        ("backed, but not all are free", |tier, extent| {
            tier.backed.insert(extent.start..extent.start + 1);
        }),
        ("holes, but not all are free", |tier, extent| {
            tier.holes.reach(extent.end());
            tier.holes.set(extent.start..extent.end());
        }),
        ("backed, but some are holes", |tier, _| {
            tier.holes.reach(16);
            tier.holes.set(15..16);
        }),
        ("past the file's", |tier, _| tier.units = 3),
    ];
    for (expected, damage) in damages {
        let (bed, one, two) = sample();
        damage(&mut bed.extents.shared.lock(0), two);
        let found = bed.extents.check([(one, 1), (two, 2)].into_iter());
        let named = found
            .iter()
            .any(|violation| violation.to_string().contains(expected));
        assert!(named, "{expected}: {found:?}");
    }
}

fn edit(tier: &mut TierExtents, extent: Extent, edit: impl FnOnce(&mut ExtentState)) {
    let mut head = tier.find(extent).unwrap();
    edit(&mut head);
    tier.states.update(extent.start, &head);
}

#[test]
fn a_map_that_differs_from_memory_is_named() {
    let (bed, one, two) = sample();
    let old = bed.checkpoint(1);
    bed.extents.sub_live(one, 50);
    bed.extents.release(two, 0);
    bed.extents.release(two, 0);
    let new = bed.live(0, 1, 7);
    // Extents that have changed since the last freeze are not compared.
    assert_eq!(bed.extents.check_map(bed.directory.as_ref(), &old).unwrap(), []);
    bed.checkpoint(2);
    let found = bed.extents.check_map(bed.directory.as_ref(), &old).unwrap();
    let differs = |extent, on_disk, in_memory| ExtentViolation::Map {
        extent,
        on_disk,
        in_memory,
    };
    let expected = [
        differs(one, Some((1, 100)), Some((1, 50))),
        differs(two, Some((2, 200)), None),
        differs(new, None, Some((1, 7))),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_a_crash_leaves_behind_goes_with_the_next_durable_generation() {
    let (bed, ..) = sample();
    let pointer = bed.checkpoint(1);
    for stray in [7, 9] {
        bed.directory
            .create(&map_file(stray), alluvium_device::FileOptions::DIRECT)
            .unwrap();
    }
    let opened = bed.reopen(&pointer).unwrap();
    let maps = || {
        bed.directory
            .list()
            .unwrap()
            .into_iter()
            .filter(|name| name.ends_with(".map"))
            .count()
    };
    assert_eq!(maps(), 3, "opening changes nothing");
    let frozen = opened.freeze(2);
    let pointer = opened.write_map(&bed.directory, frozen).unwrap();
    opened.made_durable(2);
    assert_eq!((maps(), pointer.file), (1, 1));
}

#[test]
#[should_panic(expected = "a cut is under way")]
fn two_cuts_at_once_are_a_bug() {
    let (bed, ..) = sample();
    let _first = bed.extents.freeze(1);
    let _second = bed.extents.freeze(2);
}
