//! Ingest: layers of runs that become a tree's newest bundles at once.
//!
//! In the runs sequence numbers are 0; the trunk says what they are where it names the runs (T10).

use crate::layers::{How, Layers, Writer};
use crate::tiered::trunk::{Group, Part, Rank, Trunk};
use alluvium_base::{Purpose, Sequence};
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns what writes layers for a tree. `class` says whether they may use the reserve of space.
pub(crate) fn layer_writer(trunk: &Trunk, class: Class) -> Result<Writer> {
    trunk.store.health()?;
    Ok(Writer::new(How {
        store: Arc::clone(&trunk.store),
        schema: Arc::clone(&trunk.options.schema),
        run: trunk.run_options(Purpose::Incorporate, class, 0),
        maplet: trunk.maplet_spec(Purpose::Incorporate, class, 0),
        is_placed: trunk.options.compacted_tier.is_none(),
        // Runs no larger than a leaf of the tree are taken over by leaves as they are.
        run_bytes: trunk.options.shape.node_bytes(),
    }))
}

/// Makes layers part of the tree, as the commits from `first` to `last`, the oldest layer first.
pub(crate) fn attach_layers(
    trunk: &Trunk,
    layers: &mut Layers,
    first: Sequence,
    last: Sequence,
) -> Result<()> {
    let mut parts: Vec<Part> = Vec::new();
    for (sequence, (_, pieces)) in (first..).zip(layers.layers()) {
        for piece in pieces {
            let run = piece.built.run.clone().based(sequence);
            let maplet = piece.maplet.maplet.clone();
            parts.push(Part {
                group: Arc::new(Group::new(trunk.next_group(), [Some(run)], maplet)),
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
        // Few at a time: each few sink before the next come, and no node ever lists all of
        // them.
        for parts in parts.chunks(at_once) {
            let received = shaper.receive(&root, parts.to_vec())?;
            let nodes = shaper.settle(received, Rank::Root)?;
            root = shaper.crown(nodes);
        }
        // Nothing can fail any more: what was written becomes part of the generation being
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
