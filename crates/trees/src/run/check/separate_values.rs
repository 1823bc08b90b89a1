//! Checks separate values by reading each node that contains them. A damaged node is reported along
//! with the records whose values it contains.

use super::{MOST_SEEN, RunChecker};
use crate::run::{DamagedNode, NodeContents, RunViolation};
use alluvium_dictionary::nodes::DirectNodeReader;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::value_log::{self, ValuePointer};
use alluvium_storage::{Error, NodePointer};

impl RunChecker<'_> {
    /// Checks the separate values of a leaf. `apart` lists the pointer to each value and the index
    /// of its key.
    pub(super) fn values(
        &mut self,
        apart: &[(ValuePointer, usize)],
        key_of: impl Fn(usize) -> Result<Vec<u8>, Error>,
    ) -> Result<(), Error> {
        let page_size = self.nodes.page_size;
        let mut together = Vec::new();
        for (pointer, number) in apart {
            let key = key_of(*number)?;
            self.read.values_apart += 1;
            self.units.records += 1;
            if pointer.is_long(page_size) {
                for error in self.long_value(pointer, &key) {
                    self.damaged_values(&error, &pointer.node);
                }
                continue;
            }
            let share = pointer.share(page_size);
            self.spans.add(&pointer.node, &key, &key, share);
            self.units.add(&pointer.node, share);
            if self.seen.len() >= MOST_SEEN {
                self.seen.clear();
            }
            if self.seen.insert(pointer.node) {
                together.push(pointer.node);
            }
        }
        // An intact node contains all values that point into it, because decoding has compared each
        // pointer with the length of its node.
        for (node, error) in self.value_nodes(&together) {
            self.damaged_values(&error, &node);
        }
        if !self.damaged.is_empty() {
            for (pointer, number) in apart {
                self.note_damaged(&pointer.node, &key_of(*number)?);
            }
        }
        Ok(())
    }

    /// Reads nodes that contain values or parts of values. Returns the unreadable ones, each with
    /// its error.
    fn value_nodes(&mut self, pointers: &[NodePointer]) -> Vec<(NodePointer, Error)> {
        let mut wrong = Vec::new();
        self.files.nodes(pointers, &mut |number, node| {
            wrong.extend(node.err().map(|error| (pointers[number], error)));
        });
        pointers.iter().for_each(|pointer| self.read.values.add(pointer));
        wrong
    }

    /// Reports an unreadable value node or long value. The caller must then add the affected
    /// records with [`RunChecker::note_damaged`].
    fn damaged_values(&mut self, error: &Error, node: &NodePointer) {
        if matches!(error, Error::Corrupt { .. }) {
            let number = self.violations.len();
            self.damaged.entry(*node).or_default().push(number);
        }
        self.unreadable(error);
    }

    /// If `node`, which contains the value of the record with key `key`, is damaged, adds the
    /// record to the report.
    fn note_damaged(&mut self, node: &NodePointer, key: &[u8]) {
        for &number in self.damaged.get(node).into_iter().flatten() {
            let RunViolation::Unreadable { why, node: damaged } = &mut self.violations[number] else {
                continue;
            };
            let behind = [key, &[0]].concat();
            let (low, before) = match damaged {
                Some(damaged) => (&*damaged.range.low, damaged.records),
                None => (key, 0),
            };
            *damaged = Some(Box::new(DamagedNode {
                pointer: *node,
                holds: NodeContents::Values,
                range: KeyRange::new(low, Some(&behind)),
                high: key.into(),
                records: before + 1,
                why: why.clone(),
            }));
        }
    }

    /// Reads a value that consists of several nodes, a few at a time. Returns the errors of the
    /// unreadable ones.
    fn long_value(&mut self, pointer: &ValuePointer, key: &[u8]) -> Vec<Error> {
        let mut wrong = Vec::new();
        let nodes = DirectNodeReader { ..self.nodes };
        let walked = value_log::each_group(&nodes, pointer, &mut |group, holds| {
            for node in group {
                self.spans.add(node, key, key, node.read_len() as u64);
                self.units.add(node, node.read_len() as u64);
            }
            match holds {
                value_log::NodeContent::Value => {
                    let found = self.value_nodes(group).into_iter();
                    wrong.extend(found.map(|(_, error)| error));
                }
                // The nodes that these pointers refer to are read later in the same traversal.
                value_log::NodeContent::Pointers => group.iter().for_each(|node| self.read.values.add(node)),
            }
        });
        wrong.extend(walked.err());
        wrong
    }
}
