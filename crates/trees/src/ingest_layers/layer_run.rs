//! The runs of layers, and who owns their extents.

use crate::maplet::{Maplet, WrittenMaplet};
use crate::run::{BuiltRun, IndexedRun};
use alluvium_storage::NodePointer;
use alluvium_storage::extents::Extent;
use alluvium_storage::store::Store;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An extent with runs that do not belong to a structure yet. Several runs may share it, because a
/// merge keeps separate values and adopted leaves where they are. The extent is freed when the last
/// of these runs is dropped, unless it was installed.
pub(crate) struct ProvisionalExtent {
    store: Arc<Store>,
    pub(super) extent: Extent,
    live: u64,
    is_installed: AtomicBool,
}

impl fmt::Debug for ProvisionalExtent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.extent.fmt(f)
    }
}

impl Drop for ProvisionalExtent {
    fn drop(&mut self) {
        if !self.is_installed.load(Ordering::Relaxed) {
            self.store.extents().abandon(self.extent);
        }
    }
}

/// A layer's run and its maplet.
#[derive(Debug)]
pub struct LayerRun {
    store: Arc<Store>,
    pub(crate) run: IndexedRun,
    pub(crate) maplet: Maplet,
    /// A lower bound of the run's keys that is above all keys of the layer's previous run. It is
    /// empty for the first run of a layer. The lower bound in `run` may be rounded.
    pub(crate) start: Vec<u8>,
    /// All extents of the run and its maplet, including those shared with other runs.
    pub(super) extents: Vec<Arc<ProvisionalExtent>>,
    /// The run's index nodes that were inserted into the cache.
    cached: Vec<NodePointer>,
    is_installed: AtomicBool,
}

impl LayerRun {
    /// Creates the run of a layer. If it was merged from other runs, `inherited` contains their
    /// extents in sorted order.
    pub(super) fn new(
        store: &Arc<Store>,
        built: BuiltRun,
        maplet: WrittenMaplet,
        inherited: &[Arc<ProvisionalExtent>],
        start: Vec<u8>,
    ) -> LayerRun {
        debug_assert!(
            inherited.is_sorted_by_key(|shared| shared.extent),
            "extents by place"
        );
        let written = built.extents.iter().chain(&maplet.extents);
        let own = written.map(|&(extent, live)| {
            Arc::new(ProvisionalExtent {
                store: Arc::clone(store),
                extent,
                live,
                is_installed: AtomicBool::new(false),
            })
        });
        let mut extents: Vec<Arc<ProvisionalExtent>> = own.collect();
        for used in built.run.extents().iter().filter(|used| used.inherited) {
            let place = inherited.binary_search_by_key(&used.extent, |shared| shared.extent);
            let place = place.expect("a run inherits the extents of its merge's inputs");
            extents.push(Arc::clone(&inherited[place]));
        }
        LayerRun {
            store: Arc::clone(store),
            run: built.run,
            maplet: maplet.maplet,
            start,
            extents,
            cached: built.cached,
            is_installed: AtomicBool::new(false),
        }
    }

    /// Returns the memory usage of the run and its maplet, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let extents = self.extents.len() * (size_of::<ProvisionalExtent>() + size_of::<Arc<()>>());
        self.run.memory_bytes() as u64 + self.maplet.memory_bytes() + extents as u64
    }
}

impl Drop for LayerRun {
    fn drop(&mut self) {
        if self.is_installed.load(Ordering::Relaxed) {
            return;
        }
        // Leaves of the run may remain in the cache. They cannot be confused with nodes that are
        // later written to the same location, because the checksums differ.
        let cache = self.store.cache();
        self.cached.iter().for_each(|pointer| cache.discard(pointer));
        self.maplet.forget(cache);
    }
}

/// Makes the extents of `runs` part of the generation that is being built. An extent is counted
/// once for each run that uses it.
pub(crate) fn install_runs<'r>(runs: impl IntoIterator<Item = &'r Arc<LayerRun>>) {
    let mut seen = BTreeSet::new();
    for run in runs {
        run.is_installed.store(true, Ordering::Relaxed);
        for shared in &run.extents {
            let extents = run.store.extents();
            match seen.insert(shared.extent) {
                true => {
                    extents.install(&[(shared.extent, shared.live)]);
                    shared.is_installed.store(true, Ordering::Relaxed);
                }
                false => extents.retain(shared.extent),
            }
        }
    }
}
