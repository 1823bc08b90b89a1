//! Statistics of the store.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{BackgroundLimits, Durability, Options, StatsMetricKind, StatsMetricUnit, WriteBatch};
use alluvium_device::memory::MemoryDirectory;
use std::collections::BTreeSet;
use std::sync::Arc;

#[test]
fn operations_are_counted_by_kind_and_a_sample_is_timed() {
    let options = Options::new().memory(16 << 20);
    let db = options.open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let keyspace = db.keyspace("numbers").unwrap();
    let before = db.stats().operations;
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let keyspace = &keyspace;
            scope.spawn(move || {
                for number in 0..5_000u32 {
                    let key = (number * 4 + thread).to_be_bytes();
                    keyspace.put(key, b"value").unwrap();
                    assert!(keyspace.get(key).unwrap().is_some());
                }
            });
        }
    });
    keyspace.delete("nothing").unwrap();
    keyspace.delete_range("x", Some(b"y")).unwrap();
    keyspace.multi_get(["a", "b", "c"]).unwrap();
    pollster::block_on(keyspace.get_async("a")).unwrap();
    pollster::block_on(keyspace.multi_get_async(["a", "b"])).unwrap();
    assert_eq!(keyspace.iter().take(10).count(), 10);
    let mut batch = WriteBatch::new().durability(Durability::Disk);
    batch.put(&keyspace, "a", "1").unwrap();
    batch.put(&keyspace, "b", "2").unwrap();
    db.write(&batch).unwrap();
    let stats = db.stats();
    let done = &stats.operations;
    assert_eq!(done.puts - before.puts, 20_002);
    assert_eq!((done.deletes, done.range_deletes, done.merges), (1, 1, 0));
    assert_eq!(done.commits - before.commits, 20_003);
    assert_eq!((done.gets, done.multi_gets, done.multi_get_keys), (20_001, 2, 5));
    assert_eq!((done.scans, done.scanned), (1, 10));
    let timed = (stats.latencies.get.timed, stats.latencies.commit.timed);
    assert!(
        (100..1000).contains(&timed.0) && (100..1000).contains(&timed.1),
        "{timed:?} were timed"
    );
    assert_eq!(stats.latencies.durable_commit.timed, 1, "every one of these is");
    assert!(stats.latencies.get.p50_ns <= stats.latencies.get.longest_ns);
}

#[test]
fn the_list_has_every_number_once_and_the_table_says_the_same() {
    let options = Options::new().memory(16 << 20);
    let db = options.open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let keyspace = db.keyspace("numbers").unwrap();
    let amplification = db.stats().read_amplification();
    assert_eq!(amplification, None, "nothing was read");
    for number in 0..50_000u32 {
        keyspace.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    db.checkpoint().unwrap();
    keyspace.get(7u32.to_be_bytes()).unwrap();
    let stats = db.stats();
    let list = stats.list();
    let names: BTreeSet<&str> = list.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names.len(), list.len());
    let of = |name: &str| {
        list.iter()
            .find(|figure| figure.name == name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(
        of("operations.puts").value,
        50_000.0 + 2.0,
        "the catalog's two among them"
    );
    assert_eq!(of("operations.puts").nature, StatsMetricKind::Counter);
    assert_eq!(
        of("device.incorporate.written_bytes").unit,
        StatsMetricUnit::Bytes
    );
    assert!(of("device.incorporate.written_bytes").value > 5e6);
    assert!((1.0..4.0).contains(&of("amplification.write").value));
    assert_eq!(of("work.checkpoints").value, stats.checkpoints as f64);
    assert_eq!(of("memory.budget").value, f64::from(16 << 20));
    let table = stats.to_string();
    for line in [
        "operations  ",
        "device.incorporate  ",
        "memory  ",
        "puts 50.0 k",
        "budget 16.0 MiB",
    ] {
        assert!(table.contains(line), "{line:?} is in\n{table}");
    }
}

#[cfg(feature = "metrics")]
#[test]
fn numbers_reach_whoever_collects_metrics() {
    use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString};
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    type Seen = Arc<Mutex<BTreeMap<String, f64>>>;
    struct Cell(String, Seen);
    struct Collector(Seen);

    impl CounterFn for Cell {
        fn increment(&self, _: u64) {}
        fn absolute(&self, value: u64) {
            self.1.lock().unwrap().insert(self.0.clone(), value as f64);
        }
    }
    impl metrics::GaugeFn for Cell {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, value: f64) {
            self.1.lock().unwrap().insert(self.0.clone(), value);
        }
    }
    impl Collector {
        fn cell(&self, key: &Key) -> Arc<Cell> {
            assert!(
                key.labels()
                    .any(|label| label.key() == "store" && label.value() == "rivers")
            );
            Arc::new(Cell(key.name().to_owned(), Arc::clone(&self.0)))
        }
    }
    impl Recorder for Collector {
        fn describe_counter(&self, _: KeyName, _: Option<metrics::Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<metrics::Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<metrics::Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.cell(key))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.cell(key))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    let db = Options::new().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    db.keyspace("rivers").unwrap().put("Elbe", "1094 km").unwrap();
    let seen = Seen::default();
    let stats = db.stats();
    metrics::with_local_recorder(&Collector(Arc::clone(&seen)), || stats.publish("rivers"));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), stats.list().len());
    assert_eq!(seen["alluvium.operations.puts"], stats.operations.puts as f64);
    assert_eq!(seen["alluvium.memory.budget"], stats.memory.budget as f64);
}

#[test]
fn compactions_keep_to_a_cap_until_writers_would_be_held_back() {
    let caps = BackgroundLimits::new().bytes_per_second(1 << 20).cpu_percent(50);
    let options = Options::new().memory(16 << 20).background(caps);
    let db = options.open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let keyspace = db.keyspace("numbers").unwrap();
    for number in 0..400_000u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        keyspace.put(key, [7; 100]).unwrap();
    }
    let stats = db.stats();
    assert!(
        stats.capped_us > 0 || stats.cap_yields > 0,
        "so much is moved that the cap is felt"
    );
    let key = 399_999u64.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    assert!(keyspace.get(key).unwrap().is_some(), "and it ends");
    let bad = Options::new().background(BackgroundLimits::new().cpu_percent(0));
    let refused = bad.open_in(Arc::new(MemoryDirectory::new()));
    assert!(matches!(
        refused,
        Err(alluvium::Error::BadOption {
            option: "background",
            ..
        })
    ));
}
