//! Compares random histories with an ordered map.

use super::*;

/// Variants with sizes that give trees several levels.
fn shapes() -> Vec<AffineOptions> {
    let mut all = Vec::new();
    for variant in AffineVariant::ALL {
        all.push(options(variant, 2048, 8, 24));
        all.push(options(variant, 512, 8, 8));
        if variant != AffineVariant::WeightBalanced {
            all.push(options(variant, 512, 3, 24));
        }
        if variant == AffineVariant::BTree {
            all.push(options(variant, 512, 3, 24));
        }
    }
    for (variant, bytes) in [
        (AffineVariant::Segmented, 96),
        (AffineVariant::ParentPivots, 2048),
        (AffineVariant::WeightBalanced, 128),
    ] {
        all.push(AffineOptions {
            leaf_block_bytes: Some(bytes),
            ..options(variant, 2048, 8, 24)
        });
    }
    let in_memory = all.clone().into_iter().map(|options| AffineOptions {
        memory_bytes: 40 << 10,
        ..options
    });
    all.extend(in_memory.collect::<Vec<_>>());
    all
}

fn history(options: AffineOptions, seed: u64, count: u32, keys: u32) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tree = created(options);
    let (mut model, mut highest) = (Model::new(), 0);
    for at in 0..count {
        let mut next = change(&mut random, keys);
        if at > count / 2 && random.bool() {
            // The second half of the history shrinks the tree.
            next = (next.0, MessageAction::Delete, Vec::new());
        }
        change_tree(&mut tree, &next).unwrap();
        change_model(&mut model, &next);
        highest = highest.max(tree.height());
        let key = format!("{:06}", random.u32(0..keys)).into_bytes();
        assert_eq!(
            tree.get(&key).unwrap().as_ref(),
            model.get(&key),
            "{options:?} {seed} {at}"
        );
        if at % 331 == 330 {
            tree.commit(&at.to_le_bytes()).unwrap();
            if at % 993 == 992 {
                let opened = AffineTree::open(tree.space().crashed(), options.memory_bytes, Arc::new(Append));
                let (opened, own) = opened.unwrap();
                assert_eq!(own, at.to_le_bytes());
                tree = opened;
            }
            sound(&tree);
            assert_eq!(contents(&tree), model, "{options:?} {seed} {at}");
        }
    }
    sound(&tree);
    // With small nodes the tree must have reached three levels.
    assert!(highest >= 2 || options.node_bytes > 512, "{options:?}: {highest}");
    let (from, to) = (format!("{:06}", keys / 3), format!("{:06}", keys / 2));
    let mut found = Model::new();
    tree.scan(from.as_bytes(), Some(to.as_bytes()), &mut |key, value| {
        found.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    })
    .unwrap();
    let range = from.into_bytes()..to.into_bytes();
    let expected: Model = model
        .range(range)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn any_history_gives_the_answers_of_an_ordered_map() {
    for (seed, options) in shapes().into_iter().enumerate() {
        history(options, seed as u64, 2600, 900);
    }
}

#[test]
fn checks_hold_after_every_operation() {
    for variant in AffineVariant::ALL {
        let mut random = fastrand::Rng::with_seed(5);
        let mut tree = created(options(variant, 512, 8, 8));
        for _ in 0..900 {
            change_tree(&mut tree, &change(&mut random, 700)).unwrap();
            sound(&tree);
        }
        assert!(
            tree.height() > 1 || variant == AffineVariant::BTree,
            "{variant:?}: {:?}",
            tree.levels()
        );
    }
}

#[test]
fn ordered_inserts_and_mass_deletes_keep_every_invariant() {
    for variant in AffineVariant::ALL {
        for backwards in [false, true] {
            let mut tree = created(options(variant, 2048, 8, 24));
            let keys: Vec<u32> = if backwards {
                (0..3000).rev().collect()
            } else {
                (0..3000).collect()
            };
            for key in &keys {
                tree.insert(format!("{key:06}").as_bytes(), b"0123456789")
                    .unwrap();
            }
            assert!(tree.height() >= 2, "{:?}", tree.levels());
            assert_eq!(sound(&tree).elements, 3000);
            for key in keys.iter().filter(|key| *key % 50 != 0) {
                tree.delete(format!("{key:06}").as_bytes()).unwrap();
            }
            sound(&tree);
            assert_eq!(contents(&tree).len(), 60, "{variant:?}");
            for key in (0..3000).step_by(50) {
                assert!(tree.get(format!("{key:06}").as_bytes()).unwrap().is_some());
            }
        }
    }
}

#[test]
fn one_hot_subtree_keeps_its_weights_in_their_bands() {
    let mut tree = created(options(AffineVariant::WeightBalanced, 2048, 8, 24));
    tree.load_sorted((0..6000u32).map(|key| (format!("{key:06}").into_bytes(), b"0123456789".to_vec())))
        .unwrap();
    sound(&tree);
    for key in 0..4000u32 {
        tree.insert(format!("003000{key:06}").as_bytes(), b"0123456789")
            .unwrap();
    }
    assert_eq!(sound(&tree).elements, 10_000);
    let (rebuilds, leaves) = tree.figures().rebuilds();
    assert!(rebuilds > 10 && leaves > 100, "{rebuilds} {leaves}");
}

#[test]
fn what_is_loaded_sorted_is_there_with_even_weights() {
    for variant in AffineVariant::ALL {
        for count in [0u64, 1, 30, 500, 5000] {
            let mut tree = created(options(variant, 4096, 8, 60));
            tree.load_sorted((0..count).map(|number| element(number, 60)))
                .unwrap();
            tree.commit(b"").unwrap();
            assert_eq!(sound(&tree).elements, count, "{variant:?}");
            assert_eq!(contents(&tree).len() as u64, count);
            let again = tree.load_sorted([element(1, 60)]);
            assert!(count == 0 || again.unwrap_err().to_string().contains("only an empty"));
        }
        let mut tree = created(options(variant, 4096, 8, 60));
        let wrong = tree.load_sorted([element(2, 60), element(1, 60)]);
        assert!(wrong.unwrap_err().to_string().contains("not in order"));
    }
}

#[test]
fn messages_that_are_offered_wait_for_steps() {
    let mut tree = created(options(AffineVariant::ParentPivots, 2048, 8, 24));
    for key in 0..400u32 {
        tree.enqueue_message(
            format!("{key:06}").as_bytes(),
            MessageAction::Insert,
            b"0123456789",
        )
        .unwrap();
    }
    let before = tree.space().meter();
    assert!(
        !tree.check().unwrap().violations.is_empty(),
        "the root is over its limit (AF1)"
    );
    assert_eq!(contents(&tree).len(), 400, "they are seen all the same");
    assert_eq!(tree.space().meter().writes, before.writes, "offers write nothing");
    let mut steps = 0;
    while tree.step().unwrap() == FlushProgress::Moved {
        steps += 1;
    }
    assert!(steps >= 1);
    sound(&tree);
}

#[test]
fn pairs_that_no_segment_takes_are_refused_and_change_nothing() {
    let mut tree = created(options(AffineVariant::Naive, 2048, 8, 24));
    let long = vec![b'x'; 2048 / 8];
    let error = tree.insert(b"key", &long).unwrap_err();
    assert!(error.to_string().contains("266 bytes exceeds the 256"), "{error}");
    assert_eq!(error.kind(), alluvium_base::ErrorKind::Refused);
    tree.insert(b"key", &long[..200]).unwrap();
    assert_eq!(tree.get(b"key").unwrap().unwrap().len(), 200);
}
