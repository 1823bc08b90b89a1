//! A probe that observes a life's device operations, and takes a crash image before each selected
//! one.

use super::RunSettings;
use crate::reference::{CrashHistory, PromiseSnapshot};
use crate::replay::PlannedCrash;
use crate::story::CommitLedger;
use alluvium_base::checksum::seeded;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// A crash point, and the disk image that the crash would leave.
pub(super) struct CrashImage {
    pub(super) turn: PlannedCrash,
    pub(super) view: Arc<PromiseSnapshot>,
    pub(super) image: SimDirectory,
    /// What the story was doing at the crash, if it has said so.
    pub(super) amid: Option<&'static str>,
}

impl CrashImage {
    pub(super) fn crash(&self) -> CrashHistory {
        crash_leaving(self.turn.survival)
    }
}

/// Returns the kind of crash whose survivors `survival` describes.
pub(super) fn crash_leaving(survival: CrashSurvival) -> CrashHistory {
    match survival {
        CrashSurvival::Process => CrashHistory::PROCESS,
        _ => CrashHistory::POWER,
    }
}

/// Selects the operations at which images are taken, and the survival modes of these images.
#[derive(Clone, Debug)]
pub(super) enum CrashSampling {
    /// No operation is a crash point.
    Nothing,
    /// On average, one in `every` operations is a crash point, with `survivals` survival modes
    /// each. The random choices are derived from `seed`.
    Sampled { seed: u64, every: u32, survivals: usize },
    /// Only the given operation is a crash point, with the given survival mode.
    Only(PlannedCrash),
    /// All operations of a range are crash points, each with the same survival mode and one image
    /// for each seed.
    Within {
        calls: Range<u64>,
        survival: CrashSurvival,
        seeds: Vec<u64>,
    },
}

impl CrashSampling {
    pub(super) fn of_run(settings: &RunSettings, seed: u64) -> CrashSampling {
        CrashSampling::Sampled {
            seed,
            every: settings.point_every,
            survivals: settings.survivals,
        }
    }

    fn turns(&self, call: u64) -> Vec<PlannedCrash> {
        match self {
            CrashSampling::Nothing => Vec::new(),
            CrashSampling::Sampled {
                seed,
                every,
                survivals,
            } => {
                let mut random = fastrand::Rng::with_seed(seeded(*seed, &call.to_le_bytes()));
                if random.u32(0..(*every).max(1)) != 0 {
                    return Vec::new();
                }
                let all = CrashSurvival::ALL;
                let first = random.usize(0..all.len());
                (0..(*survivals).min(all.len()))
                    .map(|at| PlannedCrash {
                        call,
                        survival: all[(first + at) % all.len()],
                        seed: random.u64(..),
                    })
                    .collect()
            }
            CrashSampling::Only(turn) if turn.call == call => vec![*turn],
            CrashSampling::Only(_) => Vec::new(),
            CrashSampling::Within {
                calls,
                survival,
                seeds,
            } => {
                if !calls.contains(&call) {
                    return Vec::new();
                }
                let survival = *survival;
                seeds
                    .iter()
                    .map(|&seed| PlannedCrash { call, survival, seed })
                    .collect()
            }
        }
    }
}

struct ProbeState {
    choice: CrashSampling,
    calls: u64,
    ledger: Option<CommitLedger>,
    view: Arc<PromiseSnapshot>,
    points: Vec<CrashImage>,
    trace: u64,
}

/// The probe of one life. It keeps observing if the life moves to another machine.
#[derive(Clone)]
pub(super) struct DeviceProbe {
    state: Arc<Mutex<ProbeState>>,
}

impl DeviceProbe {
    /// Creates a probe. Until [`DeviceProbe::follow`] sets a ledger, images are judged by the
    /// promises in `view`.
    pub(super) fn new(choice: CrashSampling, view: Arc<PromiseSnapshot>) -> DeviceProbe {
        DeviceProbe {
            state: Arc::new(Mutex::new(ProbeState {
                choice,
                calls: 0,
                ledger: None,
                view,
                points: Vec::new(),
                trace: 0,
            })),
        }
    }

    /// From now on, judges images by the promises recorded in this ledger.
    pub(super) fn follow(&self, ledger: Option<CommitLedger>) {
        self.state.lock().ledger = ledger;
    }

    /// Replaces the selection of crash points.
    pub(super) fn choose(&self, choice: CrashSampling) {
        self.state.lock().choice = choice;
    }

    /// Starts observing a machine's device operations, each of which can be a crash point.
    pub(super) fn watch(&self, machine: &SimDirectory) {
        let state = Arc::clone(&self.state);
        let loud = std::env::var_os(crate::replay::LOUD).is_some();
        machine.on_operation(move |point| {
            if loud {
                let call = state.lock().calls;
                let (operation, file) = (point.operation, point.file);
                println!(
                    "{call:>6} {operation} {file} at {}, {} bytes",
                    point.offset, point.len
                );
            }
            let facts = [point.operation as u64, point.offset, point.len].map(u64::to_le_bytes);
            state
                .lock()
                .meet(point.directory, seeded(point.index, &facts.concat()));
        });
    }

    /// Treats the moment after the last operation as a possible crash point.
    pub(super) fn finish(&self, machine: &SimDirectory) {
        self.state.lock().meet(machine, 0);
    }

    /// Returns the number of operations observed so far.
    pub(super) fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Returns a hash of all observed operations, in order.
    pub(super) fn trace(&self) -> u64 {
        self.state.lock().trace
    }

    /// Returns the crash images taken since the last call.
    pub(super) fn take(&self) -> Vec<CrashImage> {
        std::mem::take(&mut self.state.lock().points)
    }
}

impl ProbeState {
    fn meet(&mut self, machine: &SimDirectory, fact: u64) {
        let call = self.calls;
        self.calls += 1;
        self.trace = seeded(self.trace, &fact.to_le_bytes());
        let turns = self.choice.turns(call);
        if turns.is_empty() {
            return;
        }
        let amid = self.ledger.as_ref().and_then(CommitLedger::under_way);
        if let Some(ledger) = &self.ledger {
            self.view = Arc::new(ledger.with(|reference| reference.view()));
        }
        for turn in turns {
            self.points.push(CrashImage {
                turn,
                view: Arc::clone(&self.view),
                image: machine.image(turn.survival, turn.seed),
                amid,
            });
        }
    }
}
