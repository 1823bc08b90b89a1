//! Whole runs on a plain directory: results, resume, and refusals.

use alluvium_aging::measure::grep::GrepReader;
use alluvium_aging::run::constants::ConstantsPlan;
use alluvium_aging::run::runner::RunSetup;
use alluvium_aging::run::{
    AgingPlan, AgingRow, CacheMode, RunListener, RunState, TreeAge, WorkloadKind, WorkloadSettings, plots,
    report, run,
};
use alluvium_aging::volumes::own_mount::OwnProgram;
use alluvium_aging::{Error, StopRequest};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Counts what a run reports.
#[derive(Debug, Default)]
pub(crate) struct CountingListener {
    pub(crate) notes: Vec<String>,
    pub(crate) steps: Vec<u64>,
    pub(crate) rows: usize,
}

impl RunListener for CountingListener {
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    fn step(&mut self, _: &str, step: u64, _: u64) {
        self.steps.push(step);
    }

    fn measured(&mut self, _: &str, _: &AgingRow) {
        self.rows += 1;
    }
}

pub(crate) fn setup(place: &Path) -> RunSetup {
    RunSetup {
        output: place.join("output"),
        work: place.join("work"),
        program: OwnProgram {
            binary: PathBuf::from("alluvium"),
            memory: 64 << 20,
        },
        reader: GrepReader::Builtin,
        constants: ConstantsPlan {
            bytes: 16 << 20,
            time: Duration::ZERO,
        },
    }
}

/// Makes a directory in memory where there is one: runs sync each message and each append.
fn memory_place() -> TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// A small run on a directory. Caches stay warm: tests do not empty those of the machine.
fn plan(place: &Path, kind: WorkloadKind) -> AgingPlan {
    AgingPlan {
        workload: WorkloadSettings {
            steps: 4,
            interval: 2,
            scale_percent: 1,
            ..WorkloadSettings::published(kind, 3)
        },
        file_systems: Vec::new(),
        directory: Some(place.join("aged")),
        image_bytes: 0,
        read_ahead_kib: 128,
        caches: CacheMode::Warm,
        warm_bytes: None,
        settle_s: 0,
    }
}

fn never() -> bool {
    false
}

fn run_all(plan: &AgingPlan, setup: &RunSetup) -> (RunState, CountingListener) {
    let mut listener = CountingListener::default();
    fs::create_dir_all(plan.directory.as_ref().unwrap()).unwrap();
    let state = run(plan, setup, &never, &mut listener).unwrap();
    (state, listener)
}

#[test]
fn a_run_measures_both_trees_of_each_step_and_leaves_no_tree() {
    let _turn = crate::take_turn();
    let place = memory_place();
    let (plan, setup) = (plan(place.path(), WorkloadKind::Mail), setup(place.path()));
    let (state, listener) = run_all(&plan, &setup);
    assert_eq!((listener.rows, &*listener.steps), (6, &[0, 1, 2, 3, 4][..]));
    let series = &state.series["directory"];
    let steps: Vec<(u64, TreeAge)> = series.rows.iter().map(|row| (row.step, row.age)).collect();
    let both = |step| [(step, TreeAge::Aged), (step, TreeAge::Unaged)];
    assert_eq!(steps, [both(0), both(2), both(4)].concat());
    for pair in series.rows.chunks(2) {
        // A copy has the files of its original.
        assert_eq!(
            (pair[0].files, pair[0].ext4_bytes),
            (pair[1].files, pair[1].ext4_bytes)
        );
    }
    assert_eq!(report::csv(&state).lines().count(), 7);
    assert_eq!(report::summaries(&state)[0].step, 4);
    assert!(report::markdown(&state).contains("| directory |"));
    let names: Vec<&str> = plots::plots(&state).unwrap().iter().map(|plot| plot.0).collect();
    assert!(names.contains(&"cost.svg"), "{names:?}");
    assert_eq!(
        fs::read_dir(place.path().join("aged/alluvium-aging"))
            .unwrap()
            .count(),
        0
    );
    // A finished run has nothing to do.
    let saved = RunState::read(&setup.output).unwrap();
    let (again, listener) = run_all(&plan, &setup);
    assert_eq!((again, listener.steps.len()), (saved, 0));
}

/// Returns a request to stop that is made once the steps performed reach a number.
struct StoppingListener<'a> {
    inner: CountingListener,
    performed: &'a AtomicU64,
}

