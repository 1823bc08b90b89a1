//! The log, which is printed on standard error and reports events of background work.

use alluvium_server::LogLevel;
use clap::ValueEnum;
use std::sync::{LazyLock, OnceLock};
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload::{self, Handle};

/// The log level of this process. Clients of `serve` can change it.
static LEVEL: LazyLock<LogLevel> = LazyLock::new(LogLevel::warning);

/// Prints events.
type EventPrinter = Box<dyn tracing_subscriber::Layer<Registry> + Send + Sync>;

/// Replaces what prints events, unless the program has installed its own subscriber.
static PRINTER: OnceLock<Handle<EventPrinter, Registry>> = OnceLock::new();

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line of text for each event.
    Text,
    /// A JSON object in a line for each event.
    Json,
}

/// Returns the log level of this process.
pub(crate) fn level() -> LogLevel {
    LEVEL.clone()
}

fn printer(format: LogFormat) -> EventPrinter {
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    match format {
        LogFormat::Text => Box::new(lines),
        LogFormat::Json => Box::new(lines.json().flatten_event(true)),
    }
}

/// Sets the form of the log.
pub(crate) fn set_format(format: LogFormat) {
    if let Some(handle) = PRINTER.get() {
        // It fails only if the subscriber is gone, and then nothing is printed.
        let _ = handle.reload(printer(format));
    }
}

/// Starts to print events on standard error, unless the program has installed its own subscriber.
pub(crate) fn begin() {
    let (lines, handle) = reload::Layer::new(printer(LogFormat::Text));
    let level = level();
    let admits = dynamic_filter_fn(move |metadata, _| level.admits(*metadata.level()));
    // This fails if the program that calls `main` has installed its own subscriber, which then
    // stays in use.
    if tracing_subscriber::registry()
        .with(lines.with_filter(admits))
        .try_init()
        .is_ok()
    {
        let _ = PRINTER.set(handle);
    }
}
