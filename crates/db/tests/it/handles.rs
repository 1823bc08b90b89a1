//! Handle features other than reads and writes: open modes, error kinds, stores in memory,
//! asynchronous writes, first and last keys.

use alluvium::{Db, Durability, Error, ErrorKind, KeyspaceOptions, OpenMode, Options, WriteBatch};
use alluvium_device::file::FileDirectory;
use alluvium_device::{Directory as _, FileOptions};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};

fn small() -> Options {
    Options::new().memory(16 << 20)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_mode_says_whether_a_store_must_be_there() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let in_mode = |mode| {
        small()
            .mode(mode)
            .open(&path)
            .map(drop)
            .map_err(|error| error.kind())
    };
    assert_eq!(in_mode(OpenMode::Existing), Err(ErrorKind::NotFound));
    assert_eq!(in_mode(OpenMode::ReadOnly), Err(ErrorKind::NotFound));
    assert!(!path.exists(), "only reading makes nothing");
    assert_eq!(in_mode(OpenMode::New), Ok(()));
    assert_eq!(in_mode(OpenMode::New), Err(ErrorKind::AlreadyExists));
    assert_eq!(in_mode(OpenMode::Existing), Ok(()));
    assert_eq!(in_mode(OpenMode::OpenOrCreate), Ok(()));
    let reader = small().mode(OpenMode::ReadOnly).open(&path).unwrap();
    assert_eq!(reader.keyspace("a").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(in_mode(OpenMode::Existing), Err(ErrorKind::Locked));
}

#[test]
fn errors_say_their_kind() {
    let db = small().in_memory().unwrap();
    let rivers = db.keyspace("rivers").unwrap();
    let kind = |result: Result<(), Error>| result.unwrap_err().kind();
    assert_eq!(kind(db.existing_keyspace("seas").map(drop)), ErrorKind::NotFound);
    assert_eq!(kind(db.open_snapshot("may").map(drop)), ErrorKind::NotFound);
    db.create_snapshot("may").unwrap();
    assert_eq!(
        kind(db.create_snapshot("may").map(drop)),
        ErrorKind::AlreadyExists
    );
    assert_eq!(kind(rivers.merge("a", "b")), ErrorKind::InvalidArgument);
    let long = vec![0; alluvium::MAX_KEY + 1];
    assert_eq!(kind(rivers.put(&long, "")), ErrorKind::InvalidArgument);
    let sums = KeyspaceOptions::new().merge_operator("add");
    let sums = db.keyspace_with("sums", &sums).unwrap();
    sums.put("a", "no number").unwrap();
    sums.merge("a", 1i64.to_le_bytes()).unwrap();
    assert_eq!(kind(sums.get("a").map(drop)), ErrorKind::BadValue);
    db.drop_keyspace("rivers").unwrap();
    assert_eq!(kind(rivers.put("a", "b")), ErrorKind::Dropped);
    let place = tempfile::tempdir().unwrap();
    let directory = FileDirectory::open(place.path()).unwrap();
    directory.create("notes", FileOptions::BUFFERED).unwrap();
    drop(directory);
    assert_eq!(kind(small().open(place.path()).map(drop)), ErrorKind::NotAStore);
    assert_eq!(
        kind(Options::new().memory(1).in_memory().map(drop)),
        ErrorKind::InvalidArgument
    );
    let other = db.clone();
    db.close().unwrap();
    assert_eq!(kind(sums.put("a", "b")), ErrorKind::Closed);
    assert_eq!(kind(other.check().map(drop)), ErrorKind::Closed);
}

#[test]
fn a_store_in_memory_works_like_any_other() {
    let db = small().in_memory().unwrap();
    let numbers = db.keyspace("numbers").unwrap();
    for number in 0..50_000u32 {
        numbers.put(number.to_be_bytes(), [number as u8; 200]).unwrap();
    }
    db.checkpoint().unwrap();
    db.compact().unwrap();
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    let mut expected = 0..50_000u32;
    for pair in numbers.iter() {
        let (key, value) = pair.unwrap();
        let number = expected.next().expect("no more than were put");
        assert_eq!(
            (&key[..], &value[..]),
            (&number.to_be_bytes()[..], &[number as u8; 200][..])
        );
    }
    assert_eq!(expected.next(), None);
    let place = tempfile::tempdir().unwrap();
    db.checkpoint_to(place.path().join("copy")).unwrap();
    let copy = small().open(place.path().join("copy")).unwrap();
    let last = copy.keyspace("numbers").unwrap().last().unwrap().unwrap();
    assert_eq!(last.0, 49_999u32.to_be_bytes());
}

#[test]
fn first_last_keys_and_values_are_those_of_the_walk() {
    let db = small().in_memory().unwrap();
    let (before, between, behind) = (
        db.keyspace("a").unwrap(),
        db.keyspace("b").unwrap(),
        db.keyspace("c").unwrap(),
    );
    before.put("zz", "1").unwrap();
    behind.put("", "3").unwrap();
    assert!(between.first().unwrap().is_none() && between.last().unwrap().is_none());
    for key in ["m", "", "q", "qq"] {
        between.put(key, format!("of {key}")).unwrap();
    }
    between.delete("q").unwrap();
    let (key, value) = between.first().unwrap().unwrap();
    assert_eq!((&key[..], &value[..]), (&b""[..], &b"of "[..]));
    assert_eq!(between.last().unwrap().unwrap().0, b"qq");
    let keys: Vec<Vec<u8>> = between.keys().map(Result::unwrap).collect();
    assert_eq!(keys, [b"".to_vec(), b"m".to_vec(), b"qq".to_vec()]);
    let values: Vec<Vec<u8>> = between
        .values()
        .rev()
        .map(|value| value.unwrap().to_vec())
        .collect();
    assert_eq!(values, [b"of qq".to_vec(), b"of m".to_vec(), b"of ".to_vec()]);
    let mut both = between.keys();
    assert_eq!(both.next_back().unwrap().unwrap(), b"qq");
    assert_eq!(both.next().unwrap().unwrap(), b"");
    assert_eq!(both.next_back().unwrap().unwrap(), b"m");
    assert!(both.next().is_none() && both.next_back().is_none());
}

#[test]
fn of_many_takers_one_gets_the_value() {
    let db = small().in_memory().unwrap();
    let jobs = db.keyspace("jobs").unwrap();
    const JOBS: u32 = 2000;
    for job in 0..JOBS {
        jobs.put(job.to_be_bytes(), job.to_le_bytes()).unwrap();
    }
    let taken: Vec<u32> = thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut own = 0;
                    for job in 0..JOBS {
                        if let Some(value) = jobs.take(job.to_be_bytes()).unwrap() {
                            assert_eq!(&value[..], job.to_le_bytes());
                            own += 1;
                        }
                    }
                    own
                })
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).collect()
    });
    assert_eq!(taken.iter().sum::<u32>(), JOBS, "{taken:?}");
    assert!(jobs.first().unwrap().is_none());
}

