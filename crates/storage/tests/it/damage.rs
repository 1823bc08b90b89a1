//! Damages every structure in every way: the damage must be detected, or the answers must equal
//! those of the undamaged store.
//!
//! The test is small. For the large run, use
//! `ALLUVIUM_DAMAGE_CASES=24000 cargo test --release -p alluvium-storage --test it -- damage
//! --nocapture`.

use crate::page_log::{Flaw, Mini, PageLog};
use alluvium_device::Directory;
use alluvium_device::simulated::{Corruption, CrashSurvival, SimDirectory};
use alluvium_sim::{
    CommitLedger, Coverage, CrashHistory, RunStep, StoreContents, Story, StoryEnvironment, StoryErrorKind,
};
use alluvium_storage::log::SegmentAccess;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Default number of cases.
const CASES: u64 = 2500;

fn cases() -> u64 {
    std::env::var("ALLUVIUM_DAMAGE_CASES").map_or(CASES, |cases| cases.parse().expect("a number of cases"))
}

/// A store that was used and then closed or killed, with its expected contents.
struct Subject {
    machine: SimDirectory,
    ledger: CommitLedger,
    /// How the store ended.
    crash: CrashHistory,
    /// Number of commits in the last checkpoint.
    checkpointed: usize,
    story: PageLog,
    /// Offset and length of each node in the tier.
    nodes: Vec<(u64, u64)>,
}

impl Subject {
    fn new(seed: u64) -> Subject {
        let access = if seed.is_multiple_of(2) {
            SegmentAccess::Mapped
        } else {
            SegmentAccess::Written
        };
        let story = PageLog {
            access,
            flaw: Flaw::Right,
            tiers: 1,
        };
        let machine = SimDirectory::new(seed);
        let directory: Arc<dyn Directory> = Arc::new(machine.clone());
        let world = StoryEnvironment {
            directory,
            seed,
            ledger: CommitLedger::default(),
            coverage: Coverage::new(),
        };
        let mut mini = story.create(&world).unwrap();
        let mut checkpointed = 0;
        for step in story.steps(seed, 50) {
            if let RunStep::Do(action) = step {
                let generation = mini.store.superblock().generation;
                story.apply(&mut mini, &action, &world).unwrap();
                if mini.store.superblock().generation > generation {
                    checkpointed = world.ledger.with(|reference| reference.durable());
                }
            }
        }
        let nodes = nodes(&mini);
        let (crash, machine) = if seed.is_multiple_of(3) {
            let image = machine.image(CrashSurvival::All, seed);
            drop(mini);
            (CrashHistory::POWER, image)
        } else {
            story.close(mini, &world).unwrap();
            (CrashHistory::NONE, machine)
        };
        Subject {
            machine,
            ledger: world.ledger,
            crash,
            checkpointed,
            story,
            nodes,
        }
    }

    /// Opens a damaged copy and classifies the result.
    fn open(&self, image: &SimDirectory) -> Outcome {
        let directory: Arc<dyn Directory> = Arc::new(image.clone());
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let mut mini = self.story.open_on(&directory)?;
            let contents = self.story.contents(&mut mini)?;
            Ok((contents, self.story.check(&mut mini)?))
        }));
        match opened {
            Err(_) => Outcome::Wrong("a panic".to_owned()),
            Ok(Err(trouble)) => {
                let trouble: alluvium_sim::StoryError = trouble;
                match trouble.cause {
                    StoryErrorKind::Damaged | StoryErrorKind::NotAStore => Outcome::Found,
                    _ => Outcome::Wrong(trouble.to_string()),
                }
            }
            Ok(Ok((contents, violations))) => self.judge(&contents, &violations),
        }
    }

    fn judge(&self, contents: &StoreContents, violations: &[String]) -> Outcome {
        let found = if violations.is_empty() {
            Outcome::Harmless
        } else {
            Outcome::Found
        };
        self.ledger
            .with(|reference| match reference.judge(self.crash, contents) {
                Ok(_) => found,
                Err(violation) if self.crash == CrashHistory::NONE => Outcome::Wrong(violation.to_string()),
                Err(violation) => {
                    // A damaged record after the last one that names a synced watermark looks just
                    // like a record that never reached the disk. The history must end there, and no
                    // earlier than the checkpoint.
                    let view = reference.view().durable_up_to(self.checkpointed);
                    match reference.judge_at(&view, self.crash, contents) {
                        Ok(_) => Outcome::CutAtTheEnd,
                        Err(_) => Outcome::Wrong(violation.to_string()),
                    }
                }
            })
    }
}

enum Outcome {
    Found,
    Harmless,
    /// The end of the log is missing, and no record shows that there was more.
    CutAtTheEnd,
    Wrong(String),
}

