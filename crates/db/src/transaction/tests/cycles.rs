//! The checker that searches for dependency cycles (Adya, *Weak Consistency*, 1999).
//!
//! The lists in a history determine the order of their versions. Each element identifies the
//! transaction that appended it, and each list is a prefix of all its later versions. The list that
//! a transaction has read therefore determines its dependencies, regardless of the commit order.
//! For a register, only the writer of the value that was read is known. Counter values reveal no
//! writers, so only the other checker examines them.
//!
//! ```text
//!   ww   the next element was appended by        wr   the last element that was seen
//!   rw   the first element that was not seen     rt   was committed before the other began
//! ```
//!
//! A history is serializable if it has no cycle. It satisfies snapshot isolation if each cycle
//! contains two consecutive `rw` edges (Fekete and others, *Making Snapshot Isolation
//! Serializable*, 2005).

use super::history::{COUNTERS, Committed, ELEMENT, History, LISTS, Op, REGISTERS};
use crate::options::Isolation;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A node of the graph. Low numbers are transactions, by their index in the history. Higher numbers
/// are the moments between commits.
type Node = usize;

#[derive(Debug, Default)]
struct Graph {
    /// For each node, the targets of all its edges other than `rw` edges.
    plain: Vec<BTreeSet<Node>>,
    /// For each node, the targets of its `rw` edges.
    anti: Vec<BTreeSet<Node>>,
}

fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.chunks(ELEMENT)
}

/// Describes each violation of the isolation level.
pub(super) fn check(history: &History, isolation: Isolation) -> Vec<String> {
    let mut found = Vec::new();
    let writers = writers(history);
    let orders = orders(history);
    let mut graph = Graph::of_time(history);
    for order in orders.values() {
        let by: Vec<Option<&Node>> = order.iter().map(|element| writers.get(&element[..])).collect();
        for pair in by.windows(2) {
            if let [Some(one), Some(next)] = pair
                && one != next
            {
                graph.plain[**one].insert(**next);
            }
        }
    }
    for (node, one) in history.committed.iter().enumerate() {
        for (key, seen) in seen_outside(one)
            .into_iter()
            .filter(|(key, _)| key[0] != COUNTERS)
        {
            if key[0] == REGISTERS {
                match writers.get(&seen[..]) {
                    Some(&writer) if writer != node => {
                        graph.plain[writer].insert(node);
                    }
                    None if !seen.is_empty() => found.push(format!("{}: aborted read of {key:?}", one.name)),
                    _ => {}
                }
                continue;
            }
            let order = orders.get(&key).map_or(&[][..], |order| &order[..]);
            let list: Vec<Vec<u8>> = elements(&seen).map(<[u8]>::to_vec).collect();
            if !order.starts_with(&list) {
                found.push(format!("{}: {key:?} was seen as {list:?} of {order:?}", one.name));
                continue;
            }
            if let Some(&writer) = list.last().and_then(|last| writers.get(last))
                && writer != node
            {
                graph.plain[writer].insert(node);
                let next = order.get(list.len()).and_then(|next| writers.get(next));
                if next == Some(&writer) {
                    found.push(format!("{}: intermediate read of {key:?}", one.name));
                }
            }
            if let Some(&next) = order.get(list.len()).and_then(|next| writers.get(next))
                && next != node
            {
                graph.anti[node].insert(next);
            }
        }
    }
    let circles = match isolation {
        Isolation::Serializable => graph.all(),
        Isolation::Snapshot => graph.without_neighbours(),
    };
    let names = |circle: Vec<Node>| {
        let own = circle.into_iter().filter_map(|node| history.committed.get(node));
        own.map(|one| one.name).collect::<Vec<_>>()
    };
    let circles = circles.into_iter().map(names);
    found.extend(circles.map(|circle| format!("a circle of {circle:?}")));
    found
}

/// Returns the transaction that wrote each list element and each register value.
fn writers(history: &History) -> HashMap<Vec<u8>, Node> {
    let mut writers = HashMap::new();
    for (node, one) in history.committed.iter().enumerate() {
        for op in &one.ops {
            let element = match op {
                Op::Append { element, .. } => Some(&element[..]),
                // Only the last element of a list is new. Earlier ones were written before.
                Op::Put { key, .. } | Op::Swap { key, .. } if key[0] == COUNTERS => None,
                Op::Put { value, .. }
                | Op::Swap {
                    done: true, value, ..
                } => elements(value).last(),
                _ => None,
            };
            writers.extend(element.map(|element| (element.to_vec(), node)));
        }
    }
    writers
}

