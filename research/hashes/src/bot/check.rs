//! Checks a bundle of trees: compares every list and every tape with the records in the log.

use super::node::BotNode;
use super::options::QueueSchedule;
use super::queue::{QueueContext, SketchExtractor};
use super::schedule::{sketches, source_levels};
use super::sketch_runs::{ReverseRunScan, SketchItem, SketchRunReader};
use super::table::{BotState, BotTable};
use crate::blocks::{BlockExtent, BlockSpace, Result};
use crate::records::{RecordSource as _, decode};
use alluvium_filters::fingerprint::WideFingerprint;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeViolation {
    /// The level, counted from one; the index of the tape if `place` is "queue".
    pub level: u32,
    /// The offset of the node, or "queue", or "log".
    pub place: String,
    /// The invariant, and the details of the violation.
    pub what: String,
}

impl fmt::Display for TreeViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level {}, {}: {}", self.level, self.place, self.what)
    }
}

impl<S: BlockSpace> BotTable<S> {
    /// Returns every violation of the table's invariants (T1 to T5).
    ///
    /// # Errors
    /// When a read fails.
    pub fn check(&self) -> Result<Vec<TreeViolation>> {
        let ways = self.state.queue_context(&self.space);
        let mut found = Vec::new();
        let mut levels = Vec::new();
        let mut log_end = 0;
        for level in (1..=self.state.options.levels).rev() {
            let mut records = Vec::new();
            if let Some(root) = self.state.root(&self.space, level)? {
                let degree = root.children.len() as u32;
                let known = self.state.roots[level as usize - 1].map_or(0, |root| root.degree);
                if degree >= self.state.options.growth || degree != known {
                    let place = root.extent.at.to_string();
                    found.push(TreeViolation {
                        level,
                        place,
                        what: format!("T2: a root of degree {degree}"),
                    });
                }
                let mut walk = TreeCheck {
                    state: &self.state,
                    ways,
                    log_end: &mut log_end,
                    found: &mut found,
                };
                records = walk.node(&root)?;
            }
            levels.push((level, records));
        }
        if log_end != self.state.log.bytes() {
            let what = format!(
                "T1: leaves end at {log_end}, the log at {}",
                self.state.log.bytes()
            );
            found.push(TreeViolation {
                level: 0,
                place: "log".into(),
                what,
            });
        }
        self.state.check_queue(ways, &levels, &mut found)?;
        Ok(found)
    }

    /// Returns every extent that the table uses.
    ///
    /// # Errors
    /// When a read fails.
    pub fn extents(&self) -> Result<Vec<BlockExtent>> {
        let mut all = self.state.extents(&self.space)?;
        all.extend(self.committed);
        all.sort_unstable();
        Ok(all)
    }
}

/// The state of a tree's check.
struct TreeCheck<'c, 's> {
    state: &'c BotState,
    ways: QueueContext<'s>,
    /// The offset at which the next leaf must begin (T1).
    log_end: &'c mut u64,
    found: &'c mut Vec<TreeViolation>,
}

impl TreeCheck<'_, '_> {
    fn say(&mut self, node: &BotNode, what: String) {
        let place = node.extent.at.to_string();
        self.found.push(TreeViolation {
            level: node.head.height,
            place,
            what,
        });
    }

    /// Checks a node and its subtree, and returns the subtree's records in log order.
    fn node(&mut self, node: &BotNode) -> Result<Vec<WideFingerprint>> {
        let (height, cut) = (node.head.height, self.ways.cut);
        let mut records = Vec::new();
        let mut expected = Vec::new();
        for (index, &child) in node.children.iter().enumerate() {
            let below = if height == 1 {
                self.leaf(node, child)?
            } else {
                let below = BotNode::read(self.ways.space, child, height - 1, self.state.options.growth)?;
                if below.children.len() as u32 != self.state.options.growth {
                    self.say(
                        &below,
                        format!("T2: an inner node of degree {}", below.children.len()),
                    );
                }
                self.node(&below)?
            };
            for &record in &below {
                let item = cut.item(record, height..height + 1);
                expected.push((item.prefix, cut.first(item) | (index as u32) << cut.sketch_bits()));
            }
            records.extend(below);
        }
        expected.sort_by_key(|(prefix, _)| *prefix);
        let mut scan = node.scan(self.ways)?;
        let mut entries = Vec::new();
        while let Some(entry) = scan.next()? {
            entries.push((entry.prefix, entry.payload));
        }
        if let Some(at) =
            (0..entries.len().max(expected.len())).find(|&at| entries.get(at) != expected.get(at))
        {
            let what = format!(
                "T3: entry {at} is {:?}, not {:?}",
                entries.get(at),
                expected.get(at)
            );
            self.say(node, what);
        }
        Ok(records)
    }

