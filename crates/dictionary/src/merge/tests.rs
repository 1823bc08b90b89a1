use super::*;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, MessageKind, SequenceNumber};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::sync::Arc;

mod gallop;
mod readers;
mod refused;

#[derive(Clone, Debug)]
struct Keys {
    keys: Vec<Vec<u8>>,
    at: usize,
}

impl SortedSource for Keys {
    type Error = Infallible;

    fn key(&self) -> Option<&[u8]> {
        self.keys.get(self.at).map(Vec::as_slice)
    }

    fn advance(&mut self) -> Result<(), Infallible> {
        self.at += 1;
        Ok(())
    }
}

/// Returns the keys of all sources in order. If keys are equal, the newest source comes first.
fn in_order(sources: &[Keys], direction: MergeDirection) -> Vec<(Vec<u8>, usize)> {
    let of = |(index, source): (usize, &Keys)| {
        let keys = source.keys.clone().into_iter();
        keys.map(move |key| (key, index)).collect::<Vec<_>>()
    };
    let mut all: Vec<(Vec<u8>, usize)> = sources.iter().enumerate().flat_map(of).collect();
    all.sort_by(|a, b| match direction {
        MergeDirection::Forward => a.cmp(b),
        MergeDirection::Backward => b.0.cmp(&a.0).then(a.1.cmp(&b.1)),
    });
    all
}

#[test]
fn any_number_of_sources_merge_like_a_stable_sort() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        for direction in [MergeDirection::Forward, MergeDirection::Backward] {
            let sources: Vec<Keys> = (0..random.usize(..12))
                .map(|_| {
                    let mut keys: Vec<Vec<u8>> =
                        (0..random.usize(..20)).map(|_| vec![random.u8(..30)]).collect();
                    keys.sort();
                    keys.dedup();
                    if direction == MergeDirection::Backward {
                        keys.reverse();
                    }
                    Keys { keys, at: 0 }
                })
                .collect();
            let wanted = in_order(&sources, direction);
            let mut merged = MergingIter::new(sources, direction);
            let mut found = Vec::new();
            while let Some(winner) = merged.winner() {
                found.push((merged.key().unwrap().to_vec(), winner));
                merged.advance().unwrap();
            }
            assert_eq!(found, wanted, "seed {seed}");
        }
    }
}

/// Generates keys that are hard to compare: long common prefixes, trailing zeros, and keys that are
/// prefixes of others.
fn alike(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut key = b"a beginning that many keys have"[..random.usize(..32)].to_vec();
    key.extend((0..random.usize(..9)).map(|_| [0, 0, 1, 0xff][random.usize(..4)]));
    key
}

#[test]
fn keys_that_are_alike_and_keys_that_come_again_merge_like_a_stable_sort() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let common: Vec<Vec<u8>> = (0..20).map(|_| alike(&mut random)).collect();
        for direction in [MergeDirection::Forward, MergeDirection::Backward] {
            let list = |random: &mut fastrand::Rng| -> Vec<Vec<u8>> {
                let mut keys: Vec<Vec<u8>> = (0..random.usize(..60))
                    .map(|_| match random.bool() {
                        true => common[random.usize(..common.len())].clone(),
                        false => alike(random),
                    })
                    .collect();
                keys.sort();
                if direction == MergeDirection::Backward {
                    keys.reverse();
                }
                keys
            };
            let lists: Vec<Vec<Vec<u8>>> = (0..random.usize(1..12)).map(|_| list(&mut random)).collect();
            let sources = lists.iter().map(|keys| Keys {
                keys: keys.clone(),
                at: 0,
            });
            let mut merged = MergingIter::new(sources.collect(), direction);
            // Start in the middle half of the time.
            let starts: Vec<usize> = lists
                .iter()
                .map(|keys| {
                    if seed % 2 == 0 {
                        0
                    } else {
                        random.usize(..=keys.len())
                    }
                })
                .collect();
            for (source, &start) in merged.sources_mut().iter_mut().zip(&starts) {
                source.at = start;
            }
            merged.rebuild();
            let mut wanted: Vec<(&[u8], usize)> = Vec::new();
            for (index, (keys, &start)) in lists.iter().zip(&starts).enumerate() {
                wanted.extend(keys[start..].iter().map(|key| (&key[..], index)));
            }
            wanted.sort_by(|a, b| match direction {
                MergeDirection::Forward => a.cmp(b),
                MergeDirection::Backward => b.0.cmp(a.0).then(a.1.cmp(&b.1)),
            });
            let mut last = None;
            for (key, source) in wanted {
                assert_eq!(
                    (merged.winner(), merged.key()),
                    (Some(source), Some(key)),
                    "seed {seed}"
                );
                assert_eq!(merged.repeats(), last == Some(key), "seed {seed}, {key:02x?}");
                last = Some(key);
                merged.advance().unwrap();
            }
            assert_eq!(
                (merged.winner(), merged.key(), merged.repeats()),
                (None, None, false)
            );
            merged.advance().unwrap();
        }
    }
}

