//! Moves memory between the page cache and the record cache in small steps, towards the cache where
//! it saves more device reads.

use super::Engine;
use super::record_cache::sizing::{self, CacheSample, CacheTrend};
use crate::error::Result;
use alluvium_base::Purpose;

/// Counter values at the previous sample, and the trend of recent samples.
#[derive(Debug, Default)]
pub(crate) struct BalanceState {
    misses: u64,
    ghost_hits: u64,
    reads: u64,
    hits: u64,
    scan_reads: u64,
    guides: u64,
    trend: CacheTrend,
    /// The record cache's budget and the sum of both cache budgets, in bytes, as set by the latest
    /// decision. If the sum changes later, their ratio is kept.
    decided: Option<(u64, u64)>,
}

impl BalanceState {
    /// Remembers the record cache's budget and the sum of both cache budgets as the latest
    /// decision.
    pub(super) fn decide(&mut self, records: u64, both: u64) {
        self.decided = Some((records, both));
    }

    /// Returns the record cache's new budget when the total budget of both caches changes from
    /// `both` to `caches` bytes. If the change would be small, returns the current budget `now`.
    pub(super) fn share_of_records(&mut self, now: u64, both: u64, caches: u64) -> u64 {
        let (records, all) = *self.decided.get_or_insert((now, both));
        let wanted = sizing::in_proportion(records, all, caches);
        let may_stay = now <= sizing::most(caches) && !sizing::is_a_step(now.abs_diff(wanted), caches);
        if may_stay { now } else { wanted }
    }
}

impl Engine {
    /// Samples the counters, and moves memory between the two caches if doing so saves enough
    /// device reads. Does nothing if the user has chosen the record cache's share.
    pub(crate) fn balance(&self) -> Result<()> {
        if !self.balances() {
            return Ok(());
        }
        let records = self.records.stats();
        let cache = self.store.cache();
        let of_pages = cache.stats();
        let pages = of_pages.budget_bytes;
        let device = self.device_stats();
        let reads = device.of(Purpose::Lookup).reads;
        let scan_reads = device.of(Purpose::Scan).reads;
        let mut seen = self.budget.seen.lock();
        let view = CacheSample {
            records: records.budget_bytes,
            pages,
            is_full: self.records.is_full(),
            lookups: records.misses - seen.misses,
            reads: reads - seen.reads,
            guides: of_pages.index_misses - seen.guides,
            ghost_hits: records.ghost_hits - seen.ghost_hits,
            ghost_bytes: records.ghost_bytes,
            hits: records.hits - seen.hits,
            scan_reads: scan_reads - seen.scan_reads,
            data: self.store.usage().0.total().live_extent_bytes,
        };
        if !sizing::is_enough(&view) {
            return Ok(());
        }
        (seen.misses, seen.hits, seen.ghost_hits) = (records.misses, records.hits, records.ghost_hits);
        (seen.reads, seen.scan_reads, seen.guides) = (reads, scan_reads, of_pages.index_misses);
        // The page cache must not shrink below its minimum size.
        let spare = pages.saturating_sub(self.least_pages());
        let wanted = seen.trend.next(&view).min(view.records + spare);
        if wanted != view.records {
            seen.decided = Some((wanted, view.records + pages));
        }
        // Shrink one cache before growing the other, so that their sum never exceeds the budget.
        if wanted < view.records {
            self.records.set_budget(wanted);
            cache.set_budget(pages + view.records - wanted)?;
        } else if wanted > view.records {
            cache.set_budget(pages + view.records - wanted)?;
            self.records.set_budget(wanted);
        }
        Ok(())
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn the_share_stays_while_the_whole_changes() {
        let mut seen = BalanceState::default();
        let (mut records, mut both) = (200, 320);
        let mut at = |caches, seen: &mut BalanceState| {
            records = seen.share_of_records(records, both, caches);
            both = caches;
            records
        };
        assert_eq!(at(320, &mut seen), 200);
        assert_eq!(at(310, &mut seen), 200, "not worth a copy of all records");
        assert_eq!(at(300, &mut seen), 187, "many small steps are a large one");
        assert_eq!(at(160, &mut seen), 100);
        assert_eq!(at(320, &mut seen), 200, "what was lent comes back");
        seen.decided = Some((240, 320));
        assert_eq!(at(320, &mut seen), 240);
        assert_eq!(at(316, &mut seen), 237, "pages keep a quarter at least");
    }
}
