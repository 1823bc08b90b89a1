//! The tests write levels as text. For example, `5 | 1 1 1` is a level with one run of 5 bytes,
//! followed by a level with three runs of 1 byte. A `*` after a size marks a run that a merge is
//! reading, and a `!` a run that is currently unreadable.

use super::*;

const UNIT: u64 = 1;

fn view(text: &str) -> LevelsView {
    let run = |word: &str| RunView {
        bytes: word.trim_end_matches(['*', '!']).parse().unwrap(),
        is_busy: word.ends_with(['*', '!']),
        is_lost: word.ends_with('!'),
    };
    let levels = text
        .split('|')
        .map(|level| level.split_whitespace().map(run).collect());
    LevelsView {
        unit_bytes: UNIT,
        levels: levels.collect(),
        wants_all: false,
    }
}

fn said(merge: Option<LevelMergePlan>) -> String {
    match merge {
        None => "nothing".to_owned(),
        Some(merge) => {
            let LevelMergePlan {
                from, runs, to, into, ..
            } = merge;
            let behind = match merge.skips {
                0 => String::new(),
                skips => format!(" behind {skips}"),
            };
            format!("{runs}{behind} of {from} to {to} into {into}")
        }
    }
}

fn chosen(policy: &str, text: &str) -> String {
    said(choose(&policy.parse().unwrap(), &view(text)))
}

#[test]
fn a_samt_merges_the_oldest_runs_of_a_level_that_has_too_many() {
    let samt = |text| chosen("samt,k=4", text);
    assert_eq!(samt(""), "nothing");
    assert_eq!(samt("1 1 1 1"), "nothing");
    assert_eq!(samt("1 1 1 1 1"), "4 of 0 to 0 into 1");
    assert_eq!(samt("1 | 4 4 4 4 4"), "4 of 1 to 1 into 2");
    assert_eq!(samt("1 1 1 1 1 | 4 4 4 4 4"), "4 of 0 to 0 into 1");
    assert_eq!(samt("1* 1* 1* 1* 1 1 1 1 1 1 | 4 4 4 4 4"), "4 of 1 to 1 into 2");
    assert_eq!(samt("1* 1* 1* 1* 1 1 1 1 1 1 | 4 4"), "nothing");
    assert_eq!(chosen("samt,k=2x1/3", "1 1 1 | 2"), "2 of 0 to 0 into 1");
    assert_eq!(chosen("samt,k=2x1/3", "1 | 2 2 2"), "nothing");
    assert_eq!(chosen("samt,k=2x1/3", "1 | 2 2 2 2"), "3 of 1 to 1 into 2");
}

#[test]
fn a_cola_merges_down_to_the_first_level_that_can_take_it() {
    let three = |text| chosen("cola,r=3", text);
    assert_eq!(three(" | 6"), "nothing");
    assert_eq!(three("1"), "nothing");
    assert_eq!(three("1 1"), "2 of 0 to 0 into 0");
    assert_eq!(three("2 1"), "2 of 0 to 1 into 1");
    assert_eq!(three("2 1 | 3"), "2 of 0 to 1 into 1");
    assert_eq!(three("2 1 | 6"), "2 of 0 to 2 into 2");
    assert_eq!(three("2 1 | 6 | 18"), "2 of 0 to 3 into 3");
    assert_eq!(three("2 1 | 6* | 18"), "nothing");
    assert_eq!(chosen("cola,r=2", "1 1 | 2 | | 8"), "2 of 0 to 2 into 2");
}

#[test]
fn levels_of_one_run_pass_on_what_is_too_much_for_them() {
    let four = |text| chosen("leveled,r=4", text);
    assert_eq!(four(" | 4"), "nothing");
    assert_eq!(four("1 1 | 2"), "2 of 0 to 1 into 1");
    assert_eq!(four("1 | 5 | 15"), "1 of 1 to 2 into 2");
    assert_eq!(four("1 | 5 | 17"), "1 of 2 to 3 into 3");
    assert_eq!(four("1 | 5* | 15"), "nothing");
    assert_eq!(four("1 | 4 | 17* | 7*"), "nothing");
}

#[test]
fn without_a_policy_runs_stay_until_all_of_them_are_to_become_one() {
    assert_eq!(chosen("never", "1 1 1 1 1 1 1 1 1"), "nothing");
    let all = |policy: &str, text| {
        let view = LevelsView {
            wants_all: true,
            ..view(text)
        };
        said(choose(&policy.parse().unwrap(), &view))
    };
    assert_eq!(all("never", "1 1 1"), "3 of 0 to 0 into 0");
    assert_eq!(all("samt", "1 1 1 1 1 | | 3 3 | "), "5 of 0 to 2 into 2");
    assert_eq!(all("samt", " | 1 | 3 3"), "1 of 1 to 2 into 2");
    assert_eq!(all("samt", "1 1 1 1 1 | 1*"), "nothing");
    assert_eq!(all("samt", ""), "nothing");
}

