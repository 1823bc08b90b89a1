//! The analytic primitives and write models of Lim, chapter 4, compared with the simulation.

use super::OracleSection;
use alluvium_model::Popularity;
use alluvium_model::lsm::{GeometricLevels, ItemStage, LevelDb, WriteCosts};
use anyhow::Result;
use research_models::leveldb::{CompactionRules, TableChoice};

/// Tolerance for numbers with two decimals: the rounding of the result, plus the same again for
/// intermediate rounding.
const TWO_PLACES: f64 = 0.011;
/// Number of items in a log of 4 MiB.
const LOG: f64 = 4194.304;

fn zipf(keys: u64, skew: f64) -> Result<Popularity> {
    Ok(Popularity::zipf(keys, skew)?)
}

fn standard(keys: u64, skew: f64) -> Result<WriteCosts> {
    Ok(LevelDb::standard(keys as f64)?.estimate(&zipf(keys, skew)?)?)
}

pub(super) fn primitives() -> Result<OracleSection> {
    let mut section = OracleSection::new("Lim 2015, §4.3: Unique and Merge");
    for (skew, uniques) in [
        (0.0, [9.95e5, 6.321e7, 1.0e8]),
        (0.99, [4.414e5, 1.889e7, 7.119e7]),
        (1.2, [1.122e5, 3.977e6, 1.984e7]),
    ] {
        let popularity = zipf(100_000_000, skew)?;
        for (requests, unique) in [1e6, 1e8, 1e9].into_iter().zip(uniques) {
            let what = format!("Unique({requests:.0e}) of 10⁸ keys, skew {skew}");
            section.recomputed(what, unique, unique * 0.0012, popularity.unique(requests)?);
        }
    }
    let skewed = zipf(100_000_000, 0.99)?;
    let merged = skewed.merge(1e7, 9e7)?;
    section.stated("Merge(10⁷, 9·10⁷) of 10⁸ keys, skew 0.99", 9.03e7, 6e4, merged);
    let uniform = zipf(100_000_000, 0.0)?;
    let size = 10.0 * 1_048_576.0;
    let interval = uniform.cursor_interval(size)?;
    section.recomputed(
        "DInterval of a level of 10 Mi items, uniform",
        2.258e7,
        1e4,
        interval,
    );
    let inverse = uniform.unique_inverse(size)?;
    section.recomputed("Unique⁻¹ of the same", 1.108e7, 1e4, inverse);
    Ok(section)
}

pub(super) fn leveldb() -> Result<OracleSection> {
    let mut section = OracleSection::new("Lim 2015, §4.4: LevelDB's write amplification");
    for (keys, levels, uniform, skewed) in [
        (1_000_000, 3, 12.90, 6.53),
        (3_300_000, 4, 15.90, 7.86),
        (10_000_000, 4, 19.34, 9.50),
        (33_000_000, 5, 22.38, 10.98),
        (100_000_000, 5, 25.83, 12.68),
        (330_000_000, 6, 28.87, 14.26),
        (1_000_000_000, 6, 32.33, 16.01),
    ] {
        let shape = LevelDb::standard(keys as f64)?;
        let of = |what: &str| format!("{keys:.1e} keys, {what}", keys = keys as f64);
        section.recomputed(of("levels"), f64::from(levels), 0.0, shape.levels() as f64);
        for (name, skew, wanted) in [("uniform", 0.0, uniform), ("Zipf 0.99", 0.99, skewed)] {
            section.recomputed(of(name), wanted, TWO_PLACES, standard(keys, skew)?.total());
        }
    }
    for (skew, wanted) in [
        (0.2, 25.80),
        (0.4, 25.58),
        (0.6, 24.67),
        (0.8, 21.18),
        (0.99, 12.68),
        (1.1, 7.39),
        (1.2, 4.31),
        (1.4, 2.12),
    ] {
        let what = format!("Figure 4.9: 10⁸ keys, skew {skew}");
        section.recomputed(what, wanted, TWO_PLACES, standard(100_000_000, skew)?.total());
    }
    for (keys, wanted) in [
        (1_000_000, 25.2),
        (10_000_000, 36.2),
        (100_000_000, 47.2),
        (1_000_000_000, 58.2),
    ] {
        let worst = standard(keys, 0.0)?.worst_case;
        section.recomputed(
            format!("worst case of {:.0e} keys", keys as f64),
            wanted,
            0.05,
            worst,
        );
    }
    for (name, skew, wanted) in [("uniform", 0.0, 1.8), ("Zipf 0.99", 0.99, 3.6)] {
        let costs = standard(1_000_000_000, skew)?;
        let what = format!("worst case by what is written, 10⁹ keys, {name}");
        section.stated(what, wanted, 0.05, costs.worst_case / costs.total());
    }
    stages(&mut section)?;
    Ok(section)
}

