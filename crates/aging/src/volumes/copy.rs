//! Copies a tree, as `cp -a` does: the unaged counterpart of an aged tree.

use crate::{ErrorContext, Result, StopRequest, check_stop};
use std::fs;
use std::path::Path;

/// Copies the contents of a directory into an existing one, in the order in which the directory
/// lists them. Modes and symbolic links are kept; times and owners are not.
///
/// # Errors
/// I/O errors, or the job was stopped.
pub fn copy_tree(from: &Path, to: &Path, stop: StopRequest<'_>) -> Result<()> {
    for entry in fs::read_dir(from).at("listing", from)? {
        check_stop(stop)?;
        let entry = entry.at("listing", from)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().at("reading the attributes of", &source)?;
        if kind.is_dir() {
            fs::create_dir(&target).at("creating", &target)?;
            copy_tree(&source, &target, stop)?;
            let status = fs::metadata(&source).at("reading the attributes of", &source)?;
            fs::set_permissions(&target, status.permissions()).at("setting the mode of", &target)?;
        } else if kind.is_symlink() {
            let link = fs::read_link(&source).at("reading", &source)?;
            std::os::unix::fs::symlink(link, &target).at("creating", &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target).at("copying to", &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::checksum::tree_checksum;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_copy_has_the_same_checksum_modes_and_links() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("a/b")).unwrap();
        fs::write(from.path().join("a/b/file"), "river").unwrap();
        fs::set_permissions(from.path().join("a/b/file"), fs::Permissions::from_mode(0o751)).unwrap();
        std::os::unix::fs::symlink("b/file", from.path().join("a/link")).unwrap();
        copy_tree(from.path(), to.path(), &|| false).unwrap();
        let sum = |root: &Path| tree_checksum(root, &|| false).unwrap();
        assert_eq!(sum(from.path()), sum(to.path()));
        let mode = fs::metadata(to.path().join("a/b/file")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o751);
        assert_eq!(
            fs::read_link(to.path().join("a/link")).unwrap(),
            Path::new("b/file")
        );
    }
}
