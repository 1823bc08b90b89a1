//! Checks an LSM tree by reading it from the device, and reports every error.

use super::format::{LevelsContents, StoredLevelRun};
use super::state::LevelMember;
use super::structure::place;
use super::{LevelsDictionary, state};
use alluvium_base::Purpose;
use alluvium_dictionary::blob;
use alluvium_dictionary::check_report::{CheckFindings, CheckLevel, CheckProgress, StructureCheckReport};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::DataFiles;
use alluvium_dictionary::versioned::read_root;
use alluvium_filters::Fingerprint;
use alluvium_storage::extents::ReachableExtent;
use alluvium_storage::{NodePointer, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Reads the contents that a root refers to. Also returns the nodes that store the contents.
fn read(files: DataFiles<'_>, root: &[u8], purpose: Purpose) -> Result<(LevelsContents, Vec<NodePointer>)> {
    read_root(files, root, &place(), purpose, |bytes, place| {
        LevelsContents::decode(bytes, place, files.page_size)
    })
}

/// Returns every extent that can be reached from an LSM tree's root, with its numbers of references
/// and live bytes.
///
/// # Errors
/// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if the structure is damaged; I/O errors.
pub fn reached(files: DataFiles<'_>, root: &[u8]) -> Result<Vec<ReachableExtent>> {
    let (contents, nodes) = read(files, root, Purpose::Recovery)?;
    let mut extents = Vec::new();
    for name in contents.newest_first() {
        let member = name.open_from(files, Purpose::Recovery)?;
        extents.extend(member.uses().map(|used| (used.extent, used.live)));
        extents.extend(member.maplet.extents());
    }
    Ok(blob::reached(nodes, extents))
}

/// Checks everything that can be reached from an LSM tree's root, and returns the findings. The
/// data files must not change during the check. `live_bytes` is the approximate total number of
/// bytes to read, for progress reports. `tell` receives the progress, and may end the check by
/// returning an error.
///
/// # Errors
/// The errors of `tell`. Read errors become findings instead.
pub fn check_files(
    files: DataFiles<'_>,
    root: &[u8],
    live_bytes: u64,
    tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
) -> Result<CheckFindings> {
    let mut check = LevelsChecker::new(files, live_bytes, tell);
    check.root(root);
    check.all()?;
    Ok(check.findings)
}

/// Identifies a run by its footer's tier, offset, birth generation and checksum.
type FooterLocation = (u8, u64, u64, u64);

/// A check of an LSM tree. Each run is read only once, even if several versions or members use it.
struct LevelsChecker<'c> {
    files: DataFiles<'c>,
    findings: CheckFindings,
    total_bytes: u64,
    tell: &'c mut dyn FnMut(CheckProgress) -> Result<()>,
    /// The runs to check, by the location of their footer, each with the key ranges in which it is
    /// live.
    runs: BTreeMap<FooterLocation, (StoredLevelRun, Vec<KeyRange>)>,
}

