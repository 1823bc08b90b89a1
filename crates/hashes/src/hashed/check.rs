//! Consistency check of a hashed structure. It reads all of the structure's data from the device
//! and reports every error.

use super::format::HashedContents;
use super::options::HashedForm;
use super::routing::RoutingFilter;
use super::run::HashRun;
use super::salvage::ObjectName;
use super::state::{HashedVersion, PartitionLevel};
use super::structure::{HashedStructure, place};
use super::trees::{ListHeader, RoutingList};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::blob;
use alluvium_dictionary::check_report::{CheckFindings, CheckLevel, CheckProgress, StructureCheckReport};
use alluvium_dictionary::read::{CheckReadTotals, DataFiles};
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_dictionary::versioned::read_root;
use alluvium_storage::extents::{Extent, ReachableExtent};
use alluvium_storage::{Error, NodePointer, Result};
use std::collections::BTreeMap;

/// Reads the contents that a root points to. Returns them decoded, with the nodes that store them.
pub(super) fn read(
    files: DataFiles<'_>,
    root: &[u8],
    purpose: Purpose,
) -> Result<(HashedContents, Vec<NodePointer>)> {
    read_root(files, root, &place(), purpose, |bytes, place| {
        HashedContents::decode(bytes, place, files.page_size)
    })
}

/// A reference in the contents to a run, a filter or a tree list.
#[derive(Clone, Debug)]
pub(super) struct ObjectReference {
    pub(super) name: ObjectName,
    pub(super) pointer: ValuePointer,
    base: SequenceNumber,
    seed: u64,
    /// First and last hash, both inclusive, that the run may contain.
    hashes: (u64, u64),
    /// The runs that a filter or list depends on: for a filter, all runs of its level, oldest
    /// first; for a list, the runs below it in the tree. Empty for a run.
    pub(super) level: Vec<ValuePointer>,
    /// Whether the filter or list becomes unusable if any run in `level` is lost.
    pub(super) needs_all: bool,
    /// For a tree list, the header that it must have and, for each run in `level`, the child that
    /// leads to it.
    list: Option<(ListHeader, Vec<usize>)>,
    /// For a hash store, the number of parts that already contain its data.
    pub(super) taken: usize,
}

/// A run, filter or list whose description has been read.
pub(super) enum OpenedObject {
    Run(HashRun),
    Filter(RoutingFilter),
    List(RoutingList),
}

impl OpenedObject {
    fn extents(&self) -> Vec<(Extent, u64)> {
        match self {
            OpenedObject::Run(run) => run.extents().collect(),
            OpenedObject::Filter(filter) => filter.extents().collect(),
            OpenedObject::List(list) => list.extents().collect(),
        }
    }
}

impl ObjectReference {
    /// Reads the object's description and opens the object.
    pub(super) fn open(&self, files: DataFiles<'_>, purpose: Purpose) -> Result<OpenedObject> {
        if let Some((head, _)) = self.list {
            let list = RoutingList::open(files, &self.pointer, purpose)?;
            return Ok(OpenedObject::List(list.required(head)?));
        }
        match self.name {
            ObjectName::Filter(_) => Ok(OpenedObject::Filter(RoutingFilter::open(
                files,
                &self.pointer,
                purpose,
            )?)),
            ObjectName::Young | ObjectName::Part(_) | ObjectName::List(_) => {
                let run = HashRun::open(files, &self.pointer, self.base, purpose)?;
                Ok(OpenedObject::Run(run.seeded(self.seed)))
            }
        }
    }

