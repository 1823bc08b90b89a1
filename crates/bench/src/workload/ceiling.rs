//! Computes the best hit rates that a cache of records can reach under any policy, for skewed
//! workloads.
//!
//! Records are chosen as in a phase. After the warm-up, a cache can know at most how often and when
//! each record was requested. The best use of the frequencies is to keep the most frequent records.
//! No cache can answer the first request for a record.

use super::choose::RecordChooser;
use super::mix::{OperationKind, YcsbMix};
use super::phase::{PhaseTask, WorkloadPhase};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// The numbers of records and operations that bounds are computed for.
#[derive(Clone, Copy, Debug)]
pub struct CeilingDraws {
    /// Number of records before the first operation.
    pub records: u64,
    /// Number of warm-up operations, from which the cache learns.
    pub warm: u64,
    /// Number of operations after the warm-up, whose misses are counted.
    pub run: u64,
    pub seed: u64,
}

/// Miss rates of several caches, as fractions (0 to 1) of the counted operations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CacheCeiling {
    /// Maximum number of records in the cache.
    pub kept: u64,
    /// Miss rate of an unlimited cache, which misses only the first request for each record.
    pub endless: f64,
    /// Miss rate of a cache of the records that the warm-up read or wrote most often, and of
    /// equally frequent ones, most recently.
    pub counted: f64,
    /// Miss rate of a cache of the most recently read or written records.
    pub recent: f64,
}

/// An operation that accesses one record.
struct RecordAccess {
    record: usize,
    reads: bool,
}

/// The sequence of operations of a mix, as the seed determines it.
struct MixOperations {
    mix: YcsbMix,
    chooser: RecordChooser,
    random: fastrand::Rng,
    records: u64,
}

impl MixOperations {
    fn next(&mut self) -> RecordAccess {
        match self.mix.draw(&mut self.random) {
            OperationKind::Insert => {
                self.records += 1;
                RecordAccess {
                    record: self.records as usize - 1,
                    reads: false,
                }
            }
            kind => RecordAccess {
                record: self.chooser.draw(&mut self.random, self.records) as usize,
                reads: kind != OperationKind::Update,
            },
        }
    }
}

/// Returns the bounds for a phase and each cache size in records. The computation needs twelve
/// bytes of memory per record, and one more byte per record for each cache size.
///
/// # Errors
/// An invalid phase or number: the phase contains scans or batches, there are no operations to
/// count, or a number exceeds four thousand million.
pub fn ceilings(
    phase: &WorkloadPhase,
    draws: CeilingDraws,
    sizes: &[u64],
) -> Result<Vec<CacheCeiling>, String> {
    let PhaseTask::Mix { mix, distribution } = phase.task else {
        return Err(format!("{:?} reads no records", phase.name));
    };
    if mix.scan + mix.multi_get > 0 {
        return Err(format!(
            "{:?} has scans or batches: only single lookups are counted",
            phase.name
        ));
    }
    let all = draws.records.saturating_add(draws.warm).saturating_add(draws.run);
    if draws.records == 0 || draws.run == 0 || all > u64::from(u32::MAX) {
        return Err(format!(
            "{} records, and {} and {} operations: give at least one record and one operation to count, and at most {} of all together",
            draws.records,
            draws.warm,
            draws.run,
            u32::MAX
        ));
    }
    let operations = || MixOperations {
        mix,
        chooser: RecordChooser::new(distribution, draws.records),
        random: fastrand::Rng::with_seed(draws.seed),
        records: draws.records,
    };
    let numbers = if mix.insert > 0 { all } else { draws.records } as usize;
    let share = |lacks: u64| lacks as f64 / draws.run as f64;
    let (endless, counted) = by_history(operations(), draws, numbers, sizes);
    let ceiling = |(&kept, &counted)| CacheCeiling {
        kept,
        endless: share(endless),
        counted: share(counted),
        recent: share(by_age(operations(), draws, numbers, kept)),
    };
    Ok(sizes.iter().zip(&counted).map(ceiling).collect())
}

/// Counts the misses of an unlimited cache, and of caches of the given sizes that keep the most
/// frequently used records.
fn by_history(
    mut operations: MixOperations,
    draws: CeilingDraws,
    numbers: usize,
    sizes: &[u64],
) -> (u64, Vec<u64>) {
    let (mut times, mut last) = (vec![0u32; numbers], vec![0u32; numbers]);
    for now in 1..=draws.warm {
        let record = operations.next().record;
        times[record] += 1;
        last[record] = now as u32;
    }
    let mut ranked: Vec<u32> = (0..numbers as u32).collect();
    let mut keep = |size: u64| {
        let mut kept = vec![false; numbers];
        let size = (size as usize).min(numbers);
        if size > 0 {
            let rank = |record: &u32| Reverse((times[*record as usize], last[*record as usize]));
            ranked.select_nth_unstable_by_key(size - 1, rank);
        }
        ranked[..size]
            .iter()
            .for_each(|&record| kept[record as usize] = true);
        kept
    };
    let kept: Vec<Vec<bool>> = sizes.iter().map(|&size| keep(size)).collect();
    let (mut endless, mut counted) = (0, vec![0; sizes.len()]);
    for _ in 0..draws.run {
        let RecordAccess { record, reads } = operations.next();
        for (kept, lacks) in kept.iter().zip(&mut counted) {
            *lacks += u64::from(reads && !kept[record]);
        }
        endless += u64::from(reads && last[record] == 0);
        last[record] = u32::MAX;
    }
    (endless, counted)
}