    fn leaf(&mut self, node: &BotNode, leaf: BlockExtent) -> Result<Vec<WideFingerprint>> {
        if leaf.at != *self.log_end {
            let what = format!("T1: a leaf at {} of the log, not {}", leaf.at, self.log_end);
            self.say(node, what);
        }
        let unit = self.state.options.leaf_bytes().max(1);
        let end = leaf.end().unwrap_or(u64::MAX);
        *self.log_end = end.div_ceil(unit).saturating_mul(unit);
        let mut reader = self
            .state
            .log
            .reader(self.ways.space, self.ways.machine, leaf.at..end)?;
        let mut records = Vec::new();
        while reader.left() > 0 {
            let entry = decode(&mut reader, self.state.family.width())?;
            let (key, _) = entry.load_pair(self.ways.space)?;
            if self.state.family.of(&key) != entry.fingerprint {
                self.say(
                    node,
                    format!("T1: a record at {} has the fingerprint of another key", leaf.at),
                );
            }
            records.push(entry.fingerprint);
        }
        Ok(records)
    }
}

impl BotState {
    /// Compares each tape with the records whose sketches it must contain (T4, T5). `levels` are
    /// in log order: the deepest level first.
    fn check_queue(
        &self,
        ways: QueueContext<'_>,
        levels: &[(u32, Vec<WideFingerprint>)],
        found: &mut Vec<TreeViolation>,
    ) -> Result<()> {
        let last = ways.cut.last;
        for tape in 0..=last {
            let (held, wanted) = match ways.schedule {
                QueueSchedule::Ruler if tape == 0 => (0..0, 0..0),
                QueueSchedule::Ruler => (source_levels(tape), sketches(tape, last)),
                QueueSchedule::Every { beta } if !tape.is_multiple_of(beta) => (0..0, 0..0),
                QueueSchedule::Every { beta } => (tape + 1..tape + beta + 1, tape + 1..last + 1),
            };
            let records: Vec<WideFingerprint> = levels
                .iter()
                .filter(|(level, _)| held.contains(level))
                .flat_map(|(_, records)| records.iter().copied())
                .collect();
            let expected = sorted(ways.cut, &records, wanted.clone());
            let items = self.items_of(ways, tape, wanted)?;
            if items != expected {
                let what = format!(
                    "T4: {} items, {} expected, or others",
                    items.len(),
                    expected.len()
                );
                found.push(TreeViolation {
                    level: tape,
                    place: "queue".into(),
                    what,
                });
            }
        }
        Ok(())
    }

    /// Returns the items of a tape, sorted by prefix and then by run.
    fn items_of(
        &self,
        ways: QueueContext<'_>,
        tape: u32,
        wanted: std::ops::Range<u32>,
    ) -> Result<Vec<SketchItem>> {
        let Some(tape) = self.queue.tapes.get(tape as usize).filter(|tape| tape.runs > 0) else {
            return Ok(Vec::new());
        };
        let shape = ways.cut.shape(wanted);
        let mut places = ReverseRunScan::new(tape, ways.space, ways.machine).next(u64::MAX, shape)?;
        places.reverse();
        let mut items = Vec::new();
        for place in places {
            let mut run = SketchRunReader::new(tape, ways.space, ways.machine, place, shape)?;
            while let Some(item) = run.next()? {
                items.push(item);
            }
        }
        items.sort_by_key(|item| item.prefix);
        Ok(items)
    }
}

fn sorted(
    cut: SketchExtractor,
    records: &[WideFingerprint],
    wanted: std::ops::Range<u32>,
) -> Vec<SketchItem> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut items: Vec<SketchItem> = records
        .iter()
        .map(|&record| cut.item(record, wanted.clone()))
        .collect();
    items.sort_by_key(|item| item.prefix);
    items
}
