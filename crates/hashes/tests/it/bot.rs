//! The bundles of trees against a map, and what the theory says of them.

use crate::faults::{damage_everywhere, fail_at_every_write};
use crate::support::{Mix, Model, agree, bot, bots, drive, key};
use alluvium_filters::fingerprint::Independence;
use alluvium_hashes::blocks::{Machine, MemorySpace};
use alluvium_hashes::bot::{Bot, BotOptions, Schedule};

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
        let schedule = Schedule::Every { beta };
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
