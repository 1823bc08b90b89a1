//! Tests of a damaged journal. Reading a page that it can no longer restore must return an error,
//! never content that was written after the checkpoint.

use super::*;
use alluvium_base::Purpose;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_device::{AlignedBuffer, FileOptions};

const PAGES: u64 = 40;
const RECORD: u64 = PAGE as u64 + 512;

fn open_hosted(directory: &dyn Directory, root: &[u8], lists: FreeLists) -> Result<PagePool> {
    let opened = PagePool::open_hosted(directory, "pages", root, options(8), validate(), lists);
    opened.map(|(pool, _)| pool)
}

fn set_some(pool: &PagePool, pages: impl Iterator<Item = u64>, value: u64) {
    pages.for_each(|page| set(&mut pool.pin_exclusive(page).unwrap(), value + page));
    pool.write_dirty().unwrap();
}

/// Changes bytes of a file directly, bypassing its pool.
fn damage(
    directory: &dyn Directory,
    name: &str,
    offset: u64,
    len: usize,
    change: impl Fn(&mut AlignedBuffer),
) {
    let file = directory.open(name, FileOptions::DIRECT).unwrap();
    let mut bytes = file.read_at(offset, len, Purpose::Other).unwrap();
    change(&mut bytes);
    file.write_at(offset, bytes, Purpose::Other).unwrap();
}

/// Returns the files of a process that died while overwriting pages, and two roots, either of which
/// may be the durable one.
fn died() -> (SimDirectory, [Vec<u8>; 2]) {
    let directory = SimDirectory::new(4);
    let pool = PagePool::create_hosted(&directory, "pages", 0xa11, options(8), validate()).unwrap();
    fill(&pool, PAGES);
    pool.write_root(b"", LastRoot::Unknown).unwrap();
    set_some(&pool, 0..PAGES, 1000);
    let first = pool.write_root(b"", LastRoot::Durable).unwrap();
    set_some(&pool, 0..20, 2000);
    let second = pool.write_root(b"", LastRoot::Unknown).unwrap();
    set_some(&pool, 10..30, 3000);
    set_some(&pool, 30..33, 3000);
    (directory, [first, second])
}

/// Returns the value that a page has in the state of a root.
fn wanted(root: usize, page: u64) -> u64 {
    match root {
        1 if page < 20 => 2000 + page,
        _ => 1000 + page,
    }
}

/// Returns how many pages of a root cannot be read. Requires that all other pages have the values
/// of that root.
fn lost(pool: &PagePool, root: usize) -> u64 {
    let mut lost = 0;
    for page in 0..PAGES {
        match pool.pin_shared(page) {
            Ok(content) => assert_eq!(get(&content), wanted(root, page), "page {page} of root {root}"),
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.contains("in pages at offset") && text.contains("written over"),
                    "{text}"
                );
                lost += 1;
            }
        }
    }
    assert_eq!(pool.check_pages().unwrap().len() as u64, lost);
    lost
}

#[test]
fn a_damaged_record_makes_its_page_an_error_at_every_later_opening() {
    let (directory, roots) = died();
    // Flip bits in the checksum, the identity, the epoch, the page number, and the header and
    // content of the image.
    let flips = [3, 12, 24, 32, 512 + 33, 512 + 45, 1023];
    let (mut cases, mut errors, mut places) = (0, 0, 0);
    for (root, name) in [(0, "pages.0"), (0, "pages.1"), (1, "pages.0"), (1, "pages.1")] {
        let len = directory.open(name, FileOptions::DIRECT).unwrap().len();
        for (record, at) in (0..len / RECORD).flat_map(|record| flips.map(|at| (record, at))) {
            if record > 50 {
                // The offset is past the last record.
                continue;
            }
            let image = directory.image(CrashSurvival::Process, 1);
            damage(&image, name, record * RECORD, RECORD as usize, |bytes| {
                bytes[at] ^= 4;
            });
            let pool = open_hosted(&image, &roots[root], FreeLists::Whole).unwrap();
            let count = lost(&pool, root);
            assert!(count <= 1, "{count} pages of one record");
            cases += 1;
            errors += count;
            if count == 0 {
                continue;
            }
            let page = (0..PAGES).find(|page| pool.pin_shared(*page).is_err()).unwrap();
            let text = pool.pin_shared(page).unwrap_err().to_string();
            places += u64::from(text.contains(&format!("is damaged at offset {}", record * RECORD)));
            // Opening the file has emptied the journal, and the page is still lost.
            drop(pool);
            let pool = open_hosted(&image, &roots[root], FreeLists::Whole).unwrap();
            assert_eq!(lost(&pool, root), 1);
            set(&mut pool.pin_exclusive((page + 1) % PAGES).unwrap(), 7);
            let next = pool.write_root(b"", LastRoot::Durable).unwrap();
            drop(pool);
            let pool = open_hosted(&image, &next, FreeLists::Whole).unwrap();
            assert!(pool.pin_shared(page).is_err());
        }
    }
    assert!(
        cases > 500 && errors > 200 && places > errors / 2,
        "{cases} cases, {errors} errors, {places} with their place"
    );
}