impl<'c> LevelsChecker<'c> {
    fn new(
        files: DataFiles<'c>,
        total_bytes: u64,
        tell: &'c mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> LevelsChecker<'c> {
        LevelsChecker {
            files,
            findings: CheckFindings::default(),
            total_bytes,
            tell,
            runs: BTreeMap::new(),
        }
    }

    fn add(&mut self, name: StoredLevelRun) {
        let at = &name.run;
        let place = (at.tier, at.offset, at.birth, at.checksum);
        let range = name.range.clone();
        let (_, within) = self.runs.entry(place).or_insert_with(|| (name, Vec::new()));
        if !within.contains(&range) {
            within.push(range);
        }
    }

    fn root(&mut self, root: &[u8]) {
        match read(self.files, root, Purpose::Check) {
            Ok((contents, nodes)) => {
                nodes.iter().for_each(|node| self.findings.read.trunk.add(node));
                contents.newest_first().cloned().for_each(|name| self.add(name));
            }
            Err(error) => self.findings.found.push(format!("levels: {error}")),
        }
    }

    fn all(&mut self) -> Result<()> {
        for (name, within) in std::mem::take(&mut self.runs).into_values() {
            match name.open_from(self.files, Purpose::Check) {
                Ok(member) => self.member(&member, &within),
                Err(error) => {
                    self.findings.read.footers.add(&name.run);
                    let found = format!("run of {}, footer or filter: {error}", name.run.place());
                    self.findings.found.push(found);
                }
            }
            self.findings.tell_progress(self.total_bytes, self.tell)?;
        }
        self.findings.tell_progress(0, self.tell)
    }

    /// Checks a run and its filter, as far as a reader can reach them in the ranges in which the
    /// run is live.
    fn member(&mut self, member: &LevelMember, within: &[KeyRange]) {
        let (run, maplet) = (&member.run, &member.maplet);
        let CheckFindings { found, read, .. } = &mut self.findings;
        let place = run.pointer().place();
        let bits = maplet.geometry().fingerprint_bits();
        let mut fingerprints: Vec<Fingerprint> = Vec::new();
        let mut tell = |key: &[u8]| fingerprints.push(Fingerprint::of(LookupKey::new(key).hash(), bits));
        let said = run.check_within(self.files, within, &mut tell, read);
        let is_sound = said.is_empty();
        found.extend(said.into_iter().map(|what| format!("run of {place}: {what}")));
        let said = maplet.check_from(self.files, read);
        let is_sound = is_sound && said.is_empty();
        found.extend(
            said.into_iter()
                .map(|what| format!("filter of the run of {place}: {what}")),
        );
        if !is_sound {
            return;
        }
        fingerprints.sort_unstable();
        fingerprints.dedup();
        match maplet.missing(self.files, &fingerprints) {
            Ok(0) => {}
            Ok(missing) => found.push(format!(
                "{missing} fingerprints of keys are not in the filter of the run of {place} (V3)"
            )),
            Err(error) => found.push(format!("filter of the run of {place}: {error}")),
        }
    }
}

impl LevelsDictionary {
    pub(super) fn examine_all(
        &self,
        depth: CheckLevel,
        jobs: &[u64],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport> {
        let version = self.version();
        let mut examined = StructureCheckReport::default();
        let mut wrong = |what: String| examined.findings.found.push(format!("levels: {what}"));
        if !version.is_ordered() {
            wrong("newer runs do not stand above older ones (V2)".to_owned());
        }
        if version.newest_first != state::newest_first(&version.levels) {
            wrong("the list of all runs differs from the levels' runs".to_owned());
        }
        let newest = version
            .newest_first
            .iter()
            .map(|member| member.run.newest())
            .max();
        if newest.is_some_and(|newest| newest > version.stamp.cut) {
            wrong("a run has a message above the cut (V5)".to_owned());
        }
        let kept = self.shared.kept.lock();
        let wanted: BTreeSet<u64> = jobs.iter().copied().collect();
        if !kept.jobs.is_subset(&wanted) {
            wrong(format!(
                "merges {:?} are counted, but {wanted:?} are running (V4)",
                kept.jobs
            ));
        }
        let has_run = |age: &u64| version.newest_first.iter().any(|member| member.ages.0 == *age);
        if !kept.busy.iter().all(has_run) {
            wrong("a merge reads a run that does not exist (V4)".to_owned());
        }
        let of_runs = version.newest_first.iter().flat_map(|member| member.extents());
        for extent in of_runs.chain(kept.root.extents()) {
            *examined.reachable.entry(extent).or_default() += 1;
        }
        drop(kept);
        if depth == CheckLevel::Everything {
            let store = &self.shared.home.store;
            let live_bytes = store.extents().usage().total().live_bytes;
            let mut check = LevelsChecker::new(DataFiles::of(store), live_bytes, tell);
            durable.iter().for_each(|root| check.root(root));
            let contents = LevelsContents::of(&version, &self.shared.options);
            contents.newest_first().cloned().for_each(|name| check.add(name));
            check.all()?;
            examined.findings.add(check.findings);
        }
        Ok(examined)
    }
}

impl PartialEq for LevelMember {
    /// Returns whether both members are the same part of the same run.
    fn eq(&self, other: &LevelMember) -> bool {
        let is_same_run = self.run.pointer() == other.run.pointer();
        self.ages == other.ages && is_same_run && self.range == other.range
    }
}
