//! Single bits: whatever a full read answers with an error, `check` names, and no backup takes it along.

use super::*;
use alluvium_device::simulated::Corruption;

#[test]
fn what_a_reader_meets_a_check_names_and_no_backup_takes_along() {
    let flips = size("ALLUVIUM_DAMAGE_FLIPS", 2100);
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
                if !file.starts_with("log-") {
                    assert_eq!(reading.wrong, Vec::<String>::new(), "{what}");
                }
                named += usize::from(!checked.is_empty());
                if !reading.errors.is_empty() {
                    met += 1;
                    let said = checked.iter().any(|finding| finding.contains(&**file));
                    assert!(said, "{what}: {:?}, but {checked:?}", reading.errors[0]);
                }
                // A copy costs more than a check.
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
            // Turned over once more, it is what it was.
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
