use super::*;
use alluvium_base::message::MAX_SEQUENCE;

/// A delete of one-byte keys.
type Small = (u8, u8, SequenceNumber);

/// Maps a step to a range.
type Shape = fn(u32) -> (u32, u32);

fn random_deletes(seed: u64, most: usize) -> Vec<Small> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..random.usize(..most))
        .map(|_| (random.u8(..20), random.u8(..20), random.u64(1..30)))
        .collect()
}

fn list(deletes: &[Small]) -> RangeTombstoneList {
    let mut list = RangeTombstoneList::default();
    for &(start, end, sequence) in deletes {
        list.push(&[start], &[end], sequence);
    }
    list
}

fn folded(mut draft: RangeTombstoneBuilder, places: &[SequenceNumber]) -> RangeTombstoneBuilder {
    draft.fold(places);
    draft
}

fn newest(deletes: &[Small], key: u8, at: SequenceNumber) -> Option<SequenceNumber> {
    let covers = |&&(start, end, sequence): &&Small| start <= key && key < end && sequence <= at;
    deletes.iter().filter(covers).map(|delete| delete.2).max()
}

#[test]
fn the_index_says_what_the_deletes_say() {
    for seed in 0..500 {
        let deletes = random_deletes(seed, 24);
        let index = RangeTombstoneIndex::of(&list(&deletes));
        let meant = deletes.iter().filter(|delete| delete.0 < delete.1).count();
        assert_eq!(index.len(), meant);
        for key in 0..21u8 {
            for at in 0..31 {
                assert_eq!(
                    index.covering(&[key], at),
                    newest(&deletes, key, at),
                    "seed {seed}"
                );
                let around = index.around(&[key], at);
                assert_eq!(around.is_some(), newest(&deletes, key, at).is_some());
                if let Some((start, end)) = around {
                    assert!(*start <= [key][..] && [key][..] < *end);
                    assert!((start[0]..end[0]).all(|key| newest(&deletes, key, at).is_some()));
                }
                let below = key.checked_sub(1);
                let reaching = index.covering_below(&[key], at);
                let is_deleted = below.is_some_and(|below| newest(&deletes, below, at).is_some());
                assert_eq!(reaching.is_some(), is_deleted, "seed {seed}");
                if let Some((start, end)) = reaching {
                    assert!(*start < [key][..] && [key][..] <= *end);
                    assert!((start[0]..end[0]).all(|key| newest(&deletes, key, at).is_some()));
                }
            }
        }
    }
}

#[test]
fn parts_of_ranges_are_counted_cut_and_covered() {
    for seed in 0..500 {
        let deletes = random_deletes(seed, 12);
        let index = RangeTombstoneIndex::of(&list(&deletes));
        let mut random = fastrand::Rng::with_seed(!seed);
        let (low, high) = (random.u8(..20), random.u8(..20));
        let range = KeyRange::new(&[low], Some(&[high]));
        let touches = |delete: &&Small| delete.0.max(low) < delete.1.min(high);
        if low < high {
            assert_eq!(index.touching(&range), deletes.iter().filter(touches).count());
        }
        let newest_touching = deletes.iter().filter(touches).map(|delete| delete.2).max();
        assert_eq!(index.newest_touching(&[low], Some(&[high])), newest_touching);
        let behind = |delete: &&Small| delete.0.max(low) < delete.1;
        let newest_behind = deletes.iter().filter(behind).map(|delete| delete.2).max();
        assert_eq!(index.newest_touching(&[low], None), newest_behind, "seed {seed}");
        assert_eq!(
            index.touching(&KeyRange::new(&[low], None)),
            deletes.iter().filter(behind).count()
        );
        let (than, at) = (random.u64(..31), random.u64(..31));
        let is_between = |key| newest(&deletes, key, at).is_some_and(|newest| newest > than);
        assert_eq!(
            index.cover_between(&[low], &[high], than, at),
            (low..high).all(is_between),
            "seed {seed}"
        );
        let other = RangeTombstoneIndex::of(&list(&random_deletes(seed + 500, 12)));
        let nothing = KeyRange::new(&[7], Some(&[7]));
        let sources = [(&index, &range), (&other, &nothing)];
        let cut = RangeTombstoneBuilder::merged(&sources).finish();
        let (from, last, at) = (random.u8(..20), random.u8(..20), random.u64(..31));
        let is_covered = (from..=last).all(|key| key >= high || newest(&deletes, key, at).is_some());
        // A longer key between two one-byte keys has the same result as the lower of the two.
        assert_eq!(
            index.cover(&[from], &[last], &range, at),
            is_covered,
            "seed {seed}"
        );
        for key in 0..20 {
            let wanted = newest(&deletes, key, at).filter(|_| range.contains(&[key]));
            assert_eq!(cut.covering(&[key], at), wanted, "seed {seed}");
        }
    }
}

