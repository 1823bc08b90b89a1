//! Metrics on open transactions and on the old versions retained for readers.

use super::families::{MetricType, MetricsText};
use crate::shared::StoreContext;

/// Writes these metrics in Prometheus's text format.
pub(super) fn write(shared: &StoreContext, text: &mut MetricsText) {
    let stats = shared.store.db.stats();
    let transactions = &stats.transactions;
    for (name, help, value) in [
        (
            "snapshots",
            "Distinct sequence numbers that open readers read at.",
            stats.snapshots as f64,
        ),
        (
            "held_commits",
            "Commits since the oldest sequence number that a reader reads at; the store retains the data \
             that they replaced.",
            stats.held_commits as f64,
        ),
        (
            "transactions_open",
            "Open transactions.",
            transactions.open as f64,
        ),
        (
            "transactions_oldest_seconds",
            "Age of the oldest open transaction in seconds.",
            transactions.oldest_ms as f64 / 1e3,
        ),
    ] {
        text.one(name, MetricType::Gauge, help, value);
    }
    text.each(
        "transactions_ended_total",
        MetricType::Counter,
        "Transactions that have ended, by outcome.",
        "how",
        &[
            ("committed", transactions.committed as f64),
            ("rolled_back", transactions.rolled_back as f64),
            ("conflict", transactions.conflicts as f64),
            ("deadlock", transactions.deadlocks as f64),
            ("timeout", transactions.timeouts as f64),
        ],
    );
}
