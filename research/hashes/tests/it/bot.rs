//! Compares the bundles of trees with a map and with their theoretical bounds.

use crate::faults::{damage_everywhere, fail_at_every_write};
use crate::support::{Mix, Model, agree, bot, bots, drive, key};
use alluvium_filters::fingerprint::HashIndependence;
use research_hashes::blocks::{MachineModel, MemoryBlockSpace};
use research_hashes::bot::{BotOptions, BotTable, QueueSchedule};

#[test]
fn a_hundred_thousand_mixed_operations_on_each_bundle_of_trees() {
    for options in bots() {
        let mut table = bot(options);
        drive(
            &mut table,
            Mix {
                keys: 20_000,
                deletes: 20,
                longest_value: 24,
            },
            100_000,
            1,
        );
        assert!(
            table
                .figures()
                .promotions
                .iter()
                .filter(|count| **count > 0)
                .count()
                >= 3
        );
    }
}

#[test]
fn every_growth_factor_and_schedule_answers_alike() {
    for options in bots() {
        for growth in [2, 4, 16, 64] {
            let mut table = bot(BotOptions {
                growth,
                levels: 3,
                ..options
            });
            drive(
                &mut table,
                Mix {
                    keys: 500,
                    deletes: 10,
                    longest_value: 10,
                },
                5000,
                u64::from(growth),
            );
        }
    }
    for beta in [1, 2, 3, 5] {
        let schedule = QueueSchedule::Every { beta };
        let mut table = bot(BotOptions {
            growth: 2,
            levels: 11,
            schedule,
            ..BotOptions::new(256, 4096)
        });
        drive(
            &mut table,
            Mix {
                keys: 2000,
                deletes: 5,
                longest_value: 10,
            },
            12_000,
            u64::from(beta),
        );
    }
}

#[test]
fn impossible_options_are_refused_by_name() {
    let good = BotOptions::new(512, 8192);
    for (bad, word) in [
        (BotOptions { growth: 3, ..good }, "power of two"),
        (BotOptions { growth: 1, ..good }, "power of two"),
        (BotOptions { levels: 0, ..good }, "1 to 60 levels"),
        (BotOptions { levels: 61, ..good }, "1 to 60 levels"),
        (
            BotOptions {
                fingerprint_bits: 200,
                ..good
            },
            "8 to 128",
        ),
        (
            BotOptions {
                schedule: QueueSchedule::Every { beta: 0 },
                ..good
            },
            "1 to 64",
        ),
        (BotOptions::new(64, 8192), "128 bytes"),
    ] {
        let text = bad.checked().unwrap_err().to_string();
        assert!(text.contains(word), "{text}");
    }
    for omega in [0.5, 0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(
            good.for_asymmetry(omega, 1 << 20)
                .unwrap_err()
                .to_string()
                .contains("at least 1")
        );
    }
    assert!(BotOptions::oblivious().for_asymmetry(2.0, 1 << 20).is_err());
    // A table too large for any fingerprint is planned with fewer levels.
    let deep = BotOptions {
        growth: 256,
        levels: 60,
        fingerprint_bits: 128,
        ..good
    };
    let mut table = bot(deep);
    drive(
        &mut table,
        Mix {
            keys: 100,
            deletes: 5,
            longest_value: 9,
        },
        300,
        1,
    );
    assert_eq!(table.options().levels, 5);
}

#[test]
fn deletes_win_by_time_and_rebuilds_reclaim_space() {
    for options in bots() {
        let mut table = bot(options);
        for number in 0..4000 {
            table.insert(&key(number), &[1; 20]).unwrap();
        }
        let full = table.space().used_bytes();
        for number in 0..4000 {
            table.delete(&key(number)).unwrap();
            if number % 3 == 0 {
                table.insert(&key(number), &[2; 20]).unwrap();
            }
        }
        assert!(table.figures().rebuilds >= 1);
        table.rebuild().unwrap();
        let left = table.space().used_bytes();
        assert!(left * 10 < full * 6, "{left} of {full} bytes are left");
        let model: Model = (0..4000)
            .step_by(3)
            .map(|number| (key(number), vec![2; 20]))
            .collect();
        agree(&table, &model, 4000);
        for number in (0..4000).step_by(3) {
            table.delete(&key(number)).unwrap();
        }
        table.rebuild().unwrap();
        assert_eq!(table.space().used_bytes(), 0, "nothing is left");
    }
}

