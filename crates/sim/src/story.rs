//! The interface of a system under simulation: the [`Story`] trait and its types.

use crate::Coverage;
use crate::reference::{ModelWrite, PromisedDurability, ReferenceModel, StoreContents};
use alluvium_base::ErrorKind;
use alluvium_device::Directory;
use alluvium_device::simulated::CrashSurvival;
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStep<A> {
    /// An action of the story.
    Do(A),
    /// Closes and reopens the store.
    Reopen,
    /// Crashes the process or the machine. The run continues with the surviving data.
    Crash(CrashSurvival),
}

/// A system under test, and the operations on it.
///
/// A story is stateless: all mutable state is in its `System`, in the directory and in the ledger.
/// It must be deterministic: the same seed gives the same steps, and the same steps give the same
/// device calls.
pub trait Story: Send + Sync + 'static {
    /// An operation of a user or of a background worker.
    type Action: Clone + fmt::Debug + Send + Sync;
    /// An open store of the system under test.
    type System;

    /// Returns a short name for replay lines.
    fn name(&self) -> &'static str;

    /// Returns the steps of a run. A step must be valid without the steps before it, because the
    /// shrinker omits some.
    fn steps(&self, seed: u64, count: usize) -> Vec<RunStep<Self::Action>>;

    /// Creates a store in a directory that contains none, or the remains of an interrupted
    /// creation.
    ///
    /// # Errors
    /// Any error of the system.
    fn create(&self, world: &StoryEnvironment) -> Result<Self::System, StoryError>;

    /// Opens the store.
    ///
    /// # Errors
    /// [`StoryErrorKind::NotAStore`] if its creation was never finished, or any other error of the
    /// system.
    fn open(&self, world: &StoryEnvironment) -> Result<Self::System, StoryError>;

    /// Performs one action. Reports each commit to the ledger before it begins and when it is
    /// answered.
    ///
    /// # Errors
    /// Any error of the system. The ledger must know the outcome of the commit (in doubt, or
    /// withdrawn).
    fn apply(
        &self,
        system: &mut Self::System,
        action: &Self::Action,
        world: &StoryEnvironment,
    ) -> Result<(), StoryError>;

    /// Returns all pairs that a scan returns.
    ///
    /// # Errors
    /// Any error of the system.
    fn contents(&self, system: &mut Self::System) -> Result<StoreContents, StoryError>;

    /// Checks every structure. Returns one sentence per finding.
    ///
    /// # Errors
    /// Errors that prevent the check.
    fn check(&self, system: &mut Self::System) -> Result<Vec<String>, StoryError>;

    /// Closes the store regularly.
    ///
    /// # Errors
    /// Any error of the system.
    fn close(&self, system: Self::System, world: &StoryEnvironment) -> Result<(), StoryError>;
}

/// The environment of a story.
#[derive(Clone, Debug)]
pub struct StoryEnvironment {
    /// The store's directory. All device operations of a story must go through it.
    pub directory: Arc<dyn Directory>,
    /// Receives every commit and its outcome.
    pub ledger: CommitLedger,
    /// The counters of interesting situations.
    pub coverage: Coverage,
    /// The seed of the run. It does not change when the store is reopened.
    pub seed: u64,
}

/// The record of a story's commits. Clones share it.
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

    /// Notes that a commit begins: from now on a crash may leave it. Returns its number.
    ///
    /// # Panics
    /// If the action has already withdrawn a commit: it must not begin another after a refused one.
    pub fn begin(&self, writes: &[ModelWrite]) -> usize {
        let mut state = self.state();
        assert_eq!(
            state.withdrawn, None,
            "an action begins no commit after a refused one"
        );
        state.reference.begin(writes)
    }

    /// Notes that the system acknowledged commit `number`.
    pub fn acknowledge(&self, number: usize, durability: PromisedDurability) {
        self.state().reference.acknowledge(number, durability);
    }

    /// Notes that the system returned an error that leaves the outcome of commit `number` open.
    pub fn doubt(&self, number: usize) {
        self.state().reference.doubt(number);
    }

    /// Notes that the system refused commit `number` without any change.
    pub fn withdraw(&self, number: usize) {
        self.state().withdrawn = Some(number);
    }

    /// Notes that the system reported every commit up to `number` as durable.
    pub fn mark_durable(&self, number: usize) {
        self.state().reference.mark_durable(number);
    }

    /// Sets the current activity of the system, if any. Crashes during it are counted under this
    /// name.
    pub fn set_activity(&self, what: Option<&'static str>) {
        self.state().amid = what;
    }

    /// Returns the current activity of the system.
    pub(crate) fn under_way(&self) -> Option<&'static str> {
        self.state().amid
    }

    /// Returns the number of the newest commit.
    #[must_use]
    pub fn newest(&self) -> usize {
        self.state().reference.newest()
    }

    /// Returns whether a read of `key` may return `value`.
    #[must_use]
    pub fn reads(&self, key: &[u8], value: Option<&[u8]>) -> bool {
        self.state().reference.reads(key, value)
    }

    /// Checks the result of a read of `key` against the reference.
    ///
    /// # Errors
    /// If the result is wrong.
    pub fn expect(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), StoryError> {
        if self.reads(key, value) {
            return Ok(());
        }
        Err(StoryError::wrong(format!("a read of {}", key.escape_ascii())))
    }

    /// Notes the outcome of commit `number`: it holds, it was refused without a change, or it is in
    /// doubt.
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

    /// Calls `look` with the reference.
    pub fn with<R>(&self, look: impl FnOnce(&ReferenceModel) -> R) -> R {
        look(&self.state().reference)
    }

    /// Removes a withdrawn commit, after every crash before its refusal was judged.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        if let Some(number) = state.withdrawn.take() {
            state.reference.withdraw(number);
        }
    }
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoryErrorKind {
    /// The disk is full; nothing was changed.
    Full,
    /// A device failed that the system needs to acknowledge writes.
    Device,
    /// A device failed without which the system continues to acknowledge writes.
    Part,
    /// Refused because of an earlier failure, until the store is reopened.
    Poisoned,
    /// The system detected that data on disk is damaged.
    Damaged,
    /// The directory contains no store.
    NotAStore,
    /// A wrong result that the system did not detect, or a violated rule: always a bug of the
    /// system.
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
    /// Creates an error of a kind.
    pub fn new(cause: StoryErrorKind, text: impl fmt::Display) -> StoryError {
        StoryError {
            cause,
            text: text.to_string(),
        }
    }

    /// Converts an error by its kind. A refusal counts as a bug, because a story requests only
    /// valid operations.
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

    /// Creates the error for a wrong result.
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
