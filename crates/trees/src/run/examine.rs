//! Decodes everything in a single node of arbitrary bytes: for tools, tests and fuzzing.

use super::footer::{Details, Footer};
use super::{Bad, format, index, leaf};
use alluvium_storage::{PageSize, Place, Structure};

/// The kind and contents of an examined node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Examined {
    /// A leaf.
    Leaf {
        /// Number of distinct keys.
        keys: usize,
        /// Number of records.
        records: usize,
    },
    /// An index node.
    Index {
        /// Number of levels below it.
        level: u8,
        /// Number of children.
        children: usize,
    },
    /// A footer.
    Footer {
        /// Number of listed extents.
        extents: usize,
    },
    /// The head of a long node, or a footer whose details are in other nodes.
    Head {
        /// Total size in bytes.
        len: usize,
    },
}

/// Decodes every key, record and child of an untrusted node.
///
/// ```
/// use alluvium_storage::PageSize;
/// use alluvium_trees::run::examine;
/// assert!(examine(&[0; 4096], PageSize::MIN).is_err());
/// ```
///
/// # Errors
/// A description of the damage.
pub fn examine(bytes: &[u8], page_size: PageSize) -> Result<Examined, String> {
    let place = Place::new(Structure::Node, "examined", 0);
    let examined = match bytes.first() {
        Some(&format::LEAF) => leaf(bytes),
        Some(&format::INDEX) => index(bytes, page_size),
        Some(&format::FOOTER) => footer(bytes, &place, page_size),
        Some(&format::LONG) => {
            let head = format::decode_long(bytes, &place, page_size);
            let (len, _) = head.map_err(|error| error.to_string())?;
            Ok(Examined::Head { len })
        }
        _ => Err(Bad("a first byte that is a kind's")),
    };
    examined.map_err(|Bad(wanted)| format!("not {wanted}"))
}

fn leaf(bytes: &[u8]) -> Result<Examined, Bad> {
    let layout = leaf::Layout::of(bytes)?;
    for number in 0..layout.keys {
        let key = layout.key(bytes, number)?;
        layout.lower_bound(bytes, &key)?;
        for record in layout.records_of(bytes, number)? {
            let parts = layout.parts(bytes, record)?;
            bytes.get(parts.value).ok_or(Bad("a value inside its leaf"))?;
        }
    }
    Ok(Examined::Leaf {
        keys: layout.keys,
        records: layout.records,
    })
}

fn index(bytes: &[u8], page_size: PageSize) -> Result<Examined, Bad> {
    let layout = index::Layout::of(bytes)?;
    for number in 0..layout.children {
        let separator = layout.separator(bytes, number)?;
        layout.child(bytes, number, page_size)?;
        layout.units(bytes, number)?;
        layout.keys(bytes, number)?;
        layout.child_for(bytes, &separator)?;
        layout.below(bytes, &separator)?;
    }
    Ok(Examined::Index {
        level: layout.level,
        children: layout.children,
    })
}

fn footer(bytes: &[u8], place: &Place, page_size: PageSize) -> Result<Examined, Bad> {
    match Footer::decode(bytes, place, page_size)? {
        Footer::Whole { details, .. } => {
            let details = Details::decode(&details)?;
            if !details.root.is_empty() {
                index(&details.root, page_size)?;
            }
            Ok(Examined::Footer {
                extents: details.uses.len(),
            })
        }
        Footer::Apart { pointer, .. } => Ok(Examined::Head {
            len: pointer.len as usize,
        }),
    }
}
