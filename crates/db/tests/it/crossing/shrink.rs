//! Shortens a failing history by reducing the number of operations, then each operation, then the
//! keyspaces and the options that differ.
//!
//! Any failure counts, because a shorter history may fail in another way. The operations are
//! reduced by delta debugging (Zeller and Hildebrandt 2002).

use super::model::Rule;
use super::ops::{Operation, Read, Step, Write};
use super::plan::StorePlan;
use super::run::{Failure, run};
use super::variants::plainer as plainer_plans;
use alluvium::Durability;
use alluvium_sim::Coverage;

/// Maximum number of operations executed to shrink one failure.
const MOST_OPERATIONS: usize = 400_000;

/// A failing history.
#[derive(Clone, Debug)]
pub(crate) struct Failing {
    /// The stores that run the history one after the other. If there are several, the results of
    /// the last store differ.
    pub(crate) plans: Vec<StorePlan>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) failure: Failure,
}

struct Shrinker {
    best: Failing,
    rule: Rule,
    left: usize,
}

/// Shrinks a failing history. The result may fail in another way.
pub(crate) fn shrink(found: Failing, rule: Rule) -> Failing {
    let mut shrinker = Shrinker {
        best: found,
        rule,
        left: MOST_OPERATIONS,
    };
    shrinker.cut();
    loop {
        let before = shrinker.size();
        shrinker.leave_out_operations();
        shrinker.make_plain();
        shrinker.leave_out_parts();
        shrinker.leave_out_keyspaces();
        shrinker.leave_out_options();
        if shrinker.size() == before || shrinker.left == 0 {
            return shrinker.best;
        }
    }
}

/// Returns how many parts of an operation can be removed.
fn parts(operation: &Operation) -> usize {
    match operation {
        Operation::Batch(_, writes) => writes.len(),
        Operation::Transaction(transaction) => transaction.steps.len(),
        Operation::Ingest(_, records, _) => records.len(),
        Operation::Work(slices) => *slices as usize,
        _ => 1,
    }
}

/// Returns simpler operations that may have the same effect, the simplest first.
fn plainer(operation: &Operation) -> Vec<Operation> {
    // An operation that fills a memtable may matter only because the memtable is then flushed.
    let checkpoint = Operation::Checkpoint;
    match operation {
        Operation::Work(_) | Operation::Compact | Operation::BackUp | Operation::Ingest(..) => {
            vec![checkpoint]
        }
        Operation::Batch(_, writes) if writes.len() > 3 => vec![checkpoint],
        Operation::Read(Read::Walk(..) | Read::Keyspace(_)) => vec![Operation::Read(Read::All)],
        Operation::Transaction(transaction) => {
            let writes = transaction.steps.iter().filter_map(|step| match step {
                Step::Write(of, write) => Some((*of, *write)),
                _ => None,
            });
            let batch = Operation::Batch(Durability::Process, writes.collect());
            vec![Operation::Read(Read::All), checkpoint, batch]
        }
        _ => Vec::new(),
    }
}

/// Returns an operation without `count` of its parts from index `from`.
fn without(operation: &Operation, from: usize, count: usize) -> Operation {
    let mut shorter = operation.clone();
    match &mut shorter {
        Operation::Batch(_, writes) => drop(writes.drain(from..from + count)),
        Operation::Transaction(transaction) => drop(transaction.steps.drain(from..from + count)),
        Operation::Ingest(_, records, _) => drop(records.drain(from..from + count)),
        Operation::Work(slices) => *slices -= count as u32,
        _ => {}
    }
    shorter
}

impl Shrinker {
    fn size(&self) -> usize {
        let operations = &self.best.operations;
        let said = operations.len() + operations.iter().map(parts).sum::<usize>();
        said + self.best.plans[0].keyspaces.len() + self.differing_options()
    }

    /// Returns in how many options the last store differs from the first.
    fn differing_options(&self) -> usize {
        match &self.best.plans[..] {
            [plain, .., plan] => plainer_plans(plan, plain).len(),
            _ => 0,
        }
    }

