//! File systems on loop devices: one small run from end to end, and what happens to leftovers and
//! to devices of others.

use crate::runs::{CountingListener, setup};
use crate::take_turn;
use alluvium_aging::measure::grep::GrepReader;
use alluvium_aging::measure::totals::TreeTotals;
use alluvium_aging::run::{AgingPlan, CacheMode, TreeAge, WorkloadKind, WorkloadSettings, report, run};
use alluvium_aging::volumes::file_system::FileSystemKind;
use alluvium_aging::volumes::image::MarkedImage;
use alluvium_aging::volumes::leftovers::release_leftovers;
use alluvium_aging::volumes::mounts;
use alluvium_aging::volumes::own_mount::OwnProgram;
use alluvium_aging::volumes::volume::{Volume, VolumePlan};
use alluvium_aging::{Error, Result};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Returns whether this machine lets the test make and mount ext4 on loop devices. Otherwise the
/// test is recorded as skipped.
fn has_volumes(place: &Path) -> bool {
    let tried = || -> Result<()> {
        FileSystemKind::Ext4.require()?;
        Volume::create(plan(place, "try"))?.remove()
    };
    static OUTCOME: OnceLock<Option<String>> = OnceLock::new();
    let refusal = OUTCOME.get_or_init(|| tried().err().map(|error| error.to_string()));
    if let Some(why) = refusal {
        alluvium_device::skipped!("loop devices", "{why}");
    }
    refusal.is_none()
}

fn plan(place: &Path, name: &str) -> VolumePlan {
    VolumePlan {
        kind: FileSystemKind::Ext4,
        directory: place.to_owned(),
        name: name.to_owned(),
        bytes: 64 << 20,
        read_ahead_kib: 0,
        program: OwnProgram {
            binary: PathBuf::from("alluvium"),
            memory: 64 << 20,
        },
    }
}

/// Returns the loop devices and mounts that belong to a directory.
fn traces(place: &Path) -> Vec<String> {
    let place = fs::canonicalize(place).unwrap();
    let entries = mounts::list().unwrap().into_iter();
    let mut found: Vec<String> = entries
        .filter(|entry| entry.directory.starts_with(&place))
        .map(|entry| entry.directory.display().to_string())
        .collect();
    for entry in fs::read_dir("/sys/block").unwrap() {
        let backing = entry.unwrap().path().join("loop/backing_file");
        let text = fs::read_to_string(backing).unwrap_or_default();
        if Path::new(text.trim()).starts_with(&place) {
            found.push(text);
        }
    }
    found
}

#[test]
fn a_run_on_an_image_ages_it_and_leaves_nothing_behind() {
    let (place, _turn) = (tempfile::tempdir().unwrap(), take_turn());
    if !has_volumes(place.path()) {
        return;
    }
    let plan = AgingPlan {
        workload: WorkloadSettings {
            steps: 40,
            interval: 40,
            ..WorkloadSettings::published(WorkloadKind::Intrafile, 1)
        },
        file_systems: vec!["ext4".to_owned()],
        directory: None,
        image_bytes: 64 << 20,
        read_ahead_kib: 128,
        caches: CacheMode::Cold,
        warm_bytes: None,
        settle_s: 0,
    };
    let mut setup = setup(place.path());
    setup.reader = GrepReader::preferred();
    let mut listener = CountingListener::default();
    let state = run(&plan, &setup, &|| false, &mut listener).unwrap();
    assert_eq!(traces(place.path()), [""; 0]);
    assert_eq!(fs::read_dir(&setup.work).unwrap().count(), 0);
    assert!(
        listener.notes.iter().any(|note| note.contains("remounted")),
        "{:?}",
        listener.notes
    );
    let series = &state.series["ext4"];
    let row = |step, age| series.row(step, age).unwrap();
    let (fresh, aged) = (row(0, TreeAge::Aged), row(40, TreeAge::Aged));
    let copied = row(40, TreeAge::Unaged);
    // Files that are written one after the other are contiguous, and those that grow in turns are
    // not; a copy is as good as new.
    assert_eq!(fresh.layout_score, Some(1.0));
    assert!(aged.layout_score.unwrap() < 1.0, "{aged:?}");
    assert_eq!(copied.layout_score, Some(1.0));
    assert!(aged.fragmentation.unwrap() > 1.5, "{aged:?}");
    // All of the data was read from the device, because caches were cold.
    for row in [fresh, aged, copied] {
        assert!(row.read_bytes.unwrap() >= 10 * 400 * 1024, "{row:?}");
    }
    assert!(aged.written_bytes.unwrap() >= 10 * 400 * 1024);
    // Without tracefs, and where the kernel drops events, dynamic scores are absent and a note says
    // why.
    match (aged.block_score, copied.block_score) {
        (Some(aged_score), Some(copied_score)) => {
            assert!(aged_score < copied_score, "{aged:?} {copied:?}");
            assert!(aged.modelled_disk_s > copied.modelled_disk_s);
        }
        _ => assert!(listener.notes.iter().any(|note| note.contains("dynamic"))),
    }
    assert!(setup.output.join("layout-ext4.svg").exists());
    assert_eq!(report::summaries(&state).len(), 1);
}

