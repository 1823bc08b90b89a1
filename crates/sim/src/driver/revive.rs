//! Revival of one image: it is opened, read, checked and judged. Its recovery is crashed in turn,
//! and some images are used further.

use super::life::{Creation, Life, Where};
use super::panics::watch;
use super::probe::{Choice, Probe};
use super::{Bad, Explorer, Plan};
use crate::reference::{Contents, Crash, Reference, View};
use crate::replay::Turn;
use crate::story::{Cause, Ledger, Step, Story};
use alluvium_base::checksum::seeded;
use alluvium_device::simulated::{SimDirectory, Survival};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The conditions by which an image is judged.
pub(super) struct Case {
    pub(super) view: Arc<View>,
    pub(super) crash: Crash,
    pub(super) creation: Creation,
    /// The crashes that led to it. The last one made the image.
    pub(super) path: Vec<Turn>,
    pub(super) step: usize,
    /// The activity that the story was in the middle of.
    pub(super) amid: Option<&'static str>,
}

impl<S: Story> Explorer<'_, S> {
    /// Opens an image and judges its contents.
    pub(super) fn revive(
        &mut self,
        reference: &Reference,
        case: Case,
        image: SimDirectory,
    ) -> Result<(), Bad> {
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
        let hooked = !matches!(choice, Choice::Nothing);
        let probe = Probe::new(choice, Arc::clone(&case.view));
        if hooked {
            probe.watch(&image);
        }
        let world = self.world(&image, Ledger::default());
        let opened = watch(|| self.story.open(&world));
        let mut life = Life {
            machine: image,
            world,
            system: None,
            probe,
            path: case.path,
        };
        let at = Where {
            step: case.step,
            path: &life.path,
        };
        let mut system = match opened {
            Ok(Ok(system)) => system,
            Ok(Err(trouble)) if trouble.cause == Cause::NotAStore && case.creation == Creation::UnderWay => {
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
            self.live_on(life, after, turn.seed, case.step)?;
        }
        Ok(())
    }

    /// Returns whether no equal image was judged by equal promises. Images after a `kill -9` also
    /// differ by their call, because equal contents may differ in durability.
    fn is_new(&mut self, case: &Case, turn: &Turn, image: &SimDirectory) -> bool {
        if self.tally.points >= self.limit {
            return false;
        }
        let content = image.content_hash();
        let mut hasher = DefaultHasher::new();
        (content, case.crash, &case.view).hash(&mut hasher);
        if turn.survival == Survival::Process {
            turn.call.hash(&mut hasher);
        }
        let fresh = self.judged.insert(hasher.finish());
        if !fresh && matches!(self.plan, Plan::Sample) {
            self.tally.repeats += 1;
            return false;
        }
        self.tally.trace = seeded(self.tally.trace, &content.to_le_bytes());
        self.tally.distinct.insert(content);
        true
    }

    /// Returns the contents of a store, after a check of its structures.
    pub(super) fn inspect(
        &self,
        system: &mut S::System,
        at: &Where<'_>,
        what: &str,
    ) -> Result<Contents, Bad> {
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

    /// Judges crashes within the recovery that was just done.
    fn judge_nested(
        &mut self,
        life: &mut Life<S>,
        reference: &Reference,
        crash: Crash,
        creation: Creation,
        step: usize,
    ) -> Result<(), Bad> {
        for point in life.probe.take() {
            let mut path = life.path.clone();
            path.push(point.turn);
            let crash = crash.then(point.crash());
            let case = Case {
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

    /// After an interrupted creation, creating again must succeed and give an empty store.
    fn create_again(&mut self, life: &Life<S>, step: usize) -> Result<(), Bad> {
        life.machine.clear_hook();
        let at = Where {
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

    /// Uses the store further after its recovery. It may crash again.
    fn live_on(&mut self, mut life: Life<S>, after: Reference, seed: u64, step: usize) -> Result<(), Bad> {
        self.coverage.hit("second life");
        let ledger = Ledger::on(after);
        life.probe.follow(Some(ledger.clone()));
        life.world.ledger = ledger;
        for action in self.story.steps(seed, self.settings.second_life_steps) {
            if !matches!(action, Step::Crash(_)) {
                self.step(&mut life, step, 0, &action)?;
            }
        }
        self.end(life, step)
    }
}
