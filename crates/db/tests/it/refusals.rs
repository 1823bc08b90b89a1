//! Refused requests and their error messages.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{
    CompactionFilter, Compression, Error, FilterCandidate, FilterVerdict, Keyspace, KeyspaceOptions,
    OpenMode, Options, ValueOrder,
};
use alluvium_device::file::FileDirectory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Directory, FileOptions};
use std::sync::Arc;

fn small() -> Options {
    Options::new().memory(16 << 20)
}

/// Accepts every value.
#[derive(Debug)]
struct KeepsAll;

impl CompactionFilter for KeepsAll {
    fn decide(&self, _: &FilterCandidate<'_>) -> FilterVerdict {
        FilterVerdict::Keep
    }
}

/// Makes a key with a refused value usable again by a put or a delete.
fn mend(sums: &Keyspace) {
    let one = 1i64.to_le_bytes();
    sums.put("b", 40i64.to_le_bytes()).unwrap();
    sums.merge("b", 2i64.to_le_bytes()).unwrap();
    sums.delete("d").unwrap();
    sums.merge("d", one).unwrap();
    assert_eq!(sums.get("b").unwrap().unwrap(), &42i64.to_le_bytes());
    assert_eq!(sums.get("d").unwrap().unwrap(), &one);
    assert_eq!(sums.iter().filter(Result::is_ok).count(), 5);
}

