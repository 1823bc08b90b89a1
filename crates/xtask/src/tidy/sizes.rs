//! File and function sizes: the median and 90th percentile of files, the longest file, and long
//! functions. The ratchet limits growth that the aims do not forbid.

use super::ratchet::Ratchet;
use super::{SourceFile, TidyFinding, Workspace, formats};

/// Maximum median length of a file, in lines of code.
pub const MEDIAN: usize = 200;
/// Maximum 90th percentile of file lengths, in lines of code.
pub const NINE_IN_TEN: usize = 500;
/// Maximum length of any file, in lines of code.
pub const LONGEST: usize = 1000;
/// Aim for the length of a function, in lines of code. Longer functions count towards the ratchet.
pub const FUNCTION: usize = 70;

/// Checks the aims and the ratchet.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let measured = measure(workspace);
    let allowed = &workspace.ratchet;
    let files = by_length(workspace);
    for (len, source) in files
        .iter()
        .rev()
        .filter(|(len, _)| *len > LONGEST.min(allowed.longest_file.max(NINE_IN_TEN)))
    {
        let text = format!(
            "{len} lines of code, where no file may have over {}: a module is missing; take a part out",
            LONGEST.min(allowed.longest_file.max(NINE_IN_TEN))
        );
        findings.push(TidyFinding::new(&source.path, 1, text));
    }
    for (name, aim, at) in [
        ("median", MEDIAN, files.len() / 2),
        ("90th percentile", NINE_IN_TEN, files.len() * 9 / 10),
    ] {
        if let Some((len, source)) = files.get(at).filter(|(len, _)| *len > aim) {
            let text = format!(
                "the {name} of all files is {len} lines of code, {aim} is the aim: make the long ones shorter"
            );
            findings.push(TidyFinding::new(&source.path, 1, text));
        }
    }
    let functions = long_functions(workspace);
    for (len, source, name, line) in &functions {
        if *len > allowed.longest_function.max(FUNCTION) {
            let text = format!(
                "{name} has {len} lines of code, over the longest so far ({}): name its parts",
                allowed.longest_function
            );
            findings.push(TidyFinding::new(&source.path, *line, text));
        }
    }
    if measured.long_functions > allowed.long_functions {
        for (len, source, name, line) in functions {
            let text = format!(
                "{name} has {len} lines of code; {} functions have over {FUNCTION}, {} may: shorten one of them",
                measured.long_functions, allowed.long_functions
            );
            findings.push(TidyFinding::new(&source.path, line, text));
        }
    }
    if measured.allowances > allowed.allowances {
        for (path, line) in allowances(workspace) {
            let text = format!(
                "{} allowances, {} may be: do without one of them",
                measured.allowances, allowed.allowances
            );
            findings.push(TidyFinding::new(&path, line, text));
        }
    }
    findings
}

/// Measures the current state of the workspace in the ratchet's terms.
#[must_use]
pub fn measure(workspace: &Workspace) -> Ratchet {
    let functions = long_functions(workspace);
    let shares = super::names::measure(workspace);
    Ratchet {
        longest_file: by_length(workspace).last().map_or(0, |(len, _)| *len),
        longest_function: functions.iter().map(|(len, ..)| *len).max().unwrap_or(0),
        long_functions: functions.len(),
        allowances: allowances(workspace).len(),
        one_word_types: shares.one_word_permille,
        participle_types: shares.participle_permille,
        shared_type_names: shares.shared,
    }
}

/// Returns every file and its lines of code, shortest first.
fn by_length(workspace: &Workspace) -> Vec<(usize, &SourceFile)> {
    let mut files: Vec<_> = workspace
        .sources
        .iter()
        .map(|source| (source.code_len(), source))
        .collect();
    files.sort_by_key(|(len, source)| (*len, &source.path));
    files
}

/// Returns the functions longer than the aim: lines of code, file, name, line.
fn long_functions(workspace: &Workspace) -> Vec<(usize, &SourceFile, &str, usize)> {
    let of = |source| {
        let functions = SourceFile::functions(source).into_iter();
        functions.map(move |(name, from, to)| (source.code_lines_in(from..=to), source, name, from))
    };
    workspace
        .sources
        .iter()
        .flat_map(of)
        .filter(|(len, ..)| *len > FUNCTION)
        .collect()
}

fn allowances(workspace: &Workspace) -> Vec<(String, usize)> {
    let of = |source: &SourceFile| {
        let lines: Vec<usize> = source.allowances(formats::RULE).collect();
        lines
            .into_iter()
            .map(|line| (source.path.clone(), line))
            .collect::<Vec<_>>()
    };
    workspace.sources.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    fn file(name: &str, len: usize) -> SourceFile {
        SourceFile::new(&format!("crates/base/src/{name}.rs"), &"x;\n".repeat(len))
    }

    fn found(sources: Vec<SourceFile>, ratchet: Ratchet) -> Vec<String> {
        lines(&check(&Workspace {
            sources,
            ratchet,
            ..Workspace::default()
        }))
    }

    #[test]
    fn small_files_are_in_order_and_a_file_over_the_limit_is_not() {
        let many = |last: usize| {
            (0..30)
                .map(|i| file(&format!("f{i}"), 100))
                .chain([file("last", last)])
                .collect()
        };
        let loose = Ratchet {
            longest_file: 2000,
            ..Ratchet::default()
        };
        assert_eq!(found(many(1000), loose), [""; 0]);
        assert!(found(many(1001), loose)[0].starts_with("crates/base/src/last.rs:1: 1001 lines of code"));
        assert_eq!(found(many(500), Ratchet::default()), [""; 0]);
        assert_eq!(
            found(many(501), Ratchet::default()).len(),
            1,
            "the ratchet holds between the aim and the limit"
        );
    }

    #[test]
    fn the_median_and_the_nine_in_ten_are_held() {
        let loose = Ratchet {
            longest_file: 900,
            ..Ratchet::default()
        };
        let median = found((0..9).map(|i| file(&format!("f{i}"), 201)).collect(), loose);
        assert!(median[0].contains("the median of all files is 201"), "{median:?}");
        let mut files: Vec<SourceFile> = (0..8).map(|i| file(&format!("f{i}"), 10)).collect();
        files.extend([file("g", 600), file("h", 600)]);
        assert!(found(files, loose)[0].contains("the 90th percentile of all files is 600"));
    }

    #[test]
    fn long_functions_and_allowances_are_counted_against_the_ratchet() {
        let long = format!("fn long() {{\n{}}}\n", "x;\n".repeat(70));
        let source = || vec![SourceFile::new("crates/base/src/a.rs", &long)];
        let one = Ratchet {
            long_functions: 1,
            longest_function: 72,
            ..Ratchet::default()
        };
        assert_eq!(found(source(), one), [""; 0]);
        assert!(
            found(
                source(),
                Ratchet {
                    long_functions: 0,
                    ..one
                }
            )[0]
            .contains("1 functions have over 70, 0 may")
        );
        assert!(
            found(
                source(),
                Ratchet {
                    longest_function: 71,
                    ..one
                }
            )[0]
            .contains("over the longest so far (71)")
        );
        let allowed = || {
            vec![SourceFile::new(
                "crates/base/src/a.rs",
                "// tidy: allow format: bytes that stay in memory only\na();",
            )]
        };
        assert!(
            found(allowed(), Ratchet::default())[0]
                .starts_with("crates/base/src/a.rs:1: 1 allowances, 0 may be")
        );
    }
}
