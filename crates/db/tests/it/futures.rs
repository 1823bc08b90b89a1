//! Futures in adverse conditions: dropped, woken by the store's threads, completed with errors.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Durability, ErrorKind, Options, WriteBatch};
use alluvium_device::DeviceOperation;
use alluvium_device::simulated::{CrashSurvival, InjectedFault, SimDirectory};
use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

fn small() -> Options {
    Options::new().memory(16 << 20)
}

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task whose executor has ended by the time it is woken, so that the waker holds the last
/// reference to it.
struct Task {
    future: Mutex<Option<Job>>,
    /// Receives a message when all other references to the task have been dropped.
    is_alone: Mutex<Receiver<()>>,
    /// Sends a message when the task has been woken and dropped.
    woken: Mutex<Option<Sender<()>>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.is_alone.lock().unwrap().recv().unwrap();
        let woken = self.woken.lock().unwrap().take();
        drop(self);
        if let Some(woken) = woken {
            woken.send(()).unwrap();
        }
    }
}

/// Polls a future once and drops it when it is woken. Returns whether it was pending.
fn poll_and_leave(future: Job) -> bool {
    let ((alone, is_alone), (woken, was_woken)) = (channel(), channel());
    let task = Arc::new(Task {
        future: Mutex::new(Some(future)),
        is_alone: Mutex::new(is_alone),
        woken: Mutex::new(Some(woken)),
    });
    let waker = Waker::from(Arc::clone(&task));
    let polled = task
        .future
        .lock()
        .unwrap()
        .as_mut()
        .expect("it was just made")
        .as_mut()
        .poll(&mut Context::from_waker(&waker));
    drop((task, waker));
    if polled.is_ready() {
        return false;
    }
    alone.send(()).unwrap();
    was_woken.recv().unwrap();
    true
}

/// Creates a store of 20,000 records. After it is reopened, none of them is in memory.
fn fill_with_numbers(path: &std::path::Path) {
    let db = small().open(path).unwrap();
    let numbers = db.keyspace("numbers").unwrap();
    for number in 0..20_000u32 {
        numbers.put(number.to_be_bytes(), [7; 200]).unwrap();
    }
    drop(numbers);
    db.close().unwrap();
}

/// Opens a store that another thread may still be closing.
fn open_again(path: &std::path::Path) -> Db {
    for _ in 0..3000 {
        match small().open(path) {
            Ok(db) => return db,
            Err(error) if error.kind() == ErrorKind::Locked => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the store was not closed");
}

#[test]
fn a_store_whose_last_handle_is_dropped_where_a_write_is_told_is_closed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let db = small().open(&path).unwrap();
    let rivers = db.keyspace("rivers").unwrap();
    let was_pending = poll_and_leave(Box::pin(async move {
        rivers.put_async("Elbe", "1094 km").await.unwrap();
        drop(db);
    }));
    assert!(was_pending);
    let db = open_again(&path);
    let rivers = db.keyspace("rivers").unwrap();
    assert_eq!(rivers.get("Elbe").unwrap().unwrap(), b"1094 km");
}

#[test]
fn a_store_whose_last_handle_is_dropped_where_a_read_is_told_is_closed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    fill_with_numbers(&path);
    let db = small().open(&path).unwrap();
    let numbers = db.keyspace("numbers").unwrap();
    let was_pending = poll_and_leave(Box::pin(async move {
        for number in 0..20_000u32 {
            numbers.get_async(number.to_be_bytes()).await.unwrap();
        }
        drop(db);
    }));
    assert!(was_pending, "nothing was in memory");
    let db = open_again(&path);
    assert_eq!(db.keyspace("numbers").unwrap().iter().count(), 20_000);
}

/// A waker that panics.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("injected by a test");
    }
}

