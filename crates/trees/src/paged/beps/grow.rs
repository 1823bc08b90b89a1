//! Adds a level to a tree whose root has no buffer, by moving the root's children to many new
//! nodes.

use super::BepsTree;
use crate::paged::buffer::{PageBuffer, PageWriteGuard};
use crate::paged::core::{MOST_LEVELS, TreeCounters};
use crate::paged::node::{PageContentKind, add_pivot, child_at, level, set_first_child, set_head};
use alluvium_storage::Result;

impl<B: PageBuffer> BepsTree<B> {
    /// Moves the children of a full root to new nodes one level below it, whose buffers are empty
    /// (thesis, section 5.5). It creates enough nodes that each has the free pivots for a flush
    /// without being split.
    pub(super) fn grow(&self, root: &mut PageWriteGuard<'_>) -> Result<()> {
        let shape = &self.core.shape;
        let table = shape.wide;
        let (children, old_level) = (table.len(root) + 1, level(root));
        assert!(old_level + 1 < MOST_LEVELS, "a tree of pages has few levels");
        let per_node = shape.pivots.most_addressed().max(2);
        let nodes = children.div_ceil(per_node);
        // For each new node, the index of its first child, and its page number. The new nodes can
        // be freed again until the root refers to them.
        let mut pages: Vec<(usize, u64)> = Vec::with_capacity(nodes);
        for node in 0..nodes {
            let (from, to) = (node * children / nodes, (node + 1) * children / nodes);
            match self.core.buffer.allocate() {
                Ok(mut page) => {
                    set_head(&mut page, PageContentKind::Buffered, old_level);
                    set_first_child(&mut page, child_at(&table, root, from));
                    for at in from + 1..to {
                        add_pivot(
                            shape,
                            &mut page,
                            table.key(root, at - 1),
                            child_at(&table, root, at),
                        );
                    }
                    pages.push((from, page.number()));
                }
                Err(error) => {
                    for (_, page) in pages {
                        // If a page cannot be pinned here, it remains unused until the next check.
                        let _ = self
                            .core
                            .buffer
                            .pin_exclusive(page)
                            .map(|page| self.core.buffer.free(page));
                    }
                    return Err(error);
                }
            }
        }
        let pivots: Vec<Vec<u8>> = pages
            .iter()
            .skip(1)
            .map(|(from, _)| table.key(root, from - 1).to_vec())
            .collect();
        set_head(root, PageContentKind::Wide, old_level + 1);
        set_first_child(root, pages[0].1);
        for (pivot, (_, page)) in pivots.iter().zip(&pages[1..]) {
            add_pivot(shape, root, pivot, *page);
        }
        assert_eq!(table.len(root) + 1, nodes, "every new node is a child");
        TreeCounters::add(&self.core.counters.growths, 1);
        Ok(())
    }
}
