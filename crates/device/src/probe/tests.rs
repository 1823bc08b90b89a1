//! The probe on an in-memory, a simulated and a real directory.

use super::*;
use crate::file::FileDirectory;
use crate::memory::MemoryDirectory;
use crate::simulated::{InjectedFault, SimDirectory, SimOptions};
use crate::{DeviceOperation, ThrottledDirectory};
use alluvium_base::cost::{AccessKind, CostClock, CostFault, DeviceAccess};
use std::sync::Arc;

/// The time of a simulated machine whose processor uses a microsecond per call.
struct Simulated(SimDirectory, std::cell::Cell<u64>);

impl ProbeClock for Simulated {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn cpu_ns(&self) -> u64 {
        self.1.set(self.1.get() + 1000);
        self.1.get()
    }

    fn date_s(&self) -> u64 {
        0
    }
}

/// Several servers with one queue, each of which takes a setup time plus a time per byte.
struct Servers {
    setup_ns: u64,
    byte_ps: u64,
    free_ns: Vec<u64>,
}

impl CostClock for Servers {
    fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault> {
        let free = self.free_ns.iter_mut().min().expect("there are servers");
        *free = (*free).max(now_ns) + self.setup_ns + self.byte_ps * access.len / 1000;
        Ok(*free)
    }
}

fn plan(budget_ms: u64, rounds: u32) -> ProbePlan {
    ProbePlan {
        budget_ns: budget_ms * 1_000_000,
        space_bytes: LEAST_SPACE,
        rounds,
        seed: 1,
    }
}

fn simulated(servers: usize, setup_ns: u64, byte_ps: u64) -> (SimDirectory, Simulated) {
    let directory = SimDirectory::new(1);
    directory.set_clock(Box::new(Servers {
        setup_ns,
        byte_ps,
        free_ns: vec![0; servers],
    }));
    let watch = Simulated(directory.clone(), std::cell::Cell::default());
    (directory, watch)
}

fn measured(directory: &dyn Directory, watch: &dyn ProbeClock, plan: &ProbePlan) -> DeviceMeasurements {
    measure(directory, &FileSystemInfo::memory(), plan, watch, &mut |_| {
        ProbeControl::Continue
    })
    .unwrap()
}

#[test]
fn a_simulated_device_takes_exactly_what_it_is_charged() {
    let (directory, watch) = simulated(5, 60_000, 500);
    let samples = measured(&directory, &watch, &plan(2_000, 1));
    for bytes in SIZES {
        for point in [ProbePoint::reads(bytes), ProbePoint::writes(bytes)] {
            let window = samples.samples_of(point).next().expect("time enough");
            assert_eq!(window.typical_ns, 60_000 + bytes / 2, "{window:?}");
            assert_eq!(window.elapsed_ns, window.requests * window.typical_ns);
        }
    }
    let one = samples
        .samples_of(ProbePoint::reads(STEP))
        .next()
        .unwrap()
        .bytes_per_s();
    for depth in DEPTHS {
        let window = samples
            .samples_of(ProbePoint::reads(STEP).at_depth(depth))
            .next()
            .unwrap();
        let times = window.bytes_per_s() / one;
        let expected = f64::from(depth.min(5));
        assert!((times / expected - 1.0).abs() < 0.06, "{depth}: {times}");
    }
    let batch = samples
        .samples_of(ProbePoint::reads(SMALL).in_batches(BATCH))
        .next()
        .unwrap();
    assert_eq!(batch.requests % u64::from(BATCH), 0);
    // 32 requests on five servers need seven rounds.
    assert_eq!(batch.typical_ns, 7 * (60_000 + SMALL / 2));
}

#[test]
fn the_whole_takes_its_time_and_its_space_and_leaves_nothing() {
    let (directory, watch) = simulated(4, 60_000, 500);
    let samples = measured(&directory, &watch, &plan(1_000, 2));
    let took_ms = samples.elapsed_ns / 1_000_000;
    assert!((700..1_300).contains(&took_ms), "{took_ms} ms");
    assert_eq!(samples.span_bytes, LEAST_SPACE);
    assert_eq!(directory.list().unwrap(), Vec::<String>::new());
    directory.sync().unwrap();
    assert_eq!(directory.used(), 0);
    let counts = directory.counters().snapshot();
    let (all, ours) = (counts.total(), counts.of(Purpose::Probe));
    assert_eq!((all.reads, all.writes), (ours.reads, ours.writes));
}

