//! Checks a run by traversing it, and reports every violation of an invariant.
//!
//! *Scope*: the footer, index nodes, leaves and values of one run, and which of its keys readers
//! can reach. *Must not depend on*: maplets, other runs, the trees that refer to the run.

mod separate_values;

use super::find::record_of;
use super::footer::RunFooter;
use super::leaf::LeafLayout;
use super::load::{assemble, is_long, load_from};
use super::spans::{UnitSpans, rounded_up};
use super::units::ValueUnits;
use super::{DamagedNode, IndexedRun, MalformedNode, NodeContents, RunSummary, RunViolation, format, index};
use alluvium_base::{MessageKind, Purpose, SequenceNumber};
use alluvium_dictionary::merge::OperandChain;
use alluvium_dictionary::nodes::DirectNodeReader;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::{CheckReadTotals, DataFiles};
use alluvium_dictionary::record::RecordValue;
use alluvium_dictionary::record::StoredRecord;
use alluvium_dictionary::value_log::{self, ValuePointer};
use alluvium_storage::extents::UNIT;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer};
use std::collections::{HashMap, HashSet};

/// The bounds of the keys that a node may contain: at or above `low` and below `high`. If `goes_on`
/// is set, the node may also contain `high` itself, because the records of that key continue in the
/// next node.
#[derive(Clone, Debug)]
struct NodeFences {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    begun: bool,
    goes_on: bool,
}

/// A child of an index node, with the bounds of its keys. A leaf also has the allocation units of
/// its values, and its first and last keys.
struct FencedChild {
    child: index::IndexChild,
    own: NodeFences,
    units: ValueUnits,
    keys: Option<index::LeafKeys>,
}

/// Maximum number of leaves (`LEAVES_AT_ONCE`) and of index nodes (`INDEX_AT_ONCE`) read in one
/// batch.
const LEAVES_AT_ONCE: usize = 64;
const INDEX_AT_ONCE: usize = 8;
/// Maximum number of value nodes that are remembered, so that they are not read again.
const MOST_SEEN: usize = 4096;

/// A callback that receives each key that readers can reach.
pub(crate) type KeyCallback<'k> = &'k mut dyn FnMut(&[u8]);

struct RunChecker<'a> {
    run: &'a IndexedRun,
    nodes: DirectNodeReader<'a>,
    files: DataFiles<'a>,
    /// The key ranges in which the run is live. Nodes outside of them are not read, because they
    /// may already have been released.
    within: &'a [KeyRange],
    /// Whether `within` covers the whole run.
    whole: bool,
    keys: KeyCallback<'a>,
    read: &'a mut CheckReadTotals,
    violations: Vec<RunViolation>,
    found: RunSummary,
    /// Number of leaves that were adopted from other runs.
    adopted: u64,
    spans: UnitSpans,
    /// The allocation units that contain the separate values of the current leaf.
    units: ValueUnits,
    /// The key and the sequence number of the previous record, or `None` at the start and after a
    /// skipped leaf.
    last: Option<(Vec<u8>, SequenceNumber)>,
    /// Whether a leaf has been skipped since the previous record.
    left_out: bool,
    /// Value nodes that were read recently.
    seen: HashSet<NodePointer>,
    /// Damaged value nodes, each with the indices of its violations in `violations`.
    damaged: HashMap<NodePointer, Vec<usize>>,
}

impl IndexedRun {
    /// Checks the run by reading all of its nodes from the device. Returns all violations of its
    /// invariants.
    #[must_use]
    pub fn check(&self, store: &Store) -> Vec<RunViolation> {
        let everything = [KeyRange::everything()];
        self.check_within(
            DataFiles::of(store),
            &everything,
            &mut |_| (),
            &mut CheckReadTotals::default(),
        )
    }

    /// Like [`IndexedRun::check`], but checks only the nodes that readers of the ranges in `within`
    /// can reach. The ranges must be in ascending order, and must neither overlap nor touch. The
    /// store need not be open. Calls `keys` with each reachable key, and adds the number of nodes
    /// and bytes read to `read`.
    pub(crate) fn check_within(
        &self,
        files: DataFiles<'_>,
        within: &[KeyRange],
        keys: KeyCallback<'_>,
        read: &mut CheckReadTotals,
    ) -> Vec<RunViolation> {
        let whole = |range: &KeyRange| range.contains(self.low()) && range.contains(self.high());
        let mut checker = RunChecker {
            run: self,
            nodes: DirectNodeReader {
                tiers: files.tiers,
                page_size: files.page_size,
                purpose: Purpose::Check,
            },
            files,
            within,
            whole: within.iter().any(whole),
            keys,
            read,
            violations: Vec::new(),
            found: RunSummary::default(),
            adopted: 0,
            spans: UnitSpans::default(),
            units: ValueUnits::default(),
            last: None,
            left_out: false,
            seen: HashSet::new(),
            damaged: HashMap::new(),
        };
        checker.check();
        checker.violations
    }
}

