//! The layer table: the crates that the workspace may contain, the layer of each crate, and its
//! allowed dependencies.
//!
//! A crate is a folder of `crates/`. It must be listed here before it is created, so that its layer
//! is decided explicitly.

/// A crate of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrateLayer {
    /// Name of its folder in `crates/`, by which `uses` refers to it.
    pub name: &'static str,
    /// Package name. Bindings have one package per language, whose names start with this prefix.
    pub package: &'static str,
    /// Layer, from 0. A crate may use only crates of lower layers.
    pub layer: u8,
    /// Crates that it may use directly. It inherits their allowed dependencies.
    pub uses: &'static [&'static str],
    /// Whether the crate is shipped or belongs to the workshop.
    pub place: CratePurpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CratePurpose {
    Product,
    /// Not part of the store itself: tests, benchmarks and tools.
    Workshop,
}

const fn product(
    name: &'static str,
    package: &'static str,
    layer: u8,
    uses: &'static [&'static str],
) -> CrateLayer {
    let place = CratePurpose::Product;
    CrateLayer {
        name,
        package,
        layer,
        uses,
        place,
    }
}

const fn workshop(
    name: &'static str,
    package: &'static str,
    layer: u8,
    uses: &'static [&'static str],
) -> CrateLayer {
    CrateLayer {
        place: CratePurpose::Workshop,
        ..product(name, package, layer, uses)
    }
}

/// Every crate that may exist. A new crate must either forbid a dependency or isolate a heavy
/// external one. (`fuzz` and `research` are separate workspaces and are not counted.)
pub const CRATES: [CrateLayer; 21] = [
    product("base", "alluvium-base", 0, &[]),
    product("device", "alluvium-device", 1, &["base"]),
    product("filters", "alluvium-filters", 1, &["base"]),
    product("model", "alluvium-model", 1, &["base"]),
    product("storage", "alluvium-storage", 2, &["device"]),
    // Messages, merge operators and keyspaces exist from this layer upwards; storage only moves
    // bytes.
    product("dictionary", "alluvium-dictionary", 3, &["storage", "filters"]),
    product("trees", "alluvium-trees", 4, &["dictionary", "filters", "model"]),
    product("hashes", "alluvium-hashes", 4, &["dictionary", "filters"]),
    product("db", "alluvium", 5, &["trees", "hashes", "model"]),
    product("files", "alluvium-files", 6, &["db"]),
    product("mount", "alluvium-mount", 7, &["files"]),
    product("server", "alluvium-server", 6, &["db", "hashes"]),
    // A package per language, over the package `alluvium-handles`.
    product("bindings", "alluvium-", 6, &["db"]),
    product("cli", "alluvium-cli", 8, &["server", "bench", "mount", "aging"]),
    workshop("sim", "alluvium-sim", 2, &["base", "device"]),
    // Separate from `sim`, because the tests of `storage` use `sim` and this crate uses `storage`.
    workshop("stories", "alluvium-stories", 4, &["dictionary", "sim"]),
    workshop("aging", "alluvium-aging", 2, &["device", "model"]),
    workshop("bench", "alluvium-bench", 7, &["db", "server"]),
    workshop("xtask", "xtask", 9, &[]),
    workshop("fuzz", "alluvium-fuzz", 9, &["db", "server", "mount", "bench"]),
    // No crate in `crates/` may use it.
    workshop("research", "", 9, &["cli", "db", "server", "bench"]),
];

/// Returns the crate with the given name.
#[must_use]
pub fn named(name: &str) -> Option<&'static CrateLayer> {
    CRATES.iter().find(|entry| entry.name == name)
}

/// Returns whether a crate is part of the workshop.
#[must_use]
pub fn is_workshop(name: &str) -> bool {
    named(name).is_some_and(|entry| entry.place == CratePurpose::Workshop)
}

impl CrateLayer {
    /// Returns whether the library code of this crate may use another crate.
    #[must_use]
    pub fn may_use(&self, other: &str) -> bool {
        self.uses
            .iter()
            .any(|used| *used == other || named(used).is_some_and(|used| used.may_use(other)))
    }

    /// Returns whether the tests, benches and examples of this crate may use another crate. They
    /// may use all lower layers, and the simulator and its stories unless these depend on this
    /// crate.
    #[must_use]
    pub fn may_test_with(&self, other: &CrateLayer) -> bool {
        let simulates = ["sim", "stories"].contains(&other.name);
        let would_be_circle = other.name == self.name || other.may_use(self.name);
        other.layer < self.layer || (simulates && !would_be_circle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arrow_points_to_a_lower_layer_so_that_there_is_no_circle() {
        for entry in &CRATES {
            for used in entry.uses {
                let used = named(used).expect("a crate that exists");
                assert!(used.layer < entry.layer, "{} uses {}", entry.name, used.name);
            }
        }
    }

    #[test]
    fn what_a_crate_uses_brings_what_that_uses() {
        let trees = named("trees").unwrap();
        assert!(trees.may_use("base") && trees.may_use("device") && trees.may_use("model"));
        assert!(!trees.may_use("hashes") && !trees.may_use("db") && !trees.may_use("trees"));
    }

    #[test]
    fn what_simulates_does_not_use_what_it_tests() {
        let tests_with = |one: &str, other| named(one).unwrap().may_test_with(named(other).unwrap());
        assert!(tests_with("storage", "sim") && tests_with("trees", "stories"));
        assert!(tests_with("hashes", "stories") && tests_with("db", "stories"));
        assert!(!tests_with("storage", "stories") && !tests_with("dictionary", "stories"));
        assert!(!tests_with("device", "sim") && !tests_with("stories", "stories"));
    }
}
