//! Ingest: adds layers of runs to a tree as its newest bundles, in one change.
//!
//! Records in the ingested runs have sequence number 0. The trunk assigns their actual sequence
//! numbers in its references to the runs (T10).

use crate::ingest_layers::{IngestRunLayers, LayerOptions, LayerRunWriter, install_runs};
use crate::tiered::trunk::{MapletGroup, NodeRank, Trunk, TrunkNode, TrunkPart, TrunkShaper};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns a writer for layers of runs. `class` determines whether it may use the space reserve.
pub(crate) fn layer_writer(trunk: &Trunk, class: AllocationClass) -> Result<LayerRunWriter> {
    trunk.store.health()?;
    Ok(LayerRunWriter::new(LayerOptions {
        store: Arc::clone(&trunk.store),
        schema: Arc::clone(&trunk.options.schema),
        run: trunk.run_options(Purpose::Incorporate, class, 0),
        maplet: trunk.maplet_spec(Purpose::Incorporate, class, 0),
        is_placed: trunk.options.compacted_tier.is_none(),
        // Limit a run to the size of a leaf, so that leaves of the tree can adopt it without
        // rewriting it.
        run_bytes: trunk.options.shape.node_bytes(),
    }))
}

/// Returns the parts of a bundle with all runs of the layers, oldest first. The layers become the
/// commits numbered from `first`.
fn parts_of(trunk: &Trunk, layers: &IngestRunLayers, first: SequenceNumber) -> Vec<TrunkPart> {
    let mut parts = Vec::new();
    for (sequence, (_, pieces)) in (first..).zip(layers.layers()) {
        for piece in pieces {
            let run = piece.run.clone().based(sequence);
            let maplet = piece.maplet.clone();
            parts.push(TrunkPart {
                group: Arc::new(MapletGroup::new(trunk.next_group(), [Some(run)], maplet)),
                clip: None,
            });
        }
    }
    parts
}

/// Adds parts to the tree with the given root, and returns the new root.
fn with_parts(shaper: &mut TrunkShaper<'_>, root: &TrunkNode, parts: &[TrunkPart]) -> Result<TrunkNode> {
    let mut root = root.draft();
    // Add a few parts at a time, and let each batch settle before adding the next, so that no node
    // ever lists all parts at once.
    for parts in parts.chunks(shaper.shape.fanout) {
        let received = shaper.receive(&root, parts.to_vec())?;
        let nodes = shaper.flush_and_split(received, NodeRank::Root)?;
        root = shaper.add_root_levels(nodes);
    }
    Ok(root)
}

/// Computes the new trunk and drops it, to bring the index nodes that [`attach_layers`] needs into
/// the cache.
pub(crate) fn rehearse_attach(trunk: &Trunk, layers: &IngestRunLayers) -> Result<()> {
    let parts = parts_of(trunk, layers, 1);
    trunk.change(None, |_, shaper, root| {
        with_parts(shaper, root, &parts)?;
        Ok(None)
    })?;
    Ok(())
}

/// Attaches layers to the tree, oldest first, as the commits with sequence numbers `first` to
/// `last`.
pub(crate) fn attach_layers(
    trunk: &Trunk,
    layers: &mut IngestRunLayers,
    first: SequenceNumber,
    last: SequenceNumber,
) -> Result<()> {
    let parts = parts_of(trunk, layers, first);
    debug_assert!(
        parts
            .iter()
            .all(|part| part.group.runs().all(|(_, run)| run.base() <= last)),
        "no layer is above the cut"
    );
    trunk.change(Some(last), |_, shaper, root| {
        let root = with_parts(shaper, root, &parts)?;
        // Nothing can fail after this point. The extents join the generation that is being built.
        install_runs(layers.layers().flat_map(|(_, pieces)| pieces));
        Ok(Some(root))
    })?;
    let runs = layers.into_runs();
    let bytes = runs
        .iter()
        .map(|(_, piece)| piece.run.summary().bytes + piece.maplet.bytes());
    let tallies = &trunk.tallies;
    tallies
        .incorporated_bytes
        .fetch_add(bytes.sum(), Ordering::Relaxed);
    Ok(())
}
