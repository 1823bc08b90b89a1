//! Export of the statistics to the `metrics` crate.

use super::{Stats, StatsMetricKind, StatsMetricUnit};

impl Stats {
    /// Exports every metric of [`Stats::list`] as a counter or gauge of the [`metrics`] crate. The
    /// exported name is `alluvium.` followed by the metric's name, and the label `store` identifies
    /// the store. Call this periodically, from any thread.
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
                StatsMetricKind::Counter => metrics::counter!(name, &labels).absolute(figure.value as u64),
                StatsMetricKind::Gauge => metrics::gauge!(name, &labels).set(figure.value),
            }
        }
    }

    /// Registers the unit and description of every metric with the recorder of the [`metrics`]
    /// crate. Call this once, after installing a recorder.
    pub fn describe(&self) {
        for figure in self.list() {
            let name = format!("alluvium.{}", figure.name);
            let unit = match figure.unit {
                StatsMetricUnit::Bytes => metrics::Unit::Bytes,
                StatsMetricUnit::Nanoseconds => metrics::Unit::Nanoseconds,
                StatsMetricUnit::Count | StatsMetricUnit::Ratio => metrics::Unit::Count,
            };
            match figure.nature {
                StatsMetricKind::Counter => metrics::describe_counter!(name, unit, figure.help),
                StatsMetricKind::Gauge => metrics::describe_gauge!(name, unit, figure.help),
            }
        }
    }
}
