//! The package rule: a publishable crate has a description and a licence, and refers to crates of
//! the workspace by version.

use super::workspace::PublicationMetadata;
use super::{TidyFinding, Workspace};

/// Files with the licence texts, required in the folder of every publishable crate.
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

#[must_use]
pub fn check(workspace: &Workspace) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let Some(publication) = &package.publication else {
            continue;
        };
        let manifest = format!("{}/Cargo.toml", package.folder);
        let PublicationMetadata {
            has_description,
            has_license,
            has_readme,
            local,
        } = publication;
        for (name, is_there) in [
            ("description", has_description),
            ("license", has_license),
            ("readme", has_readme),
        ] {
            if !is_there {
                let text = format!(
                    "{} can be published, but has no {name}: give it one, or say publish = false",
                    package.name
                );
                findings.push(TidyFinding::new(&manifest, 1, text));
            }
        }
        for license in LICENSES {
            if !workspace.files.contains(&format!("{}/{license}", package.folder)) {
                let text = format!("{license} is not beside it: link it from the workspace's folder");
                findings.push(TidyFinding::new(&manifest, 1, text));
            }
        }
        for (name, has_version) in local {
            if !has_version {
                let text =
                    format!("{name} is named by its path alone: add its version, or it cannot be packaged");
                findings.push(TidyFinding::new(&manifest, 1, text));
            }
            let other = workspace.packages.iter().find(|other| other.name == *name);
            if other.is_some_and(|other| other.publication.is_none()) {
                let text = format!(
                    "{name} cannot be published, but {} can: decide alike",
                    package.name
                );
                findings.push(TidyFinding::new(&manifest, 1, text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::workspace::lines;
    use super::*;

    fn planted(change: impl Fn(&mut PublicationMetadata)) -> Vec<String> {
        let files = [
            ("crates/base/LICENSE-MIT", ""),
            ("crates/base/LICENSE-APACHE", ""),
            ("crates/device/LICENSE-MIT", ""),
            ("crates/device/LICENSE-APACHE", ""),
        ];
        let mut workspace = Workspace::planted(&files)
            .with_package("crates/base", "alluvium-base", &[])
            .with_package("crates/device", "alluvium-device", &[])
            .with_package("crates/sim", "alluvium-sim", &[]);
        let whole = PublicationMetadata {
            has_description: true,
            has_license: true,
            has_readme: true,
            local: vec![("alluvium-base".to_owned(), true)],
        };
        workspace.packages[0].publication = Some(PublicationMetadata {
            local: Vec::new(),
            ..whole.clone()
        });
        let mut changed = whole;
        change(&mut changed);
        workspace.packages[1].publication = Some(changed);
        lines(&check(&workspace))
    }

    #[test]
    fn a_package_that_says_everything_is_in_order() {
        assert_eq!(planted(|_| {}), [""; 0]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let found = planted(|publication| {
            publication.has_readme = false;
            publication.local[0].1 = false;
            publication.local.push(("alluvium-sim".to_owned(), true));
        });
        assert_eq!(
            found,
            [
                "crates/device/Cargo.toml:1: alluvium-device can be published, but has no readme: give it one, or say publish = false",
                "crates/device/Cargo.toml:1: alluvium-base is named by its path alone: add its version, or it cannot be packaged",
                "crates/device/Cargo.toml:1: alluvium-sim cannot be published, but alluvium-device can: decide alike",
            ]
        );
    }

    #[test]
    fn licences_stand_beside_a_manifest() {
        let mut workspace = Workspace::planted(&[("crates/base/LICENSE-MIT", "")]).with_package(
            "crates/base",
            "alluvium-base",
            &[],
        );
        workspace.packages[0].publication = Some(PublicationMetadata {
            has_description: true,
            has_license: true,
            has_readme: true,
            local: Vec::new(),
        });
        assert_eq!(
            lines(&check(&workspace)),
            [
                "crates/base/Cargo.toml:1: LICENSE-APACHE is not beside it: link it from the workspace's folder"
            ]
        );
    }
}
