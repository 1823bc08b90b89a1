//! Runs a history on a store and on its model.

use super::model::Rule;
use super::ops::Operation;
use super::plan::StorePlan;
use super::world::World;
use alluvium_sim::Coverage;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// Where a history fails, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The number of the operation.
    pub(crate) at: usize,
    pub(crate) why: String,
}

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

static INSTALL: Once = Once::new();

/// Keeps panics of watched threads; all others are reported as before.
fn install() {
    let previous = take_hook();
    set_hook(Box::new(move |info| match IS_WATCHED.get() {
        true => LAST_PANIC.with_borrow_mut(|last| *last = info.to_string()),
        false => previous(info),
    }));
}

/// Returns where a history fails, if it does. A panic of the store is a failure like others.
pub(crate) fn run(
    plan: &StorePlan,
    operations: &[Operation],
    rule: Rule,
    coverage: &Coverage,
) -> Option<Failure> {
    INSTALL.call_once(install);
    let at = Cell::new(0);
    IS_WATCHED.set(true);
    // A store that has panicked is not used again.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(plan, rule, coverage)?;
        for (number, operation) in operations.iter().enumerate() {
            at.set(number);
            world.apply(operation)?;
        }
        Ok::<(), String>(())
    }));
    IS_WATCHED.set(false);
    let why = match ended {
        Ok(Ok(())) => return None,
        Ok(Err(why)) => why,
        Err(_) => LAST_PANIC.with_borrow(|last| format!("a panic: {last}")),
    };
    Some(Failure { at: at.get(), why })
}