/// Returns the elements of each list in the order in which they were appended, taken from the final
/// list.
fn orders(history: &History) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let lists = history.last.iter().filter(|(key, _)| key[0] == LISTS);
    let list = |(key, list): (&Vec<u8>, &Vec<u8>)| {
        let all = elements(list).map(<[u8]>::to_vec).collect();
        (key.clone(), all)
    };
    lists.map(list).collect()
}

/// Returns the values that a transaction read from keys that it had not written before.
fn seen_outside(one: &Committed) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut seen, mut ops) = (Vec::new(), &one.ops[..]);
    let mut own: Vec<&Op> = Vec::new();
    while let Some((op, rest)) = ops.split_first() {
        ops = rest;
        let is_own = |key: &[u8]| own.iter().any(|op| op.touches(key));
        match op {
            Op::Get { key, seen: value, .. } if !is_own(key) => {
                seen.push((key.clone(), value.clone().unwrap_or_default()));
            }
            Op::Walk {
                low,
                high,
                seen: pairs,
                has_ended,
                is_backward,
            } => {
                let last = pairs.last().map(|(key, _)| key);
                for name in b'a'..=b'z' {
                    let key = vec![low[0], name];
                    let is_within = key >= *low && key < *high;
                    let is_passed = last.is_some_and(|last| match is_backward {
                        false => key <= *last,
                        true => key >= *last,
                    });
                    if !is_within || is_own(&key) || !(*has_ended || is_passed) {
                        continue;
                    }
                    let found = pairs.iter().find(|(other, _)| *other == key);
                    let value = found.map(|(_, value)| value.clone()).unwrap_or_default();
                    seen.push((key, value));
                }
            }
            op if op.is_write() => own.push(op),
            _ => {}
        }
    }
    seen
}

impl Graph {
    /// Returns a graph with the real-time edges. The edges form a chain of moments, and
    /// transactions begin and end between two moments.
    fn of_time(history: &History) -> Graph {
        let count = history.committed.len();
        let moment = |at: usize| count + at;
        let mut graph = Graph::default();
        graph.plain.resize_with(2 * count + 2, BTreeSet::new);
        graph.anti.resize_with(2 * count + 2, BTreeSet::new);
        for at in 0..count {
            graph.plain[moment(at)].insert(moment(at + 1));
        }
        for (node, one) in history.committed.iter().enumerate() {
            graph.plain[moment(one.began)].insert(node);
            graph.plain[node].insert(moment(one.ended));
        }
        graph
    }

    /// Returns the cycles in the graph of all edges.
    fn all(&self) -> Vec<Vec<Node>> {
        let next = |node: Node| self.plain[node].union(&self.anti[node]).copied().collect();
        circles(self.plain.len(), &next)
    }

    /// Returns the cycles without two consecutive `rw` edges.
    fn without_neighbours(&self) -> Vec<Vec<Node>> {
        // Combine each `rw` edge with the plain edge that follows it, so that `rw` edges cannot be
        // consecutive.
        let next = |node: Node| {
            let two = self.anti[node].iter().flat_map(|&middle| &self.plain[middle]);
            self.plain[node].iter().chain(two).copied().collect()
        };
        circles(self.plain.len(), &next)
    }
}

/// Returns the strongly connected components that contain a cycle, found by a non-recursive version
/// of Tarjan's algorithm (1972).
fn circles(count: usize, next: &dyn Fn(Node) -> Vec<Node>) -> Vec<Vec<Node>> {
    const NEW: usize = usize::MAX;
    let (mut index, mut low) = (vec![NEW; count], vec![0; count]);
    let (mut on_stack, mut stack, mut found) = (vec![false; count], Vec::new(), Vec::new());
    // Whether a node has an edge to itself, which combining edges can produce.
    let mut is_circle = vec![false; count];
    let mut counter = 0;
    for root in 0..count {
        if index[root] != NEW {
            continue;
        }
        let mut work: Vec<(Node, Vec<Node>)> = Vec::new();
        let mut enter = Some(root);
        loop {
            if let Some(node) = enter.take() {
                (index[node], low[node]) = (counter, counter);
                counter += 1;
                stack.push(node);
                on_stack[node] = true;
                work.push((node, next(node)));
            }
            let Some((node, edges)) = work.last_mut() else {
                break;
            };
            let node = *node;
            if let Some(to) = edges.pop() {
                is_circle[node] |= to == node;
                if index[to] == NEW {
                    enter = Some(to);
                } else if on_stack[to] {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            work.pop();
            if let Some((parent, _)) = work.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == index[node] {
                let mut component = Vec::new();
                while let Some(member) = stack.pop() {
                    on_stack[member] = false;
                    component.push(member);
                    if member == node {
                        break;
                    }
                }
                if component.len() > 1 || is_circle[node] {
                    found.push(component);
                }
            }
        }
    }
    found
}
