//! Damage in every block is detected, and a crash leaves a complete tree or none.

use super::*;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_device::{AlignedBuffer, DeviceOperation};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes a byte of a file.
fn flip(file: &Arc<dyn Device>, offset: u64) {
    let sector = offset / 512 * 512;
    let mut bytes = file.read_at(sector, 512, Purpose::Other).unwrap();
    bytes[(offset - sector) as usize] ^= 4;
    file.write_at(sector, bytes, Purpose::Other).unwrap();
}

#[test]
fn every_damaged_block_is_found_with_its_place() {
    let shape = PdamShape::new(512, 3, 8, 8).unwrap();
    let records = draw(&shape, 1200, &mut SplitMix64::from_seed(4));
    let file = build(shape, &records);
    let tree = PdamTree::open(Arc::clone(&file)).unwrap();
    assert_eq!(tree.height(), 2);
    let first = records.keys().next().unwrap();
    let mut random = SplitMix64::from_seed(5);
    for block in 1..file.len() / 512 {
        let offset = block * 512 + random.below(512) as u64;
        flip(&file, offset);
        let at = format!("offset {}", block * 512);
        let damage = tree.check().unwrap().damage;
        assert!(
            damage.iter().any(|error| error.to_string().contains(&at)),
            "{block}: {damage:?}"
        );
        // Every answer is correct or an error with the location of the damage.
        let mut errors = 0;
        for (key, value) in &records {
            match tree.get(key) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
                Err(error) => {
                    assert!(error.to_string().contains(&at), "{error}");
                    errors += 1;
                }
            }
        }
        // The root uses few of its blocks: it has 13 children.
        let is_root = block >= file.len() / 512 - 3;
        assert!(errors > 0 || is_root, "{block} is used");
        let scanned = tree.scan(first, 3).map(|scan| scan.collect::<Result<Vec<_>>>());
        assert!(is_root || matches!(scanned, Ok(Err(_))), "{block}");
        flip(&file, offset);
    }
    assert!(tree.check().unwrap().damage.is_empty());
}

#[test]
fn a_header_that_is_damaged_or_of_another_file_is_an_error() {
    let shape = PdamShape::new(512, 3, 8, 8).unwrap();
    let records = draw(&shape, 200, &mut SplitMix64::from_seed(6));
    let file = build(shape, &records);
    for at in 0..format::HEADER as u64 {
        flip(&file, at);
        assert!(PdamTree::open(Arc::clone(&file)).is_err(), "byte {at}");
        flip(&file, at);
    }
    file.grow(file.len() + 512).unwrap();
    let longer = PdamTree::open(Arc::clone(&file)).unwrap_err().to_string();
    assert!(longer.contains("expected a file of"), "{longer}");
    file.truncate(file.len() - 1024).unwrap();
    assert!(PdamTree::open(Arc::clone(&file)).is_err());
    file.truncate(0).unwrap();
    assert!(PdamTree::open(file).is_err());
    // More keys than fit in any file.
    let header = format::PdamHeader {
        shape,
        id: 1,
        keys: u64::MAX,
    };
    let file = super::file();
    file.grow(512).unwrap();
    file.write_at(0, AlignedBuffer::padded(&header.encode()), Purpose::Other)
        .unwrap();
    let error = PdamTree::open(file).unwrap_err().to_string();
    assert!(error.contains("a tree that fits a file"), "{error}");
}

#[test]
fn blocks_in_each_others_places_are_found() {
    let shape = PdamShape::new(512, 2, 8, 8).unwrap();
    let records = draw(&shape, 500, &mut SplitMix64::from_seed(7));
    let file = build(shape, &records);
    let [one, other] = [512, 2048].map(|offset| file.read_at(offset, 512, Purpose::Other).unwrap());
    file.write_at(2048, one, Purpose::Other).unwrap();
    file.write_at(512, other, Purpose::Other).unwrap();
    let tree = PdamTree::open(file).unwrap();
    assert_eq!(tree.check().unwrap().damage.len(), 2);
}

#[test]
fn keys_out_of_order_and_wrong_separators_are_found_behind_right_checksums() {
    let shape = PdamShape::new(512, 2, 8, 8).unwrap();
    let records: Records = (0..500_u64)
        .map(|key| ((2 * key).to_be_bytes().to_vec(), vec![0; 8]))
        .collect();
    let file = build(shape, &records);
    let tree = PdamTree::open(Arc::clone(&file)).unwrap();
    for (level, rank, complaint) in [
        (0, 30, "behind the one before it"),
        (1, 0, "the first key of child"),
    ] {
        let layout = &tree.layout;
        let slot = layout.slot(level, layout.order(level).position(rank));
        let offset = layout.offset(layout.number(level, 0), slot.block);
        let start = format::BLOCK_HEAD + slot.entry * layout.shape.entry_bytes(level);
        let sound = file.read_at(offset, 512, Purpose::Other).unwrap();
        for key in [0_u64, 1, 999, u64::MAX] {
            let mut bytes = file.read_at(offset, 512, Purpose::Other).unwrap();
            bytes[start..start + 8].copy_from_slice(&key.to_be_bytes());
            format::seal(&mut bytes, 7, offset / 512);
            file.write_at(offset, bytes, Purpose::Other).unwrap();
            let damage = tree.check().unwrap().damage;
            let is_found = damage.iter().any(|error| error.to_string().contains(complaint));
            assert!(is_found, "level {level}, key {key}: {damage:?}");
            // Damage must not cause a panic.
            for key in [0_u64, 1, 500, 1000] {
                tree.get(&key.to_be_bytes()).unwrap();
                assert!(
                    tree.scan(&key.to_be_bytes(), 4)
                        .unwrap()
                        .all(|record| record.is_ok())
                );
            }
        }
        file.write_at(offset, sound, Purpose::Other).unwrap();
        assert!(tree.check().unwrap().damage.is_empty());
    }
}

#[test]
fn a_crash_while_a_tree_is_loaded_leaves_a_whole_one_or_none() {
    let shape = PdamShape::new(512, 3, 8, 8).unwrap();
    let records = Arc::new(draw(&shape, 3000, &mut SplitMix64::from_seed(8)));
    let directory = SimDirectory::new(9);
    let file = directory.create("tree", FileOptions::DIRECT).unwrap();
    directory.sync().unwrap();
    let whole = Arc::new(AtomicU64::new(0));
    let seen: Arc<Mutex<Vec<DeviceOperation>>> = Arc::default();
    let (kept, counted, points) = (Arc::clone(&records), Arc::clone(&whole), Arc::clone(&seen));
    directory.on_operation(move |point| {
        points.lock().unwrap().push(point.operation);
        for (survival, seed) in CrashSurvival::ALL.into_iter().zip(point.index * 10..) {
            let image = point.image(survival, seed);
            let Ok(file) = image.open("tree", FileOptions::DIRECT) else {
                continue;
            };
            if let Ok(tree) = PdamTree::open(file) {
                let examined = tree.check().unwrap();
                assert!(
                    examined.damage.is_empty(),
                    "PD4: {survival:?}: {:?}",
                    examined.damage
                );
                assert_eq!(examined.keys, kept.len() as u64, "PD4");
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    PdamTree::build(file, shape, 7, &*records).unwrap();
    directory.clear_hook();
    let operations = seen.lock().unwrap().clone();
    assert!(
        operations
            .iter()
            .filter(|&&one| one == DeviceOperation::Sync)
            .count()
            >= 2,
        "{operations:?}"
    );
    // After a crash at the last sync, the header may or may not be durable.
    assert!(whole.load(Ordering::Relaxed) > 0);
}
