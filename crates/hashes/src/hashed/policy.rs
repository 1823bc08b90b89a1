//! The policy that chooses the next merge: either a merge into a part, or a join of several hash
//! stores into a larger one.

use super::options::{HashedForm, HashedOptions};
use super::state::HashStoreAge;
use std::collections::BTreeSet;

/// What the policy knows about a hash store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashStoreSummary {
    pub age: HashStoreAge,
    /// Total size of the keys and values in the hash store, in bytes.
    pub bytes: u64,
    /// Whether the hash store contains range deletes.
    pub deletes_ranges: bool,
}

/// What the policy knows about the levels of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionSummary {
    /// Number of runs in each level, newest level first.
    pub runs: Vec<u32>,
    /// Number of records in all levels combined.
    pub records: u64,
    /// Number of tombstones outside the oldest run, in which tombstones would hide nothing.
    pub tombstones: u64,
    /// Only in a bundle of trees: the estimated number of records that a newer run of their level
    /// supersedes.
    pub hidden: u64,
    /// Only in a bundle of trees: whether the trees cannot accept another leaf as large as the
    /// part's share of the pending hash stores.
    pub is_spent: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergePolicyInput {
    /// Hash stores, newest first.
    pub young: Vec<HashStoreSummary>,
    /// Total size of the sorted store, in bytes.
    pub sorted_bytes: u64,
    /// For each part, the age below which it contains the data of all hash stores.
    pub upto: Vec<HashStoreAge>,
    /// Age of the next hash store.
    pub next_age: HashStoreAge,
    /// For each part, whether a user has requested a rewrite.
    pub wanted: Vec<bool>,
    /// The levels of each part of a bundle.
    pub levels: Vec<PartitionSummary>,
    /// Merges that must not be chosen because their input is currently unreadable.
    pub held: BlockedMerges,
}

/// Merges whose input is on a failing tier and therefore currently unreadable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedMerges {
    /// Numbers of the parts that cannot be merged.
    pub parts: BTreeSet<usize>,
    /// Whether hash stores cannot be joined.
    pub joins: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeChoice {
    /// Merges pending hash stores, and possibly levels of the part, into one run of the part.
    Part {
        part: usize,
        /// The merge includes the pending hash stores with ages below this.
        upto: HashStoreAge,
        /// Number of levels to merge, starting with the newest.
        take: usize,
        /// Index of the level that receives the result as its newest run.
        into: usize,
    },
    /// Joins adjacent hash stores into one, dropping data that parts already contain.
    Join {
        /// Age of the oldest hash store to join.
        oldest: HashStoreAge,
        /// Age of the newest hash store to join, and of the resulting hash store.
        newest: HashStoreAge,
    },
}

impl MergeChoice {
    fn of(view: &MergePolicyInput, part: usize, options: &HashedOptions, share: MergeScope) -> MergeChoice {
        let none = PartitionSummary::default();
        let (take, into) = plan(view.levels.get(part).unwrap_or(&none), options, share);
        MergeChoice::Part {
            part,
            upto: view.next_age,
            take,
            into,
        }
    }

    /// Returns the merge that rewrites a part completely.
    pub(super) fn whole(view: &MergePolicyInput, part: usize, options: &HashedOptions) -> MergeChoice {
        MergeChoice::of(view, part, options, MergeScope::Whole)
    }
}

/// How much of a part is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergeScope {
    /// Only as many levels as the form of the structure requires.
    Due,
    /// All levels of the part, whether or not they are full.
    Whole,
}

