//! Performs a run: ages each file system, measures its tree and a copy of it, and keeps the state.

use super::constants::{ConstantsPlan, measure_constants};
use super::measurement::{MeasurementSettings, TreeMeasurement, measure};
use super::place::{PlacePlan, TreePlace};
use super::plan::{AgingPlan, CacheMode, WorkloadKind};
use super::plots::RoundExtents;
use super::state::{RunState, SeriesState, TreeAge};
use crate::measure::grep::GrepReader;
use crate::measure::layout::FileLayout;
use crate::measure::picture;
use crate::measure::slowdown::SeekModel;
use crate::volumes::copy::copy_tree;
use crate::volumes::counts::DeviceTraffic;
use crate::volumes::file_system::FileSystemKind;
use crate::volumes::leftovers::release_leftovers;
use crate::volumes::own_mount::OwnProgram;
use crate::volumes::volume::VolumePlan;
use crate::workload::checksum::tree_checksum;
use crate::workload::{AgingWorkload, StepRelation};
use crate::{Error, ErrorContext, Result, StopRequest, check_stop};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

/// Where a run works, and with which programs.
#[derive(Clone, Debug)]
pub struct RunSetup {
    /// Directory of the state and the results.
    pub output: PathBuf,
    /// Directory of the images.
    pub work: PathBuf,
    /// How stores of Alluvium are mounted.
    pub program: OwnProgram,
    pub reader: GrepReader,
    pub constants: ConstantsPlan,
}

/// Receives the progress of a run.
pub trait RunListener {
    /// A remark for the user, made once.
    fn note(&mut self, text: &str);

    /// A step was performed, of all steps of a file system.
    fn step(&mut self, file_system: &str, step: u64, steps: u64);

    /// A step was measured.
    fn measured(&mut self, file_system: &str, row: &super::AgingRow);
}

/// Performs a run, or the rest of one that was interrupted.
///
/// # Errors
/// [`Error::Stopped`] if a signal ended it: the same call continues it. [`Error::Refused`] if an
/// earlier run in the directory had another plan, or another process uses the directory. Errors of
/// programs and of I/O.
pub fn run(
    plan: &AgingPlan,
    setup: &RunSetup,
    stop: StopRequest<'_>,
    listener: &mut dyn RunListener,
) -> Result<RunState> {
    for directory in [&setup.output, &setup.work] {
        fs::create_dir_all(directory).at("creating", directory)?;
    }
    let _lock = lock(setup)?;
    let kinds = file_systems(plan)?;
    for image in release_leftovers()? {
        listener.note(&format!("released {} of an earlier run", image.display()));
    }
    let mut state = RunState::open(&setup.output, plan.clone())?;
    let model = match state.model {
        Some(model) => model,
        None => measure_constants(plan, setup.constants, &setup.work, stop)?,
    };
    state.model = Some(model);
    state.save(&setup.output)?;
    for (name, kind) in kinds {
        let mut series = SeriesRunner {
            name,
            kind,
            plan,
            setup,
            model,
            state: &mut state,
            notes: Vec::new(),
            listener,
        };
        series.run(stop)?;
    }
    require_equal_trees(&state)?;
    Ok(state)
}

/// Locks the directory of the output, which two runs would overwrite.
fn lock(setup: &RunSetup) -> Result<File> {
    let directory = File::open(&setup.output).at("opening", &setup.output)?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Error::Refused(format!(
            "another run uses {}: wait until it ends, or choose another directory",
            setup.output.display()
        ))
    })?;
    Ok(directory)
}

/// Returns the names of the series and their file systems; a directory is of any file system.
fn file_systems(plan: &AgingPlan) -> Result<Vec<(String, Option<FileSystemKind>)>> {
    if plan.directory.is_some() {
        return Ok(vec![("directory".to_owned(), None)]);
    }
    let kind = |name: &String| {
        let kind: FileSystemKind = name.parse().map_err(Error::Refused)?;
        kind.require()?;
        Ok((kind.to_string(), Some(kind)))
    };
    plan.file_systems.iter().map(kind).collect()
}