#[test]
fn what_few_bytes_remain_of_a_merge_stays_where_they_were() {
    let policy: MergePolicy = "samt,k=4".parse().unwrap();
    let into = |level, bytes| {
        let merge = LevelMergePlan {
            from: level,
            runs: 4,
            skips: 0,
            to: level,
            into: level + 1,
        };
        target(&policy, UNIT, &merge, bytes)
    };
    assert_eq!((into(0, 2), into(0, 3), into(0, 4)), (0, 1, 1));
    assert_eq!((into(1, 8), into(1, 9)), (1, 2));
    let tiers: MergePolicy = "samt,k=4x2/8x1/16".parse().unwrap();
    let tiers: Vec<Option<u8>> = (0..6).map(|level| tier(&tiers, level)).collect();
    assert_eq!(tiers, [0, 0, 1, 2, 2, 2].map(Some));
    assert_eq!(tier(&"samt,k=4".parse().unwrap(), 3), None, "it goes by space");
}

#[test]
fn level_0_is_crowded_once_it_has_three_times_what_a_merge_takes() {
    let crowding = |policy: &str, runs| crowding(&policy.parse().unwrap(), runs);
    assert_eq!(
        [0, 5, 9, 12, 24].map(|runs| crowding("samt,k=4", runs)),
        [0, 41, 75, 100, 200]
    );
    assert_eq!(crowding("samt,k=4x2/8", 12), 100, "level 0 is of the first tier");
    assert_eq!((crowding("cola,r=2", 6), crowding("leveled,r=4", 12)), (100, 100));
    assert_eq!(crowding("never", 1_000_000), 0);
}

#[test]
fn what_shrank_rises_past_empty_levels_to_the_first_that_it_half_fills() {
    let up = |policy: &str, above: &[usize], bytes| rise(&policy.parse().unwrap(), UNIT, above, bytes);
    // With this policy the capacities of the levels are 4, 16, 64 and 256 bytes.
    let samt = |above: &[usize], bytes| up("samt,k=4", above, bytes);
    assert_eq!(
        [2, 3, 8, 9, 32, 33].map(|bytes| samt(&[0, 0, 0, 0], bytes)),
        [0, 1, 1, 2, 2, 3]
    );
    assert_eq!(samt(&[0, 0, 0, 1], 2), 3, "a newer run lies beside it");
    assert_eq!(samt(&[0, 1, 0, 0], 2), 1, "it would pass a newer run");
    assert_eq!(samt(&[3, 0, 0], 2), 0, "the level has space for a run");
    assert_eq!(samt(&[4, 0, 0], 2), 1, "it has none");
    assert_eq!((samt(&[0], 1), samt(&[], 1)), (0, 0));
    // With these policies each level has one run, and no run moves up to level 0.
    for policy in ["cola,r=4", "leveled,r=4"] {
        assert_eq!(
            [2, 3, 8, 9].map(|bytes| up(policy, &[0, 0, 0, 0], bytes)),
            [1, 2, 2, 3]
        );
        assert_eq!(up(policy, &[0, 1, 0, 0], 1), 2);
    }
    assert_eq!(up("never", &[0, 0], 0), 1);
}

/// Simulates `shares` flushes of one byte each, and all merges that become due. Returns the number
/// of bytes written, and the maximum number of runs after any flush and its merges.
fn write(policy: &str, shares: u64) -> (u64, usize) {
    let policy: MergePolicy = policy.parse().unwrap();
    let mut view = view("");
    let (mut written, mut most) = (0, 0);
    for _ in 0..shares {
        let fresh = RunView {
            bytes: UNIT,
            is_busy: false,
            is_lost: false,
        };
        view.levels[0].push(fresh);
        written += UNIT;
        while let Some(merge) = choose(&policy, &view) {
            let mut bytes = 0;
            view.levels
                .resize(view.levels.len().max(merge.into + 1), Vec::new());
            for level in merge.from..=merge.to {
                let runs = &mut view.levels[level];
                let count = if level == merge.from {
                    merge.runs
                } else {
                    runs.len()
                };
                bytes += runs.drain(..count).map(|run| run.bytes).sum::<u64>();
            }
            written += bytes;
            let into = target(&policy, UNIT, &merge, bytes);
            let run = RunView {
                bytes,
                is_busy: false,
                is_lost: false,
            };
            let at = if into == merge.from && merge.to != merge.into {
                0
            } else {
                view.levels[into].len()
            };
            view.levels[into].insert(at, run);
        }
        most = most.max(view.levels.iter().map(Vec::len).sum());
    }
    let kept: u64 = view.levels.iter().flatten().map(|run| run.bytes).sum();
    assert_eq!(kept, shares * UNIT, "nothing is lost");
    (written, most)
}

