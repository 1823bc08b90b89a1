//! Checks the pages: reads every page, and reports all errors.

use super::format::{PageValue, SharedPage};
use super::{PagedDictionary, messages};
use crate::paged::buffer::{PageBuffer, PagePool};
use crate::paged::core::TreeCore;
use alluvium_dictionary::check_report::{CheckFindings, CheckLevel, CheckProgress, StructureCheckReport};
use alluvium_storage::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Visits the tree and the pages of long values, and checks that every page is either free or used
/// exactly once. Returns the errors, the number of pages and the number of pairs.
fn walk(core: &TreeCore<PagePool>) -> Result<(Vec<String>, u64, u64)> {
    let (mut found, mut apart, mut slots) = (Vec::new(), Vec::new(), Vec::new());
    let mut bad = 0u64;
    let examined = core.examine_each(&mut |value| match PageValue::decode(value) {
        Ok(PageValue::Separate(pointer)) => apart.push(pointer),
        Ok(PageValue::Shared(slot)) => slots.push(slot),
        Ok(PageValue::Inline(messages)) => bad += u64::from(super::format::decode(messages).is_err()),
        Err(_) => bad += 1,
    })?;
    found.extend(examined.found);
    if bad > 0 {
        found.push(format!("{bad} values do not hold the messages of a key (PV2)"));
    }
    let mut used: BTreeSet<u64> = examined.pages;
    for pointer in apart {
        let mut twice = 0;
        let read = messages::pieces(core, pointer, &mut |page, _| {
            twice += u64::from(!used.insert(page));
        });
        found.extend(read.err().map(|error| error.to_string()));
        if twice > 0 {
            found.push(format!(
                "{twice} pages of the value in page {} are used twice (PV5)",
                pointer.page
            ));
        }
    }
    let mut shared: BTreeMap<u64, u64> = BTreeMap::new();
    for slot in slots {
        let read = messages::in_slot(core, slot).and_then(|messages| {
            super::format::decode(&messages)
                .map(drop)
                .map_err(|found| messages::damaged(slot.page, "messages of a key", found))
        });
        found.extend(read.err().map(|error| error.to_string()));
        let (bit, of_page) = (SharedPage::bit(slot.number), shared.entry(slot.page).or_default());
        if *of_page & bit != 0 {
            found.push(format!(
                "slot {} of page {} has two values (PV5)",
                slot.number, slot.page
            ));
        }
        *of_page |= bit;
    }
    for (page, bits) in shared {
        let content = core.buffer.pin_shared(page);
        let header = content.ok().and_then(|content| SharedPage::read(&content));
        if header.is_some_and(|header| header.used != bits) {
            found.push(format!("page {page} has used slots without a value (PV5)"));
        }
        if !used.insert(page) {
            found.push(format!("page {page} is shared, but is also used otherwise (PV5)"));
        }
    }
    let free = core.buffer.free_pages();
    let pages = core.buffer.statistics().pages;
    for page in &free {
        let read = core.buffer.pin_shared(*page).map(drop);
        found.extend(read.err().map(|error| error.to_string()));
    }
    let both = free.iter().filter(|page| used.contains(page)).count();
    let accounted = used.len() as u64 + free.len() as u64;
    if both > 0 || accounted != pages {
        found.push(format!(
            "of {pages} pages, {accounted} are in use or free, and {both} are both (PB7)"
        ));
    }
    Ok((found, pages, examined.pairs))
}

/// Checks all pages, and adds the errors to `findings`.
///
/// # Errors
/// I/O errors. Damage is a finding, not an error.
pub(super) fn report(core: &TreeCore<PagePool>, findings: &mut CheckFindings) -> Result<()> {
    match walk(core) {
        Ok((found, pages, pairs)) => {
            findings
                .found
                .extend(found.into_iter().map(|what| format!("paged: {what}")));
            findings.read.leaves.nodes += pages;
            findings.read.leaves.bytes += pages * (core.shape.content_bytes as u64);
            findings.read.records += pairs;
        }
        // Device errors end the check, whereas damage is a finding.
        Err(error @ Error::Device(_)) => return Err(error),
        Err(error) => findings.found.push(format!("paged: {error}")),
    }
    Ok(())
}

impl PagedDictionary {
    pub(super) fn examine_all(
        &self,
        depth: CheckLevel,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport> {
        let mut examined = StructureCheckReport::default();
        if depth != CheckLevel::Everything {
            return Ok(examined);
        }
        let _writer = self.shared.writer.lock();
        let findings = &mut examined.findings;
        report(self.core(), findings)?;
        findings.bound();
        let done_bytes = findings.read.bytes();
        tell(CheckProgress {
            done_bytes,
            total_bytes: done_bytes,
        })?;
        Ok(examined)
    }
}
