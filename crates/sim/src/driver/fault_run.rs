//! A simulation run on a device that injects one fault. The store is checked during the fault and
//! after it.

use super::life::{CreationState, EventLocation, StoreLife};
use super::panics::watch;
use super::probe::{CrashSampling, DeviceProbe, crash_leaving};
use super::revive::ImageCase;
use super::{CrashExplorer, LifeFailure};
use crate::reference::{CrashHistory, PromiseViolation, StoreContents};
use crate::replay::{FaultAt, FaultKind, FaultLasting, PlannedCrash};
use crate::story::{CommitLedger, RunStep, Story, StoryError, StoryErrorKind};
use alluvium_base::checksum::seeded;
use alluvium_device::DeviceOperation;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use std::sync::Arc;

/// A disk size in bytes that no run uses up.
pub(super) const AMPLE: u64 = 1 << 44;

/// Number of steps that a store executes after it was reopened because of a fault.
const SECOND_LIFE: usize = 8;

/// The state of a simulation run with an injected fault.
struct FaultRun {
    fault: FaultAt,
    /// Whether the store has returned an error after which it must not acknowledge any more
    /// commits.
    refuses: bool,
}

impl FaultRun {
    fn met(&self, machine: &SimDirectory, trouble: &StoryError) -> bool {
        self.fault.kind == FaultKind::Capacity && trouble.cause == StoryErrorKind::Full
            || machine.faults_hit() > 0
    }

    /// Returns whether the store must stop all writes after a fault of this kind.
    fn ends_writing(&self) -> bool {
        self.fault.kind == FaultKind::Io
            && matches!(
                self.fault.operation,
                DeviceOperation::Write | DeviceOperation::Sync | DeviceOperation::SyncDirectory
            )
    }

    /// Returns whether the store may stop all writes after a fault of this kind. Space is allocated
    /// before it is written to, so if a write fails on a full disk, the file system has broken its
    /// promise.
    fn may_end_writing(&self) -> bool {
        self.fault.kind == FaultKind::Full && self.fault.operation == DeviceOperation::Write
    }

    /// Returns whether reads fail too.
    fn fails_reads(&self) -> bool {
        self.fault.lasting == FaultLasting::Sticky
            && matches!(
                self.fault.operation,
                DeviceOperation::Read | DeviceOperation::Open
            )
    }

    /// Returns `Ok` if the injected fault explains this error from the store, and a description of
    /// the problem otherwise.
    fn explains(&self, machine: &SimDirectory, trouble: &StoryError) -> Result<(), String> {
        let allowed = match trouble.cause {
            StoryErrorKind::Full => self.fault.kind != FaultKind::Io,
            StoryErrorKind::Device | StoryErrorKind::Part => self.fault.kind == FaultKind::Io,
            StoryErrorKind::Poisoned => self.fault.kind == FaultKind::Io || self.may_end_writing(),
            StoryErrorKind::Damaged | StoryErrorKind::NotAStore | StoryErrorKind::Wrong => false,
        };
        match (self.met(machine, trouble), allowed) {
            (true, true) => Ok(()),
            (true, false) => Err(format!("the wrong error for this fault: {trouble}")),
            (false, _) => Err(format!("an error without a fault: {trouble}")),
        }
    }
}

