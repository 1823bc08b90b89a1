//! Tests of the simulated machine, by subject. `legal` proves S1 and S2.

mod crash;
mod damage;
mod legal;
mod mapped;
mod requests;
mod time;

use super::{CompletionOrder, CrashSurvival, SimDirectory, SimOptions};
use crate::{AlignedBuffer, Device, Directory, FileOptions};
use alluvium_base::Purpose;
use std::sync::Arc;

/// Creates a directory whose requests complete when a thread waits.
fn shuffled(seed: u64) -> SimDirectory {
    SimDirectory::with(SimOptions {
        completion: CompletionOrder::Shuffled,
        ..SimOptions::new(seed)
    })
}

/// Creates a durable file of `len` zeros.
fn durable_file(directory: &SimDirectory, name: &str, len: u64, options: FileOptions) -> Arc<dyn Device> {
    let file = directory.create(name, options).expect("the name is new");
    file.grow(len).expect("there is room");
    file.sync(Purpose::Other).expect("no fault is planned");
    directory.sync().expect("no fault is planned");
    file
}

fn write(file: &Arc<dyn Device>, offset: u64, len: usize, byte: u8) {
    let buffer = AlignedBuffer::padded(&vec![byte; len]);
    file.write_at(offset, buffer, Purpose::Other)
        .expect("inside the file");
}

/// Returns the first byte of each sector of a file.
fn sectors(directory: &SimDirectory, name: &str) -> Vec<u8> {
    let file = directory
        .open(name, FileOptions::DIRECT)
        .expect("the file exists");
    if file.is_empty() {
        return Vec::new();
    }
    let bytes = file
        .read_at(0, file.len().next_multiple_of(512) as usize, Purpose::Other)
        .expect("inside the file");
    bytes.chunks(512).map(|sector| sector[0]).collect()
}

/// Returns many images of the current state.
fn images(
    directory: &SimDirectory,
    survival: CrashSurvival,
    count: u64,
) -> impl Iterator<Item = SimDirectory> {
    (0..count).map(move |seed| directory.image(survival, seed))
}
