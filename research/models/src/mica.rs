//! The memory of a table like MICA's: buckets of fixed size with a pool of spare buckets for
//! overflow, or a log of fixed size (Lim §5.3, bulk chaining and circular log).

use alluvium_model::parameter::{BadParameter, positive, require};

/// Entries per bucket.
pub const ENTRIES: u32 = 15;

/// Bytes of a bucket: 15 entries of 8 bytes, a version, and the number of the next bucket.
pub const BUCKET_BYTES: f64 = 128.0;

/// The number of bits of a circular-log position.
pub const PLACE_BITS: u32 = 48;

/// The size of a lossless index: full buckets chain spare buckets.
///
/// ```
/// use research_models::mica::ChainedIndexSize;
/// // A tenth of spare buckets is enough for 11 items to a bucket.
/// let index = ChainedIndexSize::holding(11.0)?;
/// assert!(index.spare < 0.1 && index.in_main > 0.98);
/// assert_eq!((128.0_f64 / 11.0 * 10.0).round(), 116.0); // 11.6 bytes for each item
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainedIndexSize {
    /// The fraction of buckets that overflow.
    pub overflowing: f64,
    /// Spare buckets per bucket. A bucket that overflows twice needs two.
    pub spare: f64,
    /// The fraction of items in the first bucket of their chain.
    pub in_main: f64,
    /// Bytes per item, including spare buckets.
    pub bytes_per_item: f64,
}

/// The maximum number of items per bucket: beyond it almost all items are in chains.
const MOST_LOAD: f64 = 1000.0;

impl ChainedIndexSize {
    /// Returns the size of an index with `load` items per bucket, placed by a hash.
    ///
    /// # Errors
    /// [`BadParameter`] unless the load is positive, and at most 1000.
    pub fn holding(load: f64) -> Result<ChainedIndexSize, BadParameter> {
        positive("the load", load)?;
        require("the load", load, load <= MOST_LOAD, "at most 1000")?;
        // The number of items in a bucket has a Poisson distribution. ln p(k) grows by ln(load /
        // k).
        let mut logarithm = -load;
        let (mut overflowing, mut spare, mut beyond) = (0.0, 0.0, 0.0);
        let most = (load + 20.0 * load.sqrt() + 100.0) as u32;
        for items in 1..=most {
            logarithm += (load / f64::from(items)).ln();
            if items > ENTRIES {
                let chance = logarithm.exp();
                let over = items - ENTRIES;
                overflowing += chance;
                spare += chance * f64::from(over.div_ceil(ENTRIES));
                beyond += chance * f64::from(over);
            }
        }
        Ok(ChainedIndexSize {
            overflowing,
            spare,
            in_main: 1.0 - beyond / load,
            bytes_per_item: BUCKET_BYTES * (1.0 + spare) / load,
        })
    }

