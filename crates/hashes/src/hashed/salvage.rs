//! What is left of a structure where some of its runs cannot be opened.
//!
//! A run is opened with its description, in which its index, its filter and the checksums of its
//! leaves are. Without that, none of its leaves can be found; the other runs are whole.

use super::check::{extents, named, read};
use super::run::Run;
use alluvium_base::Purpose;
use alluvium_dictionary::read::Files;
use alluvium_storage::extents::Reached;
use alluvium_storage::{Error, Result};

/// Which run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// A hash store.
    Young,
    /// This part of the sorted store.
    Part(usize),
}

impl Name {
    /// Returns it in words, as one of a number of parts.
    pub(super) fn told(self, parts: usize) -> String {
        match self {
            Name::Young => "a hash store, which hides older values and deleted keys".to_owned(),
            Name::Part(part) => format!("part {} of {parts} of the sorted store", part + 1),
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
}

/// Looks for runs that cannot be opened, and changes nothing.
///
/// # Errors
/// [`Error::Corrupt`] when it is not known which runs there are; as the device says.
pub fn survey(files: Files<'_>, root: &[u8]) -> Result<Survey> {
    let (contents, nodes) = read(files, root, Purpose::Recovery)?;
    let (mut runs, mut lost) = (Vec::new(), Vec::new());
    let of_parts = contents.parts.iter().enumerate();
    let of_parts = of_parts.filter(|(_, part)| part.run.is_some());
    let names = contents.young.iter().map(|_| Name::Young);
    let names = names.chain(of_parts.map(|(number, _)| Name::Part(number)));
    for (name, (pointer, base, _)) in names.zip(named(&contents)) {
        match Run::open(files, &pointer, base, Purpose::Recovery) {
            Ok(run) => runs.push(run),
            Err(error @ Error::Corrupt { .. }) => {
                let parts = contents.parts.len();
                lost.push(format!("all records of {} ({error})", name.told(parts)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Survey {
        reached: extents(nodes, &runs),
        lost,
    })
}