/// Repeats the simulation of `seed-3-spillane.md` §1.2: with K = 4 and 256 evictions, each byte is
/// written 3.67 times.
#[test]
fn a_samt_writes_each_byte_as_often_as_its_levels_say() {
    let (written, most) = write("samt,k=4", 256);
    assert_eq!(written, 940, "3.67 writes of each byte");
    assert!(most <= 4 * 4, "K runs on each of log_K N levels");
    // Each byte is written 1 + L times, where L = log_K N is the number of levels, and each level
    // has just been filled (Table 6.3: log_K N / B).
    for (k, levels, shares) in [(2u64, 8u32, 256u64), (4, 4, 256), (8, 3, 512)] {
        let (written, _) = write(&format!("samt,k={k}"), shares);
        let bound = shares * u64::from(1 + levels);
        assert!(
            written <= bound && 10 * written >= 7 * bound,
            "K = {k}: {written} of {bound}"
        );
    }
}

/// According to Table 6.3, a COLA writes `(R - 1) log_R N / B` and has one run on each level.
#[test]
fn a_cola_writes_more_and_keeps_fewer_runs() {
    for (ratio, levels, shares) in [(2u64, 8u32, 256u64), (3, 5, 243), (4, 4, 256), (8, 3, 512)] {
        let (written, most) = write(&format!("cola,r={ratio}"), shares);
        let bound = shares * (1 + (ratio - 1) * u64::from(levels));
        assert!(
            written <= bound && 10 * written >= 4 * bound,
            "R = {ratio}: {written} of {bound}"
        );
        assert!(most <= levels as usize + 1, "R = {ratio}: {most} runs");
    }
}

#[test]
fn few_levels_cost_writes_and_save_runs_and_no_merging_does_the_reverse() {
    let (written, most) = write("leveled,r=10", 1000);
    assert!(most <= 5, "{most} runs");
    assert!(written > 5 * 1000, "{written}");
    assert_eq!(write("never", 1000), (1000, 1000));
}

#[test]
fn what_is_loaded_goes_as_deep_as_it_is_large_and_nothing_stands_in_its_way() {
    let lands = |policy: &str, runs: &[usize], bytes| landing(&policy.parse().unwrap(), UNIT, runs, bytes);
    let all = |bytes| ["samt,k=4", "cola,r=4", "leveled,r=4"].map(|policy| lands(policy, &[], bytes));
    assert_eq!((all(1), all(4), all(17)), ([0; 3], [1; 3], [3; 3]));
    assert_eq!(lands("samt,k=4", &[0, 0, 3], 1000), 2);
    assert_eq!(lands("samt,k=4", &[1, 0, 3], 1000), 0);
    assert_eq!(lands("cola,r=4", &[0, 0, 1], 1000), 1);
    assert_eq!(lands("leveled,r=4", &[1], 1000), 0);
    assert_eq!(lands("never", &[], 1000), 0);
    assert_eq!(lands("samt,k=2", &[], u64::MAX), 64);
}

#[test]
fn leaves_are_taken_over_where_more_than_the_threshold_come_in_a_row() {
    let view = |leaves| StitchView {
        leaves,
        before: Some(b"file 1, page 9"),
        first: b"file 2, page 0",
        end: Some(b"file 3, page 0"),
        next: Some(b"file 3, page 5"),
        name: 0,
    };
    let chooses = |stitching: StitchPolicy, leaves| stitching.chooses(&view(leaves));
    let of = |threshold| StitchPolicy {
        threshold,
        ..StitchPolicy::default()
    };
    assert!(chooses(of(0), 1) && !chooses(of(1), 1) && chooses(of(1), 2));
    assert!(!chooses(StitchPolicy::default(), u64::MAX) && !StitchPolicy::default().is_on());
    // Keys with the same first 6 bytes are the pages of one file. They stay together unless there
    // are more than 8 leaves.
    let together = StitchPolicy {
        same_scan: Some(SameScan::Prefix(6)),
        always: 8,
        ..of(0)
    };
    assert!(!chooses(together, 8), "file 3 would be in two places");
    assert!(chooses(together, 9));
    let apart = StitchView {
        next: Some(b"file 4, page 0"),
        ..view(1)
    };
    assert!(together.chooses(&apart));
    let joined = StitchView {
        before: Some(b"file 2, page 0"),
        ..apart
    };
    assert!(!together.chooses(&joined), "file 2 would be in two places");
}

