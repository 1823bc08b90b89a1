//! Fits of device models (Bender et al. Tables 1 and 2) on simulated devices with 3 % noise, and
//! the PDAM dictionary.

use super::OracleSection;
use alluvium_model::SplitMix64;
use alluvium_model::fit::{affine, parallel};
use alluvium_model::presets::{HARD_DISKS, SOLID_STATES};
use anyhow::Result;
use research_models::pdam::{NodePlacement, PdamTreeModel};

/// Maximum relative error of a sample.
const NOISE: f64 = 0.03;
/// Thread counts measured in the document.
const THREADS: [f64; 11] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 16.0, 32.0, 64.0];
/// Number of samples for each thread count.
const REPEATS: usize = 5;
const MIB: f64 = 1_048_576.0;

/// Returns a random factor within the noise.
fn noisy(random: &mut SplitMix64) -> f64 {
    1.0 + NOISE * (2.0 * random.unit() - 1.0)
}

pub(super) fn solid_state() -> Result<OracleSection> {
    let mut section =
        OracleSection::new("Bender et al. 2021, Table 1: SSDs, from simulated samples with 3 % noise");
    let mut random = SplitMix64::from_seed(4);
    for ssd in &SOLID_STATES {
        let plateau = ssd.saturated_mib_s as f64;
        let mut samples = Vec::new();
        for threads in THREADS {
            for _ in 0..REPEATS {
                let rate = plateau * (threads / ssd.parallelism).min(1.0);
                samples.push((threads, rate * noisy(&mut random)));
            }
        }
        let fit = parallel::fit(&samples)?;
        let of = |what: &str| format!("{}: {what}", ssd.name);
        section.stated(of("P"), ssd.parallelism, 0.2, fit.parallelism.unwrap_or(0.0));
        section.stated(of("plateau, MiB/s"), plateau, 0.02 * plateau, fit.plateau);
    }
    Ok(section)
}

pub(super) fn hard_disks() -> Result<OracleSection> {
    let mut section =
        OracleSection::new("Bender et al. 2021, Table 2: disks, from simulated samples with 3 % noise");
    let mut random = SplitMix64::from_seed(5);
    for disk in &HARD_DISKS {
        let clock = disk.clock();
        let mut samples = Vec::new();
        for power in 12..=24 {
            for _ in 0..64 {
                let seconds = clock.cost_ns(1 << power) as f64 / 1e9;
                samples.push((1 << power, seconds * noisy(&mut random)));
            }
        }
        let fit = affine::fit_relative(&samples)?;
        let (setup, byte) = (disk.setup_ns as f64 / 1e9, disk.transfer_ns as f64 / 1e9);
        let of = |what: &str| format!("{}: {what}", disk.name);
        section.stated(of("s, seconds"), setup, 0.01 * setup, fit.setup_s);
        let ours = fit.per_byte_s * 4096.0;
        section.stated(of("t, seconds for 4 KiB"), byte, 0.01 * byte, ours);
        let alpha = byte / setup;
        section.stated(of("α for 4 KiB"), alpha, 0.05 * alpha, fit.alpha(4096));
        let half = setup / byte * 4096.0 / MIB;
        section.recomputed(
            of("half of the bandwidth at, MiB"),
            half,
            0.02 * half,
            fit.natural_bytes(0.5) / MIB,
        );
    }
    Ok(section)
}

pub(super) fn dictionary() -> Result<OracleSection> {
    let mut section = OracleSection::new("Bender et al. 2021, §6: a dictionary for PDAM");
    let tree = PdamTreeModel {
        keys: 1 << 30,
        block: 64,
        parallel: 8,
    };
    for (clients, small, whole, order) in [
        (1.0, 5.0, 3.33, 3.33),
        (2.0, 5.0, 6.67, 3.75),
        (4.0, 5.0, 13.3, 4.29),
        (8.0, 5.0, 26.7, 5.0),
    ] {
        for (name, nodes, wanted) in [
            ("nodes of B", NodePlacement::OneBlock, small),
            ("nodes of PB, read whole", NodePlacement::Whole, whole),
            (
                "nodes of PB in van Emde Boas order",
                NodePlacement::VanEmdeBoas,
                order,
            ),
        ] {
            let what = format!("{clients} clients, {name}: steps of a query");
            section.recomputed(what, wanted, 0.05, tree.steps(nodes, clients)?);
        }
    }
    Ok(section)
}
