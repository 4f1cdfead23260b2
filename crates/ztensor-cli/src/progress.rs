//! A progress bar in bytes: shown on a terminal, absent in a pipe.

use std::io::Read;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over so many bytes, or a mere count where nobody knows how many there will be.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(what: &str, bytes: impl Into<Option<u64>>) -> Self {
        let bytes = bytes.into();
        // Hidden by itself when standard error is not a terminal.
        let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::stderr());
        let template = match bytes {
            Some(_) => "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
            None => "{msg} {binary_bytes} {binary_bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Progress(bar)
    }

    pub(crate) fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// So many bytes are done, all in all.
    #[cfg(feature = "remote")]
    pub(crate) fn reach(&self, bytes: u64) {
        self.0.set_position(bytes);
    }
}

/// The progress of a file that its server serves whole.
#[cfg(feature = "remote")]
pub(crate) fn of_whole_files(name: &str, length: Option<u64>) -> Box<dyn FnMut(u64) + Send> {
    let name = ztensor::printable(name.rsplit('/').next().unwrap_or(name));
    let progress = Progress::new(&format!("reading all of {name}"), length);
    Box::new(move |bytes| progress.reach(bytes))
}

/// A reader that shows how far it is.
pub(crate) struct Watched<R> {
    reader: R,
    progress: Progress,
}

impl<R: Read> Watched<R> {
    pub(crate) fn new(reader: R, what: &str, length: Option<u64>) -> Self {
        Watched { reader, progress: Progress::new(what, length) }
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.progress.advance(count as u64);
        Ok(count)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