/// A source whose reads fail now and then.
#[derive(Debug)]
struct Failing(Keys, fastrand::Rng);

impl SortedSource for Failing {
    type Error = ();

    fn key(&self) -> Option<&[u8]> {
        self.0.key()
    }

    fn advance(&mut self) -> Result<(), ()> {
        if self.1.u8(..3) == 0 {
            return Err(());
        }
        self.0.at += 1;
        Ok(())
    }
}

#[test]
fn after_an_error_a_merge_stands_where_it_stood() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut all: Vec<Vec<u8>> = Vec::new();
        let sources = (0..5).map(|source| {
            let mut keys: Vec<Vec<u8>> = (0..30).map(|_| alike(&mut random)).collect();
            keys.sort();
            all.extend_from_slice(&keys);
            Failing(Keys { keys, at: 0 }, fastrand::Rng::with_seed(source))
        });
        let mut merged = MergingIter::new(sources.collect(), MergeDirection::Forward);
        all.sort();
        let mut failures = 0;
        for (at, key) in all.iter().enumerate() {
            loop {
                assert_eq!(merged.key(), Some(&key[..]));
                assert_eq!(merged.repeats(), at > 0 && all[at - 1] == *key);
                if merged.advance().is_ok() {
                    break;
                }
                failures += 1;
            }
        }
        assert_eq!(merged.key(), None);
        assert!(failures > 10);
    }
}

/// A message that owns its operand.
#[derive(Clone, Debug, PartialEq)]
struct Owned(SequenceNumber, MessageKind, u64, Vec<u8>);

impl Owned {
    fn message(&self) -> Message<'_> {
        Message {
            sequence: self.0,
            kind: self.1,
            expires_ms: self.2,
            operand: &self.3,
        }
    }
}

/// Returns what a reader at `at` reads, computed from the definition of each message kind, oldest
/// message first.
fn read(messages: &[Owned], deletes: &[SequenceNumber], at: SequenceNumber, now_ms: u64) -> Option<Vec<u8>> {
    let mut events: Vec<(SequenceNumber, Option<&Owned>)> = messages
        .iter()
        .map(|message| (message.0, Some(message)))
        .collect();
    events.extend(deletes.iter().map(|&sequence| (sequence, None)));
    events.sort_by_key(|(sequence, _)| *sequence);
    let mut value: Option<Vec<u8>> = None;
    for (_, event) in events.into_iter().filter(|(sequence, _)| *sequence <= at) {
        value = match event {
            None | Some(Owned(_, MessageKind::Delete, _, _)) => None,
            Some(Owned(_, MessageKind::Put, expires, _)) if *expires != 0 && *expires <= now_ms => None,
            Some(Owned(_, MessageKind::Put, _, operand)) => Some(operand.clone()),
            Some(Owned(_, MessageKind::Merge, _, operand)) => appended(value, operand),
            Some(Owned(_, MessageKind::TimedDelete, time_ms, operand)) => {
                let elements = OperandChain::elements(operand, *time_ms).into_iter();
                elements.fold(value, |value, element| match element {
                    ChainElement::Operand(operand) => appended(value, operand),
                    ChainElement::DeletedAt(time_ms) => value.filter(|_| !has_passed(time_ms, now_ms)),
                })
            }
        };
    }
    value
}

fn appended(value: Option<Vec<u8>>, operand: &[u8]) -> Option<Vec<u8>> {
    let mut value = value.unwrap_or_default();
    AppendOperator.fold(&mut value, operand);
    Some(value)
}