/// Compares the writes of each stage with Table 4.1.
fn stages(section: &mut OracleSection) -> Result<()> {
    let popularity = zipf(100_000_000, 0.0)?;
    let shape = LevelDb::standard(1e8)?;
    let names = [
        "log", "memtable", "level 1", "level 2", "level 3", "level 4", "level 5",
    ];
    let best = shape.optimise(&popularity)?.costs;
    let tables = [
        (
            "standard",
            shape.estimate(&popularity)?,
            [1.00, 1.00, 1.62, 4.77, 6.22, 6.32, 4.89],
        ),
        ("optimised", best, [1.00, 1.00, 3.85, 4.85, 4.82, 4.65, 3.50]),
    ];
    for (sizes, costs, wanted) in &tables {
        for ((name, (_, ours)), wanted) in names.iter().zip(&costs.stages).zip(wanted) {
            section.stated(format!("Table 4.1, {sizes}: {name}"), *wanted, 0.021, *ours);
        }
    }
    section.stated("Table 4.1, standard: total", 25.82, 0.016, tables[0].1.total());
    section.stated("Table 4.1, optimised: total", 23.67, 0.006, tables[1].1.total());
    let most = (0..tables[0].1.stages.len()).map(|level| tables[0].1.stage(ItemStage::Level(level)));
    section.stated(
        "the most that a level writes (A13: 4 to 6, without redundancy 11)",
        6.0,
        0.5,
        most.fold(0.0, f64::max),
    );
    Ok(())
}

pub(super) fn merged() -> Result<OracleSection> {
    let mut section = OracleSection::new("Lim 2015, §4.5: COLA and SAMT");
    let (uniform, skewed) = (zipf(100_000_000, 0.0)?, zipf(100_000_000, 0.99)?);
    let shape = |growth| GeometricLevels::holding(1e8, LOG, growth);
    for (growth, levels) in [(2, 15.0), (4, 8.0), (10, 5.0)] {
        let ours = f64::from(shape(growth)?.levels);
        section.recomputed(format!("levels for a growth of {growth}"), levels, 0.0, ours);
    }
    for (growth, plain, skew) in [(2, 9.30, 5.89), (3, 10.91, 6.46), (4, 12.60, 7.37)] {
        let of = |keys: &str| format!("COLA, r = {growth}, {keys}");
        section.recomputed(
            of("uniform"),
            plain,
            0.0051,
            shape(growth)?.cola(&uniform)?.total(),
        );
        section.recomputed(
            of("Zipf 0.99"),
            skew,
            0.0051,
            shape(growth)?.cola(&skewed)?.total(),
        );
    }
    for (growth, plain, skew) in [(2, 16.14, 9.33), (4, 9.35, 6.02), (10, 7.36, 5.57)] {
        let of = |keys: &str| format!("SAMT, r = {growth}, {keys}");
        section.recomputed(
            of("uniform"),
            plain,
            0.0051,
            shape(growth)?.samt(&uniform)?.total(),
        );
        section.recomputed(
            of("Zipf 0.99"),
            skew,
            0.0051,
            shape(growth)?.samt(&skewed)?.total(),
        );
    }
    Ok(section)
}

