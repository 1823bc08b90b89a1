//! Conflicts, aborts and what an apply leaves.

use super::images::{ImageTimes, assert_same, image};
use super::{OverlayBench, find, get, link, make, put, remove_directory, rename, unlink};
use crate::contract::FileSystem;
use crate::types::{AttributeChange, FileKind, Inode};
use crate::{
    ApplyOutcome, ErrorKind, Overlay, OverlayOptions, OverlayPhase, PathChangeKind, Result, discard,
};
use std::path::Path;

/// Runs `reads` in a transaction, `others` in the lower, and then commits.
fn conflict(reads: impl FnOnce(&dyn FileSystem), others: impl FnOnce(&Path)) -> Result<()> {
    let bench = OverlayBench::new();
    let lower = bench.path("lower");
    std::fs::create_dir_all(lower.join("directory/inner")).unwrap();
    for file in ["directory/file", "directory/second", "file"] {
        std::fs::write(lower.join(file), file).unwrap();
    }
    let overlay = bench.create();
    reads(&overlay);
    others(&lower);
    // A process that opens the overlay later finds the same.
    let reopened = bench.open().commit();
    let result = overlay.commit();
    match (&reopened, &result) {
        (Err(one), Err(two)) => assert_eq!(one.to_string(), two.to_string()),
        (Ok(()), _) => return reopened,
        _ => panic!("{reopened:?}, {result:?}"),
    }
    result
}

#[track_caller]
fn assert_conflict(result: Result<()>, path: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains(&format!("\"{path}\"")), "{error}");
}

#[test]
fn what_others_change_of_what_was_read_is_a_conflict_that_names_the_path() {
    let read = |files: &dyn FileSystem| assert!(get(files, "directory/file").is_ok());
    let write = |lower: &Path| std::fs::write(lower.join("directory/file"), "other").unwrap();
    assert_conflict(conflict(read, write), "directory/file");
    // Size and time of change may be the same: the time of the last change of attributes is not.
    let touch = |lower: &Path| {
        let path = lower.join("directory/file");
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::fs::write(&path, "DIRECTORY/file").unwrap();
        std::fs::File::open(&path).unwrap().set_modified(time).unwrap();
    };
    assert_conflict(conflict(read, touch), "directory/file");
    let replace = |lower: &Path| std::fs::rename(lower.join("file"), lower.join("directory/file")).unwrap();
    assert_conflict(conflict(read, replace), "directory/file");
    let remove = |lower: &Path| std::fs::remove_file(lower.join("directory/file")).unwrap();
    assert_conflict(conflict(read, remove), "directory/file");
    let rename = |lower: &Path| std::fs::rename(lower.join("directory"), lower.join("elsewhere")).unwrap();
    assert_conflict(conflict(read, rename), "directory");
    let absent = |files: &dyn FileSystem| assert!(find(files, "directory/new").is_err());
    let create = |lower: &Path| std::fs::write(lower.join("directory/new"), "").unwrap();
    assert_conflict(conflict(absent, create), "directory/new");
    let list = |files: &dyn FileSystem| {
        let directory = find(files, "directory").unwrap();
        assert_eq!(files.read_directory(directory, None, 1).unwrap().len(), 1);
    };
    assert_conflict(conflict(list, create), "directory");
    assert_conflict(conflict(list, remove), "directory");
}

#[test]
fn what_was_removed_or_changed_blindly_depends_on_what_was_there() {
    let write = |lower: &Path| std::fs::write(lower.join("directory/file"), "other").unwrap();
    let unlinks = |files: &dyn FileSystem| unlink(files, "directory/file").unwrap();
    assert_conflict(conflict(unlinks, write), "directory/file");
    let puts = |files: &dyn FileSystem| {
        put(files, "directory/file", b"mine");
    };
    assert_conflict(conflict(puts, write), "directory/file");
    let creates = |files: &dyn FileSystem| {
        put(files, "directory/inner/mine", b"mine");
    };
    let removes = |lower: &Path| std::fs::remove_dir(lower.join("directory/inner")).unwrap();
    assert_conflict(conflict(creates, removes), "directory/inner");
    let removes = |files: &dyn FileSystem| remove_directory(files, "directory/inner").unwrap();
    let creates = |lower: &Path| std::fs::write(lower.join("directory/inner/other"), "").unwrap();
    assert_conflict(conflict(removes, creates), "directory/inner");
}

