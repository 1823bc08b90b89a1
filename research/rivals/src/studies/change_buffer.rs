//! InnoDB with and without its change buffer: random keys in a secondary index, inserted in batches
//! of rows (Conway 2020, §5.5 and §5.6).

use super::{StudyDirectory, line};
use crate::mariadb::{ChangeBufferMode, MariaDbClient, MariaDbPrograms, MariaDbServer};
use alluvium_lab::{InsertPlan, MeasurementSet};
use alluvium_model::SplitMix64;
use anyhow::{Result, ensure};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Minimum size of InnoDB's buffer pool, and its page size.
const POOL: u64 = 6 << 20;
const PAGE: u64 = 16 << 10;
/// Rows of a batch, which is one transaction as in the document, and rows of a statement.
const BATCH: u64 = 10_000;
const STATEMENT: u64 = 1000;
/// An index entry has a key and a primary key of 8 bytes, and padding such that a page holds 160
/// entries.
const TABLE: &str = "CREATE DATABASE study;\nUSE study;\nCREATE TABLE rows_of_it (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, k BIGINT UNSIGNED NOT NULL, \
                     pad CHAR(76) CHARACTER SET latin1 NOT NULL DEFAULT \
                     '0123456789012345678901234567890123456789012345678901234567890123456789012345', KEY of_k (k, pad)) ENGINE=InnoDB;";

const COUNTERS: [&str; 4] = [
    "Innodb_ibuf_merges",
    "Innodb_ibuf_merged_inserts",
    "Innodb_pages_read",
    "Innodb_pages_written",
];

/// Counters of the server; `pages` counts pages read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InnodbCounters {
    merges: u64,
    merged: u64,
    pages: u64,
}

/// The measurements of one window.
#[derive(Clone, Copy, Debug)]
struct InsertWindow {
    place: f64,
    insert_us: f64,
    pages: f64,
    /// Records per merge; `None` if there was no merge.
    rate: Option<f64>,
}

pub(super) fn measure(directory: &Path, records: u64) -> Result<MeasurementSet> {
    let programs = match MariaDbPrograms::find()? {
        Ok(programs) => programs,
        Err(why) => {
            return Ok(MeasurementSet {
                notes: vec![why],
                ..MeasurementSet::default()
            });
        }
    };
    let inserts = InsertPlan::with_memory(records, POOL / PAGE * InsertPlan::LEAF as u64)?;
    let mut windows = Vec::new();
    for buffering in [ChangeBufferMode::All, ChangeBufferMode::None] {
        windows.push(run(&programs, directory, buffering, records, &inserts)?);
    }
    let mut counts = lines(&windows[0], &windows[1]);
    counts.extend(inserts.ours()?);
    Ok(MeasurementSet {
        counts,
        notes: vec![format!("MariaDB {}", programs.version)],
        ..MeasurementSet::default()
    })
}

fn lines(with: &[InsertWindow], without: &[InsertWindow]) -> Vec<alluvium_lab::FigureSeries> {
    let of = |windows: &[InsertWindow], figure: fn(&InsertWindow) -> Option<f64>| -> Vec<(f64, f64)> {
        let spot = |window: &InsertWindow| Some((window.place, figure(window)?));
        windows.iter().filter_map(spot).collect()
    };
    let quotient = |figure: fn(&InsertWindow) -> f64| -> Vec<(f64, f64)> {
        let pairs = with.iter().zip(without);
        let pairs = pairs.filter(|(_, without)| figure(without) > 0.0);
        pairs
            .map(|(with, without)| (with.place, figure(with) / figure(without)))
            .collect()
    };
    let mut all = vec![
        line(
            "ratio of times, mariadb".into(),
            &quotient(|window| window.insert_us),
        ),
        line("ratio, mariadb".into(), &quotient(|window| window.pages)),
    ];
    for (title, windows) in [("mariadb, buffered", with), ("mariadb, not buffered", without)] {
        all.push(line(
            format!("time, {title}"),
            &of(windows, |window| Some(window.insert_us)),
        ));
        all.push(line(
            format!("pages, {title}"),
            &of(windows, |window| Some(window.pages)),
        ));
        all.push(line(
            format!("rates, {title}"),
            &of(windows, |window| window.rate),
        ));
    }
    all.retain(|line| !line.points.is_empty());
    all
}

