//! A tier on the command line: a directory path with an optional capacity limit.

use super::sizes;
use std::path::PathBuf;

/// A directory for an additional tier of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierDirectory {
    pub path: PathBuf,
    /// Capacity limit in bytes, or `None` for no limit.
    pub max_bytes: Option<u64>,
}

/// Parses `PATH` or `PATH,bytes=4T`. The path may contain commas, but its end must not look like a
/// limit.
pub(crate) fn parse(text: &str) -> Result<TierDirectory, String> {
    let (path, max_bytes) = match text.rsplit_once(",bytes=") {
        Some((path, size)) => (path, Some(sizes::parse(size)?.0)),
        None => (text, None),
    };
    if path.is_empty() {
        return Err("name a directory, optionally with a limit, as in /mnt/large,bytes=4T".to_owned());
    }
    Ok(TierDirectory {
        path: PathBuf::from(path),
        max_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_have_a_limit_and_commas() {
        let tier = |path: &str, max_bytes| {
            Ok(TierDirectory {
                path: PathBuf::from(path),
                max_bytes,
            })
        };
        assert_eq!(parse("/mnt/large"), tier("/mnt/large", None));
        assert_eq!(parse("large,bytes=4T"), tier("large", Some(4 << 40)));
        assert_eq!(parse("a,b,bytes=16M"), tier("a,b", Some(16 << 20)));
        assert!(parse(",bytes=1G").is_err() && parse("").is_err());
        assert!(parse("large,bytes=much").unwrap_err().contains("is not a "));
    }
}
