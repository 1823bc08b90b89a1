//! Walks a run and reports everything that is not as the invariants say.

use super::find::record_of;
use super::footer::Footer;
use super::leaf::Layout;
use super::load::{Direct, Nodes, is_long, load_from};
use super::spans::Spans;
use super::{Bad, Run, Summary, Value, format, index, value};
use alluvium_base::{Kind, Purpose, Sequence};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer, Place};
use std::fmt;

/// Something that is not as the invariants of [`run`](super) say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A node cannot be read, or is not what its pointer means.
    Unreadable {
        /// What the read said.
        why: String,
    },
    /// Keys, records or separators are out of order, or a key is outside its leaf's bounds (R1, L1, I1).
    Order {
        /// The node.
        place: Place,
        /// What is wrong.
        what: String,
    },
    /// A child's sums are not those of its leaves (I2).
    Sums {
        /// The child.
        place: Place,
        /// What the node above says, and what was found.
        what: String,
    },
    /// The summary is not what the leaves come to.
    Summary {
        /// What the footer says, and what was found.
        what: String,
    },
    /// An extent is not listed, or not for all keys that need it, or not with its live bytes (R2).
    Extents {
        /// What is wrong.
        what: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Unreadable { why } => f.write_str(why),
            Violation::Order { place, what } | Violation::Sums { place, what } => {
                write!(f, "{place}: {what}")
            }
            Violation::Summary { what } => write!(f, "a run's summary: {what}"),
            Violation::Extents { what } => write!(f, "a run's extents: {what}"),
        }
    }
}

/// The keys that a node may have: from `low` on, below `high`, or at it where the next node goes on with it.
#[derive(Clone, Debug)]
struct Fences {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    begun: bool,
    goes_on: bool,
}

struct Checker<'a> {
    run: &'a Run,
    nodes: Direct<'a>,
    violations: Vec<Violation>,
    found: Summary,
    spans: Spans,
    /// The last record so far: its key and sequence number.
    last: Option<(Vec<u8>, Sequence)>,
}

impl Run {
    /// Reads every node of the run, past the cache, and lists what is wrong.
    #[must_use]
    pub fn check(&self, store: &Store) -> Vec<Violation> {
        let mut checker = Checker {
            run: self,
            nodes: Direct {
                tiers: store.tiers(),
                page_size: store.page_size(),
                purpose: Purpose::Check,
            },
            violations: Vec::new(),
            found: Summary::default(),
            spans: Spans::default(),
            last: None,
        };
        checker.check();
        checker.violations
    }
}

