//! The input of all checks: the Rust files, documents and manifests of the workspace, of `fuzz/`
//! and of `research/`.

use super::SourceFile;
use super::language::LanguageLimits;
use super::ratchet::Ratchet;
use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyPurpose {
    /// Used by the crate or its build script.
    Normal,
    /// Used only by tests, benches and examples.
    Development,
}

/// A package of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    pub name: String,
    /// Folder, relative to the workspace.
    pub folder: String,
    /// Root files of the targets, relative to the workspace.
    pub roots: Vec<String>,
    /// Names of the packages that it depends on, with the purpose of each dependency.
    pub dependencies: Vec<(String, DependencyPurpose)>,
    /// Names of the declared features.
    pub features: Vec<String>,
    /// Publication metadata, or `None` if the package cannot be published.
    pub publication: Option<PublicationMetadata>,
}

/// Manifest data that publication requires.
#[derive(Clone, Debug)]
pub struct PublicationMetadata {
    /// Whether the manifest has a description.
    pub has_description: bool,
    /// Whether the manifest names a licence.
    pub has_license: bool,
    /// Whether the manifest names a readme.
    pub has_readme: bool,
    /// Workspace crates among the non-test dependencies, and whether each is specified by version.
    pub local: Vec<(String, bool)>,
}

#[derive(Clone, Debug)]
pub struct MarkdownDocument {
    /// Path relative to the workspace, with forward slashes.
    pub path: String,
    pub text: String,
}

/// The input of all checks.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// Root folder of the workspace.
    pub root: PathBuf,
    /// Rust files below `src`, `tests`, `benches`, `examples` and `fuzz_targets` of every package.
    pub sources: Vec<SourceFile>,
    pub documents: Vec<MarkdownDocument>,
    pub packages: Vec<Package>,
    /// All files except build output and version control, relative to the workspace.
    pub files: BTreeSet<String>,
    /// The text of `.ci/run` and `.ci/nightly`.
    pub ci: String,
    /// Committed limits that may only decrease.
    pub ratchet: Ratchet,
    /// Maximum number of language findings per crate.
    pub language: LanguageLimits,
    /// Commits whose subjects are checked: short hash and subject. Empty without a git history.
    pub subjects: Vec<(String, String)>,
}

impl Workspace {
    /// Loads the workspace that contains a folder.
    ///
    /// # Errors
    /// Cargo cannot describe the workspace, or a file cannot be read.
    pub fn load(inside: &Path) -> Result<Workspace> {
        let metadata = describe(inside, None)?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let mut packages = packages(&metadata, &root);
        for other in ["fuzz", "research", "research/fuzz", "bindings/python"] {
            let manifest = root.join(other).join("Cargo.toml");
            if manifest.exists() {
                packages.extend(self::packages(&describe(&root, Some(&manifest))?, &root));
            }
        }
        let mut files = BTreeSet::new();
        collect(&root, &root, &mut files)?;
        let read = |path: &str| {
            fs::read_to_string(root.join(path)).with_context(|| format!("{path} cannot be read as text"))
        };
        let sources = files
            .iter()
            .filter(|path| path.ends_with(".rs"))
            .map(|path| Ok(SourceFile::new(path, &read(path)?)))
            .collect::<Result<_>>()?;
        let document = |path: &String| {
            let text = read(path)?;
            let path = path.clone();
            Ok(MarkdownDocument { path, text })
        };
        let documents = files
            .iter()
            .filter(|path| path.ends_with(".md"))
            .map(document)
            .collect::<Result<_>>()?;
        let runs = [".ci/run", ".ci/nightly"];
        let runs = runs.iter().filter(|path| files.contains(**path));
        let ci = runs.map(|path| read(path)).collect::<Result<String>>()?;
        let ratchet = Ratchet::parse(&read(Ratchet::PATH)?)?;
        let language = if files.contains(LanguageLimits::PATH) {
            LanguageLimits::parse(&read(LanguageLimits::PATH)?)?
        } else {
            LanguageLimits::default()
        };
        let subjects = subjects(&root, &language.since);
        Ok(Workspace {
            root,
            sources,
            documents,
            packages,
            files,
            ci,
            ratchet,
            language,
            subjects,
        })
    }

    /// Summarises the size of the workspace in words.
    #[must_use]
    pub fn summary(&self) -> String {
        let lines: usize = self.sources.iter().map(SourceFile::code_len).sum();
        let (packages, files) = (self.packages.len(), self.sources.len());
        let documents = self.documents.len();
        format!("{packages} packages, {files} Rust files with {lines} lines of code, {documents} documents")
    }

    /// Returns the name of the crate that contains a path: `storage` for
    /// `crates/storage/src/lib.rs`, `fuzz` for files below `fuzz/`.
    #[must_use]
    pub fn crate_of(path: &str) -> &str {
        let path = path.strip_prefix("crates/").unwrap_or(path);
        path.split('/').next().unwrap_or(path)
    }
}