/// Generates a random history of one key, newest message first, and range deletes that cover the
/// key.
fn history(random: &mut fastrand::Rng) -> (Vec<Owned>, Vec<SequenceNumber>) {
    let mut sequences: Vec<SequenceNumber> = (1..=20).collect();
    random.shuffle(&mut sequences);
    sequences.truncate(random.usize(..12));
    sequences.sort_unstable_by(|a, b| b.cmp(a));
    let deletes = sequences.split_off(sequences.len() - random.usize(..=sequences.len().min(2)));
    let mut all: Vec<SequenceNumber> = sequences.into_iter().chain(deletes.iter().copied()).collect();
    random.shuffle(&mut all);
    let (deletes, mut messages) = (all.split_off(all.len() - deletes.len()), all);
    messages.sort_unstable_by(|a, b| b.cmp(a));
    let message = |random: &mut fastrand::Rng, sequence| match random.u8(..8) {
        6 | 7 => Owned(sequence, MessageKind::TimedDelete, random.u64(1..24), Vec::new()),
        0 => Owned(sequence, MessageKind::Delete, 0, Vec::new()),
        1 => Owned(
            sequence,
            MessageKind::Put,
            random.u64(1..20),
            vec![sequence as u8],
        ),
        2 | 3 => Owned(sequence, MessageKind::Put, 0, vec![sequence as u8]),
        _ => Owned(sequence, MessageKind::Merge, 0, vec![sequence as u8]),
    };
    let messages = messages
        .into_iter()
        .map(|sequence| message(random, sequence))
        .collect();
    (messages, deletes)
}

const NOW_MS: u64 = 10;

/// Returns the bands of a rule, each from just above one reader up to the next.
fn bands(rule: &FoldRule) -> Vec<(Option<SequenceNumber>, SequenceNumber)> {
    let above = rule
        .readers
        .iter()
        .copied()
        .filter(|&reader| reader > rule.horizon);
    let mut floor = None;
    let readers = std::iter::once(rule.horizon).chain(above);
    readers.map(|reader| (floor.replace(reader), reader)).collect()
}

/// Folds the newest `taken` messages by a rule and compares reads with and without folding, at
/// `reader` and wherever the rule says that readers may read. Returns whether all results are
/// equal.
fn readers_agree(
    history: &(Vec<Owned>, Vec<SequenceNumber>),
    taken: usize,
    rule: &FoldRule,
    reader: SequenceNumber,
) -> bool {
    filtered_readers_agree(history, taken, rule, reader, None)
}

/// Like [`readers_agree`], but with a filter. Readers must read the same as if the filter's
/// decision had been written at the time of the newest message that the filter was applied to. The
/// filter must be applied to the value that a reader at the horizon reads.
fn filtered_readers_agree(
    history: &(Vec<Owned>, Vec<SequenceNumber>),
    taken: usize,
    rule: &FoldRule,
    reader: SequenceNumber,
    filter: Option<&Picky>,
) -> bool {
    let (messages, deletes) = history;
    let newest_delete = |reader| {
        let seen = deletes.iter().copied().filter(|&sequence| sequence <= reader);
        seen.max()
    };
    let mut folder = MessageFolder::new(rule, Some(&AppendOperator));
    if let Some(filter) = filter {
        filter.asked.lock().clear();
        folder = folder.filtered(filter, b"key");
    }
    let mut after: Vec<Owned> = Vec::new();
    folder.fold(
        messages[..taken].iter().map(Owned::message),
        newest_delete,
        |kept| {
            after.push(Owned(
                kept.sequence,
                kept.kind,
                kept.expires_ms,
                kept.operand.to_vec(),
            ));
        },
    );
    assert!(
        after.windows(2).all(|pair| pair[0].0 > pair[1].0),
        "newest first: {after:?}"
    );
    let expiring = |message: &Owned| message.1 == MessageKind::Put && message.2 > rule.now_ms;
    for (floor, reader) in bands(rule) {
        let is_in = |message: &&Owned| floor.is_none_or(|floor| message.0 > floor) && message.0 <= reader;
        let band: Vec<&Owned> = after.iter().filter(is_in).collect();
        assert!(
            band.len() <= 1
                || matches!(band[..], [Owned(_, kind, ..), put] if kind.needs_older() && expiring(put)),
            "one remains, or merges and timed deletes above a put that expires (G3): {after:?}, {rule:?}"
        );
    }
    // A merge that has all older messages drops the range deletes at or below the horizon. All
    // others remain.
    let remaining: Vec<SequenceNumber> = match rule.older {
        OlderData::None => deletes
            .iter()
            .copied()
            .filter(|&sequence| sequence > rule.horizon)
            .collect(),
        OlderData::Elsewhere => deletes.clone(),
    };
    after.extend_from_slice(&messages[taken..]);
    let Some((messages, deletes)) = &as_if_written(history, rule, filter) else {
        return false;
    };
    let newest = rule.readers.last().copied().unwrap_or(0).max(rule.horizon);
    let is_read = |at: &SequenceNumber| {
        [reader, rule.horizon].contains(at) || *at >= newest || rule.readers.contains(at)
    };
    (0..=21).filter(is_read).all(|at| {
        let moments = NOW_MS..NOW_MS + 12;
        moments
            .step_by(3)
            .all(|now_ms| read(messages, deletes, at, now_ms) == read(&after, &remaining, at, now_ms))
    })
}

