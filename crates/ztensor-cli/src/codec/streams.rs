//! Files and pipes: `-` is standard input or output, and an output file appears under its name only when it is complete.

use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use z4ai::{Dtype, Options};
use ztensor::source::is_url;
use ztensor::{Io, Output, Source};

use crate::commands::force::Force;
use crate::commands::names::local;
use crate::display::{complain, size, to_pipe};
use crate::effort::EffortOption;
use crate::results::JsonOption;
use crate::{Failure, Result, envelope, limits};

/// Bytes moved at a time.
const PIECE: usize = 1 << 20;

/// What the bytes are and how hard to try; shared by compress and estimate.
#[derive(Args)]
pub(super) struct CodecOptions {
    /// Element type: bf16, fp16, fp32, fp64, fp8_e4m3, int8, … [default: opaque bytes]
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,
    /// Shape of the tensor, such as 4096x4096: lets the codec follow rows and columns
    #[arg(long, value_name = "SHAPE")]
    shape: Option<String>,
    #[command(flatten)]
    effort: EffortOption,
    /// zstd level for what is not coded as floats
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=22))]
    level: Option<i32>,
    /// Worker threads; 0 uses all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

impl CodecOptions {
    pub(super) fn options(&self) -> Result<Options> {
        let shape = |text: &String| {
            let sizes = text.split(['x', ',']).map(|size| size.trim().parse::<u64>());
            sizes
                .collect::<std::result::Result<Vec<_>, _>>()
                .map_err(|_| Failure::new(format!("\"{text}\" is not a shape; write 4096x4096")))
        };
        Ok(Options {
            dtype: self.dtype.as_deref().map(Dtype::parse).transpose()?,
            shape: self.shape.as_ref().map(shape).transpose()?,
            effort: self.effort.effort()?,
            level: self.level,
            threads: self.threads,
            numpy_dtype: None,
            records: None,
        })
    }
}

/// A size as an argument.
pub(super) fn size_argument(text: &str) -> std::result::Result<u64, String> {
    ztensor::limits::parse_size(text).ok_or_else(|| format!("\"{text}\" is not a size; write 5GB or 500MiB"))
}

/// Opens a file, or standard input for `-`. The length is that of a file.
pub(super) fn open(path: &Path) -> Result<(Box<dyn Read>, Option<u64>)> {
    if is_pipe(path) {
        return Ok((Box::new(std::io::stdin().lock()), None));
    }
    if is_url(path) {
        let source = Source::open_within(path, Io::Auto, &limits::current())?;
        let length = source.len();
        return Ok((Box::new(BufReader::with_capacity(PIECE, Remote { source, position: 0 })), Some(length)));
    }
    let file = File::open(path).map_err(|error| unreadable(path, error))?;
    let metadata = file.metadata().map_err(|error| unreadable(path, error))?;
    if metadata.is_dir() {
        return Err(Failure::new(format!("\"{}\" is a directory", path.display())));
    }
    Ok((Box::new(BufReader::with_capacity(PIECE, file)), metadata.is_file().then_some(metadata.len())))
}

/// A file that has no handle of the system, read from front to back.
struct Remote {
    source: Source,
    position: u64,
}

impl Read for Remote {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = (buffer.len() as u64).min(self.source.len() - self.position) as usize;
        self.source.read_into(self.position, &mut buffer[..count]).map_err(std::io::Error::other)?;
        self.position += count as u64;
        Ok(count)
    }
}

/// A file that cannot be read. What a decoder says goes through `io::Error` and keeps its kind.
fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    if let Some(damage) = error.get_ref().and_then(|inner| inner.downcast_ref::<z4ai::Error>()) {
        return Failure::about(path, damage.kind().name(), format!("{}: {damage}", named(path)));
    }
    let error = ztensor::Error::from(error);
    Failure::about(path, error.kind().name(), format!("{}: cannot read: {}", named(path), error.message()))
}

/// Everything in a file or on standard input, for commands that look at parts of it: files are mapped where they can be.
pub(super) fn whole(path: &Path) -> Result<Source> {
    match is_pipe(path) {
        true => Ok(limits::standard_input()?),
        false => Ok(Source::open_within(path, Io::Auto, &limits::current())?),
    }
}

/// Where the result goes.
pub(super) enum Target {
    Pipe(BufWriter<std::io::StdoutLock<'static>>),
    File(Output),
    /// A file that exists: nothing is written, but it must turn out to hold the very bytes that would be.
    Existing(Existing),
}

/// A file that is compared with what would be written in its place.
pub(super) struct Existing {
    path: PathBuf,
    rest: BufReader<File>,
}

impl Existing {
    fn open(path: &Path) -> Result<Existing> {
        let file = File::open(path).map_err(|error| unreadable(path, error))?;
        match file.metadata().map_err(|error| unreadable(path, error))?.is_file() {
            true => Ok(Existing { path: path.to_path_buf(), rest: BufReader::with_capacity(PIECE, file) }),
            false => Err(Failure::new(format!("\"{}\" is not a file", path.display()))),
        }
    }

    fn differs(&self) -> std::io::Error {
        std::io::Error::other(format!(
            "\"{}\" exists and holds something else; use --force to replace it",
            self.path.display()
        ))
    }

    /// Compares the next bytes.
    fn expect(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut found = vec![0; bytes.len()];
        match self.rest.read_exact(&mut found) {
            Ok(()) if found == bytes => Ok(()),
            Ok(()) => Err(self.differs()),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(self.differs()),
            Err(error) => Err(error),
        }
    }

