//! Each operation through the kernel.

use crate::support::{Mounted, need_mounts};
use std::fs;

#[test]
fn a_file_is_written_and_read() {
    need_mounts!();
    let mounted = Mounted::new();
    fs::create_dir(mounted.path("a")).unwrap();
    fs::write(mounted.path("a/b"), b"hello").unwrap();
    assert_eq!(fs::read(mounted.path("a/b")).unwrap(), b"hello");
    let names: Vec<_> = fs::read_dir(mounted.path("a"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["b"]);
    fs::remove_file(mounted.path("a/b")).unwrap();
    fs::remove_dir(mounted.path("a")).unwrap();
    crate::views::wait_until("forgetting", || mounted.files.inodes() == 1);
}
