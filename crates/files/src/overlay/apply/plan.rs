//! The steps that bring a committed overlay into the lower, in an order that works.
//!
//! ```text
//! build     new inodes and new contents, in the stage          nobody sees them
//! seal      everything built is durable
//! pin       second names, in the stage, of inodes that move
//! detach    directories that move or go, into the stage        they vanish
//! sync      from here on nothing can be lost
//! place     names for what was built, pinned and detached,     they appear, the deepest first
//!           entries of a directory before the directory
//! remove    names that have no inode any more                  they vanish
//! rewrite   contents of files with unknown names, in place
//! dress     attributes, in place, and times of directories
//! ```
//!
//! The steps depend on the records in the upper file system alone. They are the same whenever they
//! are computed, also if the lower has a part of the changes.

use super::tree::{FinalTree, NamePlace};
use crate::overlay::format::NameMarker;
use crate::overlay::upper::UpperStore;
use crate::types::{FileKind, Inode};
use std::collections::BTreeMap;

/// Where in the stage an inode is kept until it gets its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StagedSource {
    /// It was built.
    Built(Inode),
    /// It was pinned or detached.
    Pinned(Inode),
}

/// Whether an inode leaves the stage when it gets a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StagedMove {
    /// It is renamed out of the stage.
    Rename,
    /// It gets one name of several, and stays.
    Link,
}

/// A step of an apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApplyStep {
    Build(Inode),
    Seal,
    Pin(Inode, NamePlace),
    Detach(Inode, NamePlace),
    Sync,
    Place(StagedSource, NamePlace, StagedMove),
    Remove(Inode, NamePlace),
    Rewrite(Inode),
    Dress(Inode),
    SetTimes(Inode),
}

/// How a changed inode that is no directory reaches the lower.
#[derive(Default)]
struct PlanParts {
    build: Vec<ApplyStep>,
    pin: Vec<ApplyStep>,
    detach: BTreeMap<Inode, NamePlace>,
    place: Vec<(usize, ApplyStep)>,
    remove: Vec<ApplyStep>,
    rewrite: Vec<ApplyStep>,
    dress: Vec<ApplyStep>,
}

/// Computes the steps.
pub(super) fn plan(upper: &UpperStore, tree: &FinalTree) -> Vec<ApplyStep> {
    let mut parts = PlanParts::default();
    plan_directories(upper, tree, &mut parts);
    for (inode, record) in &tree.records {
        if record.kind != FileKind::Directory && record.links > 0 {
            plan_changed(upper, tree, *inode, &mut parts);
        }
    }
    plan_markers(upper, tree, &mut parts);
    let mut steps = parts.build;
    steps.push(ApplyStep::Seal);
    steps.extend(parts.pin);
    steps.extend(
        parts
            .detach
            .into_iter()
            .map(|(inode, origin)| ApplyStep::Detach(inode, origin)),
    );
    steps.push(ApplyStep::Sync);
    parts.place.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    for (_, step) in parts.place {
        if let ApplyStep::Place(StagedSource::Built(inode) | StagedSource::Pinned(inode), ..) = step
            && tree.places.contains_key(&inode)
            && tree.records.contains_key(&inode)
        {
            // A directory is complete before it appears.
            steps.push(ApplyStep::Dress(inode));
            steps.push(ApplyStep::SetTimes(inode));
        }
        steps.push(step);
    }
    steps.extend(parts.remove);
    steps.extend(parts.rewrite);
    steps.extend(parts.dress);
    let directories = tree
        .records
        .iter()
        .filter(|(_, record)| record.kind == FileKind::Directory && !record.is_removed);
    steps.extend(directories.map(|(inode, _)| ApplyStep::SetTimes(*inode)));
    steps
}

