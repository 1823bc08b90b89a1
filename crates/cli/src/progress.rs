//! Bars for long jobs: how far, how fast, how much longer. Hidden where no person looks.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// How often a bar is drawn, in times a second.
const RATE: u8 = 8;
const TICK: Duration = Duration::from_millis(250);

/// A bar of bytes; without a total it only says how many and how fast.
pub(crate) fn bytes(what: &str, total: Option<u64>) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(RATE);
    let bar = ProgressBar::with_draw_target(total, target).with_message(what.to_owned());
    let template = match total {
        Some(_) => {
            "{msg} {bar:30} {percent} % · {binary_bytes} of {binary_total_bytes} · {binary_bytes_per_sec} · {eta} left"
        }
        None => "{msg} {spinner} {binary_bytes} · {binary_bytes_per_sec} · {elapsed}",
    };
    bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
    bar.enable_steady_tick(TICK);
    bar
}