/// The same plan makes the same tree on every file system (AG3).
fn require_equal_trees(state: &RunState) -> Result<()> {
    let mut sums = state
        .series
        .iter()
        .filter_map(|(name, series)| Some((name, series.final_checksum?)));
    let Some((first, expected)) = sums.next() else {
        return Ok(());
    };
    match sums.find(|(_, sum)| *sum != expected) {
        None => Ok(()),
        Some((name, _)) => Err(Error::Refused(format!(
            "the last trees of {first} and {name} differ, although the workload is the same: one of the file systems has returned wrong data"
        ))),
    }
}

/// The run of one file system.
struct SeriesRunner<'a> {
    name: String,
    kind: Option<FileSystemKind>,
    plan: &'a AgingPlan,
    setup: &'a RunSetup,
    model: SeekModel,
    state: &'a mut RunState,
    notes: Vec<String>,
    listener: &'a mut dyn RunListener,
}

impl SeriesRunner<'_> {
    fn series(&mut self) -> &mut SeriesState {
        self.state.series_mut(&self.name)
    }

    fn save(&self) -> Result<()> {
        self.state.save(&self.setup.output)
    }

    fn place_plan(&self, suffix: &str) -> PlacePlan {
        match (self.kind, &self.plan.directory) {
            (Some(kind), _) => PlacePlan::Volume(VolumePlan {
                kind,
                directory: self.setup.work.clone(),
                name: format!("{}-{suffix}", self.name),
                bytes: self.plan.image_bytes,
                read_ahead_kib: self.plan.read_ahead_kib,
                program: self.setup.program.clone(),
            }),
            (None, directory) => {
                let directory = directory.as_ref().unwrap_or(&self.setup.work);
                PlacePlan::Directory(directory.join("alluvium-aging").join(suffix))
            }
        }
    }

    fn run(&mut self, stop: StopRequest<'_>) -> Result<()> {
        let steps = self.plan.workload.measured_steps();
        let series = self.series();
        let is_measured = steps.iter().all(|step| series.has_measured(*step));
        if is_measured && series.final_checksum.is_some() {
            return Ok(());
        }
        let mut workload = self.plan.workload.make(&self.setup.work, stop)?;
        match workload.relation() {
            StepRelation::Independent => self.run_independent(&mut *workload, &steps, stop),
            StepRelation::Cumulative => self.run_cumulative(&mut *workload, &steps, stop),
        }
    }

    fn run_independent(
        &mut self,
        workload: &mut dyn AgingWorkload,
        steps: &[u64],
        stop: StopRequest<'_>,
    ) -> Result<()> {
        for &step in steps {
            let is_last = step == self.plan.workload.steps;
            let has_checksum = self.series().final_checksum.is_some();
            if self.series().has_measured(step) && (!is_last || has_checksum) {
                continue;
            }
            check_stop(stop)?;
            let mut place = self.place_plan("aged").create()?;
            let before = place.traffic()?;
            workload.perform(&place.tree(), step, stop)?;
            self.listener.step(&self.name, step, self.plan.workload.steps);
            self.measure_step(&mut place, step, before, stop)?;
            if is_last {
                self.finish(&place, stop)?;
            }
            place.remove()?;
        }
        Ok(())
    }

    fn run_cumulative(
        &mut self,
        workload: &mut dyn AgingWorkload,
        steps: &[u64],
        stop: StopRequest<'_>,
    ) -> Result<()> {
        let plan = self.place_plan("aged");
        let resumed = self.series().completed_step.take().filter(|_| plan.exists());
        let mut place = match resumed {
            Some(_) => plan.open()?,
            None => plan.create()?,
        };
        // A process that is killed from here on leaves a tree of an unknown step (AG4).
        self.save()?;
        let mut next = 0;
        while resumed.is_some_and(|step| next <= step) {
            workload.skip(next);
            next += 1;
        }
        let counted = resumed.is_none_or(|step| self.series().has_measured(step));
        let mut before = if counted { place.traffic()? } else { None };
        for &target in steps {
            while next <= target {
                workload.perform(&place.tree(), next, stop)?;
                self.listener.step(&self.name, next, self.plan.workload.steps);
                next += 1;
                if stop() {
                    return self.park(place, next - 1);
                }
            }
            if resumed.is_none_or(|step| step <= target) && !self.series().has_measured(target) {
                match self.measure_step(&mut place, target, before, stop) {
                    Err(Error::Stopped) => return self.park(place, target),
                    measured => measured?,
                }
            }
            before = place.traffic()?;
        }
        match self.finish(&place, stop) {
            Err(Error::Stopped) => return self.park(place, next - 1),
            finished => finished?,
        }
        place.remove()
    }

    /// Leaves the file system for the next run. Always returns an error.
    fn park(&mut self, place: TreePlace, step: u64) -> Result<()> {
        place.sync()?;
        place.close()?;
        self.series().completed_step = Some(step);
        self.save()?;
        Err(Error::Stopped)
    }

    /// Measures the aged tree and a copy of it on a new file system.
    fn measure_step(
        &mut self,
        place: &mut TreePlace,
        step: u64,
        before: Option<DeviceTraffic>,
        stop: StopRequest<'_>,
    ) -> Result<()> {
        place.sync()?;
        let written = place
            .traffic()?
            .zip(before)
            .map(|(after, before)| (after - before).written_bytes);
        let mut aged = self.measure_tree(place, (step, TreeAge::Aged), self.plan.caches, stop)?;
        aged.row.written_bytes = written;
        self.keep_picture(step, aged.layout.as_deref())?;
        let mut fresh = self.place_plan("unaged").create()?;
        copy_tree(&place.tree(), &fresh.tree(), stop)?;
        fresh.sync()?;
        let unaged = self.measure_tree(&mut fresh, (step, TreeAge::Unaged), CacheMode::Cold, stop)?;
        fresh.remove()?;
        let rows = [aged.row, unaged.row];
        for row in &rows {
            self.listener.measured(&self.name, row);
        }
        let series = self.series();
        series.rows.retain(|row| row.step != step);
        series.rows.extend(rows);
        series.rows.sort_by_key(|row| (row.step, row.age));
        self.save()
    }

    fn measure_tree(
        &mut self,
        place: &mut TreePlace,
        which: (u64, TreeAge),
        caches: CacheMode,
        stop: StopRequest<'_>,
    ) -> Result<TreeMeasurement> {
        let settings = MeasurementSettings {
            reader: self.setup.reader,
            settle: Duration::from_secs(self.plan.settle_s),
            model: self.model,
            scratch: &self.setup.work,
        };
        let measured = measure(place, which, caches, &settings, stop)?;
        let caches = format!("{:?} trees are read {}", which.1, measured.caches.describe());
        for note in measured.notes.iter().chain([&caches]) {
            if !self.notes.contains(note) {
                self.listener.note(&format!("{}: {note}", self.name));
                self.notes.push(note.clone());
            }
        }
        Ok(measured)
    }

    /// Keeps where the blocks lie: each round of `intrafile`, and the last tree of other workloads.
    fn keep_picture(&self, step: u64, layout: Option<&[FileLayout]>) -> Result<()> {
        let Some(layout) = layout else {
            return Ok(());
        };
        let output = &self.setup.output;
        let svg = if self.plan.workload.kind == WorkloadKind::Intrafile {
            let mut rounds = RoundExtents::read(output, &self.name)?;
            rounds.replace(step, &picture::spans_of_round(layout, step));
            rounds.save(output, &self.name)?;
            picture::draw(
                &format!("blocks of the files on {}", self.name),
                "passes",
                rounds.spans(),
            )
        } else if step == self.plan.workload.steps {
            picture::draw(
                &format!("blocks of the files on {}, aged", self.name),
                "file",
                &picture::spans_by_file(layout),
            )
        } else {
            return Ok(());
        };
        // Without any blocks there is no picture.
        let Ok(svg) = svg else {
            return Ok(());
        };
        let path = output.join(format!("layout-{}.svg", self.name));
        fs::write(&path, svg).at("writing", &path)
    }

    fn finish(&mut self, place: &TreePlace, stop: StopRequest<'_>) -> Result<()> {
        let sum = tree_checksum(&place.tree(), stop)?;
        self.series().final_checksum = Some(sum);
        self.save()
    }
}
