//! Node sizes under the affine model (Bender et al. §4, Table 3, Corollaries 7 and 12).

use super::OracleSection;
use alluvium_model::nodes;
use alluvium_model::presets::HARD_DISKS;
use anyhow::Result;

/// Size of an element in bytes.
const ELEMENT: f64 = 100.0;
/// Bytes of the block to which α in Table 2 refers.
const BLOCK: f64 = 4096.0;
const KIB: f64 = 1024.0 / ELEMENT;
const MIB: f64 = 1024.0 * KIB;

/// Optimal B-tree node in KiB; costs of nodes of 16 KiB, 64 KiB, 1 MiB and 4 MiB relative to it;
/// optimal node in MiB for inserts into a Bε-tree.
type NodeSizeRow = (f64, [f64; 4], Option<f64>);

const ROWS: [NodeSizeRow; 5] = [
    (263.0, [1.36, 1.10, 1.17, 2.11], Some(2.7)),
    (192.0, [1.31, 1.07, 1.29, 2.62], Some(1.9)),
    (206.0, [1.32, 1.07, 1.26, 2.49], None),
    (460.0, [1.47, 1.17, 1.05, 1.54], Some(4.9)),
    (343.0, [1.41, 1.13, 1.10, 1.79], Some(3.5)),
];

pub(super) fn sizes() -> Result<OracleSection> {
    let mut section = OracleSection::new("Bender et al. 2021, §4: nodes on the disks of Table 2");
    for (disk, (best_kib, relative, inserts)) in HARD_DISKS.iter().zip(ROWS) {
        let alpha = disk.alpha() * ELEMENT / BLOCK;
        let of = |what: &str| format!("{}: {what}", disk.name);
        let best = nodes::best_b_tree_node(alpha)?;
        section.recomputed(of("best B-tree node, KiB (Cor. 7)"), best_kib, 1.0, best / KIB);
        let least = nodes::b_tree(alpha, best)?.query;
        for ((name, node), wanted) in [
            ("16 KiB", 16.0),
            ("64 KiB", 64.0),
            ("1 MiB", 1024.0),
            ("4 MiB", 4096.0),
        ]
        .into_iter()
        .zip(relative)
        {
            let ours = nodes::b_tree(alpha, node * KIB)?.query / least;
            let what = of(&format!("cost of nodes of {name} by the best"));
            section.recomputed(what, wanted, 0.006, ours);
        }
        if let Some(wanted) = inserts {
            let ours = nodes::best_buffered_node(alpha)? / MIB;
            section.recomputed(of("best Bε-tree node for inserts, MiB"), wanted, 0.1, ours);
        }
    }
    let (first, node) = (HARD_DISKS[0].alpha() * ELEMENT / BLOCK, 4.0 * MIB);
    let children = 16f64;
    let whole = nodes::buffered_naive(first, node, children)?.query * children.ln();
    let segment = nodes::buffered(first, node, children)?.query * children.ln();
    section.recomputed("4 MiB, 16 children: a whole node (Lemma 8)", 3.25, 0.01, whole);
    section.recomputed("4 MiB, 16 children: a segment (Theorem 9)", 1.14, 0.01, segment);
    Ok(section)
}
