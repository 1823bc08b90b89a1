//! Checks a map by reading it from the device, and reports every error.

use super::format;
use super::{OrderedMap, place};
use alluvium_base::Purpose;
use alluvium_dictionary::blob;
use alluvium_dictionary::check_report::{CheckFindings, CheckLevel, CheckProgress, StructureCheckReport};
use alluvium_dictionary::read::DataFiles;
use alluvium_dictionary::versioned::read_root;
use alluvium_storage::extents::ReachableExtent;
use alluvium_storage::{NodePointer, Result};

/// Reads the map that a root refers to. Returns the nodes that store the map.
fn read(files: DataFiles<'_>, root: &[u8], purpose: Purpose) -> Result<Vec<NodePointer>> {
    let (_, nodes) = read_root(files, root, &place(), purpose, format::decode)?;
    Ok(nodes)
}

/// Returns every extent that can be reached from a map's root, with its numbers of references and
/// live bytes.
///
/// # Errors
/// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if the map is damaged; I/O errors.
pub fn reached(files: DataFiles<'_>, root: &[u8]) -> Result<Vec<ReachableExtent>> {
    Ok(blob::reached(read(files, root, Purpose::Recovery)?, []))
}

/// Checks everything that can be reached from a map's root, and returns the findings. The data
/// files must not change during the check.
#[must_use]
pub fn check_files(files: DataFiles<'_>, root: &[u8]) -> CheckFindings {
    let mut findings = CheckFindings::default();
    match read(files, root, Purpose::Check) {
        Ok(nodes) => nodes.iter().for_each(|node| findings.read.values.add(node)),
        Err(error) => findings.found.push(format!("map: {error}")),
    }
    findings
}

impl OrderedMap {
    pub(super) fn examine_all(
        &self,
        depth: CheckLevel,
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport> {
        let mut examined = StructureCheckReport::default();
        let version = self.version();
        let mut wrong = |what: String| examined.findings.found.push(format!("map: {what}"));
        for (key, entries) in &version.keys {
            let key = key.escape_ascii();
            if entries.is_empty() || !entries.is_sorted_by(|newer, older| newer.sequence > older.sequence) {
                wrong(format!("the messages of \"{key}\" are out of order (P3)"));
            }
            if entries.iter().any(|entry| entry.sequence > version.stamp.cut) {
                wrong(format!("a message of \"{key}\" is above the cut (P3)"));
            }
        }
        let root = self.shared.root.lock();
        examined.reachable = root.extents().map(|extent| (extent, 1)).collect();
        drop(root);
        if depth == CheckLevel::Everything
            && let Some(root) = durable
        {
            let files = DataFiles::of(&self.shared.home.store);
            examined.findings.add(check_files(files, root));
            examined.findings.tell_progress(0, tell)?;
        }
        Ok(examined)
    }
}
