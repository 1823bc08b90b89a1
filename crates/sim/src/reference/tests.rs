use super::*;

fn put(key: &str, value: &str) -> ModelWrite {
    ModelWrite {
        key: key.into(),
        value: Some(value.into()),
    }
}

fn delete(key: &str) -> ModelWrite {
    ModelWrite {
        key: key.into(),
        value: None,
    }
}

fn found(pairs: &[(&str, &str)]) -> StoreContents {
    let mut contents = StoreContents::new();
    for (key, value) in pairs {
        contents.add(key.as_bytes(), value.as_bytes()).unwrap();
    }
    contents
}

fn history(commits: &[(&[ModelWrite], Option<PromisedDurability>)]) -> ReferenceModel {
    let mut reference = ReferenceModel::new();
    for (writes, durability) in commits {
        let number = reference.begin(writes);
        if let Some(durability) = durability {
            reference.acknowledge(number, *durability);
        }
    }
    reference
}

use PromisedDurability::{Disk, Memory, Process};

#[test]
fn power_loss_leaves_a_prefix_from_the_last_durable_commit_on() {
    let (a, b, c) = ([put("a", "1")], [put("b", "2")], [put("c", "3")]);
    let reference = history(&[(&a, Some(Process)), (&b, Some(Disk)), (&c, Some(Process))]);
    let judge = |pairs: &[(&str, &str)]| reference.judge(CrashHistory::POWER, &found(pairs));
    assert_eq!(judge(&[("a", "1"), ("b", "2")]).unwrap().count(), 2);
    assert_eq!(judge(&[("a", "1"), ("b", "2"), ("c", "3")]).unwrap().count(), 3);
    assert_eq!(judge(&[("a", "1")]).unwrap_err().wrong, ViolationKind::Lost);
    assert_eq!(judge(&[]).unwrap_err().wrong, ViolationKind::Lost);
    assert!(judge(&[("b", "2"), ("c", "3")]).is_err());
    assert_eq!(
        judge(&[("a", "1"), ("b", "x")]).unwrap_err().wrong,
        ViolationKind::Foreign
    );
}

#[test]
fn a_hole_after_a_power_loss_is_found() {
    let (a, b, c) = ([put("a", "1")], [put("b", "2")], [put("c", "3")]);
    let reference = history(&[(&a, Some(Disk)), (&b, Some(Memory)), (&c, Some(Process))]);
    let hole = found(&[("a", "1"), ("c", "3")]);
    assert_eq!(
        reference.judge(CrashHistory::POWER, &hole).unwrap_err().wrong,
        ViolationKind::Hole
    );
    assert!(
        reference.judge(CrashHistory::PROCESS, &hole).is_ok(),
        "the second was acknowledged at Memory only"
    );
    assert!(
        reference
            .judge(CrashHistory::PROCESS.then(CrashHistory::POWER), &hole)
            .is_ok()
    );
    assert!(
        reference
            .judge(CrashHistory::POWER.then(CrashHistory::PROCESS), &hole)
            .is_err()
    );
    assert!(reference.judge(CrashHistory::NONE, &hole).is_err());
}

#[test]
fn the_death_of_the_process_loses_nothing_acknowledged_at_process() {
    let (a, b, c) = ([put("a", "1")], [put("a", "2"), put("b", "2")], [delete("a")]);
    let reference = history(&[(&a, Some(Process)), (&b, Some(Process)), (&c, None)]);
    let judge = |pairs: &[(&str, &str)]| reference.judge(CrashHistory::PROCESS, &found(pairs));
    assert_eq!(
        judge(&[("a", "2"), ("b", "2")]).unwrap().kept,
        [true, true, false]
    );
    assert_eq!(judge(&[("b", "2")]).unwrap().kept, [true, true, true]);
    assert!(judge(&[("a", "1")]).is_err());
    assert!(judge(&[("a", "1"), ("b", "2")]).is_err());
}

#[test]
fn half_a_batch_and_a_delete_that_comes_back_are_named() {
    let (a, b, c) = (
        [put("a", "1"), put("z", "1")],
        [delete("a")],
        [put("x", "1"), put("y", "1")],
    );
    let reference = history(&[(&a, Some(Disk)), (&b, Some(Disk)), (&c, None)]);
    let half = reference
        .judge(CrashHistory::POWER, &found(&[("z", "1"), ("x", "1")]))
        .unwrap_err();
    assert_eq!(half.wrong, ViolationKind::HalfBatch);
    let back = reference.judge(
        CrashHistory::POWER,
        &found(&[("a", "1"), ("z", "1"), ("x", "1"), ("y", "1")]),
    );
    let back = back.unwrap_err();
    assert_eq!(back.wrong, ViolationKind::Reappeared);
    assert!(
        back.details
            .contains("key a: found the value of commit 1 (acknowledged at Disk)"),
        "{back}"
    );
}

#[test]
fn a_withdrawn_commit_must_never_be_seen_and_one_in_doubt_may() {
    let mut reference = history(&[(&[put("a", "1")], Some(Disk))]);
    let refused = reference.begin(&[put("a", "2"), put("b", "2")]);
    reference.withdraw(refused);
    assert!(
        reference
            .judge(CrashHistory::NONE, &found(&[("a", "2"), ("b", "2")]))
            .is_err()
    );
    let doubtful = reference.begin(&[put("b", "3")]);
    reference.doubt(doubtful);
    for pairs in [&[("a", "1")][..], &[("a", "1"), ("b", "3")]] {
        for crash in [CrashHistory::NONE, CrashHistory::PROCESS, CrashHistory::POWER] {
            assert!(reference.judge(crash, &found(pairs)).is_ok());
        }
    }
    assert!(reference.reads(b"a", Some(b"1")) && !reference.reads(b"a", None));
    assert!(
        reference.reads(b"b", Some(b"3"))
            && reference.reads(b"b", None)
            && !reference.reads(b"b", Some(b"2"))
    );
    assert_eq!(reference.keys(), [&b"a"[..], b"b"]);
}

