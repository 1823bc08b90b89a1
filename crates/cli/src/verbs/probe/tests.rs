//! Tests the whole verb, from requests to conclusions, on simulated devices whose costs are known.

use super::{chart, json, svg};
use alluvium_base::cost::{CostClock, CostFault, DeviceAccess};
use alluvium_base::measurements::{DeviceMeasurements, IssueMode, OffsetOrder};
use alluvium_device::ThrottledDirectory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::probe::{
    self, FileSystemInfo, LEAST_SPACE, ProbeClock, ProbeControl, ProbePlan, ProcessClock,
};
use alluvium_device::simulated::SimDirectory;
use alluvium_model::AffineClock;
use alluvium_model::presets::{HITACHI_1TB_2009, HardDisk};
use alluvium_model::probe::{DeviceParallelism, ProbeConclusions};
use std::path::Path;
use std::sync::Arc;

struct Simulated(SimDirectory);

impl ProbeClock for Simulated {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn cpu_ns(&self) -> u64 {
        0
    }

    fn date_s(&self) -> u64 {
        0
    }
}

/// A simulated device with several servers and a common queue. Each server's service time follows
/// the affine model, with noise added.
struct Noisy {
    setup_ns: f64,
    byte_ps: f64,
    free_ns: Vec<u64>,
    rng: fastrand::Rng,
}

impl Noisy {
    /// Returns a random number with mean 1 and a standard deviation of 3 %. The sum of twelve
    /// uniform random numbers is approximately normally distributed.
    fn noise(&mut self) -> f64 {
        let sum: f64 = (0..12).map(|_| self.rng.f64()).sum();
        1.0 + 0.03 * (sum - 6.0)
    }
}

impl CostClock for Noisy {
    fn charge(&mut self, now_ns: u64, access: &DeviceAccess) -> Result<u64, CostFault> {
        let took_ns = (self.setup_ns + self.byte_ps * access.len as f64 / 1e3) * self.noise();
        let free = self.free_ns.iter_mut().min().expect("there are servers");
        *free = (*free).max(now_ns) + took_ns as u64;
        Ok(*free)
    }
}

fn plan(budget_ms: u64) -> ProbePlan {
    ProbePlan {
        budget_ns: budget_ms * 1_000_000,
        space_bytes: LEAST_SPACE,
        rounds: ProbePlan::ROUNDS,
        seed: 1,
    }
}

fn simulated(servers: usize, setup_ns: f64, byte_ps: f64, budget_ms: u64) -> DeviceMeasurements {
    let seed = servers as u64;
    let directory = SimDirectory::new(seed);
    directory.set_clock(Box::new(Noisy {
        setup_ns,
        byte_ps,
        free_ns: vec![0; servers],
        rng: fastrand::Rng::with_seed(seed),
    }));
    let watch = Simulated(directory.clone());
    probe::measure(
        &directory,
        &FileSystemInfo::memory(),
        &plan(budget_ms),
        &watch,
        &mut |_| ProbeControl::Continue,
    )
    .unwrap()
}

#[test]
fn a_simulated_ssd_is_found_again_behind_noise_of_three_percent() {
    let (servers, setup_ns, byte_ps) = (5, 65_000.0, 500.0);
    let found = ProbeConclusions::of(&simulated(servers, setup_ns, byte_ps, 3_000));
    for costs in [&found.reads, &found.writes] {
        let fit = costs.affine.as_ref().unwrap().fit;
        let setup = fit.setup_s * 1e9 / setup_ns;
        let per_byte = fit.per_byte_s * 1e12 / byte_ps;
        assert!(
            (setup - 1.0).abs() < 0.01 && (per_byte - 1.0).abs() < 0.01,
            "{fit:?}"
        );
        assert!(fit.goodness.r_squared > 0.99, "{fit:?}");
        let DeviceParallelism::Knee(knee) = costs.parallelism else {
            panic!("{:?}", costs.parallelism)
        };
        assert!((knee - servers as f64).abs() <= 0.2, "{knee}, not {servers}");
        let fit = costs.parallel.as_ref().unwrap();
        assert!(fit.goodness.r_squared > 0.98, "{fit:?}");
        // Claim C1: the fitted model predicts times within 14 %, while the predictions of the DAM
        // are wrong by a factor of almost P.
        assert!(fit.worst_time < 0.14 && fit.worst_time_dam > servers as f64 - 1.5);
    }
}

fn throttled(disk: &HardDisk) -> ProbeConclusions {
    let affine = AffineClock::new(disk.setup_ns, disk.transfer_ns, 4096);
    let directory = ThrottledDirectory::new(Arc::new(MemoryDirectory::new()), Box::new(affine));
    let plan = ProbePlan {
        rounds: 1,
        // Even in the shortest possible measurement, the essential parts take the time that they
        // need.
        ..plan(1)
    };
    let watch = ProcessClock::new();
    let measured = probe::measure(&directory, &FileSystemInfo::memory(), &plan, &watch, &mut |_| {
        ProbeControl::Continue
    });
    ProbeConclusions::of(&measured.unwrap())
}

#[test]
fn a_throttled_disk_is_found_again() {
    let disk = HITACHI_1TB_2009;
    let mut alphas = Vec::new();
    // The simulated device works in real time and may be woken too late on a busy machine, so
    // repeat the measurement.
    for _ in 0..5 {
        let found = throttled(&disk);
        let fitted = found.reads.affine.as_ref().unwrap();
        let alpha = fitted.fit.alpha(4096) / disk.alpha();
        let is_serial = found.reads.parallelism == DeviceParallelism::One;
        if is_serial && (alpha - 1.0).abs() < 0.05 && fitted.fit.goodness.r_squared > 0.99 {
            return;
        }
        alphas.push((alpha, fitted.fit.goodness.r_squared, is_serial));
    }
    panic!("α as parts of the true one, R², and whether one request at a time is found: {alphas:?}");
}

#[test]
fn conclusions_are_drawn_and_told() {
    let measured = simulated(5, 65_000.0, 500.0, 1_000);
    let conclusions = ProbeConclusions::of(&measured);
    let charts = chart::charts(&measured, &conclusions);
    assert_eq!(charts.len(), 4);
    for chart in &charts {
        let lines = chart::lines(chart);
        assert_eq!(lines.len(), 11, "{}", chart.title);
        assert!(lines.iter().all(|line| line.contains('│')), "{lines:#?}");
    }
    let svg = svg::draw(&measured, &conclusions).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    let random = measured.samples.iter().filter(|window| {
        window.point.order == OffsetOrder::Random && window.point.issue == IssueMode::Steady
    });
    let shown = random.map(|window| {
        let is_step = window.point.bytes == probe::STEP;
        usize::from(window.point.depth == 1) + usize::from(is_step)
    });
    assert_eq!(svg.matches("<circle").count(), shown.sum::<usize>());
    let json = json::of(Path::new("/x"), &measured, &conclusions);
    assert_eq!(json["is_reliable"], false, "it is memory");
    let knee = json["reads"]["parallelism"].as_f64().unwrap();
    assert!((knee - 5.0).abs() < 0.3, "{knee}");
    assert_eq!(json["samples"].as_array().unwrap().len(), measured.samples.len());
}
