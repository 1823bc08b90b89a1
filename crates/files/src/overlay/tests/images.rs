//! Images of whole trees, which tests compare.

use crate::contract::FileSystem;
use crate::types::{FileKind, Inode, Timestamp};
use std::collections::{BTreeMap, HashMap};

/// Everything that a tree is made of, by paths.
pub(super) type TreeImage = BTreeMap<String, NodeImage>;

/// Whether images have times.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageTimes {
    With,
    Without,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct NodeImage {
    kind: FileKind,
    mode: u32,
    owner: (u32, u32),
    device: u64,
    modified: Option<Timestamp>,
    /// The first path of the same inode, and the number of names unless it is a directory.
    links: (String, u32),
    contents: Vec<u8>,
    extended: Vec<(String, Vec<u8>)>,
}

impl std::fmt::Debug for NodeImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sum = alluvium_base::checksum(&self.contents);
        write!(
            f,
            "{:?} {:o} {:?} {:?} {:?} {} bytes {sum:x} {:?}",
            self.kind,
            self.mode,
            self.owner,
            self.modified,
            self.links,
            self.contents.len(),
            self.extended
        )
    }
}

/// Returns the image of all that a file system shows.
pub(super) fn image(files: &dyn FileSystem, times: ImageTimes) -> TreeImage {
    let mut tree = TreeImage::new();
    let mut firsts = HashMap::new();
    let mut open = vec![(Inode::ROOT, String::new())];
    while let Some((directory, path)) = open.pop() {
        tree.insert(format!("{path}/"), node_image(files, directory, times, &path));
        let mut after: Option<Vec<u8>> = None;
        let mut inner = Vec::new();
        loop {
            let batch = files.read_directory(directory, after.as_deref(), 3).unwrap();
            let Some(last) = batch.last() else { break };
            after = Some(last.name.clone());
            for entry in &batch {
                let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                let found = files.lookup(directory, &entry.name).unwrap();
                assert_eq!((found.inode, found.kind), (entry.inode, entry.kind), "{path}");
                if entry.kind == FileKind::Directory {
                    assert_eq!(files.parent(entry.inode).unwrap(), directory, "{path}");
                    inner.push((entry.inode, path));
                } else {
                    let first = firsts.entry(entry.inode).or_insert_with(|| path.clone()).clone();
                    let image = node_image(files, entry.inode, times, &first);
                    tree.insert(path, image);
                }
            }
        }
        let links = files.attributes(directory).unwrap().links as usize;
        // Btrfs counts 1 for every directory.
        assert!(
            links == inner.len() + 2 || links == 1,
            "{path}: {links} links, {} directories",
            inner.len()
        );
        open.extend(inner.into_iter().rev());
    }
    tree
}

fn node_image(files: &dyn FileSystem, inode: Inode, times: ImageTimes, first: &str) -> NodeImage {
    let found = files.attributes(inode).unwrap();
    let contents = match found.kind {
        FileKind::Regular => {
            let data = files.read(inode, 0, 1 << 22).unwrap();
            assert_eq!(data.len() as u64, found.size, "{first}");
            data
        }
        FileKind::Symlink => files.read_link(inode).unwrap(),
        _ => Vec::new(),
    };
    let links = if found.kind == FileKind::Directory {
        0
    } else {
        found.links
    };
    let names = files.extended_attributes(inode).unwrap();
    let extended = names.into_iter().map(|name| {
        let value = files.extended_attribute(inode, &name).unwrap();
        (String::from_utf8_lossy(&name).into_owned(), value)
    });
    NodeImage {
        kind: found.kind,
        mode: found.mode,
        owner: (found.user, found.group),
        device: found.device,
        modified: (times == ImageTimes::With).then_some(found.modified),
        links: (first.to_owned(), links),
        contents,
        extended: extended.collect(),
    }
}

/// Returns an image without its times.
pub(super) fn without_times(image: &TreeImage) -> TreeImage {
    let strip = |node: &NodeImage| NodeImage {
        modified: None,
        ..node.clone()
    };
    image
        .iter()
        .map(|(path, node)| (path.clone(), strip(node)))
        .collect()
}

/// Fails with the paths that differ.
#[track_caller]
pub(super) fn assert_same(found: &TreeImage, wanted: &TreeImage, what: &str) {
    if found == wanted {
        return;
    }
    let paths: std::collections::BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    let differ = paths
        .into_iter()
        .filter(|path| found.get(*path) != wanted.get(*path));
    let lines: Vec<String> = differ
        .map(|path| {
            format!(
                "{path}\n  found  {:?}\n  wanted {:?}",
                found.get(path),
                wanted.get(path)
            )
        })
        .collect();
    panic!("{what}:\n{}", lines.join("\n"));
}
