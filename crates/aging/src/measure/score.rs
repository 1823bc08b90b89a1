//! The dynamic layout score: which share of requests to a device continue the previous one.
//!
//! Conway 2020 defines the score over block requests (§4.3). A request of many blocks counts once
//! there, so read-ahead hides the length of contiguous ranges; this module also computes the score
//! over blocks of 4 KiB.

use super::BLOCK_BYTES;

/// The length of a sector in bytes, the unit of block requests.
pub const SECTOR_BYTES: u64 = 512;
const SECTORS_PER_BLOCK: u64 = BLOCK_BYTES / SECTOR_BYTES;

/// A request to a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// First sector.
    pub sector: u64,
    /// Number of sectors, at least 1.
    pub sectors: u64,
}

/// Counts of requests and blocks, and of those that continue their predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DynamicLayoutScore {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that begin where the previous one ended.
    pub contiguous_requests: u64,
    /// Number of 4 KiB blocks. A request that ends within a block counts the whole block.
    pub blocks: u64,
    /// Number of blocks that follow the previously requested block.
    pub contiguous_blocks: u64,
}

impl DynamicLayoutScore {
    /// Counts requests in their order of issue.
    #[must_use]
    pub fn of(requests: &[BlockRequest]) -> DynamicLayoutScore {
        let mut score = DynamicLayoutScore::default();
        let mut end = None;
        for request in requests.iter().filter(|request| request.sectors > 0) {
            let blocks = request.sectors.div_ceil(SECTORS_PER_BLOCK);
            let continues = u64::from(end == Some(request.sector));
            score.requests += 1;
            score.contiguous_requests += continues;
            score.blocks += blocks;
            score.contiguous_blocks += blocks - 1 + continues;
            end = request.sector.checked_add(request.sectors);
        }
        score
    }

    /// Returns the score over requests: 1 if each continues its predecessor, and 0 if none does.
    /// `None` if there are fewer than two requests.
    #[must_use]
    pub fn by_request(&self) -> Option<f64> {
        ratio(self.contiguous_requests, self.requests)
    }

    /// Returns the score over blocks of 4 KiB, or `None` if there are fewer than two blocks.
    #[must_use]
    pub fn by_block(&self) -> Option<f64> {
        ratio(self.contiguous_blocks, self.blocks)
    }

    /// Returns the number of requests for which the head of a disk would move, the first included.
    #[must_use]
    pub fn seeks(&self) -> u64 {
        self.requests - self.contiguous_requests
    }
}

/// Returns the share of items with a predecessor that continue it.
pub(super) fn ratio(contiguous: u64, items: u64) -> Option<f64> {
    (items > 1).then(|| contiguous as f64 / (items - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(pairs: &[(u64, u64)]) -> Vec<BlockRequest> {
        let request = |&(sector, sectors)| BlockRequest { sector, sectors };
        pairs.iter().map(request).collect()
    }

    #[test]
    fn a_sequential_trace_has_score_one_and_a_single_seek() {
        let trace: Vec<(u64, u64)> = (0..100).map(|at| (2048 + at * 8, 8)).collect();
        let score = DynamicLayoutScore::of(&requests(&trace));
        assert_eq!((score.by_request(), score.by_block()), (Some(1.0), Some(1.0)));
        assert_eq!((score.requests, score.blocks, score.seeks()), (100, 100, 1));
    }

    #[test]
    fn a_strided_trace_has_score_zero() {
        let trace: Vec<(u64, u64)> = (0..100).map(|at| (at * 16, 8)).collect();
        let score = DynamicLayoutScore::of(&requests(&trace));
        assert_eq!((score.by_request(), score.by_block()), (Some(0.0), Some(0.0)));
        assert_eq!(score.seeks(), 100);
    }

    #[test]
    fn a_backward_trace_has_score_zero() {
        let trace: Vec<(u64, u64)> = (0..50).rev().map(|at| (at * 8, 8)).collect();
        assert_eq!(DynamicLayoutScore::of(&requests(&trace)).by_block(), Some(0.0));
    }

    #[test]
    fn two_interleaved_halves_have_score_zero_and_pairs_of_blocks_one_half() {
        let interleaved: Vec<(u64, u64)> = (0..64).flat_map(|at| [(at * 8, 8), (8000 + at * 8, 8)]).collect();
        assert_eq!(
            DynamicLayoutScore::of(&requests(&interleaved)).by_block(),
            Some(0.0)
        );
        // Each pair of blocks is contiguous, and no pair follows the previous one: 50 of 99.
        let pairs: Vec<(u64, u64)> = (0..50).flat_map(|at| [(at * 64, 8), (at * 64 + 8, 8)]).collect();
        let score = DynamicLayoutScore::of(&requests(&pairs));
        assert_eq!(score.by_request(), Some(50.0 / 99.0));
    }

    #[test]
    fn long_requests_count_once_by_request_and_each_block_by_block() {
        let score = DynamicLayoutScore::of(&requests(&[(0, 64), (1000, 64), (5000, 64)]));
        assert_eq!(score.by_request(), Some(0.0));
        assert_eq!(score.by_block(), Some(21.0 / 23.0));
        // A request of one sector is in one block.
        assert_eq!(DynamicLayoutScore::of(&requests(&[(0, 1), (1, 1)])).blocks, 2);
    }

    #[test]
    fn a_trace_without_pairs_has_no_score() {
        for trace in [&[][..], &[(8, 8)], &[(8, 0), (16, 0)]] {
            let score = DynamicLayoutScore::of(&requests(trace));
            assert_eq!(score.by_request(), None);
        }
        assert_eq!(
            DynamicLayoutScore::of(&requests(&[(8, 16)])).by_block(),
            Some(1.0)
        );
    }
}
