//! Damages logs in many ways, both closed and unclosed ones. The damage must either be detected or
//! have no effect. It must never cause a wrong record to be returned, or a deleted one to reappear.

use super::super::format::{RecordHeader, SegmentHeader, record_len};
use super::super::*;
use super::story::{Crash, Model, Story, open_image};
use super::{Replayed, memory, reopen, small};
use alluvium_base::Purpose;
use alluvium_device::simulated::{Corruption, CrashSurvival, SimDirectory};
use alluvium_device::{AlignedBuffer, FileOptions};
use fastrand::Rng;
use proptest::prelude::*;

/// Runs a story of `steps` steps, and returns its log and model. `close` makes it close the log
/// cleanly.
fn lived(seed: u64, options: LogOptions, steps: usize, close: bool) -> (SimDirectory, Model) {
    let mut story = Story::new(seed, options);
    for _ in 0..steps {
        story.step().unwrap();
    }
    story.settle().unwrap();
    if close {
        story.log.take().unwrap().close().unwrap();
    } else {
        story.log().sync_all().unwrap();
        // The background step writes the synced watermark to the mark.
        while story.log().prepare().unwrap() == PrepareProgress::Worked {}
        story.log = None;
    }
    let mut model = story.model.lock().clone();
    model.synced = model.next - 1;
    (story.directory.clone(), model)
}

fn files(directory: &SimDirectory) -> Vec<(String, u64)> {
    let names = directory.list().unwrap();
    names
        .into_iter()
        .map(|name| {
            let len = directory.open(&name, FileOptions::BUFFERED).unwrap().len();
            (name, len)
        })
        .collect()
}

/// Returns whether the damage was detected. Panics if it was not, and the log differs from the
/// model.
fn found(image: &SimDirectory, options: LogOptions, model: &Model, intact: &Replayed, context: &str) -> bool {
    match open_image(image, options, model) {
        Ok((log, replayed)) => {
            assert!(
                replayed == *intact,
                "{context}: {} records of {}",
                replayed.len(),
                intact.len()
            );
            assert_eq!(log.completed(), model.next - 1, "{context}");
            false
        }
        Err(Error::Corrupt { place, .. }) => {
            assert!(place.file.starts_with("log-"), "{context}: {place}");
            true
        }
        Err(error) => panic!("{context}: {error}"),
    }
}

fn random_damage(rng: &mut Rng, files: &[(String, u64)]) -> (String, Corruption) {
    let (name, len) = files[rng.usize(..files.len())].clone();
    let at = rng.u64(..len);
    let until = (at + rng.u64(1..1200)).min(len);
    let block = |rng: &mut Rng| rng.u64(..len / 512) * 512;
    let corruption = match rng.u8(..9) {
        0..3 => Corruption::FlipBit {
            offset: at,
            bit: rng.u8(..8),
        },
        3 => Corruption::Zero { range: at..until },
        4 => {
            let from = block(rng);
            Corruption::Stale {
                range: from..(from + 512 * rng.u64(1..4)).min(len),
            }
        }
        5 => Corruption::Misdirect {
            from: block(rng),
            to: block(rng),
            len: 512,
        },
        6 => Corruption::Truncate { len: at },
        7 => Corruption::Remove,
        _ => Corruption::Swap {
            other: files[rng.usize(..files.len())].0.clone(),
        },
    };
    (name, corruption)
}

#[test]
fn damage_anywhere_in_a_closed_log_is_found_or_has_no_effect() {
    let mut counts = (0, 0);
    for seed in 0..6 {
        let access = [SegmentAccess::Mapped, SegmentAccess::Written][seed as usize % 2];
        let options = LogOptions { access, ..small() };
        let (directory, model) = lived(seed, options, 60, true);
        let (log, intact) = open_image(&directory.image(CrashSurvival::Process, 0), options, &model).unwrap();
        model.judge(Crash::Process, &intact, log.completed(), "intact");
        let mut rng = Rng::with_seed(seed);
        let files = files(&directory);
        for case in 0..250 {
            let survival = [CrashSurvival::Process, CrashSurvival::None][case % 2];
            let image = directory.image(survival, 0);
            let (name, corruption) = random_damage(&mut rng, &files);
            let context = format!("seed {seed} case {case} {survival:?}: {corruption:?} of {name}");
            if !image.corrupt(&name, &corruption).unwrap() {
                continue;
            }
            counts.0 += 1;
            if found(&image, options, &model, &intact, &context) {
                counts.1 += 1;
            }
        }
    }
    assert!(counts.0 > 1000 && counts.1 > 200, "{counts:?}");
}

