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
    /// What maplets of the path have said of the key: those of so many parts, from `first` on.
    hits: maplet::Answers,
    first: usize,
    asked: usize,
    /// How many parts of the path are done.
    layer: usize,
    /// How many runs of the next part are done.
    runs: usize,
    /// How many records of the next run were taken.
    records: usize,
}

/// The pages of maplets that know of the key, from that of the part `first` on: there were all that are left.
#[derive(Default)]
struct Peeked<'f> {
    pages: maplet::Path<NodeRef<'f>>,
    first: usize,
    hash: u64,
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
        (self.asked, self.layer, self.runs, self.records) = (0, 0, 0, 0);
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
        let mut peeked = Peeked::default();
        while self.layer < parts.len() && !known.is_decided() {
            if !self.knows(self.layer) {
                ready!(self.ask_maplets(&parts, key, &mut peeked, fetch))?;
            }
            ready!(self.ask_group(&parts[self.layer].group, key, known, operator, fetch))?;
            self.layer += 1;
            self.runs = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Whether it is known which runs of a part may have the key.
    fn knows(&self, layer: usize) -> bool {
        (self.first..self.first + self.asked).contains(&layer)
    }

    /// Finds out which runs of the next part may have the key, at least. Pages that must be read are read together, for all the parts that are
    /// left; where none must be, one is asked after the other, the newest first.
    fn ask_maplets<'f, F: Fetch>(
        &mut self,
        parts: &[&Part],
        key: &[u8],
        peeked: &mut Peeked<'f>,
        fetch: &'f F,
    ) -> Poll<Result<()>> {
        let left = &parts[self.layer..];
        if peeked.pages.is_empty() {
            peeked.hash = filters::hash(SEED, key);
            let maplets: maplet::Path<&Maplet> = left.iter().map(|part| &part.group.maplet).collect();
            if !maplet::peek_path(&maplets, peeked.hash, fetch, &mut peeked.pages) {
                self.asked = 0;
                ready!(maplet::probe_path(&maplets, peeked.hash, fetch, &mut self.hits))?;
                (self.first, self.asked) = (self.layer, left.len());
                return Poll::Ready(Ok(()));
            }
            peeked.first = self.layer;
        }
        self.asked = 0;
        self.hits.resize_with(1, maplet::Hits::default);
        let page = &peeked.pages[self.layer - peeked.first];
        let maplet = &left[0].group.maplet;
        ready!(maplet.ask(page, peeked.hash, fetch, &mut self.hits[0]))?;
        (self.first, self.asked) = (self.layer, 1);
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
