//! Health checks, which determine whether the server is healthy, what its problems are, and what
//! the operator can do about them.
//!
//! [`verdict`] is a pure function of [`HealthMetrics`]; the rest of this module collects these
//! metrics.

use super::process;
use super::sampler::WriteStallStats;
use crate::shared::StoreContext;
use parking_lot::Mutex;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The severity of a problem: `Warning` calls for action soon, `Bad` immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HealthSeverity {
    Good,
    Warning,
    Bad,
}

impl HealthSeverity {
    pub(crate) fn word(self) -> &'static str {
        match self {
            HealthSeverity::Good => "good",
            HealthSeverity::Warning => "warning",
            HealthSeverity::Bad => "bad",
        }
    }
}

/// A server problem, and advice on solving it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthFinding {
    pub(crate) level: HealthSeverity,
    pub(crate) what: String,
    pub(crate) advice: &'static str,
}

/// The measurements on which [`verdict`] is based.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HealthMetrics {
    pub(crate) disk_free_bytes: Option<u64>,
    pub(crate) disk_total_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) budget_bytes: u64,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) system_bytes: Option<u64>,
    pub(crate) log_bytes: u64,
    pub(crate) log_limit_bytes: u64,
    pub(crate) pressure: WriteStallStats,
    pub(crate) connections: usize,
    pub(crate) most_connections: usize,
    pub(crate) rejected: u64,
    pub(crate) overflows: u64,
    pub(crate) panics: u64,
}

impl HealthMetrics {
    pub(crate) fn of(shared: &StoreContext) -> HealthMetrics {
        let stats = shared.store.db.stats();
        let space = shared.store.db.disk_space().ok();
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &shared.counters;
        HealthMetrics {
            disk_free_bytes: space.map(|space| space.free_bytes),
            disk_total_bytes: space.map_or(0, |space| space.total_bytes),
            used_bytes: shared.used_memory(),
            budget_bytes: stats.memory.budget,
            resident_bytes: process::resident_bytes(),
            system_bytes: process::system_bytes(),
            log_bytes: stats.log.live_bytes,
            log_limit_bytes: stats.log.limit_bytes,
            pressure: shared.samples.pressure(),
            connections: shared.clients.len(),
            most_connections: shared.config.max_clients(),
            rejected: count(&counters.rejected),
            overflows: count(&counters.output_overflows),
            panics: count(&counters.panics),
        }
    }
}

/// How long an answer about readiness is used again. A new one syncs the store.
const READINESS_AGE: Duration = Duration::from_secs(1);

/// Whether the server can take writes, asked at most once a second.
#[derive(Debug, Default)]
pub(crate) struct ReadinessProbe(Mutex<Option<(Instant, Result<(), &'static str>)>>);

impl ReadinessProbe {
    /// Returns an error if writes are refused, because the disk is full or the store has failed.
    pub(crate) fn of(&self, shared: &StoreContext) -> Result<(), &'static str> {
        let mut last = self.0.lock();
        if let Some((time, answer)) = *last
            && time.elapsed() < READINESS_AGE
        {
            return answer;
        }
        let db = &shared.store.db;
        let answer = match (db.sync(), db.disk_space()) {
            (Err(error), _) => {
                tracing::warn!(%error, "the store cannot make writes durable");
                Err("not ready: the store has failed; the log of the server has the reason")
            }
            (_, Ok(space)) if space.free_bytes < NO_ROOM => Err("not ready: the disk is full"),
            _ => Ok(()),
        };
        *last = Some((Instant::now(), answer));
        answer
    }
}

/// Free space in bytes below which a disk of any size counts as nearly full.
const LITTLE_ROOM: u64 = 1 << 30;
const NO_ROOM: u64 = 128 << 20;

/// Number of bytes by which resident memory may exceed the budget without a finding. Covers the
/// program itself, and freed memory that the allocator has not returned to the operating system.
const BESIDE_BUDGET: u64 = 64 << 20;

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// Returns the problems found, from the most to the least severe, or none if the server is healthy.
pub(crate) fn verdict(vitals: &HealthMetrics) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    let mut say = |level, what: String, advice| findings.push(HealthFinding { level, what, advice });
    if let Some(free) = vitals.disk_free_bytes {
        let what = format!(
            "the disk has {} MiB free of {} MiB",
            mib(free),
            mib(vitals.disk_total_bytes)
        );
        let advice = "Free space on the disk, or move the store to a larger one: writes are refused when it \
                      is full. DEL and FLUSHDB still work on a full disk, and a compaction then frees the \
                      space.";
        if free < NO_ROOM {
            say(HealthSeverity::Bad, what, advice);
        } else if free < LITTLE_ROOM.min(vitals.disk_total_bytes / 10) {
            say(HealthSeverity::Warning, what, advice);
        }
    }
    if vitals.panics > 0 {
        say(
            HealthSeverity::Bad,
            format!("{} commands have panicked", vitals.panics),
            "This is a bug: report the messages, which are in the server's log. Only the connections that \
             sent these commands were closed.",
        );
    }
    let pressure = &vitals.pressure;
    let held = (pressure.delayed_share * 100.0).round();
    if pressure.waits > 0 {
        say(
            HealthSeverity::Bad,
            format!(
                "writers had to stop {} times in the last {} seconds",
                pressure.waits, pressure.seconds
            ),
            "Clients write faster than the disk can: write less at a time, use a faster disk, or give the \
             store more --memory.",
        );
    } else if pressure.delayed_share > 0.2 {
        say(
            HealthSeverity::Warning,
            format!(
                "writers were delayed for {held} % of the last {} seconds",
                pressure.seconds
            ),
            "Compactions cannot keep up with the writes: they catch up after a burst; if the delays last, \
             use a faster disk or more --memory.",
        );
    }
    of_memory_use(vitals, &mut say);
    of_connections(vitals, &mut say);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings
}

