//! The tree that a seed makes is always the same, and a workload that skips steps continues it.

use alluvium_aging::workload::checksum::tree_checksum;
use alluvium_aging::workload::git::{GarbageCollection, GitWorkload, HistorySource};
use alluvium_aging::workload::history::HistoryParameters;
use alluvium_aging::workload::interfile::InterfileWorkload;
use alluvium_aging::workload::intrafile::IntrafileWorkload;
use alluvium_aging::workload::mail::{MailParameters, MailWorkload};
use alluvium_aging::workload::{AgingWorkload, StepRelation};
use std::fs;
use std::path::Path;

fn sum(root: &Path) -> u64 {
    tree_checksum(root, &|| false).unwrap()
}

/// Performs steps up to the last one, and returns the checksum of the tree.
fn perform(workload: &mut dyn AgingWorkload, last: u64) -> u64 {
    let place = tempfile::tempdir().unwrap();
    let steps = match workload.relation() {
        StepRelation::Cumulative => 0..=last,
        StepRelation::Independent => last..=last,
    };
    for step in steps {
        workload.perform(place.path(), step, &|| false).unwrap();
    }
    sum(place.path())
}

/// Performs steps, and takes another workload of the same parameters for those after `turn`.
fn perform_in_two(
    first: &mut dyn AgingWorkload,
    second: &mut dyn AgingWorkload,
    turn: u64,
    last: u64,
) -> u64 {
    let place = tempfile::tempdir().unwrap();
    for step in 0..=turn {
        first.perform(place.path(), step, &|| false).unwrap();
        second.skip(step);
    }
    for step in turn + 1..=last {
        second.perform(place.path(), step, &|| false).unwrap();
    }
    sum(place.path())
}

fn intrafile(seed: u64) -> IntrafileWorkload {
    IntrafileWorkload {
        files: 3,
        chunks: 8,
        chunk_bytes: 512,
        seed,
    }
}

fn mail(seed: u64) -> MailWorkload {
    MailWorkload::new(MailParameters {
        users: 2,
        mailboxes: 3,
        messages: 5,
        most_bytes: 300,
        operations: 40,
        seed,
    })
}

const HISTORY: HistoryParameters = HistoryParameters {
    commits: 6,
    files: 12,
    changes: 4,
    seed: 5,
};

fn git(work: &Path, collection: GarbageCollection) -> Option<GitWorkload> {
    if std::process::Command::new("git")
        .arg("--version")
        .output()
        .is_err()
    {
        alluvium_device::skipped!("git", "the program is not installed");
        return None;
    }
    let source = HistorySource::Synthetic(HISTORY);
    Some(GitWorkload::prepare(work, &source, collection, &|| false).unwrap())
}

#[test]
fn the_tree_of_a_seed_has_a_recorded_checksum() {
    let sums = [
        perform(&mut intrafile(5), 3),
        perform(&mut InterfileWorkload::synthetic(60, 200, 5), 50),
        perform(&mut mail(5), 4),
    ];
    let recorded = [
        0x3a48_f6ca_fc07_3d4e,
        0x6946_1fba_e9b3_22fa,
        0x2ca4_6cf7_c375_a8e7,
    ];
    assert_eq!(sums, recorded, "{sums:#018x?}");
}

#[test]
fn the_last_pull_of_a_history_has_a_recorded_checksum() {
    let work = tempfile::tempdir().unwrap();
    let Some(mut on) = git(work.path(), GarbageCollection::On) else {
        return;
    };
    let Some(mut off) = git(work.path(), GarbageCollection::Off) else {
        return;
    };
    let sums = [perform(&mut on, 5), perform(&mut off, 5)];
    assert_eq!(sums, [0x6568_1baf_fd7c_232c; 2], "{sums:#018x?}");
    let beyond = off.perform(tempfile::tempdir().unwrap().path(), 6, &|| false);
    assert!(beyond.is_err(), "the history has six commits");
}

#[test]
fn other_seeds_and_other_steps_make_other_trees() {
    assert_ne!(perform(&mut mail(5), 2), perform(&mut mail(6), 2));
    assert_ne!(perform(&mut mail(5), 2), perform(&mut mail(5), 3));
    // The contents of a file do not depend on the round: only its layout does.
    assert_eq!(perform(&mut intrafile(5), 0), perform(&mut intrafile(5), 8));
    let mut files = InterfileWorkload::synthetic(60, 200, 5);
    assert_eq!(perform(&mut files.clone(), 0), perform(&mut files, 100));
}

#[test]
fn a_workload_that_skips_steps_continues_the_same_tree() {
    let whole = perform(&mut mail(7), 5);
    for turn in [0, 2, 4] {
        assert_eq!(
            perform_in_two(&mut mail(7), &mut mail(7), turn, 5),
            whole,
            "{turn}"
        );
    }
    let work = tempfile::tempdir().unwrap();
    let Some(mut first) = git(work.path(), GarbageCollection::Off) else {
        return;
    };
    let whole = perform(&mut first.clone(), 5);
    let mut second = git(work.path(), GarbageCollection::Off).expect("it is installed");
    assert_eq!(perform_in_two(&mut first, &mut second, 2, 5), whole);
}

#[test]
fn intrafile_writes_whole_files_in_each_round() {
    let place = tempfile::tempdir().unwrap();
    intrafile(1).perform(place.path(), 8, &|| false).unwrap();
    for number in 0..3 {
        let path = place.path().join(format!("files/file-{number:02}"));
        assert_eq!(fs::metadata(path).unwrap().len(), 8 * 512);
    }
}

#[test]
fn an_origin_of_another_program_is_left_alone() {
    let work = tempfile::tempdir().unwrap();
    let origin = work.path().join("origin.git");
    fs::create_dir(&origin).unwrap();
    fs::write(origin.join("letter"), "river").unwrap();
    let source = HistorySource::Synthetic(HISTORY);
    let refused = GitWorkload::prepare(work.path(), &source, GarbageCollection::Off, &|| false).unwrap_err();
    assert!(refused.to_string().contains("was not made by"), "{refused}");
    assert_eq!(fs::read(origin.join("letter")).unwrap(), b"river");
}
