//! The interface between the simulator and a system under test: the [`Story`] trait and its types.

use crate::Coverage;
use crate::reference::{ModelWrite, PromisedDurability, ReferenceModel, StoreContents};
use alluvium_base::ErrorKind;
use alluvium_device::Directory;
use alluvium_device::simulated::CrashSurvival;
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;

/// One step of a simulation run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStep<A> {
    /// Executes an action of the story.
    Do(A),
    /// Closes and reopens the store.
    Reopen,
    /// Crashes the process or the machine. The run goes on with the data that survives.
    Crash(CrashSurvival),
}

/// A system under test, and the operations that the simulator executes on it.
///
/// A story is stateless: all mutable state is in its `System`, in the directory and in the ledger.
/// A story must also be deterministic: equal seeds must yield equal steps, and equal steps must
/// yield equal device calls.
pub trait Story: Send + Sync + 'static {
    /// An operation that a user or a background worker performs.
    type Action: Clone + fmt::Debug + Send + Sync;
    /// An open store of the system under test.
    type System;

    /// Returns a short name that identifies the story in the description of a failure.
    fn name(&self) -> &'static str;

    /// Returns `count` steps of a run. Each step must be valid even if steps before it are left
    /// out, as the shrinker does.
    fn steps(&self, seed: u64, count: usize) -> Vec<RunStep<Self::Action>>;

    /// Creates a store in a directory that is empty or contains what an interrupted creation left
    /// behind.
    ///
    /// # Errors
    /// Any error of the system under test.
    fn create(&self, world: &StoryEnvironment) -> Result<Self::System, StoryError>;

    /// Opens an existing store, recovering it if it was not closed.
    ///
    /// # Errors
    /// [`StoryErrorKind::NotAStore`] if the creation of the store was interrupted; any other error
    /// of the system under test.
    fn open(&self, world: &StoryEnvironment) -> Result<Self::System, StoryError>;

    /// Executes one action. The story must report each commit to the ledger before it begins, and
    /// report its outcome once it is known.
    ///
    /// # Errors
    /// Any error of the system under test. The story must first report to the ledger that the
    /// commit is in doubt or withdrawn.
    fn apply(
        &self,
        system: &mut Self::System,
        action: &Self::Action,
        world: &StoryEnvironment,
    ) -> Result<(), StoryError>;

    /// Returns all key-value pairs from a scan of the whole store.
    ///
    /// # Errors
    /// Any error of the system under test.
    fn contents(&self, system: &mut Self::System) -> Result<StoreContents, StoryError>;

    /// Checks the integrity of all structures of the store. Returns one sentence for each problem.
    ///
    /// # Errors
    /// Errors that prevent the check itself.
    fn check(&self, system: &mut Self::System) -> Result<Vec<String>, StoryError>;

    /// Closes the store cleanly.
    ///
    /// # Errors
    /// Any error of the system under test.
    fn close(&self, system: Self::System, world: &StoryEnvironment) -> Result<(), StoryError>;
}

/// The environment in which a story runs.
#[derive(Clone, Debug)]
pub struct StoryEnvironment {
    /// The store's directory, which all device operations of a story must use.
    pub directory: Arc<dyn Directory>,
    /// The ledger to which the story reports every commit and its outcome.
    pub ledger: CommitLedger,
    /// Counts how often the story reaches noteworthy situations.
    pub coverage: Coverage,
    /// The seed of the run, which stays the same when the store is reopened.
    pub seed: u64,
}

/// The record of a story's commits and their outcomes, which all clones share.
#[derive(Clone, Debug, Default)]
pub struct CommitLedger {
    state: Arc<Mutex<LedgerState>>,
}

#[derive(Debug, Default)]
struct LedgerState {
    reference: ReferenceModel,
    withdrawn: Option<usize>,
    amid: Option<&'static str>,
}