#[test]
fn damage_below_the_synced_watermark_is_found_without_a_close_too() {
    for seed in 10..14 {
        let (directory, model) = lived(seed, small(), 60, false);
        let power = directory.image(CrashSurvival::All, 0);
        let (_, intact) = open_image(&power.image(CrashSurvival::All, 0), small(), &model).unwrap();
        let mut rng = Rng::with_seed(seed);
        let files = files(&directory);
        for case in 0..250 {
            let image = directory.image(CrashSurvival::All, case);
            let (name, corruption) = random_damage(&mut rng, &files);
            let context = format!("seed {seed} case {case}: {corruption:?} of {name}");
            if image.corrupt(&name, &corruption).unwrap() {
                // The damage may have hit the only record that contains the watermark. In that
                // case, records at the end of the log may be missing, but no others.
                if let Ok((log, replayed)) = open_image(&image, small(), &model) {
                    assert!(intact.starts_with(&replayed), "{context}");
                    let lost = model.next - 1 - log.completed();
                    assert!(lost == 0 || replayed.len() < intact.len(), "{context}");
                }
            }
        }
    }
}

#[test]
fn every_bit_of_a_small_closed_log_is_guarded() {
    let directory: Arc<dyn Directory> = memory();
    let options = LogOptions { lanes: 1, ..small() };
    let log = WriteAheadLog::create(&directory, options, 1).unwrap();
    let mut expected = Vec::new();
    for sequence in 1..=5u64 {
        let payload = vec![sequence as u8; 30 + sequence as usize];
        log.append(sequence, 1, &payload, LogDurability::Process).unwrap();
        expected.push((sequence, 1, payload));
    }
    log.close().unwrap();
    let original = read_all(&directory);
    let end = 512 + 5 * 80 + 200;
    let mut found = 0;
    for bit in 0..end * 8 {
        let copy = memory();
        let mut damaged = original.clone();
        damaged[0].1[bit / 8] ^= 1 << (bit % 8);
        write_all(&copy, &damaged);
        match reopen(&copy, options, 0, 1) {
            Ok((_, seen)) => assert_eq!(seen, expected, "bit {bit}"),
            Err(Error::Corrupt { .. } | Error::OlderGeneration { .. }) => found += 1,
            Err(error) => panic!("bit {bit}: {error}"),
        }
    }
    // Checksums must protect every bit of the header block, and of the headers and payloads of the
    // five records.
    let guarded: usize = 512
        + expected
            .iter()
            .map(|(_, _, payload)| 40 + payload.len())
            .sum::<usize>();
    assert!(found >= guarded * 8, "{found} of {}", guarded * 8);
}

fn read_all(directory: &Arc<dyn Directory>) -> Vec<(String, Vec<u8>)> {
    let names = directory.list().unwrap().into_iter();
    names
        .map(|name| {
            let file = directory.open(&name, FileOptions::BUFFERED).unwrap();
            let len = file.len() as usize;
            let bytes = if len == 0 {
                Vec::new()
            } else {
                file.read_at(0, len, Purpose::Other).unwrap().to_vec()
            };
            (name, bytes)
        })
        .collect()
}

fn write_all(directory: &Arc<dyn Directory>, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        let file = directory.create(name, FileOptions::BUFFERED).unwrap();
        if !bytes.is_empty() {
            let buffer = AlignedBuffer::padded(bytes);
            file.grow(buffer.len() as u64).unwrap();
            file.write_at(0, buffer, Purpose::Other).unwrap();
        }
    }
}

