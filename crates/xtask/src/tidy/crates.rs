//! The layer table: which crates the workspace may have, in which layer each is, and what it may
//! use.
//!
//! A crate is a folder of `crates/`. It is listed here before it is built, so that its layer is
//! decided once.

/// A crate of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crate {
    /// Its folder in `crates/`.
    pub name: &'static str,
    /// Its package. Bindings have one package a language, which begins with this.
    pub package: &'static str,
    /// Its layer, from 0; a crate uses lower layers only.
    pub layer: u8,
    /// The crates it may use directly. What those may use, it may use too.
    pub uses: &'static [&'static str],
    /// Whether it is shipped or belongs to the workshop.
    pub place: Place,
}

/// What a crate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The store itself.
    Product,
    /// Tests, benchmarks and tools.
    Workshop,
}

const fn product(
    name: &'static str,
    package: &'static str,
    layer: u8,
    uses: &'static [&'static str],
) -> Crate {
    let place = Place::Product;
    Crate {
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
) -> Crate {
    Crate {
        place: Place::Workshop,
        ..product(name, package, layer, uses)
    }
}

/// Every crate that may exist. Seventeen is the ceiling: a new one needs an arrow to forbid or a
/// heavy dependency to keep out. (`fuzz` and `research` are workspaces of their own and not
/// counted.)
pub const CRATES: [Crate; 19] = [
    product("base", "alluvium-base", 0, &[]),
    product("device", "alluvium-device", 1, &["base"]),
    product("filters", "alluvium-filters", 1, &["base"]),
    product("model", "alluvium-model", 1, &["base"]),
    product("storage", "alluvium-storage", 2, &["device"]),
    // Messages, merge operators and keyspaces are known from here on: storage moves bytes.
    product("dictionary", "alluvium-dictionary", 3, &["storage", "filters"]),
    product("trees", "alluvium-trees", 4, &["dictionary", "filters", "model"]),
    product("hashes", "alluvium-hashes", 4, &["dictionary", "filters"]),
    product("db", "alluvium", 5, &["trees", "hashes", "model"]),
    product("files", "alluvium-files", 6, &["db"]),
    product("server", "alluvium-server", 6, &["db", "hashes"]),
    product("bindings", "alluvium-", 6, &["db"]),
    product("cli", "alluvium-cli", 8, &["files", "server", "bench"]),
    workshop("sim", "alluvium-sim", 2, &["base", "device"]),
    // Not a part of `sim`: `storage` is tested with that, and this uses `storage`.
    workshop("stories", "alluvium-stories", 4, &["dictionary", "sim"]),
    workshop("bench", "alluvium-bench", 7, &["db", "server"]),
    workshop("xtask", "xtask", 9, &[]),
    workshop("fuzz", "alluvium-fuzz", 9, &["db", "files", "server", "bench"]),
    // Nothing in `crates/` may use it.
    workshop("research", "", 9, &["cli", "db", "files", "server", "bench"]),
];

/// Returns the crate with a name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|entry| entry.name == name)
}

/// Returns whether a crate is part of the workshop.
#[must_use]
pub fn is_workshop(name: &str) -> bool {
    named(name).is_some_and(|entry| entry.place == Place::Workshop)
}

impl Crate {
    /// Returns whether this crate's own code may use another.
    #[must_use]
    pub fn may_use(&self, other: &str) -> bool {
        self.uses
            .iter()
            .any(|used| *used == other || named(used).is_some_and(|used| used.may_use(other)))
    }

    /// Returns whether this crate's tests, benches and examples may use another: any lower layer,
    /// and the simulator and its stories, unless these use this crate.
    #[must_use]
    pub fn may_test_with(&self, other: &Crate) -> bool {
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