/// Returns how many levels of a part are merged, and the index of the level that receives the
/// result.
///
/// In SILT's form, the part's single run is always merged. In a bundle of arrays, the result goes
/// to the first level that then still has fewer than λ runs (U3). The merge includes all levels
/// above, so that no run is written only to be merged again in the same step. In a bundle of trees,
/// levels are not merged. In both bundles, the whole part is merged into one run once it has at
/// least half as many dead records as others (Conway §2.2).
fn plan(levels: &PartitionSummary, options: &HashedOptions, share: MergeScope) -> (usize, usize) {
    let lambda = match options.form {
        HashedForm::Silt => return (1, 0),
        HashedForm::Boa { lambda, .. } | HashedForm::Bot { lambda } => lambda,
    };
    let dead = levels.tombstones.saturating_add(levels.hidden);
    let living = levels.records.saturating_sub(dead);
    let is_stale = dead > 0 && dead.saturating_mul(2) >= living;
    let all = levels.runs.len();
    if share == MergeScope::Whole || is_stale || levels.is_spent {
        return (all, all.saturating_sub(1));
    }
    // In a bundle of trees, a merge never rewrites leaves here, but only the routing trees above
    // them.
    if let HashedForm::Bot { .. } = options.form {
        return (0, 0);
    }
    let has_room = |runs: &u32| runs + 1 < u32::from(lambda);
    let level = levels.runs.iter().position(has_room).unwrap_or(all);
    (level, level)
}

/// Joined hash stores differ in size by at most this factor.
const ALIKE: u64 = 4;

/// Number of average-sized hash stores that may be pending for each part before the backlog reaches
/// half of its limit, however small the sorted store is.
const FREE: u64 = 8;

impl MergePolicyInput {
    /// Returns the average number of bytes in the hash stores that are pending for a part. If parts
    /// are merged in turn, the average is half of the maximum.
    fn waiting_bytes(&self) -> u64 {
        let wait = |young: &HashStoreSummary| {
            let parts = self.upto.iter().filter(|&&upto| upto <= young.age).count();
            u128::from(young.bytes) * parts as u128
        };
        let sum: u128 = self.young.iter().map(wait).sum();
        u64::try_from(sum / self.upto.len().max(1) as u128).unwrap_or(u64::MAX)
    }

    /// Returns the value of [`MergePolicyInput::waiting_bytes`] at which a merge is due, in bytes.
    fn merge_threshold_bytes(&self, options: &HashedOptions) -> u64 {
        self.sorted_bytes / (2 * u64::from(options.ratio))
    }

    /// Returns whether the hash stores occupy much more space than their pending data needs, which
    /// can happen because a hash store is dropped only once every part has merged it. With parts
    /// merged steadily and in turn, the hash stores take up 1 / `ratio` of the sorted store's size.
    /// Returns true from one and a half times that size.
    fn has_excess_hash_stores(&self, options: &HashedOptions) -> bool {
        let bytes: u64 = self.young.iter().map(|young| young.bytes).sum();
        bytes / 3 >= self.merge_threshold_bytes(options).max(1)
    }

    /// Returns the part that has waited longest for a merge, and the age below which it contains
    /// the data of all hash stores. Ignores parts that cannot be merged, and returns `None` if
    /// there are no others.
    fn first_part(&self) -> Option<(usize, HashStoreAge)> {
        let parts = self.upto.iter().copied().enumerate();
        let parts = parts.filter(|(part, _)| !self.held.parts.contains(part));
        parts.min_by_key(|&(part, upto)| (upto, part))
    }

    /// Excludes a merge from further choices because its input cannot be read.
    pub(super) fn block_merge(&mut self, choice: &MergeChoice) {
        let is_new = match *choice {
            MergeChoice::Part { part, .. } => self.held.parts.insert(part),
            MergeChoice::Join { .. } => !std::mem::replace(&mut self.held.joins, true),
        };
        assert!(is_new, "what is held is not chosen");
    }

    /// Returns whether hash stores may be joined if there are many. In a bundle, λ hash stores
    /// become a run of a part instead, so hash stores are joined only while some part cannot be
    /// merged.
    fn may_join(&self, options: &HashedOptions) -> bool {
        !self.held.joins && (options.form == HashedForm::Silt || !self.held.parts.is_empty())
    }