    /// The file must end where the bytes do.
    fn finish(mut self) -> std::io::Result<()> {
        match self.rest.read(&mut [0])? {
            0 => {
                complain(&format!("{} is there already, with the same bytes", self.path.display()));
                Ok(())
            }
            _ => Err(self.differs()),
        }
    }
}

impl Target {
    pub(super) fn create(name: &Name, force: &Force) -> Result<Target> {
        let path = &*name.path;
        if is_pipe(path) {
            if envelope::wants_json() {
                return Err(Failure::new(
                    "standard output cannot take both the data and what --json prints; name an output with -o",
                ));
            }
            if std::io::stdout().is_terminal() {
                return Err(Failure::new(
                    "refusing to write binary data to a terminal; redirect it, or name an output with -o",
                ));
            }
            return Ok(Target::Pipe(BufWriter::with_capacity(PIECE, std::io::stdout().lock())));
        }
        if path.is_file() && !path.is_symlink() && force.allow(path).is_err() {
            return Ok(Target::Existing(Existing::open(path)?));
        }
        match name.chosen {
            true => force.allow_chosen(path).map(drop)?,
            false => force.allow(path)?,
        }
        Ok(Target::File(Output::create(path)?))
    }

    /// Publishes the result; dropped before that, nothing is left behind.
    fn finish(self) -> Result<()> {
        match self {
            Target::Pipe(mut pipe) => Ok(to_pipe(pipe.flush())?),
            Target::File(output) => Ok(output.publish(false)?),
            Target::Existing(existing) => Ok(existing.finish()?),
        }
    }

    /// Whether the file was there before and is only compared.
    fn is_compared(&self) -> bool {
        matches!(self, Target::Existing(_))
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Target::Pipe(pipe) => to_pipe(pipe.write(bytes)),
            Target::File(output) => output.write(bytes).map(|()| bytes.len()).map_err(std::io::Error::other),
            Target::Existing(existing) => existing.expect(bytes).map(|()| bytes.len()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Target::Pipe(pipe) => to_pipe(pipe.flush()),
            // What is gathered goes out when the file is published.
            Target::File(_) | Target::Existing(_) => Ok(()),
        }
    }
}

/// A target that counts what it gets, and takes so much only.
pub(super) struct Counted {
    inner: Target,
    written: u64,
    most: u64,
}

impl Counted {
    pub(super) fn new(inner: Target) -> Self {
        Counted { inner, written: 0, most: u64::MAX }
    }

    /// A target for at most so many bytes.
    pub(super) fn limited(inner: Target, most: Option<u64>) -> Self {
        Counted { inner, written: 0, most: most.unwrap_or(u64::MAX) }
    }

    /// Ends what was compressed from `bytes` bytes of `file`, and tells of it.
    pub(super) fn finish_compressed(
        self,
        json: JsonOption,
        file: &Path,
        output: &Path,
        bytes: u64,
    ) -> Result<()> {
        let ratio = bytes as f64 / self.written.max(1) as f64;
        let line = format!("{} -> {} ({}, {ratio:.2}x)", size(bytes), output.display(), size(self.written));
        let line = matches!(self.inner, Target::File(_)).then_some(line);
        let document = json!({
            "path": file.display().to_string(), "output": output.display().to_string(),
            "bytes": bytes, "stored_bytes": self.written, "ratio": ratio, "unchanged": self.inner.is_compared(),
        });
        self.inner.finish()?;
        json.tell_aside(line.as_deref(), &document)
    }

    /// Ends what was restored from `file`, and tells of it where that was asked for.
    pub(super) fn finish_restored(self, json: JsonOption, file: &Path, output: &Path) -> Result<()> {
        let document = json!({
            "path": file.display().to_string(), "output": output.display().to_string(),
            "bytes": self.written, "unchanged": self.inner.is_compared(),
        });
        self.inner.finish()?;
        json.tell_aside(None, &document)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.written.saturating_add(bytes.len() as u64) > self.most {
            let message = format!("it decodes to more than --max-output, {} bytes", self.most);
            return Err(std::io::Error::other(message));
        }
        let count = self.inner.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// The name of an output, and whether it was chosen here instead of by the user.
pub(super) struct Name {
    pub(super) path: PathBuf,
    chosen: bool,
}

/// Where the compressed form of `file` goes, unless the user says.
pub(super) fn compressed_name(file: &Path, output: Option<PathBuf>) -> Name {
    let chosen = output.is_none();
    let path = output.unwrap_or_else(|| {
        let mut name = local(file).into_os_string();
        if !is_pipe(file) {
            name.push(".z4ai");
        }
        name.into()
    });
    Name { path, chosen }
}

/// Where what `file` restores goes, unless the user says.
pub(super) fn restored_name(file: &Path, output: Option<PathBuf>) -> Result<Name> {
    match output {
        Some(path) => Ok(Name { path, chosen: false }),
        None if is_pipe(file) => Ok(Name { path: file.to_path_buf(), chosen: true }),
        None if local(file).extension().is_some_and(|extension| extension == "z4ai") => {
            Ok(Name { path: local(file).with_extension(""), chosen: true })
        }
        None => {
            let message = format!("\"{}\" does not end in .z4ai; name an output with -o", file.display());
            Err(Failure::new(message))
        }
    }
}

/// Moves everything from a reader to a writer in pieces; says how much it was. `path` is what is read.
pub(super) fn pump(
    reader: &mut dyn Read,
    path: &Path,
    writer: &mut dyn Write,
    mut advance: impl FnMut(u64),
) -> Result<u64> {
    let mut buffer = vec![0; PIECE];
    let mut total = 0;
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(path, error)),
        };
        writer.write_all(&buffer[..count])?;
        total += count as u64;
        advance(count as u64);
    }
}

/// How a file is called in messages.
pub(super) fn named(path: &Path) -> String {
    match is_pipe(path) {
        true => "standard input".to_owned(),
        false => format!("\"{}\"", path.display()),
    }
}

pub(super) fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}
