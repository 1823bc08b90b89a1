//! Recovers a crash image: opens the store, reads and judges its contents, and checks its
//! structures. The recovery itself is crashed in turn, and some recovered stores execute more
//! steps.

use super::life::{CreationState, EventLocation, StoreLife};
use super::panics::watch;
use super::probe::{CrashSampling, DeviceProbe};
use super::{CrashExplorer, CrashPlan, LifeFailure};
use crate::reference::{CrashHistory, PromiseSnapshot, ReferenceModel, StoreContents};
use crate::replay::PlannedCrash;
use crate::story::{CommitLedger, RunStep, Story, StoryErrorKind};
use alluvium_base::checksum::seeded;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The circumstances of a crash image, which determine how it is judged.
pub(super) struct ImageCase {
    pub(super) view: Arc<PromiseSnapshot>,
    pub(super) crash: CrashHistory,
    pub(super) creation: CreationState,
    /// The crashes that produced the image, in order. The last one left it.
    pub(super) path: Vec<PlannedCrash>,
    pub(super) step: usize,
    /// What the story was doing at the crash, if it has said so.
    pub(super) amid: Option<&'static str>,
}

impl<S: Story> CrashExplorer<'_, S> {
    /// Opens a crash image and judges the recovered contents.
    pub(super) fn revive(
        &mut self,
        reference: &ReferenceModel,
        case: ImageCase,
        image: SimDirectory,
    ) -> Result<(), LifeFailure> {
        let turn = *case.path.last().expect("an image comes from a crash");
        if !self.is_new(&case, &turn, &image) {
            return Ok(());
        }
        self.tally.points += 1;
        self.tally.add_depth(case.path.len() - 1, 1);
        if let Some(amid) = case.amid {
            self.coverage.hit(amid);
        }
        if case.path.len() > 1 {
            self.coverage.hit("nested recovery");
        }
        let choice = self.choice(case.path.len(), turn.seed);
        let hooked = !matches!(choice, CrashSampling::Nothing);
        let probe = DeviceProbe::new(choice, Arc::clone(&case.view));
        if hooked {
            probe.watch(&image);
        }
        let world = self.world(&image, CommitLedger::default());
        let opened = watch(|| self.story.open(&world));
        let mut life = StoreLife {
            machine: image,
            world,
            system: None,
            probe,
            path: case.path,
        };
        let at = EventLocation {
            step: case.step,
            path: &life.path,
        };
        let mut system = match opened {
            Ok(Ok(system)) => system,
            Ok(Err(trouble))
                if trouble.cause == StoryErrorKind::NotAStore && case.creation == CreationState::UnderWay =>
            {
                self.coverage.hit("crash before the store existed");
                return self.create_again(&life, case.step);
            }
            Ok(Err(trouble)) => return Err(at.bad("opening after a crash", trouble)),
            Err(panic) => return Err(at.bad("opening after a crash panicked", panic)),
        };
        let found = self.inspect(&mut system, &at, "reading after a crash")?;
        self.tally.trace = seeded(self.tally.trace, &found.hash().to_le_bytes());
        let survivors = reference
            .judge_at(&case.view, case.crash, &found)
            .map_err(|violation| at.bad("after a crash", violation))?;
        life.system = Some(system);
        self.judge_nested(&mut life, reference, case.crash, case.creation, case.step)?;
        if turn
            .seed
            .is_multiple_of(u64::from(self.settings.second_life_every.max(1)))
        {
            let after = reference.after(&case.view, case.crash, &survivors, &found);
            self.use_after_recovery(life, after, turn.seed, case.step)?;
        }
        Ok(())
    }

    /// Returns whether a crash image must be judged. It need not be if the limit is reached, or if
    /// a sampled run has already judged an equal image by equal promises. After a `kill -9`, images
    /// of different device operations never count as equal, because equal contents may differ in
    /// what is durable.
    fn is_new(&mut self, case: &ImageCase, turn: &PlannedCrash, image: &SimDirectory) -> bool {
        if self.tally.points >= self.limit {
            return false;
        }
        let content = image.content_hash();
        let mut hasher = DefaultHasher::new();
        (content, case.crash, &case.view).hash(&mut hasher);
        if turn.survival == CrashSurvival::Process {
            turn.call.hash(&mut hasher);
        }
        let fresh = self.judged.insert(hasher.finish());
        if !fresh && matches!(self.plan, CrashPlan::Sample) {
            self.tally.repeats += 1;
            return false;
        }
        self.tally.trace = seeded(self.tally.trace, &content.to_le_bytes());
        self.tally.distinct.insert(content);
        true
    }

    /// Checks the structures of a store, and returns its contents.
    pub(super) fn inspect(
        &self,
        system: &mut S::System,
        at: &EventLocation<'_>,
        what: &str,
    ) -> Result<StoreContents, LifeFailure> {
        match watch(|| self.story.check(system)) {
            Ok(Ok(violations)) if violations.is_empty() => {}
            Ok(Ok(violations)) => return Err(at.bad(what, violations.join("; "))),
            Ok(Err(trouble)) => return Err(at.bad(what, trouble)),
            Err(panic) => return Err(at.bad(&format!("{what} panicked"), panic)),
        }
        match watch(|| self.story.contents(system)) {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(trouble)) => Err(at.bad(what, trouble)),
            Err(panic) => Err(at.bad(&format!("{what} panicked"), panic)),
        }
    }

    /// Judges the crash images taken during the recovery that has just ended.
    fn judge_nested(
        &mut self,
        life: &mut StoreLife<S>,
        reference: &ReferenceModel,
        crash: CrashHistory,
        creation: CreationState,
        step: usize,
    ) -> Result<(), LifeFailure> {
        for point in life.probe.take() {
            let mut path = life.path.clone();
            path.push(point.turn);
            let crash = crash.then(point.crash());
            let case = ImageCase {
                view: point.view,
                crash,
                creation,
                path,
                step,
                amid: point.amid,
            };
            self.revive(reference, case, point.image)?;
        }
        Ok(())
    }

    /// After a crash during the creation of a store, checks that creation can be repeated and
    /// yields an empty store.
    fn create_again(&mut self, life: &StoreLife<S>, step: usize) -> Result<(), LifeFailure> {
        life.machine.clear_hook();
        let at = EventLocation {
            step,
            path: &life.path,
        };
        let mut system = match watch(|| self.story.create(&life.world)) {
            Ok(Ok(system)) => system,
            Ok(Err(trouble)) => return Err(at.bad("creating after an interrupted creation", trouble)),
            Err(panic) => return Err(at.bad("creating after an interrupted creation panicked", panic)),
        };
        let found = self.inspect(&mut system, &at, "reading a new store")?;
        if found.is_empty() {
            return Ok(());
        }
        Err(at.bad(
            "creating after an interrupted creation",
            format!("{} keys are there", found.len()),
        ))
    }

    /// Executes more steps on a recovered store, during which it may crash again.
    fn use_after_recovery(
        &mut self,
        mut life: StoreLife<S>,
        after: ReferenceModel,
        seed: u64,
        step: usize,
    ) -> Result<(), LifeFailure> {
        self.coverage.hit("second life");
        let ledger = CommitLedger::on(after);
        life.probe.follow(Some(ledger.clone()));
        life.world.ledger = ledger;
        for action in self.story.steps(seed, self.settings.second_life_steps) {
            if !matches!(action, RunStep::Crash(_)) {
                self.step(&mut life, step, 0, &action)?;
            }
        }
        self.end(life, step)
    }
}