#[test]
fn fingerprints_may_collide_and_keys_be_equal_or_of_any_size() {
    for options in bots() {
        let forced = BotOptions {
            independence: HashIndependence::Words(1),
            ..options
        };
        let mut table = bot(forced);
        drive(
            &mut table,
            Mix {
                keys: 150,
                deletes: 20,
                longest_value: 30,
            },
            900,
            4,
        );
        let mut table = bot(options);
        for number in 0..3000u32 {
            table.insert(b"same", &number.to_le_bytes()).unwrap();
        }
        assert_eq!(table.get(b"same").unwrap().unwrap(), 2999u32.to_le_bytes());
        let expected: Vec<_> = (0..3000u32)
            .rev()
            .map(|number| Some(number.to_le_bytes().to_vec()))
            .collect();
        assert!(
            table.history(b"same").unwrap() == expected,
            "all, the newest first"
        );
        assert_eq!(table.check().unwrap(), []);

        let mut table = bot(options);
        let (mut random, mut model) = (fastrand::Rng::with_seed(6), Model::new());
        for _ in 0..800 {
            let number = random.u64(..300);
            let mut key = key(number);
            key.resize(5 + (number as usize % 7) * 200, 3);
            let longest = 1 << random.u32(..14);
            let value = vec![random.u8(..); random.usize(..longest)];
            table.insert(&key, &value).unwrap();
            model.insert(key, value);
        }
        table.insert(b"", b"").unwrap();
        model.insert(Vec::new(), Vec::new());
        table.rebuild().unwrap();
        assert!(
            model
                .iter()
                .all(|(key, value)| table.get(key).unwrap().as_ref() == Some(value))
        );
        agree(&table, &Model::new(), 0);
    }
}

#[test]
fn groups_that_memory_does_not_hold_keep_the_order_of_the_log() {
    // A key that occurs often enough that the items of its prefix are sorted in parts.
    for schedule in [QueueSchedule::Ruler, QueueSchedule::Every { beta: 3 }] {
        let options = BotOptions {
            growth: 4,
            levels: 8,
            schedule,
            ..BotOptions::new(256, 4096)
        };
        let mut table = bot(options);
        for number in 0..20_000u32 {
            table.insert(b"same", &number.to_le_bytes()).unwrap();
        }
        assert_eq!(table.check().unwrap(), []);
        let history = table.history(b"same").unwrap();
        assert!(
            history
                .iter()
                .rev()
                .zip(0u32..)
                .all(|(value, number)| value.as_deref() == Some(&number.to_le_bytes()))
        );
        assert_eq!(history.len(), 20_000);
    }
}

#[test]
fn a_table_grows_beyond_the_size_it_was_planned_for() {
    for options in bots() {
        let mut table = bot(BotOptions {
            levels: 1,
            fingerprint_bits: 16,
            ..options
        });
        let mut model = Model::new();
        for number in 0..3000 {
            table.insert(&key(number), &[3]).unwrap();
            model.insert(key(number), vec![3]);
        }
        let grown = table.options();
        assert!(grown.levels >= 4 && grown.fingerprint_bits > 16, "{grown:?}");
        agree(&table, &model, 3000);
    }
}

#[test]
fn false_positives_are_one_in_lambda_in_roots_and_survive_a_level_as_rarely() {
    // Lemma 9. 5-sigma bounds: the seeds are fixed.
    for growth in [4u32, 16] {
        let options = BotOptions {
            growth,
            fingerprint_bits: 128,
            ..BotOptions::new(512, 8192)
        };
        let mut table = bot(options.planned_for(60_000, 16));
        for number in 0..60_000 {
            table.insert(&key(number), &[0; 8]).unwrap();
        }
        let before = table.figures();
        for number in 1_000_000..1_012_000 {
            assert_eq!(table.get(&key(number)).unwrap(), None);
        }
        let after = table.figures();
        let p = 1.0 / f64::from(growth);
        for (what, passes, entries) in [
            (
                "root",
                after.root_passes - before.root_passes,
                after.root_entries - before.root_entries,
            ),
            (
                "level",
                after.inner_passes - before.inner_passes,
                after.inner_entries - before.inner_entries,
            ),
        ] {
            let (share, sigma) = (
                passes as f64 / entries as f64,
                (p * (1.0 - p) / entries as f64).sqrt(),
            );
            assert!(entries > 500, "λ = {growth}, {what}: {entries} entries");
            assert!(
                (share - p).abs() < 3.5 * sigma,
                "λ = {growth}, {what}: {share} of {entries}, {p} ± {sigma}"
            );
        }
    }
}

