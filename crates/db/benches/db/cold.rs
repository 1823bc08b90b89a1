//! Uniform reads of uncached data, compared with `fio` reading the same file in the same run. One
//! thread reads many keys at a time.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::{Sizes, cpu, key, mix, place, processor, value};
use alluvium::{Db, Keyspace, Options};
use alluvium_base::Purpose;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

const AT_ONCE: usize = 64;
const ROUNDS: usize = 3;

/// The result of a mode: its rate, and its processor time per get.
#[derive(Clone, Copy, Debug, Default)]
struct Figure {
    per_second: f64,
    cpu_us: f64,
    /// The calling thread's share of the processor time, in user mode and in the system.
    own_us: f64,
    system_us: f64,
    reads: f64,
}

/// Draws keys uniformly until the time is up.
#[derive(Clone)]
struct Draw {
    records: u64,
    next: u64,
    until: Instant,
    drawn: u64,
}

impl Draw {
    fn key(&mut self) -> Option<[u8; 24]> {
        if self.drawn.is_multiple_of(64) && Instant::now() >= self.until {
            return None;
        }
        self.drawn += 1;
        self.next += 1;
        Some(key(mix(self.next) % self.records))
    }
}

type Mode = fn(&Db, &Keyspace, &mut Draw);

fn one_by_one(_: &Db, keyspace: &Keyspace, draw: &mut Draw) {
    while let Some(key) = draw.key() {
        assert!(keyspace.get(key).unwrap().is_some());
    }
}

fn batches(_: &Db, keyspace: &Keyspace, draw: &mut Draw) {
    loop {
        let keys: Vec<_> = (0..AT_ONCE).map_while(|_| draw.key()).collect();
        if keys.is_empty() {
            return;
        }
        assert!(keyspace.multi_get(keys).unwrap().iter().all(Option::is_some));
    }
}

fn asynchronous_batches(_: &Db, keyspace: &Keyspace, draw: &mut Draw) {
    loop {
        let keys: Vec<_> = (0..AT_ONCE).map_while(|_| draw.key()).collect();
        if keys.is_empty() {
            return;
        }
        let found = pollster::block_on(keyspace.multi_get_async(keys)).unwrap();
        assert!(found.iter().all(Option::is_some));
    }
}

fn window(db: &Db, keyspace: &Keyspace, draw: &mut Draw) {
    let mut reads = db.reads();
    loop {
        while reads.len() < AT_ONCE
            && let Some(key) = draw.key()
        {
            reads.get(keyspace, key, ()).unwrap();
        }
        match reads.wait() {
            Some(((), found)) => assert!(found.unwrap().is_some()),
            None => return,
        }
        while let Some(((), found)) = reads.poll() {
            assert!(found.unwrap().is_some());
        }
    }
}

fn futures(_: &Db, keyspace: &Keyspace, draw: &mut Draw) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let shared = Rc::new(RefCell::new(draw.clone()));
    let tasks = tokio::task::LocalSet::new();
    for _ in 0..AT_ONCE {
        let (keyspace, draw) = (keyspace.clone(), Rc::clone(&shared));
        tasks.spawn_local(async move {
            loop {
                let Some(key) = draw.borrow_mut().key() else {
                    return;
                };
                assert!(keyspace.get_async(key).await.unwrap().is_some());
            }
        });
    }
    runtime.block_on(tasks);
    draw.clone_from(&shared.borrow());
}

/// The measured modes, and whether each is compared with whole batches.
const MODES: [(&str, Mode, bool); 5] = [
    ("one by one", one_by_one, false),
    ("multi_get of 64", batches, true),
    ("multi_get_async of 64", asynchronous_batches, true),
    ("a window of 64", window, false),
    ("64 tasks of tokio, one thread", futures, false),
];

/// Measures reads of a file with fio: reads per second, and processor time per read.
fn fio(path: &Path, seconds: u64, batched: &[&str]) -> Option<Figure> {
    let arguments = "--name=job --direct=1 --ioengine=io_uring --time_based --norandommap=1 --randrepeat=0 --rw=randread --bs=4k --iodepth=64 \
         --output-format=terse --terse-version=3";
    let output = Command::new("fio")
        .args(arguments.split_whitespace())
        .args(batched)
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--runtime={seconds}"))
        .output()
        .ok()?;
    // Fields of the documented terse format 3, counted from one: 8 is the read rate, 88 and 89 are
    // the percentages of user and system time.
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with("3;"))?;
    let fields: Vec<&str> = line.split(';').collect();
    let number = |field: usize| fields.get(field - 1)?.trim_end_matches('%').parse::<f64>().ok();
    let per_second = number(8)?;
    Some(Figure {
        per_second,
        cpu_us: (number(88)? + number(89)?) * 1e4 / per_second,
        reads: 1.0,
        ..Figure::default()
    })
}