#[test]
fn many_deletes_are_searched_as_a_walk_over_them_finds_them() {
    let key = |number: u32| number.to_be_bytes();
    let mut random = fastrand::Rng::with_seed(8);
    for count in [1, 15, 16, 17, 255, 256, 257, 3000] {
        let mut list = RangeTombstoneList::default();
        let mut deletes = Vec::new();
        for _ in 0..count {
            let (start, len) = (random.u32(..4 * count), 1 + random.u32(..20));
            let (end, sequence) = (start + len, random.u64(1..1 << 20));
            list.push(&key(start), &key(end), sequence);
            deletes.push((start, end, sequence));
        }
        let index = RangeTombstoneIndex::of(&list);
        for _ in 0..300 {
            let low = random.u32(..4 * count + 30);
            let end = low + random.u32(..count);
            let touching = deletes
                .iter()
                .filter(|delete| delete.0.max(low) < delete.1.min(end));
            let range = KeyRange::new(&key(low), Some(&key(end)));
            assert_eq!(
                index.touching(&range),
                touching.clone().count(),
                "{count} deletes"
            );
            let newest = touching.map(|delete| delete.2).max();
            assert_eq!(index.newest_touching(&key(low), Some(&key(end))), newest);
        }
    }
}

#[test]
fn deletes_that_are_cut_to_ranges_delete_what_lies_in_those_and_nothing_else() {
    for seed in 0..1000 {
        let deletes = random_deletes(seed, 12);
        let mut random = fastrand::Rng::with_seed(!seed);
        let mut bounds: Vec<u8> = (0..random.usize(..8)).map(|_| random.u8(..22)).collect();
        bounds.sort_unstable();
        let mut ranges: Vec<KeyRange> = bounds
            .chunks_exact(2)
            .map(|pair| KeyRange::new(&[pair[0]], Some(&[pair[1]])))
            .collect();
        if random.bool() {
            let low = bounds.last().copied().unwrap_or_default();
            ranges.push(KeyRange::new(&[low], None));
        }
        let mut cut = RangeTombstoneBuilder::of(&list(&deletes));
        cut.cut_to(&ranges);
        // With equal sequence numbers, adjacent ranges are joined. Nothing is left outside
        // `ranges`.
        let mut joined = cut.clone();
        joined.equalize_sequences(MAX_SEQUENCE);
        joined.fold(&[MAX_SEQUENCE]);
        let (cut, joined) = (cut.finish(), joined.finish());
        for key in 0..22 {
            let is_within = ranges.iter().any(|range| range.contains(&[key]));
            for at in 0..31 {
                let wanted = newest(&deletes, key, at).filter(|_| is_within);
                assert_eq!(cut.covering(&[key], at), wanted, "seed {seed}");
            }
            let is_deleted = newest(&deletes, key, MAX_SEQUENCE).is_some() && is_within;
            assert_eq!(
                joined.covering(&[key], MAX_SEQUENCE).is_some(),
                is_deleted,
                "seed {seed}"
            );
        }
        cut.each(|start, end, _| {
            let whole = KeyRange::new(start, Some(end));
            assert!(
                ranges.iter().any(|range| range.covers(&whole)),
                "seed {seed}: {whole:?} of {ranges:?}"
            );
        });
    }
}

