//! Which part is merged next.

use super::options::HashedOptions;
use super::state::Age;

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
}

/// A part, and up to which age it takes hash stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The part.
    pub part: usize,
    /// It takes hash stores below this age.
    pub upto: Age,
}

/// Chooses the next merge. A round takes the same hash stores into each part, one part after the
/// other; a new one begins when hash stores are many or large.
///
/// ```
/// use alluvium_hashes::hashed::policy::{Choice, View, choose};
/// use alluvium_hashes::hashed::HashedOptions;
/// let (upto, wanted) = (vec![0, 0], vec![false; 2]);
/// let view = View { young: 4, young_bytes: 30, sorted_bytes: 100, upto, next_age: 4, wanted };
/// let options = HashedOptions { parts_log: 1, ..HashedOptions::default() };
/// assert_eq!(choose(&view, &options), Some(Choice { part: 0, upto: 4 }));
/// let view = View { upto: vec![4, 0], next_age: 5, young: 5, ..view };
/// assert_eq!(choose(&view, &options), Some(Choice { part: 1, upto: 4 }));
/// assert_eq!(choose(&View { young_bytes: 24, upto: vec![0, 0], ..view }, &options), None);
/// ```
#[must_use]
pub fn choose(view: &View, options: &HashedOptions) -> Option<Choice> {
    let most = view.upto.iter().copied().max()?;
    // A round that has begun goes on.
    if let Some(part) = view.upto.iter().position(|&upto| upto < most) {
        return Some(Choice { part, upto: most });
    }
    if let Some(part) = view.wanted.iter().position(|&wanted| wanted) {
        return Some(Choice {
            part,
            upto: view.next_age,
        });
    }
    let is_large = view.young_bytes.saturating_mul(options.ratio.into()) >= view.sorted_bytes;
    let is_due = view.young >= options.most_young || (view.young >= options.least_young && is_large);
    is_due.then_some(Choice {
        part: 0,
        upto: view.next_age,
    })
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
        assert_eq!(choose(&wanted, &options), Some(Choice { part: 1, upto: 7 }));
        wanted.upto = vec![7, 7];
        assert_eq!(choose(&wanted, &options), Some(Choice { part: 1, upto: 9 }));
    }
}