/// Counts the misses of a cache with `size` records that keeps the most recently used ones.
fn by_age(mut operations: MixOperations, draws: CeilingDraws, numbers: usize, size: u64) -> u64 {
    let mut last = vec![0u32; numbers];
    // All accesses in order. Only the last access to a record counts.
    let mut touches: VecDeque<(u32, u32)> = VecDeque::new();
    let (mut kept, mut lacks) = (0, 0);
    for now in 1..=draws.warm + draws.run {
        let RecordAccess { record, reads } = operations.next();
        let is_kept = last[record] != 0;
        lacks += u64::from(reads && !is_kept && now > draws.warm);
        kept += u64::from(!is_kept);
        last[record] = now as u32;
        touches.push_back((record as u32, now as u32));
        while kept > size
            && let Some((oldest, then)) = touches.pop_front()
        {
            if last[oldest as usize] == then {
                last[oldest as usize] = 0;
                kept -= 1;
            }
        }
    }
    lacks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::phase::{PhaseDefaults, WindowLength};

    const DRAWS: CeilingDraws = CeilingDraws {
        records: 10_000,
        warm: 60_000,
        run: 40_000,
        seed: 1,
    };

    fn of(phase: &str, draws: CeilingDraws, sizes: &[u64]) -> Result<Vec<CacheCeiling>, String> {
        let nothing = PhaseDefaults {
            warm: WindowLength::Operations(0),
            run: WindowLength::Operations(0),
            rate: None,
        };
        ceilings(&WorkloadPhase::parse(phase, nothing).unwrap(), draws, sizes)
    }

    #[test]
    fn even_lookups_miss_what_is_not_kept_and_nothing_for_the_first_time() {
        let [none, some, all] = of("c:uniform", DRAWS, &[0, 2_500, 10_000]).unwrap()[..] else {
            panic!("three sizes")
        };
        assert_eq!((none.counted, none.recent), (1.0, 1.0));
        assert!((some.recent - 0.75).abs() < 0.01, "{some:?}");
        assert!((some.counted - 0.75).abs() < 0.01, "{some:?}");
        assert_eq!(all.counted, 0.0);
        assert_eq!(all.recent, all.endless);
        // Each record is accessed six times on average. About e^-6 of the records have not been
        // accessed, and ever fewer.
        assert!(some.endless > 0.0 && some.endless < 0.0025, "{some:?}");
    }

    #[test]
    fn where_a_few_are_asked_for_often_counting_is_better_than_age() {
        for phase in ["c", "b", "f"] {
            let found = of(phase, DRAWS, &[500, 1_000]).unwrap();
            for ceiling in &found {
                assert!(ceiling.endless < ceiling.counted, "{phase}: {ceiling:?}");
                assert!(ceiling.counted < ceiling.recent, "{phase}: {ceiling:?}");
            }
            assert!(found[1].counted < found[0].counted);
        }
        let [lookups, half] = ["c", "a"].map(|phase| of(phase, DRAWS, &[1_000]).unwrap()[0]);
        assert!(
            (half.counted * 2.0 / lookups.counted - 1.0).abs() < 0.1,
            "{half:?} {lookups:?}"
        );
    }

    #[test]
    fn where_the_newest_are_asked_for_age_is_better_than_counting() {
        let latest = of("d", DRAWS, &[500]).unwrap()[0];
        assert!(latest.recent < latest.counted, "{latest:?}");
        assert!(latest.endless < latest.recent, "{latest:?}");
    }

    #[test]
    fn what_cannot_be_counted_is_said() {
        let nothing = CeilingDraws { run: 0, ..DRAWS };
        let many = CeilingDraws {
            warm: u64::MAX,
            ..DRAWS
        };
        for (phase, draws, what) in [
            ("load", DRAWS, "reads no records"),
            ("e", DRAWS, "scans or batches"),
            ("m", DRAWS, "scans or batches"),
            ("c", nothing, "at least one record"),
            ("c", many, "at most 4294967295 of all"),
        ] {
            let error = of(phase, draws, &[1]).unwrap_err();
            assert!(error.contains(what), "{phase}: {error}");
        }
    }
}
