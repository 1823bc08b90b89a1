//! The floor table: which rooms the house may have, on which floor each stands, and what it may use.
//!
//! A room is a folder of `crates/`. It is listed here before it is built, so that its place is decided once.

/// A room of the house.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Its folder in `crates/`.
    pub name: &'static str,
    /// Its package. Bindings have one package a language, which begins with this.
    pub package: &'static str,
    /// How high it stands; a crate uses lower floors only.
    pub floor: u8,
    /// The rooms it may use directly. What those may use, it may use too.
    pub uses: &'static [&'static str],
    /// Whether it is shipped or belongs to the workshop.
    pub place: Place,
}

/// Where a room belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The store itself.
    House,
    /// Tests, benchmarks and tools.
    Workshop,
}

const fn house(name: &'static str, package: &'static str, floor: u8, uses: &'static [&'static str]) -> Room {
    let place = Place::House;
    Room {
        name,
        package,
        floor,
        uses,
        place,
    }
}

const fn workshop(
    name: &'static str,
    package: &'static str,
    floor: u8,
    uses: &'static [&'static str],
) -> Room {
    let place = Place::Workshop;
    Room {
        name,
        package,
        floor,
        uses,
        place,
    }
}

/// Every room that may exist. Seventeen is the ceiling: a new one needs an arrow to forbid or a heavy dependency to keep
/// out. (`fuzz` is its own workspace and not counted.)
pub const ROOMS: [Room; 18] = [
    house("base", "alluvium-base", 0, &[]),
    house("device", "alluvium-device", 1, &["base"]),
    house("filters", "alluvium-filters", 1, &["base"]),
    house("model", "alluvium-model", 1, &["base"]),
    house("storage", "alluvium-storage", 2, &["device"]),
    // Messages, merge operators and keyspaces are known from here on: storage moves bytes.
    house("dictionary", "alluvium-dictionary", 3, &["storage", "filters"]),
    house("trees", "alluvium-trees", 4, &["dictionary", "filters", "model"]),
    house("hashes", "alluvium-hashes", 4, &["dictionary", "filters"]),
    house("db", "alluvium", 5, &["trees", "hashes", "model"]),
    house("files", "alluvium-files", 6, &["db"]),
    house("server", "alluvium-server", 6, &["db", "hashes"]),
    house("bindings", "alluvium-", 6, &["db"]),
    house("cli", "alluvium-cli", 7, &["files", "server", "bench"]),
    workshop("sim", "alluvium-sim", 2, &["base", "device"]),
    workshop("bench", "alluvium-bench", 6, &["db"]),
    workshop("rivals", "alluvium-rivals", 7, &["bench"]),
    workshop("xtask", "xtask", 8, &[]),
    workshop("fuzz", "alluvium-fuzz", 8, &["db", "files", "server"]),
];

/// The room with a name.
#[must_use]
pub fn room(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}

/// Whether a room is part of the workshop.
#[must_use]
pub fn is_workshop(name: &str) -> bool {
    room(name).is_some_and(|room| room.place == Place::Workshop)
}

impl Room {
    /// Whether this room's own code may use another.
    #[must_use]
    pub fn may_use(&self, other: &str) -> bool {
        self.uses
            .iter()
            .any(|used| *used == other || room(used).is_some_and(|used| used.may_use(other)))
    }

    /// Whether this room's tests, benches and examples may use another: any lower floor, and the simulator.
    #[must_use]
    pub fn may_test_with(&self, other: &Room) -> bool {
        other.floor < self.floor || (other.name == "sim" && self.name != "sim")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arrow_points_to_a_lower_floor_so_that_there_is_no_circle() {
        for room in &ROOMS {
            for used in room.uses {
                let used = super::room(used).expect("a room that exists");
                assert!(used.floor < room.floor, "{} uses {}", room.name, used.name);
            }
        }
    }

    #[test]
    fn what_a_room_uses_brings_what_that_uses() {
        let trees = room("trees").unwrap();
        assert!(trees.may_use("base") && trees.may_use("device") && trees.may_use("model"));
        assert!(!trees.may_use("hashes") && !trees.may_use("db") && !trees.may_use("trees"));
    }
}
