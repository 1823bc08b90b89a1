//! A tier on the command line: a directory path with an optional capacity limit.

use std::path::PathBuf;

/// A directory for an additional tier of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierDirectory {
    pub path: PathBuf,
    /// Capacity limit in bytes, or `None` for no limit.
    pub max_bytes: Option<u64>,
}

/// Parses `PATH` or `PATH,bytes=4T`.
pub(crate) fn parse(text: &str) -> Result<TierDirectory, String> {
    let (path, max_bytes) = alluvium::text::parse_tier(text)?;
    Ok(TierDirectory { path, max_bytes })
}