    /// Returns the highest load that a given ratio of spare buckets supports.
    ///
    /// # Errors
    /// [`BadParameter`] unless the ratio is positive, and at most 1.
    pub fn most_load(spare: f64) -> Result<f64, BadParameter> {
        positive("the spare buckets", spare)?;
        require(
            "the spare buckets",
            spare,
            spare <= 1.0,
            "at most as many as buckets",
        )?;
        let (mut low, mut high) = (0.0, 100.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if ChainedIndexSize::holding(middle)?.spare <= spare {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns the fraction of items that a cache's index keeps: items that do not fit in their
    /// bucket are evicted from it.
    ///
    /// # Errors
    /// The errors of [`holding`](ChainedIndexSize::holding).
    pub fn kept_without_chains(load: f64) -> Result<f64, BadParameter> {
        Ok(ChainedIndexSize::holding(load)?.in_main)
    }
}

/// Returns the memory of a cache in bytes: its log, and an index with `load` live items per
/// bucket. An item occupies `item_bytes` of the log, including its header.
///
/// # Errors
/// [`BadParameter`] unless all are positive.
pub fn cache_bytes(log_bytes: f64, item_bytes: f64, load: f64) -> Result<f64, BadParameter> {
    let log = positive("the bytes of the log", log_bytes)?;
    let item = positive("the bytes of an item", item_bytes)?;
    let load = positive("the load", load)?;
    Ok(log + (log / item / load).ceil() * BUCKET_BYTES)
}

/// Returns the memory in bytes of a store of `items` items of `item_bytes` bytes, including
/// headers, with an index of `load` items per bucket.
///
/// # Errors
/// [`BadParameter`] unless all are positive.
pub fn store_bytes(items: f64, item_bytes: f64, load: f64) -> Result<f64, BadParameter> {
    let items = positive("the items", items)?;
    let item = positive("the bytes of an item", item_bytes)?;
    Ok(items * (item + ChainedIndexSize::holding(load)?.bytes_per_item))
}

/// Returns the number of buckets to sweep per second, so that stale entries are removed from each
/// bucket before the log, written at the given rate, reuses its positions.
///
/// # Errors
/// [`BadParameter`] unless both are positive.
pub fn sweep_rate(buckets: f64, write_bytes_per_s: f64) -> Result<f64, BadParameter> {
    let buckets = positive("the buckets", buckets)?;
    let rate = positive("the write rate", write_bytes_per_s)?;
    Ok(buckets * rate / f64::from(PLACE_BITS).exp2())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64, within: f64) {
        assert!((found - wanted).abs() <= within, "{found}, not {wanted}");
    }

    #[test]
    fn buckets_overflow_as_often_as_the_source_says() {
        let rows = [
            (10.0, 0.049, 0.99),
            (11.0, 0.093, 0.98),
            (12.0, 0.156, 0.967),
            (13.0, 0.236, 0.948),
        ];
        for (load, overflowing, in_main) in rows {
            let index = ChainedIndexSize::holding(load).unwrap();
            near(index.overflowing, overflowing, 0.0006);
            near(index.in_main, in_main, 0.006);
            assert!(index.spare >= index.overflowing && index.spare < 1.01 * index.overflowing);
            assert_eq!(ChainedIndexSize::kept_without_chains(load), Ok(index.in_main));
        }
        // One spare bucket in ten supports 11 items per bucket, which is 11.6 bytes per item for
        // the main buckets.
        let most = ChainedIndexSize::most_load(0.1).unwrap();
        assert!((11.0..11.2).contains(&most), "{most}");
        near(BUCKET_BYTES / 11.0, 11.6, 0.04);
        near(ChainedIndexSize::most_load(0.24).unwrap(), 13.0, 0.1);
    }

    #[test]
    fn an_index_counted_bucket_by_bucket_is_the_same() {
        let (buckets, load) = (20_000, 12.0);
        let mut random = alluvium_model::SplitMix64::from_seed(5);
        let mut items = vec![0_u32; buckets];
        for _ in 0..(buckets as f64 * load) as usize {
            items[random.below(buckets)] += 1;
        }
        let over = items.iter().filter(|&&items| items > ENTRIES).count();
        let index = ChainedIndexSize::holding(load).unwrap();
        near(over as f64 / buckets as f64, index.overflowing, 0.01);
        let main: u32 = items.iter().map(|&items| items.min(ENTRIES)).sum();
        near(f64::from(main) / (buckets as f64 * load), index.in_main, 0.003);
    }

    #[test]
    fn a_full_sweep_ends_before_places_begin_again() {
        let rate = sweep_rate(f64::from(1 << 24), f64::from(1 << 30)).unwrap();
        assert_eq!(rate, 64.0);
    }

    #[test]
    fn the_data_sets_of_the_source_fit_as_computed() {
        // Tiny: 192 Mi items of about 40 bytes, and an index of 2.3 GB: 10.4 GB.
        let items = f64::from(192 << 20);
        let all = store_bytes(items, 40.0, 11.0).unwrap();
        near(
            items * ChainedIndexSize::holding(11.0).unwrap().bytes_per_item / 1e9,
            2.5,
            0.1,
        );
        near(all / 1e9, 10.5, 0.2);
        let cache = cache_bytes(1e9, 100.0, 10.0).unwrap();
        assert_eq!(cache, 1e9 + 1e6 * 128.0);
    }

    #[test]
    fn what_is_no_table_is_refused_by_name() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(ChainedIndexSize::holding(bad).unwrap_err().name, "the load");
            assert_eq!(
                ChainedIndexSize::most_load(bad).unwrap_err().name,
                "the spare buckets"
            );
            assert!(cache_bytes(bad, 1.0, 1.0).is_err() && cache_bytes(1.0, bad, 1.0).is_err());
            assert!(store_bytes(bad, 1.0, 1.0).is_err() && store_bytes(1.0, 1.0, bad).is_err());
            assert!(sweep_rate(bad, 1.0).is_err() && sweep_rate(1.0, bad).is_err());
        }
        assert!(ChainedIndexSize::holding(1001.0).is_err() && ChainedIndexSize::most_load(1.1).is_err());
    }
}
