//! Options for writing a run, including expected properties of its records.

use alluvium_base::{KIB, Purpose};
use alluvium_model::best_node;
use alluvium_storage::extents::AllocationClass;
use alluvium_storage::node::MAX_PAGES;
use alluvium_storage::{Error, NodeCodec, PageSize, Result};

/// Options for writing a run.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_trees::run::RunOptions;
/// let options = RunOptions { value_threshold: Some(512), ..RunOptions::new(Purpose::Compact) };
/// assert_eq!(options.leaf_pages, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    pub codec: NodeCodec,
    /// Maximum length in bytes of a value stored in its leaf. Longer values are stored in value
    /// extents. The default is a quarter of a page; the maximum is four pages.
    pub value_threshold: Option<usize>,
    pub purpose: Purpose,
    /// The space class of the run's allocations, which determines whether they may use the space
    /// reserve.
    pub class: AllocationClass,
    /// Size of a leaf in pages, from 1 to 16. If absent, it is derived from the sizes of the
    /// records.
    pub leaf_pages: Option<u8>,
    /// The storage tier for leaves, index nodes and the footer.
    pub tier: u8,
    /// The storage tier for separate values.
    pub value_tier: u8,
    /// Whether the index stores the first and last keys of each leaf, which let merges tell exactly
    /// which leaves of two runs overlap. If the two keys are longer than an eighth of the leaf, the
    /// index stores only bounds of them.
    pub leaf_keys: bool,
}

impl RunOptions {
    /// Creates the default options: uncompressed nodes on tier 0, and allocations that may not use
    /// the space reserve.
    #[must_use]
    pub fn new(purpose: Purpose) -> RunOptions {
        RunOptions {
            codec: NodeCodec::None,
            value_threshold: None,
            purpose,
            class: AllocationClass::Normal,
            leaf_pages: None,
            tier: 0,
            value_tier: 0,
            leaf_keys: false,
        }
    }

    /// Validates all options, and returns the maximum length in bytes of a value stored in its
    /// leaf.
    pub(super) fn threshold(&self, page_size: PageSize) -> Result<usize> {
        let page = page_size.bytes();
        let bad = |option, why| Err(Error::BadOption { option, why });
        if let Some(pages) = self.leaf_pages.filter(|pages| !(1..=MAX_PAGES).contains(pages)) {
            return bad("leaf pages", format!("{pages} is not from 1 to {MAX_PAGES}"));
        }
        match self.value_threshold {
            Some(threshold) if threshold > 4 * page => {
                let why = format!("{threshold} bytes are more than four pages");
                bad("value threshold", why)
            }
            Some(threshold) => Ok(threshold),
            None => Ok(page / 4),
        }
    }

    /// Returns the maximum size of a leaf in bytes. `record` is the size of a record in bytes.
    /// `half_bandwidth` is the number of bytes that the device transfers in the latency of one I/O.
    pub(super) fn leaf_room(&self, record: usize, page_size: PageSize, half_bandwidth: u64) -> usize {
        let pages = self.leaf_pages.map(usize::from);
        let chosen = || leaf_pages(record, self.codec, page_size, half_bandwidth);
        let pages = pages.unwrap_or_else(chosen);
        debug_assert!((1..=usize::from(MAX_PAGES)).contains(&pages), "{pages} pages");
        pages * page_size.bytes()
    }
}

/// Minimum size of a compressed leaf in bytes, because smaller leaves would compress poorly.
/// Tuning: `16 * KIB as usize` since 2026-11-21.
const COMPRESSED_LEAF: usize = 16 * KIB as usize;

/// Returns the best number of pages for a leaf according to the affine I/O model ([`best_node`]).
/// `record` is the size of a record in bytes.
fn leaf_pages(record: usize, codec: NodeCodec, page_size: PageSize, half_bandwidth: u64) -> usize {
    let page = page_size.bytes();
    let least = match codec {
        NodeCodec::None => 1,
        NodeCodec::Lz4 | NodeCodec::Zstd => COMPRESSED_LEAF.div_ceil(page),
    };
    let best = best_node(record as u64, half_bandwidth) as usize;
    ((best + page / 2) / page).clamp(least, usize::from(MAX_PAGES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_base::DeviceProfile;

    #[test]
    fn what_leaves_leave_empty_weighs_as_much_as_what_they_read_too_much() {
        let ssd = DeviceProfile::default().half_bandwidth();
        let pages = |record| leaf_pages(record, NodeCodec::None, PageSize::MIN, ssd);
        assert_eq!([1, 128, 512, 1040, 5000, 70_000].map(pages), [1, 1, 1, 2, 4, 16]);
        assert_eq!(leaf_pages(100, NodeCodec::Lz4, PageSize::MIN, ssd), 4);
        assert_eq!(leaf_pages(100, NodeCodec::Zstd, PageSize::MAX, ssd), 1);
        let disk = 2 << 20;
        assert_eq!(
            leaf_pages(128, NodeCodec::None, PageSize::MIN, disk),
            3,
            "a hard disk wants longer ones"
        );
    }
}
