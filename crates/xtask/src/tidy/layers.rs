//! The layer rule: a crate uses only the lower-layer crates that the layer table lists for it.

use super::crates::{self, CrateLayer, CratePurpose};
use super::workspace::{DependencyPurpose, Package};
use super::{TidyFinding, Workspace};

/// Crates that may return `anyhow` errors, because only humans read their errors.
const ANYHOW: [&str; 4] = ["cli", "bench", "research", "xtask"];

/// Checks every package against the layer table.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let manifest = format!("{}/Cargo.toml", package.folder);
        let mut find = |text: String| findings.push(TidyFinding::new(&manifest, 1, text));
        let Some(member) = crates::named(Workspace::crate_of(&package.folder)) else {
            find(format!(
                "{} is not in the layer table: decide its layer and what it may use, in crates/xtask/src/tidy/crates.rs",
                package.name
            ));
            continue;
        };
        let named = member.package == package.name
            || (["bindings", "research"].contains(&member.name) && package.name.starts_with(member.package));
        if !named {
            find(format!(
                "the package is called {}: call it {}",
                package.name, member.package
            ));
        }
        for (name, used) in &package.dependencies {
            if let Some(text) = refuse(workspace, member, name, *used) {
                find(text);
            }
        }
    }
    findings
}

/// Returns why a package of `member` may not depend on the package `name`, or `None` if it may.
fn refuse(workspace: &Workspace, member: &CrateLayer, name: &str, used: DependencyPurpose) -> Option<String> {
    if name == "anyhow" && used == DependencyPurpose::Normal && !ANYHOW.contains(&member.name) {
        return Some("only cli, bench and xtask may use anyhow: give the crate an error type".to_owned());
    }
    let of_workspace = |package: &&Package| package.name == name;
    let other = workspace.packages.iter().find(of_workspace)?;
    let other = crates::named(Workspace::crate_of(&other.folder))?;
    let (allowed, way) = match used {
        DependencyPurpose::Normal => (member.may_use(other.name) || member.name == other.name, "uses"),
        // Tests may enable features of their own crate.
        DependencyPurpose::Development => (
            member.name == other.name || member.may_test_with(other),
            "is tested with",
        ),
    };
    if allowed {
        return None;
    }
    let why = if other.place == CratePurpose::Workshop {
        "the product does not depend on its workshop".to_owned()
    } else if other.layer == member.layer {
        "crates of one layer never import each other: put the shared contract into base and hand it in from above".to_owned()
    } else if other.layer > member.layer {
        "that is a higher layer: turn the arrow round with a contract that the higher crate implements"
            .to_owned()
    } else {
        format!(
            "the layer table gives {} only {}",
            member.name,
            member.uses.join(", ")
        )
    };
    Some(format!(
        "{} (layer {}) {way} {} (layer {}): {why}",
        member.name, member.layer, other.name, other.layer
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::lines;

    /// A package: its folder, its name, its dependencies.
    type TestPackage<'a> = (&'a str, &'a str, &'a [(&'a str, DependencyPurpose)]);

    fn findings(extra: &[TestPackage<'_>]) -> Vec<String> {
        let mut workspace = Workspace::planted(&[])
            .with_package(
                "crates/base",
                "alluvium-base",
                &[("thiserror", DependencyPurpose::Normal)],
            )
            .with_package(
                "crates/device",
                "alluvium-device",
                &[("alluvium-base", DependencyPurpose::Normal)],
            )
            .with_package(
                "crates/sim",
                "alluvium-sim",
                &[("alluvium-device", DependencyPurpose::Normal)],
            );
        for (folder, name, dependencies) in extra {
            workspace = workspace.with_package(folder, name, dependencies);
        }
        lines(&check(&workspace))
    }

    #[test]
    fn a_workspace_in_order_has_no_findings() {
        let uses = [
            ("alluvium-base", DependencyPurpose::Normal),
            ("alluvium-device", DependencyPurpose::Normal),
            ("alluvium-sim", DependencyPurpose::Development),
        ];
        assert_eq!(
            findings(&[("crates/storage", "alluvium-storage", &uses)]),
            [""; 0]
        );
    }

    #[test]
    fn a_neighbour_a_higher_layer_and_the_workshop_are_refused() {
        let found = findings(&[(
            "crates/model",
            "alluvium-model",
            &[("alluvium-device", DependencyPurpose::Normal)],
        )]);
        assert!(found[0].contains(
            "crates/model/Cargo.toml:1: model (layer 1) uses device (layer 1): crates of one layer"
        ));
        let storage = (
            "crates/storage",
            "alluvium-storage",
            &[("alluvium-sim", DependencyPurpose::Normal)][..],
        );
        assert!(findings(&[storage])[0].contains("does not depend on its workshop"));
        let model = (
            "crates/model",
            "alluvium-model",
            &[("alluvium-storage", DependencyPurpose::Development)][..],
        );
        let found = findings(&[("crates/storage", "alluvium-storage", &[]), model]);
        assert!(found[0].contains("is tested with storage (layer 2): that is a higher layer"));
    }

    #[test]
    fn a_lower_layer_that_the_table_does_not_give_is_refused() {
        let storage = (
            "crates/storage",
            "alluvium-storage",
            &[("alluvium-model", DependencyPurpose::Normal)][..],
        );
        let found = findings(&[("crates/model", "alluvium-model", &[]), storage]);
        assert_eq!(
            found,
            [
                "crates/storage/Cargo.toml:1: storage (layer 2) uses model (layer 1): the layer table gives storage only device"
            ]
        );
    }

    #[test]
    fn an_unknown_crate_a_wrong_name_and_anyhow_are_found() {
        assert!(
            findings(&[("crates/cellar", "alluvium-cellar", &[])])[0].contains("is not in the layer table")
        );
        assert!(findings(&[("crates/model", "model", &[])])[0].contains("call it alluvium-model"));
        assert!(
            findings(&[(
                "crates/model",
                "alluvium-model",
                &[("anyhow", DependencyPurpose::Normal)]
            )])[0]
                .contains("only cli, bench and xtask may use anyhow")
        );
    }
}
