//! Randomly chooses the record that the next operation accesses, with a uniform, scrambled Zipf or
//! latest distribution.

use super::zipf::ZipfGenerator;
use serde::{Deserialize, Serialize};

/// How records are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordDistribution {
    /// All records are equally likely.
    Uniform,
    /// A Zipf distribution with exponent 0.99 over the existing records, to which a hash function
    /// maps the ranks.
    Zipf,
    /// The distribution of the published YCSB client: a Zipf distribution with exponent 0.99 over
    /// ten thousand million ranks, which a hash function maps to records. It is less skewed.
    Ycsb,
    /// A Zipf distribution with exponent 0.99 over the ages of records, with the newest the most
    /// likely.
    Latest,
}

/// Number of ranks in the published YCSB client's Zipf distribution.
const YCSB_RANKS: u64 = 10_000_000_000;

/// Hashes the eight bytes of a number with FNV-1a, as YCSB hashes ranks.
#[must_use]
pub fn fnv(number: u64) -> u64 {
    number
        .to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

/// Chooses records at random for one thread.
#[derive(Clone, Debug)]
pub struct RecordChooser {
    draw: ChoiceMethod,
    /// Number of records before the first operation.
    records: u64,
}

#[derive(Clone, Debug)]
enum ChoiceMethod {
    Uniform,
    Scrambled(ZipfGenerator),
    Latest(ZipfGenerator),
}

impl RecordChooser {
    /// Creates a chooser for `records` initial records, at least one.
    #[must_use]
    pub fn new(distribution: RecordDistribution, records: u64) -> RecordChooser {
        let records = records.max(1);
        let draw = match distribution {
            RecordDistribution::Uniform => ChoiceMethod::Uniform,
            RecordDistribution::Zipf => ChoiceMethod::Scrambled(ZipfGenerator::new(records)),
            RecordDistribution::Ycsb => ChoiceMethod::Scrambled(ZipfGenerator::new(YCSB_RANKS)),
            RecordDistribution::Latest => ChoiceMethod::Latest(ZipfGenerator::new(records)),
        };
        RecordChooser { draw, records }
    }

    /// Chooses a record and returns its number, which is less than `limit`, the number of initial
    /// and added records.
    pub fn draw(&mut self, random: &mut fastrand::Rng, limit: u64) -> u64 {
        match &mut self.draw {
            ChoiceMethod::Uniform => random.u64(..limit),
            ChoiceMethod::Scrambled(zipf) => fnv(zipf.draw(random)) % self.records,
            ChoiceMethod::Latest(zipf) => {
                zipf.grow(limit);
                limit - 1 - zipf.draw(random).min(limit - 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: u64 = 1000;
    const DRAWS: usize = 200_000;

    fn counts(distribution: RecordDistribution) -> Vec<usize> {
        let mut chooser = RecordChooser::new(distribution, RECORDS);
        let mut random = fastrand::Rng::with_seed(3);
        let mut counts = vec![0; RECORDS as usize];
        for _ in 0..DRAWS {
            counts[chooser.draw(&mut random, RECORDS) as usize] += 1;
        }
        counts
    }

    #[test]
    fn uniform_is_even() {
        let counts = counts(RecordDistribution::Uniform);
        // The expected count is two hundred, and six standard deviations are 85.
        assert!(counts.iter().all(|count| count.abs_diff(200) < 85), "{counts:?}");
    }

    #[test]
    fn scrambled_puts_the_hottest_records_where_the_hash_says() {
        for (distribution, ranks) in [
            (RecordDistribution::Zipf, RECORDS),
            (RecordDistribution::Ycsb, YCSB_RANKS),
        ] {
            let counts = counts(distribution);
            let hottest = (0..RECORDS as usize)
                .max_by_key(|&record| counts[record])
                .unwrap();
            assert_eq!(hottest as u64, fnv(0) % RECORDS);
            let zeta: f64 = if ranks == RECORDS {
                (1..=RECORDS).map(|rank| (rank as f64).powf(-0.99)).sum()
            } else {
                26.469
            };
            // The counts of ranks that hash to the same record add up.
            let expected = DRAWS as f64 / zeta;
            let found = counts[hottest] as f64;
            assert!(
                found > 0.95 * expected && found < 1.25 * expected,
                "{found} of {expected}"
            );
            // Frequent records must be scattered, so each half of the records must contain its
            // share of them.
            let mut order: Vec<usize> = (0..RECORDS as usize).collect();
            order.sort_by_key(|&record| std::cmp::Reverse(counts[record]));
            let low = order[..100].iter().filter(|&&record| record < 500).count();
            assert!(
                (30..=70).contains(&low),
                "{low} of the hottest hundred are in the first half"
            );
        }
    }

    #[test]
    fn the_published_client_is_less_skewed() {
        let top = |distribution| {
            let mut counts = counts(distribution);
            counts.sort_unstable_by(|one, other| other.cmp(one));
            counts[..10].iter().sum::<usize>()
        };
        assert!(top(RecordDistribution::Zipf) as f64 > 1.4 * top(RecordDistribution::Ycsb) as f64);
    }

    #[test]
    fn latest_follows_what_is_put() {
        let mut chooser = RecordChooser::new(RecordDistribution::Latest, RECORDS);
        let mut random = fastrand::Rng::with_seed(3);
        for limit in [RECORDS, RECORDS + 500] {
            let drawn: Vec<u64> = (0..20_000).map(|_| chooser.draw(&mut random, limit)).collect();
            let newest = drawn.iter().filter(|&&record| record == limit - 1).count() as f64;
            let zeta: f64 = (1..=limit).map(|rank| (rank as f64).powf(-0.99)).sum();
            assert!((newest / 20_000.0 * zeta - 1.0).abs() < 0.1, "{newest}");
            assert!(drawn.iter().all(|&record| record < limit));
        }
    }
}