#[test]
fn folding_changes_no_answer_that_anybody_asks_for() {
    for seed in 0..2000 {
        let deletes = random_deletes(seed, 30);
        let mut random = fastrand::Rng::with_seed(!seed);
        let mut places: Vec<SequenceNumber> = (0..random.usize(..4)).map(|_| random.u64(..31)).collect();
        places.sort_unstable();
        let folded = folded(RangeTombstoneBuilder::of(&list(&deletes)), &places);
        let index = folded.clone().finish();
        let above = places.last().copied().unwrap_or(0);
        for key in 0..20 {
            for at in places.iter().copied().chain(above..31) {
                assert_eq!(
                    index.covering(&[key], at),
                    newest(&deletes, key, at),
                    "seed {seed}"
                );
            }
        }
        // Between two places, there are at most as many ranges as the boundaries permit.
        let kept = deletes.iter().filter(|delete| delete.2 > above).count();
        assert!(folded.len() <= places.len() * 2 * deletes.len() + kept);
    }
}

#[test]
fn levelled_deletes_cover_the_same_keys_with_as_few_ranges_as_may_be() {
    let mut all = RangeTombstoneBuilder::of(&list(&[
        (1, 5, 9),
        (3, 8, 4),
        (8, 9, 6),
        (12, 14, 7),
        (0, 20, 50),
    ]));
    all.equalize_sequences(10);
    let mut levelled = Vec::new();
    let tell = |start: &[u8], end: &[u8], at| levelled.push((start[0], end[0], at));
    folded(all, &[10]).finish().each(tell);
    assert_eq!(levelled, [(1, 9, 4), (12, 14, 4), (0, 20, 50)]);
}

#[test]
fn however_they_overlap_each_takes_bytes_of_its_own_only() {
    let key = |number: u32| number.to_be_bytes();
    let shapes: [(&str, Shape); 5] = [
        ("growing", |step| (0, step + 1)),
        ("shrinking", |step| (0, 100_000 - step)),
        ("nested", |step| (100_000 - step, 100_000 + step)),
        ("the same", |_| (5, 9)),
        ("apart", |step| (3 * step, 3 * step + 1)),
    ];
    for (name, range) in shapes {
        for count in [1, 2, 3, 1000, 20_000] {
            let mut list = RangeTombstoneList::default();
            for step in 1..=count {
                let (start, end) = range(step);
                list.push(&key(start), &key(end), u64::from(step));
            }
            let index = RangeTombstoneIndex::of(&list);
            let most = count as usize * (8 + OVERHEAD);
            let bytes = index.memory_bytes() + size_of::<RangeTombstoneIndex>();
            assert!(bytes <= most, "{name}: {bytes} of {most}");
            assert!(bytes <= 400 + count as usize * 200, "{name}, {count}: {bytes}");
            if name != "apart" {
                assert!(folded(RangeTombstoneBuilder::of(&list), &[u64::MAX]).len() <= count as usize);
            }
            if name == "growing" {
                assert_eq!(folded(RangeTombstoneBuilder::of(&list), &[u64::MAX]).len(), 1);
            }
        }
    }
}

#[test]
fn short_ones_that_overlap_little_take_little() {
    let key = |number: u32| [&[0, 7][..], &u64::from(number).to_be_bytes()].concat();
    for count in [1000, 20_000] {
        let mut list = RangeTombstoneList::default();
        for step in 0..count {
            let place = step * 7919 % count;
            list.push(&key(10 * place), &key(10 * place + 5), u64::from(step));
        }
        let index = RangeTombstoneIndex::of(&list);
        let bytes = index.memory_bytes() as u64;
        assert!(bytes <= u64::from(count) * 24, "{bytes} bytes of {count}");
        let mut encoded = 0;
        let piece = |piece: &[u8]| -> Result<(), ()> {
            encoded += piece.len() as u64;
            Ok(())
        };
        index.encode(piece).unwrap();
        assert!(encoded <= u64::from(count) * 18, "{encoded} bytes of {count}");
    }
}

#[test]
fn sequence_numbers_may_be_far_apart() {
    let far = [3, 1 << 40, u64::MAX - 1];
    let deletes: Vec<Small> = (0..).zip(far).map(|(start, at)| (start, 9, at)).collect();
    let index = RangeTombstoneIndex::of(&list(&deletes));
    assert!(index.sequences().eq(far));
    assert_eq!(index.covering(&[5], u64::MAX), Some(u64::MAX - 1));
    assert_eq!(index.covering(&[5], 1 << 41), Some(1 << 40));
    assert_eq!(index.newer(3), RangeTombstoneIndex::of(&list(&deletes[1..])));
    assert_eq!(index.count_distinct(), 3);
}
