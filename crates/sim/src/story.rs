//! What a system must offer to be simulated: the one trait, and the words it uses.

use crate::Coverage;
use crate::reference::{Contents, Durability, Reference, Write};
use alluvium_base::ErrorKind;
use alluvium_device::Directory;
use alluvium_device::simulated::Survival;
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<A> {
    /// An action of the story.
    Do(A),
    /// The store is closed and opened.
    Reopen,
    /// Process or machine die; the run goes on with what they left.
    Crash(Survival),
}

/// A system under test, with what is done to it.
///
/// A story is stateless: everything that changes lives in its `System`, in the directory and in the
/// ledger. It must be deterministic: the same seed gives the same steps, and the same steps the
/// same device calls.
pub trait Story: Send + Sync + 'static {
    /// What a user, or a background worker, may do.
    type Action: Clone + fmt::Debug + Send + Sync;
    /// An open store.
    type System;

    /// A short name, for replay lines.
    fn name(&self) -> &'static str;

    /// The steps of a run. A step must make sense without the ones before it: the shrinker leaves
    /// some out.
    fn steps(&self, seed: u64, count: usize) -> Vec<Step<Self::Action>>;

    /// Creates a store in a directory that holds none (or what an interrupted creation left).
    ///
    /// # Errors
    /// What went wrong.
    fn create(&self, world: &World) -> Result<Self::System, Trouble>;

    /// Opens the store.
    ///
    /// # Errors
    /// [`Cause::NotAStore`] when its creation was never finished, or what else went wrong.
    fn open(&self, world: &World) -> Result<Self::System, Trouble>;

    /// Does one action, telling the ledger of each commit before it begins and when it is answered.
    ///
    /// # Errors
    /// What went wrong. The ledger must have been told what became of the commit (in doubt, or
    /// withdrawn).
    fn apply(&self, system: &mut Self::System, action: &Self::Action, world: &World) -> Result<(), Trouble>;

    /// Everything that a scan shows.
    ///
    /// # Errors
    /// What went wrong.
    fn contents(&self, system: &mut Self::System) -> Result<Contents, Trouble>;

    /// Walks every structure and returns what is wrong with it, a sentence each.
    ///
    /// # Errors
    /// What went wrong while walking.
    fn check(&self, system: &mut Self::System) -> Result<Vec<String>, Trouble>;

    /// Closes the store in order.
    ///
    /// # Errors
    /// What went wrong.
    fn close(&self, system: Self::System, world: &World) -> Result<(), Trouble>;
}

/// What a story works with.
#[derive(Clone, Debug)]
pub struct World {
    /// Where the store lives. Everything that a story does to a device goes through it.
    pub directory: Arc<dyn Directory>,
    /// Where commits are noted.
    pub ledger: Ledger,
    /// Where interesting situations are counted.
    pub coverage: Coverage,
    /// The seed of the run: the same whenever the store is opened again.
    pub seed: u64,
}

/// Where a story notes its commits; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    reference: Reference,
    withdrawn: Option<usize>,
    amid: Option<&'static str>,
}

