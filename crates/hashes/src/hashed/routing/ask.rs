//! Queries of routing filters. A query finds the runs of a level that may contain a given hash.

use super::RoutingFilterDescription;
use super::build::latest;
use crate::hashed::lists::StoredList;
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_storage::{Error, Result};
use std::task::{Poll, ready};

/// The runs of a level that a lookup of a hash must read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateRuns {
    /// Every run, because the level has no filter.
    All,
    /// The newest run that contains the hash's prefix, or `None` if no run does. Its records name
    /// the next older run to read (U4).
    Latest(Option<u8>),
    /// The runs that have a sketch matching the hash (U5). Bit i of the mask stands for run i.
    Some([u64; 4]),
}

impl CandidateRuns {
    /// Returns whether the lookup must read a run.
    #[must_use]
    #[inline]
    pub fn has(&self, run: usize) -> bool {
        match self {
            CandidateRuns::All => true,
            CandidateRuns::Latest(latest) => latest.map(usize::from) == Some(run),
            CandidateRuns::Some(runs) => runs.get(run / 64).is_some_and(|bits| bits >> (run % 64) & 1 > 0),
        }
    }

    /// Returns the number of runs in the result, excluding those that are found by following
    /// records. Returns `u32::MAX` if there is no filter.
    #[must_use]
    pub fn count(&self) -> u32 {
        match self {
            CandidateRuns::All => u32::MAX,
            CandidateRuns::Latest(latest) => u32::from(latest.is_some()),
            CandidateRuns::Some(runs) => runs.iter().map(|bits| bits.count_ones()).sum(),
        }
    }
}

impl StoredList<RoutingFilterDescription> {
    /// Returns the runs that may contain a hash. Pending if a page must be read from the device
    /// first.
    ///
    /// # Errors
    /// I/O errors; damaged pages.
    pub fn find_candidates<F: NodeFetch>(&self, hash: u64, fetch: &F) -> Poll<Result<CandidateRuns>> {
        match self.shape().is_refined() {
            true => self.sketched(hash, fetch),
            false => self.latest(hash, fetch),
        }
    }

    fn latest<F: NodeFetch>(&self, hash: u64, fetch: &F) -> Poll<Result<CandidateRuns>> {
        let (latest, prefix) = (latest(self.shape())?, self.shape().prefix(hash));
        let place = latest.place(prefix);
        let page_bytes = self.meta.listing.pages.page_size.bytes() as u64;
        let mut bytes = [0; 2];
        for (byte, at) in bytes.iter_mut().zip(place.clone()) {
            let node = ready!(fetch.node(&self.page(at / page_bytes)?))?;
            *byte = *node
                .get((at % page_bytes) as usize)
                .ok_or_else(|| self.out_of_range("a page", at))?;
        }
        let len = (place.end - place.start) as usize;
        let run = latest
            .read(&bytes[..len], prefix)
            .map_err(|error| Error::corrupt(self.place(), "a routing filter", error.to_string()))?;
        match run {
            Some(run) if run >= u32::from(self.runs()) => {
                Poll::Ready(Err(self.out_of_range("a run", run.into())))
            }
            run => Poll::Ready(Ok(CandidateRuns::Latest(run.map(|run| run as u8)))),
        }
    }

    fn sketched<F: NodeFetch>(&self, hash: u64, fetch: &F) -> Poll<Result<CandidateRuns>> {
        let shape = self.shape();
        let (prefix, check) = (shape.prefix(hash), u64::from(shape.check(hash)));
        let mask = (1u64 << shape.character_bits) - 1;
        let (mut runs, mut wrong) = ([0u64; 4], None);
        ready!(self.each_payload(prefix, fetch, &mut |payload| {
            if payload & mask == check {
                let run = payload >> shape.character_bits;
                match runs.get_mut(run as usize / 64) {
                    Some(bits) if run < u64::from(self.runs()) => *bits |= 1 << (run % 64),
                    _ => wrong = Some(run),
                }
            }
        }))?;
        match wrong {
            Some(run) => Poll::Ready(Err(self.out_of_range("a run", run))),
            None => Poll::Ready(Ok(CandidateRuns::Some(runs))),
        }
    }

    #[cold]
    fn out_of_range(&self, what: &str, found: u64) -> Error {
        let expected = format!("{what} of a level of {} runs", self.runs());
        Error::corrupt(self.place(), expected, found.to_string())
    }
}
