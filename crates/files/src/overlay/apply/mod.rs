//! Brings the changes of a committed overlay into the lower.
//!
//! *Scope*: the plan of steps; the stage in which new contents are prepared; what makes each step
//! repeatable.
//!
//! *Must not depend on*: how the view is read and changed.
//!
//! Invariants: V4 and V5 of [`overlay`](super).

mod build;
mod plan;
mod run;
mod stage;
mod tree;

pub(super) use tree::FinalTree;

use super::format::OverlayPhase;
use super::stage_prefix;
use super::upper::{ENTRIES_AT_ONCE, UpperStore};
use crate::contract::FileSystem;
use crate::error::{Error, ErrorKind, Result};
use crate::types::Inode;
use plan::ApplyStep;
use run::ApplyRun;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What [`apply`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The overlay is not committed, or [`discard`] has begun to remove it. Nothing was done.
    NotCommitted,
    /// The lower has all changes of the overlay durably, and nothing else is left in it.
    Complete,
}

/// Brings the changes of a committed overlay into the lower, or finishes what an interrupted call
/// has begun. The upper file system must be durable, including the commit of the overlay, and is
/// written too: it must not be a transaction that could be rolled back.
///
/// # Errors
/// Errors of both file systems. Call it again once their cause is gone. `Conflict` if others have
/// removed what is being changed since the commit.
pub fn apply(lower: &dyn FileSystem, upper: Arc<dyn FileSystem>, directory: Inode) -> Result<ApplyOutcome> {
    let upper = match UpperStore::open(upper, directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ApplyOutcome::NotCommitted),
        opened => opened?,
    };
    let header = upper.header();
    if header.root_generation != lower.attributes(Inode::ROOT)?.generation {
        let text = "the overlay was created over another directory: apply it to that one";
        return Err(Error::new(ErrorKind::InvalidArgument, text));
    }
    let stage_name = [stage_prefix(header.nesting), header.name.clone()].concat();
    match header.phase {
        OverlayPhase::Open => return Ok(ApplyOutcome::NotCommitted),
        OverlayPhase::Committed => {
            take_steps(lower, &upper, &stage_name)?;
            lower.sync()?;
            upper.set_header(|header| header.phase = OverlayPhase::Applied)?;
            upper.files.sync()?;
        }
        OverlayPhase::Applied => {}
    }
    stage::remove_tree(lower, Inode::ROOT, &stage_name)?;
    // The stage has changed the times of the root.
    let times = match upper.changed(Inode::ROOT)? {
        Some(changed) => {
            let view = upper.files.attributes(changed.upper)?;
            (view.modified, view.accessed)
        }
        None => (header.root_modified, header.root_accessed),
    };
    build::set_times_of(lower, Inode::ROOT, times)?;
    lower.sync()?;
    Ok(ApplyOutcome::Complete)
}

/// Returns the directories in which an apply changes something, and of which there is no record.
pub(super) fn directories_without_record(upper: &UpperStore) -> Result<BTreeSet<Inode>> {
    let tree = FinalTree::read(upper)?;
    let steps = plan::plan(upper, &tree);
    let touched = steps.iter().filter_map(|step| match step {
        ApplyStep::Place(_, place, _)
        | ApplyStep::Remove(_, place)
        | ApplyStep::Detach(_, place)
        | ApplyStep::Pin(_, place) => Some(place.0),
        _ => None,
    });
    Ok(touched
        .filter(|directory| !tree.records.contains_key(directory))
        .collect())
}

fn take_steps(lower: &dyn FileSystem, upper: &UpperStore, stage_name: &[u8]) -> Result<()> {
    let tree = FinalTree::read(upper)?;
    let steps = plan::plan(upper, &tree);
    if steps
        .iter()
        .all(|step| matches!(step, ApplyStep::Seal | ApplyStep::Sync))
    {
        return Ok(());
    }
    let found = stage::find(lower, stage_name)?;
    let sealed = match found {
        Some(stage) if stage::is_sealed(lower, stage)? => Some(stage),
        _ => None,
    };
    let stage = match sealed {
        Some(stage) => stage,
        None => {
            stage::remove_tree(lower, Inode::ROOT, stage_name)?;
            stage::create(lower, stage_name)?
        }
    };
    let mut run = ApplyRun::new(lower, upper, &tree, stage);
    let is_built = |step: &&ApplyStep| matches!(step, ApplyStep::Build(_) | ApplyStep::Seal);
    for step in steps.iter().filter(|step| sealed.is_none() || !is_built(step)) {
        run.take(step)?;
    }
    Ok(())
}

/// Removes an overlay and everything that it keeps in the upper file system, except the directory
/// itself. This is how a transaction is aborted, and how it ends after [`apply`].
///
/// # Errors
/// `InvalidArgument` if the overlay is committed and not applied: apply it first. Errors of the
/// upper file system.
pub fn discard(upper: &Arc<dyn FileSystem>, directory: Inode) -> Result<()> {
    match UpperStore::open(upper.clone(), directory) {
        Ok(store) if store.header().phase == OverlayPhase::Committed => {
            let text = "the overlay is committed: apply it before it is discarded";
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Without its state there is no overlay, also if this is interrupted.
    stage::remove_tree(&**upper, directory, b"state")?;
    loop {
        let entries = upper.read_directory(directory, None, ENTRIES_AT_ONCE)?;
        if entries.is_empty() {
            return Ok(());
        }
        for entry in entries {
            stage::remove_tree(&**upper, directory, &entry.name)?;
        }
    }
}
