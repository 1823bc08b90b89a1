//! Predicted costs as a function of the record cache's share of cache memory.

use super::super::forecast::ModelQuery;
use crate::error::{Error, Result};
use alluvium_model::structures::{StructureCost, StructureModel, TieredSettings};

/// Maximum share of cache memory for the record cache.
const MOST: f64 = 0.75;

/// A share of cache memory for the record cache, and the device reads per lookup predicted for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheAdvice {
    /// Fraction of cache memory for the record cache, from 0 to 0.75. The page cache gets the rest.
    pub record_share: f64,
    /// 10th percentile of the predicted number of device reads per lookup, over stores like this
    /// one.
    pub p10: f64,
    /// Predicted number of device reads per lookup.
    pub predicted: f64,
    /// 90th percentile of the predicted number of device reads per lookup, over stores like this
    /// one.
    pub p90: f64,
}

impl CacheAdvice {
    /// Returns an error unless the share and the predictions are valid.
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |why| {
            Err(Error::BadOption {
                option: "advice",
                why,
            })
        };
        if !(0.0..=MOST).contains(&self.record_share) {
            return bad(format!(
                "{} is not a share of the caches: give one from 0 to {MOST}",
                self.record_share
            ));
        }
        let (p10, p90) = (self.p10, self.p90);
        if !(0.0 <= p10 && p10 <= self.predicted && self.predicted <= p90 && p90.is_finite()) {
            return bad(format!(
                "{p10} to {p90} is not a valid band of reads per lookup around {}: the bounds must enclose the prediction",
                self.predicted
            ));
        }
        Ok(())
    }

    /// Builds the advice for a share from its predicted cost. `found`, the fraction of lookups that
    /// find a value, weights the costs of hits and misses.
    fn of(record_share: f64, cost: &StructureCost, found: f64) -> CacheAdvice {
        let mix = |hit: f64, miss: f64| found * hit + (1.0 - found) * miss;
        CacheAdvice {
            record_share,
            p10: mix(cost.hit_reads.p10, cost.miss_reads.p10),
            predicted: mix(cost.hit_reads.middle, cost.miss_reads.middle),
            p90: mix(cost.hit_reads.p90, cost.miss_reads.p90),
        }
    }
}

impl ModelQuery {
    /// Returns the model's prediction for another record cache share, or `None` unless the
    /// structure is the tiered tree, the only one whose model includes the record cache.
    pub(crate) fn at_share(&self, records_share: f64) -> Option<(CacheAdvice, StructureCost)> {
        let StructureModel::Tiered(setting) = self.structure else {
            return None;
        };
        let setting = TieredSettings {
            records_share,
            ..setting
        };
        let cost = self.with(StructureModel::Tiered(setting)).cost()?;
        let all = &self.workload.operations;
        let found = all.hits / all.lookups().max(f64::MIN_POSITIVE);
        Some((CacheAdvice::of(records_share, &cost, found), cost))
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn only_shares_and_bands_that_are_some_can_be_applied() {
        let good = CacheAdvice {
            record_share: 0.5,
            p10: 0.1,
            predicted: 0.2,
            p90: 0.3,
        };
        assert!(good.check().is_ok());
        for record_share in [-0.1, 0.76, f64::NAN] {
            let error = CacheAdvice { record_share, ..good }.check().unwrap_err();
            assert!(error.to_string().contains("share"), "{error}");
        }
        for p90 in [0.15, f64::INFINITY, f64::NAN] {
            assert!(CacheAdvice { p90, ..good }.check().is_err(), "{p90}");
        }
        assert!(CacheAdvice { p10: -1.0, ..good }.check().is_err());
    }
}