fn simulate(shape: LevelDb, tables: TableChoice, keys: u64, skew: f64) -> Result<f64> {
    let mut rules = CompactionRules::new(shape);
    rules.tables = tables;
    if tables == TableChoice::Largest {
        rules.rounds = 1.5;
    }
    Ok(rules.run(&zipf(keys, skew)?, 1)?.total())
}

pub(super) fn simulated() -> Result<OracleSection> {
    let mut section = OracleSection::new("Lim 2015, §4.4.4: the simulator");
    for (name, skew, wanted) in [("uniform", 0.0, 13.16), ("Zipf 0.99", 0.99, 6.77)] {
        let ours = simulate(LevelDb::standard(1e6)?, TableChoice::Cursor, 1_000_000, skew)?;
        section.recomputed(format!("10⁶ keys, {name}"), wanted, 0.02 * wanted, ours);
        let model = standard(1_000_000, skew)?.total();
        let what = format!("10⁶ keys, {name}: the model (at most 4 % away)");
        section.recomputed(what, model, 0.04 * model, ours);
    }
    Ok(section)
}

pub(super) fn optimised() -> Result<OracleSection> {
    let mut section = OracleSection::new("Lim 2015, §4.6: optimised level sizes");
    type LevelOptimum = (u64, f64, f64, &'static [f64]);
    let optima: [LevelOptimum; 4] = [
        (100_000_000, 0.0, 23.671, &[4.79e4, 3.21e5, 2.16e6, 1.46e7]),
        (100_000_000, 0.99, 11.76, &[3.22e4, 2.15e5, 1.51e6, 1.14e7]),
        (10_000_000, 0.0, 17.54, &[4.31e4, 2.64e5, 1.63e6]),
        (10_000_000, 0.99, 8.78, &[2.86e4, 1.85e5, 1.28e6]),
    ];
    for (keys, skew, total, sizes) in optima {
        let best = LevelDb::standard(keys as f64)?.optimise(&zipf(keys, skew)?)?;
        let of = |what: &str| format!("{:.0e} keys, skew {skew}: {what}", keys as f64);
        section.recomputed(of("write amplification"), total, 0.006, best.costs.total());
        for (level, (ours, wanted)) in best.shape.sizes.iter().zip(sizes).enumerate() {
            let what = of(&format!("items of level {}", level + 1));
            section.recomputed(what, *wanted, 0.01 * wanted, *ours);
        }
    }
    for (levels, fixed, best, skewed_fixed, skewed_best) in [
        (3, 81.4, 38.9, 43.3, 21.5),
        (4, 34.0, 26.9, 17.0, 13.9),
        (5, 25.8, 23.7, 12.7, 11.8),
        (6, 23.9, 23.0, 11.5, 11.1),
    ] {
        for (name, skew, fixed, best) in [
            ("uniform", 0.0, fixed, best),
            ("Zipf 0.99", 0.99, skewed_fixed, skewed_best),
        ] {
            let popularity = zipf(100_000_000, skew)?;
            let shape = LevelDb::with_levels(1e8, levels)?;
            let of = |what: &str| format!("Figure 4.15: {levels} levels, {name}, {what}");
            let ours = shape.estimate(&popularity)?.total();
            section.recomputed(of("standard sizes"), fixed, 0.06, ours);
            let ours = shape.optimise(&popularity)?.costs.total();
            section.recomputed(of("optimised"), best, 0.06, ours);
        }
    }
    Ok(section)
}

pub(super) fn policies() -> Result<OracleSection> {
    let mut section = OracleSection::new("Lim 2015, §4.6.5: which table is compacted");
    let of = |tables| simulate(LevelDb::standard(1e6)?, tables, 1_000_000, 0.0);
    let (cursor, largest) = (of(TableChoice::Cursor)?, of(TableChoice::Largest)?);
    section.recomputed("10⁶ keys, largest first", 17.15, 0.03 * 17.15, largest);
    section.recomputed(
        "saved by the cursor, in percent",
        23.0,
        3.0,
        100.0 * (1.0 - cursor / largest),
    );
    Ok(section)
}
