//! Tests of dictionaries of all variants: answers, crashes, faults, and proven costs.

mod costs;
mod crashes;
mod faults;
mod model;
mod theorems;

use super::*;
use alluvium_trees::paged::node::{MessageAction, UpdateOperator};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Updates append, and only the last 16 bytes are kept, so the order of updates matters.
#[derive(Debug)]
struct Append;

impl UpdateOperator for Append {
    fn combine(&self, older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
        let both = [older, younger].concat();
        into.extend_from_slice(&both[both.len().saturating_sub(16)..]);
    }
}

fn options(variant: AffineVariant, node_bytes: u32, fanout: u32, element_bytes: u32) -> AffineOptions {
    AffineOptions {
        node_bytes,
        fanout,
        element_bytes,
        leaf_block_bytes: None,
        variant,
        memory_bytes: 0,
    }
}

fn created(options: AffineOptions) -> AffineTree<MemorySpace> {
    AffineTree::create(MemorySpace::new(1 << 40), options, Arc::new(Append)).unwrap()
}

fn contents<S: NodeSpace>(tree: &AffineTree<S>) -> Model {
    let mut found = Model::new();
    tree.scan(b"", None, &mut |key, value| {
        let before = found.insert(key.to_vec(), value.to_vec());
        assert!(before.is_none(), "a key comes once");
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

#[track_caller]
fn sound<S: NodeSpace>(tree: &AffineTree<S>) -> AffineCheckReport {
    let checked = tree.check().unwrap();
    assert!(checked.violations.is_empty(), "{:#?}", checked.violations);
    checked
}

/// One change, drawn from a small set of keys.
fn change(random: &mut fastrand::Rng, keys: u32) -> (Vec<u8>, MessageAction, Vec<u8>) {
    let key = format!("{:06}", random.u32(0..keys)).into_bytes();
    let operand: Vec<u8> = (0..random.usize(0..12)).map(|_| random.u8(b'a'..=b'z')).collect();
    match random.u32(0..10) {
        0..6 => (key, MessageAction::Insert, operand),
        6..8 => (key, MessageAction::Update, operand),
        _ => (key, MessageAction::Delete, Vec::new()),
    }
}

fn change_model(model: &mut Model, (key, action, operand): &(Vec<u8>, MessageAction, Vec<u8>)) {
    match action {
        MessageAction::Insert => {
            model.insert(key.clone(), operand.clone());
        }
        MessageAction::Delete => {
            model.remove(key);
        }
        MessageAction::Update => {
            if let Some(value) = model.get_mut(key) {
                let mut both = Vec::new();
                Append.combine(value, operand, &mut both);
                *value = both;
            }
        }
    }
}

fn change_tree<S: NodeSpace>(
    tree: &mut AffineTree<S>,
    (key, action, operand): &(Vec<u8>, MessageAction, Vec<u8>),
) -> Result<()> {
    match action {
        MessageAction::Insert => tree.insert(key, operand),
        MessageAction::Update => tree.update(key, operand),
        MessageAction::Delete => tree.delete(key),
    }
}

/// The key and value of an element of `bytes` bytes in total.
fn element(number: u64, bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let key = format!("{number:016}").into_bytes();
    let value = vec![b'v'; bytes - 6 - key.len()];
    (key, value)
}