#[test]
fn a_rebuilt_table_has_prefixes_as_even_as_before() {
    // In fingerprint order, a small tree would contain only records of a few prefixes.
    let mut table = bot(BotOptions {
        fingerprint_bits: 128,
        ..BotOptions::new(256, 4096)
    });
    for number in 0..6000 {
        table.insert(&key(number), &[0; 4]).unwrap();
    }
    let most = |table: &BotTable<MemoryBlockSpace>| {
        let met = |number| {
            let before = table.figures().root_entries;
            table.history(&key(number)).unwrap();
            table.figures().root_entries - before
        };
        (0..6000).map(met).max().unwrap()
    };
    let before = most(&table);
    table.rebuild().unwrap();
    let after = most(&table);
    assert!(
        before < 16 && after < 16,
        "{before} entries with a key's prefix, {after} after the rebuild"
    );
}

#[test]
fn the_log_is_written_once_and_every_level_cascades() {
    let options = BotOptions {
        levels: 7,
        ..BotOptions::new(256, 4096)
    };
    let mut table = bot(options);
    for number in 0..40_000 {
        table.insert(&key(number), &[0; 4]).unwrap();
    }
    let figures = table.figures();
    assert_eq!(
        (figures.rebuilds, figures.log_bytes),
        (0, table.log_bytes()),
        "T1: no record moves"
    );
    let leaves = table.log_bytes() / 256;
    for (above, promotions) in figures.promotions.iter().enumerate() {
        assert_eq!(
            *promotions,
            leaves / 4u64.pow(above as u32 + 1),
            "level {}",
            above + 1
        );
    }
    assert!(figures.promotions[4] > 0);
    // The digits of the number of leaves are the degrees of the roots.
    let mut rest = leaves;
    for degree in table.degrees() {
        assert_eq!(u64::from(degree), rest % 4);
        rest /= 4;
    }
}

#[test]
fn the_queue_merges_as_many_runs_as_the_ruler_says() {
    for growth in [2u32, 4] {
        let options = BotOptions {
            growth,
            fingerprint_bits: 128,
            ..BotOptions::new(256, 1 << 14)
        };
        let mut table = bot(options.planned_for(40_000, 10));
        for number in 0..40_000 {
            table.insert(&key(number), &[0; 4]).unwrap();
        }
        let figures = table.figures();
        for (level, &arity) in figures
            .arity
            .iter()
            .enumerate()
            .skip(2)
            .filter(|(_, arity)| **arity > 0)
        {
            let most = u64::from(growth).pow(1 << level.trailing_zeros());
            // Series started by leaves have one level less as a possible origin.
            let exact = if level.is_power_of_two() {
                most / u64::from(growth)
            } else {
                most
            };
            assert_eq!(arity, exact, "λ = {growth}, level {level}");
        }
        if growth == 4 {
            assert_eq!(figures.arity[2..7], [4, 4, 64, 4, 16]);
        }
        // Bits written at a level: none at odd ones, more the more often two divides the level.
        let each = |level: usize| figures.queue_bits[level] as f64 / 40_000.0;
        assert!(
            each(3) == 0.0 && each(5) == 0.0 && each(2) > 0.0 && each(4) > 1.3 * each(2),
            "λ = {growth}"
        );
        let (_, tails) = table.queue_bytes();
        let levels = u64::from(table.options().levels);
        assert!(tails <= 256 * levels, "{tails} bytes wait in memory");
    }
}

