//! The Zipf distribution as YCSB uses it (Gray et al., "Quickly generating billion-record synthetic
//! databases", SIGMOD 1994).

/// The exponent of the Zipf distribution in YCSB.
pub const THETA: f64 = 0.99;

/// Generates random ranks, starting from 0. The probability of rank r is proportional to (r +
/// 1)^-0.99. The number of ranks can grow.
#[derive(Clone, Debug)]
pub struct ZipfGenerator {
    count: u64,
    zeta: f64,
    eta: f64,
}

impl ZipfGenerator {
    /// Creates a distribution over the ranks below `count`, or over rank 0 alone if `count` is 0.
    #[must_use]
    pub fn new(count: u64) -> ZipfGenerator {
        let count = count.max(1);
        let zeta = zeta(count);
        ZipfGenerator {
            count,
            zeta,
            eta: eta(count, zeta),
        }
    }

    /// Increases the number of ranks to `count`, unless it is already greater.
    pub fn grow(&mut self, count: u64) {
        if count <= self.count {
            return;
        }
        for rank in self.count + 1..=count {
            self.zeta += (rank as f64).powf(-THETA);
        }
        self.count = count;
        self.eta = eta(count, self.zeta);
    }

    /// Returns a random rank below `count`. Rank 0 is the most frequent one.
    pub fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        let uniform = random.f64();
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1.min(self.count - 1);
        }
        let rank = self.count as f64 * (self.eta * uniform - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.count - 1)
    }
}

fn eta(count: u64, zeta_of_all: f64) -> f64 {
    (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - zeta(2) / zeta_of_all)
}

/// Returns the sum of r^-theta for r from 1 to `count`: the first terms exactly, and the rest by
/// the Euler–Maclaurin formula.
fn zeta(count: u64) -> f64 {
    const EXACT: u64 = 1000;
    let one = |rank: u64| (rank as f64).powf(-THETA);
    let first: f64 = (1..=count.min(EXACT)).map(one).sum();
    if count <= EXACT {
        return first;
    }
    let (low, high) = (EXACT as f64, count as f64);
    let integral = (high.powf(1.0 - THETA) - low.powf(1.0 - THETA)) / (1.0 - THETA);
    let slope = |rank: f64| -THETA * rank.powf(-THETA - 1.0);
    first + integral + (one(count) - one(EXACT)) / 2.0 + (slope(high) - slope(low)) / 12.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_its_terms_and_that_of_the_published_client() {
        for count in [1u64, 2, 1000, 1001, 50_000, 3_000_000] {
            let exact: f64 = (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum();
            assert!(
                (zeta(count) / exact - 1.0).abs() < 1e-12,
                "{count}: {}",
                zeta(count)
            );
        }
        // The YCSB client uses this constant for ten thousand million items.
        assert!((zeta(10_000_000_000) - 26.469_028_201_783_02).abs() < 1e-6);
    }

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        const DRAWS: u64 = 400_000;
        let zipf = ZipfGenerator::new(10_000);
        let mut random = fastrand::Rng::with_seed(1);
        let mut counts = vec![0u64; 10_000];
        for _ in 0..DRAWS {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        // The first two ranks have exact probabilities. The others follow Gray's approximation,
        // which is a tenth too high for the most frequent of them.
        let mass = |ranks: std::ops::Range<usize>| {
            let law: f64 = ranks.clone().map(|rank| ((rank + 1) as f64).powf(-THETA)).sum();
            let found: u64 = counts[ranks].iter().sum();
            found as f64 / DRAWS as f64 / (law / zeta(10_000))
        };
        for (ranks, within) in [
            (0..1, 0.02),
            (1..2, 0.03),
            (2..10, 0.12),
            (10..100, 0.06),
            (100..1000, 0.06),
            (1000..10_000, 0.06),
        ] {
            let ratio = mass(ranks.clone());
            assert!(
                (ratio - 1.0).abs() < within,
                "ranks {ranks:?}: {ratio} of what the law says"
            );
        }
    }

    #[test]
    fn growing_is_the_same_as_having_been_as_large() {
        let mut grown = ZipfGenerator::new(2000);
        grown.grow(5000);
        grown.grow(3000);
        let large = ZipfGenerator::new(5000);
        assert!((grown.zeta / large.zeta - 1.0).abs() < 1e-12 && grown.count == 5000);
        assert!((grown.eta / large.eta - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_record_is_drawn_always() {
        let zipf = ZipfGenerator::new(1);
        let mut random = fastrand::Rng::with_seed(1);
        assert!((0..100).all(|_| zipf.draw(&mut random) == 0));
    }
}