#[test]
fn a_slow_disk_is_measured_as_far_as_time_allows() {
    let (directory, watch) = simulated(1, 15_000_000, 8_000);
    let samples = measured(&directory, &watch, &plan(10_000, 4));
    let took_ms = samples.elapsed_ns / 1_000_000;
    assert!(took_ms < 14_000, "{took_ms} ms");
    for bytes in SIZES {
        let window = samples
            .samples_of(ProbePoint::reads(bytes))
            .next()
            .expect("an essential one");
        assert_eq!(window.typical_ns, 15_000_000 + 8 * bytes);
    }
    let depths = samples
        .samples
        .iter()
        .filter(|window| window.point.bytes == STEP && window.point.depth > 1);
    assert!(depths.clone().count() >= 4 && depths.map(|window| window.point.depth).max() < Some(64));
}

#[test]
fn a_file_that_is_not_written_in_time_is_shorter() {
    let (directory, watch) = simulated(1, 1_000_000, 20_000);
    let plan = ProbePlan {
        space_bytes: 1 << 30,
        ..plan(4_000, 1)
    };
    let samples = measured(&directory, &watch, &plan);
    assert!(samples.span_bytes >= LEAST_SPACE && samples.span_bytes < 1 << 27);
    let filled: u64 = samples.filled.iter().map(|slice| slice.bytes).sum();
    assert_eq!(filled, samples.span_bytes);
}

#[test]
fn a_probe_that_is_stopped_leaves_nothing() {
    for stop_at in [
        ProbePart::Fill,
        ProbePart::Point(ProbePoint::reads(SMALL)),
        ProbePart::Syncs,
        ProbePart::Lasting,
    ] {
        let (directory, watch) = simulated(4, 60_000, 500);
        let mut follow = |progress: ProbeProgress| match progress.part == stop_at {
            true => ProbeControl::Stop,
            false => ProbeControl::Continue,
        };
        let stopped = measure(
            &directory,
            &FileSystemInfo::memory(),
            &plan(100, 1),
            &watch,
            &mut follow,
        );
        assert!(matches!(stopped, Err(ProbeFailure::Stopped)), "{stopped:?}");
        directory.sync().unwrap();
        assert_eq!((directory.list().unwrap().len(), directory.used()), (0, 0));
    }
}

#[test]
fn failures_of_the_device_are_told_and_leave_nothing() {
    for operation in [
        DeviceOperation::Read,
        DeviceOperation::Write,
        DeviceOperation::Sync,
        DeviceOperation::Grow,
    ] {
        let (directory, watch) = simulated(4, 60_000, 500);
        directory.inject(InjectedFault::failing(operation));
        let failed = measure(
            &directory,
            &FileSystemInfo::memory(),
            &plan(100, 1),
            &watch,
            &mut |_| ProbeControl::Continue,
        );
        let Err(ProbeFailure::Device(error)) = failed else {
            panic!("{operation}: {failed:?}");
        };
        assert!(error.to_string().contains("simulated"), "{error}");
        assert_eq!(directory.list().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_file_system_without_space_is_refused_before_anything_is_written() {
    let directory = SimDirectory::with(SimOptions {
        capacity: LEAST_SPACE,
        ..SimOptions::new(1)
    });
    let watch = Simulated(directory.clone(), std::cell::Cell::default());
    let refused = measure(
        &directory,
        &FileSystemInfo::memory(),
        &plan(100, 1),
        &watch,
        &mut |_| ProbeControl::Continue,
    );
    assert!(
        matches!(refused, Err(ProbeFailure::NoSpace { free: LEAST_SPACE })),
        "{refused:?}"
    );
    assert_eq!(directory.operations(), 0);
}

#[test]
fn a_throttled_device_takes_at_least_its_time() {
    let servers = Servers {
        setup_ns: 200_000,
        byte_ps: 1_000,
        free_ns: vec![0],
    };
    let directory = ThrottledDirectory::new(Arc::new(MemoryDirectory::new()), Box::new(servers));
    let samples = measured(&directory, &ProcessClock::new(), &plan(400, 1));
    for bytes in SIZES {
        let window = samples
            .samples_of(ProbePoint::reads(bytes))
            .next()
            .expect("an essential one");
        assert!(window.typical_ns >= 200_000 + bytes, "{window:?}");
    }
}

#[test]
fn a_real_directory_is_measured_and_left_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let directory = FileDirectory::open(place.path()).unwrap();
    let about = place_of(place.path()).unwrap();
    let samples = measure(
        &directory,
        &about,
        &plan(300, 1),
        &ProcessClock::new(),
        &mut |_| ProbeControl::Continue,
    )
    .unwrap();
    for bytes in SIZES {
        let window = samples
            .samples_of(ProbePoint::reads(bytes))
            .next()
            .expect("an essential one");
        assert!(window.elapsed_ns > 0 && window.requests >= 4, "{window:?}");
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    let reads = directory.counters().snapshot().of(Purpose::Probe).reads;
    let counted: u64 = samples
        .samples
        .iter()
        .filter(|window| window.point.kind == AccessKind::Read)
        .map(|window| window.requests)
        .sum();
    assert!(reads >= counted, "{reads} reads, {counted} counted");
}