#[test]
fn what_was_read_after_a_power_loss_must_stay_and_what_was_read_after_a_kill_need_not_survive_power() {
    let (a, b) = ([put("a", "1")], [put("b", "2")]);
    let reference = history(&[(&a, Some(Disk)), (&b, Some(Process))]);
    let all = found(&[("a", "1"), ("b", "2")]);
    let first = found(&[("a", "1")]);
    let survivors = reference.judge(CrashHistory::POWER, &all).unwrap();
    let after_power = reference.after(&reference.view(), CrashHistory::POWER, &survivors, &all);
    assert!(after_power.judge(CrashHistory::POWER, &first).is_err());
    let survivors = reference.judge(CrashHistory::PROCESS, &all).unwrap();
    let after_kill = reference.after(&reference.view(), CrashHistory::PROCESS, &survivors, &all);
    assert!(after_kill.judge(CrashHistory::POWER, &first).is_ok());
    assert!(after_kill.judge(CrashHistory::PROCESS, &first).is_err());
}

/// A naive reference for the judge, which tries every subset of the commits that the rules allow.
fn allowed_by_enumeration(reference: &ReferenceModel, crash: CrashHistory, found: &StoreContents) -> bool {
    let n = reference.newest();
    (0..1u32 << n).any(|mask| {
        let kept = |number: usize| mask & (1 << (number - 1)) != 0;
        let allowed = match (
            crash.then(CrashHistory::NONE) == CrashHistory::PROCESS,
            crash.is_power_loss(),
        ) {
            (true, _) => (1..=n).all(|number| {
                let promised = match reference.commits[number - 1].status {
                    CommitStatus::Acknowledged(durability) => durability >= Process,
                    _ => false,
                };
                kept(number) || !(promised || number <= reference.durable)
            }),
            _ => (1..=n).all(|number| {
                (kept(number) || number > reference.durable)
                    && (number == n || kept(number) || !kept(number + 1))
            }),
        };
        let mut state = BTreeMap::new();
        for number in (1..=n).filter(|number| kept(*number)) {
            for (key, value) in &reference.commits[number - 1].writes {
                match value {
                    Some(value) => state.insert(key.clone(), *value),
                    None => state.remove(key),
                };
            }
        }
        allowed && state == found.pairs
    })
}

#[test]
fn the_judge_agrees_with_trying_every_subset() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut accepted = 0;
    for round in 0..4000 {
        let mut reference = ReferenceModel::new();
        for number in 0..random.usize(1..7) {
            let writes: Vec<ModelWrite> = (0..random.usize(1..3))
                .map(|_| ModelWrite {
                    key: vec![random.u8(0..3)],
                    value: (random.u8(0..3) > 0).then(|| vec![number as u8]),
                })
                .collect();
            let number = reference.begin(&writes);
            match random.u8(0..4) {
                0 => reference.acknowledge(number, Memory),
                1 => reference.acknowledge(number, Process),
                2 if random.bool() => reference.acknowledge(number, Disk),
                _ => {}
            }
        }
        // Usually the contents result from a subset of the commits. Sometimes one key is wrong.
        let mut contents = StoreContents::new();
        let mut state = BTreeMap::new();
        for commit in &reference.commits {
            if random.u8(0..4) > 0 {
                state.extend(commit.writes.clone());
            }
        }
        if random.u8(0..4) == 0 {
            state.remove(&vec![random.u8(0..3)]);
        }
        for (key, value) in state {
            if let Some(value) = value {
                contents.hash = contents.hash.wrapping_add(share(&key, value));
                contents.pairs.insert(key, value);
            }
        }
        for crash in [CrashHistory::PROCESS, CrashHistory::POWER] {
            let expected = allowed_by_enumeration(&reference, crash, &contents);
            assert_eq!(
                reference.judge(crash, &contents).is_ok(),
                expected,
                "round {round}, {crash:?}"
            );
            accepted += u32::from(expected);
        }
    }
    assert!(
        (1000..7000).contains(&accepted),
        "{accepted} of 8000: the rounds must test both answers"
    );
}

#[test]
fn whether_a_commit_survived_that_later_ones_overwrote_is_open() {
    let (x, a, y) = ([put("x", "1")], [put("a", "1")], [put("y", "1")]);
    let over = [delete("a"), put("z", "1")];
    let reference = history(&[
        (&x, Some(Disk)),
        (&a, Some(Memory)),
        (&y, Some(Process)),
        (&over, Some(Process)),
    ]);
    let all = found(&[("x", "1"), ("y", "1"), ("z", "1")]);
    let survivors = reference.judge(CrashHistory::PROCESS, &all).unwrap();
    let after = reference.after(&reference.view(), CrashHistory::PROCESS, &survivors, &all);
    // If the power fails too, the last commit may be lost as well.
    let judge = |pairs: &[(&str, &str)]| after.judge(CrashHistory::POWER, &found(pairs));
    assert!(
        judge(&[("x", "1"), ("a", "1"), ("y", "1")]).is_ok(),
        "it had survived"
    );
    assert!(judge(&[("x", "1"), ("y", "1")]).is_ok(), "it had not");
    assert!(judge(&[("a", "1"), ("y", "1")]).is_err(), "the first was durable");
    assert!(judge(&[("x", "1"), ("z", "1")]).is_err(), "the third was seen");
}
