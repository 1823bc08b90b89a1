//! Check of a structure: reads its data on the device and reports all errors.

use super::format::Contents;
use super::options::HashedForm;
use super::routing::Routing;
use super::run::Run;
use super::salvage::Name;
use super::state::{Level, Version};
use super::structure::{Hashed, place};
use super::trees::{Head, List};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::blob;
use alluvium_dictionary::findings::{Checked, Depth, Examined, Findings};
use alluvium_dictionary::read::{Amounts, Files};
use alluvium_dictionary::values::ValuePointer;
use alluvium_dictionary::versioned::read_root;
use alluvium_storage::extents::{Extent, Reached};
use alluvium_storage::{Error, NodePointer, Result};
use std::collections::BTreeMap;

/// Reads the contents of a root, and returns them with their nodes.
pub(super) fn read(files: Files<'_>, root: &[u8], purpose: Purpose) -> Result<(Contents, Vec<NodePointer>)> {
    read_root(files, root, &place(), purpose, |bytes, place| {
        Contents::decode(bytes, place, files.page_size)
    })
}

/// A run, filter or list listed in the contents.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) name: Name,
    pub(super) pointer: ValuePointer,
    base: Sequence,
    seed: u64,
    /// First and last hash that the run may contain.
    hashes: (u64, u64),
    /// For a filter, the runs of its level, oldest first; for a list, the runs below it.
    pub(super) level: Vec<ValuePointer>,
    /// Whether it is useless if one of these runs is lost.
    pub(super) needs_all: bool,
    /// For a list, its expected head, and the child above each run.
    list: Option<(Head, Vec<usize>)>,
    /// For a hash store, the number of parts that have merged it.
    pub(super) taken: usize,
}

/// An opened run, filter or list.
pub(super) enum Opened {
    Run(Run),
    Filter(Routing),
    List(List),
}

impl Opened {
    fn extents(&self) -> Vec<(Extent, u64)> {
        match self {
            Opened::Run(run) => run.extents().collect(),
            Opened::Filter(filter) => filter.extents().collect(),
            Opened::List(list) => list.extents().collect(),
        }
    }
}

impl Named {
    /// Reads the description.
    pub(super) fn open(&self, files: Files<'_>, purpose: Purpose) -> Result<Opened> {
        if let Some((head, _)) = self.list {
            let list = List::open(files, &self.pointer, purpose)?;
            return Ok(Opened::List(list.required(head)?));
        }
        match self.name {
            Name::Filter(_) => Ok(Opened::Filter(Routing::open(files, &self.pointer, purpose)?)),
            Name::Young | Name::Part(_) | Name::List(_) => {
                let run = Run::open(files, &self.pointer, self.base, purpose)?;
                Ok(Opened::Run(run.seeded(self.seed)))
            }
        }
    }