impl CommitLedger {
    pub(crate) fn on(reference: ReferenceModel) -> CommitLedger {
        CommitLedger {
            state: Arc::new(Mutex::new(LedgerState {
                reference,
                ..LedgerState::default()
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock()
    }

    /// Records that a commit begins, and returns its number. From now on, the commit may be found
    /// after a crash.
    ///
    /// # Panics
    /// If the current action has already withdrawn a commit. After a rejected commit, an action
    /// must not begin another.
    pub fn begin(&self, writes: &[ModelWrite]) -> usize {
        let mut state = self.state();
        assert_eq!(
            state.withdrawn, None,
            "an action begins no commit after a refused one"
        );
        state.reference.begin(writes)
    }

    /// Records that the system has acknowledged commit `number`.
    pub fn acknowledge(&self, number: usize, durability: PromisedDurability) {
        self.state().reference.acknowledge(number, durability);
    }

    /// Records that the system returned an error that leaves open whether commit `number` took
    /// effect.
    pub fn doubt(&self, number: usize) {
        self.state().reference.doubt(number);
    }

    /// Records that the system rejected commit `number` without changing anything.
    pub fn withdraw(&self, number: usize) {
        self.state().withdrawn = Some(number);
    }

    /// Records that the system has reported all commits up to `number` as durable.
    pub fn mark_durable(&self, number: usize) {
        self.state().reference.mark_durable(number);
    }

    /// Sets the name of the system's current activity, or `None`. Crashes during the activity are
    /// counted under this name.
    pub fn set_activity(&self, what: Option<&'static str>) {
        self.state().amid = what;
    }

    /// Returns the name of the system's current activity, if it is set.
    pub(crate) fn under_way(&self) -> Option<&'static str> {
        self.state().amid
    }

    /// Returns the number of the newest commit.
    #[must_use]
    pub fn newest(&self) -> usize {
        self.state().reference.newest()
    }

    /// Returns whether the reference model allows a read of `key` to return `value`.
    #[must_use]
    pub fn reads(&self, key: &[u8], value: Option<&[u8]>) -> bool {
        self.state().reference.reads(key, value)
    }

    /// Compares the result of a read of `key` with the reference model.
    ///
    /// # Errors
    /// An error if the result is not allowed.
    pub fn expect(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), StoryError> {
        if self.reads(key, value) {
            return Ok(());
        }
        Err(StoryError::wrong(format!("a read of {}", key.escape_ascii())))
    }

    /// Records the outcome of commit `number` from the system's result: success, rejection without
    /// any change, or doubt.
    ///
    /// # Errors
    /// The error in `answer`.
    pub fn answer(
        &self,
        number: usize,
        durability: PromisedDurability,
        answer: Result<(), StoryError>,
    ) -> Result<(), StoryError> {
        match &answer {
            Ok(()) => self.acknowledge(number, durability),
            Err(trouble) if trouble.cause == StoryErrorKind::Full => self.withdraw(number),
            Err(_) => self.doubt(number),
        }
        answer
    }

    /// Calls `look` with the reference model and returns its result.
    pub fn with<R>(&self, look: impl FnOnce(&ReferenceModel) -> R) -> R {
        look(&self.state().reference)
    }

    /// Removes a withdrawn commit from the record, once all crashes before its rejection have been
    /// judged.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        if let Some(number) = state.withdrawn.take() {
            state.reference.withdraw(number);
        }
    }
}

/// The kind of an error of the system under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoryErrorKind {
    /// The disk is full, and nothing was changed.
    Full,
    /// A device has failed, and the system cannot acknowledge writes without it.
    Device,
    /// A device has failed, but the system can still acknowledge writes without it.
    Part,
    /// The operation was rejected because of an earlier failure, and the store must be reopened
    /// first.
    Poisoned,
    /// The system has detected damage to data on disk.
    Damaged,
    /// The directory does not contain a store.
    NotAStore,
    /// The system returned a wrong result without noticing, or violated a rule. This is always a
    /// bug in the system.
    Wrong,
}

/// An error of the system under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryError {
    /// The kind of the error.
    pub cause: StoryErrorKind,
    pub text: String,
}

impl StoryError {
    /// Creates an error of kind `cause`.
    pub fn new(cause: StoryErrorKind, text: impl fmt::Display) -> StoryError {
        StoryError {
            cause,
            text: text.to_string(),
        }
    }

    /// Creates an error from the kind of a store's error. A rejected operation counts as a bug in
    /// the system, because a story executes only valid operations.
    pub fn of(kind: ErrorKind, text: impl fmt::Display) -> StoryError {
        let cause = match kind {
            ErrorKind::Full => StoryErrorKind::Full,
            ErrorKind::Device => StoryErrorKind::Device,
            ErrorKind::Poisoned => StoryErrorKind::Poisoned,
            ErrorKind::Damaged => StoryErrorKind::Damaged,
            ErrorKind::NotAStore => StoryErrorKind::NotAStore,
            ErrorKind::Refused => StoryErrorKind::Wrong,
        };
        StoryError::new(cause, text)
    }

    /// Creates an error for a wrong result.
    pub fn wrong(text: impl fmt::Display) -> StoryError {
        StoryError::new(StoryErrorKind::Wrong, text)
    }
}

impl fmt::Display for StoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.cause, self.text)
    }
}

impl std::error::Error for StoryError {}

impl From<alluvium_device::Error> for StoryError {
    fn from(error: alluvium_device::Error) -> StoryError {
        StoryError::of(error.kind(), error)
    }
}
