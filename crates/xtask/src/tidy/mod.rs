//! The checks of `xtask tidy`.
//!
//! *Scope*: the project rules that can be checked in text, and the file that implements each.
//!
//! *Must not depend on*: Rust's grammar beyond tokens. Rules that need types belong to clippy or to
//! a test.

pub mod crates;
pub mod decoders;
pub mod documents;
pub mod forbidden_imports;
pub mod formats;
pub mod headers;
pub mod import_cycles;
pub mod io;
pub mod language;
pub mod layers;
mod lexer;
pub mod modules;
pub mod names;
pub mod packages;
pub mod ratchet;
pub mod sizes;
pub mod source;
pub mod tuning;
pub mod unfinished;
pub mod workspace;

pub use source::SourceFile;
pub use workspace::Workspace;

use std::fmt;

/// A violation: its location, its description, and the fix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TidyFinding {
    /// File path, relative to the workspace.
    pub path: String,
    pub line: usize,
    /// Description of the violation and of the fix.
    pub text: String,
}

impl TidyFinding {
    /// Creates a finding for a line of a file.
    #[must_use]
    pub fn new(path: &str, line: usize, text: impl Into<String>) -> TidyFinding {
        let text = text.into();
        TidyFinding {
            path: path.to_owned(),
            line,
            text,
        }
    }
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// Runs every check. Returns the findings ordered by file and line.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let checks = [
        layers::check,
        modules::check,
        import_cycles::check,
        documents::check,
        formats::check,
        io::check,
        unfinished::check,
        headers::check,
        sizes::check,
        decoders::check,
        tuning::check,
        forbidden_imports::check,
        packages::check,
        language::check,
        names::check,
    ];
    let mut findings: Vec<TidyFinding> = checks.iter().flat_map(|check| check(workspace)).collect();
    findings.sort();
    findings.dedup();
    findings
}
