//! Statistics and outlines of the dictionaries that a store has one of for each set of options:
//! levels and hashed structures.

use crate::engine::Engine;
use crate::options::Structure;
use alluvium_hashes::hashed::HashedStats;
use alluvium_trees::levels::{LevelsOutline, LevelsStats};
use std::fmt;

/// Statistics of levels or of a hashed structure, which all keyspaces with the same options share.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DictionaryStats {
    /// The structure with its options.
    pub structure: Structure,
    /// The keyspaces in alphabetical order. There is none after the last one was dropped, until a
    /// compaction has removed its data.
    pub keyspaces: Vec<String>,
    /// Memory of the structure in bytes: filters, indexes and merges.
    pub memory_bytes: u64,
    /// Statistics of the levels, or `None` for a hashed structure.
    pub levels: Option<LevelsStats>,
    /// Statistics of the hashed structure, or `None` for levels.
    pub hashed: Option<HashedStats>,
}

impl fmt::Display for DictionaryStats {
    /// Formats the statistics as one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.structure, Named(&self.keyspaces))?;
        if let Some(levels) = &self.levels {
            write!(f, ", {} runs on {} levels", levels.runs, levels.levels)?;
        }
        if let Some(hashed) = &self.hashed {
            write!(f, ", {} hash stores and {} runs", hashed.hash_stores, hashed.runs)?;
        }
        Ok(())
    }
}

/// Levels with their runs, for inspecting a store.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// use alluvium::{KeyspaceOptions, LevelsOptions, Structure};
/// let levels = |k| KeyspaceOptions::new().structure(Structure::Levels(LevelsOptions::samt(k)));
/// db.keyspace_with("hot", &levels(8))?.put("Elbe", "1094 km")?;
/// db.keyspace_with("cold", &levels(2))?.put("Oder", "866 km")?;
/// db.checkpoint()?;
/// let outlines = db.outline_levels();
/// assert_eq!(outlines.len(), 2, "one for each set of options");
/// assert_eq!(outlines[0].structure.to_string(), "levels,samt,k=8");
/// assert_eq!(outlines[0].keyspaces, ["hot"]);
/// assert_eq!(outlines[1].shape.levels[0].runs[0].records, 1);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DictionaryOutline {
    /// The structure with its options.
    pub structure: Structure,
    /// The keyspaces in alphabetical order.
    pub keyspaces: Vec<String>,
    /// The runs on each level.
    pub shape: LevelsOutline,
}

impl fmt::Display for DictionaryOutline {
    /// Formats the outline with one line for the levels, one line per level and one line per run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (structure, shape) = (&self.structure, &self.shape);
        write!(f, "{structure}: {}", Named(&self.keyspaces))?;
        let runs: usize = shape.levels.iter().map(|level| level.runs.len()).sum();
        write!(f, "; {runs} runs on {} levels", shape.levels.len())?;
        if shape.merges > 0 {
            write!(f, ", {} merges in progress", shape.merges)?;
        }
        if shape.adopted_leaves > 0 {
            write!(f, ", {} leaves adopted since opening", shape.adopted_leaves)?;
        }
        writeln!(f)?;
        shape.fmt(f)
    }
}

/// Formats the names of keyspaces.
struct Named<'n>(&'n [String]);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("no keyspace"),
            [one] => write!(f, "keyspace {one}"),
            all => write!(f, "keyspaces {}", all.join(", ")),
        }
    }
}

impl Engine {
    /// Returns the statistics of all levels and hashed structures that a keyspace uses or that have
    /// data.
    pub(crate) fn dictionary_stats(&self) -> Vec<DictionaryStats> {
        let mut names = self.catalog.names_by_dictionary();
        let listed = self.dictionaries.with_options();
        let stats = listed.map(|(place, structure)| DictionaryStats {
            structure,
            keyspaces: names.remove(&place).unwrap_or_default(),
            memory_bytes: self.dictionaries.of(place).pending_work().memory_bytes,
            levels: self.dictionaries.levels(place).map(|levels| levels.stats()),
            hashed: self.dictionaries.hashed(place).map(|hashed| hashed.stats()),
        });
        stats.collect()
    }

    /// Returns all levels with their runs. Reads nothing from the device.
    pub(crate) fn outline_levels(&self) -> Vec<DictionaryOutline> {
        let mut names = self.catalog.names_by_dictionary();
        let listed = self.dictionaries.with_options();
        let outlines = listed.filter_map(|(place, structure)| {
            Some(DictionaryOutline {
                structure,
                keyspaces: names.remove(&place).unwrap_or_default(),
                shape: self.dictionaries.levels(place)?.outline(),
            })
        });
        outlines.collect()
    }
}
