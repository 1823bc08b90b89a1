//! Tests of `MergingIter::gallop`.

use super::*;

#[test]
fn winners_that_gallop_leave_the_order_as_it_is() {
    let mut galloped = 0;
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let dense = random.bool();
        for direction in [MergeDirection::Forward, MergeDirection::Backward] {
            let list = |random: &mut fastrand::Rng, most: usize| -> Vec<Vec<u8>> {
                let mut keys: Vec<Vec<u8>> = (0..random.usize(..most))
                    .map(|_| match dense {
                        true => random.u16(..300).to_be_bytes().to_vec(),
                        false => alike(random),
                    })
                    .collect();
                keys.sort();
                keys.dedup();
                if direction == MergeDirection::Backward {
                    keys.reverse();
                }
                keys
            };
            // One source has many more keys than the others.
            let sources: Vec<Keys> = (0..random.usize(1..8))
                .map(|source| list(&mut random, if source == 0 { 200 } else { 20 }))
                .map(|keys| Keys { keys, at: 0 })
                .collect();
            let wanted = in_order(&sources, direction);
            let mut merged = MergingIter::new(sources, direction);
            let mut found: Vec<(Vec<u8>, usize)> = Vec::new();
            while let Some(winner) = merged.winner() {
                let most = random.usize(..12);
                let count = merged.gallop(|source, bound| {
                    let is_before = |key: &Vec<u8>| match (bound, direction) {
                        (None, _) => true,
                        (Some(bound), MergeDirection::Forward) => **key < *bound,
                        (Some(bound), MergeDirection::Backward) => **key > *bound,
                    };
                    let rest = &source.keys[source.at..];
                    let taken = rest.iter().take(most).take_while(|key| is_before(key)).count();
                    found.extend(rest[..taken].iter().map(|key| (key.clone(), winner)));
                    source.at += taken;
                    Ok(taken)
                });
                galloped += count.unwrap();
                assert_eq!(
                    merged
                        .winner()
                        .map(|winner| (merged.key().unwrap().to_vec(), winner)),
                    wanted.get(found.len()).cloned(),
                    "seed {seed}"
                );
                if merged.winner().is_some() {
                    found.push((merged.key().unwrap().to_vec(), merged.winner().unwrap()));
                    merged.advance().unwrap();
                    let repeats = wanted
                        .get(found.len())
                        .is_some_and(|(key, _)| *key == found[found.len() - 1].0);
                    assert_eq!(merged.repeats(), repeats, "seed {seed}");
                }
            }
            assert_eq!(found, wanted, "seed {seed}");
        }
    }
    assert!(galloped > 20_000, "{galloped} keys");
}
