//! File systems that are created with chosen options.

use crate::Place;
use crate::files::{sample, tree};

#[test]
fn a_file_system_is_created_with_chosen_options() {
    let place = Place::new();
    let source = place.path("source");
    sample(&source);
    let from = source.to_str().unwrap();
    let options = [
        "--order",
        "inode",
        "--block-size",
        "64K",
        "--blocks",
        "levels,k=4",
        "--compression",
        "zstd",
    ];
    place.done([&["files", "create", "--files", "logs"], &options[..]].concat());
    place.done(["files", "create", "--inline-size", "0", "--leave-scattered"]);
    for name in ["logs", "main"] {
        let target = place.path(name);
        place.done(["files", "--files", name, "import", from]);
        place.done(["files", "--files", name, "export", "/", target.to_str().unwrap()]);
        assert_eq!(tree(&target), tree(&source));
        place.done(["files", "--files", name, "check"]);
        place
            .run(["files", "create", "--files", name])
            .ended(3)
            .complained("already exists");
    }
    let list = place.done(["keyspaces", "list", "--json"]).json();
    let of = |name: &str| {
        list.as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(of("files.logs.blocks")["structure"], "levels,samt,k=4");
    assert_eq!(of("files.logs.blocks")["compression"], "zstd");
    assert_eq!(of("files.main.blocks")["structure"], "tiered");
    for wrong in [
        ["--block-size", "3000", "power of two"],
        ["--inline-size", "5K", "choose at most 4096"],
        ["--blocks", "hashed", "tiered, levels or paged"],
        ["--blocks", "heap", "heap"],
    ] {
        let failed = place.run(["files", "create", "--files", "other", wrong[0], wrong[1]]);
        failed.complained(wrong[2]);
    }
    assert_eq!(place.done(["files", "list"]).text(), "logs\nmain\n");
}
