//! Observes the device operations of one life, and takes images before the chosen ones.

use super::Settings;
use crate::reference::{Crash, View};
use crate::replay::Turn;
use crate::story::Ledger;
use alluvium_base::checksum::seeded;
use alluvium_device::simulated::{SimDirectory, Survival};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// A crash point, with the image that the crash leaves.
pub(super) struct Point {
    pub(super) turn: Turn,
    pub(super) view: Arc<View>,
    pub(super) image: SimDirectory,
    /// The activity that the story was in the middle of, if it has reported one.
    pub(super) amid: Option<&'static str>,
}

impl Point {
    pub(super) fn crash(&self) -> Crash {
        died(self.turn.survival)
    }
}

/// Returns the crash that leaves this survival mode.
pub(super) fn died(survival: Survival) -> Crash {
    match survival {
        Survival::Process => Crash::PROCESS,
        _ => Crash::POWER,
    }
}

/// The crash points, with their survival modes.
#[derive(Clone, Debug)]
pub(super) enum Choice {
    /// No operation.
    Nothing,
    /// One in `every` operations, each with `survivals` survival modes. Drawn from `seed`.
    Sampled { seed: u64, every: u32, survivals: usize },
    /// Exactly this one.
    Only(Turn),
    /// All operations within a range of calls, each with one survival mode and one image per seed.
    Within {
        calls: Range<u64>,
        survival: Survival,
        seeds: Vec<u64>,
    },
}

impl Choice {
    pub(super) fn of_run(settings: &Settings, seed: u64) -> Choice {
        Choice::Sampled {
            seed,
            every: settings.point_every,
            survivals: settings.survivals,
        }
    }

    fn turns(&self, call: u64) -> Vec<Turn> {
        match self {
            Choice::Nothing => Vec::new(),
            Choice::Sampled {
                seed,
                every,
                survivals,
            } => {
                let mut random = fastrand::Rng::with_seed(seeded(*seed, &call.to_le_bytes()));
                if random.u32(0..(*every).max(1)) != 0 {
                    return Vec::new();
                }
                let all = Survival::ALL;
                let first = random.usize(0..all.len());
                (0..(*survivals).min(all.len()))
                    .map(|at| Turn {
                        call,
                        survival: all[(first + at) % all.len()],
                        seed: random.u64(..),
                    })
                    .collect()
            }
            Choice::Only(turn) if turn.call == call => vec![*turn],
            Choice::Only(_) => Vec::new(),
            Choice::Within {
                calls,
                survival,
                seeds,
            } => {
                if !calls.contains(&call) {
                    return Vec::new();
                }
                let survival = *survival;
                seeds.iter().map(|&seed| Turn { call, survival, seed }).collect()
            }
        }
    }
}

struct State {
    choice: Choice,
    calls: u64,
    ledger: Option<Ledger>,
    view: Arc<View>,
    points: Vec<Point>,
    trace: u64,
}

/// The observer of one life, across the machines that it runs on.
#[derive(Clone)]
pub(super) struct Probe {
    state: Arc<Mutex<State>>,
}

impl Probe {
    /// Creates a probe. Its crash points are judged by the promises in `view` until there is a
    /// ledger.
    pub(super) fn new(choice: Choice, view: Arc<View>) -> Probe {
        Probe {
            state: Arc::new(Mutex::new(State {
                choice,
                calls: 0,
                ledger: None,
                view,
                points: Vec::new(),
                trace: 0,
            })),
        }
    }

    /// Takes the promises from this ledger from now on.
    pub(super) fn follow(&self, ledger: Option<Ledger>) {
        self.state.lock().ledger = ledger;
    }

    /// Changes the choice of crash points.
    pub(super) fn choose(&self, choice: Choice) {
        self.state.lock().choice = choice;
    }

    /// Observes a machine.
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

    /// Offers the moment after the last operation as a crash point.
    pub(super) fn finish(&self, machine: &SimDirectory) {
        self.state.lock().meet(machine, 0);
    }

    /// Returns the number of operations so far.
    pub(super) fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Returns a hash of all operations, in order.
    pub(super) fn trace(&self) -> u64 {
        self.state.lock().trace
    }

    /// Returns the crash points taken since the last call.
    pub(super) fn take(&self) -> Vec<Point> {
        std::mem::take(&mut self.state.lock().points)
    }
}

impl State {
    fn meet(&mut self, machine: &SimDirectory, fact: u64) {
        let call = self.calls;
        self.calls += 1;
        self.trace = seeded(self.trace, &fact.to_le_bytes());
        let turns = self.choice.turns(call);
        if turns.is_empty() {
            return;
        }
        let amid = self.ledger.as_ref().and_then(Ledger::under_way);
        if let Some(ledger) = &self.ledger {
            self.view = Arc::new(ledger.with(|reference| reference.view()));
        }
        for turn in turns {
            self.points.push(Point {
                turn,
                view: Arc::clone(&self.view),
                image: machine.image(turn.survival, turn.seed),
                amid,
            });
        }
    }
}
