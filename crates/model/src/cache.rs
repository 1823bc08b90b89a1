//! Which pages a cache holds: one that keeps what is asked for again, after a trial (S3-FIFO, Yang
//! et al., SOSP 2023), as `alluvium_storage::cache` does.
//!
//! A page that is read is on trial for a time `cold`. It is kept if it is asked for meanwhile, or
//! within the time that its name is remembered afterwards; what is kept stays as long as it is
//! asked for once in each time `kept`. Requests come independently of each other, so that each page
//! goes through the same cycle again and again, and the share of it in which the page is there is
//! the share of its requests that find it. Both times are such that pages take the memory that
//! there is (Che et al., "Hierarchical Web Caching Systems", 2002).

/// The share of the memory for pages on trial.
const COLD: f64 = 1.0 / 8.0;
/// Names are remembered for as many pages as there are in memory: eight times as long as a trial.
const REMEMBERED: f64 = 8.0;
/// Rounds in which the time of the trial settles, and halvings of the interval of the other.
const ROUNDS: usize = 5;
const STEPS: usize = 18;

/// How long pages are there that are not asked for, in requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Times {
    cold: f64,
    kept: f64,
}

/// How often pages are not asked for within each of the times: by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Idle {
    cold: f64,
    remembered: f64,
    kept: f64,
}

/// What a page's cycle comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stay {
    /// The share of the time in which it is there.
    pub(crate) there: f64,
    /// How often it comes on trial, for each request of all.
    pub(crate) trials: f64,
}

/// What pages take, and how much of it comes on trial for each request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    pub(crate) bytes: f64,
    pub(crate) trials: f64,
}

impl Load {
    /// Adds pages, by their bytes in all.
    pub(crate) fn add(&mut self, bytes: f64, stay: Stay) {
        self.bytes += bytes * stay.there;
        self.trials += bytes * stay.trials;
    }
}

impl Idle {
    /// Returns the chances of a page that is asked for when either of two others is.
    pub(crate) fn and(self, other: Idle) -> Idle {
        Idle {
            cold: self.cold * other.cold,
            remembered: self.remembered * other.remembered,
            kept: self.kept * other.kept,
        }
    }

    /// Returns the chances of something that is asked for there with a chance of `share` only.
    pub(crate) fn with_chance(self, share: f64) -> Idle {
        let of = |idle: f64| 1.0 - share * (1.0 - idle);
        Idle {
            cold: of(self.cold),
            remembered: of(self.remembered),
            kept: of(self.kept),
        }
    }

    /// Returns the mean of several, each with its weight.
    pub(crate) fn mean(all: impl Iterator<Item = (f64, Idle)>) -> Idle {
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
        Idle {
            cold,
            remembered,
            kept,
        }
    }

    /// Returns the chances of a page with `count` things like this one.
    pub(crate) fn of_many(self, count: f64) -> Idle {
        Idle {
            cold: self.cold.powf(count),
            remembered: self.remembered.powf(count),
            kept: self.kept.powf(count),
        }
    }
}

impl Times {
    /// Those of a cache in which everything fits.
    const FOREVER: Times = Times {
        cold: f64::INFINITY,
        kept: f64::INFINITY,
    };

    /// Returns the times of a cache of this capacity, given what pages take for any times.
    pub(crate) fn of(capacity: f64, load: impl Fn(&Times) -> Load) -> Times {
        if load(&Times::FOREVER).bytes <= capacity {
            return Times::FOREVER;
        }
        let mut times = Times { cold: 0.0, kept: 0.0 };
        if capacity <= 0.0 {
            return times;
        }
        // Without memory every request comes on trial.
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

    /// Returns how often something is not asked for that is asked for at this rate.
    pub(crate) fn idle(&self, rate: f64) -> Idle {
        let idle = |time: f64| match time.is_infinite() {
            true => 0.0,
            false => (-rate * time).exp(),
        };
        Idle {
            cold: idle(self.cold),
            remembered: idle(REMEMBERED * self.cold),
            kept: idle(self.kept),
        }
    }

    /// Returns the stay of a page that is asked for at this rate, whose requests leave it idle that
    /// often.
    pub(crate) fn stay(&self, rate: f64, idle: Idle) -> Stay {
        if rate <= 0.0 {
            return Stay::default();
        }
        if self.kept.is_infinite() {
            return Stay {
                there: 1.0,
                trials: 0.0,
            };
        }
        // Trials until one is passed, and how many of them end without a request.
        let passed = 1.0 - idle.cold * idle.remembered;
        let trials = 1.0 / passed.max(1e-12);
        let there = trials * self.cold + self.kept / idle.kept.max(1e-12);
        let away = (trials * idle.cold + 1.0) / rate;
        Stay {
            there: there / (there + away),
            trials: trials / (there + away),
        }
    }

    /// Returns the stay of a page that is asked for at this rate, at any time alike.
    pub(crate) fn page(&self, rate: f64) -> Stay {
        self.stay(rate, self.idle(rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two kinds of pages of one byte: how many of each, and how often each kind is asked for.
    fn load(kinds: [(f64, f64); 2]) -> impl Fn(&Times) -> Load {
        move |times| {
            let mut load = Load::default();
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
            let times = Times::of(capacity, &load);
            let all = load(&times);
            assert!((all.bytes / capacity - 1.0).abs() < 0.02, "{capacity}: {all:?}");
            let cold = all.trials * times.cold / capacity;
            assert!((0.1..0.15).contains(&cold), "{capacity}: {cold} on trial");
        }
    }

    #[test]
    fn what_is_asked_for_more_often_stays_though_the_rest_is_much_more() {
        let kinds = [(1000.0, 0.5), (30_000.0, 0.5)];
        let times = Times::of(1600.0, load(kinds));
        let often = times.page(0.5 / 1000.0).there;
        // The last used ones, 1,600 of them, would have 0.78 of these.
        assert!(often > 0.9, "{often}");
        let all = [(1000.0, 0.5), (500.0, 0.5)];
        assert_eq!(Times::of(1600.0, load(all)).page(0.001).there, 1.0);
        assert_eq!(Times::of(0.0, load(kinds)).page(0.001).there, 0.0);
    }
}
