//! One life of a simulated store, from its creation or recovery to a crash. A probe observes its
//! device operations.

use super::panics::watch;
use super::probe::{CrashSampling, DeviceProbe, crash_leaving};
use super::revive::ImageCase;
use super::{CrashExplorer, CrashPlan, LifeFailure};
use crate::reference::CrashHistory;
use crate::replay::PlannedCrash;
use crate::shrink;
use crate::story::{CommitLedger, RunStep, Story, StoryEnvironment, StoryError, StoryErrorKind};
use alluvium_base::checksum::seeded;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use std::sync::Arc;

/// A store and the machine it runs on. The store is open except while it is being reopened.
pub(super) struct StoreLife<S: Story> {
    pub(super) machine: SimDirectory,
    pub(super) world: StoryEnvironment,
    pub(super) system: Option<S::System>,
    pub(super) probe: DeviceProbe,
    /// The crashes that preceded this life, in order.
    pub(super) path: Vec<PlannedCrash>,
}

/// The position of an event in a run: the current step, and the crashes before it.
pub(super) struct EventLocation<'a> {
    pub(super) step: usize,
    pub(super) path: &'a [PlannedCrash],
}

impl EventLocation<'_> {
    pub(super) fn bad(&self, what: &str, text: impl std::fmt::Display) -> LifeFailure {
        LifeFailure::new(self.step, self.path, format!("{what}: {text}"))
    }
}

