//! Flips single bits. `check` must name every error of a full read, and no backup may include the
//! damage.

use super::*;
use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _};
use alluvium_device::simulated::Corruption;

#[test]
fn what_a_reader_meets_a_check_names_and_no_backup_takes_along() {
    let flips = size("ALLUVIUM_DAMAGE_FLIPS", 700);
    let worlds = ALL.map(world);
    let (mut met, mut refused, mut unopened, mut named) = (0, 0, 0, 0);
    for world in &worlds {
        let blocks = used_blocks(&world.directory);
        let mut random = fastrand::Rng::with_seed(world.left as u64 + 17);
        for flip in 0..flips / ALL.len() {
            let (file, block) = &blocks[random.usize(..blocks.len())];
            let corruption = Corruption::FlipBit {
                offset: block + random.u64(..512),
                bit: random.u8(..8),
            };
            let what = format!("{:?}, {file}: {corruption:?}", world.left);
            assert!(world.directory.corrupt(file, &corruption).unwrap(), "{what}");
            let opened = small().open_read_only_in(shared(&world.directory));
            if let Ok(db) = opened {
                let checked = db.check().unwrap();
                let reading = read_some(&db, &world.contents, flip, 37);
                assert_eq!(reading.wrong, Vec::<String>::new(), "{what}");
                named += usize::from(!checked.is_empty());
                if !reading.errors.is_empty() {
                    met += 1;
                    let said = checked.iter().any(|finding| finding.contains(&**file));
                    assert!(said, "{what}: {:?}, but {checked:?}", reading.errors[0]);
                }
                // Copy less often than check, because a copy is more expensive.
                if flip % 7 == 0 {
                    let copy: Arc<dyn Directory> = Arc::new(SimDirectory::new(9));
                    let copied = db.checkpoint_to_in(&copy, |_| ());
                    if !reading.errors.is_empty() {
                        assert!(copied.is_err(), "{what}: copied, and {:?}", reading.errors[0]);
                        let left = copy.list().unwrap();
                        assert!(!left.iter().any(|name| name == "superblock"), "{what}: {left:?}");
                        refused += 1;
                    } else if checked.is_empty() {
                        copied.unwrap_or_else(|error| panic!("{what}: {error}"));
                    }
                }
            } else {
                unopened += 1;
            }
            // Flipping the bit again restores the store.
            world.directory.corrupt(file, &corruption).unwrap();
        }
    }
    println!(
        "{flips} flips: {unopened} not opened, {named} named, {met} met by a reader, {refused} backups refused"
    );
    assert!(
        met * 4 > flips && refused * 14 > met,
        "{met} of {flips} met, {refused} refused"
    );
}

/// By design, a log cannot distinguish a damaged last record from one that was incomplete when the
/// process was killed, unless the mark was written after it.
#[test]
fn of_a_killed_log_only_the_last_record_can_go_unseen() {
    const PUT: u32 = 40;
    let directory = SimDirectory::new(6);
    let db = small().create_in(shared(&directory)).unwrap();
    let keyspace = db.keyspace("one").unwrap();
    let put = |number: u32| {
        let value = vec![number as u8; 100];
        keyspace.put(number.to_be_bytes(), value).unwrap();
    };
    (0..PUT / 2).for_each(put);
    db.sync().unwrap();
    (PUT / 2..PUT).for_each(put);
    let killed = directory.image(CrashSurvival::Process, 3);
    db.abandon();
    let (mut refused, mut cut, mut whole) = (0, 0, 0);
    let blocks = used_blocks(&killed);
    for (file, block) in blocks.iter().filter(|(file, _)| file.starts_with("log-")) {
        let mut random = fastrand::Rng::with_seed(*block);
        for _ in 0..32 {
            let corruption = Corruption::FlipBit {
                offset: block + random.u64(..512),
                bit: random.u8(..8),
            };
            assert!(killed.corrupt(file, &corruption).unwrap());
            let what = format!("{file}: {corruption:?}");
            match small().open_read_only_in(shared(&killed)) {
                Err(error) => {
                    assert!(error.to_string().contains("log-"), "{what}: {error}");
                    refused += 1;
                }
                Ok(db) => {
                    let mut errors = Vec::new();
                    let found = collect(db.existing_keyspace("one").unwrap().iter(), &mut errors);
                    let wanted = |number: u32| (number.to_be_bytes().to_vec(), vec![number as u8; 100]);
                    let prefix: Pairs = (0..found.len() as u32).map(wanted).collect();
                    assert!(errors.is_empty() && found == prefix, "{what}: {errors:?}");
                    match PUT as usize - found.len() {
                        0 => whole += 1,
                        1 => cut += 1,
                        lost => panic!("{what}: {lost} records went unseen"),
                    }
                }
            }
            killed.corrupt(file, &corruption).unwrap();
        }
    }
    println!("{refused} refused, {cut} cut before the last record, {whole} whole");
    assert!(
        refused > 100 && cut > 0,
        "{refused} refused, {cut} cut, {whole} whole"
    );
}