#[test]
fn a_waker_that_panics_takes_no_other_task_with_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    fill_with_numbers(&path);
    let db = small().open(&path).unwrap();
    let numbers = db.keyspace("numbers").unwrap();
    let panics = Waker::from(Arc::new(Panics));
    let mut context = Context::from_waker(&panics);
    for round in 0..20u32 {
        let mut read = pin!(numbers.get_async((round * 1000).to_be_bytes()));
        let _ = read.as_mut().poll(&mut context);
        let mut write = pin!(numbers.put_async((100_000 + round).to_be_bytes(), "new"));
        assert!(write.as_mut().poll(&mut context).is_pending());
        let neighbour = (round * 1000 + 1).to_be_bytes();
        assert!(
            pollster::block_on(numbers.get_async(neighbour))
                .unwrap()
                .is_some()
        );
        pollster::block_on(numbers.put_async((200_000 + round).to_be_bytes(), "new")).unwrap();
        // The result also reaches the task of the other waker.
        pollster::block_on(write).unwrap();
    }
    drop(numbers);
    db.close().unwrap();
}

/// A store on a simulated device, without threads.
fn simulated(world: &SimDirectory, durability: Durability) -> Db {
    let options = small().workers(0).durability(durability);
    options.open_in(Arc::new(world.clone())).unwrap()
}

#[test]
fn what_was_acknowledged_to_a_future_survives_what_its_durability_says() {
    let mut random = fastrand::Rng::with_seed(26);
    let survivals = [
        (Durability::Memory, CrashSurvival::All),
        (Durability::Process, CrashSurvival::Process),
        (Durability::Disk, CrashSurvival::None),
    ];
    for (seed, (durability, survival)) in (1..).zip(survivals) {
        let world = SimDirectory::new(seed);
        let db = simulated(&world, Durability::Process);
        let rivers = db.keyspace("rivers").unwrap();
        for number in 0..60u32 {
            let mut batch = WriteBatch::new().durability(durability);
            batch
                .put(&rivers, number.to_be_bytes(), [number as u8; 40])
                .unwrap();
            if random.bool() {
                rivers.put("beside", number.to_be_bytes()).unwrap();
            }
            // Other futures are dropped before and after their first poll.
            let dropped = rivers.put_async("dropped", number.to_be_bytes());
            match random.bool() {
                true => drop(dropped),
                false => drop(pin!(dropped).poll(&mut Context::from_waker(Waker::noop()))),
            }
            pollster::block_on(db.write_async(batch)).unwrap();
            if number % 20 == 19 {
                db.checkpoint().unwrap();
            }
            if durability == Durability::Memory {
                continue;
            }
            let image = world.image(survival, u64::from(number));
            let after = simulated(&image, durability);
            let found = after.existing_keyspace("rivers").unwrap();
            for number in 0..=number {
                let value = found.get(number.to_be_bytes()).unwrap();
                assert_eq!(
                    value.as_deref(),
                    Some(&[number as u8; 40][..]),
                    "{durability:?}, {number}"
                );
            }
            assert_eq!(after.check().unwrap(), [""; 0]);
        }
    }
}

#[test]
fn futures_of_a_store_that_takes_no_writes_fail_as_calls_do() {
    let world = SimDirectory::new(9);
    let db = simulated(&world, Durability::Process);
    db.keyspace("rivers").unwrap().put("Elbe", "1094 km").unwrap();
    db.close().unwrap();
    let db = small().workers(0).open_read_only_in(Arc::new(world)).unwrap();
    let rivers = db.existing_keyspace("rivers").unwrap();
    let called = rivers.put("Oder", "840 km").unwrap_err().kind();
    let awaited = pollster::block_on(rivers.put_async("Oder", "840 km")).unwrap_err();
    assert_eq!(
        (called, awaited.kind()),
        (ErrorKind::ReadOnly, ErrorKind::ReadOnly)
    );
    let mut durable = WriteBatch::new().durability(Durability::Disk);
    durable.put(&rivers, "Oder", "840 km").unwrap();
    let awaited = pollster::block_on(db.write_async(durable)).unwrap_err();
    assert_eq!(awaited.kind(), ErrorKind::ReadOnly);
    assert!(pollster::block_on(rivers.get_async("Elbe")).unwrap().is_some());
}