#[test]
fn different_files_in_one_directory_are_no_conflict() {
    let creates = |files: &dyn FileSystem| {
        put(files, "directory/mine", b"mine");
    };
    let others = |lower: &Path| {
        std::fs::write(lower.join("directory/other"), "other").unwrap();
        std::fs::write(lower.join("directory/second"), "changed").unwrap();
        std::fs::create_dir(lower.join("directory/inner/deep")).unwrap();
    };
    conflict(creates, others).unwrap();
    let removes = |files: &dyn FileSystem| unlink(files, "directory/file").unwrap();
    conflict(removes, others).unwrap();
}

#[test]
fn two_transactions_that_create_different_files_both_commit_and_the_second_writer_of_one_does_not() {
    let bench = OverlayBench::new();
    std::fs::create_dir(bench.path("lower/bin")).unwrap();
    std::fs::create_dir(bench.path("second")).unwrap();
    let second_upper = || {
        let files =
            crate::OrdinaryDirectory::open(&bench.path("second"), crate::AccessTimes::Update).unwrap();
        std::sync::Arc::new(files)
    };
    let options = OverlayOptions {
        name: "second".to_owned(),
        nesting: 0,
    };
    let (first, second) = (
        bench.create(),
        Overlay::create(bench.lower(), second_upper(), Inode::ROOT, &options).unwrap(),
    );
    put(&first, "bin/one", b"one");
    put(&second, "bin/two", b"two");
    first.commit().unwrap();
    bench.apply().unwrap();
    second.commit().unwrap();
    super::apply(&*bench.lower(), second_upper(), Inode::ROOT).unwrap();
    assert_eq!(get(&*bench.lower(), "bin/one").unwrap(), b"one");
    assert_eq!(get(&*bench.lower(), "bin/two").unwrap(), b"two");
    let upper: std::sync::Arc<dyn FileSystem> = bench.upper();
    discard(&upper, Inode::ROOT).unwrap();
    let upper: std::sync::Arc<dyn FileSystem> = second_upper();
    discard(&upper, Inode::ROOT).unwrap();
    let (first, second) = (
        bench.create(),
        Overlay::create(bench.lower(), second_upper(), Inode::ROOT, &options).unwrap(),
    );
    put(&first, "bin/one", b"first");
    put(&second, "bin/one", b"second");
    first.commit().unwrap();
    bench.apply().unwrap();
    assert_conflict(second.commit(), "bin/one");
}

