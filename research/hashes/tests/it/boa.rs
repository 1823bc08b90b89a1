//! Compares tables of levels with their theoretical bounds.

use crate::support::{KINDS, boa, key};
use research_hashes::blocks::MachineModel;
use research_hashes::boa::{BoaOptions, BoaStructure};

#[test]
fn impossible_options_are_refused_by_name() {
    let good = BoaOptions::new(BoaStructure::Routed, 512, 8192);
    for (bad, word) in [
        (BoaOptions { growth: 3, ..good }, "power of two"),
        (BoaOptions { growth: 0, ..good }, "power of two"),
        (BoaOptions { growth: 512, ..good }, "power of two"),
        (
            BoaOptions {
                fingerprint_bits: 4,
                ..good
            },
            "8 to 128",
        ),
        (
            BoaOptions {
                machine: MachineModel::Oblivious,
                ..good
            },
            "routing trees",
        ),
        (BoaOptions::new(BoaStructure::Routed, 100, 8192), "128 bytes"),
        (BoaOptions::new(BoaStructure::Routed, 512, 1024), "4 blocks"),
        (
            BoaOptions {
                beta_bits: Some(40),
                ..good
            },
            "2^16",
        ),
    ] {
        let text = bad.checked().unwrap_err().to_string();
        assert!(text.contains(word), "{text}");
    }
    for kind in KINDS {
        assert!(BoaOptions { kind, ..good }.checked().is_ok());
    }
}

/// Inserts `count` keys of 5 bytes with values of 8.
fn filled(
    options: BoaOptions,
    count: u64,
) -> research_hashes::boa::BoaTable<research_hashes::blocks::MemoryBlockSpace> {
    let mut table = boa(options);
    for number in 0..count {
        table.insert(&key(number), &number.to_le_bytes()).unwrap();
    }
    table
}

#[test]
fn a_record_is_merged_half_lambda_times_or_once_a_level() {
    for growth in [4u32, 8, 16] {
        let merged = |kind| {
            let options = BoaOptions {
                growth,
                ..BoaOptions::new(kind, 512, 1 << 16)
            };
            let table = filled(options, 40_000);
            let levels = f64::from(table.runs().len() as u32);
            table.figures().merged_records as f64 / 40_000.0 / levels
        };
        let (leveled, tiered) = (merged(BoaStructure::Leveled), merged(BoaStructure::Tiered));
        let half = f64::from(growth) / 2.0;
        assert!(
            (0.45..1.35).contains(&(leveled / half)),
            "λ = {growth}: {leveled}, {half} expected"
        );
        assert!(
            (0.5..=1.0).contains(&tiered),
            "λ = {growth}: {tiered}, at most 1 expected"
        );
    }
}

#[test]
fn the_fullest_bucket_holds_a_constant_times_the_mean() {
    // Lemma 3, over 1000 seeds: a bucket of about 16 records.
    let mut worst: f64 = 0.0;
    for seed in 0..1000 {
        let options = BoaOptions {
            seed,
            growth: 16,
            ..BoaOptions::new(BoaStructure::Interpolated, 512, 1 << 16)
        };
        let mut table = boa(options);
        for number in 0..260 {
            table.insert(&key(number), &[0; 8]).unwrap();
        }
        table.rebuild().unwrap();
        for (fullest, mean) in table.buckets() {
            worst = worst.max(fullest as f64 / mean);
        }
    }
    assert!((1.5..3.2).contains(&worst), "{worst}");
}

#[test]
fn an_interpolated_lookup_reads_two_blocks_at_most_nearly_always() {
    let options = BoaOptions {
        growth: 256,
        ..BoaOptions::new(BoaStructure::Interpolated, 1024, 1 << 20)
    };
    let mut table = research_hashes::boa::BoaTable::create(
        research_hashes::blocks::MemoryBlockSpace::new(1024, 1 << 32).with_meter(1024, 1024),
        options,
    )
    .unwrap();
    for number in 0..60_000 {
        table.insert(&key(number), &[0; 8]).unwrap();
    }
    table.rebuild().unwrap();
    let mut over = 0;
    for number in (0..60_000).step_by(13) {
        table.space().cool();
        let before = table.space().transfers(0);
        table.get(&key(number)).unwrap();
        let reads = table.space().transfers(0).since(before).reads;
        assert!((1..=3).contains(&reads), "{reads}");
        over += u32::from(reads > 2);
    }
    assert!(
        over <= 5,
        "{over} of 4615 lookups found an overflow that straddles blocks"
    );
}

/// Returns the false positives for each level and lookup of an absent key.
fn false_positives(options: BoaOptions) -> f64 {
    let table = filled(options, 30_000);
    let before = table.figures();
    for number in 1_000_000..1_003_000 {
        assert_eq!(table.get(&key(number)).unwrap(), None);
    }
    let after = table.figures();
    (after.false_positives - before.false_positives) as f64
        / (after.levels_asked - before.levels_asked) as f64
}

#[test]
fn false_positives_of_the_boa_follow_lambda_by_beta() {
    for growth in [4, 16] {
        let of = |beta_bits| {
            false_positives(BoaOptions {
                growth,
                beta_bits,
                ..BoaOptions::new(BoaStructure::Routed, 512, 1 << 16)
            })
        };
        let usual = of(None);
        assert!(usual <= 1.0, "λ = {growth}, β = λ: {usual}");
        let [two, eight, more] = [1, 3, 5].map(|bits| of(Some(bits)));
        assert!(
            two > 2.0 * eight && eight > 2.5 * more,
            "λ = {growth}: {two}, {eight}, {more}"
        );
    }
}

#[test]
fn false_positives_of_the_refined_boa_are_about_one_in_lambda() {
    for growth in [4u32, 16] {
        let options = BoaOptions {
            growth,
            ..BoaOptions::new(BoaStructure::Refined, 512, 1 << 16)
        };
        let found = false_positives(options);
        let expected = 1.0 / f64::from(growth);
        assert!(
            found <= 1.15 * expected && found > 0.2 * expected,
            "λ = {growth}: {found}, at most {expected}"
        );
        let table = filled(options, 30_000);
        for (records, bytes) in table.filter_bytes() {
            let bits = bytes as f64 * 8.0 / records as f64;
            let most = 3.0 * f64::from(growth.ilog2()) + 4.0 + 2.0 * 48.0 / 12.0;
            assert!(
                records < 50 || bits < most,
                "λ = {growth}: {bits} bits a record, at most {most}"
            );
        }
    }
}

#[test]
fn merges_take_more_passes_when_memory_is_short() {
    let reads = |memory: u64| {
        let options = BoaOptions {
            growth: 64,
            ..BoaOptions::new(BoaStructure::Tiered, 256, memory)
        };
        let space = research_hashes::blocks::MemoryBlockSpace::new(256, 1 << 32).with_meter(256, memory);
        let mut table = research_hashes::boa::BoaTable::create(space, options).unwrap();
        for number in 0..20_000 {
            table.insert(&key(number), &[0; 8]).unwrap();
        }
        assert_eq!(table.check().unwrap(), []);
        table.space().transfers(0).total()
    };
    let (scarce, ample) = (reads(1024), reads(1 << 17));
    assert!(scarce > 3 * ample, "two streams at once: {scarce}, 256: {ample}");
}
