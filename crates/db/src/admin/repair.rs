//! Repair of a damaged store.

use crate::admin::tiers::{self, overlaid};
use crate::engine::progress::Progress;
use crate::engine::{Engine, StoreSalvage};
use crate::error::Result;
use crate::options::Options;
use alluvium_device::FileAccessMode;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::superblock::{self, SuperblockFile};
use alluvium_storage::{DAMAGE_ADVICE, TierDirectories};
use alluvium_trees::tiered::{CheckLevel, LostRange};
use std::fmt;
use std::path::Path;

/// The result of a repair, in sentences. `Display` formats it as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The steps that the repair performed, one sentence each.
    pub done: Vec<String>,
    /// Lost data that may have been acknowledged.
    pub lost: Vec<String>,
    /// Damage that remains. Reading the damaged data fails, but all other data is readable.
    pub left: Vec<String>,
}

impl RepairReport {
    /// Returns whether the repair lost nothing and left no damage.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lost.is_empty() && self.left.is_empty()
    }

    /// Removes the advice to run a repair from the sentences, because it has just been run.
    fn settle(&mut self) {
        let lists = [&mut self.done, &mut self.lost, &mut self.left];
        for sentence in lists.into_iter().flatten() {
            *sentence = sentence.replace(DAMAGE_ADVICE, "");
        }
    }

    /// Adds what one opening salvaged and lost to the report. If `is_all` is set, nothing of a
    /// newer generation is lost, because its data was recovered from elsewhere.
    fn tell(&mut self, salvaged: &StoreSalvage, is_all: bool) {
        let StoreSalvage {
            generation,
            cut,
            report,
            map_damage,
            mended,
            ..
        } = salvaged;
        self.done.extend_from_slice(mended);
        if let Some(damage) = map_damage {
            self.done.push(format!(
                "the extent map was rebuilt from the reachable data; it was damaged: {damage}"
            ));
        }
        self.done.push(format!(
            "generation {generation} was recovered, with all commits up to {cut} and {} later records of the log",
            report.replayed_records
        ));
        for place in &report.damaged {
            self.done
                .push(format!("a damaged part of the log was skipped: {place}"));
        }
        if report.named_generation > *generation && !is_all {
            self.lost.push(format!(
                "generation {} was durable, too, but could not be used: of its newer changes, only those still in the log were recovered",
                report.named_generation
            ));
        }
        for (first, last) in report.missing.iter().chain(&report.missing_end) {
            self.lost.push(format!(
                "commits {first} to {last}, whose log records are missing or damaged"
            ));
        }
        self.lost.extend_from_slice(&report.lost_segments);
        if report.dropped_records > 0 {
            self.lost.push(format!(
                "{} records of the log that contradict others",
                report.dropped_records
            ));
        }
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, sentences) in [("done", &self.done), ("lost", &self.lost), ("left", &self.left)] {
            for sentence in sentences {
                writeln!(f, "{what}: {sentence}")?;
            }
        }
        Ok(())
    }
}

/// Repairs a damaged store as far as possible, so that it opens again. The repair keeps valid log
/// records and skips damaged ones. If the newest generation of the tree refers to damaged data, it
/// falls back to the previous generation. The report lists lost data and remaining damage. No other
/// operation skips damage, and a store never repairs itself. Copy the directory first, because the
/// repair changes it.
///
/// Use [`Options::repair`] for stores whose keyspaces use merge operators or compaction filters
/// defined by the program.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let path = place.path().join("store");
/// # alluvium::Db::open(&path)?.keyspace("rivers")?.put("Elbe", "1094 km")?;
/// let report = alluvium::repair(&path)?;
/// print!("{report}");
/// assert!(report.is_whole());
/// # Ok::<(), alluvium::Error>(())
/// ```
///
/// # Errors
/// The same errors as [`Options::repair`].
pub fn repair(path: impl AsRef<Path>) -> Result<RepairReport> {
    Options::new().repair(path)
}

impl Options {
    /// Like [`repair()`], with these options, including their registered merge operators and
    /// compaction filters.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage) if neither of the store's two generations can be
    /// read, if the store is open elsewhere, or after an I/O error. If neither generation can be
    /// read, the error describes the damage and nothing has changed: restore a backup.
    pub fn repair(&self, path: impl AsRef<Path>) -> Result<RepairReport> {
        self.repair_with(path, |_| ())
    }

    /// Like [`Options::repair`], but reports the progress of the final check.
    ///
    /// # Errors
    /// The same errors as [`Options::repair`].
    pub fn repair_with(
        &self,
        path: impl AsRef<Path>,
        progress: impl FnMut(Progress),
    ) -> Result<RepairReport> {
        let places = tiers::existing(path.as_ref(), &self.tiers)?;
        self.limited(&places).repair_on(&places.directories, progress)
    }

    /// Returns the report that [`Options::repair`] would return, but leaves the store unchanged by
    /// keeping all writes in memory.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// # alluvium::Db::open(&path)?.keyspace("rivers")?.put("Elbe", "1094 km")?;
    /// let report = alluvium::Options::new().try_repair(&path, |_| ())?;
    /// assert!(report.is_whole());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Options::repair`].
    pub fn try_repair(&self, path: impl AsRef<Path>, progress: impl FnMut(Progress)) -> Result<RepairReport> {
        let places = tiers::existing(path.as_ref(), &self.tiers)?;
        let above = overlaid(&places.directories)?;
        self.limited(&places).repair_on(&above, progress)
    }

