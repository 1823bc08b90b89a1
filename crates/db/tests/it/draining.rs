//! Draining a tier must leave no data of any form on it.

use crate::tiers::{places, small, with};
use alluvium::{Db, HashedForm, HashedOptions, KeyspaceOptions, LevelsOptions, Structure};

#[test]
fn a_tier_is_drained_of_leaves_that_are_taken_over_and_of_values_that_lie_apart() {
    let tree = KeyspaceOptions::new();
    let levels = LevelsOptions::samt(4).stitch(0);
    let levels = KeyspaceOptions::new().structure(Structure::Levels(levels));
    let bundle = HashedForm::Boa {
        lambda: 4,
        refined: true,
    };
    let hashed = HashedOptions::default();
    let hashed = [hashed.clone(), hashed.form(bundle)]
        .map(|hashed| KeyspaceOptions::new().structure(Structure::Hashed(hashed)));
    let [silt, bundle] = hashed;
    for (what, options, value_bytes) in [
        ("leaves of levels", levels.clone(), 200),
        ("values of levels", levels, 9000),
        ("leaves of a tree", tree.clone(), 200),
        ("values of a tree", tree, 9000),
        ("parts of a sorted store", silt.clone(), 200),
        ("values of a sorted store", silt, 9000),
        ("runs of a bundle of arrays", bundle.clone(), 200),
        ("values of a bundle of arrays", bundle, 9000),
    ] {
        let (_place, [fast, one, two, _]) = places();
        let live = |db: &Db, tier: usize| db.stats().tiers[tier].space.live_bytes;
        let count = 4_000_000 / value_bytes as u32;
        let db = with(&[&one, &two]).open(&fast).unwrap();
        let keyspace = db.keyspace_with("k", &options).unwrap();
        for number in 0..count {
            keyspace
                .put(number.to_be_bytes(), vec![number as u8; value_bytes])
                .unwrap();
        }
        db.compact().unwrap();
        assert!(live(&db, 1) > 3_000_000, "{what}: {:?}", db.stats().tiers);
        db.close().unwrap();
        // Drain first to a slower tier, then to a faster one, since the first tier may hold all
        // data.
        let db = with(&[]).open(&fast).unwrap();
        db.drain_tier(&one).unwrap();
        assert_eq!(live(&db, 1), 0, "{what}");
        db.close().unwrap();
        let db = small().open(&fast).unwrap();
        db.drain_tier(&two).unwrap();
        assert_eq!(live(&db, 2), 0, "{what}");
        let keyspace = db.existing_keyspace("k").unwrap();
        for number in 0..count {
            let found = keyspace.get(number.to_be_bytes()).unwrap();
            assert!(
                found.as_deref() == Some(&vec![number as u8; value_bytes][..]),
                "{what}: {number}"
            );
        }
        assert_eq!(db.check().unwrap(), [""; 0], "{what}");
    }
}
