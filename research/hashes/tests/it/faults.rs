//! Failing writes, crashes at every write, and damage.

use crate::support::{KINDS, Mix, Model, Table, agree, boa, key};
use research_hashes::blocks::BlockFault;
use research_hashes::boa::BoaOptions;

/// What an operation of the story does.
fn operate<T: Table>(table: &mut T, model: &mut Model, at: u64, mix: Mix) -> bool {
    let mut random = fastrand::Rng::with_seed(at);
    let key = key(random.u64(..mix.keys));
    if random.u32(..100) < mix.deletes {
        let done = table.delete(&key).is_ok();
        if done {
            model.remove(&key);
        }
        return done;
    }
    let value = vec![at as u8; random.usize(..=mix.longest_value)];
    let done = table.insert(&key, &value).is_ok();
    if done {
        model.insert(key, value);
    }
    done
}

/// Fails every write of a story in turn: the operation changes nothing, a crash leaves the last
/// commit, and the table continues to work once the device has recovered.
pub(crate) fn fail_at_every_write<T: Table>(create: impl Fn() -> T, mix: Mix, operations: u64) {
    let mut faults = 0;
    for fault in 1.. {
        let (mut table, mut model) = (create(), Model::new());
        let mut durable: Option<Model> = None;
        table.space().inject(BlockFault::WritesFrom(fault));
        let mut failed = None;
        for at in 0..operations {
            if !operate(&mut table, &mut model, at, mix) {
                failed = Some(at);
                break;
            }
            if at % 60 == 59 {
                if table.commit().is_err() {
                    failed = Some(at + 1);
                    break;
                }
                durable = Some(model.clone());
            }
        }
        let Some(failed) = failed else { break };
        faults += 1;
        match durable {
            Some(durable) => agree(&T::reopen(table.space().crashed()).unwrap(), &durable, mix.keys),
            None => assert!(T::reopen(table.space().crashed()).is_err()),
        }
        table.space().clear_faults();
        agree(&table, &model, mix.keys);
        for at in failed..failed + 70 {
            assert!(operate(&mut table, &mut model, at, mix));
        }
        table.commit().unwrap();
        agree(&T::reopen(table.space().crashed()).unwrap(), &model, mix.keys);
    }
    assert!(faults > 40, "{faults} writes");
}

/// Corrupts every part of the space in turn. With checksums, reads return an error; without them,
/// an error or a wrong answer. No read panics.
pub(crate) fn damage_everywhere<T: Table>(create: impl Fn() -> T, mix: Mix, operations: u64) {
    let (mut table, mut model) = (create(), Model::new());
    for at in 0..operations {
        assert!(operate(&mut table, &mut model, at, mix));
    }
    table.commit().unwrap();
    let space = table.space().crashed();
    let mut random = fastrand::Rng::with_seed(2);
    let (mut refused, mut tried) = (0, 0);
    for extent in space.extents() {
        for _ in 0..3 {
            let at = extent.at + random.u64(..extent.bytes);
            let mask = random.u8(1..);
            let proved = space.crashed();
            proved.damage(at, mask);
            let answers = |table: &T| {
                (0..mix.keys)
                    .map(|number| table.get(&key(number)))
                    .collect::<Vec<_>>()
            };
            tried += 1;
            match T::reopen(proved) {
                Err(_) => refused += 1,
                Ok(table) => {
                    for (number, answer) in answers(&table).into_iter().enumerate() {
                        match answer {
                            Ok(value) => assert_eq!(value, model.get(&key(number as u64)).cloned()),
                            Err(_) => refused += 1,
                        }
                    }
                }
            }
            let lying = space.crashed();
            lying.damage(at, mask);
            lying.inject(BlockFault::NoChecksums);
            if let Ok(mut table) = T::reopen(lying) {
                let _ = (
                    answers(&table),
                    table.violations(),
                    table.history(&key(3)),
                    table.extents(),
                );
                let _ = table.insert(&key(1), &[0; 10]);
            }
        }
    }
    assert!(refused > tried / 2, "{refused} of {tried}");
}

#[test]
fn tables_of_levels_live_through_a_failure_at_every_write() {
    for kind in KINDS {
        let mix = Mix {
            keys: 60,
            deletes: 25,
            longest_value: 40,
        };
        fail_at_every_write(|| boa(BoaOptions::new(kind, 256, 2048)), mix, 240);
    }
}

#[test]
fn damage_to_tables_of_levels_is_refused_or_harmless() {
    for kind in KINDS {
        let mix = Mix {
            keys: 60,
            deletes: 10,
            longest_value: 90,
        };
        damage_everywhere(|| boa(BoaOptions::new(kind, 256, 2048)), mix, 500);
    }
}

#[test]
fn failing_reads_are_errors_and_change_nothing() {
    for kind in KINDS {
        let mix = Mix {
            keys: 200,
            deletes: 20,
            longest_value: 20,
        };
        let (mut table, mut model) = (boa(BoaOptions::new(kind, 256, 2048)), Model::new());
        for at in 0..2000 {
            if at % 7 == 6 {
                Table::space(&table).inject(BlockFault::ReadsFrom(1 + at % 5));
            }
            operate(&mut table, &mut model, at, mix);
            Table::space(&table).clear_faults();
        }
        agree(&table, &model, mix.keys);
    }
}
