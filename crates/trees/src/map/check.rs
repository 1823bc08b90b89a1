//! Reads what a map has on the device, and reports everything that is wrong with it.

use super::format;
use super::{Map, place};
use alluvium_base::Purpose;
use alluvium_dictionary::blob::Root;
use alluvium_dictionary::blob::{self, extents_of};
use alluvium_dictionary::findings::{Checked, Depth, Examined, Findings};
use alluvium_dictionary::read::Files;
use alluvium_storage::extents::Reached;
use alluvium_storage::{NodePointer, Result};

/// Reads what a root leads to; the nodes that hold it.
fn read(files: Files<'_>, root: &[u8], purpose: Purpose) -> Result<Vec<NodePointer>> {
    match Root::decode(root, &place(), files.page_size)? {
        Root::Here(contents) => {
            format::decode(contents, &place())?;
            Ok(Vec::new())
        }
        Root::Apart(pointer) => {
            let (contents, nodes) = blob::read(files, &pointer, purpose)?;
            format::decode(&contents, &pointer.node.place())?;
            Ok(nodes)
        }
    }
}

/// Every extent that the root of a map leads to, with its references and live bytes.
///
/// # Errors
/// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) when it is damaged; as the device says.
pub fn reached(files: Files<'_>, root: &[u8]) -> Result<Vec<Reached>> {
    let mut nodes = read(files, root, Purpose::Recovery)?;
    nodes.sort_unstable_by_key(|node| (node.tier, node.offset));
    let extents = extents_of(nodes.iter()).into_iter();
    let reached = extents.map(|(extent, live)| Reached {
        extent,
        references: 1,
        live,
    });
    Ok(reached.collect())
}

/// Checks what the root of a map leads to in data files that are not written meanwhile.
#[must_use]
pub fn check_files(files: Files<'_>, root: &[u8]) -> Findings {
    let mut findings = Findings::default();
    match read(files, root, Purpose::Check) {
        Ok(nodes) => nodes.iter().for_each(|node| findings.read.values.add(node)),
        Err(error) => findings.found.push(format!("map: {error}")),
    }
    findings
}

impl Map {
    pub(super) fn examine_all(
        &self,
        depth: Depth,
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(Checked) -> Result<()>,
    ) -> Result<Examined> {
        let mut examined = Examined::default();
        let version = self.version();
        let mut wrong = |what: String| examined.findings.found.push(format!("map: {what}"));
        for (key, entries) in &version.keys {
            let key = key.escape_ascii();
            if entries.is_empty() || !entries.is_sorted_by(|newer, older| newer.sequence > older.sequence) {
                wrong(format!("the messages of \"{key}\" are out of order (P3)"));
            }
            if entries.iter().any(|entry| entry.sequence > version.cut) {
                wrong(format!("a message of \"{key}\" is above the cut (P3)"));
            }
        }
        let kept = self.shared.kept.lock();
        let extents = kept.blob.iter().flat_map(|blob| blob.extents());
        examined.reachable = extents.map(|extent| (*extent, 1)).collect();
        drop(kept);
        if depth == Depth::Everything
            && let Some(root) = durable
        {
            let files = Files::of(&self.shared.home.store);
            examined.findings.add(check_files(files, root));
            let done_bytes = examined.findings.read.bytes();
            tell(Checked {
                done_bytes,
                total_bytes: done_bytes,
            })?;
        }
        Ok(examined)
    }
}
