//! The floor rule: a crate uses lower floors only, and of those only what the floor table gives it.

use super::rooms::{self, Place, Room};
use super::workspace::{Package, Use};
use super::{Finding, Workspace};

/// Rooms whose errors may be `anyhow`'s: those that only a person reads.
const ANYHOW: [&str; 4] = ["cli", "bench", "rivals", "xtask"];

/// Checks every package against the floor table.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let manifest = format!("{}/Cargo.toml", package.folder);
        let mut find = |text: String| findings.push(Finding::new(&manifest, 1, text));
        let Some(room) = rooms::room(Workspace::room_of(&package.folder)) else {
            find(format!(
                "{} is not in the floor table: decide its floor and what it may use, in crates/xtask/src/tidy/rooms.rs",
                package.name
            ));
            continue;
        };
        let named = room.package == package.name
            || (room.name == "bindings" && package.name.starts_with(room.package));
        if !named {
            find(format!(
                "the package is called {}: call it {}",
                package.name, room.package
            ));
        }
        for (name, used) in &package.dependencies {
            if let Some(text) = refuse(workspace, room, name, *used) {
                find(text);
            }
        }
    }
    findings
}

/// Why a package of `room` may not depend on the package `name`, if so.
fn refuse(workspace: &Workspace, room: &Room, name: &str, used: Use) -> Option<String> {
    if name == "anyhow" && used == Use::Normal && !ANYHOW.contains(&room.name) {
        return Some(
            "anyhow is for cli, bench and xtask: one error type of its own per boundary (rule 16)".to_owned(),
        );
    }
    let of_house = |package: &&Package| package.name == name;
    let other = workspace.packages.iter().find(of_house)?;
    let other = rooms::room(Workspace::room_of(&other.folder))?;
    let (allowed, way) = match used {
        Use::Normal => (room.may_use(other.name), "uses"),
        Use::Development => (room.may_test_with(other), "is tested with"),
    };
    if allowed {
        return None;
    }
    let why = if other.place == Place::Workshop {
        "the house does not lean on its workshop".to_owned()
    } else if other.floor == room.floor {
        "rooms on one floor never import each other: put the shared contract into base and hand it in from above".to_owned()
    } else if other.floor > room.floor {
        "that is a higher floor: turn the arrow round with a contract that the higher room implements"
            .to_owned()
    } else {
        format!(
            "the floor table gives {} only {}",
            room.name,
            room.uses.join(", ")
        )
    };
    Some(format!(
        "{} (floor {}) {way} {} (floor {}): {why}",
        room.name, room.floor, other.name, other.floor
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    /// A package: its folder, its name, what it depends on.
    type Planted<'a> = (&'a str, &'a str, &'a [(&'a str, Use)]);

    fn house(extra: &[Planted<'_>]) -> Vec<String> {
        let mut workspace = Workspace::planted(&[])
            .with_package("crates/base", "alluvium-base", &[("thiserror", Use::Normal)])
            .with_package(
                "crates/device",
                "alluvium-device",
                &[("alluvium-base", Use::Normal)],
            )
            .with_package("crates/sim", "alluvium-sim", &[("alluvium-device", Use::Normal)]);
        for (folder, name, dependencies) in extra {
            workspace = workspace.with_package(folder, name, dependencies);
        }
        lines(&check(&workspace))
    }

    #[test]
    fn a_house_in_order_has_no_findings() {
        let uses = [
            ("alluvium-base", Use::Normal),
            ("alluvium-device", Use::Normal),
            ("alluvium-sim", Use::Development),
        ];
        assert_eq!(house(&[("crates/storage", "alluvium-storage", &uses)]), [""; 0]);
    }

    #[test]
    fn a_neighbour_a_higher_floor_and_the_workshop_are_refused() {
        let found = house(&[(
            "crates/model",
            "alluvium-model",
            &[("alluvium-device", Use::Normal)],
        )]);
        assert!(found[0].contains(
            "crates/model/Cargo.toml:1: model (floor 1) uses device (floor 1): rooms on one floor"
        ));
        let storage = (
            "crates/storage",
            "alluvium-storage",
            &[("alluvium-sim", Use::Normal)][..],
        );
        assert!(house(&[storage])[0].contains("does not lean on its workshop"));
        let model = (
            "crates/model",
            "alluvium-model",
            &[("alluvium-storage", Use::Development)][..],
        );
        let found = house(&[("crates/storage", "alluvium-storage", &[]), model]);
        assert!(found[0].contains("is tested with storage (floor 2): that is a higher floor"));
    }

    #[test]
    fn a_lower_floor_that_the_table_does_not_give_is_refused() {
        let storage = (
            "crates/storage",
            "alluvium-storage",
            &[("alluvium-model", Use::Normal)][..],
        );
        let found = house(&[("crates/model", "alluvium-model", &[]), storage]);
        assert_eq!(
            found,
            [
                "crates/storage/Cargo.toml:1: storage (floor 2) uses model (floor 1): the floor table gives storage only device"
            ]
        );
    }

    #[test]
    fn an_unknown_room_a_wrong_name_and_anyhow_are_found() {
        assert!(house(&[("crates/cellar", "alluvium-cellar", &[])])[0].contains("is not in the floor table"));
        assert!(house(&[("crates/model", "model", &[])])[0].contains("call it alluvium-model"));
        assert!(
            house(&[("crates/model", "alluvium-model", &[("anyhow", Use::Normal)])])[0].contains("rule 16")
        );
    }
}
