//! `Log::open` and `Log::repair` with arbitrary segments.
//!
//! Strategy: the input describes a few segments: the fields of each header, then its records,
//! sealed for their position so that they verify, with raw bytes in between. Most numbers represent
//! themselves; the highest represent numbers near the maximum possible value and near the maximum
//! of 64 bits. Valid records far above all others are excluded, because repair records the gap
//! between them, at a cost proportional to the gap. Invariants: no panic, no memory beyond what the
//! segments justify; replayed records ascend, do not overlap, and lie above the requested position;
//! opening again replays the same records; repair always leaves a log that opens.
#![no_main]

use alluvium_base::Purpose;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{AlignedBuffer, BootId, Directory, FileOptions};
use alluvium_storage::log::format::{BLOCK_BYTES, RecordHeader, RecordKind, SegmentHeader, record_len};
use alluvium_storage::log::{LogOptions, SegmentAccess, WriteAheadLog};
use alluvium_storage::{Error, IMPOSSIBLE, Result};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

const SEGMENT: usize = 4096;

const OPTIONS: LogOptions = LogOptions {
    starts_small: false,
    stored_bytes: 0,
    limit_bytes: 64 * 1024,
    segment_bytes: SEGMENT as u64,
    reserve_bytes: SEGMENT as u64,
    lanes: 2,
    access: SegmentAccess::Written,
    identity: 0,
};

/// Arguments of an opening: the position to replay from, the generation, and the position known to
/// be synced.
struct Start {
    from: u64,
    generation: u64,
    synced: u64,
}

type Records = Vec<(u64, u32, Vec<u8>)>;

fuzz_target!(|input: &[u8]| {
    let Some((start, segments)) = input.split_first_chunk::<4>() else {
        return;
    };
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let mut segments = segments;
    for slot in 0..u32::from(start[0] % 4) {
        write_segment(&*directory, slot, &mut segments);
    }
    let mut start = Start {
        from: possible(start[1]),
        generation: possible(start[2]),
        synced: possible(start[3]),
    };
    match open(&directory, &start) {
        Ok(records) => assert_eq!(open(&directory, &start).expect("it opened before"), records),
        Err(Error::NewerFormat { .. }) => {}
        Err(_) => {
            let mut records = Records::new();
            let repaired =
                WriteAheadLog::repair(&directory, OPTIONS, start.from, start.generation, &mut |record| {
                    records.push((record.first, record.count, record.payload.to_vec()));
                    Ok(())
                });
            let (log, report) = repaired.expect("repair takes whatever there is");
            check(&records, start.from);
            drop(log);
            start.generation = start.generation.max(report.named_generation);
            start.synced = 0;
            assert_eq!(open(&directory, &start).expect("it was repaired"), records);
        }
    }
});

fn open(directory: &Arc<dyn Directory>, start: &Start) -> Result<Records> {
    let mut records = Records::new();
    let log = WriteAheadLog::open(
        directory,
        OPTIONS,
        start.from,
        start.generation,
        start.synced,
        &mut |record| {
            records.push((record.first, record.count, record.payload.to_vec()));
            Ok(())
        },
    )?;
    check(&records, start.from);
    assert!(
        records
            .last()
            .is_none_or(|(first, count, _)| log.completed() >= first - 1 + u64::from(*count))
    );
    Ok(records)
}

fn check(records: &Records, from: u64) {
    let mut before = 0;
    for (first, count, _) in records {
        assert!(*first > before, "{first} behind {before}");
        before = first - 1 + u64::from(*count);
        assert!(before > from);
    }
}

/// Writes one segment, described by the next bytes of the input.
fn write_segment(directory: &dyn Directory, slot: u32, input: &mut &[u8]) {
    let Some((fields, rest)) = input.split_first_chunk::<10>() else {
        return;
    };
    *input = rest;
    let boot = if fields[0] & 1 == 0 {
        directory.boot_id()
    } else {
        BootId([fields[0]; 16])
    };
    let header = SegmentHeader {
        slot: if fields[0] & 2 == 0 {
            slot
        } else {
            fields[0].into()
        },
        number: wide(fields[1]),
        incarnation: wide(fields[2]),
        base: wide(fields[3]),
        boot,
        generation: wide(fields[4]),
        synced: wide(fields[5]),
        len: if fields[6] == 0 {
            SEGMENT as u64
        } else {
            wide(fields[6])
        },
        identity: u64::from(fields[7] == 255),
        lane: (fields[8] / 2).into(),
        mapped: fields[8] % 2 == 1,
    };
    let mut bytes = header.encode();
    assert_eq!(bytes.len(), BLOCK_BYTES);
    for _ in 0..fields[9] % 32 {
        write_record(&mut bytes, header.seed(), input);
    }
    bytes.resize(SEGMENT, 0);
    let file = directory
        .create(&format!("log-{slot}"), FileOptions::BUFFERED)
        .expect("memory");
    file.grow(SEGMENT as u64).expect("memory");
    file.write_at(0, AlignedBuffer::padded(&bytes), Purpose::Other)
        .expect("memory");
}

/// Appends one record, or a few raw bytes, described by the next bytes of the input.
fn write_record(out: &mut Vec<u8>, seed: u64, input: &mut &[u8]) {
    let Some((fields, rest)) = input.split_first_chunk::<5>() else {
        return;
    };
    let (payload, rest) = rest.split_at(rest.len().min(usize::from(fields[4] % 64)));
    *input = rest;
    if out.len() + record_len(payload.len() as u64) as usize > SEGMENT {
        return;
    }
    let kind = match fields[0] % 5 {
        0 => {
            out.extend(payload);
            out.resize(out.len().next_multiple_of(8), 0);
            return;
        }
        1 => RecordKind::Void,
        2 => RecordKind::Note,
        3 => RecordKind::Seal,
        _ => RecordKind::Data,
    };
    let (first, complete) = if kind.is_numbered() {
        let first = sequence(fields[1]);
        (first, first.saturating_sub(u64::from(fields[3])))
    } else {
        (wide(fields[1]), wide(fields[3]))
    };
    let header = RecordHeader {
        len: payload.len() as u32,
        count: fields[2].into(),
        first,
        synced: wide(fields[3]),
        complete,
        kind,
    };
    let position = out.len() as u64;
    out.extend(header.encode(seed, position, payload));
    out.extend(payload);
    out.resize((position + record_len(payload.len() as u64)) as usize, 0);
}

/// Maps a byte to 64 bits: the highest eight bytes map to the highest 64-bit numbers, and the eight
/// below them to numbers just above half of `IMPOSSIBLE`, so that sums with them stay valid.
fn wide(byte: u8) -> u64 {
    match byte {
        0..240 => byte.into(),
        240..248 => IMPOSSIBLE / 2 + u64::from(byte),
        248.. => u64::MAX - u64::from(255 - byte),
    }
}

/// Maps a byte to a number that a superblock can hold.
fn possible(byte: u8) -> u64 {
    wide(byte).min(IMPOSSIBLE / 2)
}

/// Maps a byte to the sequence number of a record.
fn sequence(byte: u8) -> u64 {
    if byte < 248 { byte.into() } else { wide(byte) }
}
