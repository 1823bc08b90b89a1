//! Ingest: adds layers of runs to a tree as its newest bundles, in one change.
//!
//! The runs store sequence number 0; the trunk assigns the real numbers in its references to the
//! runs (T10).

use crate::ingest_layers::{IngestRunLayers, LayerOptions, LayerRunWriter};
use crate::tiered::trunk::{MapletGroup, NodeRank, Trunk, TrunkPart};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns a writer of layers for a tree. `class` selects whether it may use the space reserve.
pub(crate) fn layer_writer(trunk: &Trunk, class: AllocationClass) -> Result<LayerRunWriter> {
    trunk.store.health()?;
    Ok(LayerRunWriter::new(LayerOptions {
        store: Arc::clone(&trunk.store),
        schema: Arc::clone(&trunk.options.schema),
        run: trunk.run_options(Purpose::Incorporate, class, 0),
        maplet: trunk.maplet_spec(Purpose::Incorporate, class, 0),
        is_placed: trunk.options.compacted_tier.is_none(),
        // Leaves of the tree can adopt runs that are not larger than a leaf.
        run_bytes: trunk.options.shape.node_bytes(),
    }))
}

/// Attaches layers to the tree as the commits from `first` to `last`, oldest layer first.
pub(crate) fn attach_layers(
    trunk: &Trunk,
    layers: &mut IngestRunLayers,
    first: SequenceNumber,
    last: SequenceNumber,
) -> Result<()> {
    let mut parts: Vec<TrunkPart> = Vec::new();
    for (sequence, (_, pieces)) in (first..).zip(layers.layers()) {
        for piece in pieces {
            let run = piece.built.run.clone().based(sequence);
            let maplet = piece.maplet.maplet.clone();
            parts.push(TrunkPart {
                group: Arc::new(MapletGroup::new(trunk.next_group(), [Some(run)], maplet)),
                clip: None,
            });
        }
    }
    debug_assert!(
        parts
            .iter()
            .all(|part| part.group.runs().all(|(_, run)| run.base() <= last)),
        "no layer is above the cut"
    );
    let at_once = trunk.options.shape.fanout;
    trunk.change(Some(last), |_, shaper, root| {
        let mut root = root.draft();
        // Adds a few parts at a time, and lets each batch settle before the next, so that no node
        // lists all parts at once.
        for parts in parts.chunks(at_once) {
            let received = shaper.receive(&root, parts.to_vec())?;
            let nodes = shaper.flush_and_split(received, NodeRank::Root)?;
            root = shaper.add_root_levels(nodes);
        }
        // No operation can fail from here on. The extents become part of the generation being
        // built.
        for piece in layers.layers().flat_map(|(_, pieces)| pieces) {
            trunk.install_extents(&piece.built.run, &piece.built.extents, &piece.maplet.extents);
        }
        Ok(Some(root))
    })?;
    let handed = layers.hand_over();
    let bytes = handed
        .iter()
        .map(|(_, piece)| piece.built.run.summary().bytes + piece.maplet.maplet.bytes());
    let tallies = &trunk.tallies;
    tallies
        .incorporated_bytes
        .fetch_add(bytes.sum(), Ordering::Relaxed);
    Ok(())
}
