//! Keys with a Zipf distribution.

/// Draws ranks, starting at 0, from a Zipf distribution with exponent 0.99: Gray et al., SIGMOD
/// 1994.
pub(crate) struct Zipf {
    count: f64,
    zeta: f64,
    eta: f64,
}

pub(crate) const THETA: f64 = 0.99;

impl Zipf {
    /// Returns the distribution for `count` keys.
    pub(crate) fn new(count: usize) -> Zipf {
        let terms = |count: usize| (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
        let (zeta, two) = (terms(count), terms(2));
        let count = count as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - THETA)) / (1.0 - two / zeta);
        Zipf { count, zeta, eta }
    }

    /// Draws a rank, of which 0 is the most frequent.
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        let point = random.f64();
        let scaled = point * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(THETA) {
            return 1;
        }
        (self.count * (self.eta * point - self.eta + 1.0).powf(1.0 / (1.0 - THETA))) as u64
    }
}