#[test]
fn what_is_newer_than_runs_that_cannot_be_read_is_merged_without_them() {
    let samt = |text| chosen("samt,k=2", text);
    assert_eq!(samt("1 1 1 | 2!"), "2 of 0 to 0 into 1", "as usual");
    assert_eq!(samt("1 | 2! 2 2"), "nothing", "no level has too many");
    assert_eq!(samt("1 | 2! 2 2 2"), "2 behind 1 of 1 to 1 into 1");
    assert_eq!(samt("1 | 2! 9 2 2"), "2 behind 2 of 1 to 1 into 1");
    assert_eq!(samt("1 | 2! 9 4 1"), "nothing", "they are of several sizes");
    assert_eq!(
        samt("1 | 2! 27 9 9 3 1"),
        "2 behind 4 of 1 to 1 into 1",
        "they are many"
    );
    assert_eq!(samt("1 | 2 2! 9 2 2* 2"), "nothing", "the small ones are read");
    assert_eq!(samt("1! 1 1 1"), "2 behind 1 of 0 to 0 into 0");
    assert_eq!(samt("1 | 2! | 4 4 4"), "2 of 2 to 2 into 3");
    // With this policy each level has one run.
    assert_eq!(chosen("cola,r=2", "1 1 | 2!"), "nothing");
    assert_eq!(chosen("cola,r=2", "1 1 1 | 2!"), "2 of 0 to 0 into 0");
    assert_eq!(chosen("cola,r=2", "4 1 1 | 2!"), "2 behind 1 of 0 to 0 into 0");
    assert_eq!(chosen("cola,r=2", "4 2 1 | 2!"), "nothing");
    assert_eq!(chosen("cola,r=3", "2 1 | 3 | 18!"), "2 of 0 to 1 into 1");
    assert_eq!(chosen("leveled,r=4", "1 | 2 | 17!"), "1 of 0 to 1 into 1");
    assert_eq!(chosen("leveled,r=4", "1 | 5 | 15!"), "nothing");
    assert_eq!(chosen("leveled,r=2", "1 1 1 | 5 | 15!"), "2 of 0 to 0 into 0");
    assert_eq!(chosen("never", "1! 1 1 1 1"), "nothing");
    // A requested merge of the whole structure is impossible while a run is unreadable, but must
    // not block other merges.
    let all = LevelsView {
        wants_all: true,
        ..view("1 1 1 | 2!")
    };
    let two = "samt,k=2".parse().unwrap();
    assert_eq!(said(choose(&two, &all)), "2 of 0 to 0 into 1");
}

#[test]
fn beside_a_run_that_cannot_be_read_runs_stay_few_and_are_written_seldom() {
    for (policy, most_runs) in [("samt,k=4", 14), ("cola,r=3", 7), ("leveled,r=4", 9)] {
        let mut lost = view("");
        let stuck = RunView {
            bytes: 100,
            is_busy: true,
            is_lost: true,
        };
        lost.levels = vec![Vec::new(), vec![stuck]];
        let policy_read = policy.parse().unwrap();
        let (mut written, shares) = (0, 500);
        for _ in 0..shares {
            lost.levels[0].push(RunView {
                bytes: UNIT,
                is_busy: false,
                is_lost: false,
            });
            while let Some(merge) = choose(&policy_read, &lost) {
                assert_eq!(merge.from, merge.to, "{policy}: {merge:?}");
                let runs = merge.skips..merge.skips + merge.runs;
                let taken = lost.levels[merge.from].drain(runs);
                let bytes = taken.map(|run| run.bytes).sum();
                written += bytes;
                let run = RunView {
                    bytes,
                    is_busy: false,
                    is_lost: false,
                };
                let into = &mut lost.levels[merge.into];
                let at = if merge.into == merge.from {
                    merge.skips
                } else {
                    into.len()
                };
                into.insert(at, run);
            }
            let runs: usize = lost.levels.iter().map(Vec::len).sum();
            assert!(runs <= most_runs, "{policy}: {lost:?}");
        }
        println!(
            "{policy}: each share is written {} times",
            written as f64 / shares as f64
        );
        assert!(written < 12 * shares, "{policy}: {written}");
    }
}
