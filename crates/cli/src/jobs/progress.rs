//! Progress bars of long-running jobs. They show position, speed and remaining time, and are hidden
//! unless standard error is a terminal.

use crate::values::sizes;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt;
use std::time::Duration;

/// Number of times per second that a bar is redrawn, which also sets the pace of its animation.
const RATE: u8 = 8;
const TICK: Duration = Duration::from_millis(250);

/// Returns a progress bar that counts bytes. If the total is unknown, the bar shows only the number
/// of bytes and the speed.
pub(crate) fn bytes(what: &str, total: Option<u64>) -> ProgressBar {
    bytes_from(what, total, 0)
}

/// Returns a progress bar for a job that continues after `first` bytes. These bytes are not
/// included in the speed.
pub(crate) fn bytes_from(what: &str, total: Option<u64>, first: u64) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(RATE);
    let bar = ProgressBar::with_draw_target(total, target)
        .with_message(what.to_owned())
        .with_position(first);
    let template = match total {
        Some(_) => {
            "{msg} {bar:30} {percent} % · {binary_bytes} of {binary_total_bytes} · {rate} · {left} left"
        }
        None => "{msg} {spinner} {binary_bytes} · {rate} · {elapsed}",
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    let speed = move |state: &ProgressState| per_second(state.pos(), first, state.elapsed());
    let style = style
        .with_key("rate", move |state: &ProgressState, out: &mut dyn fmt::Write| {
            // Ignore drawing errors, because the bar will soon be drawn again.
            let _ = write!(out, "{}/s", sizes::human(speed(state)));
        })
        .with_key("left", move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let rest = state.len().unwrap_or_default().saturating_sub(state.pos());
            let _ = match speed(state) {
                0 => write!(out, "?"),
                speed => write!(out, "{}", HumanDuration(Duration::from_secs(rest / speed))),
            };
        });
    bar.set_style(style);
    bar.enable_steady_tick(TICK);
    bar
}

/// Returns a progress bar for a job that takes about `total` milliseconds. The caller can replace
/// the message `what`.
pub(crate) fn milliseconds(total: u64) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(RATE);
    let bar = ProgressBar::with_draw_target(Some(total), target);
    let style = ProgressStyle::with_template("{bar:30} {percent} % · {msg}");
    bar.set_style(style.expect("the template is a constant"));
    bar
}

/// Returns a progress bar for a job of `total` steps. The caller can replace the message.
pub(crate) fn steps(total: u64) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(RATE);
    let bar = ProgressBar::with_draw_target(Some(total), target);
    let style = ProgressStyle::with_template("{msg} {bar:30} step {pos} of {len} · {elapsed}");
    bar.set_style(style.expect("the template is a constant"));
    bar
}

/// Returns the speed in bytes per second of a job that started at position `first`.
pub(crate) fn per_second(position: u64, first: u64, elapsed: Duration) -> u64 {
    (position.saturating_sub(first) as f64 / elapsed.as_secs_f64().max(1e-3)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_what_was_done_since_the_job_began() {
        let second = Duration::from_secs(1);
        assert_eq!(per_second(3 << 40, 3 << 40, Duration::ZERO), 0);
        assert_eq!(per_second((3 << 40) + 500, 3 << 40, second), 500);
        assert_eq!(per_second(0, 5, second), 0);
    }
}