    /// Removes the operations after the failure.
    fn cut(&mut self) {
        self.best.operations.truncate(self.best.failure.at + 1);
    }

    /// Runs a history and keeps it if it fails.
    fn tries(&mut self, plans: Vec<StorePlan>, operations: Vec<Operation>) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left = self.left.saturating_sub(operations.len() * plans.len());
        let Some(failure) = run(&plans, &operations, self.rule, &Coverage::new()) else {
            return false;
        };
        self.best = Failing {
            plans,
            operations,
            failure,
        };
        self.cut();
        true
    }

    fn leave_out_operations(&mut self) {
        let mut chunk = self.best.operations.len() / 2;
        while chunk > 0 {
            let mut at = 0;
            while at < self.best.operations.len() {
                let mut shorter = self.best.operations.clone();
                shorter.drain(at..(at + chunk).min(shorter.len()));
                if !self.tries(self.best.plans.clone(), shorter) {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }

    /// Replaces operations with simpler ones.
    fn make_plain(&mut self) {
        let mut at = 0;
        while let Some(operation) = self.best.operations.get(at) {
            for plainer in plainer(operation) {
                let mut operations = self.best.operations.clone();
                operations[at] = plainer;
                if self.tries(self.best.plans.clone(), operations) {
                    break;
                }
            }
            at += 1;
        }
    }

    fn leave_out_parts(&mut self) {
        let mut at = 0;
        while at < self.best.operations.len() {
            let mut chunk = parts(&self.best.operations[at]) / 2;
            while chunk > 0 && at < self.best.operations.len() {
                let mut from = 0;
                while from + chunk <= self.best.operations.get(at).map_or(0, parts) {
                    let mut shorter = self.best.operations.clone();
                    shorter[at] = without(&shorter[at], from, chunk);
                    if !self.tries(self.best.plans.clone(), shorter) {
                        from += chunk;
                    }
                }
                chunk /= 2;
            }
            self.shorten_values(at);
            at += 1;
        }
    }

    /// Shortens the values of a batch.
    fn shorten_values(&mut self, at: usize) {
        let Some(Operation::Batch(_, writes)) = self.best.operations.get(at) else {
            return;
        };
        for place in 0..writes.len() {
            let mut shorter = self.best.operations.clone();
            let Operation::Batch(_, writes) = &mut shorter[at] else {
                return;
            };
            let Some((_, Write::Put(_, bytes) | Write::PutFor(_, bytes, _) | Write::Merge(_, bytes))) =
                writes.get_mut(place)
            else {
                continue;
            };
            if bytes.0 > 1 {
                bytes.0 = 1;
                self.tries(self.best.plans.clone(), shorter);
            }
        }
    }

    /// Removes keyspaces that the failure does not need.
    fn leave_out_keyspaces(&mut self) {
        for number in (0..self.best.plans[0].keyspaces.len()).rev() {
            let (mut plans, mut operations) = (self.best.plans.clone(), self.best.operations.clone());
            plans.iter_mut().for_each(|plan| {
                plan.keyspaces.remove(number);
            });
            let mut is_needed = false;
            for operation in &mut operations {
                operation.visit_keyspaces(|keyspace| {
                    is_needed |= *keyspace == number;
                    *keyspace -= usize::from(*keyspace > number);
                });
            }
            if !is_needed {
                self.tries(plans, operations);
            }
        }
    }

    /// Replaces the options of the last store with those of the first, one at a time.
    fn leave_out_options(&mut self) {
        let [plain, .., _] = &self.best.plans[..] else {
            return;
        };
        let (plain, mut at) = (plain.clone(), 0);
        while let Some(plainer) = plainer_plans(&self.best.plans[self.best.plans.len() - 1], &plain).get(at) {
            let mut plans = self.best.plans.clone();
            *plans.last_mut().expect("there are two") = plainer.clone();
            // If the history still fails, the list is one shorter.
            if !self.tries(plans, self.best.operations.clone()) {
                at += 1;
            }
        }
    }
}