#[test]
fn durable_writes_that_are_awaited_fail_as_those_that_are_waited_for() {
    let kinds = |is_awaited: bool| {
        let world = SimDirectory::new(1);
        let db = simulated(&world, Durability::Disk);
        let rivers = db.keyspace("rivers").unwrap();
        rivers.put("before", "1").unwrap();
        world.inject(InjectedFault::failing(DeviceOperation::Sync));
        let put = |key: &str| match is_awaited {
            true => pollster::block_on(rivers.put_async(key, "2")),
            false => rivers.put(key, "2"),
        };
        ["Elbe", "Oder", "Rhein"].map(|key| put(key).map_err(|error| error.kind()))
    };
    let awaited = kinds(true);
    assert!(awaited.iter().all(Result::is_err), "{awaited:?}");
    assert_eq!(awaited, kinds(false));
}

#[test]
fn awaited_writes_on_a_full_disk_say_so_and_go_on_when_there_is_space() {
    for durability in [Durability::Process, Durability::Disk] {
        let world = SimDirectory::new(4);
        let db = simulated(&world, durability);
        let rivers = db.keyspace("rivers").unwrap();
        pollster::block_on(rivers.put_async("kept", "1")).unwrap();
        world.set_capacity(world.used() + (1 << 20));
        let mut acknowledged = 0u32;
        let refused = loop {
            match pollster::block_on(rivers.put_async(acknowledged.to_be_bytes(), [7; 3000])) {
                Ok(()) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
        assert!(refused.is_full() && acknowledged > 0);
        pollster::block_on(rivers.delete_async("kept")).unwrap();
        world.set_capacity(u64::MAX);
        pollster::block_on(rivers.put_async("later", "1")).unwrap();
        let survival = match durability {
            Durability::Disk => CrashSurvival::None,
            _ => CrashSurvival::Process,
        };
        let after = simulated(&world.image(survival, 1), durability);
        let found = after.existing_keyspace("rivers").unwrap();
        assert!(!found.contains("kept").unwrap() && found.contains("later").unwrap());
        assert!((0..acknowledged).all(|number| found.contains(number.to_be_bytes()).unwrap()));
        assert_eq!(after.check().unwrap(), [""; 0]);
    }
}

/// A waker that notifies a thread.
struct Tells(Mutex<Sender<()>>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        // The receiver may have ended.
        let _ = self.0.lock().unwrap().send(());
    }
}

#[test]
fn a_future_that_goes_from_thread_to_thread_is_woken_where_it_was_polled_last() {
    let place = tempfile::tempdir().unwrap();
    fill_with_numbers(place.path());
    let db = small().open(place.path()).unwrap();
    let numbers = db.keyspace("numbers").unwrap();
    for round in 0..40u32 {
        let (read, written) = (numbers.clone(), numbers.clone());
        let jobs: [Job; 2] = [
            Box::pin(async move {
                let all = (0..10).map(|number| (number * 2000 + round).to_be_bytes());
                let found = read.multi_get_async(all).await.unwrap();
                assert!(found.iter().all(Option::is_some));
            }),
            Box::pin(async move {
                written
                    .put_async((100_000 + round).to_be_bytes(), "new")
                    .await
                    .unwrap();
            }),
        ];
        for job in jobs {
            let mut left = Some(job);
            while let Some(mut job) = left.take() {
                let hop = std::thread::spawn(move || {
                    let (send, woken) = channel();
                    let waker = Waker::from(Arc::new(Tells(Mutex::new(send))));
                    let mut context = Context::from_waker(&waker);
                    // The future was polled earlier with another waker, which is now unused.
                    if job
                        .as_mut()
                        .poll(&mut Context::from_waker(Waker::noop()))
                        .is_ready()
                    {
                        return None;
                    }
                    if job.as_mut().poll(&mut context).is_ready() {
                        return None;
                    }
                    woken.recv().expect("the waker is kept");
                    Some(job)
                });
                left = hop.join().unwrap();
            }
        }
        assert!(numbers.contains((100_000 + round).to_be_bytes()).unwrap());
    }
}

#[test]
fn a_write_whose_future_was_dropped_before_it_began_is_not_written() {
    // One write occupies the committing thread, because its waker does not return.
    let db = small().in_memory().unwrap();
    let rivers = db.keyspace("rivers").unwrap();
    let (go, wait) = channel();
    let (begun, has_begun) = channel();
    struct Blocks(Mutex<Receiver<()>>, Mutex<Sender<()>>);
    impl Wake for Blocks {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().send(()).unwrap();
            self.0.lock().unwrap().recv().unwrap();
        }
    }
    let blocks = Waker::from(Arc::new(Blocks(Mutex::new(wait), Mutex::new(begun))));
    let mut first = pin!(rivers.put_async("first", "1"));
    assert!(
        first
            .as_mut()
            .poll(&mut Context::from_waker(&blocks))
            .is_pending()
    );
    has_begun.recv().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    for number in 0..200u32 {
        let mut batch = WriteBatch::new();
        batch
            .put(&rivers, number.to_be_bytes(), vec![7; 1 << 20])
            .unwrap();
        let mut write = pin!(db.write_async(batch));
        assert!(write.as_mut().poll(&mut context).is_pending());
    }
    go.send(()).unwrap();
    pollster::block_on(first).unwrap();
    // A later write commits, but the dropped ones do not.
    pollster::block_on(rivers.put_async("last", "1")).unwrap();
    let keys: Vec<_> = rivers.keys().map(|key| key.unwrap()).collect();
    assert_eq!(keys, [b"first".to_vec(), b"last".to_vec()]);
}