#[test]
fn an_abort_leaves_the_lower_as_it_was_and_the_upper_empty() {
    if !super::is_root() {
        return;
    }
    let bench = OverlayBench::new();
    super::model::fill(&bench.path("lower"), 3);
    bench.copy("lower", "before");
    let exact = |path: &Path| {
        let out = std::process::Command::new("find")
            .arg(".")
            .current_dir(path)
            .args(["-printf", "%p %i %T@ %C@ %m %s\n"])
            .output();
        let text = String::from_utf8(out.unwrap().stdout).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let before = exact(&bench.path("lower"));
    let overlay = bench.create();
    let mut rng = fastrand::Rng::with_seed(4);
    for _ in 0..300 {
        let _ = super::operations::PathOperation::random(&mut rng).run(&overlay);
    }
    drop(overlay);
    assert_eq!(bench.apply().unwrap(), ApplyOutcome::NotCommitted);
    let upper = bench.upper();
    discard(&upper, Inode::ROOT).unwrap();
    assert_eq!(exact(&bench.path("lower")), before);
    assert_eq!(std::fs::read_dir(bench.path("upper")).unwrap().count(), 0);
    let kept = crate::OrdinaryDirectory::open(&bench.path("before"), crate::AccessTimes::Keep).unwrap();
    assert_same(
        &image(&*bench.lower(), ImageTimes::With),
        &image(&kept, ImageTimes::With),
        "an abort",
    );
}

#[test]
fn a_committed_overlay_cannot_be_changed_or_discarded() {
    let bench = OverlayBench::new();
    let overlay = bench.create();
    put(&overlay, "file", b"committed");
    assert_eq!(overlay.phase(), OverlayPhase::Open);
    overlay.commit().unwrap();
    assert_eq!(bench.open().phase(), OverlayPhase::Committed);
    let file = find(&overlay, "file").unwrap();
    let late = overlay
        .write(file, crate::WritePosition::End, b"late")
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::ReadOnly);
    assert_eq!(overlay.commit().unwrap_err().kind(), ErrorKind::ReadOnly);
    let upper = bench.upper();
    assert_eq!(
        discard(&upper, Inode::ROOT).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    bench.apply().unwrap();
    discard(&upper, Inode::ROOT).unwrap();
    assert_eq!(
        Overlay::open(bench.lower(), upper, Inode::ROOT)
            .err()
            .unwrap()
            .kind(),
        ErrorKind::NotFound
    );
    assert_eq!(std::fs::read_dir(bench.path("lower")).unwrap().count(), 1);
}

#[test]
fn an_overlay_of_another_directory_is_refused() {
    let bench = OverlayBench::new();
    drop(bench.create());
    let other = OverlayBench::new();
    let opened = Overlay::open(other.lower(), bench.upper(), Inode::ROOT);
    assert_eq!(opened.err().unwrap().kind(), ErrorKind::InvalidArgument);
    let applied = super::apply(&*other.lower(), bench.upper(), Inode::ROOT);
    assert_eq!(applied.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let again = Overlay::create(
        bench.lower(),
        bench.upper(),
        Inode::ROOT,
        &OverlayOptions {
            name: "again".into(),
            nesting: 0,
        },
    );
    assert_eq!(again.err().unwrap().kind(), ErrorKind::Exists);
    let name = OverlayOptions {
        name: "a/b".into(),
        nesting: 0,
    };
    let refused = Overlay::create(other.lower(), other.upper(), Inode::ROOT, &name);
    assert_eq!(refused.err().unwrap().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn changes_are_listed_by_path() {
    let bench = OverlayBench::new();
    std::fs::create_dir_all(bench.path("lower/directory/inner")).unwrap();
    for file in ["directory/file", "directory/gone", "same"] {
        std::fs::write(bench.path("lower").join(file), file).unwrap();
    }
    let overlay = bench.create();
    put(&overlay, "directory/file", b"changed");
    unlink(&overlay, "directory/gone").unwrap();
    make(&overlay, "new", FileKind::Directory);
    put(&overlay, "new/file", b"new");
    rename(&overlay, "directory/inner", "new/inner").unwrap();
    get(&overlay, "same").unwrap();
    link(&overlay, "same", "again").unwrap();
    let mode = AttributeChange {
        mode: Some(0o700),
        ..AttributeChange::default()
    };
    overlay
        .set_attributes(find(&overlay, "directory").unwrap(), &mode)
        .unwrap();
    let found: Vec<(String, PathChangeKind)> = overlay
        .changes()
        .unwrap()
        .into_iter()
        .map(|change| (String::from_utf8(change.path).unwrap(), change.change))
        .collect();
    use PathChangeKind::{Added, Changed, Removed};
    let wanted = [
        ("again", Added),
        ("directory", Changed),
        ("directory/file", Changed),
        ("directory/gone", Removed),
        ("directory/inner", Removed),
        ("new", Added),
        ("new/file", Added),
        ("new/inner", Added),
        ("same", Changed),
    ];
    let wanted: Vec<(String, PathChangeKind)> = wanted.map(|(path, kind)| (path.to_owned(), kind)).to_vec();
    assert_eq!(found, wanted);
}

#[test]
fn names_that_differ_like_their_directories_are_separate_dependencies() {
    // Directories that are made together have neighbouring numbers.
    let bench = OverlayBench::new();
    let lower = bench.path("lower");
    let names = || ('a'..='p').map(|letter| format!("n1{letter}"));
    for directory in names() {
        std::fs::create_dir(lower.join(&directory)).unwrap();
    }
    for directory in names() {
        for file in names() {
            std::fs::write(lower.join(&directory).join(file), &directory).unwrap();
        }
    }
    let overlay = bench.create();
    for directory in names() {
        for file in names() {
            unlink(&overlay, &format!("{directory}/{file}")).unwrap();
        }
    }
    overlay.commit().unwrap();
    bench.apply().unwrap();
    for directory in names() {
        let left = std::fs::read_dir(lower.join(&directory)).unwrap().count();
        assert_eq!(left, 0, "files that were removed from {directory}");
    }
}
