//! The search for one key in one version: from the root to a leaf, newest part first, until a message decides. Where a node is missing
//! it stops, and goes on from there when the node has been brought.

use super::gather::Known;
use super::node::{Group, Node, Part};
use super::tree::{SEED, Version};
use crate::fetch::Fetch;
use crate::maplet::{self, Maplet};
use crate::merge::Operator;
use crate::run;
use alluvium_filters as filters;
use alluvium_storage::{Error, NodeRef, Result};
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// How far the search for a key is. It is of use with one version only.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// What the maplets of the path say of the key, from that of the part `first` on, as far as they were asked.
    hits: maplet::Answers,
    first: usize,
    /// Whether all of them were asked.
    is_probed: bool,
    /// How many parts of the path are done.
    layer: usize,
    /// How many runs of the next part are done.
    runs: usize,
    /// How many records of the next run were taken.
    records: usize,
}

/// The parts of a path that count for a key, newest first.
fn path<'v>(root: &'v Node, key: &[u8]) -> maplet::Path<&'v Part> {
    let (mut node, mut parts) = (root, maplet::Path::new());
    loop {
        let pivot = node.pivot_for(key);
        for layer in node.stack(pivot).rev() {
            if layer.part.counts_for(key) {
                parts.push(layer.part);
            }
        }
        match node.pivots[pivot].child.as_deref() {
            Some(child) => node = child,
            None => return parts,
        }
    }
}

impl Search {
    /// Begins anew, with the memory that it has.
    pub(super) fn restart(&mut self) {
        (self.is_probed, self.layer, self.runs, self.records) = (false, 0, 0, 0);
    }

    /// Feeds `known` with what the version holds, until it is decided or there is no more.
    pub(super) fn go_on<F: Fetch>(
        &mut self,
        version: &Version,
        key: &[u8],
        known: &mut Known,
        operator: Option<&dyn Operator>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let parts = path(&version.root, key);
        let hash = filters::hash(SEED, key);
        let mut pages: maplet::Path<NodeRef<'_>> = maplet::Path::new();
        if !self.is_probed {
            let maplets: maplet::Path<&Maplet> = parts.iter().map(|part| &part.group.maplet).collect();
            // Pages that must be read are read together; where none must be, one is asked after the other, the newest first.
            if !maplet::peek_path(&maplets, hash, fetch, &mut pages) {
                pages.clear();
                ready!(maplet::probe_path(&maplets, hash, fetch, &mut self.hits))?;
                (self.is_probed, self.first) = (true, 0);
            }
        }
        while self.layer < parts.len() && !known.is_decided() {
            let group = &*parts[self.layer].group;
            if let Some(page) = pages.get(self.layer) {
                self.hits.resize_with(1, maplet::Hits::default);
                self.first = self.layer;
                ready!(group.maplet.ask(page, hash, fetch, &mut self.hits[0]))?;
            }
            ready!(self.ask_group(group, key, known, operator, fetch))?;
            self.layer += 1;
            self.runs = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Asks the runs of a group that may have the key, newest first.
    fn ask_group<F: Fetch>(
        &mut self,
        group: &Group,
        key: &[u8],
        known: &mut Known,
        operator: Option<&dyn Operator>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let deletes = group.runs().any(|(_, run)| !run.range_deletes().is_empty());
        if !deletes {
            while let Some(&value) = self.hits[self.layer - self.first].get(self.runs)
                && !known.is_decided()
            {
                ready!(self.ask(group, usize::from(value), key, known, operator, fetch))?;
            }
            return Poll::Ready(Ok(()));
        }
        for (place, run) in group.runs().rev().skip(self.runs) {
            if known.is_decided() {
                break;
            }
            known.range_deleted(run.range_deletes().covering(key, known.at()));
            if self.hits[self.layer - self.first]
                .iter()
                .any(|&value| usize::from(value) == place)
            {
                ready!(self.ask(group, place, key, known, operator, fetch))?;
            } else {
                self.runs += 1;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Asks one run.
    fn ask<F: Fetch>(
        &mut self,
        group: &Group,
        place: usize,
        key: &[u8],
        known: &mut Known,
        operator: Option<&dyn Operator>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let Some(run) = group.runs.get(place) else {
            let expected = format!("a maplet that tells {} runs apart", group.runs.len());
            let at = group.maplet.pointer().place();
            return Poll::Ready(Err(Error::corrupt(at, expected, format!("run {place}"))));
        };
        // A run that is gone has nothing for this key: the maplet may still remember it, and others' keys are alike.
        if let Some(run) = run.get() {
            // What was taken before a node was missing is not taken again.
            let mut taken = self.records;
            let records = &mut self.records;
            let asked = run.search(key, known.at(), fetch, |record| {
                if taken > 0 {
                    taken -= 1;
                    return Poll::Ready(Ok(ControlFlow::Continue(())));
                }
                let flow = ready!(known.record(&record, operator, |pointer, room| {
                    run::fetch_value(fetch, pointer, room)
                }))?;
                *records += 1;
                Poll::Ready(Ok(flow))
            });
            ready!(asked)?;
        }
        self.runs += 1;
        self.records = 0;
        Poll::Ready(Ok(()))
    }
}