impl RunChecker<'_> {
    fn check(&mut self) {
        let inner = &*self.run.inner;
        if let Err(error) = self.footer() {
            self.unreadable(&error);
        }
        if let Some((layout, root)) = &inner.root {
            let low = layout.separator(root, 0).unwrap_or_default();
            let fences = NodeFences {
                low,
                high: None,
                begun: false,
                goes_on: false,
            };
            self.index(root, &inner.pointer, layout.level, &fences);
        }
        // Unreadable nodes have been reported already, and without them the totals cannot match the
        // summary.
        let read_all = self.whole && self.violations.is_empty();
        if read_all {
            self.summary();
        }
        if self.violations.is_empty() {
            self.extents();
        }
    }

    fn unreadable(&mut self, error: &Error) {
        self.violations.push(RunViolation::Unreadable {
            why: error.to_string(),
            node: None,
        });
    }

    /// Reports a leaf or an index node that cannot be read.
    fn unreadable_child(&mut self, error: &Error, child: &FencedChild, level: u8) {
        let fences = &child.own;
        let high = fences.high.as_deref().unwrap_or(&self.run.inner.last);
        let is_damaged = matches!(error, Error::Corrupt { .. });
        let node = is_damaged.then(|| {
            // The range must include the upper bound itself if the node has records of that key.
            let mut behind = high.to_vec();
            if fences.goes_on || fences.high.is_none() {
                behind.push(0);
            }
            Box::new(DamagedNode {
                pointer: child.child.pointer,
                range: KeyRange::new(&fences.low, Some(&behind)),
                high: high.into(),
                holds: if level == 0 {
                    NodeContents::Records
                } else {
                    NodeContents::Nodes
                },
                records: child.child.sums.records,
                why: error.to_string(),
            })
        });
        self.violations.push(RunViolation::Unreadable {
            why: format!(
                "keys from \"{}\" to \"{}\", each behind the number of its keyspace: {error}",
                fences.low.escape_ascii(),
                high.escape_ascii()
            ),
            node,
        });
    }

    fn order(&mut self, pointer: &NodePointer, what: impl Into<String>) {
        self.violations.push(RunViolation::Order {
            place: pointer.place(),
            what: what.into(),
        });
    }

    /// Reads the footer and adds its nodes to the spans and the counts.
    fn footer(&mut self) -> Result<(), Error> {
        let inner = &*self.run.inner;
        let bytes = load_from(&self.nodes, &inner.pointer)?;
        let footer = RunFooter::decode(&bytes, &inner.pointer.place(), inner.page_size);
        let mut nodes = vec![inner.pointer];
        if let RunFooter::Apart { pointer, .. } = footer.map_err(|bad| bad.at(&inner.pointer))? {
            nodes.extend(value_log::nodes_of(&self.nodes, &pointer)?);
            value_log::read_from(&self.nodes, &pointer, &mut Vec::new())?;
        }
        for node in nodes {
            self.read.footers.add(&node);
            self.spans
                .add(&node, &inner.low, &inner.high, node.read_len() as u64);
        }
        Ok(())
    }

    /// Finishes reading a leaf or an index node, given the result of reading its first node. Adds
    /// all of its nodes to the spans and the counts. Returns all of its bytes, and its size on the
    /// device in bytes.
    fn whole_of(
        &mut self,
        child: &FencedChild,
        first: Result<Vec<u8>, Error>,
        level: u8,
    ) -> Result<(Vec<u8>, u64), Error> {
        let pointer = child.child.pointer;
        let amount = if level > 0 {
            &mut self.read.index
        } else {
            &mut self.read.leaves
        };
        amount.add(&pointer);
        let mut bytes = first?;
        let mut all = vec![pointer];
        if is_long(&bytes) {
            all.extend(format::decode_long(&bytes, &pointer.place(), self.nodes.page_size)?.1);
            all[1..].iter().for_each(|part| amount.add(part));
            bytes = assemble(&self.nodes, &pointer, &bytes)?;
        }
        let inner = &*self.run.inner;
        let (low, high) = if level > 0 {
            (&*inner.low, &*inner.high)
        } else {
            (&*child.own.low, child.own.high.as_deref().unwrap_or(&inner.last))
        };
        for node in &all {
            self.spans.add(node, low, high, node.read_len() as u64);
        }
        let len = all.iter().map(|node| node.read_len() as u64).sum();
        Ok((bytes, len))
    }

    /// Checks an index node and its subtree. Returns the sums over the subtree's leaves.
    fn index(
        &mut self,
        bytes: &[u8],
        pointer: &NodePointer,
        level: u8,
        fences: &NodeFences,
    ) -> index::SubtreeSums {
        match self.children(bytes, pointer, level, fences) {
            Ok(sums) => sums,
            Err(bad) => {
                self.unreadable(&bad.at(pointer));
                index::SubtreeSums::default()
            }
        }
    }

    fn children(
        &mut self,
        bytes: &[u8],
        pointer: &NodePointer,
        level: u8,
        fences: &NodeFences,
    ) -> Result<index::SubtreeSums, MalformedNode> {
        let layout = index::IndexLayout::of(bytes)?;
        if layout.level != level {
            self.order(pointer, format!("level {}, not {level}", layout.level));
            return Ok(index::SubtreeSums::default());
        }
        let mut wanted = Vec::new();
        for number in 0..layout.children {
            let child = layout.child(bytes, number, self.nodes.page_size)?;
            let mut own = NodeFences {
                low: layout.separator(bytes, number)?,
                begun: child.begun,
                ..fences.clone()
            };
            if number + 1 < layout.children {
                own.high = Some(layout.separator(bytes, number + 1)?);
                own.goes_on = layout.is_begun(bytes, number + 1)?;
            }
            let ordered = match &own.high {
                Some(high) => own.low < *high || (own.low == *high && own.goes_on),
                None => true,
            };
            let first = number > 0 || (own.low == fences.low && own.begun == fences.begun);
            if !ordered || !first {
                self.order(
                    pointer,
                    format!("the separator of child {number} is out of order"),
                );
            }
            wanted.push(FencedChild {
                child,
                own,
                units: layout.units(bytes, number)?,
                keys: layout.keys(bytes, number)?,
            });
        }
        Ok(self.below(&wanted, level - 1))
    }

    /// Checks the children that readers can reach. Returns the sums over the leaves of all
    /// children.
    fn below(&mut self, children: &[FencedChild], level: u8) -> index::SubtreeSums {
        let mut sums = index::SubtreeSums::default();
        for some in children.chunks(if level > 0 { INDEX_AT_ONCE } else { LEAVES_AT_ONCE }) {
            let reached: Vec<&FencedChild> = some.iter().filter(|child| self.reaches(&child.own)).collect();
            let pointers: Vec<NodePointer> = reached.iter().map(|child| child.child.pointer).collect();
            let mut read = Vec::with_capacity(pointers.len());
            self.files.nodes(&pointers, &mut |_, node| read.push(node));
            let mut read = reached.into_iter().zip(read).peekable();
            for child in some {
                match read.next_if(|(next, _)| std::ptr::eq(*next, child)) {
                    Some((_, node)) => sums += self.child(child, node, level),
                    None => {
                        (self.last, self.left_out) = (None, true);
                        sums += child.child.sums;
                    }
                }
            }
        }
        sums
    }

    /// Returns whether a reader may need keys within these bounds.
    fn reaches(&self, fences: &NodeFences) -> bool {
        let high = fences.high.as_deref().unwrap_or(&self.run.inner.last);
        self.whole || self.within.iter().any(|range| range.overlaps(&fences.low, high))
    }

    /// Checks a child, given the result of reading its first node. Returns the sums that its parent
    /// states for it.
    fn child(&mut self, child: &FencedChild, node: Result<Vec<u8>, Error>, level: u8) -> index::SubtreeSums {
        let pointer = child.child.pointer;
        let said = child.child.sums;
        let (bytes, len) = match self.whole_of(child, node, level) {
            Ok(read) => read,
            Err(error) => {
                self.unreadable_child(&error, child, level);
                (self.last, self.left_out) = (None, true);
                return said;
            }
        };
        let before = self.violations.len();
        let found = if level > 0 {
            self.index(&bytes, &pointer, level, &child.own)
        } else {
            let mut sums = index::SubtreeSums {
                bytes: len,
                ..index::SubtreeSums::default()
            };
            self.found.leaves += 1;
            self.adopted += u64::from(self.is_inherited(&pointer));
            self.units.clear();
            if let Err(error) = self.leaf(&bytes, child, &mut sums) {
                self.unreadable_child(&error, child, level);
            }
            sums
        };
        if found != said && self.violations.len() == before {
            self.violations.push(RunViolation::Sums {
                place: pointer.place(),
                what: format!("{said:?} are recorded, but {found:?} were found"),
            });
        }
        self.compare_units(child, level);
        said
    }

    /// Compares the allocation units that the index lists for a leaf's values with the units found
    /// (I3).
    fn compare_units(&mut self, child: &FencedChild, level: u8) {
        self.units.settle();
        let is_known = level == 0 && self.whole && !child.units.is_empty();
        if is_known && self.violations.is_empty() && self.units != child.units {
            let (said, found) = (&child.units, &self.units);
            self.violations.push(RunViolation::Sums {
                place: child.child.pointer.place(),
                what: format!("values are recorded in {said:?}, but were found in {found:?}"),
            });
        }
    }

    /// Checks a leaf, and adds its records to `sums`.
    fn leaf(
        &mut self,
        bytes: &[u8],
        child: &FencedChild,
        sums: &mut index::SubtreeSums,
    ) -> Result<(), Error> {
        let (pointer, fences) = (&child.child.pointer, &child.own);
        let bad = |bad: MalformedNode| bad.at(pointer);
        let layout = LeafLayout::of(bytes).map_err(bad)?;
        let mut apart = Vec::new();
        if layout.begun != fences.begun || layout.goes_on != fences.goes_on {
            self.order(
                pointer,
                "whether keys continue across leaves differs from the node above",
            );
        }
        for number in 0..layout.keys {
            let key = layout.key(bytes, number).map_err(bad)?;
            let below = fences.high.as_ref().is_none_or(|high| {
                key < *high || (key == *high && fences.goes_on && number + 1 == layout.keys)
            });
            if key < fences.low || !below {
                self.order(pointer, format!("key {number} is outside its leaf's bounds"));
            }
            let goes_on = number == 0 && layout.begun;
            let follows = match &self.last {
                Some((last, _)) if goes_on => *last == key,
                Some((last, _)) => *last < key,
                None => self.left_out || !goes_on,
            };
            if !follows {
                self.order(pointer, format!("key {number} does not follow the one before"));
            }
            self.found.keys += u64::from(!goes_on);
            let reached = self.whole || self.within.iter().any(|range| range.contains(&key));
            if reached {
                (self.keys)(&key);
            }
            let mut before = self.last.take().map(|(_, sequence)| sequence).filter(|_| goes_on);
            for record in layout.records_of(bytes, number).map_err(bad)? {
                let record = record_of(&layout, bytes, record, pointer, self.nodes.page_size)?;
                if before.is_some_and(|before| before <= record.sequence) {
                    self.order(
                        pointer,
                        format!("the records of key {number} are not newest first"),
                    );
                }
                self.timed_delete(pointer, number, &record);
                before = Some(record.sequence);
                sums.records += 1;
                sums.tombstones += u64::from(record.kind == MessageKind::Delete);
                if let Some(pointer) = self.note(&record, sums).filter(|_| reached) {
                    apart.push((pointer, number));
                }
            }
            self.last = Some((key, before.unwrap_or(0)));
        }
        self.left_out = false;
        if let Some(said) = &child.keys {
            let ends = [0, layout.keys.saturating_sub(1)].map(|number| layout.key(bytes, number));
            let [first, last] = ends;
            if (first.map_err(bad)?, last.map_err(bad)?) != (said.first.clone(), said.last.clone()) {
                self.order(
                    pointer,
                    "its first and last key differ from those in the node above (I4)",
                );
            }
        }
        self.values(&apart, |number| layout.key(bytes, number).map_err(bad))
    }

    /// Decodes the operand of a timed delete, unless it lies outside of its leaf.
    fn timed_delete(&mut self, pointer: &NodePointer, number: usize, record: &StoredRecord<'_>) {
        if let (MessageKind::TimedDelete, RecordValue::Inline(operand)) = (record.kind, &record.value)
            && OperandChain::decode(operand, record.expires_ms).is_err()
        {
            self.order(pointer, format!("key {number} has a damaged timed delete"));
        }
    }

    /// Adds a record to the counts. Returns the pointer to its value if the value is separate.
    fn note(&mut self, record: &StoredRecord<'_>, sums: &mut index::SubtreeSums) -> Option<ValuePointer> {
        self.read.records += 1;
        let found = &mut self.found;
        found.lowest_sequence = match found.records {
            0 => record.sequence,
            _ => found.lowest_sequence.min(record.sequence),
        };
        found.highest_sequence = found.highest_sequence.max(record.sequence);
        found.records += 1;
        found.tombstones += u64::from(record.kind == MessageKind::Delete);
        found.merges += u64::from(record.kind.needs_older());
        found.value_bytes += record.value.len() as u64;
        if record.expires_ms != 0 {
            let earliest = found.earliest_expiry_ms;
            found.earliest_expiry_ms = match earliest {
                0 => record.expires_ms,
                earliest => earliest.min(record.expires_ms),
            };
        }
        let RecordValue::Separate(pointer) = record.value else {
            return None;
        };
        found.separate += 1;
        sums.bytes += u64::from(pointer.len);
        Some(pointer)
    }

    /// Returns whether another run wrote this node.
    fn is_inherited(&self, node: &NodePointer) -> bool {
        let unit = node.offset / UNIT;
        self.run.extents().iter().any(|used| {
            let extent = &used.extent;
            used.inherited
                && extent.tier == node.tier
                && (u64::from(extent.start)..u64::from(extent.end())).contains(&unit)
        })
    }

    fn summary(&mut self) {
        let said = self.run.summary();
        let mut found = self.found;
        if self.adopted > 0 {
            // For adopted leaves, the summary has only estimates and bounds.
            found.value_bytes = said.value_bytes;
            let within = said.lowest_sequence <= found.lowest_sequence
                && found.highest_sequence <= said.highest_sequence;
            if within {
                (found.lowest_sequence, found.highest_sequence) =
                    (said.lowest_sequence, said.highest_sequence);
            }
        }
        // These fields cannot be computed from the leaves.
        (found.bytes, found.range_deletes) = (said.bytes, said.range_deletes);
        let deletes = self.run.range_deletes();
        if let (Some(lowest), Some(highest)) = (deletes.sequences().next(), deletes.sequences().next_back()) {
            let none = found.records == 0;
            found.lowest_sequence = if none {
                lowest
            } else {
                found.lowest_sequence.min(lowest)
            };
            found.highest_sequence = found.highest_sequence.max(highest);
        }
        found.range_deletes = deletes.count_distinct() as u64;
        if *said != found {
            self.violations.push(RunViolation::Summary {
                what: format!("{said:?} is recorded, but {found:?} was found"),
            });
        }
        if let Some((last, _)) = &self.last
            && **last != *self.run.inner.last
            && *rounded_up(last) != *self.run.inner.last
            && (self.adopted == 0 || **last > *self.run.inner.last)
        {
            self.violations.push(RunViolation::Summary {
                what: "the last key".to_owned(),
            });
        }
    }

    fn extents(&mut self) {
        let mut wrong = Vec::new();
        for used in self.run.extents() {
            let Some(found) = self.spans.take(used.extent, used.inherited) else {
                if !self.whole {
                    continue;
                }
                wrong.push(format!("{} holds nothing of the run", used.extent));
                continue;
            };
            if found.low < used.low || found.high > used.high {
                let keys = [&found.low, &found.high, &used.low, &used.high];
                let [low, high, said_low, said_high] = keys.map(|key| key.escape_ascii().to_string());
                wrong.push(format!(
                    "{} is needed from {low} to {high}, but listed from {said_low} to {said_high}",
                    used.extent
                ));
            }
            if self.whole && found.live != used.live {
                wrong.push(format!(
                    "{}: {} live bytes are recorded, but {} were found",
                    used.extent, used.live, found.live
                ));
            }
        }
        if let Some((tier, unit)) = self.spans.left_over() {
            wrong.push(format!("unit {unit} of tier {tier} is needed, but not listed"));
        }
        let wrong = wrong.into_iter().map(|what| RunViolation::Extents { what });
        self.violations.extend(wrong);
    }
}
