//! The listing of the public API of the crate `alluvium`, kept in `crates/db/api.txt`.
//!
//! Any change to the public API changes that file. A test fails until the file is regenerated
//! (`cargo run -p xtask -- api --write`).
//!
//! *Scope*: the source text of `crates/db`, and Rust's syntax.
//!
//! *Must not depend on*: types. Names are resolved through the `use` declarations of their file.

mod crate_source;
mod print;

use anyhow::{Context, Result};
use crate_source::CrateSource;
use std::collections::BTreeMap;
use std::path::Path;

/// Path of the listing, relative to the workspace.
const LISTING: &str = "crates/db/api.txt";

/// Modules that exist only for this workspace's tests. Their items may name inner crates.
const FOR_TESTS: [&str; 1] = ["simulation"];

/// The public API of a crate: the text of each public item, keyed by its path.
pub struct PublicApi {
    items: BTreeMap<String, String>,
    /// Items of inner crates that public items mention but the crate does not re-export.
    pub foreign: Vec<String>,
}

impl PublicApi {
    /// Reads the API from the sources in the workspace at `root`.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, with its path.
    pub fn read(root: &Path) -> Result<PublicApi> {
        let source = CrateSource::read(&root.join("crates/db/src"))?;
        let mut api = PublicApi {
            items: BTreeMap::new(),
            foreign: Vec::new(),
        };
        api.add_module(&source, &[], "alluvium")?;
        api.foreign.sort();
        api.foreign.dedup();
        Ok(api)
    }

    /// Returns the whole listing as text.
    #[must_use]
    pub fn listing(&self) -> String {
        let mut text = String::from(
            "# The public API of the crate `alluvium`, written by `cargo run -p xtask -- api --write`.\n",
        );
        for (path, item) in &self.items {
            text.push_str(&format!("\n# {path}\n{}\n", item.trim_end()));
        }
        text
    }

    /// Writes the listing to its file in the workspace at `root`.
    ///
    /// # Errors
    /// I/O errors.
    pub fn write(&self, root: &Path) -> Result<()> {
        let place = root.join(LISTING);
        std::fs::write(&place, self.listing()).with_context(|| format!("writing {}", place.display()))
    }

    fn add_module(&mut self, source: &CrateSource, module: &[String], path: &str) -> Result<()> {
        let is_for_tests = FOR_TESTS
            .iter()
            .any(|name| path.split("::").nth(1) == Some(*name));
        for export in source.exports(module)? {
            let item_path = format!("{path}::{}", export.name);
            match export.target {
                crate_source::ResolvedName::Module(inner) => self.add_module(source, &inner, &item_path)?,
                crate_source::ResolvedName::Foreign(from) => {
                    self.items.insert(item_path, format!("pub use {from};"));
                }
                crate_source::ResolvedName::Item(home, name) => {
                    let printed =
                        print::item(source, &home, &name).with_context(|| format!("listing {item_path}"))?;
                    if !is_for_tests {
                        self.foreign.extend(
                            printed
                                .foreign
                                .iter()
                                .map(|name| format!("{item_path} mentions {name}")),
                        );
                    }
                    self.items.insert(item_path, printed.text);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn the_listing_is_the_api() {
        let listing = PublicApi::read(root()).unwrap().listing();
        let kept = std::fs::read_to_string(root().join(LISTING)).unwrap_or_default();
        let differs = listing.lines().zip(kept.lines()).find(|(now, then)| now != then);
        assert!(
            listing == kept,
            "the public API has changed, first at {differs:?}: see that the change is meant, note it in CHANGELOG.md, \
             and run `cargo run -p xtask -- api --write`"
        );
    }

    #[test]
    fn the_api_names_no_type_of_an_inner_crate() {
        assert_eq!(PublicApi::read(root()).unwrap().foreign, Vec::<String>::new());
    }

    #[test]
    fn a_planted_crate_is_listed_with_what_is_public_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let src = place.path().join("crates/db/src");
        std::fs::create_dir_all(src.join("deep")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(src.join(name), text).unwrap();
        write(
            "lib.rs",
            "mod deep;\nmod hidden;\npub mod open;\npub use deep::{Store, Mode};\npub use alluvium_base::Purpose;\n",
        );
        write(
            "deep/mod.rs",
            "mod inner;\npub use inner::Store;\n/// Doc.\n#[derive(Debug)]\npub enum Mode { A, B(u32) }\n",
        );
        write(
            "deep/inner.rs",
            "use alluvium_storage::Cache;\nuse alluvium_base::Purpose;\n\
             pub struct Store { pub size: u64, cache: Cache }\n\
             impl Store { pub fn cache(&self) -> &Cache { &self.cache } fn own(&self) {} \
             pub(crate) fn part(&self) {} pub fn purpose(&self) -> Purpose { todo() } }\n\
             impl Drop for Store { fn drop(&mut self) {} }\n",
        );
        write(
            "hidden.rs",
            "use crate::deep::Store;\nimpl Store { pub fn more(&self) {} }\npub struct Secret;\n",
        );
        write(
            "open.rs",
            "pub const MOST: usize = 3;\npub fn f<T: Into<u8>>(t: T) -> u8 { t.into() }\n",
        );
        let api = PublicApi::read(place.path()).unwrap();
        let listing = api.listing();
        for expected in [
            "# alluvium::Store",
            "pub size: u64",
            "pub fn cache(&self) -> &Cache {}",
            "pub fn more(&self) {}",
            "impl Drop for Store {}",
            "# alluvium::Mode",
            "B(u32)",
            "pub use alluvium_base::Purpose;",
            "pub const MOST: usize",
            "pub fn f<T: Into<u8>>(t: T) -> u8 {}",
        ] {
            assert!(listing.contains(expected), "{expected}:\n{listing}");
        }
        for unexpected in ["own", "part", "Secret", "cache:", "Doc"] {
            assert!(!listing.contains(unexpected), "{unexpected}:\n{listing}");
        }
        assert_eq!(
            api.foreign,
            ["alluvium::Store mentions alluvium_storage::Cache"],
            "what is re-exported is no finding"
        );
    }
}