/// Starts a server and inserts rows. Returns the measurements of each window.
fn run(
    programs: &MariaDbPrograms,
    directory: &Path,
    buffering: ChangeBufferMode,
    records: u64,
    inserts: &InsertPlan,
) -> Result<Vec<InsertWindow>> {
    let place = StudyDirectory::new(&directory.join(buffering.name()))?;
    let server = MariaDbServer::start(programs, place.path(), POOL, buffering)?;
    let mut client = MariaDbClient::connect(&server)?;
    client.ask(TABLE)?;
    let mut random = SplitMix64::from_seed(1);
    let (mut windows, mut inserted) = (Vec::new(), 0);
    let (mut before, mut spent) = (count(&mut client)?, Duration::ZERO);
    while inserted < records {
        // Batches do not cross the end of a window.
        let rows = (1..=BATCH.min(records - inserted))
            .find(|rows| inserts.begins(inserted + rows) || inserts.ends(inserted + rows).is_some())
            .unwrap_or(BATCH.min(records - inserted));
        let text = batch(rows, &mut random);
        let start = Instant::now();
        client.ask(&text)?;
        spent += start.elapsed();
        inserted += rows;
        if let Some(place) = inserts.ends(inserted) {
            let after = count(&mut client)?;
            windows.push(window(place, inserts.window(), spent, before, after));
        }
        if inserts.begins(inserted) {
            (before, spent) = (count(&mut client)?, Duration::ZERO);
        }
    }
    let rows = client.ask("SELECT COUNT(*) FROM rows_of_it;")?;
    ensure!(
        rows == [records.to_string()],
        "MariaDB has {rows:?} rows of {records}"
    );
    Ok(windows)
}

fn batch(rows: u64, random: &mut SplitMix64) -> String {
    let mut text = String::from("BEGIN;\n");
    for row in 0..rows {
        let begins = row.is_multiple_of(STATEMENT);
        if begins && row > 0 {
            text.push_str(";\n");
        }
        text.push_str(if begins {
            "INSERT INTO rows_of_it (k) VALUES "
        } else {
            ","
        });
        // Formatting into a string cannot fail.
        let _ = write!(text, "({})", random.bits());
    }
    text.push_str(";\nCOMMIT;");
    text
}

fn count(client: &mut MariaDbClient) -> Result<InnodbCounters> {
    let [merges, merged, reads, writes] = client.counters(COUNTERS)?;
    Ok(InnodbCounters {
        merges,
        merged,
        pages: reads + writes,
    })
}

fn window(
    place: f64,
    rows: u64,
    spent: Duration,
    before: InnodbCounters,
    after: InnodbCounters,
) -> InsertWindow {
    let merges = after.merges - before.merges;
    InsertWindow {
        place,
        insert_us: spent.as_secs_f64() * 1e6 / rows as f64,
        pages: (after.pages - before.pages) as f64 / rows as f64,
        rate: (merges > 0).then(|| (after.merged - before.merged) as f64 / merges as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_one_transaction_of_statements() {
        let text = batch(1001, &mut SplitMix64::from_seed(1));
        assert!(text.starts_with("BEGIN;\nINSERT INTO rows_of_it (k) VALUES ("));
        assert_eq!(text.matches("INSERT").count(), 2);
        assert_eq!(text.matches('(').count(), 2 + 1001, "{text}");
        assert!(text.ends_with(");\nCOMMIT;"));
    }

    #[test]
    fn a_window_has_its_own_counts_and_a_rate_if_there_were_merges() {
        let [before, after] = [(1, 2, 3), (5, 22, 103)].map(|(merges, merged, pages)| InnodbCounters {
            merges,
            merged,
            pages,
        });
        let found = window(2e5, 50, Duration::from_millis(1), before, after);
        assert_eq!((found.insert_us, found.pages, found.rate), (20.0, 2.0, Some(5.0)));
        assert_eq!(window(2e5, 50, Duration::ZERO, after, after).rate, None);
        let lines = lines(
            &[found],
            &[window(2e5, 50, Duration::from_millis(2), before, after)],
        );
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert!(
            names.contains(&"ratio of times, mariadb") && names.len() == 8,
            "{names:?}"
        );
        assert_eq!(lines[0].points[0].value, 0.5);
    }
}
