//! Every room opens alike: one sentence, *Knows*, *Does not know*, *Read in this order*, numbered invariants.

use super::{Finding, Source, Workspace, rooms};

/// Checks the first page of every library, and the first lines of every folder's module.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &workspace.sources {
        let in_house = !rooms::is_workshop(Workspace::room_of(&source.path));
        let missing: Vec<&str> = match source.file_name() {
            "lib.rs" if source.path.ends_with("src/lib.rs") => missing(
                source,
                &["*Knows*", "*Does not know*", "*Read in this order*"],
                true,
            ),
            "mod.rs" if in_house && !source.is_test(1) => missing(
                source,
                &["*Knows*", "*Does not know*", "*Read in this order*"],
                false,
            ),
            _ => Vec::new(),
        };
        if !missing.is_empty() {
            let text = format!(
                "the header lacks {}: whoever opens the room reads that first",
                missing.join(", ")
            );
            findings.push(Finding::new(&source.path, 1, text));
        }
    }
    findings
}

/// What a header lacks; `numbered` asks for invariants too.
fn missing<'a>(source: &Source, wanted: &[&'a str], numbered: bool) -> Vec<&'a str> {
    let header: Vec<&str> = source
        .comments
        .iter()
        .filter_map(|comment| comment.text.strip_prefix('!'))
        .collect();
    let mut missing: Vec<&str> = wanted
        .iter()
        .filter(|wanted| !header.iter().any(|line| line.contains(**wanted)))
        .copied()
        .collect();
    if numbered && !header.iter().any(|line| is_invariant(line)) {
        missing.push("numbered invariants (`- **S1** …`)");
    }
    missing
}

/// Whether a line of a header is a numbered invariant: `- **S1** …`.
fn is_invariant(line: &str) -> bool {
    let name = line
        .trim()
        .strip_prefix("- **")
        .and_then(|rest| rest.split_once("**"))
        .map(|(name, _)| name);
    name.is_some_and(|name| {
        let digits = name.trim_start_matches(|c: char| c.is_ascii_uppercase());
        digits.len() < name.len() && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    const HEADER: &str =
        "//! Words.\n//!\n//! *Knows*: a.\n//!\n//! *Does not know*: b.\n//!\n//! *Read in this order*: c.\n";

    #[test]
    fn a_full_header_is_in_order_and_an_empty_one_is_not() {
        let full = format!("{HEADER}//!\n//! - **B1** Words.\n");
        let found = |path: &str, text: &str| lines(&check(&Workspace::planted(&[(path, text)])));
        assert_eq!(found("crates/base/src/lib.rs", &full), [""; 0]);
        assert_eq!(found("crates/xtask/src/main.rs", "fn main() {}"), [""; 0]);
        assert_eq!(found("crates/storage/src/log/mod.rs", HEADER), [""; 0]);
        let bare = found("crates/base/src/lib.rs", "//! *Knows*: a. **B1**");
        assert!(bare[0].contains("lacks *Does not know*, *Read in this order*, numbered invariants"));
        assert!(found("crates/base/src/lib.rs", HEADER)[0].contains("lacks numbered invariants"));
    }
}
