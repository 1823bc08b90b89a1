//! What is left of a structure where some of its runs cannot be opened.
//!
//! A run is opened with its description, in which its index, its filter and the checksums of its
//! leaves are. Without that, none of its leaves can be found; the other runs are whole.

use super::check::{extents, named, read};
use super::options::HashedForm;
use alluvium_base::Purpose;
use alluvium_dictionary::read::Files;
use alluvium_storage::extents::Reached;
use alluvium_storage::{Error, Result};

/// Which run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// A hash store.
    Young,
    /// Of this part, what merges have made.
    Part(usize),
    /// The filter of one of this part's levels.
    Filter(usize),
    /// A list of one of this part's trees.
    List(usize),
}

impl Name {
    /// Returns it in words, as one of a number of parts of a form.
    pub(super) fn told(self, form: HashedForm, parts: usize) -> String {
        match (self, form) {
            (Name::Young, _) => "a hash store, which hides older values and deleted keys".to_owned(),
            (Name::Part(part), HashedForm::Silt) => {
                format!("part {} of {parts} of the sorted store", part + 1)
            }
            (Name::Part(part), HashedForm::Boa { .. } | HashedForm::Bot { .. }) => format!(
                "part {} of {parts}, of a level that hides older values and deleted keys of deeper ones",
                part + 1
            ),
            (Name::Filter(part), _) => format!("a routing filter of part {} of {parts}", part + 1),
            (Name::List(part), _) => format!("a list of a routing tree of part {} of {parts}", part + 1),
        }
    }
}

/// What was found of a structure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The extents that its sound runs need.
    pub reached: Vec<Reached>,
    /// What is lost with the others, a sentence each.
    pub lost: Vec<String>,
    /// Filters of levels and lists of trees that cannot be opened. Nothing is lost with them,
    /// but the structure opens only without them.
    pub filters: u64,
}

/// Looks for runs that cannot be opened, and changes nothing.
///
/// # Errors
/// [`Error::Corrupt`] when it is not known which runs there are; as the device says.
pub fn survey(files: Files<'_>, root: &[u8]) -> Result<Survey> {
    let (contents, nodes) = read(files, root, Purpose::Recovery)?;
    let (mut found, mut lost, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    let (parts, mut filters) = (contents.parts.len(), 0);
    for named in named(&contents) {
        let what = named.name.told(contents.form, parts);
        // A filter knows runs by their numbers: it goes with the first of them.
        if named.needs_all && named.level.iter().any(|run| gone.contains(run)) {
            continue;
        }
        match named.open(files, Purpose::Recovery) {
            Ok(part) => found.push(part),
            // Without its filter a level is read run by run: nothing is lost.
            Err(Error::Corrupt { .. }) if matches!(named.name, Name::Filter(_) | Name::List(_)) => {
                filters += 1;
            }
            Err(error @ Error::Corrupt { .. }) => {
                gone.push(named.pointer);
                let taken = match named.taken {
                    0 => String::new(),
                    taken => format!(", but for those that {taken} of {parts} parts had taken"),
                };
                lost.push(format!("all records of {what}{taken} ({error})"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Survey {
        reached: extents(nodes, &found),
        lost,
        filters,
    })
}
