//! A summary of how a paged tree uses its pages, with totals for each level.

use super::{PagedDictionary, TreeKind};
use crate::paged::read::LevelFigures;
use alluvium_storage::Result;
use std::fmt;

/// How a store's pages are used.
///
/// ```
/// use alluvium_trees::paged::PagedOutline;
/// let none = PagedOutline::default();
/// assert_eq!(none.to_string(), "pages of 0 bytes: 0 in use, 0 free\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PagedOutline {
    pub kind: TreeKind,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// The totals of each level of the tree, from the leaves to the root.
    pub levels: Vec<LevelFigures>,
    /// Number of pages for values that do not fit into a node.
    pub value_pages: u64,
    pub free_pages: u64,
}

impl PagedDictionary {
    /// Reads every node, and returns how the pages are used. Changes wait in the meantime.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt), or I/O errors.
    pub fn outline(&self) -> Result<PagedOutline> {
        let _writer = self.shared.writer.lock();
        let examined = self.poison_on_error(self.core().examine())?;
        let counted = self.statistics();
        let nodes = examined.pages.len() as u64;
        debug_assert_eq!(
            examined.levels.iter().map(|level| level.nodes).sum::<u64>(),
            nodes,
            "each node has a level"
        );
        Ok(PagedOutline {
            kind: self.options().kind,
            page_bytes: self.options().node_bytes as u64,
            levels: examined.levels,
            value_pages: counted.pages.saturating_sub(counted.free + nodes),
            free_pages: counted.free,
        })
    }
}

/// Writes a number of entries, its maximum, and the percentage.
fn share(f: &mut fmt::Formatter<'_>, has: u64, most: u64, of: &str) -> fmt::Result {
    let percent = has * 100 / most.max(1);
    write!(f, ", {has} of {most} {of} ({percent} %)")
}

/// Writes a summary line for all pages, followed by one line per level, from the root down to the
/// leaves.
impl fmt::Display for PagedOutline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: u64 = self.levels.iter().map(|level| level.nodes).sum();
        let (used, free) = (nodes + self.value_pages, self.free_pages);
        write!(
            f,
            "pages of {} bytes: {used} in use, {free} free",
            self.page_bytes
        )?;
        if self.value_pages > 0 {
            write!(f, ", {} with long values", self.value_pages)?;
        }
        writeln!(f)?;
        for (at, level) in self.levels.iter().enumerate().rev() {
            let (what, of) = match at {
                0 => ("leaves".to_owned(), "pairs"),
                _ => (format!("level {at}"), "pivots"),
            };
            write!(f, "  {what}: {} nodes", level.nodes)?;
            share(f, level.entries, level.most_entries, of)?;
            if level.most_messages > 0 {
                share(f, level.messages, level.most_messages, "messages")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_drawn_first() {
        let leaves = LevelFigures {
            nodes: 3,
            entries: 20,
            most_entries: 40,
            ..LevelFigures::default()
        };
        let root = LevelFigures {
            nodes: 1,
            entries: 2,
            most_entries: 5,
            messages: 1,
            most_messages: 4,
        };
        let outline = PagedOutline {
            page_bytes: 512,
            levels: vec![leaves, root],
            value_pages: 7,
            free_pages: 2,
            ..PagedOutline::default()
        };
        let expected = "pages of 512 bytes: 11 in use, 2 free, 7 with long values\n  \
                        level 1: 1 nodes, 2 of 5 pivots (40 %), 1 of 4 messages (25 %)\n  \
                        leaves: 3 nodes, 20 of 40 pairs (50 %)\n";
        assert_eq!(outline.to_string(), expected);
    }
}
