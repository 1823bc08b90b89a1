//! Damage to stored data.

use super::*;
use crate::Error;
use crate::simulated::Corruption;

/// Creates a durable file with a history in which sectors 1, 2, … overwrote 11, 12, …
fn two_versions() -> SimDirectory {
    let directory = SimDirectory::new(1);
    let file = durable_file(&directory, "a", 2 * 4096, FileOptions::DIRECT);
    for sector in 0..16 {
        write(&file, sector * 512, 512, sector as u8 + 11);
    }
    file.sync(Purpose::Other).expect("no fault");
    for sector in 0..16 {
        write(&file, sector * 512, 512, sector as u8 + 1);
    }
    file.sync(Purpose::Other).expect("no fault");
    directory.image(CrashSurvival::None, 1)
}

fn corrupt(directory: &SimDirectory, corruption: &Corruption) -> bool {
    directory.corrupt("a", corruption).expect("it exists")
}

#[test]
fn each_kind_of_damage_does_what_it_says_and_says_whether_it_did() {
    let flip = Corruption::FlipBit { offset: 513, bit: 7 };
    let directory = two_versions();
    let before = directory.content_hash();
    assert!(corrupt(&directory, &flip));
    let file = directory.open("a", FileOptions::DIRECT).expect("it exists");
    let bytes = file.read_at(512, 512, Purpose::Other).expect("inside the file");
    assert_eq!(bytes[..3], [2, 130, 2]);
    assert!(corrupt(&directory, &flip));
    assert_eq!(directory.content_hash(), before, "twice flipped is whole");
    assert!(!corrupt(
        &directory,
        &Corruption::FlipBit {
            offset: 1 << 40,
            bit: 0
        }
    ));

    let zero = Corruption::Zero { range: 512..1536 };
    assert!(corrupt(&directory, &zero));
    assert_eq!(sectors(&directory, "a")[..4], [1, 0, 0, 4]);
    assert!(!corrupt(&directory, &zero), "zeros already");

    let directory = two_versions();
    assert!(corrupt(&directory, &Corruption::Stale { range: 1024..2048 }));
    assert_eq!(sectors(&directory, "a")[..5], [1, 2, 13, 14, 5]);

    let directory = two_versions();
    let astray = Corruption::Misdirect {
        from: 512,
        to: 4096,
        len: 1024,
    };
    assert!(corrupt(&directory, &astray));
    let sectors_now = sectors(&directory, "a");
    assert_eq!(
        (&sectors_now[..4], &sectors_now[8..11]),
        (&[1, 12, 13, 4][..], &[2, 3, 11][..])
    );
}

#[test]
fn files_are_cut_stretched_swapped_and_removed() {
    let directory = two_versions();
    assert!(!corrupt(&directory, &Corruption::Truncate { len: 8192 }));
    assert!(!corrupt(&directory, &Corruption::Extend { len: 8192 }));
    assert!(corrupt(&directory, &Corruption::Truncate { len: 700 }));
    assert!(corrupt(&directory, &Corruption::Extend { len: 2048 }));
    assert_eq!(sectors(&directory, "a"), [1, 2, 0, 0]);
    let other = durable_file(&directory, "b", 512, FileOptions::DIRECT);
    let swap = Corruption::Swap {
        other: "b".to_owned(),
    };
    assert!(corrupt(&directory, &swap));
    assert_eq!((sectors(&directory, "a"), other.len()), (vec![0], 2048));
    assert!(!corrupt(
        &directory,
        &Corruption::Swap {
            other: "a".to_owned()
        }
    ));
    assert!(corrupt(&directory, &Corruption::Remove));
    let gone = directory.corrupt("a", &Corruption::Remove);
    assert!(matches!(gone, Err(Error::NotFound { .. })));
    assert_eq!(
        directory.image(CrashSurvival::None, 0).list().expect("a list"),
        ["b"]
    );
}

#[test]
fn damage_survives_a_crash() {
    for survival in CrashSurvival::ALL {
        let directory = two_versions();
        assert!(corrupt(&directory, &Corruption::Zero { range: 0..512 }));
        assert_eq!(sectors(&directory.image(survival, 3), "a")[..2], [0, 2]);
    }
}
