//! The counters of a dictionary.

use super::space::{RequestMeter, SpaceRequest};
use std::cell::Cell;

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestCause {
    Query,
    Flush,
    Rebuild,
    Commit,
}

/// The counters of a dictionary since it was opened.
#[derive(Debug, Default)]
pub struct AffineCounters {
    queries: Cell<RequestMeter>,
    flushing: Cell<RequestMeter>,
    rebuilding: Cell<RequestMeter>,
    commits: Cell<RequestMeter>,
    pub(super) flushes: Cell<u64>,
    pub(super) moved: Cell<u64>,
    pub(super) splits: Cell<u64>,
    pub(super) merges: Cell<u64>,
    pub(super) rebuilds: Cell<u64>,
    pub(super) rebuilt_leaves: Cell<u64>,
}

impl AffineCounters {
    pub(super) fn count(&self, cause: RequestCause, request: SpaceRequest) {
        let cell = match cause {
            RequestCause::Query => &self.queries,
            RequestCause::Flush => &self.flushing,
            RequestCause::Rebuild => &self.rebuilding,
            RequestCause::Commit => &self.commits,
        };
        let mut meter = cell.get();
        meter.count(request);
        cell.set(meter);
    }

    pub(super) fn add(cell: &Cell<u64>, more: u64) {
        cell.set(cell.get() + more);
    }

    /// Returns the requests of queries and scans.
    #[must_use]
    pub fn queries(&self) -> RequestMeter {
        self.queries.get()
    }

    /// Returns the requests of flushes, splits and merges.
    #[must_use]
    pub fn flushing(&self) -> RequestMeter {
        self.flushing.get()
    }

    /// Returns the requests of subtree rebuilds.
    #[must_use]
    pub fn rebuilding(&self) -> RequestMeter {
        self.rebuilding.get()
    }

    /// Returns the requests of commits.
    #[must_use]
    pub fn commits(&self) -> RequestMeter {
        self.commits.get()
    }

    /// Returns the number of flushes by one level, and the number of messages they moved.
    #[must_use]
    pub fn flushes(&self) -> (u64, u64) {
        (self.flushes.get(), self.moved.get())
    }

    /// Returns the number of splits and merges of nodes.
    #[must_use]
    pub fn changes(&self) -> (u64, u64) {
        (self.splits.get(), self.merges.get())
    }

    /// Returns the number of rebuilt subtrees, and the number of their leaves.
    #[must_use]
    pub fn rebuilds(&self) -> (u64, u64) {
        (self.rebuilds.get(), self.rebuilt_leaves.get())
    }
}
