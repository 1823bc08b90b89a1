//! Kills a process and damages its log before the log is opened again. If the log is opened on the
//! same boot, the damage is detected. On another boot, it cannot be distinguished from the effects
//! of a power failure.

use super::super::*;
use super::{Replayed, reopen, small};
use alluvium_device::simulated::{Corruption, CrashSurvival, SimDirectory};
use alluvium_device::{BootId, FileOptions};

const RECORDS: u64 = 60;
/// Offset of the last record, which is the sixth in its segment.
const LAST_AT: u64 = 512 + 5 * 376;

/// Returns options with a single lane and nine records in a segment.
fn one_lane() -> LogOptions {
    LogOptions { lanes: 1, ..small() }
}

/// Returns a log whose process was killed before any sync.
fn killed() -> SimDirectory {
    let directory = SimDirectory::new(52);
    let shared: Arc<dyn Directory> = Arc::new(directory.clone());
    let log = WriteAheadLog::create(&shared, one_lane(), 1).unwrap();
    for sequence in 1..=RECORDS {
        log.append(sequence, 1, &[sequence as u8; 333], LogDurability::Process)
            .unwrap();
    }
    drop(log);
    directory
}

fn open(image: &SimDirectory) -> Result<(WriteAheadLog, Replayed)> {
    let shared: Arc<dyn Directory> = Arc::new(image.reopen());
    reopen(&shared, one_lane(), 0, 1)
}

/// Returns the file names of the segments that contain records, oldest first.
fn segments(directory: &SimDirectory) -> Vec<String> {
    let mut all = Vec::new();
    for name in directory.list().unwrap() {
        let Some(slot) = slot_of(&name) else { continue };
        let file = directory.open(&name, FileOptions::BUFFERED).unwrap();
        let block = file
            .read_at(0, format::BLOCK_BYTES, alluvium_base::Purpose::Other)
            .unwrap();
        if let format::DecodedHeader::Segment(header) = format::SegmentHeader::decode(&block) {
            assert_eq!(header.slot, slot);
            all.push((header.number, name));
        }
    }
    all.sort_unstable();
    all.into_iter().map(|(_, name)| name).collect()
}

/// Returns several kinds of damage, each with whether it removes everything after it in the
/// segment.
fn damages() -> Vec<(Corruption, bool)> {
    let mut all = vec![
        (Corruption::Remove, false),
        (Corruption::Truncate { len: 0 }, false),
        (Corruption::Truncate { len: 1024 }, false),
        (Corruption::Zero { range: 0..512 }, false),
        (Corruption::Zero { range: 512..4096 }, true),
    ];
    for offset in (0..4096).step_by(101) {
        all.push((Corruption::FlipBit { offset, bit: 3 }, offset >= LAST_AT));
    }
    all
}

#[test]
fn what_is_missing_before_sound_records_is_refused_by_its_boot_and_named_by_another() {
    let directory = killed();
    let all = segments(&directory);
    assert!(all.len() > 6, "{all:?}");
    let last = all.last().unwrap();
    let (mut refused, mut named) = (0, 0);
    for (name, (damage, to_the_end)) in all
        .iter()
        .flat_map(|name| damages().into_iter().map(move |d| (name, d)))
    {
        for boot in [directory.boot_id(), BootId([9; 16])] {
            let context = format!("{damage:?} of {name}, boot {boot:?}");
            let image = directory.image(CrashSurvival::All, 0);
            image.set_boot_id(boot);
            image.corrupt(name, &damage).unwrap();
            let (log, replayed) = match open(&image) {
                Ok(opened) => opened,
                Err(Error::Corrupt { .. }) => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("{context}: {error}"),
            };
            let found: Vec<u64> = replayed.iter().map(|(first, ..)| *first).collect();
            let prefix: Vec<u64> = (1..=log.completed()).collect();
            assert_eq!(found, prefix, "{context}");
            let is_all = log.completed() == RECORDS;
            match log.lost_tail() {
                None => assert!(is_all || name == last && to_the_end, "{context}: silent"),
                Some(lost) => {
                    assert!(!is_all && boot != directory.boot_id(), "{context}: {lost}");
                    assert_eq!(lost.last, log.completed(), "{context}");
                    let is_known = |written| log.completed() < written && written <= RECORDS;
                    assert!(lost.written.is_none_or(is_known), "{context}: {lost}");
                    named += 1;
                }
            }
            drop(log);
            // The loss is reported only once, because the log now ends where it was cut off.
            let (again, _) = open(&image).unwrap();
            assert_eq!(
                (again.lost_tail(), again.completed()),
                (None, prefix.len() as u64),
                "{context}"
            );
        }
    }
    assert!(refused > 200 && named > 200, "{refused} refused, {named} named");
}

#[test]
fn nothing_is_named_where_nothing_is_missing() {
    let directory = killed();
    for survival in [CrashSurvival::Process, CrashSurvival::All] {
        let image = directory.image(survival, 0);
        image.set_boot_id(BootId([9; 16]));
        for _ in 0..3 {
            let (log, replayed) = open(&image).unwrap();
            assert_eq!((log.lost_tail(), replayed.len() as u64), (None, RECORDS));
        }
    }
}