    /// Chooses which hash stores to join: of all groups of adjacent hash stores with similar sizes,
    /// the one with the fewest bytes. Returns `None` if there are not enough hash stores or no
    /// suitable group.
    fn join(&self, options: &HashedOptions) -> Option<MergeChoice> {
        if self.young.len() < options.most_young as usize {
            return None;
        }
        let bytes = |group: &[HashStoreSummary]| group.iter().map(|young| young.bytes).sum::<u64>();
        let alike = |group: &&[HashStoreSummary]| {
            let bytes = group.iter().map(|young| young.bytes);
            let most = bytes.clone().max().unwrap_or(0);
            most <= ALIKE * bytes.min().unwrap_or(0)
        };
        let count = options.joined();
        // Do not join a hash store with range deletes if any part has merged it. That part may
        // contain newer records whose sequence numbers were reset to 0. The joined hash store's
        // range deletes apply to the hashes of all parts and would hide these records.
        let newest = self.upto.iter().copied().max().unwrap_or(0);
        let may_join = |group: &&[HashStoreSummary]| {
            let is_taken = |young: &HashStoreSummary| young.deletes_ranges && young.age < newest;
            !group.iter().any(is_taken)
        };
        // Of several groups with the same size, choose the oldest, which is the last.
        let least = |groups: &mut dyn Iterator<Item = &[HashStoreSummary]>| {
            let mut chosen: Option<(u64, MergeChoice)> = None;
            for group in groups {
                let (newest, oldest) = (group.first()?.age, group.last()?.age);
                let of_group = bytes(group);
                if chosen.is_none_or(|(least, _)| of_group <= least) {
                    chosen = Some((of_group, MergeChoice::Join { oldest, newest }));
                }
            }
            chosen.map(|(_, choice)| choice)
        };
        let chosen = least(&mut self.young.windows(count).filter(may_join).filter(alike));
        let are_many = self.young.len() >= 2 * options.most_young as usize;
        chosen.or_else(|| least(&mut self.young.windows(count).filter(may_join)).filter(|_| are_many))
    }
}

/// Chooses the next merge. Returns `None` if no merge is due.
///
/// In SILT's form, hash stores are joined once there are [`HashedOptions::most_young`] of them, to
/// limit the number of filters that a lookup queries. If no join is due and enough bytes are
/// pending, the part that has waited longest merges all of its pending hash stores. Parts are
/// merged in turn, so each part's pending data grows from nothing to 1 / `ratio` of the part's
/// size, and averages half of that. In a bundle, a part is merged once λ hash stores are pending.
///
/// ```
/// use alluvium_hashes::hashed::HashedOptions;
/// use alluvium_hashes::hashed::policy::{
///     HashStoreSummary, MergeChoice, MergePolicyInput, choose,
/// };
/// let options = HashedOptions {
///     parts_log: 1,
///     ..HashedOptions::default()
/// };
/// let store = |age| HashStoreSummary {
///     age,
///     bytes: 8,
///     deletes_ranges: false,
/// };
/// let young: Vec<HashStoreSummary> = (0..4).rev().map(store).collect();
/// let (upto, wanted) = (vec![0, 0], vec![false; 2]);
/// let view = MergePolicyInput {
///     young,
///     sorted_bytes: 200,
///     upto,
///     next_age: 4,
///     wanted,
///     ..MergePolicyInput::default()
/// };
/// assert_eq!(
///     choose(&view, &options),
///     Some(MergeChoice::Part {
///         part: 0,
///         upto: 4,
///         take: 1,
///         into: 0
///     })
/// );
/// // Now 16 bytes wait on average, for 32 wait for one of two parts.
/// let view = MergePolicyInput {
///     upto: vec![4, 0],
///     ..view
/// };
/// assert_eq!(choose(&view, &options), None);
/// let view = MergePolicyInput {
///     sorted_bytes: 128,
///     ..view
/// };
/// assert_eq!(
///     choose(&view, &options),
///     Some(MergeChoice::Part {
///         part: 1,
///         upto: 4,
///         take: 1,
///         into: 0
///     })
/// );
/// ```
#[must_use]
pub fn choose(view: &MergePolicyInput, options: &HashedOptions) -> Option<MergeChoice> {
    let of = |part, share| Some(MergeChoice::of(view, part, options, share));
    let mut wanted = view.wanted.iter().enumerate();
    let is_due = |(part, wanted): &(usize, &bool)| **wanted && !view.held.parts.contains(part);
    if let Some((part, _)) = wanted.find(is_due) {
        return of(part, MergeScope::Whole);
    }
    if view.may_join(options)
        && let Some(join) = view.join(options)
    {
        return Some(join);
    }
    let (part, taken) = view.first_part()?;
    let wait = view.young.iter().filter(|young| young.age >= taken).count();
    let is_due = match options.form {
        HashedForm::Silt => {
            let is_much = view.waiting_bytes() >= view.merge_threshold_bytes(options)
                || view.has_excess_hash_stores(options);
            wait >= options.least_young as usize && is_much
        }
        HashedForm::Boa { .. } | HashedForm::Bot { .. } => wait >= options.most() as usize,
    };
    match is_due {
        true => of(part, MergeScope::Due),
        false => None,
    }
}

