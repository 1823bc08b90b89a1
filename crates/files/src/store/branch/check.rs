//! Verification of branches.

use super::registry::{self, BranchHeaders};
use crate::check::{self, FilesReport};
use crate::error::{ErrorKind, Result};
use crate::records::branch::format::{self, BranchNumber};
use crate::records::branch::{BranchKeyspaces, BranchRecords};
use crate::records::{RecordSpace, format as files};
use crate::store::shared::FileStore;
use alluvium::{Keyspace, Snapshot};
use std::collections::BTreeSet;

/// Verifies all branches of a file system, and adds what is found to the report of its files.
pub(crate) fn check_all(store: &FileStore, snapshot: &Snapshot, report: &mut FilesReport) -> Result<()> {
    let Some(branches) = registry::existing_keyspace(&store.db, &store.name)? else {
        return Ok(());
    };
    let headers = match registry::headers_at(snapshot, &branches) {
        Err(error) if error.kind() == ErrorKind::Damaged => {
            report.find(error.to_string());
            return Ok(());
        }
        headers => headers?,
    };
    report.branches = headers.len() as u64;
    check_keys(snapshot, &branches, &headers, report)?;
    let next = snapshot.get(store.spaces.of(RecordSpace::System), files::NEXT_KEY)?;
    let next = next.and_then(|next| files::decode_number(&next).ok());
    let spaces = BranchKeyspaces {
        files: store.spaces.clone(),
        branches,
    };
    for (name, header) in &headers {
        let base = registry::base_of(&store.db, &store.name, &headers, header);
        let checked = base.and_then(|base| {
            let records = BranchRecords::in_snapshot(snapshot, &spaces, header.number, &base);
            check::check(&records, store.layout, next)
        });
        match checked {
            Ok(found) => {
                for finding in found.findings {
                    report.find(format!("branch {name:?}: {finding}"));
                }
            }
            Err(error) if error.kind() == ErrorKind::Damaged => {
                report.find(format!("branch {name:?}: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Verifies that each record belongs to a branch.
fn check_keys(
    snapshot: &Snapshot,
    branches: &Keyspace,
    headers: &BranchHeaders,
    report: &mut FilesReport,
) -> Result<()> {
    let known: BTreeSet<BranchNumber> = headers.values().map(|header| header.number).collect();
    let mut foreign = BTreeSet::new();
    let mut records = snapshot.iter(branches).without_long_values();
    while let Some((key, value)) = records.lend()? {
        let is_record = key.first().is_some_and(|letter| format::is_of_branch(*letter));
        let is_plain = key.starts_with(format::HEADERS) || key == format::NEXT_KEY;
        let understood = match is_record {
            true => format::number_in(key).map(Some).and_then(|number| {
                format::decode_any(key, value)?;
                Ok(number)
            }),
            false if is_plain => Ok(None),
            false => Err(files::DamagedRecord { what: "is unknown" }),
        };
        match understood {
            Ok(Some(number)) if !known.contains(&number) => drop(foreign.insert(number)),
            Ok(_) => {}
            Err(damage) => report.find(format!(
                "the record \"{}\" of branches {}",
                key.escape_ascii(),
                damage.what
            )),
        }
    }
    for number in foreign {
        report.find(format!(
            "there are records of the branch {}, which does not exist",
            number.0
        ));
    }
    Ok(())
}