fn plan_directories(upper: &UpperStore, tree: &FinalTree, parts: &mut PlanParts) {
    for (inode, record) in &tree.records {
        if record.kind != FileKind::Directory || record.is_removed {
            continue;
        }
        if upper.is_new(*inode) {
            // A directory without a name is what an interrupted operation has left.
            if tree.places.contains_key(inode) {
                parts.build.push(ApplyStep::Build(*inode));
            }
        } else {
            parts.dress.push(ApplyStep::Dress(*inode));
        }
    }
    for (inode, place) in &tree.places {
        let source = match upper.is_new(*inode) {
            true => StagedSource::Built(*inode),
            false if tree.origins.get(inode) == Some(place) => continue,
            false => {
                if let Some(origin) = tree.origins.get(inode) {
                    parts.detach.insert(*inode, origin.clone());
                }
                StagedSource::Pinned(*inode)
            }
        };
        let step = ApplyStep::Place(source, place.clone(), StagedMove::Rename);
        parts.place.push((tree.depth(place), step));
    }
}

/// Plans for an inode with a record that is no directory.
fn plan_changed(upper: &UpperStore, tree: &FinalTree, inode: Inode, parts: &mut PlanParts) {
    let Some(record) = tree.records.get(&inode) else {
        return;
    };
    let names = tree.names_of(inode);
    let is_new = upper.is_new(inode);
    let knows_all_names = names.len() as i64 == record.links;
    if is_new || record.has_new_contents && knows_all_names {
        parts.build.push(ApplyStep::Build(inode));
        let how = if names.len() == 1 {
            StagedMove::Rename
        } else {
            StagedMove::Link
        };
        for place in names {
            let depth = tree.depth(&place);
            parts
                .place
                .push((depth, ApplyStep::Place(StagedSource::Built(inode), place, how)));
        }
        return;
    }
    plan_moved(tree, inode, parts);
    if record.has_new_contents {
        parts.rewrite.push(ApplyStep::Rewrite(inode));
    }
    parts.dress.push(ApplyStep::Dress(inode));
}

/// Plans the new names of an inode of the lower that is no directory and is not built. It gets a
/// name in the stage if it cannot be reached otherwise until the end.
fn plan_moved(tree: &FinalTree, inode: Inode, parts: &mut PlanParts) {
    let is_moved = |place: &NamePlace| tree.base_of(place).is_none_or(|base| base.inode != inode);
    let names: Vec<NamePlace> = tree
        .marked_names_of(inode)
        .iter()
        .filter(|place| is_moved(place))
        .cloned()
        .collect();
    let Some(origin) = tree.lower_names.get(&inode).and_then(|names| names.first()) else {
        return;
    };
    let stays = |place: &NamePlace| !tree.markers.contains_key(place) || !is_moved(place);
    // An inode that loses all names that are known may have others, under which it is still seen.
    if names.is_empty() && tree.names_of(inode).iter().any(stays) {
        return;
    }
    parts.pin.push(ApplyStep::Pin(inode, origin.clone()));
    for place in names {
        let depth = tree.depth(&place);
        let step = ApplyStep::Place(StagedSource::Pinned(inode), place, StagedMove::Link);
        parts.place.push((depth, step));
    }
}

/// Plans names that go, directories that others replace, and inodes that only move.
fn plan_markers(upper: &UpperStore, tree: &FinalTree, parts: &mut PlanParts) {
    for inode in tree.marked_inodes() {
        if !upper.is_new(inode) && !tree.records.contains_key(&inode) {
            plan_moved(tree, inode, parts);
        }
    }
    for (place, marker) in &tree.markers {
        let Some(base) = tree.base_of(place) else { continue };
        let is_same = matches!(marker, NameMarker::Present(inode, _) if *inode == base.inode);
        if is_same {
            continue;
        }
        if base.kind == FileKind::Directory {
            parts.detach.entry(base.inode).or_insert_with(|| place.clone());
        } else if *marker == NameMarker::Absent {
            parts.remove.push(ApplyStep::Remove(base.inode, place.clone()));
        }
    }
}
