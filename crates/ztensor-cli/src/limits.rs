//! `--limit NAME=VALUE`: what files may cost, for every command that reads them.

use std::cell::RefCell;
use std::path::Path;

use clap::Args;
use ztensor::source::Source;
use ztensor::{Limits, OpenOptions, Reader};

#[derive(Args)]
pub(crate) struct LimitOptions {
    /// What a file may cost: header, index, stream or decoded bytes, objects, or the ratio of decoded to stored bytes; "decoded=8GiB",
    /// "ratio=none"
    #[arg(long = "limit", value_name = "NAME=VALUE", global = true, value_parser = parse)]
    limits: Vec<(String, u64)>,
}

thread_local! {
    // The same for all files that a command opens, however deep inside it does.
    static LIMITS: RefCell<Limits> = RefCell::default();
}

impl LimitOptions {
    /// Makes these the limits of the command that this thread runs.
    pub(crate) fn begin(&self) -> ztensor::Result<()> {
        let mut limits = Limits::default();
        self.limits.iter().try_for_each(|(name, value)| limits.set(name, *value))?;
        LIMITS.set(limits);
        Ok(())
    }
}

/// The limits of the command.
pub(crate) fn current() -> Limits {
    LIMITS.with_borrow(Limits::clone)
}

/// How the command opens files.
pub(crate) fn options() -> OpenOptions {
    OpenOptions::within(&current())
}

/// Opens a file within the limits of the command; `-` is standard input, which is read into memory. Says so where a write to the file is not finished.
pub(crate) fn open(path: impl AsRef<Path>) -> ztensor::Result<Reader> {
    open_with(&options(), path.as_ref())
}

/// Opens a file as [`open`] does, with options of the caller's.
pub(crate) fn open_with(options: &OpenOptions, path: &Path) -> ztensor::Result<Reader> {
    let reader = match path == Path::new("-") {
        true => options.open_source(standard_input()?)?,
        false => options.open(path)?,
    };
    note_unfinished(&reader, path);
    Ok(reader)
}

/// Says so where a write to the file is not finished.
pub(crate) fn note_unfinished(reader: &Reader, path: &Path) {
    if let Some(recovered) = reader.recovered() {
        crate::display::complain(&format!("{}: {recovered}", path.display()));
    }
}

/// What standard input gives, in memory.
pub(crate) fn standard_input() -> ztensor::Result<Source> {
    Source::read_stream(std::io::stdin().lock(), current().stream_bytes)
}

fn parse(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as decoded=8GiB")?;
    let value = match value {
        "none" => u64::MAX,
        value => ztensor::limits::parse_size(value)
            .ok_or_else(|| format!("\"{value}\" is not a number or a size"))?,
    };
    Limits::default().set(name, value).map_err(|error| error.message().to_owned())?;
    Ok((name.to_owned(), value))
}
