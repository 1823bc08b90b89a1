//! The operations that are measured.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The times of an operation.
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) median_us: f64,
    pub(crate) mean_us: f64,
}

/// How often an operation of names is repeated.
const NAMES: usize = 2000;
/// Entries of the directory that is listed.
const LISTED: usize = 1000;
/// Mebibytes of the file that is written and read.
const MEBIBYTES: usize = 64;

struct Measurement<'a> {
    only: Option<&'a [&'a str]>,
    samples: Vec<Sample>,
}

impl Measurement<'_> {
    /// Measures an operation. If another one was asked for, it is only done.
    fn time(
        &mut self,
        name: &str,
        count: usize,
        mut work: impl FnMut(usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut times = Vec::with_capacity(count);
        for number in 0..count {
            let start = Instant::now();
            work(number)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        let is_wanted = self.only.is_none_or(|only| only.contains(&name));
        if !is_wanted {
            return Ok(());
        }
        let mean_us = times.iter().sum::<f64>() / count as f64;
        times.sort_by(f64::total_cmp);
        let name = match self.only {
            None => name.to_owned(),
            Some(_) => format!("{name}, nothing remembered"),
        };
        self.samples.push(Sample {
            name,
            median_us: times[count / 2],
            mean_us,
        });
        Ok(())
    }
}

/// Measures all operations, or those that are named, in an empty directory.
pub(crate) fn all(directory: &Path, only: Option<&[&str]>) -> io::Result<Vec<Sample>> {
    let base = directory.join("measured");
    fs::create_dir(&base)?;
    let mut measurement = Measurement {
        only,
        samples: Vec::new(),
    };
    names(&base, &mut measurement)?;
    listing(&base, &mut measurement)?;
    if only.is_none() {
        contents(&base, &mut measurement)?;
    }
    fs::remove_dir_all(&base)?;
    Ok(measurement.samples)
}

fn names(base: &Path, measurement: &mut Measurement<'_>) -> io::Result<()> {
    let path = |prefix: &str, number: usize| -> PathBuf { base.join(format!("{prefix}-{number:05}")) };
    measurement.time("mkdir", NAMES, |number| fs::create_dir(path("d", number)))?;
    measurement.time("create", NAMES, |number| {
        File::create(path("f", number)).map(drop)
    })?;
    measurement.time("create, write 4 KiB, close", NAMES, |number| {
        File::create(path("w", number))?.write_all(&[1; 4096])
    })?;
    measurement.time(
        "lookup of an absent name",
        NAMES,
        |number| match fs::symlink_metadata(path("missing", number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(io::Error::other("it exists")),
        },
    )?;
    measurement.time("lookup", NAMES, |number| {
        fs::symlink_metadata(path("f", number)).map(drop)
    })?;
    let open = File::open(path("f", 0))?;
    measurement.time("getattr", NAMES, |_| open.metadata().map(drop))?;
    measurement.time("open, read 4 KiB, close", NAMES, |number| {
        let mut bytes = [0; 4096];
        File::open(path("w", number))?.read_exact(&mut bytes)
    })?;
    measurement.time("rename", NAMES, |number| {
        fs::rename(path("f", number), path("r", number))
    })?;
    measurement.time("unlink", NAMES, |number| fs::remove_file(path("w", number)))?;
    measurement.time("rmdir", NAMES, |number| fs::remove_dir(path("d", number)))?;
    for number in 0..NAMES {
        fs::remove_file(path("r", number))?;
    }
    Ok(())
}

fn listing(base: &Path, measurement: &mut Measurement<'_>) -> io::Result<()> {
    let listed = base.join("listed");
    fs::create_dir(&listed)?;
    for number in 0..LISTED {
        File::create(listed.join(number.to_string()))?;
    }
    measurement.time("readdir of 1,000", 50, |_| {
        let count = fs::read_dir(&listed)?.count();
        if count == LISTED {
            Ok(())
        } else {
            Err(io::Error::other(format!("{count} entries")))
        }
    })?;
    measurement.time("readdir and stat of 1,000", 50, |_| {
        fs::read_dir(&listed)?.try_for_each(|entry| entry?.metadata().map(drop))
    })
}

fn contents(base: &Path, measurement: &mut Measurement<'_>) -> io::Result<()> {
    let path = base.join("large");
    let mut file = File::create(&path)?;
    let data: Vec<u8> = (0..1 << 20)
        .map(|number: u32| (number.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut small = File::create(base.join("small"))?;
    measurement.time("write 100 bytes in order", NAMES, |_| small.write_all(&[1; 100]))?;
    measurement.time("write 1 MiB in order", MEBIBYTES, |_| file.write_all(&data))?;
    measurement.time("fsync after 64 MiB", 1, |_| file.sync_all())?;
    // SAFETY: the call takes no pointers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    drop(file);
    let mut file = File::open(&path)?;
    let mut read = vec![0; 1 << 20];
    measurement.time("read 1 MiB in order, uncached", MEBIBYTES, |_| {
        file.read_exact(&mut read)
    })?;
    if read != data {
        return Err(io::Error::other("other bytes were read"));
    }
    Ok(())
}
