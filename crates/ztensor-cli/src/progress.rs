//! A progress bar in bytes: shown on a terminal, absent in a pipe.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over so many bytes.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(what: &str, bytes: u64) -> Self {
        // Hidden by itself when standard error is not a terminal.
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(
            "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
        );
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Progress(bar)
    }

    pub(crate) fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
