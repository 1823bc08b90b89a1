//! Recovers a structure even though some of its runs cannot be opened.
//!
//! A run is opened from its description, which contains the index, the filter and the checksums of
//! the leaves. If the description is damaged, none of the run's leaves can be found. Other runs are
//! not affected.

use super::check::{extents, named, read};
use super::options::HashedForm;
use alluvium_base::Purpose;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::extents::ReachableExtent;
use alluvium_storage::{Error, Result};

/// Identifies a run, a filter or a tree list in error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectName {
    /// A hash store.
    Young,
    /// A run of the part with this number.
    Part(usize),
    /// A level's filter in the part with this number.
    Filter(usize),
    /// A tree list in the part with this number.
    List(usize),
}

impl ObjectName {
    /// Describes the object for users.
    pub(super) fn told(self, form: HashedForm, parts: usize) -> String {
        match (self, form) {
            (ObjectName::Young, _) => "a hash store (older values and deleted keys may reappear)".to_owned(),
            (ObjectName::Part(part), HashedForm::Silt) => {
                format!("part {} of {parts} of the sorted store", part + 1)
            }
            (ObjectName::Part(part), HashedForm::Boa { .. } | HashedForm::Bot { .. }) => format!(
                "part {} of {parts} of a level (older values and deleted keys of deeper levels may reappear)",
                part + 1
            ),
            (ObjectName::Filter(part), _) => format!("a routing filter of part {} of {parts}", part + 1),
            (ObjectName::List(part), _) => {
                format!("a list of a routing tree of part {} of {parts}", part + 1)
            }
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// Extents in use by intact runs, filters and lists.
    pub reached: Vec<ReachableExtent>,
    /// What was lost, for users.
    pub lost: Vec<String>,
    /// Number of filters and tree lists that cannot be opened. They contain no data, but the
    /// structure can be opened only without them.
    pub filters: u64,
}

/// Determines which runs cannot be opened and what data is lost with them. Changes nothing.
///
/// # Errors
/// [`Error::Corrupt`] if the contents, which list the runs, are damaged; I/O errors.
pub fn survey(files: DataFiles<'_>, root: &[u8]) -> Result<SalvageReport> {
    let (contents, nodes) = read(files, root, Purpose::Recovery)?;
    let (mut found, mut lost, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    let (parts, mut filters) = (contents.parts.len(), 0);
    for named in named(&contents) {
        let what = named.name.told(contents.form, parts);
        // A filter refers to runs by index, so it is unusable if a run of its level is lost.
        if named.needs_all && named.level.iter().any(|run| gone.contains(run)) {
            continue;
        }
        match named.open(files, Purpose::Recovery) {
            Ok(part) => found.push(part),
            // No data is lost with the filter, because lookups read every run of the level instead.
            Err(Error::Corrupt { .. })
                if matches!(named.name, ObjectName::Filter(_) | ObjectName::List(_)) =>
            {
                filters += 1;
            }
            Err(error @ Error::Corrupt { .. }) => {
                gone.push(named.pointer);
                let taken = match named.taken {
                    0 => String::new(),
                    taken => format!(", except for those that {taken} of {parts} parts had already merged"),
                };
                lost.push(format!("all records of {what}{taken} ({error})"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(SalvageReport {
        reached: extents(nodes, &found),
        lost,
        filters,
    })
}
