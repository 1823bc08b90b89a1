//! Tests of what it costs to keep several versions of keys: with snapshots, with range deletes, and
//! after values have expired.

use super::*;

/// Returns options for pages that can hold the versions of several dozen keys.
fn wide(kind: Sort) -> PagedOptions {
    PagedOptions {
        node_bytes: 4096,
        value_bytes: 60,
        buffer_bytes: 1 << 20,
        ..options(kind)
    }
}

fn incorporate(paged: &PagedDictionary, memtable: Memtable, cut: SequenceNumber) {
    let share = MemtableSlice::whole(Arc::new(memtable), cut);
    let mut taking = paged.incorporate(share, AllocationClass::Normal).unwrap();
    assert_eq!(taking.poll(usize::MAX).unwrap(), StepProgress::Done);
    taking.publish().unwrap();
}

pub(super) fn rewrite(paged: &PagedDictionary) {
    paged.compact_part(b"").unwrap();
    let mut step = paged.next_step().unwrap().expect("it was asked for");
    while step.poll(40).unwrap() == StepProgress::More {}
    assert!(paged.next_step().unwrap().is_none());
}

fn used(paged: &PagedDictionary) -> u64 {
    let counted = paged.statistics();
    counted.pages - counted.free
}

#[test]
fn versions_that_a_snapshot_keeps_share_pages_and_give_them_back() {
    const KEYS: u64 = 600;
    for kind in KINDS {
        let directory = Arc::new(MemoryDirectory::new());
        let mut paged = PagedDictionary::create(home(directory.clone()), wide(kind), 0).unwrap();
        let horizon = Arc::clone(&paged.shared.home.horizon);
        let key = |number: u64| format!("{number:08}").into_bytes();
        let mut sequence = 0;
        let round = |paged: &PagedDictionary, sequence: &mut SequenceNumber, byte: u8| {
            let memtable = Memtable::new(1 << 20);
            for number in 0..KEYS {
                *sequence += 1;
                let value = vec![byte; 50];
                memtable
                    .insert(&key(number), Message::put(*sequence, &value))
                    .unwrap();
            }
            incorporate(paged, memtable, *sequence);
        };
        round(&paged, &mut sequence, b'a');
        let (at, alone) = (sequence, used(&paged));
        for byte in b'b'..=b'h' {
            horizon.raise_past([at], sequence);
            round(&paged, &mut sequence, byte);
        }
        // The pages contain two versions of 60 bytes for each key, and messages that have not been
        // applied yet.
        assert!(used(&paged) < alone + KEYS / 4, "{} of {alone}", used(&paged));
        sound(&paged);
        checkpoint(&paged);
        drop(paged);
        paged = reopen(directory, kind).unwrap();
        for number in [0, 7, KEYS - 1] {
            assert_eq!(get(&paged, &key(number), at), Some(vec![b'a'; 50]));
            assert_eq!(get(&paged, &key(number), MAX_SEQUENCE), Some(vec![b'h'; 50]));
        }
        paged.shared.home.horizon.raise(sequence);
        rewrite(&paged);
        assert!(used(&paged) <= 2 * alone, "{} of {alone}", used(&paged));
        sound(&paged);
    }
}

#[test]
fn nested_range_deletes_are_one_message_for_each_reader() {
    let memtable = Memtable::new(1 << 20);
    let key = |number: u64| format!("{number:04}").into_bytes();
    let mut sequence = 10;
    for number in 0..500 {
        sequence += 1;
        memtable
            .delete_range(&key(number), &key(2000 - number), sequence)
            .unwrap();
    }
    let horizon = GcHorizon::default();
    horizon.raise_past([10, 100], sequence);
    let rule = horizon.rule(alluvium_dictionary::merge::OlderData::None);
    let messages = crate::map::newest_first(&memtable, &key(1000), &rule);
    let sequences: Vec<SequenceNumber> = messages.iter().map(|message| message.sequence).collect();
    assert_eq!(sequences, [sequence, 100], "the newest that each reader sees");
    // A reader that starts now may have to distinguish messages above the newest existing reader.
    let horizon = GcHorizon::default();
    horizon.raise_past([10, 100], sequence - 2);
    let rule = horizon.rule(alluvium_dictionary::merge::OlderData::None);
    let messages = crate::map::newest_first(&memtable, &key(1000), &rule);
    let sequences: Vec<SequenceNumber> = messages.iter().map(|message| message.sequence).collect();
    assert_eq!(sequences, [sequence, sequence - 1, sequence - 2, 100]);
}

#[test]
fn ranges_that_touch_or_overlap_are_read_once() {
    let range = |low: &[u8], high: Option<&[u8]>| KeyRange::new(low, high);
    let joined = apply::joined(vec![
        range(b"k", Some(b"m")),
        range(b"a", Some(b"c")),
        range(b"b", Some(b"bb")),
        range(b"c", Some(b"d")),
        range(b"x", None),
        range(b"y", Some(b"z")),
    ]);
    let wanted = [
        range(b"a", Some(b"d")),
        range(b"k", Some(b"m")),
        range(b"x", None),
    ];
    assert_eq!(joined, wanted);
}

#[test]
fn values_that_have_expired_are_taken_out_without_being_asked_for() {
    for kind in KINDS {
        let directory = Arc::new(MemoryDirectory::new());
        let mut paged = PagedDictionary::create(home(directory.clone()), options(kind), 0).unwrap();
        let everything = KeyRange::everything();
        let write = |paged: &PagedDictionary, numbers: std::ops::Range<u64>, expires_ms| {
            let memtable = Memtable::new(1 << 20);
            for number in numbers.clone() {
                let key = format!("{number:05}");
                let put = Message {
                    expires_ms,
                    ..Message::put(number, b"value")
                };
                memtable.insert(key.as_bytes(), put).unwrap();
            }
            incorporate(paged, memtable, numbers.end - 1);
            paged.shared.home.horizon.raise(numbers.end - 1);
        };
        let clear = |paged: &PagedDictionary| {
            while let Some(mut step) = paged.next_step().unwrap() {
                while step.poll(100).unwrap() == StepProgress::More {}
            }
        };
        write(&paged, 1..1000, 5000);
        write(&paged, 1000..1003, 0);
        paged.shared.home.horizon.tick(4000);
        assert!(paged.next_step().unwrap().is_none(), "nothing has expired");
        paged.shared.home.horizon.tick(9000);
        clear(&paged);
        assert_eq!(paged.approximate_len(&everything).unwrap(), 3);
        // Expired values that were written before the store was opened are counted by the scans
        // that skip them.
        write(&paged, 1003..2000, 20_000);
        checkpoint(&paged);
        drop(paged);
        paged = reopen(directory, kind).unwrap();
        paged.shared.home.horizon.raise(1999);
        paged.shared.home.horizon.tick(30_000);
        assert!(paged.next_step().unwrap().is_none(), "they are not known");
        let mut scan = paged.scan(
            no_memtables(),
            everything.clone(),
            MergeDirection::Backward,
            MAX_SEQUENCE,
            30_000,
        );
        assert_eq!(
            scan.next().unwrap().map(|(key, _)| key.to_vec()),
            Some(b"01002".to_vec())
        );
        clear(&paged);
        assert_eq!(paged.approximate_len(&everything).unwrap(), 3);
        sound(&paged);
    }
}