fn of_connections(vitals: &HealthMetrics, say: &mut impl FnMut(HealthSeverity, String, &'static str)) {
    if vitals.connections * 10 >= vitals.most_connections * 9 {
        say(
            HealthSeverity::Warning,
            format!(
                "{} clients are connected, of at most {}",
                vitals.connections, vitals.most_connections
            ),
            "Use connection pools, or raise maxclients with CONFIG SET: the server refuses clients beyond \
             the maximum.",
        );
    } else if vitals.rejected > 0 {
        say(
            HealthSeverity::Warning,
            format!(
                "{} clients were refused since the server was started",
                vitals.rejected
            ),
            "Too many clients were connected at once: use connection pools, or raise maxclients with CONFIG \
             SET.",
        );
    }
    if vitals.overflows > 0 {
        say(
            HealthSeverity::Warning,
            format!(
                "{} connections were closed because they did not read their replies",
                vitals.overflows
            ),
            "Request less at a time (SCAN instead of KEYS, ranges instead of whole collections), and read \
             replies as they arrive.",
        );
    }
}

fn of_memory_use(vitals: &HealthMetrics, say: &mut impl FnMut(HealthSeverity, String, &'static str)) {
    let (Some(resident), Some(system)) = (vitals.resident_bytes, vitals.system_bytes) else {
        return;
    };
    if resident / 10 * 10 > system / 10 * 9 {
        say(
            HealthSeverity::Bad,
            format!(
                "the process uses {} MiB of the {} MiB that it may use",
                mib(resident),
                mib(system)
            ),
            "The operating system may kill the process: lower its budget with CONFIG SET maxmemory or \
             --memory, or give the container more memory.",
        );
    } else if vitals.budget_bytes > 0 && resident > vitals.budget_bytes / 10 * 15 + BESIDE_BUDGET {
        say(
            HealthSeverity::Warning,
            format!(
                "the process uses {} MiB, more than the budget of {} MiB",
                mib(resident),
                mib(vitals.budget_bytes)
            ),
            "Requests and replies of clients may use the rest: CLIENT LIST shows the memory of each client \
             (tot-mem).",
        );
    }
    if vitals.used_bytes > vitals.budget_bytes / 100 * 110 && vitals.budget_bytes > 0 {
        say(
            HealthSeverity::Warning,
            format!(
                "the store uses {} MiB, more than its budget of {} MiB",
                mib(vitals.used_bytes),
                mib(vitals.budget_bytes)
            ),
            "Iterators and snapshots hold memory: drop snapshots that SNAPSHOT LIST shows, or give the \
             store more --memory.",
        );
    }
    if vitals.log_limit_bytes > 0 && vitals.log_bytes / 10 >= vitals.log_limit_bytes / 10 {
        say(
            HealthSeverity::Warning,
            format!(
                "the log has reached {} MiB, its limit is {} MiB",
                mib(vitals.log_bytes),
                mib(vitals.log_limit_bytes)
            ),
            "Clients write faster than the disk can: writers wait until a checkpoint has shortened the log.",
        );
    }
}

/// Returns the highest severity among the findings.
pub(crate) fn worst(findings: &[HealthFinding]) -> HealthSeverity {
    let worst = findings.iter().map(|finding| finding.level).max();
    worst.unwrap_or(HealthSeverity::Good)
}

/// Summarises the findings in one sentence.
pub(crate) fn summary(findings: &[HealthFinding]) -> &'static str {
    match worst(findings) {
        HealthSeverity::Good => "All is well.",
        HealthSeverity::Warning => "Action is needed soon.",
        HealthSeverity::Bad => "Action is needed now.",
    }
}

/// Formats the findings as text: a line with the summary, and a line for each finding.
pub(crate) fn in_words(findings: &[HealthFinding]) -> String {
    let mut text = format!("{}\n", summary(findings));
    for finding in findings {
        let _ = writeln!(
            text,
            "* {}: {}. {}",
            finding.level.word(),
            finding.what,
            finding.advice
        );
    }
    text
}

/// Formats the findings on memory use as text.
pub(crate) fn of_memory(shared: &StoreContext) -> String {
    let vitals = HealthMetrics::of(shared);
    let mut findings = Vec::new();
    of_memory_use(&vitals, &mut |level, what, advice| {
        findings.push(HealthFinding { level, what, advice });
    });
    let used = format!(
        "The store uses {} MiB of its budget of {} MiB; the process uses {} MiB.\n",
        mib(vitals.used_bytes),
        mib(vitals.budget_bytes),
        mib(vitals.resident_bytes.unwrap_or(0))
    );
    used + &in_words(&findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> HealthMetrics {
        HealthMetrics {
            disk_free_bytes: Some(50 << 30),
            disk_total_bytes: 100 << 30,
            used_bytes: 40 << 20,
            budget_bytes: 64 << 20,
            resident_bytes: Some(80 << 20),
            system_bytes: Some(8 << 30),
            log_bytes: 1 << 20,
            log_limit_bytes: 64 << 20,
            most_connections: 10_000,
            ..HealthMetrics::default()
        }
    }

    fn levels(vitals: &HealthMetrics) -> Vec<HealthSeverity> {
        verdict(vitals).iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn a_server_that_is_well_is_told_so() {
        assert_eq!(levels(&well()), []);
        assert_eq!(in_words(&verdict(&well())), "All is well.\n");
    }

    #[test]
    fn each_thing_that_is_wrong_is_found_and_the_worst_comes_first() {
        let full = |free: u64| HealthMetrics {
            disk_free_bytes: Some(free),
            ..well()
        };
        assert_eq!(levels(&full(900 << 20)), [HealthSeverity::Warning]);
        assert_eq!(levels(&full(1 << 20)), [HealthSeverity::Bad]);
        let small_disk = HealthMetrics {
            disk_free_bytes: Some(900 << 20),
            disk_total_bytes: 2 << 30,
            ..well()
        };
        assert_eq!(levels(&small_disk), [], "half of it is free");
        let crowded = HealthMetrics {
            connections: 9_500,
            panics: 1,
            ..well()
        };
        assert_eq!(levels(&crowded), [HealthSeverity::Bad, HealthSeverity::Warning]);
        let stopped = HealthMetrics {
            pressure: WriteStallStats {
                waits: 3,
                delayed_share: 0.9,
                seconds: 10,
            },
            ..well()
        };
        assert_eq!(levels(&stopped), [HealthSeverity::Bad]);
        assert!(in_words(&verdict(&stopped)).contains("writers had to stop 3 times"));
        let starved = HealthMetrics {
            resident_bytes: Some(7900 << 20),
            ..well()
        };
        assert_eq!(levels(&starved), [HealthSeverity::Bad]);
    }
}
