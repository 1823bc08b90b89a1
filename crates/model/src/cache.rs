//! Predicts which pages a cache with a probation period contains (S3-FIFO, Yang et al., SOSP 2023),
//! as `alluvium_storage::cache` is.
//!
//! A page that is read enters probation for a time `cold`. It is promoted if it is requested again
//! during probation, or later while its name is still remembered. A promoted page stays cached as
//! long as it is requested at least once in each period of length `kept`. Requests are assumed to
//! be independent, so each page repeats the same cycle, and its hit rate is the fraction of the
//! cycle during which it is cached. The two times are those at which the pages just fill the
//! available memory (Che et al., "Hierarchical Web Caching Systems", 2002).

/// Fraction of the memory reserved for pages on probation.
const COLD: f64 = 1.0 / 8.0;
/// How long the name of an evicted page is remembered, in units of the probation period. The cache
/// remembers as many names as there are pages in memory.
const REMEMBERED: f64 = 8.0;
/// Number of iterations that determine the probation time. Each one finds the other time by
/// bisection.
const ROUNDS: usize = 5;
const STEPS: usize = 18;

/// The characteristic times of a cache, in requests. A page is evicted if it is not requested for
/// `cold` requests on probation, or for `kept` requests after promotion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EvictionTimes {
    cold: f64,
    kept: f64,
}

/// The probabilities that a page is not requested within each of a cache's characteristic times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct IdleProbabilities {
    cold: f64,
    remembered: f64,
    kept: f64,
}

/// How long and how often a page is cached in the course of its cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CacheResidency {
    /// Fraction of the time during which the page is cached.
    pub(crate) there: f64,
    /// Number of times that the page enters probation, per request of the workload.
    pub(crate) trials: f64,
}

/// The memory that pages occupy in bytes, and the bytes that enter probation per request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CacheLoad {
    pub(crate) bytes: f64,
    pub(crate) trials: f64,
}

impl CacheLoad {
    /// Adds pages with a total size of `bytes`, all of which have the same residency.
    pub(crate) fn add(&mut self, bytes: f64, stay: CacheResidency) {
        self.bytes += bytes * stay.there;
        self.trials += bytes * stay.trials;
    }
}

impl IdleProbabilities {
    /// Returns the idle probabilities of a page that two independent sources request.
    pub(crate) fn and(self, other: IdleProbabilities) -> IdleProbabilities {
        IdleProbabilities {
            cold: self.cold * other.cold,
            remembered: self.remembered * other.remembered,
            kept: self.kept * other.kept,
        }
    }

    /// Returns the idle probabilities for a source of requests that exists only with probability
    /// `share`.
    pub(crate) fn with_chance(self, share: f64) -> IdleProbabilities {
        let of = |idle: f64| 1.0 - share * (1.0 - idle);
        IdleProbabilities {
            cold: of(self.cold),
            remembered: of(self.remembered),
            kept: of(self.kept),
        }
    }

    /// Returns the weighted mean of pairs of a weight and idle probabilities.
    pub(crate) fn mean(all: impl Iterator<Item = (f64, IdleProbabilities)>) -> IdleProbabilities {
        let (mut weights, mut sum) = (0.0, [0.0; 3]);
        for (weight, one) in all {
            weights += weight;
            for (sum, idle) in sum.iter_mut().zip([one.cold, one.remembered, one.kept]) {
                *sum += weight * idle;
            }
        }
        let [cold, remembered, kept] = sum.map(|sum| match weights > 0.0 {
            true => (sum / weights).clamp(0.0, 1.0),
            false => 1.0,
        });
        IdleProbabilities {
            cold,
            remembered,
            kept,
        }
    }

    /// Returns the idle probabilities of a page with `count` independent sources of requests like
    /// this one.
    pub(crate) fn of_many(self, count: f64) -> IdleProbabilities {
        IdleProbabilities {
            cold: self.cold.powf(count),
            remembered: self.remembered.powf(count),
            kept: self.kept.powf(count),
        }
    }
}

impl EvictionTimes {
    /// The characteristic times of a cache that is large enough for all pages.
    const FOREVER: EvictionTimes = EvictionTimes {
        cold: f64::INFINITY,
        kept: f64::INFINITY,
    };

