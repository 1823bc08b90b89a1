//! Tests with devices that fail, and with devices that complete reads late and out of order.

use super::*;
use alluvium_device::DeviceOperation;
use alluvium_device::simulated::{CompletionOrder, InjectedFault, SimDirectory, SimOptions};

fn shuffled(seed: u64) -> (SimDirectory, Store) {
    let options = SimOptions {
        completion: CompletionOrder::Shuffled,
        ..SimOptions::new(seed)
    };
    let directory = SimDirectory::with(options);
    let store = store_in(Arc::new(directory.clone()), 4096, 1 << 20);
    (directory, store)
}

fn model() -> Model {
    let mut model = Model::new();
    for number in 0..12_000u32 {
        let value = vec![number as u8; if number % 100 == 0 { 3000 } else { 90 }];
        let key = format!("{number:08}").into_bytes();
        model.insert((key, Reverse(u64::from(number % 30) + 1)), put(value));
    }
    model
}

#[test]
fn a_read_that_fails_is_an_error_and_the_next_one_goes_on() {
    let model = model();
    let (directory, store) = shuffled(1);
    let run = run_of(&store, &options(), &model);
    let (mut failed, mut random) = (0, fastrand::Rng::with_seed(2));
    for _ in 0..30 {
        for access in WAYS {
            for direction in BOTH {
                let range = KeyRange::new(format!("{:08}", random.u32(..12_000)).as_bytes(), None);
                let wanted = expected(&model, &range, direction);
                let mut cursor = run.cursor(&store, range, direction, access);
                directory.inject(InjectedFault::failing(DeviceOperation::Read).at(random.u64(1..20)));
                let found = cursor.start().and_then(|()| drain(&store, &mut cursor));
                directory.clear_faults();
                match found {
                    Ok(found) => assert!(found == wanted),
                    Err(error) => {
                        assert!(matches!(error, Error::Device(_)), "{error}");
                        failed += 1;
                    }
                }
                cursor.start().unwrap();
                assert!(drain(&store, &mut cursor).unwrap() == wanted);
            }
        }
    }
    assert!(failed > 20, "{failed} failed");
}

#[test]
fn a_write_that_fails_gives_everything_up() {
    let model = model();
    for at in 1..4 {
        let (directory, store) = shuffled(at);
        directory.inject(
            InjectedFault::failing(DeviceOperation::Write)
                .on("tier-0.data")
                .at(at),
        );
        let mut builder = RunBuilder::new(&store, &options()).unwrap();
        let mut pushed = model
            .iter()
            .map(|((key, Reverse(sequence)), owned)| builder.push(key, record(*sequence, owned)));
        let mut failed = pushed.find_map(Result::err);
        drop(pushed);
        if failed.is_none() {
            failed = builder.finish().err();
        } else {
            drop(builder);
        }
        let error = failed.unwrap_or_else(|| panic!("write {at} failed"));
        assert!(matches!(error, Error::Device(_)), "{error}");
        assert_eq!(store.extents().usage().total().provisional_bytes, 0);
    }
}
