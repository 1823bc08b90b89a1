//! Reads what a structure has on the device, and reports everything that is wrong with it.

use super::format::Contents;
use super::run::Run;
use super::structure::{Hashed, place};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::blob::{self, Root, extents_of};
use alluvium_dictionary::findings::{Checked, Depth, Examined, Findings};
use alluvium_dictionary::read::Files;
use alluvium_dictionary::values::ValuePointer;
use alluvium_storage::extents::{Extent, Reached};
use alluvium_storage::{NodePointer, Result};
use std::collections::BTreeMap;

/// Reads what a root leads to, and the nodes that hold it.
pub(super) fn read(files: Files<'_>, root: &[u8], purpose: Purpose) -> Result<(Contents, Vec<NodePointer>)> {
    match Root::decode(root, &place(), files.page_size)? {
        Root::Here(bytes) => Ok((Contents::decode(bytes, &place(), files.page_size)?, Vec::new())),
        Root::Apart(pointer) => {
            let (bytes, nodes) = blob::read(files, &pointer, purpose)?;
            let contents = Contents::decode(&bytes, &pointer.node.place(), files.page_size)?;
            Ok((contents, nodes))
        }
    }
}

/// The runs that contents name, each with the hashes that it may have: hash stores first.
pub(super) fn named(contents: &Contents) -> Vec<(ValuePointer, Sequence, (u64, u64))> {
    let options = super::HashedOptions {
        parts_log: contents.parts_log,
        ..super::HashedOptions::default()
    };
    let young = contents
        .young
        .iter()
        .map(|young| (young.run, young.base, (0, u64::MAX)));
    let parts = (0..).zip(&contents.parts);
    let parts = parts.filter_map(|(part, name)| Some((name.run?, 0, options.hashes_of(part))));
    young.chain(parts).collect()
}

/// Every extent that the root of a structure leads to, with its references and live bytes.
///
/// # Errors
/// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) when it is damaged; as the device says.
pub fn reached(files: Files<'_>, root: &[u8]) -> Result<Vec<Reached>> {
    let (contents, nodes) = read(files, root, Purpose::Recovery)?;
    let runs = named(&contents).into_iter();
    let runs = runs.map(|(pointer, base, _)| Run::open(files, &pointer, base, Purpose::Recovery));
    let runs: Result<Vec<Run>> = runs.collect();
    Ok(extents(nodes, &runs?))
}

/// The extents of a root's nodes and of runs, each once.
pub(super) fn extents(mut nodes: Vec<NodePointer>, runs: &[Run]) -> Vec<Reached> {
    nodes.sort_unstable_by_key(|node| (node.tier, node.offset));
    let of_root = extents_of(nodes.iter());
    let of_runs = runs.iter().flat_map(Run::extents);
    let mut extents: BTreeMap<Extent, (u32, u64)> = BTreeMap::new();
    for (extent, live) in of_root.into_iter().chain(of_runs) {
        let (references, bytes) = extents.entry(extent).or_default();
        *references += 1;
        *bytes = (*bytes + live).min(extent.bytes());
    }
    let reached = extents.into_iter().map(|(extent, (references, live))| Reached {
        extent,
        references,
        live,
    });
    reached.collect()
}

/// Checks what the root of a structure leads to in data files that are not written meanwhile;
/// `live_bytes` says about how much there is. `tell` may end it by failing.
///
/// # Errors
/// What `tell` returns. What cannot be read is reported, not returned.
pub fn check_files(
    files: Files<'_>,
    root: &[u8],
    live_bytes: u64,
    tell: &mut dyn FnMut(Checked) -> Result<()>,
) -> Result<Findings> {
    let mut check = Check::new(files, live_bytes, tell);
    check.root(root);
    check.all()?;
    Ok(check.findings)
}

/// Where the description of a run is: its tier, its offset, its birth and its checksum.
type PlaceOf = (u8, u64, u64, u64);

/// A check of runs, each once.
struct Check<'c> {
    files: Files<'c>,
    findings: Findings,
    total_bytes: u64,
    tell: &'c mut dyn FnMut(Checked) -> Result<()>,
    runs: BTreeMap<PlaceOf, (ValuePointer, Sequence, (u64, u64))>,
}

impl<'c> Check<'c> {
    fn new(files: Files<'c>, total_bytes: u64, tell: &'c mut dyn FnMut(Checked) -> Result<()>) -> Check<'c> {
        Check {
            files,
            findings: Findings::default(),
            total_bytes,
            tell,
            runs: BTreeMap::new(),
        }
    }

    fn add(&mut self, contents: &Contents) {
        for named in named(contents) {
            let node = &named.0.node;
            let place = (node.tier, node.offset, node.birth, node.checksum);
            self.runs.insert(place, named);
        }
    }

    fn root(&mut self, root: &[u8]) {
        match read(self.files, root, Purpose::Check) {
            Ok((contents, nodes)) => {
                nodes.iter().for_each(|node| self.findings.read.trunk.add(node));
                self.add(&contents);
            }
            Err(error) => self.findings.found.push(format!("hashed: {error}")),
        }
    }

    fn all(&mut self) -> Result<()> {
        for (pointer, base, hashes) in std::mem::take(&mut self.runs).into_values() {
            let place = pointer.node.place();
            self.findings.read.footers.add(&pointer.node);
            match Run::open(self.files, &pointer, base, Purpose::Check) {
                Ok(run) => {
                    let said = run.check(self.files, hashes, &mut self.findings.read);
                    let said = said.into_iter().map(|what| format!("run of {place}: {what}"));
                    self.findings.found.extend(said);
                }
                Err(error) => {
                    let found = format!("run of {place}, description: {error}");
                    self.findings.found.push(found);
                }
            }
            self.findings.bound();
            let done_bytes = self.findings.read.bytes();
            (self.tell)(Checked {
                done_bytes,
                total_bytes: self.total_bytes.max(done_bytes),
            })?;
        }
        let done_bytes = self.findings.read.bytes();
        (self.tell)(Checked {
            done_bytes,
            total_bytes: done_bytes,
        })
    }
}

impl Hashed {
    pub(super) fn examine_all(
        &self,
        depth: Depth,
        jobs: &[u64],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(Checked) -> Result<()>,
    ) -> Result<Examined> {
        let version = self.version();
        let mut examined = Examined::default();
        let mut wrong = |what: String| examined.findings.found.push(format!("hashed: {what}"));
        if !version.is_ordered() {
            wrong("hash stores are out of order, or all parts have one (W2, W3)".to_owned());
        }
        if version.runs().any(|run| run.newest() > version.cut) {
            wrong("a run has a message above the cut (W5)".to_owned());
        }
        let kept = self.shared.kept.lock();
        if kept.job.is_some_and(|job| !jobs.contains(&job.number)) {
            wrong(format!(
                "merge {:?} is counted, {jobs:?} are under way (W4)",
                kept.job
            ));
        }
        let of_runs = version
            .runs()
            .flat_map(|run| run.extents().map(|(extent, _)| extent));
        let of_root = kept.blob.iter().flat_map(|blob| blob.extents().iter().copied());
        for extent in of_runs.chain(of_root) {
            *examined.reachable.entry(extent).or_default() += 1;
        }
        drop(kept);
        if depth == Depth::Everything {
            let store = &self.shared.home.store;
            let live_bytes = store.extents().usage().total().live_bytes;
            let mut check = Check::new(Files::of(store), live_bytes, tell);
            durable.iter().for_each(|root| check.root(root));
            check.add(&Contents::of(&version, &self.shared.options));
            check.all()?;
            examined.findings.add(check.findings);
        }
        Ok(examined)
    }
}
