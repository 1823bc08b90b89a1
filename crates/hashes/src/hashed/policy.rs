//! Which part is merged next.

use super::options::{HashedForm, HashedOptions};
use super::state::Age;

/// The levels of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// How many runs each has, the newest level first.
    pub runs: Vec<u32>,
    /// Records of all of them.
    pub records: u64,
    /// Those that delete a key, but for the ones of the oldest run: nothing is below that.
    pub tombstones: u64,
}

/// What the policy is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Bytes of the hash stores that are still to be merged.
    pub young_bytes: u64,
    /// How many there are.
    pub young: u32,
    /// Bytes of the sorted store.
    pub sorted_bytes: u64,
    /// Up to which age each part has taken hash stores.
    pub upto: Vec<Age>,
    /// The age of the next hash store.
    pub next_age: Age,
    /// Parts that a user wants rewritten.
    pub wanted: Vec<bool>,
    /// The levels of each part.
    pub levels: Vec<Levels>,
}

/// A part, up to which age it takes hash stores, and what of its levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The part.
    pub part: usize,
    /// It takes hash stores below this age.
    pub upto: Age,
    /// It takes all runs of this number of levels, from the newest on.
    pub take: usize,
    /// The result is the newest run of this level.
    pub into: usize,
}

/// How much of a part is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// What its form asks for.
    Due,
    /// All of it.
    Whole,
}

/// Returns how many levels of a part are taken, and to which level the result comes.
///
/// SILT's one run is always taken. In a bundle of arrays the result comes to the first level that
/// then has fewer than λ runs (U3), and takes all levels above at once, so that no run is written
/// to be merged again in the same step. Once half as many keys are deleted as there are, the part
/// becomes one run (Conway §2.2).
fn plan(levels: &Levels, options: &HashedOptions, share: Share) -> (usize, usize) {
    let HashedForm::Boa { lambda, .. } = options.form else {
        return (1, 0);
    };
    let living = levels.records.saturating_sub(levels.tombstones);
    let is_stale = levels.tombstones > 0 && levels.tombstones.saturating_mul(2) >= living;
    let all = levels.runs.len();
    if share == Share::Whole || is_stale {
        return (all, all.saturating_sub(1));
    }
    let has_room = |runs: &u32| runs + 1 < u32::from(lambda);
    let level = levels.runs.iter().position(has_room).unwrap_or(all);
    (level, level)
}