    pub(crate) fn repair_on(
        &self,
        directories: &TierDirectories,
        mut progress: impl FnMut(Progress),
    ) -> Result<RepairReport> {
        let options = self.clone().workers(0);
        superblock::require(&**directories.first())?;
        let mut report = RepairReport::default();
        let GenerationChoice { than, is_all } = choose(directories, &options, &mut report)?;
        let (engine, salvaged) = Engine::repair(directories.clone(), &options, than)?;
        report.tell(&salvaged, is_all);
        let (unreadable, mended) = engine.repair_runs()?;
        report.done.extend(mended);
        for lost in salvaged.lost.iter().chain(&unreadable) {
            report.lost.extend(told(lost, &engine));
        }
        let named = salvaged.report.named_generation;
        if let Some(newest) = than.filter(|&newest| newest > named && !is_all) {
            report
                .lost
                .push(format!("changes that only generation {newest} contained"));
        }
        engine.checkpoint_everything()?;
        report.left = engine
            .check(CheckLevel::Everything, &mut progress)?
            .into_sentences();
        engine.close()?;
        report.settle();
        Ok(report)
    }
}

/// The result of a trial opening of one generation, with all writes kept in memory.
struct RepairTrial {
    /// Whether this generation contains all data of its tree.
    keeps_tree: bool,
    /// Sequence number of the last commit in the log, if the log contains every commit that is
    /// newer than the tree. `None` if records are missing from the log.
    keeps_log_to: Option<u64>,
}

/// The generation of the store that a repair starts from.
#[derive(Default)]
struct GenerationChoice {
    /// `Some(generation)` if the repair uses the generation before this one, `None` if it uses the
    /// newest.
    than: Option<u64>,
    /// Whether the chosen generation and the log contain all data of the newest generation.
    is_all: bool,
}

/// Chooses the generation to repair from, which is normally the newest. The previous one is chosen
/// if the newest is unusable, or if it misses data that the previous generation and the log can
/// supply. Both are first tried in memory, so that the older one is not overwritten before the
/// newest is known to be usable.
fn choose(
    directories: &TierDirectories,
    options: &Options,
    report: &mut RepairReport,
) -> Result<GenerationChoice> {
    let attempt = |than| -> Result<RepairTrial> {
        let (engine, salvaged) = Engine::repair(overlaid(directories)?, options, than)?;
        let log = &salvaged.report;
        let is_dense = log.missing.is_empty() && log.dropped_records == 0;
        let attempt = RepairTrial {
            keeps_tree: salvaged.lost.is_empty(),
            keeps_log_to: is_dense.then(|| engine.visible()),
        };
        engine.abandon();
        Ok(attempt)
    };
    let first = match attempt(None) {
        Ok(first) if first.keeps_tree => return Ok(GenerationChoice::default()),
        Err(error) if !error.is_damage() => return Err(error),
        first => first,
    };
    let newest = SuperblockFile::open(&**directories.first(), FileAccessMode::ReadOnly);
    let newest = newest.map(|file| (file.durable().generation, file.durable().cut));
    let Ok((newest, cut)) = newest else {
        return first.map(|_| GenerationChoice::default());
    };
    let older = attempt(Some(newest));
    let is_all = |older: &RepairTrial| older.keeps_tree && older.keeps_log_to >= Some(cut);
    let is_all = older.as_ref().is_ok_and(is_all);
    let why = match (first, older) {
        (Ok(_), Ok(_)) if is_all => String::new(),
        (Ok(_), _) => return Ok(GenerationChoice::default()),
        (Err(error), Ok(_)) => format!(": {error}"),
        (Err(error), Err(_)) => return Err(error),
    };
    let rest = if is_all {
        ", with all later commits from the log"
    } else {
        ""
    };
    report.done.push(format!(
        "generation {newest} refers to damaged data, so the previous one was used{rest}{why}"
    ));
    Ok(GenerationChoice {
        than: Some(newest),
        is_all,
    })
}

/// Describes a range of lost data, with one sentence per keyspace in the range.
fn told(lost: &LostRange, engine: &Engine) -> Vec<String> {
    let catalog = &engine.catalog;
    let of_keyspace = |name: String| {
        let definition = catalog.get(&name)?;
        let all = KeyRange::new(&definition.prefix, Some(&definition.end));
        let range = lost.range.intersect(&all);
        if range.is_empty() {
            return None;
        }
        let key = |key: &[u8]| {
            key.get(definition.prefix.len()..)
                .unwrap_or_default()
                .escape_ascii()
                .to_string()
        };
        let to = match &range.high {
            Some(high) if **high < *definition.end => format!("below \"{}\"", key(high)),
            _ => "to the last".to_owned(),
        };
        let low = key(&range.low);
        Some(format!(
            "keyspace {name}, keys from \"{low}\" {to}: {}",
            lost.what
        ))
    };
    let told: Vec<String> = catalog.names().into_iter().filter_map(of_keyspace).collect();
    match told.is_empty() {
        // The range contains only keys of dropped keyspaces or the store's own records.
        true => vec![format!(
            "keys outside all existing keyspaces, {:?}: {}",
            lost.range, lost.what
        )],
        false => told,
    }
}
