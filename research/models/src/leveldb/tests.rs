//! Reference values for the simulation (Lim Fig. 4.10 and 4.12, Table 4.1, §4.6.5), at sizes that
//! run in seconds. The bench `structures` runs the full sizes.

use super::*;

fn popularity(keys: u64, skew: f64) -> Popularity {
    Popularity::zipf(keys, skew).unwrap()
}

fn rules(keys: f64) -> CompactionRules {
    CompactionRules::new(LevelDb::standard(keys).unwrap())
}

fn near(found: f64, wanted: f64, share: f64) {
    assert!((found / wanted - 1.0).abs() < share, "{found}, not {wanted}");
}

#[test]
fn a_million_keys_write_what_the_source_and_the_model_say() {
    for (skew, wanted) in [(0.0, 13.16), (0.99, 6.77)] {
        let keys = popularity(1_000_000, skew);
        let measured = rules(1e6).run(&keys, 1).unwrap();
        assert_eq!(measured.inserts, 3_000_000);
        near(measured.total(), wanted, 0.02);
        let model = LevelDb::standard(1e6).unwrap().estimate(&keys).unwrap();
        near(measured.total(), model.total(), 0.04);
        for ((stage, measured), (same, model)) in measured.stages.iter().zip(&model.stages) {
            assert_eq!(stage, same);
            near(*measured, *model, 0.13);
        }
    }
}

#[test]
fn the_largest_table_first_writes_a_quarter_more() {
    let keys = popularity(1_000_000, 0.0);
    let mut largest = rules(1e6);
    largest.tables = TableChoice::Largest;
    largest.rounds = 1.5;
    near(largest.run(&keys, 2).unwrap().total(), 17.15, 0.03);
}

#[test]
fn optimal_sizes_write_less_in_the_simulation_too() {
    let keys = popularity(1_000_000, 0.0);
    let standard = LevelDb::standard(1e6).unwrap();
    let best = standard.optimise(&keys).unwrap();
    let measured = CompactionRules::new(best.shape).run(&keys, 3).unwrap().total();
    near(measured, best.costs.total(), 0.04);
    assert!(measured < 0.95 * 13.16, "{measured}");
}

#[test]
fn level_0_first_starves_the_levels_below_when_the_device_is_slow() {
    let keys = popularity(1_000_000, 0.0);
    let run = |levels, writes| {
        let mut rules = rules(1e6);
        rules.levels = levels;
        rules.pace = CompactionPace::Limited { writes, stop: 12 };
        rules.rounds = 1.0;
        rules.run(&keys, 4).unwrap().total()
    };
    // A device that is fast enough makes no difference; with a slower one level 1 grows.
    let fast = run(LevelChoice::Fullest, 20.0);
    near(run(LevelChoice::Level0First, 20.0), fast, 0.02);
    let fair = run(LevelChoice::Fullest, 3.0);
    let starved = run(LevelChoice::Level0First, 3.0);
    assert!(fair < fast, "larger merges of level 0 write less: {fair} {fast}");
    assert!(
        starved > 1.5 * fair && starved > 1.2 * fast,
        "{starved} {fair} {fast}"
    );
}

#[test]
fn no_key_is_lost_on_its_way_down() {
    let mut rules = rules(2e4);
    rules.shape.log = 64.0;
    rules.shape.sizes = vec![300.0, 1500.0, 6000.0];
    (rules.table, rules.overlap) = (40.0, 200.0);
    for choice in [TableChoice::Cursor, TableChoice::Largest] {
        rules.tables = choice;
        let mut levels = LevelSimulation::new(&rules);
        let mut random = SplitMix64::from_seed(5);
        let mut inserted = vec![false; 20_000];
        for _ in 0..60_000 {
            let key = random.below(20_000);
            inserted[key] = true;
            levels.insert(key as u32);
        }
        let wanted = (0..20_000_u32).filter(|&key| inserted[key as usize]);
        assert!(levels.keys().into_iter().eq(wanted), "LC2");
        let written = levels.stages(60_000);
        assert_eq!(written[0], (ItemStage::Log, 1.0));
        assert_eq!(written.last().unwrap().0, ItemStage::Level(4));
        assert!(written.iter().all(|&(_, writes)| writes > 0.5), "{written:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let keys = popularity(20_000, 0.99);
    let run = |seed| rules(2e4).run(&keys, seed).unwrap();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn rules_that_are_none_are_refused_by_name() {
    let keys = popularity(20_000, 0.0);
    let refused = |change: fn(&mut CompactionRules)| {
        let mut rules = rules(2e4);
        change(&mut rules);
        rules.run(&keys, 1).unwrap_err().name
    };
    assert_eq!(refused(|rules| rules.table = 0.0), "the table");
    assert_eq!(refused(|rules| rules.table = f64::NAN), "the table");
    assert_eq!(refused(|rules| rules.overlap = f64::NAN), "the overlap");
    assert_eq!(refused(|rules| rules.shape.log = 0.5), "the log");
    assert_eq!(
        refused(|rules| rules.shape.sizes = vec![0.0]),
        "the size of a level"
    );
    assert_eq!(refused(|rules| rules.rounds = 0.0), "the requests for each key");
    assert_eq!(refused(|rules| rules.rounds = 1e-9), "the requests for each key");
    let pace = |writes, stop| CompactionPace::Limited { writes, stop };
    assert_eq!(rules(2e4).pace, CompactionPace::AtOnce);
    for (bad, name) in [
        (pace(0.0, 12), "the pace of compactions"),
        (pace(2.0, 4), "the tables that stop inserts"),
    ] {
        let mut rules = rules(2e4);
        rules.pace = bad;
        assert_eq!(rules.run(&keys, 1).unwrap_err().name, name);
    }
    let many = popularity(1 << 32, 0.0);
    assert_eq!(rules(2e4).run(&many, 1).unwrap_err().name, "the number of keys");
}
