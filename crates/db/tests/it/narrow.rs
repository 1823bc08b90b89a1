//! A first tier with little space, and writers that are as fast as they can be: what compactions
//! move to the next tier makes space, so that writers wait for it and are not refused.

use crate::tiers::places;
use alluvium::{
    Db, HashedForm, HashedOptions, KeyspaceOptions, LevelsOptions, Options, Structure, TierOptions,
};

/// The least that a first tier may have, and values that are several times as much.
const FIRST_BYTES: u64 = 16 << 20;
const RECORDS: u32 = 8_000;

fn load(structure: &Structure) {
    let (_place, [fast, large, ..]) = places();
    let options = Options::new().memory(16 << 20).workers(2).max_bytes(FIRST_BYTES);
    let db: Db = options.tier(&large, TierOptions::new()).open(&fast).unwrap();
    let named = KeyspaceOptions::new().structure(structure.clone());
    let keyspace = db.keyspace_with("k", &named).unwrap();
    for number in 0..RECORDS {
        let key = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
        let written = keyspace.put(key, vec![number as u8; 4000]);
        written.unwrap_or_else(|error| panic!("{structure}: record {number}: {error}"));
    }
    let stats = db.stats();
    let used: Vec<u64> = stats
        .tiers
        .iter()
        .map(|tier| tier.space.live_extent_bytes)
        .collect();
    assert!(
        used[0] <= FIRST_BYTES && used[1] > FIRST_BYTES,
        "{structure}: {used:?}"
    );
    assert_eq!(keyspace.unordered().count(), RECORDS as usize, "{structure}");
    assert_eq!(db.check().unwrap(), [""; 0], "{structure}");
}

/// Writers wait for five seconds at most, by the clock: `.ci/campaign` sets `ALLUVIUM_NARROW` and
/// runs all of it. Otherwise only the structure is loaded that every store has.
#[test]
fn writers_wait_for_space_that_is_coming() {
    let bundle = HashedForm::Boa {
        lambda: 4,
        refined: true,
    };
    for structure in [
        Structure::Tiered,
        Structure::Levels(LevelsOptions::samt(4)),
        Structure::Hashed(HashedOptions::default()),
        Structure::Hashed(HashedOptions::default().form(bundle)),
    ] {
        load(&structure);
        if std::env::var_os("ALLUVIUM_NARROW").is_none() {
            break;
        }
    }
}
