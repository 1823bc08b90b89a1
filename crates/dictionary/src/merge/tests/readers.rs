//! Tests of versions between snapshots: which messages remain for each reader, and whether a reader
//! that was left out is noticed.

use super::*;

/// Generates a rule with several readers, one of which is the horizon.
fn rule_of_readers(random: &mut fastrand::Rng, older: OlderData) -> FoldRule {
    let mut readers: Vec<SequenceNumber> = (0..random.usize(1..7)).map(|_| random.u64(..22)).collect();
    readers.sort_unstable();
    readers.dedup();
    FoldRule {
        horizon: readers[0],
        readers: readers.into(),
        older,
        now_ms: NOW_MS,
    }
}

#[test]
fn folding_between_snapshots_changes_nothing_that_any_of_them_reads() {
    let (mut random, filter, mut asked) = (fastrand::Rng::with_seed(17), Picky::default(), 0);
    for round in 0..200_000 {
        let history = history(&mut random);
        let taken = random.usize(..=history.0.len());
        let older = if taken == history.0.len() && random.bool() {
            OlderData::None
        } else {
            OlderData::Elsewhere
        };
        let rule = rule_of_readers(&mut random, older);
        let filter = (round % 4 == 0).then_some(&filter);
        assert!(
            filtered_readers_agree(&history, taken, &rule, rule.horizon, filter),
            "{history:?}, {taken} taken, {rule:?}"
        );
        asked += filter.map_or(0, |filter| filter.asked.lock().len());
    }
    assert!(asked > 2_000, "{asked} times");
}

#[test]
fn a_snapshot_that_is_missing_among_the_readers_is_noticed() {
    assert!(is_noticed(|random, history| {
        let mut rule = rule_of_readers(random, OlderData::Elsewhere);
        let missing = rule.readers[random.usize(..rule.readers.len())];
        rule.readers = rule.readers.iter().copied().filter(|&at| at != missing).collect();
        if missing == rule.horizon {
            return true;
        }
        readers_agree(history, history.0.len(), &rule, missing)
    }));
}

#[test]
fn a_reader_that_counts_as_one_place_later_is_noticed() {
    assert!(is_noticed(|random, history| {
        let mut rule = rule_of_readers(random, OlderData::Elsewhere);
        let which = random.usize(..rule.readers.len());
        let at = rule.readers[which];
        rule.readers = rule
            .readers
            .iter()
            .map(|&reader| reader + u64::from(reader == at))
            .collect();
        rule.horizon = rule.readers[0];
        readers_agree(history, history.0.len(), &rule, at)
    }));
}

#[test]
fn of_a_key_that_is_overwritten_one_version_remains_for_each_reader() {
    let rule = FoldRule {
        horizon: 10,
        readers: [10, 500, 90_000].into(),
        older: OlderData::Elsewhere,
        now_ms: 0,
    };
    let mut left = Vec::new();
    let versions = (1..100_000u64).rev().map(|sequence| Message::put(sequence, b"v"));
    MessageFolder::new(&rule, None).fold(versions, |_| None, |kept| left.push(kept.sequence));
    assert_eq!(left.split_off(left.len() - 3), [90_000, 500, 10]);
    assert!(left.iter().all(|&sequence| sequence > 90_000) && left.len() == 9_999);
}

#[test]
fn folding_above_the_oldest_snapshot_is_noticed() {
    assert!(is_noticed(|random, history| {
        let oldest_snapshot = random.u64(..20);
        let rule = FoldRule {
            horizon: oldest_snapshot + 1,
            older: OlderData::Elsewhere,
            now_ms: NOW_MS,
            readers: Arc::default(),
        };
        readers_agree(history, history.0.len(), &rule, oldest_snapshot)
    }));
}

#[test]
fn a_sequence_number_zeroed_over_a_snapshot_is_noticed() {
    assert!(is_noticed(|random, history| {
        let oldest_snapshot = random.u64(..20);
        let rule = FoldRule {
            horizon: oldest_snapshot + 2,
            older: OlderData::None,
            now_ms: NOW_MS,
            readers: Arc::default(),
        };
        readers_agree(
            &(history.0.clone(), Vec::new()),
            history.0.len(),
            &rule,
            oldest_snapshot,
        )
    }));
}