impl<S: Story> CrashExplorer<'_, S> {
    /// Runs `steps` on a new machine. Each step is paired with its position in the complete story,
    /// because a shrunk run contains only some of the story's steps.
    pub(crate) fn run(&mut self, steps: &[(usize, RunStep<S::Action>)]) -> Result<(), LifeFailure> {
        self.tally.runs += 1;
        let machine = SimDirectory::new(self.seed);
        let ledger = CommitLedger::default();
        let view = Arc::new(ledger.with(|reference| reference.view()));
        let probe = DeviceProbe::new(self.choice(0, self.seed), view);
        probe.follow(Some(ledger.clone()));
        probe.watch(&machine);
        let world = self.world(&machine, ledger);
        let at = EventLocation { step: 0, path: &[] };
        let system = watch(|| self.story.create(&world));
        let mut life = StoreLife {
            machine,
            world,
            system: None,
            probe,
            path: Vec::new(),
        };
        self.judge_points(&mut life, at.step, CrashHistory::NONE, CreationState::UnderWay)?;
        match system {
            Ok(Ok(system)) => life.system = Some(system),
            Ok(Err(trouble)) => return Err(at.bad("creating the store", trouble)),
            Err(panic) => return Err(at.bad("creating the store panicked", panic)),
        }
        for (number, (index, step)) in steps.iter().enumerate() {
            if let CrashPlan::LastStep(path) = &self.plan
                && number + 1 == steps.len()
                && let Some(turn) = path.first()
            {
                let calls = life.probe.calls()..u64::MAX;
                life.probe.choose(CrashSampling::Within {
                    calls,
                    survival: turn.survival,
                    seeds: shrink::seeds_at(path, 0),
                });
            }
            self.step(&mut life, number, *index, step)?;
        }
        self.end(life, steps.len().saturating_sub(1))
    }

    pub(super) fn world(&self, machine: &SimDirectory, ledger: CommitLedger) -> StoryEnvironment {
        StoryEnvironment {
            directory: self.settings.directory(machine),
            ledger,
            coverage: self.coverage.clone(),
            seed: self.seed,
        }
    }

    /// Runs one step. `number` is the step's position in this run, and `index` its position in the
    /// story.
    pub(super) fn step(
        &mut self,
        life: &mut StoreLife<S>,
        number: usize,
        index: usize,
        step: &RunStep<S::Action>,
    ) -> Result<(), LifeFailure> {
        if std::env::var_os(crate::replay::LOUD).is_some() {
            println!(
                "step {number} ({index}), {} crashes before: {step:?}",
                life.path.len()
            );
        }
        match step {
            RunStep::Do(action) => {
                let (world, system) = (&life.world, life.system.as_mut().expect("the store is open"));
                let result = watch(|| self.story.apply(system, action, world));
                self.judge_points(life, number, CrashHistory::NONE, CreationState::Done)?;
                let at = EventLocation {
                    step: number,
                    path: &life.path,
                };
                match result {
                    Ok(Ok(())) => {}
                    Ok(Err(StoryError {
                        cause: StoryErrorKind::Full,
                        ..
                    })) => self.coverage.hit("full"),
                    Ok(Err(trouble)) => return Err(at.bad(&format!("{action:?}"), trouble)),
                    Err(panic) => return Err(at.bad(&format!("{action:?} panicked"), panic)),
                }
                if number.is_multiple_of(self.settings.verify_every.max(1)) {
                    self.verify(life, number)?;
                }
                Ok(())
            }
            RunStep::Reopen => self.reopen(life, number),
            RunStep::Crash(survival) => self.crash(life, number, index, *survival),
        }
    }

    /// Compares the contents of the open store with those of the reference model. Reads during this
    /// comparison can also be crash points of the current life. Their images are judged here,
    /// because the next step may be a crash.
    pub(super) fn verify(&mut self, life: &mut StoreLife<S>, number: usize) -> Result<(), LifeFailure> {
        let at = EventLocation {
            step: number,
            path: &life.path,
        };
        let system = life.system.as_mut().expect("the store is open");
        let found = self.inspect(system, &at, "reading the open store")?;
        let judged = life
            .world
            .ledger
            .with(|reference| reference.judge(CrashHistory::NONE, &found));
        judged.map_err(|violation| at.bad("the open store is wrong", violation))?;
        self.judge_points(life, number, CrashHistory::NONE, CreationState::Done)
    }

    fn reopen(&mut self, life: &mut StoreLife<S>, number: usize) -> Result<(), LifeFailure> {
        let system = life.system.take().expect("the store is open");
        let closed = watch(|| self.story.close(system, &life.world));
        self.judge_points(life, number, CrashHistory::NONE, CreationState::Done)?;
        let at = EventLocation {
            step: number,
            path: &life.path,
        };
        match closed {
            Ok(Ok(())) => {}
            Ok(Err(trouble)) => return Err(at.bad("closing", trouble)),
            Err(panic) => return Err(at.bad("closing panicked", panic)),
        }
        life.world.directory = self.settings.directory(&life.machine);
        let opened = watch(|| self.story.open(&life.world));
        self.judge_points(life, number, CrashHistory::NONE, CreationState::Done)?;
        let at = EventLocation {
            step: number,
            path: &life.path,
        };
        match opened {
            Ok(Ok(system)) => life.system = Some(system),
            Ok(Err(trouble)) => return Err(at.bad("opening after closing", trouble)),
            Err(panic) => return Err(at.bad("opening after closing panicked", panic)),
        }
        self.coverage.hit("reopen");
        self.verify(life, number)
    }

    /// Crashes the machine or the process. The run continues with the image that the crash leaves.
    fn crash(
        &mut self,
        life: &mut StoreLife<S>,
        number: usize,
        index: usize,
        survival: CrashSurvival,
    ) -> Result<(), LifeFailure> {
        let seed = seeded(self.seed, &(index as u64).to_le_bytes());
        let image = life.machine.image(survival, seed);
        let before = life.world.ledger.clone();
        let crash = crash_leaving(survival);
        life.machine.clear_hook();
        life.machine.crash();
        let system = life.system.take();
        // Drop the store while all its device operations fail, as on a machine that has crashed.
        let dropped = watch(|| drop(system));
        let at = EventLocation {
            step: number,
            path: &life.path,
        };
        dropped.map_err(|panic| at.bad("dropping the store after a crash panicked", panic))?;
        life.probe.follow(Some(before.clone()));
        life.probe.watch(&image);
        life.world = self.world(&image, CommitLedger::default());
        life.machine = image;
        let opened = watch(|| self.story.open(&life.world));
        let fresh = std::mem::replace(&mut life.world.ledger, before.clone());
        self.judge_points(life, number, crash, CreationState::Done)?;
        let at = EventLocation {
            step: number,
            path: &life.path,
        };
        let mut system = match opened {
            Ok(Ok(system)) => system,
            Ok(Err(trouble)) => return Err(at.bad(&format!("opening after {survival:?}"), trouble)),
            Err(panic) => return Err(at.bad(&format!("opening after {survival:?} panicked"), panic)),
        };
        drop(fresh);
        let found = self.inspect(&mut system, &at, "reading after a crash")?;
        let judged = before.with(|reference| match reference.judge(crash, &found) {
            Ok(survivors) => Ok(reference.after(&reference.view(), crash, &survivors, &found)),
            Err(violation) => Err(violation),
        });
        let after = judged.map_err(|violation| at.bad(&format!("after {survival:?}"), violation))?;
        life.world.ledger = CommitLedger::on(after);
        life.probe.follow(Some(life.world.ledger.clone()));
        life.system = Some(system);
        self.coverage.hit("crash and go on");
        Ok(())
    }

    /// Ends a life: verifies its contents for the last time, and judges a crash after its last
    /// operation.
    pub(super) fn end(&mut self, mut life: StoreLife<S>, number: usize) -> Result<(), LifeFailure> {
        self.verify(&mut life, number)?;
        life.probe.finish(&life.machine);
        self.judge_points(&mut life, number, CrashHistory::NONE, CreationState::Done)?;
        let at = EventLocation {
            step: number,
            path: &life.path,
        };
        let system = life.system.take().expect("the store is open");
        let closed = watch(|| self.story.close(system, &life.world));
        self.tally.operations += life.probe.calls();
        self.tally.trace ^= life.probe.trace();
        life.machine.clear_hook();
        match closed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(trouble)) => Err(at.bad("closing", trouble)),
            Err(panic) => Err(at.bad("closing panicked", panic)),
        }
    }

    /// Recovers and judges every crash image taken since the last call. `opening` is the crash that
    /// the life is recovering from, if any.
    pub(super) fn judge_points(
        &mut self,
        life: &mut StoreLife<S>,
        number: usize,
        opening: CrashHistory,
        creation: CreationState,
    ) -> Result<(), LifeFailure> {
        let ledger = life.world.ledger.clone();
        for point in life.probe.take() {
            let mut path = life.path.clone();
            path.push(point.turn);
            let crash = opening.then(point.crash());
            let case = ImageCase {
                view: point.view,
                crash,
                creation,
                path,
                step: number,
                amid: point.amid,
            };
            ledger.with(|reference| self.revive(reference, case, point.image))?;
        }
        ledger.settle();
        Ok(())
    }
}

/// Whether the caller was told that the store was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CreationState {
    UnderWay,
    Done,
}
