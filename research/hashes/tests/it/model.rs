//! Compares every table with a map: mixed operations, invalid input, values of any size.

use crate::support::{KINDS, Mix, agree, boa, drive, key};
use alluvium_filters::fingerprint::HashIndependence;
use research_hashes::boa::{BoaOptions, BoaStructure, DuplicateHandling};

fn options(kind: BoaStructure) -> BoaOptions {
    BoaOptions::new(kind, 512, 8192)
}

#[test]
fn a_hundred_thousand_mixed_operations_on_each_table_of_levels() {
    for kind in KINDS {
        let mut table = boa(options(kind));
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
        assert!(table.runs().len() >= 3, "{kind:?}: {:?}", table.runs());
    }
}

#[test]
fn every_growth_factor_and_folding_answer_alike() {
    for kind in KINDS {
        for growth in [2, 4, 16, 64] {
            for duplicates in [DuplicateHandling::Keep, DuplicateHandling::Fold] {
                let mut table = boa(BoaOptions {
                    growth,
                    duplicates,
                    ..options(kind)
                });
                drive(
                    &mut table,
                    Mix {
                        keys: 500,
                        deletes: 10,
                        longest_value: 10,
                    },
                    6000,
                    u64::from(growth),
                );
            }
        }
    }
}

#[test]
fn deletes_win_by_time_and_rebuilds_reclaim_space() {
    for kind in KINDS {
        let mut table = boa(options(kind));
        for number in 0..6000 {
            table.insert(&key(number), &[1; 20]).unwrap();
        }
        let full = table.space().used_bytes();
        for number in 0..6000 {
            table.delete(&key(number)).unwrap();
            if number % 3 == 0 {
                table.insert(&key(number), &[2; 20]).unwrap();
            }
        }
        assert!(table.figures().rebuilds >= 1, "{kind:?}");
        table.rebuild().unwrap();
        let left = table.space().used_bytes();
        assert!(left * 10 < full * 5, "{kind:?}: {left} of {full} bytes are left");
        let model = (0..6000)
            .step_by(3)
            .map(|number| (key(number), vec![2; 20]))
            .collect();
        agree(&table, &model, 6000);
        for number in (0..6000).step_by(3) {
            table.delete(&key(number)).unwrap();
        }
        table.rebuild().unwrap();
        assert_eq!(table.space().used_bytes(), 0, "{kind:?}: nothing is left");
    }
}

#[test]
fn all_keys_may_have_one_fingerprint() {
    for kind in KINDS {
        let forced = BoaOptions {
            independence: HashIndependence::Words(1),
            ..options(kind)
        };
        let mut table = boa(forced);
        drive(
            &mut table,
            Mix {
                keys: 200,
                deletes: 20,
                longest_value: 30,
            },
            1500,
            4,
        );
        // With eight bits, fingerprints collide and grow with the table.
        let mut table = boa(BoaOptions {
            fingerprint_bits: 8,
            ..options(kind)
        });
        drive(
            &mut table,
            Mix {
                keys: 3000,
                deletes: 5,
                longest_value: 12,
            },
            8000,
            5,
        );
        if kind == BoaStructure::Refined {
            assert!(table.options().fingerprint_bits > 8);
        }
    }
}

#[test]
fn all_keys_may_be_equal() {
    for kind in KINDS {
        for duplicates in [DuplicateHandling::Keep, DuplicateHandling::Fold] {
            let mut table = boa(BoaOptions {
                duplicates,
                ..options(kind)
            });
            for number in 0..3000u32 {
                table.insert(b"same", &number.to_le_bytes()).unwrap();
            }
            assert_eq!(table.get(b"same").unwrap().unwrap(), 2999u32.to_le_bytes());
            let history = table.history(b"same").unwrap();
            let expected: Vec<_> = (0..3000u32)
                .rev()
                .map(|number| Some(number.to_le_bytes().to_vec()))
                .collect();
            if duplicates == DuplicateHandling::Keep {
                assert_eq!(history, expected, "{kind:?}: all, the newest first");
            } else {
                assert!(
                    history.len() < 300 && history[0] == expected[0],
                    "{kind:?}: {}",
                    history.len()
                );
            }
            assert_eq!(table.check().unwrap(), []);
        }
    }
}

#[test]
fn keys_and_values_may_have_any_size() {
    for kind in KINDS {
        let mut table = boa(BoaOptions {
            duplicates: DuplicateHandling::Fold,
            ..options(kind)
        });
        let mut random = fastrand::Rng::with_seed(6);
        let mut model = crate::support::Model::new();
        for _ in 0..1500 {
            let number = random.u64(..300);
            let mut key = key(number);
            key.resize(5 + (number as usize % 7) * 200, 3);
            let longest = 1 << random.u32(..14);
            let value = vec![random.u8(..); random.usize(..longest)];
            table.insert(&key, &value).unwrap();
            model.insert(key, value);
        }
        table.insert(b"", b"").unwrap();
        assert_eq!(table.get(b"").unwrap().unwrap(), b"");
        for (key, value) in &model {
            assert_eq!(table.get(key).unwrap().as_ref(), Some(value));
        }
        assert_eq!(table.check().unwrap(), []);
        assert_eq!(table.extents().unwrap(), table.space().extents());
    }
}