impl<S: Story> CrashExplorer<'_, S> {
    /// Runs the steps on a machine that injects the fault. Returns whether the fault occurred.
    pub(super) fn run_failing(
        &mut self,
        steps: &[(usize, RunStep<S::Action>)],
        fault: FaultAt,
    ) -> Result<bool, LifeFailure> {
        let machine = SimDirectory::new(self.seed);
        fault.inject(&machine);
        let mut failing = FaultRun {
            fault,
            refuses: false,
        };
        let ledger = CommitLedger::default();
        let view = Arc::new(ledger.with(|reference| reference.view()));
        let probe = DeviceProbe::new(CrashSampling::Nothing, view);
        probe.watch(&machine);
        let world = self.world(&machine, ledger);
        let mut life = StoreLife {
            machine,
            world,
            system: None,
            probe,
            path: Vec::new(),
        };
        self.create_failing(&mut life, &failing)?;
        for (number, (_, step)) in steps.iter().enumerate() {
            self.step_failing(&mut life, &mut failing, number, step)?;
        }
        let last = steps.len().saturating_sub(1);
        self.space = self.space.max(life.machine.used());
        let met = life.machine.faults_hit() > 0 || fault.kind == FaultKind::Capacity;
        self.resume(&mut life, &failing, last)?;
        self.judge_ends(&mut life, last)?;
        Ok(met)
    }

    /// Creates the store. The first attempt may fail because of the fault. Once the fault is
    /// removed, creating or opening the store must succeed.
    fn create_failing(&mut self, life: &mut StoreLife<S>, failing: &FaultRun) -> Result<(), LifeFailure> {
        let at = EventLocation { step: 0, path: &[] };
        for _ in 0..2 {
            match watch(|| self.story.create(&life.world)) {
                Ok(Ok(system)) => {
                    life.system = Some(system);
                    return Ok(());
                }
                Ok(Err(trouble)) => {
                    let explained = failing.explains(&life.machine, &trouble);
                    explained.map_err(|why| at.bad("creating", why))?;
                }
                Err(panic) => return Err(at.bad("creating panicked", panic)),
            }
            self.coverage.hit("creation failed");
            self.heal(life);
            if let Ok(Ok(system)) = watch(|| self.story.open(&life.world)) {
                life.system = Some(system);
                return Ok(());
            }
        }
        Err(at.bad("creating", "it fails without a fault, after one that failed"))
    }

    /// Removes the fault and reopens the store's directory.
    fn heal(&self, life: &mut StoreLife<S>) {
        life.machine.clear_faults();
        life.machine.set_capacity(AMPLE);
        life.world.directory = self.settings.directory(&life.machine);
    }

    fn step_failing(
        &mut self,
        life: &mut StoreLife<S>,
        failing: &mut FaultRun,
        number: usize,
        step: &RunStep<S::Action>,
    ) -> Result<(), LifeFailure> {
        if std::env::var_os(crate::replay::LOUD).is_some() {
            println!("step {number}: {step:?}");
        }
        let action = match step {
            RunStep::Do(action) => action,
            RunStep::Reopen if life.machine.faults_hit() == 0 => {
                return self.reopen_failing(life, failing, number);
            }
            RunStep::Reopen | RunStep::Crash(_) => return Ok(()),
        };
        let at = EventLocation {
            step: number,
            path: &[],
        };
        let acknowledged = |life: &StoreLife<S>| life.world.ledger.with(|reference| reference.acknowledged());
        let before = acknowledged(life);
        let (world, system) = (&life.world, life.system.as_mut().expect("the store is open"));
        let result = watch(|| self.story.apply(system, action, world));
        life.world.ledger.settle();
        if failing.refuses && acknowledged(life) > before {
            let text = format!(
                "{action:?} was acknowledged after a failed {}",
                failing.fault.operation
            );
            return Err(at.bad("not refused", text));
        }
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(trouble)) => {
                let explained = failing.explains(&life.machine, &trouble);
                explained.map_err(|why| at.bad(&format!("{action:?}"), why))?;
                failing.refuses |= failing.ends_writing()
                    && life.machine.faults_hit() > 0
                    && trouble.cause != StoryErrorKind::Part;
                self.coverage.hit("an action failed");
                if failing.fails_reads() {
                    Ok(())
                } else {
                    self.verify_failing(life, failing, number)
                }
            }
            Err(panic) => Err(at.bad(&format!("{action:?} panicked"), panic)),
        }
    }

    /// Closes and reopens the store. Both may fail because of the fault. Once the fault is removed,
    /// opening the store must succeed.
    fn reopen_failing(
        &mut self,
        life: &mut StoreLife<S>,
        failing: &mut FaultRun,
        number: usize,
    ) -> Result<(), LifeFailure> {
        let system = life.system.take().expect("the store is open");
        let at = EventLocation {
            step: number,
            path: &[],
        };
        let closed = watch(|| self.story.close(system, &life.world));
        let closed = closed.map_err(|panic| at.bad("closing panicked", panic))?;
        let mut failed = closed.is_err();
        if let Err(trouble) = closed {
            let explained = failing.explains(&life.machine, &trouble);
            explained.map_err(|why| at.bad("closing", why))?;
        }
        life.world.directory = self.settings.directory(&life.machine);
        for _ in 0..2 {
            match watch(|| self.story.open(&life.world)) {
                Ok(Ok(system)) => {
                    life.system = Some(system);
                    break;
                }
                Ok(Err(trouble)) => {
                    let explained = failing.explains(&life.machine, &trouble);
                    explained.map_err(|why| at.bad("opening", why))?;
                }
                Err(panic) => return Err(at.bad("opening panicked", panic)),
            }
            failed = true;
            self.coverage.hit("opening failed");
            self.heal(life);
        }
        let Some(mut system) = life.system.take() else {
            return Err(at.bad("opening", "it fails without a fault, after one that failed"));
        };
        let crash = if failed {
            CrashHistory::PROCESS
        } else {
            CrashHistory::NONE
        };
        let found = self.read_failing(life, &mut system, failing, &at)?;
        life.system = Some(system);
        let judged = life.world.ledger.with(|reference| {
            let survivors = reference.judge(crash, &found)?;
            Ok(failed.then(|| reference.after(&reference.view(), crash, &survivors, &found)))
        });
        match judged {
            Ok(None) => Ok(()),
            Ok(Some(after)) => {
                life.world.ledger = CommitLedger::on(after);
                Ok(())
            }
            Err(violation) => {
                let violation: PromiseViolation = violation;
                Err(at.bad("after opening", violation))
            }
        }
    }

    /// Reads the whole contents of a store. The first attempt may fail because of the fault, but
    /// the second must succeed.
    fn read_failing(
        &self,
        life: &StoreLife<S>,
        system: &mut S::System,
        failing: &FaultRun,
        at: &EventLocation<'_>,
    ) -> Result<StoreContents, LifeFailure> {
        let mut last = String::new();
        for _ in 0..2 {
            match watch(|| self.story.contents(system)) {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(trouble)) => {
                    let explained = failing.explains(&life.machine, &trouble);
                    explained.map_err(|why| at.bad("reading", why))?;
                    last = trouble.to_string();
                }
                Err(panic) => return Err(at.bad("reading panicked", panic)),
            }
            self.coverage.hit("a read failed");
            life.machine.clear_faults();
        }
        let why = format!("it fails without a fault, after one that failed: {last}");
        Err(at.bad("reading", why))
    }

    /// Compares the contents of the open store with those of the reference model.
    fn verify_failing(
        &self,
        life: &mut StoreLife<S>,
        failing: &FaultRun,
        number: usize,
    ) -> Result<(), LifeFailure> {
        let at = EventLocation {
            step: number,
            path: &[],
        };
        let mut system = life.system.take().expect("the store is open");
        let found = self.read_failing(life, &mut system, failing, &at)?;
        life.system = Some(system);
        let judged = life
            .world
            .ledger
            .with(|reference| reference.judge(CrashHistory::NONE, &found));
        judged
            .map(|_| ())
            .map_err(|violation| at.bad("the store is wrong after an error", violation))
    }

    /// Removes the fault and gives the disk ample space. If writes must continue after this kind of
    /// fault, such as a full disk, checks that they now succeed without reopening the store.
    fn resume(
        &mut self,
        life: &mut StoreLife<S>,
        failing: &FaultRun,
        last: usize,
    ) -> Result<(), LifeFailure> {
        life.machine.clear_faults();
        life.machine.set_capacity(AMPLE);
        if failing.fault.kind == FaultKind::Io || failing.may_end_writing() {
            return Ok(());
        }
        for step in self.story.steps(seeded(self.seed, b"resume"), 6) {
            let RunStep::Do(action) = step else { continue };
            let at = EventLocation {
                step: last,
                path: &[],
            };
            let system = life.system.as_mut().expect("the store is open");
            match watch(|| self.story.apply(system, &action, &life.world)) {
                Ok(Ok(())) => {}
                Ok(Err(trouble)) => {
                    return Err(at.bad(&format!("{action:?} although there is room again"), trouble));
                }
                Err(panic) => return Err(at.bad(&format!("{action:?} panicked"), panic)),
            }
        }
        self.verify(life, last)
    }

    /// Reopens the store without rebooting the machine, as a user would after a failure. The store
    /// acknowledges more commits, and then the machine loses power. This catches a store that,
    /// after a failed sync, wrongly treats data in the page cache as durable.
    fn judge_second_life(&mut self, life: &StoreLife<S>, last: usize) -> Result<(), LifeFailure> {
        let seed = seeded(self.seed, b"second life");
        let first = PlannedCrash {
            call: u64::MAX,
            survival: CrashSurvival::Process,
            seed: seed | 1,
        };
        let path = [first];
        let at = EventLocation {
            step: last,
            path: &path,
        };
        let machine = life.machine.image(CrashSurvival::Process, first.seed);
        let mut world = self.world(&machine, CommitLedger::default());
        let opened = watch(|| self.story.open(&world));
        let opened = opened.map_err(|panic| at.bad("opening after a fault panicked", panic))?;
        let mut system = opened.map_err(|trouble| at.bad("opening after a fault", trouble))?;
        let found = self.inspect(&mut system, &at, "reading after a fault")?;
        let after = life.world.ledger.with(|reference| {
            let survivors = reference.judge(CrashHistory::PROCESS, &found)?;
            Ok(reference.after(&reference.view(), CrashHistory::PROCESS, &survivors, &found))
        });
        let after = after.map_err(|violation: PromiseViolation| at.bad("after a fault", violation))?;
        world.ledger = CommitLedger::on(after);
        for step in self.story.steps(seed, SECOND_LIFE) {
            let RunStep::Do(action) = step else { continue };
            let applied = watch(|| self.story.apply(&mut system, &action, &world));
            let what = format!("{action:?} after a fault and a reopening");
            let applied = applied.map_err(|panic| at.bad(&what, panic))?;
            applied.map_err(|trouble| at.bad(&what, trouble))?;
            world.ledger.settle();
        }
        self.coverage.hit("second life after a fault");
        for (call, survival) in CrashSurvival::POWER_LOSS.into_iter().enumerate() {
            let turn = PlannedCrash {
                call: u64::MAX,
                survival,
                seed: seeded(seed, &[call as u8]) | 1,
            };
            let case = ImageCase {
                view: Arc::new(world.ledger.with(|reference| reference.view())),
                crash: crash_leaving(survival),
                creation: CreationState::Done,
                path: vec![first, turn],
                step: last,
                amid: None,
            };
            let image = machine.image(survival, turn.seed);
            world
                .ledger
                .with(|reference| self.revive(reference, case, image))?;
        }
        Ok(())
    }

    /// Checks that the acknowledged commits survive every kind of crash after the fault.
    fn judge_ends(&mut self, life: &mut StoreLife<S>, last: usize) -> Result<(), LifeFailure> {
        let ledger = life.world.ledger.clone();
        for (call, survival) in CrashSurvival::ALL.into_iter().enumerate() {
            let turn = PlannedCrash {
                call: u64::MAX,
                survival,
                seed: seeded(self.seed, &[call as u8]) | 1,
            };
            let image = life.machine.image(survival, turn.seed);
            let case = ImageCase {
                view: Arc::new(ledger.with(|reference| reference.view())),
                crash: crash_leaving(survival),
                creation: CreationState::Done,
                path: vec![turn],
                step: last,
                amid: None,
            };
            ledger.with(|reference| self.revive(reference, case, image))?;
        }
        self.judge_second_life(life, last)?;
        let system = life.system.take();
        let at = EventLocation {
            step: last,
            path: &[],
        };
        watch(|| drop(system)).map_err(|panic| at.bad("dropping the store panicked", panic))
    }
}