/// Returns the commits after the given one, without merges. Empty without git, without history, or
/// if the history does not contain the given commit.
fn subjects(root: &Path, since: &str) -> Vec<(String, String)> {
    if since.is_empty() {
        return Vec::new();
    }
    let range = format!("{since}..HEAD");
    let output = Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s", &range])
        .current_dir(root)
        .output();
    let Ok(output) = output.map(|output| (output.status.success(), output.stdout)) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(if output.0 { &output.1 } else { &[] }).into_owned();
    let commit = |line: &str| {
        line.split_once(' ')
            .map(|(hash, subject)| (hash.to_owned(), subject.to_owned()))
    };
    text.lines().filter_map(commit).collect()
}

fn describe(inside: &Path, manifest: Option<&Path>) -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.current_dir(inside).no_deps();
    if let Some(manifest) = manifest {
        command.manifest_path(manifest);
    }
    command
        .exec()
        .context("`cargo metadata` failed: run it yourself to see why")
}

fn packages(metadata: &Metadata, root: &Path) -> Vec<Package> {
    let relative = |path: &Path| {
        let path = path.strip_prefix(root).unwrap_or(path);
        path.to_string_lossy().replace('\\', "/")
    };
    let package = |package: &cargo_metadata::Package| {
        let folder = package
            .manifest_path
            .parent()
            .map_or_else(String::new, |path| relative(path.as_std_path()));
        let dependencies = package.dependencies.iter().map(|dependency| {
            let development = dependency.kind == cargo_metadata::DependencyKind::Development;
            let used = if development {
                DependencyPurpose::Development
            } else {
                DependencyPurpose::Normal
            };
            (dependency.name.clone(), used)
        });
        Package {
            name: package.name.to_string(),
            folder,
            roots: package
                .targets
                .iter()
                .map(|target| relative(target.src_path.as_std_path()))
                .collect(),
            dependencies: dependencies.collect(),
            features: package.features.keys().cloned().collect(),
            publication: publication(package),
        }
    };
    metadata.packages.iter().map(package).collect()
}

/// Returns the publication metadata of a package, or `None` if it cannot be published.
fn publication(package: &cargo_metadata::Package) -> Option<PublicationMetadata> {
    if package.publish.as_ref().is_some_and(Vec::is_empty) {
        return None;
    }
    let local = package.dependencies.iter().filter(|dependency| {
        dependency.path.is_some() && dependency.kind != cargo_metadata::DependencyKind::Development
    });
    Some(PublicationMetadata {
        has_description: package.description.is_some(),
        has_license: package.license.is_some(),
        has_readme: package.readme.is_some(),
        local: local
            .map(|dependency| (dependency.name.clone(), !dependency.req.comparators.is_empty()))
            .collect(),
    })
}

/// Collects every file below a folder except build output and version control.
fn collect(root: &Path, folder: &Path, files: &mut BTreeSet<String>) -> Result<()> {
    const SKIPPED: [&str; 5] = [".git", "target", "artifacts", "corpus", "proptest-regressions"];
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be listed", folder.display()))? {
        let entry = entry?;
        let path = entry.path();
        if SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else {
            let path = path.strip_prefix(root).unwrap_or(&path);
            files.insert(path.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}

#[cfg(test)]
impl Workspace {
    /// Creates a workspace of in-memory files for the tests of the checks.
    pub(crate) fn planted(files: &[(&str, &str)]) -> Workspace {
        let rust = |path: &str| {
            Path::new(path)
                .extension()
                .is_some_and(|extension| extension == "rs")
        };
        let (sources, others): (Vec<_>, Vec<_>) = files.iter().partition(|(path, _)| rust(path));
        let document = |(path, text): &(&str, &str)| MarkdownDocument {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Workspace {
            sources: sources
                .iter()
                .map(|(path, text)| SourceFile::new(path, text))
                .collect(),
            documents: others
                .iter()
                .filter(|(path, _)| path.ends_with(".md"))
                .map(document)
                .collect(),
            files: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
            ci: others
                .iter()
                .find(|(path, _)| *path == ".ci/run")
                .map_or_else(String::new, |(_, text)| (*text).to_owned()),
            ..Workspace::default()
        }
    }

    /// Adds a package to the workspace.
    pub(crate) fn with_package(
        mut self,
        folder: &str,
        name: &str,
        dependencies: &[(&str, DependencyPurpose)],
    ) -> Workspace {
        let root = |path: &String| {
            let tail = path.strip_prefix(&format!("{folder}/"));
            tail.is_some_and(|tail| ["src/lib.rs", "src/main.rs", "tests/it/main.rs"].contains(&tail))
        };
        self.packages.push(Package {
            name: name.to_owned(),
            folder: folder.to_owned(),
            roots: self.files.iter().filter(|path| root(path)).cloned().collect(),
            dependencies: dependencies
                .iter()
                .map(|(name, used)| ((*name).to_owned(), *used))
                .collect(),
            features: Vec::new(),
            publication: None,
        });
        self
    }
}

/// Returns the texts of a check's findings, one per line, for tests.
#[cfg(test)]
pub(crate) fn lines(findings: &[super::TidyFinding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}
