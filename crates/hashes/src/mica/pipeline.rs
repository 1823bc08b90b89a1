//! Pipelined execution of a burst of requests, in which memory for later requests is prefetched
//! during the execution of earlier ones.
//!
//! ```text
//!   step      1   2   3   4   5
//!   group 0   B   I   E                B  asks for the bucket
//!   group 1       B   I   E            I  matches tags, asks for the item
//!   group 2           B   I   E        E  executes
//! ```
//!
//! The thesis uses groups of two requests (Lim 2015, §5.3.3). Current processors support more
//! outstanding cache misses, so groups here have [`WIDTH`] requests.

/// Number of requests in a group. A lookup among 96 MiB of items takes 84 ns of processor time with
/// groups of 2, 57 ns with groups of 4, 47 ns with groups of 8 or 16, and 210 ns without a pipeline
/// (`benches/mica`).
pub(super) const WIDTH: usize = 8;

/// The stages of a request, in execution order. A request is identified by its index in the burst.
pub(super) trait PipelineStages {
    fn prefetch_bucket(&mut self, number: usize);
    fn prefetch_item(&mut self, number: usize);
    fn execute(&mut self, number: usize);
}

/// Executes a burst of `count` requests in order.
#[inline]
pub(super) fn run(burst: &mut impl PipelineStages, count: usize) {
    let group = |number: usize| (number * WIDTH).min(count)..((number + 1) * WIDTH).min(count);
    let stages = 3;
    for step in 0..count.div_ceil(WIDTH) + stages - 1 {
        group(step).for_each(|number| burst.prefetch_bucket(number));
        if let Some(step) = step.checked_sub(1) {
            group(step).for_each(|number| burst.prefetch_item(number));
        }
        if let Some(step) = step.checked_sub(2) {
            group(step).for_each(|number| burst.execute(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct StageRecorder([Vec<usize>; 3]);

    impl PipelineStages for StageRecorder {
        fn prefetch_bucket(&mut self, number: usize) {
            self.0[0].push(number);
        }

        fn prefetch_item(&mut self, number: usize) {
            assert!(self.0[0].len() > number, "its bucket was asked for");
            self.0[1].push(number);
        }

        fn execute(&mut self, number: usize) {
            assert!(self.0[1].len() > number, "its item was asked for");
            assert!(self.0[0].len() <= number + 3 * WIDTH, "not too early");
            self.0[2].push(number);
        }
    }

    #[test]
    fn every_request_goes_through_all_stages_once_and_in_order() {
        for count in 0..5 * WIDTH {
            let mut record = StageRecorder::default();
            run(&mut record, count);
            let all: Vec<usize> = (0..count).collect();
            assert!(record.0.iter().all(|stage| *stage == all), "{count} requests");
        }
    }
}