#[test]
fn a_value_that_a_merge_operator_refuses_is_told_of_and_kept() {
    let db = small().open_in(Arc::new(MemoryDirectory::new())).unwrap();
    let sums = db
        .keyspace_with("sums", &KeyspaceOptions::new().merge_operator("add"))
        .unwrap();
    let one = 1i64.to_le_bytes();
    let (good, bad) = ([b"a", b"c", b"e"], [b"b", b"d"]);
    for key in good {
        sums.merge(key, one).unwrap();
    }
    for key in bad {
        sums.put(key, "no number").unwrap();
    }
    let before = db.snapshot();
    for key in bad {
        assert_eq!(
            sums.get(key).unwrap().unwrap(),
            b"no number",
            "a value may be anything"
        );
        sums.merge(key, one).unwrap();
    }
    // The operands are first in the memtable, then in the tree, then folded by a compaction, and
    // finally both in the tree and above it.
    for turn in 0..4 {
        let error = sums.get("b").unwrap_err();
        assert!(
            matches!(&error, Error::BadBase { keyspace, key, operator, .. }
                if keyspace == "sums" && key == b"b" && operator == "add"),
            "{error}"
        );
        assert!(error.to_string().contains("put another value"), "{error}");
        assert!(matches!(sums.multi_get(["a", "d"]), Err(Error::BadBase { key, .. }) if key == b"d"));
        let asynchronous = pollster::block_on(sums.get_async("d"));
        assert!(matches!(asynchronous, Err(Error::BadBase { .. })));
        assert!(matches!(
            sums.compare_and_set("b", None, None),
            Err(Error::BadBase { .. })
        ));
        let (mut found, mut told) = (Vec::new(), Vec::new());
        for pair in sums.iter() {
            match pair {
                Ok((key, _)) => found.push(key),
                Err(Error::BadBase { key, .. }) => told.push(key),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(
            (found, told),
            (
                good.map(|key| key.to_vec()).to_vec(),
                bad.map(|key| key.to_vec()).to_vec()
            )
        );
        let back: Vec<bool> = sums.iter().rev().map(|pair| pair.is_ok()).collect();
        assert_eq!(back, [true, false, true, false, true]);
        assert_eq!(before.get(&sums, "b").unwrap().unwrap(), b"no number");
        match turn {
            0 => db.checkpoint().unwrap(),
            1 => db.compact().unwrap(),
            _ => sums.merge("b", one).unwrap(),
        }
    }
    drop(before);
    db.compact().unwrap();
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    assert!(
        matches!(sums.get("d"), Err(Error::BadBase { .. })),
        "it is not discarded by compactions"
    );
    mend(&sums);
}

#[test]
fn a_keyspace_keeps_its_options_and_says_so_to_whoever_wants_others() {
    let directory = Arc::new(MemoryDirectory::new());
    let options = small().register_compaction_filter("even", Arc::new(KeepsAll));
    let own = KeyspaceOptions::new()
        .compression(Compression::Lz4)
        .value_threshold(500)
        .merge_operator("add")
        .compaction_filter("even");
    let db = options.open_in(directory.clone()).unwrap();
    db.keyspace_with("k", &own).unwrap();
    db.close().unwrap();
    let db = options.open_in(directory).unwrap();
    assert_eq!(db.keyspace_with("k", &own).unwrap().options(), &own);
    assert_eq!(db.keyspace("k").unwrap().options(), &own);
    let others = [
        (
            "compression",
            KeyspaceOptions {
                compression: Compression::Zstd,
                ..own.clone()
            },
        ),
        (
            "value threshold",
            KeyspaceOptions {
                value_threshold: None,
                ..own.clone()
            },
        ),
        ("merge operator", own.clone().merge_operator("append")),
        ("value order", own.clone().value_order(ValueOrder::Gathered)),
        (
            "compaction filter",
            KeyspaceOptions {
                compaction_filter: None,
                ..own.clone()
            },
        ),
        ("compression", KeyspaceOptions::new()),
    ];
    for (option, other) in others {
        let error = db.keyspace_with("k", &other).unwrap_err();
        assert!(
            matches!(&error, Error::OptionsDiffer { option: found, .. } if *found == option),
            "{error}"
        );
    }
    let error = db
        .keyspace_with("k", &own.clone().merge_operator("maximum"))
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("\"add\"") && text.contains("\"maximum\""), "{text}");
}

#[test]
fn only_the_tiered_tree_gathers_values() {
    let db = Options::new().in_memory().unwrap();
    let gathered = KeyspaceOptions::new().value_order(ValueOrder::Gathered);
    let levels = gathered.clone().structure("levels,k=4".parse().unwrap());
    let error = db.keyspace_with("levels", &levels).unwrap_err().to_string();
    assert!(
        error.contains("levels,samt,k=4 gathers no values") && error.contains("values=moved"),
        "{error}"
    );
    let tiered = db.keyspace_with("tiered", &gathered).unwrap();
    assert_eq!(tiered.options(), &gathered);
}

#[test]
fn the_name_of_an_operator_or_filter_that_is_not_registered_is_refused() {
    let options = small().register_compaction_filter("even", Arc::new(KeepsAll));
    let db = options.open_in(Arc::new(MemoryDirectory::new())).unwrap();
    for name in ["min", "max", "Add", ""] {
        let error = db
            .keyspace_with("new", &KeyspaceOptions::new().merge_operator(name))
            .unwrap_err();
        assert!(matches!(error, Error::NotRegistered { .. }), "{error}");
        assert!(
            error.to_string().contains("add, append, minimum, maximum"),
            "{error}"
        );
    }
    let error = db
        .keyspace_with("new", &KeyspaceOptions::new().compaction_filter("odd"))
        .unwrap_err();
    assert!(error.to_string().contains("(even)"), "{error}");
    assert!(matches!(
        db.existing_keyspace("new"),
        Err(Error::NoSuchKeyspace { .. })
    ));
    for name in ["add", "append", "minimum", "maximum"] {
        db.keyspace_with(name, &KeyspaceOptions::new().merge_operator(name))
            .unwrap();
    }
}

/// Creates a directory and its parents.
fn made(path: impl AsRef<std::path::Path>) -> FileDirectory {
    FileDirectory::create(path).unwrap()
}

/// Creates a file in a directory, creating the directory if it is missing.
fn file_in(path: &std::path::Path, name: &str) {
    made(path).create(name, FileOptions::BUFFERED).unwrap();
}

#[test]
fn a_store_does_not_settle_where_something_else_is() {
    let place = tempfile::tempdir().unwrap();
    let told = |path: &std::path::Path, what: &str| {
        let before: Vec<_> = path
            .read_dir()
            .map(|all| all.flatten().map(|one| one.file_name()).collect())
            .unwrap_or_default();
        for result in [small().open(path), small().mode(OpenMode::New).open(path)] {
            let error = result.unwrap_err().to_string();
            let has_advice = error.contains("choose ") || error.contains("give ");
            assert!(error.contains(what) && has_advice, "{error}");
        }
        let after: Vec<_> = path
            .read_dir()
            .map(|all| all.flatten().map(|one| one.file_name()).collect())
            .unwrap_or_default();
        assert_eq!(before, after, "nothing was made there");
    };
    let with_file = place.path().join("letters");
    made(&with_file);
    file_in(&with_file, "dear.txt");
    told(&with_file, "dear.txt");
    let with_directory = place.path().join("projects");
    made(with_directory.join("alluvium"));
    told(&with_directory, "alluvium");
    let with_dots = place.path().join("home");
    made(&with_dots);
    file_in(&with_dots, ".profile");
    told(&with_dots, ".profile");
    let file = place.path().join("file");
    file_in(place.path(), "file");
    told(&file, "it is a file");
    for result in [
        small().mode(OpenMode::Existing).open(&file),
        small().mode(OpenMode::ReadOnly).open(&file),
    ] {
        assert!(result.unwrap_err().to_string().contains("it is a file"));
    }
    assert!(file.is_file());
    let memory = MemoryDirectory::new();
    memory.create("notes", FileOptions::BUFFERED).unwrap();
    assert!(
        small()
            .open_in(Arc::new(memory))
            .unwrap_err()
            .to_string()
            .contains("notes")
    );
    // The directory may be empty, missing, or as a new file system leaves it.
    let empty = place.path().join("empty");
    made(&empty);
    drop(small().open(&empty).unwrap());
    drop(small().open(&empty).unwrap());
    drop(small().open(place.path().join("not/there/yet")).unwrap());
    let volume = place.path().join("volume");
    made(volume.join("lost+found"));
    drop(small().open(&volume).unwrap());
    // Foreign files added to a store later do not prevent opening it.
    file_in(&empty, "README");
    drop(small().open(&empty).unwrap());
}