/// Returns the merge backlog as a percentage of its limit. Above 100, merges are slower than
/// writes.
///
/// The backlog is 100 at twice the number of pending bytes at which a merge of a part is due, or at
/// twice the number of hash stores at which some are joined.
#[must_use]
pub fn backlog_percent(view: &MergePolicyInput, options: &HashedOptions) -> u64 {
    let count = view.young.len() as u64;
    let stores = count * 50 / u64::from(options.most_young);
    if options.form != HashedForm::Silt {
        return stores;
    }
    let bytes: u64 = view.young.iter().map(|young| young.bytes).sum();
    let mean = bytes / count.max(1);
    let may_wait = view.merge_threshold_bytes(options).max(FREE * mean).max(1);
    stores.max(view.waiting_bytes().saturating_mul(50) / may_wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the policy's input from the sizes of hash stores, newest first. The oldest hash
    /// store has age 0.
    fn view(bytes: &[u64], upto: &[HashStoreAge]) -> MergePolicyInput {
        let ages = (0..bytes.len() as u64).rev();
        let young: Vec<HashStoreSummary> = ages
            .zip(bytes)
            .map(|(age, &bytes)| HashStoreSummary {
                age,
                bytes,
                deletes_ranges: false,
            })
            .collect();
        MergePolicyInput {
            young,
            sorted_bytes: 1000,
            upto: upto.to_vec(),
            next_age: bytes.len() as u64,
            wanted: vec![false; upto.len()],
            ..MergePolicyInput::default()
        }
    }

    /// Returns the expected merge of a part in SILT's form, which always includes the part's single
    /// run.
    fn part(part: usize, upto: HashStoreAge) -> MergeChoice {
        let (take, into) = (1, 0);
        MergeChoice::Part {
            part,
            upto,
            take,
            into,
        }
    }

    fn options() -> HashedOptions {
        HashedOptions {
            parts_log: 1,
            ratio: 4,
            least_young: 4,
            most_young: 12,
            ..HashedOptions::default()
        }
    }

    #[test]
    fn parts_take_turns_when_enough_waits() {
        let chosen = |view: &MergePolicyInput| choose(view, &options());
        assert_eq!(chosen(&view(&[500; 3], &[0, 0])), None, "too few");
        assert_eq!(chosen(&view(&[31; 4], &[0, 0])), None, "124 of 1000 wait");
        let first = part(0, 4);
        assert_eq!(chosen(&view(&[32; 4], &[0, 0])), Some(first));
        assert_eq!(chosen(&view(&[32; 4], &[4, 0])), None, "64 wait, on average");
        assert_eq!(
            chosen(&view(&[93; 4], &[4, 4, 4, 0])),
            None,
            "93 wait, and 372 are held"
        );
        let last = chosen(&view(&[94; 4], &[4, 4, 4, 0]));
        assert_eq!(last, Some(part(3, 4)), "376 are held for one part of four");
        assert_eq!(chosen(&view(&[400; 4], &[4, 4])), None, "none wait");
        let second = part(1, 6);
        assert_eq!(chosen(&view(&[32; 6], &[4, 0])), Some(second), "(2 + 6) / 2 · 32");
        assert_eq!(chosen(&view(&[], &[9, 9])), None);
    }

    /// If hash stores of equal size arrive at a steady rate, each byte of the sorted store is
    /// rewritten about `ratio` times, and the pending data averages half of what `ratio` permits.
    #[test]
    fn what_waits_is_half_of_a_share_and_what_is_written_the_ratio() {
        let options = HashedOptions {
            parts_log: 4,
            ..options()
        };
        let (parts, sorted) = (16, 100_000u64);
        let mut state = MergePolicyInput {
            upto: vec![0; parts],
            wanted: vec![false; parts],
            sorted_bytes: sorted,
            ..MergePolicyInput::default()
        };
        let (mut written, mut most, mut given) = (0u64, 0, 0u64);
        for turn in 0..4000u64 {
            state.young.insert(
                0,
                HashStoreSummary {
                    age: turn,
                    bytes: 1000,
                    deletes_ranges: false,
                },
            );
            state.next_age = turn + 1;
            given += 1000;
            while let Some(choice) = choose(&state, &options) {
                match choice {
                    MergeChoice::Part { part, upto, .. } => {
                        state.upto[part] = upto;
                        written += sorted / parts as u64;
                    }
                    MergeChoice::Join { oldest, newest } => {
                        let range = oldest..=newest;
                        let joined: u64 = state
                            .young
                            .iter()
                            .filter(|young| range.contains(&young.age))
                            .map(|young| young.bytes)
                            .sum();
                        state
                            .young
                            .retain(|young| young.age == newest || !range.contains(&young.age));
                        state
                            .young
                            .iter_mut()
                            .find(|young| young.age == newest)
                            .unwrap()
                            .bytes = joined;
                        assert!(joined <= 8000, "they are alike and few: {joined}");
                    }
                }
                let least = *state.upto.iter().min().unwrap();
                state.young.retain(|young| young.age >= least);
            }
            if turn > 1000 {
                most = most.max(state.waiting_bytes());
                assert!(state.young.len() < 14, "{} hash stores", state.young.len());
            }
        }
        assert!(most <= sorted / 8 + 1000, "{most} wait");
        let ratio = written as f64 / given as f64;
        assert!((3.2..4.8).contains(&ratio), "{ratio}");
        assert!(backlog_percent(&state, &options) <= 60);
    }

    #[test]
    fn hash_stores_that_are_many_are_joined_with_those_that_are_like_them() {
        let chosen = |bytes: &[u64]| {
            choose(
                &MergePolicyInput {
                    sorted_bytes: u64::MAX,
                    ..view(bytes, &[0, 0])
                },
                &options(),
            )
        };
        assert_eq!(options().joined(), 4);
        assert_eq!(chosen(&[10; 11]), None, "few");
        assert_eq!(
            chosen(&[10; 12]),
            Some(MergeChoice::Join { oldest: 0, newest: 3 }),
            "the oldest of equal ones"
        );
        let mixed = [10, 10, 10, 10, 10, 10, 10, 10, 10, 100, 100, 100];
        assert_eq!(chosen(&mixed), Some(MergeChoice::Join { oldest: 3, newest: 6 }));
        let mut ranges = view(&[10; 12], &[4, 0]);
        ranges.sorted_bytes = u64::MAX;
        ranges.young[11].deletes_ranges = true;
        let chosen_of = |view: &MergePolicyInput| choose(view, &options());
        assert_eq!(
            chosen_of(&ranges),
            Some(MergeChoice::Join { oldest: 1, newest: 4 }),
            "a part has age 0"
        );
        ranges.upto = vec![0, 0];
        assert_eq!(
            chosen_of(&ranges),
            Some(MergeChoice::Join { oldest: 0, newest: 3 })
        );
        // No adjacent hash stores have similar sizes, so joins wait until there are twice as many
        // hash stores.
        let odd: Vec<u64> = (0..12).map(|at| if at % 2 == 0 { 10 } else { 1000 }).collect();
        assert_eq!(chosen(&odd), None);
        assert!(matches!(
            chosen(&[odd.clone(), odd].concat()),
            Some(MergeChoice::Join { .. })
        ));
    }

    #[test]
    fn what_a_user_wants_comes_first() {
        let mut wanted = view(&[], &[7, 3]);
        (wanted.wanted, wanted.next_age) = (vec![false, true], 9);
        assert_eq!(choose(&wanted, &options()), Some(part(1, 9)));
    }

    #[test]
    fn what_is_held_is_passed_over_and_hash_stores_are_joined_meanwhile() {
        let mut now = view(&[100; 4], &[0, 0]);
        now.block_merge(&part(0, 4));
        assert_eq!(choose(&now, &options()), Some(part(1, 4)));
        now.wanted = vec![true, true];
        assert_eq!(choose(&now, &options()), Some(part(1, 4)), "the other waits");
        now.block_merge(&part(1, 4));
        assert_eq!(choose(&now, &options()), None);
        // A bundle of arrays joins hash stores only while a part cannot be merged.
        let form = HashedForm::Boa {
            lambda: 4,
            refined: true,
        };
        let bundle = HashedOptions { form, ..options() };
        let mut many = view(&[100; 12], &[0, 12]);
        assert!(matches!(
            choose(&many, &bundle),
            Some(MergeChoice::Part { part: 0, .. })
        ));
        many.block_merge(&part(0, 12));
        let join = MergeChoice::Join { oldest: 0, newest: 3 };
        assert_eq!(choose(&many, &bundle), Some(join));
        many.block_merge(&join);
        assert_eq!(choose(&many, &bundle), None);
    }

    #[test]
    fn crowding_is_full_when_twice_as_much_waits_as_may() {
        assert_eq!(
            backlog_percent(&view(&[125], &[0, 0]), &options()),
            6,
            "eight may wait in any case"
        );
        assert_eq!(
            backlog_percent(&view(&[25; 10], &[0, 0]), &options()),
            62,
            "250 of 2 · 200 wait"
        );
        assert_eq!(
            backlog_percent(
                &MergePolicyInput {
                    sorted_bytes: 2000,
                    ..view(&[50; 10], &[0, 0])
                },
                &options()
            ),
            62
        );
        assert_eq!(
            backlog_percent(&view(&[1; 24], &[0, 0]), &options()),
            100,
            "two times twelve"
        );
    }

    /// Returns how many levels the chosen merge includes, and the index of the level that receives
    /// the result.
    fn planned(view: &MergePolicyInput, options: &HashedOptions) -> Option<(usize, usize)> {
        match choose(view, options)? {
            MergeChoice::Part { take, into, .. } => Some((take, into)),
            MergeChoice::Join { .. } => None,
        }
    }

    #[test]
    fn a_bundle_of_arrays_counts_its_runs_in_base_lambda() {
        let form = |lambda| HashedOptions {
            form: HashedForm::Boa {
                lambda,
                refined: false,
            },
            ..HashedOptions::default()
        };
        for lambda in [2u16, 4, 16] {
            let options = form(lambda);
            let mut levels = PartitionSummary::default();
            for round in 1..200u32 {
                let mut now = view(&[1; 32], &[0]);
                now.levels = vec![levels.clone()];
                let (take, into) = planned(&now, &options).unwrap();
                assert_eq!(take, into);
                levels.runs.resize(levels.runs.len().max(into + 1), 0);
                levels.runs[..take].fill(0);
                levels.runs[into] += 1;
                let mut left = round;
                for (level, &runs) in levels.runs.iter().enumerate() {
                    assert_eq!(runs, left % u32::from(lambda), "level {level} after {round}");
                    left /= u32::from(lambda);
                }
                assert_eq!(left, 0, "no level is missing");
            }
        }
        assert_eq!(
            choose(&view(&[u64::MAX; 3], &[0]), &form(4)),
            None,
            "fewer than λ"
        );
        assert_eq!(choose(&view(&[1], &[0]), &form(2)), None);
    }

    #[test]
    fn a_part_with_many_deletes_becomes_one_run() {
        let options = HashedOptions {
            form: HashedForm::Boa {
                lambda: 4,
                refined: true,
            },
            ..HashedOptions::default()
        };
        let mut now = view(&[1; 4], &[0]);
        let mut plans = |records, tombstones, wanted| {
            let runs = vec![1, 0, 2];
            now.levels = vec![PartitionSummary {
                runs,
                records,
                tombstones,
                ..PartitionSummary::default()
            }];
            now.wanted = vec![wanted];
            planned(&now, &options)
        };
        assert_eq!(plans(300, 99, false), Some((0, 0)), "fewer than half");
        assert_eq!(plans(300, 100, false), Some((3, 2)));
        assert_eq!(plans(300, 0, true), Some((3, 2)), "a user wants it");
        assert_eq!(plans(0, 0, false), Some((0, 0)));
    }
}
