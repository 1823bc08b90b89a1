//! The measurement of one tree.

use super::place::TreePlace;
use super::plan::CacheMode;
use super::state::{AgingRow, TreeAge};
use crate::measure::cold::CacheState;
use crate::measure::events::DeviceNumber;
use crate::measure::grep::{GrepReader, NEEDLE, grep};
use crate::measure::layout::{FileLayout, StaticLayout, read_tree};
use crate::measure::recorder::EventRecorder;
use crate::measure::score::DynamicLayoutScore;
use crate::measure::slowdown::SeekModel;
use crate::measure::totals::TreeTotals;
use crate::volumes::counts::DeviceTraffic;
use crate::{Error, Result, StopRequest, check_stop};
use std::path::Path;
use std::time::{Duration, Instant};

/// What all measurements of a run share.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasurementSettings<'a> {
    pub(super) reader: GrepReader,
    pub(super) settle: Duration,
    pub(super) model: SeekModel,
    /// Where tracefs is mounted if it is mounted nowhere.
    pub(super) scratch: &'a Path,
}

/// A measured tree.
#[derive(Debug)]
pub(super) struct TreeMeasurement {
    pub(super) row: AgingRow,
    /// `None` if the file system does not report extents.
    pub(super) layout: Option<Vec<FileLayout>>,
    pub(super) caches: CacheState,
    /// What reduces the value of the measurement.
    pub(super) notes: Vec<String>,
}

/// What the device did during a test.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceActivity {
    traffic: Option<DeviceTraffic>,
    score: Option<DynamicLayoutScore>,
}

impl DeviceActivity {
    /// Returns the bytes and seeks of a test, if they are known.
    fn work(&self) -> Option<(u64, u64)> {
        Some((self.traffic?.read_bytes, self.score?.seeks()))
    }
}

/// Reads the tree of a place, and measures that.
pub(super) fn measure(
    place: &mut TreePlace,
    (step, age): (u64, TreeAge),
    caches: CacheMode,
    settings: &MeasurementSettings<'_>,
    stop: StopRequest<'_>,
) -> Result<TreeMeasurement> {
    let caches = match caches {
        CacheMode::Cold => place.make_cold(stop)?,
        CacheMode::Warm => CacheState::Warm,
    };
    settle(settings.settle, stop)?;
    let mut notes = Vec::new();
    let tree = place.tree();
    let recorder = start_recorder(place, settings.scratch, &mut notes)?;
    let before = place.traffic()?;
    let outcome = grep(&tree, NEEDLE, settings.reader, stop)?;
    let traffic = place.traffic()?;
    let activity = DeviceActivity {
        traffic: traffic.zip(before).map(|(after, before)| after - before),
        score: recorder
            .map(|recorder| score_of(recorder, &mut notes))
            .transpose()?
            .flatten(),
    };
    let layout = read_tree(&tree, stop)?;
    let totals = TreeTotals::of(&tree, stop)?;
    Ok(TreeMeasurement {
        row: row(
            (step, age),
            outcome.seconds,
            &totals,
            &activity,
            layout.as_deref(),
            settings.model,
        ),
        layout,
        caches,
        notes,
    })
}

/// Waits, so that background work after the mount can finish.
fn settle(time: Duration, stop: StopRequest<'_>) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < time {
        check_stop(stop)?;
        std::thread::sleep(Duration::from_millis(50).min(time));
    }
    Ok(())
}

fn start_recorder(
    place: &TreePlace,
    scratch: &Path,
    notes: &mut Vec<String>,
) -> Result<Option<EventRecorder>> {
    let Some(volume) = place.volume() else {
        return Ok(None);
    };
    let number: DeviceNumber = volume.device().number()?;
    match EventRecorder::start(number, scratch) {
        Ok(recorder) => Ok(Some(recorder)),
        Err(Error::Unavailable(why)) => {
            notes.push(format!("no dynamic layout scores: {why}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn score_of(recorder: EventRecorder, notes: &mut Vec<String>) -> Result<Option<DynamicLayoutScore>> {
    let recorded = recorder.finish()?;
    if recorded.lost > 0 {
        notes.push(format!(
            "no dynamic layout score: the kernel dropped {} events",
            recorded.lost
        ));
        return Ok(None);
    }
    Ok(Some(DynamicLayoutScore::of(&recorded.requests)))
}

fn row(
    (step, age): (u64, TreeAge),
    seconds: f64,
    totals: &TreeTotals,
    activity: &DeviceActivity,
    layout: Option<&[FileLayout]>,
    model: SeekModel,
) -> AgingRow {
    let layout = layout.map(StaticLayout::of);
    let predicted = |model: SeekModel| activity.work().map(|(bytes, seeks)| model.seconds(bytes, seeks));
    let gib = totals.ext4_bytes as f64 / f64::from(1 << 30);
    AgingRow {
        step,
        age,
        files: totals.files,
        ext4_bytes: totals.ext4_bytes,
        seconds,
        seconds_per_gib: seconds / gib,
        read_requests: activity.traffic.map(|traffic| traffic.reads),
        read_bytes: activity.traffic.map(|traffic| traffic.read_bytes),
        written_bytes: None,
        request_score: activity.score.and_then(|score| score.by_request()),
        block_score: activity.score.and_then(|score| score.by_block()),
        seeks: activity.score.map(|score| score.seeks()),
        layout_score: layout.and_then(|layout| layout.layout_score),
        tree_score: layout.and_then(|layout| layout.tree_score),
        fragmentation: layout.and_then(|layout| layout.degree_of_fragmentation()),
        predicted_s: predicted(model),
        modelled_disk_s: predicted(SeekModel::DISK),
    }
}
