//! Failures of the space, and corrupted bytes.

use super::*;

fn filled(variant: AffineVariant) -> (AffineTree<MemorySpace>, Model) {
    let mut tree = created(options(variant, 2048, 8, 24));
    let (mut random, mut model) = (fastrand::Rng::with_seed(3), Model::new());
    for _ in 0..1500 {
        let next = change(&mut random, 1000);
        change_tree(&mut tree, &next).unwrap();
        change_model(&mut model, &next);
    }
    tree.commit(b"own").unwrap();
    (tree, model)
}

fn reopened(tree: &AffineTree<MemorySpace>) -> AffineTree<MemorySpace> {
    AffineTree::open(tree.space().crashed(), 0, Arc::new(Append))
        .unwrap()
        .0
}

#[test]
fn a_failure_at_any_request_ends_work_until_the_last_commit_is_opened() {
    for variant in AffineVariant::ALL {
        let (tree, model) = filled(variant);
        for nth in 1..60 {
            for fault in [SpaceFault::WritesFrom(nth), SpaceFault::ReadsFrom(nth / 2 + 1)] {
                let mut tree = reopened(&tree);
                tree.space().inject(fault);
                let mut random = fastrand::Rng::with_seed(nth);
                let mut failed = None;
                for _ in 0..600 {
                    let next = change(&mut random, 1000);
                    if let Err(error) = change_tree(&mut tree, &next).and_then(|()| tree.commit(b"more")) {
                        failed = Some(error);
                        break;
                    }
                }
                let error = failed.expect("the fault was met");
                assert!(error.to_string().contains("injected"), "{error}");
                let refused = tree.insert(b"a", b"b").unwrap_err();
                assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
                assert!(tree.get(b"a").is_err() && tree.commit(b"").is_err() && tree.check().is_err());
                let tree = reopened(&tree);
                sound(&tree);
                if nth == 1 && fault == SpaceFault::WritesFrom(1) {
                    assert_eq!(contents(&tree), model, "nothing was committed since");
                }
            }
        }
    }
}

#[test]
fn a_full_space_ends_work_and_keeps_the_last_commit() {
    let space = MemorySpace::new(60_000);
    let mut tree = AffineTree::create(
        space,
        options(AffineVariant::WeightBalanced, 2048, 8, 24),
        Arc::new(Append),
    )
    .unwrap();
    let mut committed = Model::new();
    let mut model = Model::new();
    let mut random = fastrand::Rng::with_seed(8);
    let error = loop {
        let next = change(&mut random, 100_000);
        if let Err(error) = change_tree(&mut tree, &next).and_then(|()| tree.commit(b"")) {
            break error;
        }
        change_model(&mut model, &next);
        committed.clone_from(&model);
    };
    assert_eq!(error.kind(), alluvium_base::ErrorKind::Full, "{error}");
    assert!(!committed.is_empty());
    assert_eq!(contents(&reopened(&tree)), committed);
}

#[test]
fn no_byte_that_changed_gives_a_wrong_answer() {
    for variant in AffineVariant::ALL {
        let (tree, model) = filled(variant);
        let (mut random, mut found) = (fastrand::Rng::with_seed(4), 0);
        let extents = tree.space().extents();
        for _ in 0..150 {
            let space = tree.space().crashed();
            let extent = extents[random.usize(..extents.len())];
            space.damage(extent.at + random.u64(0..extent.bytes), 1 << random.u32(0..8));
            let Ok((tree, _)) = AffineTree::open(space, 0, Arc::new(Append)) else {
                found += 1;
                continue;
            };
            let violations = tree.check().unwrap().violations;
            assert!(
                !violations.is_empty(),
                "{variant:?}: damage at {extent:?} is found"
            );
            found += 1;
            for key in model.keys().take(200) {
                if let Ok(value) = tree.get(key) {
                    assert_eq!(value.as_ref(), model.get(key), "{variant:?}");
                }
            }
        }
        assert_eq!(found, 150);
    }
}

#[test]
fn an_empty_space_and_one_of_another_variant_say_so() {
    let empty = AffineTree::open(MemorySpace::new(100), 0, Arc::new(Append));
    let error = empty.unwrap_err();
    assert!(matches!(error, Error::NotADictionary { .. }), "{error}");
    let space = MemorySpace::new(100);
    space.commit(b"\x01\x09 and more").unwrap();
    let error = AffineTree::open(space, 0, Arc::new(Append)).unwrap_err();
    assert!(error.to_string().contains("variant 9"), "{error}");
}
