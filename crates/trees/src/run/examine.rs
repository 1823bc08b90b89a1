//! Decodes all parts of a single node, which may contain arbitrary bytes. For tools, tests and
//! fuzzing.

use super::footer::{RunFooter, RunMetadata};
use super::{MalformedNode, format, index, leaf};
use alluvium_storage::{DiskLocation, OnDiskObject, PageSize};

/// The kind of a node and the sizes of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeDescription {
    Leaf {
        /// Number of distinct keys. A key may have several records.
        keys: usize,
        records: usize,
    },
    Index {
        /// Number of levels below this node, including the leaves.
        level: u8,
        children: usize,
    },
    Footer {
        /// Number of extents in the footer's list.
        extents: usize,
    },
    /// The head of a long node, or a footer whose metadata are in separate nodes.
    Head {
        /// Size in bytes of the long node or of the metadata.
        len: usize,
    },
}

/// Decodes every key, record and child of a node that may be damaged, and returns what kind of node
/// it is.
///
/// ```
/// use alluvium_storage::PageSize;
/// use alluvium_trees::run::examine;
/// assert!(examine(&[0; 4096], PageSize::MIN).is_err());
/// ```
///
/// # Errors
/// A description of the damaged part.
pub fn examine(bytes: &[u8], page_size: PageSize) -> Result<NodeDescription, String> {
    let place = DiskLocation::new(OnDiskObject::Node, "examined", 0);
    let examined = match bytes.first() {
        Some(&format::LEAF) => leaf(bytes),
        Some(&format::INDEX) => index(bytes, page_size),
        Some(&format::FOOTER) => footer(bytes, &place, page_size),
        Some(&format::LONG) => {
            let head = format::decode_long(bytes, &place, page_size);
            let (len, _) = head.map_err(|error| error.to_string())?;
            Ok(NodeDescription::Head { len })
        }
        _ => Err(MalformedNode("a first byte that is a kind's")),
    };
    examined.map_err(|MalformedNode(wanted)| format!("not {wanted}"))
}

fn leaf(bytes: &[u8]) -> Result<NodeDescription, MalformedNode> {
    let layout = leaf::LeafLayout::of(bytes)?;
    for number in 0..layout.keys {
        let key = layout.key(bytes, number)?;
        layout.lower_bound(bytes, &key)?;
        for record in layout.records_of(bytes, number)? {
            let parts = layout.parts(bytes, record)?;
            bytes
                .get(parts.value)
                .ok_or(MalformedNode("a value inside its leaf"))?;
        }
    }
    Ok(NodeDescription::Leaf {
        keys: layout.keys,
        records: layout.records,
    })
}

fn index(bytes: &[u8], page_size: PageSize) -> Result<NodeDescription, MalformedNode> {
    let layout = index::IndexLayout::of(bytes)?;
    for number in 0..layout.children {
        let separator = layout.separator(bytes, number)?;
        layout.child(bytes, number, page_size)?;
        layout.units(bytes, number)?;
        layout.keys(bytes, number)?;
        layout.child_for(bytes, &separator)?;
        layout.below(bytes, &separator)?;
    }
    Ok(NodeDescription::Index {
        level: layout.level,
        children: layout.children,
    })
}

fn footer(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<NodeDescription, MalformedNode> {
    match RunFooter::decode(bytes, place, page_size)? {
        RunFooter::Whole { details, .. } => {
            let details = RunMetadata::decode(&details)?;
            if !details.root.is_empty() {
                index(&details.root, page_size)?;
            }
            Ok(NodeDescription::Footer {
                extents: details.uses.len(),
            })
        }
        RunFooter::Apart { pointer, .. } => Ok(NodeDescription::Head {
            len: pointer.len as usize,
        }),
    }
}
