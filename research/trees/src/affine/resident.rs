//! Residency of nodes: the upper levels are kept in memory.

use super::counters::RequestCause;
use super::error::Result;
use super::node::{InnerNode, NodeBody};
use super::space::NodeSpace;
use super::tree::AffineTree;

impl<S: NodeSpace> AffineTree<S> {
    /// Chooses the levels to keep in memory, as many as fit, starting with the root. Nodes of
    /// other levels are written to disk.
    pub(super) fn choose_resident(&mut self) -> Result<()> {
        let (node_bytes, mut height, mut bytes) =
            (u64::from(self.options.node_bytes), self.root.height, 0u64);
        while height > 1 {
            bytes = bytes.saturating_add(self.levels[usize::from(height) - 1].saturating_mul(node_bytes));
            if bytes > self.options.memory_bytes {
                break;
            }
            height -= 1;
        }
        let before = std::mem::replace(&mut self.resident_height, height);
        if height > before {
            let mut root = self.take_root();
            let done = self.evict(&mut root);
            self.root = root;
            done?;
        }
        assert!(
            self.resident_height >= 1 && self.resident_height <= self.root.height,
            "the root is in memory, leaves are not"
        );
        Ok(())
    }

    /// Writes the nodes below the lowest resident height, and drops them from memory.
    fn evict(&self, node: &mut InnerNode) -> Result<()> {
        debug_assert!(node.height > 0, "a leaf is not in memory");
        for child in &mut node.children {
            let Some(inner) = &mut child.node else { continue };
            self.evict(inner)?;
            if inner.height < self.resident_height {
                if child.link.is_none() {
                    child.link = Some(self.store_inner(RequestCause::Flush, inner)?);
                }
                child.node = None;
            }
        }
        Ok(())
    }

    /// Writes the nodes in memory that differ from their stored version.
    pub(super) fn store_dirty(&self, node: &mut InnerNode) -> Result<()> {
        for child in &mut node.children {
            if let (Some(inner), None) = (&mut child.node, &child.link) {
                self.store_dirty(inner)?;
                child.link = Some(self.store_inner(RequestCause::Commit, inner)?);
            }
            assert!(
                child.link.is_some(),
                "a child in memory or on the disk is stored now"
            );
        }
        Ok(())
    }

    /// Loads the nodes of the resident levels.
    ///
    /// # Errors
    /// Errors of the space.
    pub fn load_resident_levels(&mut self) -> Result<()> {
        self.ensure_usable()?;
        let mut root = self.take_root();
        let done = self.warm_below(&mut root);
        self.root = root;
        done
    }

    fn warm_below(&self, node: &mut InnerNode) -> Result<()> {
        if node.height <= self.resident_height {
            return Ok(());
        }
        for child in &mut node.children {
            if let (None, Some(link)) = (&child.node, &child.link)
                && let NodeBody::Inner(inner) = self.load(RequestCause::Query, link, node.height - 1)?
            {
                child.node = Some(Box::new(inner));
            }
            let inner = child.node.as_mut().expect("it was read");
            self.warm_below(inner)?;
        }
        Ok(())
    }

    /// Returns the encoded size of the nodes in memory, in bytes: M of the model.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        fn below(node: &InnerNode) -> u64 {
            let own = |child: &super::node::BufferedChild| {
                (super::format::INNER_PART + child.from.len() + child.buffer.bytes()) as u64
            };
            node.children
                .iter()
                .map(|child| own(child) + child.node.as_ref().map_or(0, |node| below(node)))
                .sum()
        }
        below(&self.root)
    }
}