    /// Reads all data and returns the errors found.
    fn check(&self, files: Files<'_>, read: &mut Amounts) -> Result<Vec<String>> {
        let opened = self.open(files, Purpose::Check)?;
        if let Opened::Run(run) = opened {
            return Ok(run.check(files, self.hashes, read));
        }
        let runs = self.level.iter().map(|pointer| {
            let run = Run::open(files, pointer, 0, Purpose::Check)?;
            Ok(run.seeded(self.seed))
        });
        // Damage to the runs themselves is reported by their own check.
        match runs.collect::<Result<Vec<Run>>>() {
            Ok(runs) => Ok(match (opened, &self.list) {
                (Opened::Filter(filter), _) => filter.check(files, &runs),
                (Opened::List(list), Some((_, children))) => {
                    let runs: Vec<(Run, usize)> = runs.into_iter().zip(children.iter().copied()).collect();
                    list.check(files, &runs)
                }
                _ => unreachable!("runs were checked, and a list has children"),
            }),
            Err(Error::Corrupt { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// Returns the runs, filters and lists in the contents, hash stores first.
pub(super) fn named(contents: &Contents) -> Vec<Named> {
    let options = super::HashedOptions {
        parts_log: contents.parts_log,
        ..super::HashedOptions::default()
    };
    let named = |name, pointer, base, hashes| Named {
        name,
        pointer,
        base,
        seed: contents.seed,
        hashes,
        level: Vec::new(),
        needs_all: false,
        list: None,
        taken: 0,
    };
    let young = contents.young.iter().map(|young| Named {
        taken: contents.parts.iter().filter(|part| part.upto > young.age).count(),
        ..named(Name::Young, young.run, young.base, (0, u64::MAX))
    });
    let mut all: Vec<Named> = young.collect();
    for (number, part) in contents.parts.iter().enumerate() {
        let hashes = options.hashes_of(number);
        for level in &part.levels {
            let runs = level.runs.iter();
            all.extend(runs.map(|run| named(Name::Part(number), run.run, 0, hashes)));
            all.extend(level.filter.map(|filter| Named {
                level: level.runs.iter().map(|run| run.run).collect(),
                needs_all: true,
                ..named(Name::Filter(number), filter, 0, hashes)
            }));
            let bits = (contents.parts_log, contents.form.character_bits());
            let lists = level.tree.iter().flat_map(|tree| tree.lists(bits.0, bits.1));
            all.extend(lists.map(|list| Named {
                level: list.runs.iter().map(|(run, _)| level.runs[*run].run).collect(),
                needs_all: list.needs_all,
                list: Some((list.head, list.runs.iter().map(|(_, child)| *child).collect())),
                ..named(Name::List(number), list.pointer, 0, hashes)
            }));
        }
    }
    all
}

/// Returns every extent reachable from the root of a structure, with its references and live bytes.
///
/// # Errors
/// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if the data is damaged; I/O errors.
pub fn reached(files: Files<'_>, root: &[u8]) -> Result<Vec<Reached>> {
    let (contents, nodes) = read(files, root, Purpose::Recovery)?;
    let all = named(&contents);
    let opened = all.iter().map(|named| named.open(files, Purpose::Recovery));
    let opened: Result<Vec<Opened>> = opened.collect();
    Ok(extents(nodes, &opened?))
}

/// Returns the extents of a root's nodes and of the opened objects, each once.
pub(super) fn extents(nodes: Vec<NodePointer>, opened: &[Opened]) -> Vec<Reached> {
    blob::reached(nodes, opened.iter().flat_map(Opened::extents))
}

/// Checks the data reachable from the root of a structure, in data files that are not being
/// written. `live_bytes` is the approximate amount of data. `tell` may abort the check by returning
/// an error.
///
/// # Errors
/// Errors of `tell`. Unreadable data is reported, not returned.
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

/// Location of the description of a run: tier, offset, birth and checksum.
type PlaceOf = (u8, u64, u64, u64);

/// A check of runs, filters and lists, each once.
struct Check<'c> {
    files: Files<'c>,
    findings: Findings,
    total_bytes: u64,
    tell: &'c mut dyn FnMut(Checked) -> Result<()>,
    named: BTreeMap<PlaceOf, Named>,
}

impl<'c> Check<'c> {
    fn new(files: Files<'c>, total_bytes: u64, tell: &'c mut dyn FnMut(Checked) -> Result<()>) -> Check<'c> {
        Check {
            files,
            findings: Findings::default(),
            total_bytes,
            tell,
            named: BTreeMap::new(),
        }
    }

    fn add(&mut self, contents: &Contents) {
        for named in named(contents) {
            let node = &named.pointer.node;
            let place = (node.tier, node.offset, node.birth, node.checksum);
            self.named.insert(place, named);
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
        for named in std::mem::take(&mut self.named).into_values() {
            let place = named.pointer.node.place();
            self.findings.read.footers.add(&named.pointer.node);
            let what = match named.name {
                Name::Filter(_) => "filter",
                Name::List(_) => "list of a tree",
                Name::Young | Name::Part(_) => "run",
            };
            match named.check(self.files, &mut self.findings.read) {
                Ok(said) => {
                    let said = said.into_iter().map(|said| format!("{what} of {place}: {said}"));
                    self.findings.found.extend(said);
                }
                Err(error) => {
                    let found = format!("{what} of {place}, description: {error}");
                    self.findings.found.push(found);
                }
            }
            self.findings.tell_progress(self.total_bytes, self.tell)?;
        }
        self.findings.tell_progress(0, self.tell)
    }
}

/// Returns whether the trees of a bundle of trees have a valid shape (V1).
fn trees_are_sound(version: &Version, form: HashedForm) -> bool {
    let HashedForm::Bot { lambda } = form else {
        return true;
    };
    let parts = version.parts.iter();
    let levels = parts.flat_map(|part| part.levels.iter().enumerate());
    let is_sound = |(place, level): (usize, &Level)| match &level.tree {
        None => level.runs.is_empty(),
        Some(tree) => {
            let root = &tree.root;
            (tree.is_settled || usize::from(root.height) == place + 1)
                && root.children.len() < lambda.into()
                && root.leaves == level.runs.len()
        }
    };
    levels.into_iter().all(is_sound)
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
            wrong("hash stores or runs are out of order, or all parts have one (W2, W3, U1)".to_owned());
        }
        if let HashedForm::Boa { lambda, .. } = self.shared.options.form {
            let mut levels = version.parts.iter().flat_map(|part| &part.levels);
            if levels.any(|level| level.runs.len() >= lambda.into()) {
                wrong("a level has as many runs as λ (U3)".to_owned());
            }
        }
        if !trees_are_sound(&version, self.shared.options.form) {
            wrong("a level's tree is not of its height, or its root has λ children (V1)".to_owned());
        }
        if version.runs().any(|run| run.newest() > version.stamp.cut) {
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
        let of_filters = version
            .filters()
            .flat_map(|filter| filter.extents().map(|(extent, _)| extent));
        let of_lists = version.lists().into_iter();
        let of_lists = of_lists.flat_map(|list| list.extents().map(|(extent, _)| extent));
        let of_root = kept.root.extents();
        for extent in of_runs.chain(of_filters).chain(of_lists).chain(of_root) {
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