/// Returns the largest file of a store, which is its data file.
fn data_file(path: &Path) -> PathBuf {
    let files = std::fs::read_dir(path).expect("the store's directory");
    let files = files.map(|file| file.expect("a file").path());
    files
        .max_by_key(|path| path.metadata().map_or(0, |data| data.len()))
        .expect("a store has files")
}

fn median(figures: &[Figure]) -> Figure {
    let middle = |pick: fn(&Figure) -> f64| {
        let mut values: Vec<f64> = figures.iter().map(pick).collect();
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Figure {
        per_second: middle(|figure| figure.per_second),
        cpu_us: middle(|figure| figure.cpu_us),
        own_us: middle(|figure| figure.own_us),
        system_us: middle(|figure| figure.system_us),
        reads: middle(|figure| figure.reads),
    }
}

/// Reads uniformly from eight times as much data as memory.
pub(crate) fn cold(sizes: &Sizes) {
    let place = place(sizes, &Options::new());
    let path = place.path();
    for index in 0..sizes.records {
        place.keyspace.put(key(index), value(index)).unwrap();
    }
    place.db.checkpoint().unwrap();
    // Finish compactions first, because they would read concurrently.
    while place.db.work().unwrap() {}
    let data = data_file(&path);
    let each = (sizes.seconds / 30.0).min(3.0);
    let whole = [
        "--iodepth_batch_submit=64",
        "--iodepth_batch_complete_min=64",
        "--iodepth_batch_complete_max=64",
    ];
    let (mut theirs, mut ours) = ([vec![], vec![]], [(); 5].map(|()| vec![]));
    let mut turn = 0;
    for _ in 0..ROUNDS {
        if sizes.seconds > 1.0 {
            let seconds = each.ceil() as u64;
            theirs[0].extend(fio(&data, seconds, &[]));
            theirs[1].extend(fio(&data, seconds, &whole));
        }
        for ((_, mode, _), figures) in MODES.iter().zip(&mut ours) {
            turn += 1;
            let (began, cpu_before) = (Instant::now(), cpu());
            let (own_before, system_before) = processor(libc::RUSAGE_THREAD);
            let reads = || place.db.stats().device.of(Purpose::Lookup).reads;
            let reads_before = reads();
            let mut draw = Draw {
                records: sizes.records,
                next: turn << 40,
                until: began + Duration::from_secs_f64(each),
                drawn: 0,
            };
            mode(&place.db, &place.keyspace, &mut draw);
            let count = draw.drawn.max(1) as f64;
            let (own, system) = processor(libc::RUSAGE_THREAD);
            figures.push(Figure {
                per_second: count / began.elapsed().as_secs_f64(),
                cpu_us: (cpu() - cpu_before) * 1e6 / count,
                own_us: (own - own_before) * 1e6 / count,
                system_us: (system - system_before) * 1e6 / count,
                reads: (reads() - reads_before) as f64 / count,
            });
        }
    }
    println!(
        "cold: {} records, {} MiB of memory, uniform gets by one thread (medians of {ROUNDS}, {each:.1} s each)",
        sizes.records,
        sizes.memory >> 20
    );
    report(&theirs, &ours);
}

fn report(theirs: &[Vec<Figure>; 2], ours: &[Vec<Figure>; 5]) {
    for (name, figures) in ["fio, depth 64", "fio, whole batches of 64"].iter().zip(theirs) {
        if !figures.is_empty() {
            let fio = median(figures);
            println!(
                "  {name:32} {:8.1} k/s {:6.2} us of CPU",
                fio.per_second / 1e3,
                fio.cpu_us
            );
        }
    }
    for ((name, _, is_whole), figures) in MODES.iter().zip(ours) {
        let own = median(figures);
        let against = &theirs[usize::from(*is_whole)];
        let ratio = if against.is_empty() {
            String::new()
        } else {
            format!(
                ", {:.0} % of fio",
                100.0 * own.per_second / median(against).per_second
            )
        };
        println!(
            "  {name:32} {:8.1} k/s {:6.2} us of CPU ({:.2} of the thread, {:.2} of the system for it), {:.3} device reads{ratio}",
            own.per_second / 1e3,
            own.cpu_us,
            own.own_us,
            own.system_us,
            own.reads
        );
    }
}