#[test]
fn folding_changes_nothing_that_a_reader_at_or_above_the_horizon_reads() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..100_000 {
        let history = history(&mut random);
        let taken = random.usize(..=history.0.len());
        let older = if taken == history.0.len() && random.bool() {
            OlderData::None
        } else {
            OlderData::Elsewhere
        };
        let horizon = random.u64(..22);
        let rule = FoldRule {
            horizon,
            older,
            now_ms: NOW_MS,
            readers: Arc::default(),
        };
        assert!(
            readers_agree(&history, taken, &rule, horizon),
            "{history:?}, {taken} taken, {rule:?}"
        );
    }
}

/// Returns the history as if the filter's decision had been written at the time of the newest
/// message that it was applied to. Returns `None` if it was applied to a value that a reader at the
/// horizon does not read.
fn as_if_written(
    history: &(Vec<Owned>, Vec<SequenceNumber>),
    rule: &FoldRule,
    filter: Option<&Picky>,
) -> Option<(Vec<Owned>, Vec<SequenceNumber>)> {
    let (mut messages, mut deletes) = history.clone();
    let asked = filter.map_or(Vec::new(), |filter| filter.asked.lock().clone());
    assert!(asked.len() <= 1, "{asked:?}");
    for (value, expires_ms, verdict) in asked {
        if read(&messages, &deletes, rule.horizon, rule.now_ms) != Some(value) {
            return None;
        }
        let newest = messages.iter().find(|message| message.0 <= rule.horizon);
        let newest = newest.expect("it was asked about something").0;
        if verdict != FilterVerdict::Keep {
            messages.retain(|message| message.0 > newest);
            deletes.retain(|sequence| *sequence > newest);
        }
        if let FilterVerdict::Replace(value) = verdict {
            messages.push(Owned(newest, MessageKind::Put, expires_ms, value));
        }
    }
    Some((messages, deletes))
}

/// Rejects two out of three values and records the candidates.
#[derive(Debug, Default)]
struct Picky {
    asked: Mutex<Vec<(Vec<u8>, u64, FilterVerdict)>>,
}

impl CompactionFilter for Picky {
    fn decide(&self, candidate: &FilterCandidate<'_>) -> FilterVerdict {
        assert_eq!((candidate.key, candidate.now_ms), (&b"key"[..], NOW_MS));
        let verdict = match candidate.value.iter().map(|&byte| u64::from(byte)).sum::<u64>() % 3 {
            0 => FilterVerdict::Keep,
            1 => FilterVerdict::Remove,
            _ => FilterVerdict::Replace(b"other".to_vec()),
        };
        let asked = (candidate.value.to_vec(), candidate.expires_ms, verdict.clone());
        self.asked.lock().push(asked);
        verdict
    }
}

#[test]
fn what_a_filter_says_is_as_if_it_had_been_written_and_it_is_asked_about_nothing_else() {
    let (mut random, filter, mut asked) = (fastrand::Rng::with_seed(11), Picky::default(), 0);
    for _ in 0..100_000 {
        let history = history(&mut random);
        let taken = random.usize(..=history.0.len());
        let older = if taken == history.0.len() && random.bool() {
            OlderData::None
        } else {
            OlderData::Elsewhere
        };
        let horizon = random.u64(..22);
        let rule = FoldRule {
            horizon,
            older,
            now_ms: NOW_MS,
            readers: Arc::default(),
        };
        assert!(
            filtered_readers_agree(&history, taken, &rule, horizon, Some(&filter)),
            "{history:?}, {taken} taken, {rule:?}"
        );
        asked += filter.asked.lock().len();
    }
    assert!(asked > 10_000, "{asked} times");
}

#[test]
fn a_value_that_a_filter_removes_over_older_ones_without_a_tombstone_is_noticed() {
    let filter = Picky::default();
    assert!(is_noticed(|random, history| {
        let puts = |message: &&Owned| message.1 == MessageKind::Put && message.2 == 0;
        let messages: Vec<Owned> = history.0.iter().filter(puts).cloned().collect();
        let taken = random.usize(..=messages.len());
        let rule = FoldRule {
            horizon: MAX_SEQUENCE,
            older: OlderData::None,
            now_ms: NOW_MS,
            readers: Arc::default(),
        };
        filtered_readers_agree(&(messages, Vec::new()), taken, &rule, 21, Some(&filter))
    }));
}