#[test]
fn a_journal_that_ends_early_or_has_holes_loses_no_page_without_a_word() {
    let (directory, roots) = died();
    for (root, name) in [(0, "pages.0"), (0, "pages.1"), (1, "pages.0"), (1, "pages.1")] {
        let found = |change: &dyn Fn(&SimDirectory)| {
            let image = directory.image(CrashSurvival::Process, 1);
            change(&image);
            lost(
                &open_hosted(&image, &roots[root], FreeLists::Whole).unwrap(),
                root,
            )
        };
        assert_eq!(found(&|_| {}), 0, "nothing is damaged");
        let mut all = 0;
        for record in 0..30 {
            all += found(&|image| damage(image, name, record * RECORD, 4096, |bytes| bytes.fill(0)));
        }
        let cut = found(&|image| {
            let file = image.open(name, FileOptions::DIRECT).unwrap();
            file.truncate(0).unwrap();
        });
        // The images may be in either file, depending on which one was being written.
        assert!((cut > 0) == (all > 0) && cut <= 33, "{name}: {cut} and {all}");
    }
}

#[test]
fn a_copy_is_refused_where_the_journal_misses_what_it_needs() {
    let directory = SimDirectory::new(5);
    let pool = PagePool::create_hosted(&directory, "pages", 0xa11, options(8), validate()).unwrap();
    fill(&pool, PAGES);
    let root = pool.write_root(b"", LastRoot::Unknown).unwrap();
    pool.hold();
    set_some(&pool, 0..PAGES, 1000);
    let copy = || pool.copy_hosted(&root, &MemoryDirectory::new(), &mut |_| Ok::<(), Error>(()));
    copy().unwrap();
    damage(&directory, "pages.0", 5 * RECORD, RECORD as usize, |bytes| {
        bytes[700] ^= 4;
    });
    let error = copy().unwrap_err().to_string();
    assert!(
        error.contains("pages.0") && error.contains(&format!("offset {}", 5 * RECORD)),
        "{error}"
    );
}

#[test]
fn free_pages_whose_images_are_damaged_are_found_by_who_salvages() {
    let directory = SimDirectory::new(6);
    let pool = PagePool::create_hosted(&directory, "pages", 0xa11, options(8), validate()).unwrap();
    fill(&pool, PAGES);
    (5..15).for_each(|page| pool.free(pool.pin_exclusive(page).unwrap()));
    let root = pool.write_root(b"", LastRoot::Unknown).unwrap();
    fill(&pool, 10);
    pool.write_dirty().unwrap();
    let image = directory.image(CrashSurvival::Process, 1);
    damage(&image, "pages.0", 0, RECORD as usize, |bytes| bytes[700] ^= 4);
    let error = open_hosted(&image, &root, FreeLists::Whole)
        .unwrap_err()
        .to_string();
    assert!(error.contains("written over"), "{error}");
    let pool = open_hosted(&image, &root, FreeLists::Salvaged).unwrap();
    assert!(pool.free_pages().is_empty());
    pool.give_up((5..15).collect());
    let root = pool.write_root(b"", LastRoot::Durable).unwrap();
    drop(pool);
    let pool = open_hosted(&image, &root, FreeLists::Whole).unwrap();
    assert_eq!(pool.free_pages(), (5..15).collect::<Vec<u64>>());
    assert_eq!(pool.check_pages().unwrap(), [""; 0]);
}

#[test]
fn a_tree_of_its_own_finds_what_its_journal_misses() {
    let directory = SimDirectory::new(8);
    let pool = create(&directory, 8);
    fill(&pool, PAGES);
    pool.checkpoint(&[]).unwrap();
    set_some(&pool, 0..20, 1000);
    for record in 0..20 {
        let image = directory.image(CrashSurvival::Process, 1);
        damage(
            &image,
            "pages.journal",
            record * RECORD,
            RECORD as usize,
            |bytes| {
                bytes[700] ^= 4;
            },
        );
        let (pool, _) = open(&image, 8);
        let errors = (0..PAGES).filter(|page| match pool.pin_shared(*page) {
            Ok(content) => {
                assert_eq!(get(&content), *page);
                false
            }
            Err(_) => true,
        });
        assert_eq!(errors.count(), 1, "record {record}");
    }
}
