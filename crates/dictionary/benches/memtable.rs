//! Speed of the memtable: puts and gets of 24-byte keys and 100-byte values, with one thread and
//! with two.
//!
//! Prints medians of three. Without `--bench` (under `cargo test`) it runs on a small input.

use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::memtable::Memtable;
use std::hint::black_box;
use std::time::Instant;

const VALUE: [u8; 100] = [7; 100];

fn key(number: u64) -> [u8; 24] {
    let hashed = number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut key = *b"user0000000000000000....";
    let digits = format!("{hashed:020}");
    key[4..].copy_from_slice(digits.as_bytes());
    key
}

/// Returns the operations per second of `threads` threads that each run `work` on their share of
/// `0..count`.
fn rate(threads: u64, count: u64, work: impl Fn(u64) + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || {
                (0..count)
                    .filter(|number| number % threads == thread)
                    .for_each(work);
            });
        }
    });
    count as f64 / start.elapsed().as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let limit = if full { 64 << 20 } else { 1 << 20 };
    let count = limit as u64 / 200;
    let keys: Vec<[u8; 24]> = (0..count).map(key).collect();
    println!(
        "memtable of {} MiB, {count} records of 124 bytes, median of three (M/s)",
        limit >> 20
    );
    for threads in [1, 2] {
        let (mut puts, mut gets) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let memtable = Memtable::new(limit);
            puts.push(rate(threads, count, |number| {
                memtable
                    .insert(&keys[number as usize], Message::put(number + 1, &VALUE))
                    .expect("there is room");
            }));
            gets.push(rate(threads, count, |number| {
                let at = (number.wrapping_mul(7919) % count) as usize;
                black_box(
                    memtable
                        .get(LookupKey::new(&keys[at]), MAX_SEQUENCE)
                        .next()
                        .expect("the key is there"),
                );
            }));
        }
        println!(
            "{threads} thread(s): put {:.2}  get {:.2}",
            median(puts) / 1e6,
            median(gets) / 1e6
        );
    }
}
