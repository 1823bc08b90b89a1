//! Checks the workspace itself, and the command on a workspace with violations.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use xtask::tidy::{self, Workspace};

#[test]
fn the_workspace_is_in_order() {
    let workspace = Workspace::load(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let findings: Vec<String> = tidy::check(&workspace).iter().map(ToString::to_string).collect();
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
    assert!(
        workspace.sources.len() > 30 && workspace.packages.len() > 5,
        "saw only {}",
        workspace.summary()
    );
}

#[test]
fn the_library_and_the_crates_below_it_can_be_published() {
    let workspace = Workspace::load(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    for name in ["alluvium", "alluvium-model"] {
        let package = workspace.packages.iter().find(|package| package.name == name);
        assert!(
            package.is_some_and(|package| package.publication.is_some()),
            "{name}"
        );
    }
}

/// Creates a workspace of one crate with this library source.
fn plant(lib: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"crates/base\"]\n",
    );
    write(
        "crates/base/Cargo.toml",
        "[package]\nname = \"alluvium-base\"\nedition = \"2024\"\npublish = false\n",
    );
    write("crates/base/src/lib.rs", lib);
    write(
        "crates/xtask/ratchet.toml",
        "longest_file = 900\nlongest_function = 80\nlong_functions = 4\nallowances = 0\n\
         one_word_types = 1000\nparticiple_types = 1000\nshared_type_names = 9\n",
    );
    root
}

fn tidy(root: &Path, arguments: &[&str]) -> Output {
    let xtask = env!("CARGO_BIN_EXE_xtask");
    Command::new(xtask)
        .arg("tidy")
        .args(arguments)
        .current_dir(root)
        .output()
        .unwrap()
}

const HEADER: &str = "//! Words.\n//!\n//! *Scope*: a.\n//! *Must not depend on*: b.\n//! - **B1** d.\n";

#[test]
fn the_command_fails_with_every_finding_and_passes_once_they_are_mended() {
    let root = plant(&format!("{HEADER}fn f() {{ todo!() }}\nuse std::fs;\n"));
    let output = tidy(root.path(), &[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(errors.contains("crates/base/src/lib.rs:6: todo!"), "{errors}");
    assert!(
        errors.contains("crates/base/src/lib.rs:7: std::fs belongs"),
        "{errors}"
    );
    assert!(errors.contains("2 findings"), "{errors}");

    fs::write(root.path().join("crates/base/src/lib.rs"), HEADER).unwrap();
    let output = tidy(root.path(), &[]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn updating_the_ratchet_lowers_the_committed_numbers() {
    let root = plant(HEADER);
    assert!(tidy(root.path(), &["--update-ratchet"]).status.success());
    let text = fs::read_to_string(root.path().join("crates/xtask/ratchet.toml")).unwrap();
    assert_eq!(
        text,
        "longest_file = 0\nlongest_function = 0\nlong_functions = 0\nallowances = 0\n\
         one_word_types = 0\nparticiple_types = 0\nshared_type_names = 0\n"
    );
}

#[test]
fn the_command_finds_refused_words_wide_comments_and_lowers_their_limits() {
    let root = plant(&format!(
        "{HEADER}// Somebody waits.\n// {}\nfn f() {{}}\n",
        "wide ".repeat(20)
    ));
    let output = tidy(root.path(), &[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(
        errors.contains("crates/base/src/lib.rs:6: \"somebody\""),
        "{errors}"
    );
    assert!(
        errors.contains("crates/base/src/lib.rs:7: a comment ends in column 103"),
        "{errors}"
    );

    let limits = root.path().join("crates/xtask/language.toml");
    fs::write(&limits, "base = 5\ncli = 1\n").unwrap();
    assert!(tidy(root.path(), &["--update-ratchet"]).status.success());
    assert_eq!(fs::read_to_string(&limits).unwrap(), "base = 2\n");
}

#[test]
fn subjects_of_commits_are_checked_from_the_recorded_commit_on() {
    let root = plant(HEADER);
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
            .args(arguments)
            .current_dir(root.path())
            .output()
            .expect("git is there");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let commit = |subject: &str| git(&["commit", "-q", "--allow-empty", "-m", subject]);
    git(&["init", "-q"]);
    commit("base: an old one; with two clauses");
    let since = git(&["rev-parse", "HEAD"]);
    let limits = root.path().join("crates/xtask/language.toml");
    fs::write(&limits, format!("since = \"{since}\"\n")).unwrap();
    commit("base: add a file");
    assert!(tidy(root.path(), &[]).status.success());

    commit("base: add one thing; remove another");
    let output = tidy(root.path(), &[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && errors.contains("two clauses"),
        "{errors}"
    );
    assert!(errors.contains("1 findings"), "{errors}");

    // The check is skipped if that commit is not in the history, as in a shallow clone.
    fs::write(&limits, format!("since = \"{}\"\n", "1".repeat(40))).unwrap();
    assert!(tidy(root.path(), &[]).status.success());
}
