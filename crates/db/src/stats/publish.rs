//! The list of numbers for the `metrics` crate.

use super::{Nature, Stats, Unit};

impl Stats {
    /// Sets a counter or a gauge of the [`metrics`] crate for every number of the
    /// [list](Stats::list), named `alluvium.` and its name, with a label `store` that tells stores
    /// apart. Call it now and then, from whatever thread exports metrics.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// // Once, in the program: install a recorder, such as that of metrics-exporter-prometheus.
    /// // Then every few seconds:
    /// db.stats().publish("rivers");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn publish(&self, store: &str) {
        for figure in self.list() {
            let name = format!("alluvium.{}", figure.name);
            let labels = [("store", store.to_owned())];
            match figure.nature {
                Nature::Counter => metrics::counter!(name, &labels).absolute(figure.value as u64),
                Nature::Gauge => metrics::gauge!(name, &labels).set(figure.value),
            }
        }
    }

    /// Tells the recorder of the [`metrics`] crate what every number counts. Once is enough.
    pub fn describe(&self) {
        for figure in self.list() {
            let name = format!("alluvium.{}", figure.name);
            let unit = match figure.unit {
                Unit::Bytes => metrics::Unit::Bytes,
                Unit::Nanoseconds => metrics::Unit::Nanoseconds,
                Unit::Count | Unit::Ratio => metrics::Unit::Count,
            };
            match figure.nature {
                Nature::Counter => metrics::describe_counter!(name, unit, figure.help),
                Nature::Gauge => metrics::describe_gauge!(name, unit, figure.help),
            }
        }
    }
}