impl RunListener for StoppingListener<'_> {
    fn note(&mut self, text: &str) {
        self.inner.note(text);
    }

    fn step(&mut self, name: &str, step: u64, steps: u64) {
        self.performed.fetch_add(1, Ordering::Relaxed);
        self.inner.step(name, step, steps);
    }

    fn measured(&mut self, name: &str, row: &AgingRow) {
        self.inner.measured(name, row);
    }
}

#[test]
fn a_run_that_is_stopped_after_each_step_ends_with_the_same_trees() {
    let _turn = crate::take_turn();
    for kind in [
        WorkloadKind::Mail,
        WorkloadKind::Interfile,
        WorkloadKind::Intrafile,
    ] {
        let (whole, parts) = (memory_place(), memory_place());
        let (expected, _) = run_all(&plan(whole.path(), kind), &setup(whole.path()));
        let (plan, setup) = (plan(parts.path(), kind), setup(parts.path()));
        fs::create_dir_all(plan.directory.as_ref().unwrap()).unwrap();
        let (mut stops, mut steps) = (0, Vec::new());
        let state = loop {
            let performed = AtomicU64::new(0);
            let stop = || performed.load(Ordering::Relaxed) > 0;
            let mut listener = StoppingListener {
                inner: CountingListener::default(),
                performed: &performed,
            };
            // The last part is let go on to its end, or it would be stopped in the measurement of
            // the last step forever.
            let request: StopRequest<'_> = if stops < 4 { &stop } else { &never };
            let result = run(&plan, &setup, request, &mut listener);
            steps.extend(listener.inner.steps);
            match result {
                Err(Error::Stopped) => stops += 1,
                result => break result.unwrap(),
            }
        };
        assert!(stops >= 3, "{kind}: {stops}");
        let sums = |state: &RunState| state.series["directory"].final_checksum;
        assert_eq!(sums(&state), sums(&expected), "{kind}");
        assert_eq!(
            state.series["directory"].rows.len(),
            expected.series["directory"].rows.len()
        );
        if kind == WorkloadKind::Mail {
            assert_eq!(steps, [0, 1, 2, 3, 4], "no step is performed twice");
        }
    }
}

#[test]
fn a_killed_run_performs_its_steps_again_and_keeps_what_it_measured() {
    let _turn = crate::take_turn();
    let place = memory_place();
    let (plan, setup) = (plan(place.path(), WorkloadKind::Mail), setup(place.path()));
    let (expected, _) = run_all(&plan, &setup);
    // The state of a process that was killed after it had measured step 2.
    let mut state = RunState::read(&setup.output).unwrap();
    let series = state.series_mut("directory");
    series.rows.retain(|row| row.step <= 2);
    series.final_checksum = None;
    let kept = series.rows.clone();
    state.save(&setup.output).unwrap();
    let (state, listener) = run_all(&plan, &setup);
    assert_eq!((listener.steps, listener.rows), (vec![0, 1, 2, 3, 4], 2));
    let series = &state.series["directory"];
    assert_eq!(series.rows[..4], kept);
    assert_eq!(series.final_checksum, expected.series["directory"].final_checksum);
}

#[test]
fn another_plan_and_a_damaged_state_are_refused() {
    let _turn = crate::take_turn();
    let place = memory_place();
    let (plan, setup) = (plan(place.path(), WorkloadKind::Interfile), setup(place.path()));
    run_all(&plan, &setup);
    let mut other = plan.clone();
    other.workload.seed += 1;
    let mut listener = CountingListener::default();
    let refused = run(&other, &setup, &never, &mut listener).unwrap_err();
    assert!(refused.to_string().contains("--restart"), "{refused}");
    fs::write(setup.output.join("state.json"), "{").unwrap();
    let refused = run(&plan, &setup, &never, &mut listener).unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
}

#[test]
fn two_runs_do_not_share_a_directory() {
    let _turn = crate::take_turn();
    let place = memory_place();
    let (plan, setup) = (plan(place.path(), WorkloadKind::Intrafile), setup(place.path()));
    fs::create_dir_all(&setup.output).unwrap();
    let held = fs::File::open(&setup.output).unwrap();
    held.lock().unwrap();
    let refused = run(&plan, &setup, &never, &mut CountingListener::default()).unwrap_err();
    assert!(refused.to_string().contains("another run uses"), "{refused}");
}
