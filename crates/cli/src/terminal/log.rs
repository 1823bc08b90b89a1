//! The log, which is printed on standard error and reports events of background work.

use alluvium_server::LogLevel;
use std::sync::LazyLock;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// The log level of this process. Clients of `serve` can change it.
static LEVEL: LazyLock<LogLevel> = LazyLock::new(LogLevel::warning);

/// Returns the log level of this process.
pub(crate) fn level() -> LogLevel {
    LEVEL.clone()
}

/// Starts to print events on standard error, unless the program has installed its own subscriber.
pub(crate) fn begin() {
    let lines = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .finish();
    // This fails if the program that calls `main` has installed its own subscriber, which then
    // stays in use.
    let _ = tracing::subscriber::set_global_default(LogLevelFilter {
        lines,
        level: level(),
    });
}

/// A filter that passes only events which the current log level admits.
struct LogLevelFilter<S> {
    lines: S,
    level: LogLevel,
}

impl<S: Subscriber> Subscriber for LogLevelFilter<S> {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.lines.register_callsite(metadata);
        // The result must not be cached, because the level may change between two events.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.level.admits(*metadata.level()) && self.lines.enabled(metadata)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.lines.new_span(span)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.lines.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.lines.record_follows_from(span, follows);
    }

    fn event(&self, event: &Event<'_>) {
        self.lines.event(event);
    }

    fn enter(&self, span: &Id) {
        self.lines.enter(span);
    }

    fn exit(&self, span: &Id) {
        self.lines.exit(span);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.lines.clone_span(id)
    }

    fn try_close(&self, id: Id) -> bool {
        self.lines.try_close(id)
    }
}