impl Ledger {
    pub(crate) fn on(reference: Reference) -> Ledger {
        Ledger {
            state: Arc::new(Mutex::new(State {
                reference,
                ..State::default()
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A commit begins: from now on a crash may leave it. Returns its number.
    ///
    /// # Panics
    /// When the action withdrew a commit before: an action begins no commit after a refused one.
    pub fn begin(&self, writes: &[Write]) -> usize {
        let mut state = self.state();
        assert_eq!(
            state.withdrawn, None,
            "an action begins no commit after a refused one"
        );
        state.reference.begin(writes)
    }

    /// The system answered that commit `number` holds.
    pub fn acknowledge(&self, number: usize, durability: Durability) {
        self.state().reference.acknowledge(number, durability);
    }

    /// The system answered with an error that leaves open what became of commit `number`.
    pub fn doubt(&self, number: usize) {
        self.state().reference.doubt(number);
    }

    /// The system refused commit `number` before it changed anything.
    pub fn withdraw(&self, number: usize) {
        self.state().withdrawn = Some(number);
    }

    /// The system answered that every commit up to `number` is durable.
    pub fn cover(&self, number: usize) {
        self.state().reference.cover(number);
    }

    /// What the system is in the middle of from now on, if anything: crashes meanwhile are counted
    /// under this name.
    pub fn amid(&self, what: Option<&'static str>) {
        self.state().amid = what;
    }

    /// What the system is in the middle of.
    pub(crate) fn under_way(&self) -> Option<&'static str> {
        self.state().amid
    }

    /// The number of the newest commit.
    #[must_use]
    pub fn newest(&self) -> usize {
        self.state().reference.newest()
    }

    /// Whether a read of `key` that answered `value` is right.
    #[must_use]
    pub fn reads(&self, key: &[u8], value: Option<&[u8]>) -> bool {
        self.state().reference.reads(key, value)
    }

    /// Compares what a read of `key` answered with the reference.
    ///
    /// # Errors
    /// When the answer is wrong.
    pub fn expect(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        if self.reads(key, value) {
            return Ok(());
        }
        Err(Trouble::wrong(format!("a read of {}", key.escape_ascii())))
    }

    /// Notes what became of commit `number`: it holds, it was refused without a change, or it is in
    /// doubt.
    ///
    /// # Errors
    /// The answer's own.
    pub fn answer(
        &self,
        number: usize,
        durability: Durability,
        answer: Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        match &answer {
            Ok(()) => self.acknowledge(number, durability),
            Err(trouble) if trouble.cause == Cause::Full => self.withdraw(number),
            Err(_) => self.doubt(number),
        }
        answer
    }

    /// Looks at the reference.
    pub fn with<R>(&self, look: impl FnOnce(&Reference) -> R) -> R {
        look(&self.state().reference)
    }

    /// Removes a withdrawn commit, once every crash before its refusal was judged.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        if let Some(number) = state.withdrawn.take() {
            state.reference.withdraw(number);
        }
    }
}

/// What kind of error a system answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The disk is full; nothing was changed.
    Full,
    /// The device failed.
    Device,
    /// The device of a part failed, without which the system goes on: writes are acknowledged
    /// after it as before.
    Part,
    /// Refused because of an earlier failure, until the store is opened again.
    Poisoned,
    /// What was read is not what was written, and the system noticed.
    Damaged,
    /// The directory holds no store.
    NotAStore,
    /// An answer that is wrong and was not noticed, or a broken rule: always a bug of the system.
    Wrong,
}

/// An error of the system under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What kind.
    pub cause: Cause,
    /// What it said.
    pub text: String,
}

impl Trouble {
    /// An error of a kind.
    pub fn new(cause: Cause, text: impl fmt::Display) -> Trouble {
        Trouble {
            cause,
            text: text.to_string(),
        }
    }

    /// Sorts an error by its kind. A refusal is a bug: a story asks only for what can be done.
    pub fn of(kind: ErrorKind, text: impl fmt::Display) -> Trouble {
        let cause = match kind {
            ErrorKind::Full => Cause::Full,
            ErrorKind::Device => Cause::Device,
            ErrorKind::Poisoned => Cause::Poisoned,
            ErrorKind::Damaged => Cause::Damaged,
            ErrorKind::NotAStore => Cause::NotAStore,
            ErrorKind::Refused => Cause::Wrong,
        };
        Trouble::new(cause, text)
    }

    /// A wrong answer.
    pub fn wrong(text: impl fmt::Display) -> Trouble {
        Trouble::new(Cause::Wrong, text)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.cause, self.text)
    }
}

impl std::error::Error for Trouble {}

impl From<alluvium_device::Error> for Trouble {
    fn from(error: alluvium_device::Error) -> Trouble {
        Trouble::of(error.kind(), error)
    }
}