#[test]
fn only_every_beta_th_level_writes_and_answers_stay() {
    let filled = |schedule| {
        let options = BotOptions {
            growth: 2,
            fingerprint_bits: 128,
            schedule,
            ..BotOptions::new(256, 1 << 16)
        };
        let space = MemoryBlockSpace::new(256, 1 << 32).with_meter(256, 2048);
        let mut table = BotTable::create(space, options.planned_for(20_000, 10)).unwrap();
        for number in 0..20_000 {
            table
                .insert(&key(number % 15_000), &number.to_le_bytes())
                .unwrap();
        }
        table
    };
    let usual = filled(QueueSchedule::Ruler);
    let mut before: Option<(f64, f64)> = None;
    for beta in [1u32, 2, 4] {
        let table = filled(QueueSchedule::Every { beta });
        let figures = table.figures();
        for (level, bits) in figures.queue_bits.iter().enumerate().skip(1) {
            // Items that fill level i are counted on arrival, at level i + 1.
            assert!(
                *bits == 0 || (level as u32 - 1).is_multiple_of(beta),
                "β = {beta}: level {level} wrote {bits}"
            );
        }
        for number in 0..16_000 {
            assert_eq!(table.get(&key(number)).unwrap(), usual.get(&key(number)).unwrap());
        }
        let moved = table.space().transfers(0);
        let (reads, writes) = (moved.reads as f64, moved.writes as f64);
        if let Some((fewer, more)) = before {
            assert!(writes < more, "β = {beta}: writes fall: {more}, {writes}");
            assert!(reads > fewer, "β = {beta}: reads rise: {fewer}, {reads}");
        }
        before = Some((reads, writes));
    }
    let base = BotOptions {
        growth: 2,
        levels: 12,
        ..BotOptions::new(1024, 1 << 20)
    };
    let chosen = [1.0, 1.5, 4.0].map(
        |omega| match base.for_asymmetry(omega, 1 << 16).unwrap().schedule {
            QueueSchedule::Every { beta } => beta,
            QueueSchedule::Ruler => 0,
        },
    );
    assert!(
        chosen.is_sorted() && chosen[0] >= 2 && chosen[2] <= 6,
        "{chosen:?}"
    );
}

#[test]
fn the_oblivious_table_moves_as_much_as_the_aware_one_below_any_memory() {
    let count = 8000u64;
    let memories = [(256u32, 1u64 << 14), (512, 1 << 15), (1024, 1 << 16)];
    let options = BotOptions {
        fingerprint_bits: 128,
        ..BotOptions::oblivious()
    };
    assert_eq!(options.machine, MachineModel::Oblivious);
    let mut space = MemoryBlockSpace::new(8, 1 << 32);
    for (block, memory) in memories {
        space = space.with_meter(u64::from(block), memory);
    }
    let mut oblivious = BotTable::create(space, options.planned_for(count, 1)).unwrap();
    for number in 0..count {
        oblivious.insert(&key(number), &[0; 8]).unwrap();
    }
    oblivious.space().cool();
    for (meter, (block, memory)) in memories.into_iter().enumerate() {
        let options = BotOptions {
            fingerprint_bits: 128,
            ..BotOptions::new(block, memory)
        };
        let space = MemoryBlockSpace::new(u64::from(block), 1 << 32).with_meter(u64::from(block), memory);
        let mut aware = BotTable::create(space, options.planned_for(count, u64::from(block) / 32)).unwrap();
        for number in 0..count {
            aware.insert(&key(number), &[0; 8]).unwrap();
        }
        aware.space().cool();
        let (one, other) = (
            oblivious.space().transfers(meter).total(),
            aware.space().transfers(0).total(),
        );
        assert!(
            one < 4 * other && other < 4 * one,
            "B = {block}: {one} without B and M, {other} with"
        );
    }
}

#[test]
fn bundles_of_trees_live_through_a_failure_at_every_write() {
    for (options, operations) in bots().into_iter().zip([240, 130, 240]) {
        let options = match options.machine {
            MachineModel::Blocks { .. } => BotOptions {
                machine: MachineModel::Blocks {
                    block_bytes: 256,
                    memory_bytes: 2048,
                },
                levels: 2,
                ..options
            },
            MachineModel::Oblivious => BotOptions { levels: 3, ..options },
        };
        fail_at_every_write(
            || bot(options),
            Mix {
                keys: 60,
                deletes: 25,
                longest_value: 40,
            },
            operations,
        );
    }
}

#[test]
fn damage_to_bundles_of_trees_is_refused_or_harmless() {
    for options in bots() {
        damage_everywhere(
            || bot(options),
            Mix {
                keys: 60,
                deletes: 10,
                longest_value: 90,
            },
            400,
        );
    }
}
