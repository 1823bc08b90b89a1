//! Watches the device operations of one life and takes images before those that are chosen.

use super::Settings;
use crate::reference::{Crash, View};
use crate::replay::Turn;
use crate::story::Ledger;
use alluvium_base::checksum::seeded;
use alluvium_device::simulated::{SimDirectory, Survival};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// A moment at which the life is ended, with what it leaves.
pub(super) struct Point {
    pub(super) turn: Turn,
    pub(super) view: Arc<View>,
    pub(super) image: SimDirectory,
    /// What the story said it was in the middle of.
    pub(super) amid: Option<&'static str>,
}

impl Point {
    pub(super) fn crash(&self) -> Crash {
        died(self.turn.survival)
    }
}

/// Returns what dies for this to survive.
pub(super) fn died(survival: Survival) -> Crash {
    match survival {
        Survival::Process => Crash::PROCESS,
        _ => Crash::POWER,
    }
}

/// Which operations are crash points, and with which survivals.
#[derive(Clone, Debug)]
pub(super) enum Choice {
    /// None.
    Nothing,
    /// One in `every`, each with `survivals` survivals; drawn from `seed`.
    Sampled { seed: u64, every: u32, survivals: usize },
    /// This one.
    Only(Turn),
    /// All within a range of calls, each with one survival and an image for each seed.
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

/// The watcher of one life, across the machines that it runs on.
#[derive(Clone)]
pub(super) struct Probe {
    state: Arc<Mutex<State>>,
}

impl Probe {
    /// Creates a probe whose points are judged by what `view` promises, for as long as there is no
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

    /// From now on the ledger says what is promised.
    pub(super) fn follow(&self, ledger: Option<Ledger>) {
        self.state.lock().ledger = ledger;
    }

    /// From now on other operations are crash points.
    pub(super) fn choose(&self, choice: Choice) {
        self.state.lock().choice = choice;
    }

    /// Watches a machine.
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

    /// The moment after the last operation so far is one to crash at, too.
    pub(super) fn finish(&self, machine: &SimDirectory) {
        self.state.lock().meet(machine, 0);
    }

    /// Returns how many operations there were.
    pub(super) fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Returns a sum of all operations, in order.
    pub(super) fn trace(&self) -> u64 {
        self.state.lock().trace
    }

    /// Returns the points taken since the last call.
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