#[test]
fn the_size_of_a_tree_is_that_of_du_on_ext4() {
    let (place, _turn) = (tempfile::tempdir().unwrap(), take_turn());
    if !has_volumes(place.path()) {
        return;
    }
    let volume = Volume::create(plan(place.path(), "sizes")).unwrap();
    let tree = volume.root().join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..150u64 {
        let directory = tree.join(format!("d{}", number % 3));
        fs::create_dir_all(&directory).unwrap();
        fs::write(
            directory.join(format!("a file with a long name {number}")),
            vec![7; 100 * number as usize],
        )
        .unwrap();
    }
    volume.sync().unwrap();
    let output = Command::new("du")
        .args(["-s", "-B1"])
        .arg(&tree)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let du: u64 = text.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(TreeTotals::of(&tree, &|| false).unwrap().ext4_bytes, du);
    volume.remove().unwrap();
    assert_eq!(traces(place.path()), [""; 0]);
}

#[test]
fn what_a_killed_run_left_is_released_and_devices_of_others_are_not() {
    let (place, _turn) = (tempfile::tempdir().unwrap(), take_turn());
    if !has_volumes(place.path()) {
        return;
    }
    let volume = Volume::create(plan(place.path(), "left")).unwrap();
    fs::write(volume.root().join("letter"), "river").unwrap();
    // While its process runs, a volume is no leftover.
    release_leftovers().unwrap();
    assert_eq!(fs::read(volume.root().join("letter")).unwrap(), b"river");
    // An image of another program on a loop device.
    let foreign = place.path().join("foreign.img");
    fs::File::create(&foreign).unwrap().set_len(1 << 20).unwrap();
    let losetup = |arguments: &[&str]| {
        let output = Command::new("losetup").args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let device = losetup(&["--find", "--show", foreign.to_str().unwrap()]);
    // The kernel would release the lock of a killed process and nothing else. Here, the image moves
    // below a marker that no process has locked.
    let (root, image) = (volume.root(), place.path().join("left.img"));
    let marker = place.path().join("left.img.aging");
    let text = fs::read(&marker).unwrap();
    fs::remove_file(&marker).unwrap();
    fs::write(&marker, text).unwrap();
    let released = release_leftovers().unwrap();
    assert!(
        released.contains(&fs::canonicalize(&image).unwrap()),
        "{released:?}"
    );
    assert!(mounts::find(&root).unwrap().is_none());
    let left = traces(place.path());
    assert!(left.len() == 1 && left[0].contains("foreign.img"), "{left:?}");
    losetup(&["-d", &device]);
    // The handle does not touch the device, which may belong to another image by now.
    drop(volume);
    let volume = Volume::open(plan(place.path(), "left")).unwrap();
    assert_eq!(fs::read(volume.root().join("letter")).unwrap(), b"river");
    volume.remove().unwrap();
}

#[test]
fn a_remount_waits_for_copies_of_the_mount_in_other_namespaces() {
    let (place, _turn) = (tempfile::tempdir().unwrap(), take_turn());
    if !has_volumes(place.path()) {
        return;
    }
    let mut volume = Volume::create(plan(place.path(), "copied")).unwrap();
    fs::write(volume.root().join("letter"), vec![7; 1 << 20]).unwrap();
    let spawned = Command::new("unshare")
        .args(["-m", "sh", "-c", "echo ready; sleep 0.5"])
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut other) = spawned else {
        alluvium_device::skipped!("unshare", "the program is not installed");
        return;
    };
    let mut line = String::new();
    BufReader::new(other.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    if line.is_empty() {
        alluvium_device::skipped!("other mount namespaces", "they may not be created here");
        return;
    }
    volume.remount().unwrap();
    assert!(
        other.try_wait().unwrap().is_some(),
        "the other namespace has ended"
    );
    // Nothing was cached: the file is read from the device.
    let before = volume.traffic().unwrap();
    fs::read(volume.root().join("letter")).unwrap();
    assert!((volume.traffic().unwrap() - before).read_bytes >= 1 << 20);
    volume.remove().unwrap();
}

#[test]
fn a_device_with_a_foreign_image_is_neither_formatted_nor_detached() {
    let (place, _turn) = (tempfile::tempdir().unwrap(), take_turn());
    if !has_volumes(place.path()) {
        return;
    }
    let image = MarkedImage::create(place.path(), "swapped", 64 << 20).unwrap();
    let device = image.attach().unwrap();
    device.verify().unwrap();
    // Another file takes the image's name: the marker names another inode.
    let path = image.path().to_owned();
    fs::rename(&path, place.path().join("moved")).unwrap();
    fs::write(&path, "data of another program").unwrap();
    let refused = device.verify().unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    let name = device.path();
    drop(device);
    let attached = fs::metadata(place.path().join("moved")).unwrap().ino();
    assert!(
        attached > 0 && !traces(place.path()).is_empty(),
        "it is still attached"
    );
    let output = Command::new("losetup").arg("-d").arg(name).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
