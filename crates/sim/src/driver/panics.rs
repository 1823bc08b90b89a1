//! Reports a panic of the system under test as a failure of that system, instead of letting it end
//! the test program.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static WATCHED: Cell<u32> = const { Cell::new(0) };
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

static INSTALL: Once = Once::new();

/// Installs a panic hook that stores the panics of watched threads, and handles all others as
/// before.
fn install() {
    let previous = take_hook();
    set_hook(Box::new(move |info| {
        if WATCHED.get() == 0 {
            return previous(info);
        }
        LAST.with_borrow_mut(|last| *last = info.to_string());
    }));
}

/// Runs `f`. If it panics, returns the location and message of the panic as an error.
pub(crate) fn watch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    INSTALL.call_once(install);
    WATCHED.set(WATCHED.get() + 1);
    // Unwind safety: a panic can leave the state of the system under test incomplete, but that
    // state is dropped with the system.
    let result = catch_unwind(AssertUnwindSafe(f));
    WATCHED.set(WATCHED.get() - 1);
    result.map_err(|_| LAST.with_borrow(|last| last.replace('\n', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_that_says_where_and_what() {
        assert_eq!(watch(|| 7), Ok(7));
        let error = watch(|| -> u32 { panic!("the sky fell") }).unwrap_err();
        assert!(
            error.contains("the sky fell") && error.contains("panics.rs"),
            "{error}"
        );
    }
}
