//! Measures the costs of reads that the model of slowdown needs.

use super::plan::AgingPlan;
use crate::measure::natural::{NaturalSizes, ReadTarget};
use crate::measure::slowdown::SeekModel;
use crate::volumes::image::MarkedImage;
use crate::{Error, ErrorContext, Result, StopRequest, check_stop};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

const PIECE: usize = 4 << 20;
const NAME: &str = "constants";
const SEED: u64 = 1;

/// The extent of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantsPlan {
    /// Size of the file that is read, a multiple of 4 MiB and at least 16 MiB.
    pub bytes: u64,
    pub time: Duration,
}

impl Default for ConstantsPlan {
    fn default() -> ConstantsPlan {
        ConstantsPlan {
            bytes: 256 << 20,
            time: Duration::from_secs(4),
        }
    }
}

/// Measures the device under the images of a run, through a loop device, or that of a directory.
pub(super) fn measure_constants(
    plan: &AgingPlan,
    constants: ConstantsPlan,
    work: &Path,
    stop: StopRequest<'_>,
) -> Result<SeekModel> {
    match &plan.directory {
        None => through_loop_device(constants, work, stop),
        Some(directory) => {
            let path = directory.join(".alluvium-aging-constants");
            let measured =
                fill(&path, constants.bytes, stop).and_then(|()| read(&path, constants.time, stop));
            fs::remove_file(&path).at("removing", &path)?;
            measured
        }
    }
}

fn through_loop_device(constants: ConstantsPlan, work: &Path, stop: StopRequest<'_>) -> Result<SeekModel> {
    if work.join(format!("{NAME}.img")).exists() {
        MarkedImage::open(work, NAME)?.remove()?;
    }
    let image = MarkedImage::create(work, NAME, constants.bytes)?;
    let measured = fill(image.path(), constants.bytes, stop).and_then(|()| {
        let device = image.attach()?;
        read(&device.path(), constants.time, stop)
    });
    image.remove()?;
    measured
}

/// Writes random bytes, because holes would be read without the device.
fn fill(path: &Path, bytes: u64, stop: StopRequest<'_>) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .at("creating", path)?;
    let mut piece = vec![0; PIECE];
    for _ in 0..bytes / PIECE as u64 {
        check_stop(stop)?;
        random.fill(&mut piece);
        file.write_all(&piece).at("writing", path)?;
    }
    file.sync_all().at("syncing", path)
}

fn read(path: &Path, time: Duration, stop: StopRequest<'_>) -> Result<SeekModel> {
    let points = ReadTarget::open(path)?.measure(time, SEED, stop)?;
    NaturalSizes::of(&points)
        .map(|sizes| sizes.model)
        .ok_or_else(|| Error::Refused(format!("reads of {} could not be measured", path.display())))
}