#[test]
fn of_two_threads_that_close_a_store_neither_returns_before_it_is_closed() {
    for round in 0..20 {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("store");
        let db = small().open(&path).unwrap();
        let rivers = db.keyspace("rivers").unwrap();
        for number in 0..2000u32 {
            rivers.put(number.to_be_bytes(), [round; 100]).unwrap();
        }
        drop(rivers);
        let other = db.clone();
        std::thread::scope(|scope| {
            let closes = |db: Db| {
                let path = &path;
                move || {
                    db.close().unwrap();
                    match small().open(path) {
                        Ok(db) => db.close().unwrap(),
                        // The other thread may have reopened the store, which only an attempt to
                        // open it reveals.
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Locked),
                    }
                }
            };
            scope.spawn(closes(db));
            scope.spawn(closes(other));
        });
    }
}

#[test]
fn a_close_amid_awaited_reads_and_writes_leaves_none_hanging_and_loses_none_acknowledged() {
    for round in 0..8u32 {
        let place = tempfile::tempdir().unwrap();
        let db = small().open(place.path()).unwrap();
        let rivers = db.keyspace("rivers").unwrap();
        let acknowledged: Vec<u32> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4u32)
                .map(|writer| {
                    let rivers = rivers.clone();
                    scope.spawn(move || {
                        let mut done = Vec::new();
                        for number in (writer..).step_by(4) {
                            let key = number.to_be_bytes();
                            if let Err(error) = pollster::block_on(rivers.put_async(key, key)) {
                                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                                break;
                            }
                            done.push(number);
                            match pollster::block_on(rivers.get_async(key)) {
                                Ok(found) => assert_eq!(found.unwrap(), key[..]),
                                Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
                            }
                        }
                        done
                    })
                })
                .collect();
            // Wait until some writes have started.
            while db.sequence() < u64::from(20 + 100 * round) {
                std::thread::yield_now();
            }
            db.close().unwrap();
            let joined = writers.into_iter().map(|writer| writer.join().unwrap());
            joined.flatten().collect()
        });
        drop(rivers);
        let db = open_again(place.path());
        let rivers = db.keyspace("rivers").unwrap();
        for number in acknowledged {
            let key = number.to_be_bytes();
            assert_eq!(rivers.get(key).unwrap().expect("it was acknowledged"), key[..]);
        }
        assert_eq!(db.check().unwrap(), [""; 0]);
    }
}