fn nodes(mini: &Mini) -> Vec<(u64, u64)> {
    let placed = mini
        .tree
        .leaves
        .iter()
        .map(|(_, leaf)| leaf)
        .chain(&mini.tree.root);
    placed
        .map(|placed| (placed.pointer.offset, placed.pointer.read_len() as u64))
        .collect()
}

/// The structures, and the kinds of damage.
const STRUCTURES: [&str; 5] = ["superblock", "extent map", "node", "log header", "log record"];
const KINDS: [&str; 5] = ["flipped", "misdirected", "stale", "zeroed", "truncated"];

/// Returns a file, and a range of it that holds the structure.
fn place(subject: &Subject, structure: &str, random: &mut fastrand::Rng) -> Option<(String, u64, u64)> {
    let names = subject.machine.list().unwrap();
    let file = |prefix: &str, random: &mut fastrand::Rng| {
        let names: Vec<&String> = names.iter().filter(|name| name.starts_with(prefix)).collect();
        let name = names.get(random.usize(0..names.len().max(1)))?;
        let device = subject
            .machine
            .open(name, alluvium_device::FileOptions::BUFFERED.read_only())
            .unwrap();
        Some(((*name).clone(), device.len()))
    };
    Some(match structure {
        "superblock" => {
            // Damage one copy of a generation, or both.
            let (slots, slot) = (random.u64(1..=2), random.u64(0..2));
            ("superblock".to_owned(), slot * 8192, slots * 4096)
        }
        "extent map" => {
            let (name, len) = file("extents-", random)?;
            // The file contains zeros after the deltas.
            (name, 0, len.min(2048 + random.u64(0..2048)))
        }
        "node" => {
            let (offset, len) = subject.nodes[random.usize(0..subject.nodes.len())];
            ("tier-0.data".to_owned(), offset, len)
        }
        "log header" => (file("log-", random)?.0, 0, 512),
        _ => {
            let (name, len) = file("log-", random)?;
            (name, 512, len.saturating_sub(512).max(1))
        }
    })
}

fn corruption(kind: &str, start: u64, len: u64, random: &mut fastrand::Rng) -> Corruption {
    let blocks = (len / 512).max(1);
    let (first, count) = if random.u8(0..3) == 0 {
        (0, blocks)
    } else {
        let first = random.u64(0..blocks);
        (first, random.u64(1..=(blocks - first).min(8)))
    };
    let (at, bytes) = (start + first * 512, count * 512);
    match kind {
        "flipped" => Corruption::FlipBit {
            offset: start + random.u64(0..len),
            bit: random.u8(0..8),
        },
        "misdirected" => Corruption::Misdirect {
            from: at,
            to: start + random.u64(0..=blocks) * 512,
            len: bytes,
        },
        "stale" => Corruption::Stale {
            range: at..at + bytes,
        },
        "zeroed" => Corruption::Zero {
            range: at..at + bytes,
        },
        _ => Corruption::Truncate {
            len: start + random.u64(0..len),
        },
    }
}

#[test]
fn damage_of_every_kind_to_every_structure_is_found_or_harmless() {
    let mut table: BTreeMap<(&str, &str), [u64; 4]> = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(1);
    let mut done = 0;
    for seed in 1.. {
        let subject = Subject::new(seed);
        for _ in 0..200 {
            let structure = STRUCTURES[random.usize(0..STRUCTURES.len())];
            let kind = KINDS[random.usize(0..KINDS.len())];
            let Some((file, start, len)) = place(&subject, structure, &mut random) else {
                continue;
            };
            let damage = corruption(kind, start, len, &mut random);
            let image = subject.machine.image(CrashSurvival::All, 0);
            if !image.corrupt(&file, &damage).unwrap() {
                continue;
            }
            let counts = table.entry((structure, kind)).or_default();
            counts[0] += 1;
            done += 1;
            match subject.open(&image) {
                Outcome::Found => counts[1] += 1,
                Outcome::Harmless => counts[2] += 1,
                Outcome::CutAtTheEnd if structure.starts_with("log") => counts[3] += 1,
                Outcome::CutAtTheEnd => panic!("seed {seed}, {file}: {damage:?}: commits are gone"),
                Outcome::Wrong(text) => panic!("seed {seed}, {file}: {damage:?}: {text}"),
            }
        }
        if done >= cases() {
            break;
        }
    }
    println!(
        "{:<12} {:<12} {:>8} {:>8} {:>8} {:>12}",
        "structure", "damage", "cases", "found", "harmless", "cut at end"
    );
    for ((structure, kind), [cases, found, harmless, cut]) in &table {
        println!("{structure:<12} {kind:<12} {cases:>8} {found:>8} {harmless:>8} {cut:>12}");
    }
    assert_eq!(
        table.len(),
        STRUCTURES.len() * KINDS.len(),
        "every structure met every kind of damage"
    );
}
