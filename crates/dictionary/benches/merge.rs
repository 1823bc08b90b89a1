//! Speed of merging: eight sorted sources of 24-byte keys and 100-byte values through `MergingIter`
//! and `MessageFolder`.
//!
//! Every tenth key is in two sources. The remaining records are copied to a buffer, as if to build
//! a leaf. Prints medians of five. Without `--bench` (under `cargo test`) it runs on a small input.

use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::merge::{
    FoldRule, MergeDirection, MergingIter, MessageFolder, OlderData, SortedSource,
};
use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

const KEY: usize = 24;
const RECORD: usize = KEY + 100;
const SOURCES: usize = 8;
const LEAF: usize = 64 << 10;

/// Contiguous records, like those in a run's leaves.
struct Records {
    bytes: Vec<u8>,
    newest: u64,
}

/// A position in the records.
struct Cursor<'a> {
    records: &'a Records,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn message(&self) -> Message<'a> {
        let sequence = self.records.newest + (self.at / RECORD) as u64;
        Message::put(sequence, &self.records.bytes[self.at + KEY..self.at + RECORD])
    }
}

impl SortedSource for Cursor<'_> {
    type Error = Infallible;

    fn key(&self) -> Option<&[u8]> {
        self.records.bytes.get(self.at..self.at + KEY)
    }

    fn advance(&mut self) -> Result<(), Infallible> {
        self.at += RECORD;
        Ok(())
    }
}

/// The shape of the keys.
#[derive(Clone, Copy)]
enum Shape {
    /// Random bytes.
    Random,
    /// A keyspace and a prefix that all keys share, then digits.
    Shared,
}

fn key(shape: Shape, random: &mut fastrand::Rng) -> [u8; KEY] {
    let mut key = [0; KEY];
    match shape {
        Shape::Random => random.fill(&mut key),
        Shape::Shared => {
            let text = format!("\0\0\0\x07user{:016}", random.u64(..10_000_000_000_000_000));
            key.copy_from_slice(text.as_bytes());
        }
    }
    key
}

fn sources(shape: Shape, each: usize) -> Vec<Records> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut keys: Vec<Vec<[u8; KEY]>> = Vec::new();
    for source in 0..SOURCES {
        let mut own: Vec<_> = (0..each).map(|_| key(shape, &mut random)).collect();
        if let Some(before) = keys.get(source.wrapping_sub(1)) {
            for at in (0..each).step_by(10) {
                own[at] = before[at];
            }
        }
        own.sort_unstable();
        own.dedup();
        keys.push(own);
    }
    let records = |(source, keys): (usize, Vec<[u8; KEY]>)| {
        let mut bytes = Vec::with_capacity(keys.len() * RECORD);
        for key in keys {
            bytes.extend_from_slice(&key);
            bytes.extend_from_slice(&[key[KEY - 1]; RECORD - KEY]);
        }
        let newest = ((SOURCES - source) * each * 2) as u64;
        Records { bytes, newest }
    };
    keys.into_iter().enumerate().map(records).collect()
}

/// Merges everything. Returns the number of input records.
fn merge(sources: &[Records], leaf: &mut Vec<u8>) -> u64 {
    let cursors = sources.iter().map(|records| Cursor { records, at: 0 }).collect();
    let mut merged = MergingIter::new(cursors, MergeDirection::Forward);
    let rule = FoldRule {
        horizon: MAX_SEQUENCE,
        readers: Default::default(),
        older: OlderData::Elsewhere,
        now_ms: 0,
    };
    let mut folder = MessageFolder::new(&rule, None);
    let (mut count, mut key, mut messages) = (0, Vec::new(), Vec::new());
    while let Some(winner) = merged.winner() {
        key.clear();
        key.extend_from_slice(merged.source(winner).key().expect("the winner has a key"));
        messages.clear();
        messages.push(merged.source(winner).message());
        let Ok(()) = merged.advance();
        while merged.repeats() {
            let winner = merged.winner().expect("there is a key");
            messages.push(merged.source(winner).message());
            let Ok(()) = merged.advance();
        }
        count += messages.len() as u64;
        folder.fold(
            messages.iter().copied(),
            |_| None,
            |kept| {
                if leaf.len() + RECORD > LEAF {
                    black_box(&*leaf);
                    leaf.clear();
                }
                leaf.extend_from_slice(&key);
                leaf.extend_from_slice(kept.operand);
            },
        );
    }
    count
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let each = if full { 150_000 } else { 500 };
    println!("{SOURCES} sources of {each} records of {RECORD} bytes, medians of five (M records/s)");
    for (name, shape) in [
        ("random keys", Shape::Random),
        ("keys that share 8 bytes", Shape::Shared),
    ] {
        let sources = sources(shape, each);
        let mut leaf = Vec::with_capacity(LEAF);
        let mut rates: Vec<f64> = (0..5)
            .map(|_| {
                let start = Instant::now();
                let count = merge(&sources, &mut leaf);
                count as f64 / start.elapsed().as_secs_f64() / 1e6
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        println!("{name:<24} {:>6.1}", rates[2]);
    }
}
