//! Rule 10: in code that decodes bytes from a device or a socket, unchecked indexing and `unwrap`
//! are compile errors.

use super::{TidyFinding, Workspace, crates};

/// The first line of each decoder. It exempts tests.
const DENIED: &str = "#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]";

/// Decoders in files other than `format.rs`: the byte reader that formats use, and the protocol
/// parsers.
const OTHERS: [&str; 3] = [
    "crates/base/src/bytes.rs",
    "crates/server/src/protocol/memcached/request.rs",
    "crates/server/src/protocol/resp/parse.rs",
];

/// Checks every `format.rs` of the product, and the other decoders.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let decodes = |path: &str, name: &str| {
        let is_format = name == "format.rs" && !crates::is_workshop(Workspace::crate_of(path));
        is_format || OTHERS.contains(&path)
    };
    let decoders = workspace
        .sources
        .iter()
        .filter(|source| decodes(&source.path, source.file_name()) && !source.is_test(1));
    let bare = decoders.filter(|source| source.find(DENIED).is_empty());
    bare.map(|source| {
        let text = format!("it decodes bytes of a device or a socket: begin with `{DENIED}`");
        TidyFinding::new(&source.path, 1, text)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    #[test]
    fn decoders_deny_what_panics_on_wrong_bytes() {
        let good = format!("//! Words.\n{DENIED}\nfn f() {{}}\n");
        let bad = "//! Words.\n// deny(clippy::indexing_slicing, clippy::unwrap_used)\n";
        for (path, is_decoder) in [
            ("crates/storage/src/log/format.rs", true),
            ("crates/server/src/protocol/resp/parse.rs", true),
            ("crates/storage/src/log/mod.rs", false),
            ("crates/bench/src/format.rs", false),
            ("crates/filters/src/quotient/tests/format.rs", false),
        ] {
            let found = |text: &str| lines(&check(&Workspace::planted(&[(path, text)])));
            assert_eq!(found(&good), [""; 0], "{path}");
            assert_eq!(found(bad).len(), usize::from(is_decoder), "{path}");
        }
    }
}
