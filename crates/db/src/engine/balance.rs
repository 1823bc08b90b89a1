//! Memory moves between the cache of pages and that of records, a little now and then, to where it saves more reads.

use super::Engine;
use super::records::share::{self, Ceiling, View};
use crate::Result;
use alluvium_base::Purpose;

/// What had been counted when the shares were looked at last.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    misses: u64,
    ghost_hits: u64,
    reads: u64,
    hits: u64,
    scan_reads: u64,
    ceiling: Ceiling,
}

impl Engine {
    /// Looks at the shares of the two caches, and changes them if that is worth while. A share that the user chose stays.
    pub(crate) fn balance(&self) -> Result<()> {
        if !self.plan.balances {
            return Ok(());
        }
        let records = self.records.stats();
        let cache = self.store.cache();
        let pages = cache.stats().budget_bytes;
        let device = self.store.directory().counters().snapshot();
        let reads = device.of(Purpose::Lookup).reads;
        let scan_reads = device.of(Purpose::Scan).reads;
        let mut seen = self.seen.lock();
        let view = View {
            records: records.budget_bytes,
            pages,
            is_full: self.records.is_full(),
            lookups: records.misses - seen.misses,
            reads: reads - seen.reads,
            ghost_hits: records.ghost_hits - seen.ghost_hits,
            ghost_bytes: records.ghost_bytes,
            hits: records.hits - seen.hits,
            scan_reads: scan_reads - seen.scan_reads,
            data: self.store.usage().0.total().live_extent_bytes,
        };
        if !share::is_enough(&view) {
            return Ok(());
        }
        *seen = Seen {
            misses: records.misses,
            ghost_hits: records.ghost_hits,
            reads,
            hits: records.hits,
            scan_reads,
            ceiling: seen.ceiling,
        };
        // Pages have the least that they need, whatever else would be better.
        let spare = pages.saturating_sub(self.least_pages());
        let wanted = seen.ceiling.next(&view).min(view.records + spare);
        // One side gives before the other takes.
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
