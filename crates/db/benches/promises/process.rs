//! Parts that run in a separate process, which is killed or whose memory is measured.

use super::{reopen, resident};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const TASK: &str = "ALLUVIUM_PROMISES_TASK";
const STORE: &str = "ALLUVIUM_PROMISES_STORE";
const NUMBERS: &str = "ALLUVIUM_PROMISES_NUMBERS";

/// A child's task on a store, with two numeric arguments.
type Task = fn(&Path, u64, u64);

const TASKS: [(&str, Task); 3] = [
    ("load until killed", reopen::load_until_killed),
    ("all phases", resident::all_phases),
    ("recovery", resident::recovery),
];

/// Runs the task if this is a child process. Returns `false` in the process that the user started.
pub(super) fn is_child() -> bool {
    let Ok(task) = std::env::var(TASK) else {
        return false;
    };
    let store = PathBuf::from(std::env::var_os(STORE).expect("a child is told where"));
    let numbers = std::env::var(NUMBERS).expect("a child is told how much");
    let (first, second) = numbers.split_once(' ').expect("two numbers");
    let (_, work) = TASKS
        .iter()
        .find(|(name, _)| *name == task)
        .expect("a task that there is");
    work(
        &store,
        first.parse().expect("a number"),
        second.parse().expect("a number"),
    );
    true
}

/// Starts a child process with a task. The caller can read its output.
pub(super) fn spawn(task: &str, store: &Path, numbers: (u64, u64)) -> Child {
    Command::new(std::env::current_exe().expect("the bench knows its name"))
        .env(TASK, task)
        .env(STORE, OsString::from(store))
        .env(NUMBERS, format!("{} {}", numbers.0, numbers.1))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the bench can start itself")
}
