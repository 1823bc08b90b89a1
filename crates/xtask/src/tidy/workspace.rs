//! What there is to check: the Rust files, documents and manifests of the workspace, of `fuzz/` and
//! of `research/`.

use super::Source;
use super::language::Limits;
use super::ratchet::Ratchet;
use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The crate itself, or its build script.
    Normal,
    /// Its tests, benches and examples.
    Development,
}

/// A crate of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder, relative to the workspace.
    pub folder: String,
    /// The root files of its targets, relative to the workspace.
    pub roots: Vec<String>,
    /// The names of the packages it depends on.
    pub dependencies: Vec<(String, Use)>,
    /// The features it declares.
    pub features: Vec<String>,
    /// What it says about itself, if it can be published.
    pub publication: Option<Publication>,
}

/// What a package says that can be published.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Whether it says what it is.
    pub has_description: bool,
    /// Whether it says under which licence.
    pub has_license: bool,
    /// Whether it names a page to read.
    pub has_readme: bool,
    /// The crates of the workspace that it depends on, except for its tests, and whether each is
    /// named by its version.
    pub local: Vec<(String, bool)>,
}

/// A Markdown file.
#[derive(Clone, Debug)]
pub struct Document {
    /// Where it is, relative to the workspace.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Everything that the checks look at.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// Its folder.
    pub root: PathBuf,
    /// The Rust files below `src`, `tests`, `benches`, `examples` and `fuzz_targets` of every
    /// package.
    pub sources: Vec<Source>,
    /// The Markdown files.
    pub documents: Vec<Document>,
    /// The packages.
    pub packages: Vec<Package>,
    /// Every file that is not built, relative to the workspace.
    pub files: BTreeSet<String>,
    /// The text of `.ci/run` and `.ci/nightly`.
    pub ci: String,
    /// The numbers that may only go down.
    pub ratchet: Ratchet,
    /// How many findings of language each crate may have.
    pub language: Limits,
    /// Commits whose subjects are checked: short hash and subject. None where there is no history.
    pub subjects: Vec<(String, String)>,
}

impl Workspace {
    /// Reads the workspace around a folder.
    ///
    /// # Errors
    /// When Cargo cannot describe it or a file cannot be read.
    pub fn load(inside: &Path) -> Result<Workspace> {
        let metadata = describe(inside, None)?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let mut packages = packages(&metadata, &root);
        for other in ["fuzz", "research", "research/fuzz"] {
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
            .map(|path| Ok(Source::new(path, &read(path)?)))
            .collect::<Result<_>>()?;
        let document = |path: &String| {
            let text = read(path)?;
            let path = path.clone();
            Ok(Document { path, text })
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
        let language = if files.contains(Limits::PATH) {
            Limits::parse(&read(Limits::PATH)?)?
        } else {
            Limits::default()
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

    /// Returns how much there is, in words.
    #[must_use]
    pub fn summary(&self) -> String {
        let lines: usize = self.sources.iter().map(Source::code_len).sum();
        let (packages, files) = (self.packages.len(), self.sources.len());
        let documents = self.documents.len();
        format!("{packages} packages, {files} Rust files with {lines} lines of code, {documents} documents")
    }

    /// Returns the name of the crate that a path is in: `storage` for `crates/storage/src/lib.rs`,
    /// `fuzz` for what is there.
    #[must_use]
    pub fn crate_of(path: &str) -> &str {
        let path = path.strip_prefix("crates/").unwrap_or(path);
        path.split('/').next().unwrap_or(path)
    }
}

/// Returns the commits since one, merges left out. None without git, without history, or if that
/// commit is not in it.
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
                Use::Development
            } else {
                Use::Normal
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

/// Returns what a package says about itself, if it can be published.
fn publication(package: &cargo_metadata::Package) -> Option<Publication> {
    if package.publish.as_ref().is_some_and(Vec::is_empty) {
        return None;
    }
    let local = package.dependencies.iter().filter(|dependency| {
        dependency.path.is_some() && dependency.kind != cargo_metadata::DependencyKind::Development
    });
    Some(Publication {
        has_description: package.description.is_some(),
        has_license: package.license.is_some(),
        has_readme: package.readme.is_some(),
        local: local
            .map(|dependency| (dependency.name.clone(), !dependency.req.comparators.is_empty()))
            .collect(),
    })
}

/// Every file below a folder but what is built or belongs to version control.
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
    /// Returns a workspace of planted files, for the tests of the checks.
    pub(crate) fn planted(files: &[(&str, &str)]) -> Workspace {
        let rust = |path: &str| {
            Path::new(path)
                .extension()
                .is_some_and(|extension| extension == "rs")
        };
        let (sources, others): (Vec<_>, Vec<_>) = files.iter().partition(|(path, _)| rust(path));
        let document = |(path, text): &(&str, &str)| Document {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Workspace {
            sources: sources
                .iter()
                .map(|(path, text)| Source::new(path, text))
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

    /// The same with one more package.
    pub(crate) fn with_package(
        mut self,
        folder: &str,
        name: &str,
        dependencies: &[(&str, Use)],
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

/// Returns what the findings of a check say, a line each, for tests.
#[cfg(test)]
pub(crate) fn lines(findings: &[super::Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}