    /// Returns the characteristic times of a cache with a capacity in bytes. `load` computes the
    /// memory that pages would occupy at given characteristic times.
    pub(crate) fn of(capacity: f64, load: impl Fn(&EvictionTimes) -> CacheLoad) -> EvictionTimes {
        if load(&EvictionTimes::FOREVER).bytes <= capacity {
            return EvictionTimes::FOREVER;
        }
        let mut times = EvictionTimes { cold: 0.0, kept: 0.0 };
        if capacity <= 0.0 {
            return times;
        }
        // With both times at zero, every request misses the cache and enters probation.
        times.cold = COLD * capacity / load(&times).trials.max(f64::MIN_POSITIVE);
        for _ in 0..ROUNDS {
            let (mut low, mut high) = (-10.0_f64, 60.0_f64);
            for _ in 0..STEPS {
                let middle = f64::midpoint(low, high);
                times.kept = middle.exp();
                match load(&times).bytes <= capacity {
                    true => low = middle,
                    false => high = middle,
                }
            }
            times.kept = low.exp();
            let trials = load(&times).trials.max(f64::MIN_POSITIVE);
            times.cold = (times.cold * COLD * capacity / trials).sqrt();
        }
        times
    }

    /// Returns the probabilities that a source with this request rate makes no request within each
    /// of the characteristic times.
    pub(crate) fn idle(&self, rate: f64) -> IdleProbabilities {
        let idle = |time: f64| match time.is_infinite() {
            true => 0.0,
            false => (-rate * time).exp(),
        };
        IdleProbabilities {
            cold: idle(self.cold),
            remembered: idle(REMEMBERED * self.cold),
            kept: idle(self.kept),
        }
    }

    /// Returns the residency of a page with this request rate and these idle probabilities.
    pub(crate) fn stay(&self, rate: f64, idle: IdleProbabilities) -> CacheResidency {
        if rate <= 0.0 {
            return CacheResidency::default();
        }
        if self.kept.is_infinite() {
            return CacheResidency {
                there: 1.0,
                trials: 0.0,
            };
        }
        // The expected number of probation periods until the page is promoted. A fraction
        // `idle.cold` of them ends without a request.
        let passed = 1.0 - idle.cold * idle.remembered;
        let trials = 1.0 / passed.max(1e-12);
        let there = trials * self.cold + self.kept / idle.kept.max(1e-12);
        let away = (trials * idle.cold + 1.0) / rate;
        CacheResidency {
            there: there / (there + away),
            trials: trials / (there + away),
        }
    }

    /// Returns the residency of a page with this request rate whose requests are independent.
    pub(crate) fn page(&self, rate: f64) -> CacheResidency {
        self.stay(rate, self.idle(rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the cache load of two kinds of one-byte pages, given the number of pages and the
    /// total request rate of each kind.
    fn load(kinds: [(f64, f64); 2]) -> impl Fn(&EvictionTimes) -> CacheLoad {
        move |times| {
            let mut load = CacheLoad::default();
            for (pages, share) in kinds {
                load.add(pages, times.page(share / pages));
            }
            load
        }
    }

    #[test]
    fn pages_take_the_memory_that_there_is_and_an_eighth_is_on_trial() {
        let load = load([(1000.0, 0.5), (30_000.0, 0.5)]);
        for capacity in [100.0, 2000.0, 20_000.0] {
            let times = EvictionTimes::of(capacity, &load);
            let all = load(&times);
            assert!((all.bytes / capacity - 1.0).abs() < 0.02, "{capacity}: {all:?}");
            let cold = all.trials * times.cold / capacity;
            assert!((0.1..0.15).contains(&cold), "{capacity}: {cold} on trial");
        }
    }

    #[test]
    fn what_is_asked_for_more_often_stays_though_the_rest_is_much_more() {
        let kinds = [(1000.0, 0.5), (30_000.0, 0.5)];
        let times = EvictionTimes::of(1600.0, load(kinds));
        let often = times.page(0.5 / 1000.0).there;
        // An LRU cache, which keeps the 1,600 most recently used pages, would contain only 78 % of
        // these.
        assert!(often > 0.9, "{often}");
        let all = [(1000.0, 0.5), (500.0, 0.5)];
        assert_eq!(EvictionTimes::of(1600.0, load(all)).page(0.001).there, 1.0);
        assert_eq!(EvictionTimes::of(0.0, load(kinds)).page(0.001).there, 0.0);
    }
}
