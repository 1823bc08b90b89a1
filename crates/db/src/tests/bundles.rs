//! Tests of keyspaces whose structure is a bundle of arrays or a bundle of trees.

use super::{hashed_of, memory, pairs, small};
use crate::admin::simulation::{DirectoryOpener as _, StoreScale};
use crate::admin::stats::Stats;
use crate::options::{HashedForm, HashedOptions, KeyspaceOptions, Options, Structure};
use crate::write::batch::WriteBatch;
use alluvium_base::Purpose;
use alluvium_model::structures::{MachineProfile, OperationRates, StructureModel as Model, WorkloadProfile};
use alluvium_sim::environment::effort;
use std::sync::Arc;

fn boa(lambda: u16, refined: bool) -> KeyspaceOptions {
    let form = HashedForm::Boa { lambda, refined };
    KeyspaceOptions::new().structure(Structure::Hashed(HashedOptions::default().form(form)))
}

fn bot(lambda: u16) -> KeyspaceOptions {
    let form = HashedForm::Bot { lambda };
    KeyspaceOptions::new().structure(Structure::Hashed(HashedOptions::default().form(form)))
}

#[test]
fn a_bundle_of_trees_is_kept_merges_and_is_counted() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let k = db.keyspace_with("k", &bot(2)).unwrap();
    for round in 0..60u32 {
        let mut batch = WriteBatch::new();
        for number in 0..200 {
            batch
                .put(&k, (200 * round + number).to_be_bytes(), [round as u8; 300])
                .unwrap();
        }
        db.write(&batch).unwrap();
        while db.work().unwrap() {}
    }
    let before = pairs(&k);
    assert_eq!(before.len(), 12_000);
    let hashed = db.stats().hashed.expect("a keyspace is hashed");
    assert!(hashed.levels > 1 && hashed.filter_bytes > 0, "{hashed:?}");
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = small().open_in(directory).unwrap();
    let k = db.keyspace_with("k", &bot(2)).unwrap();
    assert_eq!(pairs(&k), before);
    for number in (0..12_000u32).step_by(7) {
        assert_eq!(
            k.get(number.to_be_bytes()).unwrap().as_deref(),
            Some(&[(number / 200) as u8; 300][..])
        );
    }
    assert_eq!(k.get(12_000u32.to_be_bytes()).unwrap().as_deref(), None);
    db.compact().unwrap();
    assert_eq!(pairs(&k), before);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn each_form_has_a_structure_of_its_own() {
    let directory = memory();
    let db = small().open_in(Arc::clone(&directory)).unwrap();
    let options = boa(4, true);
    db.keyspace_with("blobs", &options)
        .unwrap()
        .put("key", "value")
        .unwrap();
    let others = [
        boa(4, false),
        boa(8, true),
        bot(4),
        KeyspaceOptions::new().structure(Structure::Hashed(HashedOptions::pachash())),
    ];
    for (number, options) in others.iter().enumerate() {
        let other = db.keyspace_with(&format!("other {number}"), options).unwrap();
        assert_eq!(usize::from(other.definition().dictionary().number), 1 + number);
        other.put("key", number.to_string()).unwrap();
    }
    for lambda in [0, 1, 6, 512] {
        for options in [boa(lambda, true), bot(lambda)] {
            let error = db.keyspace_with("odd", &options).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("a power of two from 2 to 256"), "{text}");
        }
    }
    let trie = HashedOptions::trie().form(HashedForm::Boa {
        lambda: 4,
        refined: true,
    });
    let trie = KeyspaceOptions::new().structure(Structure::Hashed(trie));
    assert!(db.keyspace_with("odd", &trie).is_err());
    assert_eq!(db.keyspaces().len(), 5, "what was refused is not there");
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = small().open_in(directory).unwrap();
    let blobs = db.keyspace_with("blobs", &options).unwrap();
    assert_eq!(blobs.options(), &options);
    assert_eq!(blobs.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    for (number, options) in others.iter().enumerate() {
        let other = db.keyspace_with(&format!("other {number}"), options).unwrap();
        assert_eq!(pairs(&other), [(b"key".into(), number.to_string().into())].into());
    }
    let second = db.keyspace_with("second", &options).unwrap();
    assert_eq!(second.definition().dictionary(), blobs.definition().dictionary());
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn hashes_have_a_seed_of_their_own_in_each_store() {
    let seed = |id| {
        let scale = StoreScale::small(id, 4 << 10, 96 << 10);
        let directory = memory();
        let options = || Options::new().simulated(scale, || 1000);
        let db = options().open_in(Arc::clone(&directory)).unwrap();
        let k = db.keyspace_with("k", &boa(4, true)).unwrap();
        for number in 0..50u32 {
            k.put(number.to_be_bytes(), "v").unwrap();
        }
        let seed = hashed_of(&db).options().own_seed();
        db.close().unwrap();
        drop(k);
        let db = options().open_in(directory).unwrap();
        let found = db.existing_keyspace("k").unwrap();
        assert_eq!(pairs(&found).len(), 50);
        assert_eq!(hashed_of(&db).options().own_seed(), seed);
        seed
    };
    assert_eq!(seed(7), seed(7));
    assert_ne!(seed(7), seed(8));
}

#[test]
fn the_model_says_what_updates_write() {
    const KEYS: u64 = 30_000;
    let arrays = [(4, false), (4, true), (8, true)].map(|(lambda, refined)| {
        let model = Model::Boa {
            lambda: lambda.into(),
            refined,
        };
        (boa(lambda, refined), model, 0.3)
    });
    // When a part of a bundle of trees is rebuilt depends on its key positions, so the tolerance is
    // larger here.
    let trees = [4, 8].map(|lambda| {
        let model = Model::Bot {
            lambda: lambda.into(),
        };
        (bot(lambda), model, 0.4)
    });
    for (options, model, near) in arrays.into_iter().chain(trees).step_by(effort(2, 1)) {
        let db = small().open_in(memory()).unwrap();
        let k = db.keyspace_with("k", &options).unwrap();
        let put = |numbers: &mut dyn Iterator<Item = u64>| {
            let mut batch = WriteBatch::new();
            for number in numbers {
                let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                batch.put(&k, [key, key].concat(), [number as u8; 100]).unwrap();
            }
            db.write(&batch).unwrap();
            while db.work().unwrap() {}
        };
        let mut random = fastrand::Rng::with_seed(31);
        (0..KEYS / 500).for_each(|part| put(&mut (500 * part..500 * (part + 1))));
        let before = db.stats();
        for _ in 0..300 {
            put(&mut (0..500).map(|_| random.u64(..KEYS)));
        }
        let after = db.stats();
        let tree = |stats: &Stats| {
            let of = |purpose| stats.device.of(purpose).written_bytes;
            of(Purpose::Incorporate) + of(Purpose::Compact)
        };
        let user = (after.written_bytes - before.written_bytes) as f64;
        let measured = (tree(&after) - tree(&before)) as f64 / user;
        let workload = WorkloadProfile {
            keys: KEYS as f64,
            operations: OperationRates {
                hits: 0.0,
                ..WorkloadProfile::default().operations
            },
            ..WorkloadProfile::default()
        };
        let machine = MachineProfile {
            memory_bytes: f64::from(16 << 20),
            ..MachineProfile::default()
        };
        let cost = model.cost(&workload, &machine).unwrap();
        // Subtract the cost of the log, which writes whole blocks for each commit.
        let predicted = cost.write_amplification.middle - 140.0 / 116.0;
        assert!(
            (measured / predicted - 1.0).abs() < near,
            "{}: {measured} written, {predicted} predicted",
            model.name()
        );
        assert_eq!(pairs(&k).len() as u64, KEYS);
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
    }
}
