//! Runs a history on a store and on its model.

use super::model::Rule;
use super::ops::Operation;
use super::plan::StorePlan;
use super::world::World;
use alluvium_sim::Coverage;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// The failure of a history: its position and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The index of the operation.
    pub(crate) at: usize,
    pub(crate) why: String,
}

/// The result of a history under one plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunOutcome {
    /// The failure, if any.
    pub(crate) failure: Option<Failure>,
    /// Results that the model cannot predict, each with the index of its operation.
    pub(crate) notes: Vec<(usize, String)>,
}

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

static INSTALL: Once = Once::new();

/// Captures the panics of watched threads. All other panics are reported as usual.
fn install() {
    let previous = take_hook();
    set_hook(Box::new(move |info| match IS_WATCHED.get() {
        true => LAST_PANIC.with_borrow_mut(|last| *last = info.to_string()),
        false => previous(info),
    }));
}

/// Runs a history under each of these plans. Returns the first failure, or else the first result
/// that differs from that of the first plan.
pub(crate) fn run(
    plans: &[StorePlan],
    operations: &[Operation],
    rule: Rule,
    coverage: &Coverage,
) -> Option<Failure> {
    let mut first: Option<RunOutcome> = None;
    for plan in plans {
        let ran = run_one(plan, operations, rule, coverage);
        if ran.failure.is_some() {
            return ran.failure;
        }
        match &first {
            None => first = Some(ran),
            Some(first) => {
                if let Some(failure) = difference(first, &ran) {
                    return Some(failure);
                }
            }
        }
    }
    None
}

/// Returns the first difference between two plans in the results that the model cannot predict.
pub(crate) fn difference(one: &RunOutcome, other: &RunOutcome) -> Option<Failure> {
    let pairs = one.notes.iter().zip(&other.notes);
    let same = pairs.take_while(|(one, other)| one == other).count();
    let (one, other) = (one.notes.get(same), other.notes.get(same));
    let at = one.iter().chain(&other).map(|(at, _)| *at).min();
    let at = at?;
    let show = |note: Option<&(usize, String)>| match note {
        Some((own, what)) if *own == at => what.clone(),
        _ => "as the model".to_owned(),
    };
    let why = format!("under two sets of options: {}, {}", show(one), show(other));
    Some(Failure { at, why })
}

/// Runs a history under one plan. A panic of the store counts as a failure.
pub(crate) fn run_one(
    plan: &StorePlan,
    operations: &[Operation],
    rule: Rule,
    coverage: &Coverage,
) -> RunOutcome {
    INSTALL.call_once(install);
    let (at, notes) = (Cell::new(0), RefCell::new(Vec::new()));
    IS_WATCHED.set(true);
    // A store that has panicked is not used again.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(plan, rule, coverage)?;
        for (number, operation) in operations.iter().enumerate() {
            at.set(number);
            world.apply(operation)?;
            let noted = world.take_notes().into_iter().map(|note| (number, note));
            notes.borrow_mut().extend(noted);
            if let Some((_, upkeep)) = plan
                .knobs
                .upkeep
                .as_ref()
                .filter(|(every, _)| number % every == 0)
            {
                world.apply(upkeep)?;
            }
        }
        Ok::<(), String>(())
    }));
    IS_WATCHED.set(false);
    let why = match ended {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(why),
        Err(_) => Some(LAST_PANIC.with_borrow(|last| format!("a panic: {last}"))),
    };
    RunOutcome {
        failure: why.map(|why| Failure { at: at.get(), why }),
        notes: notes.into_inner(),
    }
}