#[test]
fn a_filter_that_is_asked_about_merges_without_their_base_is_noticed() {
    let filter = Picky::default();
    assert!(is_noticed(|_, history| {
        let messages: Vec<Owned> = history.0.iter().filter(|one| one.2 == 0).cloned().collect();
        let merges = messages
            .iter()
            .take_while(|message| message.1 == MessageKind::Merge);
        let taken = merges.count();
        // Only the candidates matter here: the rule says that there is nothing older.
        let rule = FoldRule {
            horizon: MAX_SEQUENCE,
            older: OlderData::None,
            now_ms: NOW_MS,
            readers: Arc::default(),
        };
        filtered_readers_agree(&(messages, Vec::new()), taken, &rule, MAX_SEQUENCE, Some(&filter))
    }));
}

#[test]
fn a_filter_that_is_asked_about_what_an_older_reader_does_not_read_is_noticed() {
    let filter = Picky::default();
    assert!(is_noticed(|random, history| {
        let oldest_snapshot = random.u64(..20);
        let rule = FoldRule {
            horizon: oldest_snapshot + 1,
            older: OlderData::Elsewhere,
            now_ms: NOW_MS,
            readers: Arc::default(),
        };
        filtered_readers_agree(history, history.0.len(), &rule, oldest_snapshot, Some(&filter))
    }));
}

/// Tries a deliberately wrong rule on many histories. Returns whether any reader notices.
fn is_noticed(
    mut broken: impl FnMut(&mut fastrand::Rng, &(Vec<Owned>, Vec<SequenceNumber>)) -> bool,
) -> bool {
    let mut random = fastrand::Rng::with_seed(8);
    (0..20_000).any(|_| {
        let history = history(&mut random);
        !broken(&mut random, &history)
    })
}

#[test]
fn a_tombstone_dropped_over_older_messages_is_noticed() {
    assert!(is_noticed(|random, history| {
        let taken = random.usize(..=history.0.len());
        let deletes = (history.0.clone(), Vec::new());
        readers_agree(
            &deletes,
            taken,
            &FoldRule {
                horizon: MAX_SEQUENCE,
                older: OlderData::None,
                now_ms: NOW_MS,
                readers: Arc::default(),
            },
            21,
        )
    }));
}

#[test]
fn a_merge_finished_over_an_older_base_is_noticed() {
    assert!(is_noticed(|random, history| {
        let merges_over = |message: &&Owned| message.1 != MessageKind::Delete;
        let messages: Vec<Owned> = history.0.iter().filter(merges_over).cloned().collect();
        let taken = messages
            .iter()
            .take_while(|message| message.1 == MessageKind::Merge)
            .count();
        let taken = random.usize(..=taken);
        readers_agree(
            &(messages, Vec::new()),
            taken,
            &FoldRule {
                horizon: MAX_SEQUENCE,
                older: OlderData::None,
                now_ms: 0,
                readers: Arc::default(),
            },
            21,
        )
    }));
}

#[test]
fn expiring_by_a_clock_that_runs_ahead_of_the_readers_is_noticed() {
    assert!(is_noticed(|_, history| {
        let rule = FoldRule {
            horizon: MAX_SEQUENCE,
            older: OlderData::Elsewhere,
            now_ms: NOW_MS + 5,
            readers: Arc::default(),
        };
        readers_agree(history, history.0.len(), &rule, 21)
    }));
}

#[test]
fn operators_are_associative() {
    let operators: [&dyn MergeOperator; 4] =
        [&AddOperator, &AppendOperator, &MinimumOperator, &MaximumOperator];
    let mut random = fastrand::Rng::with_seed(9);
    for operator in operators {
        for _ in 0..1000 {
            let [a, b, c] = std::array::from_fn(|_| random.u64(..).to_le_bytes().to_vec());
            let mut left = a.clone();
            operator.fold(&mut left, &b);
            operator.fold(&mut left, &c);
            let (mut right, mut inner) = (a, b);
            operator.fold(&mut inner, &c);
            operator.fold(&mut right, &inner);
            assert_eq!(left, right, "{operator:?}");
        }
    }
    assert!(AddOperator.check(b"seven").is_err());
}