#[test]
fn asynchronous_writes_share_syncs_and_are_durable_when_ready() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let db = small().durability(Durability::Disk).open(&path).unwrap();
    let numbers = db.keyspace("numbers").unwrap();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let syncs = || db.stats().log.syncs;
    let before = syncs();
    const WRITES: u32 = 3000;
    let mut open: Vec<_> = (0..WRITES)
        .map(|number| {
            Some(Box::pin(
                numbers.put_async(number.to_be_bytes(), number.to_string()),
            ))
        })
        .collect();
    while open.iter().any(Option::is_some) {
        for slot in &mut open {
            if let Some(write) = slot
                && let std::task::Poll::Ready(result) = write.as_mut().poll(&mut context)
            {
                result.unwrap();
                *slot = None;
            }
        }
        if open.iter().any(Option::is_some) {
            thread::park();
        }
    }
    let synced = syncs() - before;
    assert!(
        synced < u64::from(WRITES) / 4,
        "{synced} syncs for {WRITES} writes"
    );
    for number in 0..WRITES {
        let value = numbers.get(number.to_be_bytes()).unwrap().unwrap();
        assert_eq!(&value[..], number.to_string().as_bytes());
    }
}

#[test]
fn asynchronous_writes_fail_like_others_and_never_hang() {
    let db = small().in_memory().unwrap();
    let rivers = db.keyspace("rivers").unwrap();
    let long = vec![0; alluvium::MAX_KEY + 1];
    let refused = pollster::block_on(rivers.put_async(&long, ""));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let foreign = small().in_memory().unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&foreign.keyspace("a").unwrap(), "a", "b").unwrap();
    let refused = pollster::block_on(db.write_async(batch));
    assert!(matches!(refused, Err(Error::OtherStore)));
    db.drop_keyspace("rivers").unwrap();
    let refused = pollster::block_on(rivers.delete_async("a"));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Dropped);

    // Writes submitted before the store is closed are committed. Later ones fail.
    let seas = db.keyspace("seas").unwrap();
    let (first, late) = (seas.put_async("North", "1"), seas.put_async("Baltic", "2"));
    let mut first = pin!(first);
    assert!(
        first
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    db.close().unwrap();
    pollster::block_on(first).unwrap();
    assert_eq!(pollster::block_on(late).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_write_whose_future_is_the_last_handle_is_committed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let write = {
        let db: Db = small().open(&path).unwrap();
        db.keyspace("rivers").unwrap().put_async("Elbe", "1094 km")
    };
    pollster::block_on(write).unwrap();
    // Another thread closes the store.
    let db = loop {
        match small().open(&path) {
            Ok(db) => break db,
            Err(error) if error.kind() == ErrorKind::Locked => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(
        db.keyspace("rivers").unwrap().get("Elbe").unwrap().unwrap(),
        b"1094 km"
    );
}