#[test]
fn a_segment_of_another_store_is_refused_by_name() {
    let (one, other) = (memory(), memory());
    for (directory, identity) in [(&one, 1), (&other, 2)] {
        let options = LogOptions { identity, ..small() };
        let log = WriteAheadLog::create(directory, options, 1).unwrap();
        log.append(1, 1, b"mine", LogDurability::Disk).unwrap();
        log.close().unwrap();
    }
    match reopen(
        &other,
        LogOptions {
            identity: 1,
            ..small()
        },
        0,
        1,
    ) {
        Err(error @ Error::Corrupt { .. }) => {
            assert!(error.to_string().contains("another store"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_format_is_named() {
    for version in [1, 3] {
        let directory = memory();
        WriteAheadLog::create(&directory, small(), 1)
            .unwrap()
            .close()
            .unwrap();
        let mut files = read_all(&directory);
        let (_, log) = files.iter_mut().find(|(name, _)| name == "log-0").unwrap();
        log[8] = version;
        let sum = alluvium_base::checksum(&log[..504]);
        log[504..512].copy_from_slice(&sum.to_le_bytes());
        let copy = memory();
        write_all(&copy, &files);
        match reopen(&copy, small(), 0, 1) {
            Err(Error::OlderFormat { found: 1, .. }) => assert_eq!(version, 1),
            Err(Error::NewerFormat { found: 3, .. }) => assert_eq!(version, 3),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_log_without_files_is_damaged_and_can_be_repaired() {
    let directory = memory();
    assert!(matches!(
        reopen(&directory, small(), 0, 1),
        Err(Error::Corrupt { .. })
    ));
    let (log, report) = WriteAheadLog::repair(&directory, small(), 0, 1, &mut |_| Ok(())).unwrap();
    assert_eq!(report.replayed_records, 0);
    log.append(1, 1, b"again", LogDurability::Disk).unwrap();
    drop(log);
    assert_eq!(reopen(&directory, small(), 0, 1).unwrap().1.len(), 1);
}

#[test]
fn a_repair_replays_everything_that_is_sound_and_says_what_is_not() {
    let (directory, model) = lived(77, small(), 60, true);
    let (_, intact) = open_image(&directory.image(CrashSurvival::Process, 0), small(), &model).unwrap();
    let mut rng = Rng::with_seed(77);
    let files = files(&directory);
    for case in 0..150 {
        let image = directory.image(CrashSurvival::None, 0);
        let (name, corruption) = random_damage(&mut rng, &files);
        let context = format!("case {case}: {corruption:?} of {name}");
        if !image.corrupt(&name, &corruption).unwrap() {
            continue;
        }
        let damaged = open_image(&image.image(CrashSurvival::All, 0), small(), &model).is_err();
        let shared: Arc<dyn Directory> = Arc::new(image.clone());
        let mut seen = Replayed::new();
        let mut keep = |record: LogRecord<'_>| {
            seen.push((record.first, record.count, record.payload.to_vec()));
            Ok(())
        };
        let (log, report) =
            WriteAheadLog::repair(&shared, small(), model.from, model.generation, &mut keep).unwrap();
        let mut rest = intact.iter();
        assert!(
            seen.iter().all(|record| rest.any(|known| known == record)),
            "{context}: something else than what was appended, in order"
        );
        assert_eq!(report.replayed_records, seen.len() as u64);
        if damaged && log.completed() == model.next - 1 && seen.len() < intact.len() {
            assert!(!report.missing.is_empty(), "{context}: {report:?}");
        }
        // After the repair, the log must be valid and contain the replayed records.
        assert_eq!(log.check().unwrap(), [], "{context}");
        let next = log.completed() + 1;
        log.append(next, 1, b"after the repair", LogDurability::Disk)
            .unwrap();
        drop(log);
        let (_, again) = open_image(&image.image(CrashSurvival::None, 0), small(), &model)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(again[..again.len() - 1], seen[..], "{context}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_bytes_in_segments_make_anything_panic(
        seed: u64,
        files in proptest::collection::vec((0usize..5000, any::<bool>(), any::<bool>()), 0..4),
    ) {
        let mut rng = Rng::with_seed(seed);
        let directory = memory();
        let mut contents = Vec::new();
        for (slot, (len, header, sparse)) in files.into_iter().enumerate() {
            let mut bytes: Vec<u8> = (0..len).map(|_| if sparse { 0 } else { rng.u8(..) }).collect();
            if header && len >= 512 {
                let header = SegmentHeader {
                    slot: slot as u32,
                    number: rng.u64(..3),
                    incarnation: rng.u64(..3),
                    base: rng.u64(..3),
                    boot: directory.boot_id(),
                    generation: rng.u64(..2),
                    synced: rng.u64(..3),
                    len: [4096, u64::MAX, 0][rng.usize(..3)],
                    identity: 7,
                    lane: rng.u16(..),
                    mapped: rng.bool(),
                };
                bytes[..512].copy_from_slice(&header.encode());
                let mut at = 512;
                while at + 300 < len && rng.u8(..8) > 0 {
                    let payload = vec![1; rng.usize(..200)];
                    let kind = [RecordKind::Data, RecordKind::Void, RecordKind::Note][rng.usize(..3)];
                    let payload = if kind == RecordKind::Data { &payload[..] } else { &[] };
                    let record = RecordHeader {
                        len: payload.len() as u32,
                        count: if kind == RecordKind::Note { 0 } else { rng.u64(1..4) },
                        first: [rng.u64(..10), 1 << 61, u64::MAX - 3][rng.usize(..11).saturating_sub(8)],
                        synced: rng.u64(..3),
                        complete: 0,
                        kind,
                    };
                    bytes[at..at + 40].copy_from_slice(&record.encode(header.seed(), at as u64, payload));
                    bytes[at + 40..at + 40 + payload.len()].copy_from_slice(payload);
                    at += record_len(payload.len() as u64) as usize;
                }
            }
            contents.push((format!("log-{slot}"), bytes));
        }
        write_all(&directory, &contents);
        let known = check::LogExpectation { identity: 7, ..check::LogExpectation::default() };
        let _ = check::check(&directory, known);
        let copy = memory();
        write_all(&copy, &contents);
        let _ = WriteAheadLog::repair(&copy, small(), 0, 1, &mut |_| Ok(()));
        let _ = reopen(&directory, small(), 0, 1);
    }
}
