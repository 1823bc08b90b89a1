//! Choosing the next compaction: pure functions of the levels (Lim §4.6.5).

use super::levels::SimulatedLevel;

/// How the table to compact is chosen within a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableChoice {
    /// The next table in key order, as in LevelDB. It has waited longest, so its keys are dense.
    Cursor,
    /// The table with the most items, as in RocksDB 3.9.
    Largest,
}

/// How the level to compact is chosen when several are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelChoice {
    /// The level with the highest ratio of size to limit.
    Fullest,
    /// Level 0 whenever it is full, otherwise the fullest level, as in RocksDB 3.9.
    Level0First,
}

/// Returns the level to compact, given the fill ratio of each: 1 is full.
pub(super) fn level(choice: LevelChoice, fullness: impl Iterator<Item = f64>) -> Option<usize> {
    let mut found: Option<(usize, f64)> = None;
    for (level, full) in fullness.enumerate() {
        if full < 1.0 {
            continue;
        }
        if level == 0 && choice == LevelChoice::Level0First {
            return Some(0);
        }
        if found.is_none_or(|(_, most)| full > most) {
            found = Some((level, full));
        }
    }
    found.map(|(level, _)| level)
}

/// Returns the index of the table to compact in a non-empty level.
pub(super) fn table(choice: TableChoice, level: &SimulatedLevel) -> usize {
    match choice {
        TableChoice::Cursor => {
            let after = |cursor: u32| level.tables.partition_point(|table| table[0] <= cursor);
            let next = level.cursor.map_or(0, after);
            if next < level.tables.len() { next } else { 0 }
        }
        TableChoice::Largest => {
            let mut largest = 0;
            for (index, table) in level.tables.iter().enumerate() {
                if table.len() > level.tables[largest].len() {
                    largest = index;
                }
            }
            largest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_level_is_first_unless_level_0_always_is() {
        let choose = |choice, full: [f64; 4]| level(choice, full.into_iter());
        assert_eq!(choose(LevelChoice::Fullest, [1.0, 1.5, 2.5, 0.2]), Some(2));
        assert_eq!(choose(LevelChoice::Level0First, [1.0, 1.5, 2.5, 0.2]), Some(0));
        assert_eq!(choose(LevelChoice::Level0First, [0.9, 1.5, 2.5, 0.2]), Some(2));
        assert_eq!(choose(LevelChoice::Fullest, [0.9, 0.5, 0.99, 0.2]), None);
    }

    #[test]
    fn a_cursor_goes_around_and_the_largest_table_is_found() {
        let tables = vec![vec![1, 2], vec![5, 6, 7], vec![9]];
        let mut level = SimulatedLevel {
            tables,
            items: 6,
            cursor: None,
        };
        for (cursor, wanted) in [(None, 0), (Some(2), 1), (Some(7), 2), (Some(9), 0)] {
            level.cursor = cursor;
            assert_eq!(table(TableChoice::Cursor, &level), wanted);
        }
        assert_eq!(table(TableChoice::Largest, &level), 1);
    }
}