/// Chooses the next merge. A round takes the same hash stores into each part, one part after the
/// other; a new one begins when hash stores are many or large.
///
/// ```
/// use alluvium_hashes::hashed::policy::{Choice, View, choose};
/// use alluvium_hashes::hashed::HashedOptions;
/// let (upto, wanted) = (vec![0, 0], vec![false; 2]);
/// let levels = Vec::new();
/// let view = View { young: 4, young_bytes: 30, sorted_bytes: 100, upto, next_age: 4, wanted, levels };
/// let options = HashedOptions { parts_log: 1, ..HashedOptions::default() };
/// assert_eq!(choose(&view, &options), Some(Choice { part: 0, upto: 4, take: 1, into: 0 }));
/// let view = View { upto: vec![4, 0], next_age: 5, young: 5, ..view };
/// assert_eq!(choose(&view, &options), Some(Choice { part: 1, upto: 4, take: 1, into: 0 }));
/// assert_eq!(choose(&View { young_bytes: 24, upto: vec![0, 0], ..view }, &options), None);
/// ```
#[must_use]
pub fn choose(view: &View, options: &HashedOptions) -> Option<Choice> {
    let most = view.upto.iter().copied().max()?;
    let of = |part: usize, upto, share| {
        let none = Levels::default();
        let (take, into) = plan(view.levels.get(part).unwrap_or(&none), options, share);
        Some(Choice {
            part,
            upto,
            take,
            into,
        })
    };
    let is_wanted = |part: usize| match view.wanted.get(part) {
        Some(true) => Share::Whole,
        _ => Share::Due,
    };
    // A round that has begun goes on.
    if let Some(part) = view.upto.iter().position(|&upto| upto < most) {
        return of(part, most, is_wanted(part));
    }
    if let Some(part) = view.wanted.iter().position(|&wanted| wanted) {
        return of(part, view.next_age, Share::Whole);
    }
    let is_due = match options.form {
        HashedForm::Silt => {
            let is_large = view.young_bytes.saturating_mul(options.ratio.into()) >= view.sorted_bytes;
            view.young >= options.most_young || (view.young >= options.least_young && is_large)
        }
        HashedForm::Boa { .. } => view.young >= options.most(),
    };
    if !is_due {
        return None;
    }
    of(0, view.next_age, Share::Due)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(young: u32, bytes: u64, upto: &[Age]) -> View {
        View {
            young_bytes: bytes,
            young,
            sorted_bytes: 1000,
            upto: upto.to_vec(),
            next_age: 9,
            wanted: vec![false; upto.len()],
            levels: Vec::new(),
        }
    }

    #[test]
    fn a_round_begins_when_hash_stores_are_many_or_large_and_goes_on_to_its_end() {
        let options = HashedOptions::default();
        let chosen = |view: &View| choose(view, &options).map(|choice| (choice.part, choice.upto));
        assert_eq!(chosen(&view(3, 5000, &[0, 0])), None, "too few");
        assert_eq!(chosen(&view(4, 249, &[0, 0])), None, "too small");
        assert_eq!(chosen(&view(4, 250, &[0, 0])), Some((0, 9)));
        assert_eq!(chosen(&view(32, 0, &[0, 0])), Some((0, 9)));
        assert_eq!(chosen(&view(0, 0, &[7, 7, 3])), Some((2, 7)), "the round goes on");
        assert_eq!(chosen(&view(0, 0, &[9, 9])), None);
    }

    #[test]
    fn what_a_user_wants_follows_the_round_that_goes_on() {
        let options = HashedOptions::default();
        let mut wanted = view(0, 0, &[7, 3]);
        wanted.wanted = vec![false, true];
        let chosen = |view: &View| choose(view, &options).map(|choice| (choice.part, choice.upto));
        assert_eq!(chosen(&wanted), Some((1, 7)));
        wanted.upto = vec![7, 7];
        assert_eq!(chosen(&wanted), Some((1, 9)));
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
            let mut levels = Levels::default();
            for round in 1..200u32 {
                let mut now = view(32, 0, &[7]);
                now.levels = vec![levels.clone()];
                let choice = choose(&now, &options).unwrap();
                assert_eq!((choice.take, choice.upto), (choice.into, 9));
                levels.runs.resize(levels.runs.len().max(choice.into + 1), 0);
                levels.runs[..choice.take].fill(0);
                levels.runs[choice.into] += 1;
                let mut left = round;
                for (level, &runs) in levels.runs.iter().enumerate() {
                    assert_eq!(runs, left % u32::from(lambda), "level {level} after {round}");
                    left /= u32::from(lambda);
                }
                assert_eq!(left, 0, "no level is missing");
            }
        }
        assert_eq!(choose(&view(3, u64::MAX, &[7]), &form(4)), None, "fewer than λ");
        assert_eq!(choose(&view(1, 0, &[7]), &form(2)), None);
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
        let mut now = view(4, 0, &[7]);
        let mut planned = |records, tombstones, wanted| {
            let runs = vec![1, 0, 2];
            now.levels = vec![Levels {
                runs,
                records,
                tombstones,
            }];
            now.wanted = vec![wanted];
            choose(&now, &options).map(|choice| (choice.take, choice.into))
        };
        assert_eq!(planned(300, 99, false), Some((0, 0)), "fewer than half");
        assert_eq!(planned(300, 100, false), Some((3, 2)));
        assert_eq!(planned(300, 0, true), Some((3, 2)), "a user wants it");
        assert_eq!(planned(0, 0, false), Some((0, 0)));
    }
}