impl Checker<'_> {
    fn check(&mut self) {
        let inner = &*self.run.inner;
        if let Err(error) = self.footer() {
            self.unreadable(&error);
        }
        if let Some((layout, root)) = &inner.root {
            let low = layout.separator(root, 0).unwrap_or_default();
            let fences = Fences {
                low,
                high: None,
                begun: false,
                goes_on: false,
            };
            self.index(root, &inner.pointer, layout.level, &fences);
        }
        self.summary();
        self.extents();
    }

    fn unreadable(&mut self, error: &Error) {
        self.violations.push(Violation::Unreadable {
            why: error.to_string(),
        });
    }

    fn order(&mut self, pointer: &NodePointer, what: impl Into<String>) {
        self.violations.push(Violation::Order {
            place: pointer.place(),
            what: what.into(),
        });
    }

    /// Notes the nodes of the footer.
    fn footer(&mut self) -> Result<(), Error> {
        let inner = &*self.run.inner;
        let bytes = load_from(&self.nodes, &inner.pointer)?;
        let footer = Footer::decode(&bytes, &inner.pointer.place(), inner.page_size);
        let mut nodes = vec![inner.pointer];
        if let Footer::Apart { pointer, .. } = footer.map_err(|bad| bad.at(&inner.pointer))? {
            nodes.extend(value::nodes_of(&self.nodes, &pointer)?);
            value::read_from(&self.nodes, &pointer, &mut Vec::new())?;
        }
        for node in nodes {
            self.spans
                .add(&node, &inner.low, &inner.high, node.read_len() as u64);
        }
        Ok(())
    }

    /// Notes the nodes of a leaf or index node, and gives its bytes.
    fn read(&mut self, pointer: &NodePointer, low: &[u8], high: &[u8]) -> Result<(Vec<u8>, u64), Error> {
        let mut all = vec![*pointer];
        let page_size = self.nodes.page_size;
        self.nodes.each(&[*pointer], &mut |node| {
            if is_long(node) {
                all.extend(format::decode_long(node, &pointer.place(), page_size)?.1);
            }
            Ok(())
        })?;
        for node in &all {
            self.spans.add(node, low, high, node.read_len() as u64);
        }
        let len = all.iter().map(|node| node.read_len() as u64).sum();
        Ok((load_from(&self.nodes, pointer)?, len))
    }

    /// Checks an index node and all below it; what its leaves come to.
    fn index(&mut self, bytes: &[u8], pointer: &NodePointer, level: u8, fences: &Fences) -> index::Sums {
        match self.children(bytes, pointer, level, fences) {
            Ok(sums) => sums,
            Err(bad) => {
                self.unreadable(&bad.at(pointer));
                index::Sums::default()
            }
        }
    }

    fn children(
        &mut self,
        bytes: &[u8],
        pointer: &NodePointer,
        level: u8,
        fences: &Fences,
    ) -> Result<index::Sums, Bad> {
        let layout = index::Layout::of(bytes)?;
        if layout.level != level {
            self.order(pointer, format!("level {}, not {level}", layout.level));
            return Ok(index::Sums::default());
        }
        let mut sums = index::Sums::default();
        for number in 0..layout.children {
            let child = layout.child(bytes, number, self.nodes.page_size)?;
            let mut own = Fences {
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
                self.order(pointer, format!("the separator of child {number}"));
            }
            let found = self.child(&child, level - 1, &own);
            if found != child.sums {
                self.violations.push(Violation::Sums {
                    place: child.pointer.place(),
                    what: format!("{:?} are said, {found:?} found", child.sums),
                });
            }
            sums += found;
        }
        Ok(sums)
    }

    fn child(&mut self, child: &index::Child, level: u8, fences: &Fences) -> index::Sums {
        let inner = &*self.run.inner;
        let (low, high) = if level > 0 {
            (&*inner.low, &*inner.high)
        } else {
            (&*fences.low, fences.high.as_deref().unwrap_or(&inner.last))
        };
        let (bytes, len) = match self.read(&child.pointer, low, high) {
            Ok(read) => read,
            Err(error) => {
                self.unreadable(&error);
                return index::Sums::default();
            }
        };
        if level > 0 {
            return self.index(&bytes, &child.pointer, level, fences);
        }
        let mut sums = index::Sums {
            bytes: len,
            ..index::Sums::default()
        };
        self.found.leaves += 1;
        if let Err(error) = self.leaf(&bytes, &child.pointer, fences, &mut sums) {
            self.unreadable(&error);
        }
        sums
    }

    /// Checks a leaf, and adds to what it comes to.
    fn leaf(
        &mut self,
        bytes: &[u8],
        pointer: &NodePointer,
        fences: &Fences,
        sums: &mut index::Sums,
    ) -> Result<(), Error> {
        let bad = |bad: Bad| bad.at(pointer);
        let layout = Layout::of(bytes).map_err(bad)?;
        if layout.begun != fences.begun || layout.goes_on != fences.goes_on {
            self.order(
                pointer,
                "what goes on across leaves is not what the node above says",
            );
        }
        for number in 0..layout.keys {
            let key = layout.key(bytes, number).map_err(bad)?;
            let below = fences.high.as_ref().is_none_or(|high| {
                key < *high || (key == *high && fences.goes_on && number + 1 == layout.keys)
            });
            if key < fences.low || !below {
                self.order(pointer, format!("key {number} outside its leaf's bounds"));
            }
            let goes_on = number == 0 && layout.begun;
            let follows = match &self.last {
                Some((last, _)) if goes_on => *last == key,
                Some((last, _)) => *last < key,
                None => !goes_on,
            };
            if !follows {
                self.order(pointer, format!("key {number} does not follow the one before"));
            }
            self.found.keys += u64::from(!goes_on);
            let mut before = self.last.take().map(|(_, sequence)| sequence).filter(|_| goes_on);
            for record in layout.records_of(bytes, number).map_err(bad)? {
                let record = record_of(&layout, bytes, record, pointer, self.nodes.page_size)?;
                if before.is_some_and(|before| before <= record.sequence) {
                    self.order(
                        pointer,
                        format!("the records of key {number} are not newest first"),
                    );
                }
                before = Some(record.sequence);
                sums.records += 1;
                sums.tombstones += u64::from(record.kind == Kind::Delete);
                self.note(&record, &key, sums)?;
            }
            self.last = Some((key, before.unwrap_or(0)));
        }
        Ok(())
    }

    /// Counts a record, and reads its value where that is elsewhere.
    fn note(&mut self, record: &super::Record<'_>, key: &[u8], sums: &mut index::Sums) -> Result<(), Error> {
        let found = &mut self.found;
        found.lowest_sequence = match found.records {
            0 => record.sequence,
            _ => found.lowest_sequence.min(record.sequence),
        };
        found.highest_sequence = found.highest_sequence.max(record.sequence);
        found.records += 1;
        found.tombstones += u64::from(record.kind == Kind::Delete);
        found.merges += u64::from(record.kind == Kind::Merge);
        found.value_bytes += record.value.len() as u64;
        if record.expires_ms != 0 {
            let earliest = found.earliest_expiry_ms;
            found.earliest_expiry_ms = match earliest {
                0 => record.expires_ms,
                earliest => earliest.min(record.expires_ms),
            };
        }
        let Value::Separate(pointer) = record.value else {
            return Ok(());
        };
        found.separate += 1;
        sums.bytes += u64::from(pointer.len);
        let page_size = self.nodes.page_size;
        if pointer.is_long(page_size) {
            for node in value::nodes_of(&self.nodes, &pointer)? {
                self.spans.add(&node, key, key, node.read_len() as u64);
            }
        } else {
            self.spans.add(&pointer.node, key, key, pointer.share(page_size));
        }
        let mut bytes = Vec::new();
        value::read_from(&self.nodes, &pointer, &mut bytes)
    }

    fn summary(&mut self) {
        let said = self.run.summary();
        let mut found = self.found;
        // What the leaves do not tell.
        (found.bytes, found.range_deletes) = (said.bytes, said.range_deletes);
        let deletes = self.run.range_deletes().distinct();
        if let (Some(&lowest), Some(&highest)) = (deletes.first(), deletes.last()) {
            let none = found.records == 0;
            found.lowest_sequence = if none {
                lowest
            } else {
                found.lowest_sequence.min(lowest)
            };
            found.highest_sequence = found.highest_sequence.max(highest);
        }
        found.range_deletes = deletes.len() as u64;
        if *said != found {
            self.violations.push(Violation::Summary {
                what: format!("{said:?} is said, {found:?} found"),
            });
        }
        if let Some((last, _)) = &self.last
            && **last != *self.run.inner.last
        {
            self.violations.push(Violation::Summary {
                what: "the last key".to_owned(),
            });
        }
    }

    fn extents(&mut self) {
        let mut wrong = Vec::new();
        for used in self.run.extents() {
            let Some(found) = self.spans.take(used.extent, used.inherited) else {
                wrong.push(format!("{} holds nothing of the run", used.extent));
                continue;
            };
            if found.low < used.low || found.high > used.high {
                let keys = [&found.low, &found.high].map(|key| key.escape_ascii().to_string());
                wrong.push(format!(
                    "{} is needed from {} to {}",
                    used.extent, keys[0], keys[1]
                ));
            }
            if found.live != used.live {
                wrong.push(format!(
                    "{}: {} live bytes are said, {} found",
                    used.extent, used.live, found.live
                ));
            }
        }
        if let Some((tier, unit)) = self.spans.left_over() {
            wrong.push(format!("unit {unit} of tier {tier} is needed and not listed"));
        }
        let wrong = wrong.into_iter().map(|what| Violation::Extents { what });
        self.violations.extend(wrong);
    }
}
