//! Merging tables of keys.

/// The keys of a table, sorted.
pub(super) type KeyTable = Vec<u32>;

/// Returns the range of tables that overlap the keys from `first` to `last`.
pub(super) fn overlapping(tables: &[KeyTable], first: u32, last: u32) -> std::ops::Range<usize> {
    let start = tables.partition_point(|table| table[table.len() - 1] < first);
    let end = tables.partition_point(|table| table[0] <= last);
    start..end.max(start)
}

/// The limits at which a merge ends an output table.
pub(super) struct OutputTableLimits<'a> {
    /// The maximum number of items in a table.
    pub(super) table: usize,
    /// The maximum number of items of `below` that a table may overlap.
    pub(super) overlap: usize,
    /// The level after the output level.
    pub(super) below: &'a [KeyTable],
}

/// Merges a sorted table with sorted disjoint tables. Each key is written once.
pub(super) fn merge(upper: &[u32], lower: &[KeyTable], cut: &OutputTableLimits<'_>) -> Vec<KeyTable> {
    let mut output = OutputTables::new(upper, cut);
    let mut next = upper.iter().copied().peekable();
    for table in lower {
        for &key in table {
            while let Some(&other) = next.peek() {
                if other > key {
                    break;
                }
                next.next();
                if other < key {
                    output.push(other);
                }
            }
            output.push(key);
        }
    }
    for key in next {
        output.push(key);
    }
    output.finish()
}

struct OutputTables<'a, 'b> {
    cut: &'b OutputTableLimits<'a>,
    tables: Vec<KeyTable>,
    open: KeyTable,
    /// The next table of `below` that the merge has not passed.
    below: usize,
    /// The last key of that table: beyond it the output overlaps another table.
    boundary: u32,
    overlapped: usize,
}

impl<'a, 'b> OutputTables<'a, 'b> {
    fn new(upper: &[u32], cut: &'b OutputTableLimits<'a>) -> OutputTables<'a, 'b> {
        let first = upper.first().copied().unwrap_or(0);
        let below = cut.below.partition_point(|table| table[table.len() - 1] < first);
        let mut output = OutputTables {
            cut,
            tables: Vec::new(),
            open: Vec::with_capacity(cut.table),
            below,
            boundary: u32::MAX,
            overlapped: 0,
        };
        output.aim();
        output
    }

    fn aim(&mut self) {
        let table = self.cut.below.get(self.below);
        self.boundary = table.map_or(u32::MAX, |table| table[table.len() - 1]);
    }

    fn push(&mut self, key: u32) {
        if key > self.boundary {
            self.pass(key);
        }
        if self.open.len() >= self.cut.table {
            self.close();
        }
        self.open.push(key);
    }

    /// Advances past tables of `below`, and ends the open table if it would overlap too many of
    /// their items.
    fn pass(&mut self, key: u32) {
        while key > self.boundary {
            if !self.open.is_empty() {
                self.overlapped += self.cut.below[self.below].len();
            }
            self.below += 1;
            self.aim();
        }
        if self.overlapped > self.cut.overlap {
            self.overlapped = 0;
            self.close();
        }
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            let next = Vec::with_capacity(self.cut.table);
            let mut table = std::mem::replace(&mut self.open, next);
            table.shrink_to_fit();
            self.tables.push(table);
        }
    }

    fn finish(mut self) -> Vec<KeyTable> {
        self.close();
        self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_keeps_each_key_once_and_tables_below_their_limit() {
        let lower = vec![vec![1, 4, 6], vec![7, 9]];
        let cut = OutputTableLimits {
            table: 3,
            overlap: 100,
            below: &[],
        };
        let merged = merge(&[0, 4, 5, 9, 12], &lower, &cut);
        assert_eq!(merged, [vec![0, 1, 4], vec![5, 6, 7], vec![9, 12]]);
        assert_eq!(merge(&[], &lower, &cut), lower);
        assert_eq!(merge(&[2], &[], &cut), [vec![2]]);
    }

    #[test]
    fn a_table_ends_before_it_overlaps_too_much() {
        let below: Vec<KeyTable> = (0..6)
            .map(|table| (table * 10..table * 10 + 5).collect())
            .collect();
        let cut = OutputTableLimits {
            table: 100,
            overlap: 10,
            below: &below,
        };
        let keys: Vec<u32> = (0..60).step_by(2).collect();
        let merged = merge(&keys, &[], &cut);
        // The key after the third table of five items starts a new output table.
        let ends = merged.iter().map(|table| table[table.len() - 1]);
        assert_eq!(ends.collect::<Vec<_>>(), [24, 54, 58]);
        assert_eq!(merged.concat(), keys);
    }

    #[test]
    fn overlaps_are_found_at_both_ends_and_in_gaps() {
        let tables = vec![vec![1, 4], vec![6, 9], vec![20, 30]];
        assert_eq!(overlapping(&tables, 4, 6), 0..2);
        assert_eq!(overlapping(&tables, 10, 15), 2..2);
        assert_eq!(overlapping(&tables, 0, 0), 0..0);
        assert_eq!(overlapping(&tables, 31, 40), 3..3);
        assert_eq!(overlapping(&[], 1, 2), 0..0);
    }
}