    /// Reads all data of the object from the device and returns the errors found. Fails if the
    /// description cannot be read.
    fn check(&self, files: DataFiles<'_>, read: &mut CheckReadTotals) -> Result<Vec<String>> {
        let opened = self.open(files, Purpose::Check)?;
        if let OpenedObject::Run(run) = opened {
            return Ok(run.check(files, self.hashes, read));
        }
        let runs = self.level.iter().map(|pointer| {
            let run = HashRun::open(files, pointer, 0, Purpose::Check)?;
            Ok(run.seeded(self.seed))
        });
        // If a run cannot be opened, skip the comparison, because the check of that run reports the
        // damage.
        match runs.collect::<Result<Vec<HashRun>>>() {
            Ok(runs) => Ok(match (opened, &self.list) {
                (OpenedObject::Filter(filter), _) => filter.check(files, &runs),
                (OpenedObject::List(list), Some((_, children))) => {
                    let runs: Vec<(HashRun, usize)> =
                        runs.into_iter().zip(children.iter().copied()).collect();
                    list.check(files, &runs)
                }
                _ => unreachable!("runs were checked, and a list has children"),
            }),
            Err(Error::Corrupt { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// Returns a reference to every run, filter and list in the contents, hash stores first.
pub(super) fn named(contents: &HashedContents) -> Vec<ObjectReference> {
    let options = super::HashedOptions {
        parts_log: contents.parts_log,
        ..super::HashedOptions::default()
    };
    let named = |name, pointer, base, hashes| ObjectReference {
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
    let young = contents.young.iter().map(|young| ObjectReference {
        taken: contents.parts.iter().filter(|part| part.upto > young.age).count(),
        ..named(ObjectName::Young, young.run, young.base, (0, u64::MAX))
    });
    let mut all: Vec<ObjectReference> = young.collect();
    for (number, part) in contents.parts.iter().enumerate() {
        let hashes = options.hashes_of(number);
        for level in &part.levels {
            let runs = level.runs.iter();
            all.extend(runs.map(|run| named(ObjectName::Part(number), run.run, 0, hashes)));
            all.extend(level.filter.map(|filter| ObjectReference {
                level: level.runs.iter().map(|run| run.run).collect(),
                needs_all: true,
                ..named(ObjectName::Filter(number), filter, 0, hashes)
            }));
            let bits = (contents.parts_log, contents.form.character_bits());
            let lists = level.tree.iter().flat_map(|tree| tree.lists(bits.0, bits.1));
            all.extend(lists.map(|list| ObjectReference {
                level: list.runs.iter().map(|(run, _)| level.runs[*run].run).collect(),
                needs_all: list.needs_all,
                list: Some((list.head, list.runs.iter().map(|(_, child)| *child).collect())),
                ..named(ObjectName::List(number), list.pointer, 0, hashes)
            }));
        }
    }
    all
}

/// Returns every extent that is reachable from the root of a structure, with its reference count
/// and its live bytes.
///
/// # Errors
/// [`Error::Corrupt`] if the data is damaged; I/O errors.
pub fn reached(files: DataFiles<'_>, root: &[u8]) -> Result<Vec<ReachableExtent>> {
    let (contents, nodes) = read(files, root, Purpose::Recovery)?;
    let all = named(&contents);
    let opened = all.iter().map(|named| named.open(files, Purpose::Recovery));
    let opened: Result<Vec<OpenedObject>> = opened.collect();
    Ok(extents(nodes, &opened?))
}

/// Returns the extents that contain a root's nodes or the data of opened objects, each of them
/// once.
pub(super) fn extents(nodes: Vec<NodePointer>, opened: &[OpenedObject]) -> Vec<ReachableExtent> {
    blob::reached(nodes, opened.iter().flat_map(OpenedObject::extents))
}

/// Checks all data that is reachable from the root of a structure. The data files must not be
/// written during the check. `live_bytes` is the approximate amount of data, from which progress is
/// computed. `tell` receives the progress, and aborts the check by returning an error.
///
/// # Errors
/// Errors returned by `tell`. Unreadable data is not an error but one of the findings.
pub fn check_files(
    files: DataFiles<'_>,
    root: &[u8],
    live_bytes: u64,
    tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
) -> Result<CheckFindings> {
    let mut check = ContentsChecker::new(files, live_bytes, tell);
    check.root(root);
    check.all()?;
    Ok(check.findings)
}

/// Location of a run's description: tier, offset, birth generation, and checksum.
type DescriptionLocation = (u8, u64, u64, u64);

/// State of a check. Each run, filter and list is checked once, even if several roots refer to it.
struct ContentsChecker<'c> {
    files: DataFiles<'c>,
    findings: CheckFindings,
    total_bytes: u64,
    tell: &'c mut dyn FnMut(CheckProgress) -> Result<()>,
    named: BTreeMap<DescriptionLocation, ObjectReference>,
}

impl<'c> ContentsChecker<'c> {
    fn new(
        files: DataFiles<'c>,
        total_bytes: u64,
        tell: &'c mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> ContentsChecker<'c> {
        ContentsChecker {
            files,
            findings: CheckFindings::default(),
            total_bytes,
            tell,
            named: BTreeMap::new(),
        }
    }

    fn add(&mut self, contents: &HashedContents) {
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
                ObjectName::Filter(_) => "filter",
                ObjectName::List(_) => "list of a tree",
                ObjectName::Young | ObjectName::Part(_) => "run",
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

/// Returns whether every tree in a bundle of trees has a valid shape (V1). Returns true for every
/// other form.
fn trees_are_sound(version: &HashedVersion, form: HashedForm) -> bool {
    let HashedForm::Bot { lambda } = form else {
        return true;
    };
    let parts = version.parts.iter();
    let levels = parts.flat_map(|part| part.levels.iter().enumerate());
    let is_sound = |(place, level): (usize, &PartitionLevel)| match &level.tree {
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

impl HashedStructure {
    pub(super) fn examine_all(
        &self,
        depth: CheckLevel,
        jobs: &[u64],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport> {
        let version = self.version();
        let mut examined = StructureCheckReport::default();
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
                "merge {:?} is counted, but {jobs:?} are running (W4)",
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
        if depth == CheckLevel::Everything {
            let store = &self.shared.home.store;
            let live_bytes = store.extents().usage().total().live_bytes;
            let mut check = ContentsChecker::new(DataFiles::of(store), live_bytes, tell);
            durable.iter().for_each(|root| check.root(root));
            check.add(&HashedContents::of(&version, &self.shared.options));
            check.all()?;
            examined.findings.add(check.findings);
        }
        Ok(examined)
    }
}
