//! Streams: a writer that compresses and a reader that decompresses, with memory for one section however long
//! the data is.

use crate::arch::memory;
use crate::encode::{SectionData, SectionEncoder, section_length};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::decode_section;
use crate::frame::header::Header;
use crate::frame::section::{self, MAX_ENCODED, SectionHead};
use crate::frame::wire::Reader;
use crate::options::Options;
use crate::threads;
use std::io::{self, Read, Write};

/// Compresses what is written to it into a frame on `W`. Call [`Encoder::finish`]; a frame that is not
/// finished does not decode.
///
/// ```
/// use std::io::{Read, Write};
/// let mut encoder = z4ai::Encoder::new(Vec::new(), z4ai::Options::default())?;
/// encoder.write_all(b"hello, hello, hello, hello")?;
/// let frame = encoder.finish()?;
/// let mut text = String::new();
/// z4ai::Decoder::new(&frame[..])?.read_to_string(&mut text)?;
/// assert_eq!(text, "hello, hello, hello, hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Encoder<W: Write> {
    writer: W,
    options: Options,
    /// Bytes of a full section.
    capacity: usize,
    pending: Vec<u8>,
    total: u64,
}

impl<W: Write> Encoder<W> {
    /// Writes the frame's header to `writer`.
    pub fn new(mut writer: W, options: Options) -> Result<Self> {
        let mut header = Vec::new();
        Header::new(&options, None).write(&mut header);
        writer.write_all(&header)?;
        let capacity = section_length(&options);
        Ok(Self { writer, options, capacity, pending: Vec::new(), total: 0 })
    }

    /// Compresses what is left, ends the frame and gives the writer back.
    pub fn finish(mut self) -> Result<W> {
        self.options.check_shape(self.total)?;
        self.write_section()?;
        let mut end = Vec::new();
        section::write_end(&mut end);
        self.writer.write_all(&end)?;
        self.writer.flush()?;
        Ok(self.writer)
    }

    fn write_section(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut encoded = Vec::new();
        let (pending, options) = (&self.pending, &self.options);
        threads::run(options.threads, || {
            SectionEncoder::new(options).append_cut(SectionData::new(pending), &mut encoded)
        })?;
        self.writer.write_all(&encoded)?;
        self.pending.clear();
        Ok(())
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.pending.len() == self.capacity {
            self.write_section().map_err(into_io)?;
        }
        let count = bytes.len().min(self.capacity - self.pending.len());
        self.pending.extend_from_slice(&bytes[..count]);
        self.total += count as u64;
        Ok(count)
    }

    /// Does not cut the section short, which would change the frame; [`Encoder::finish`] writes everything.
    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Decompresses a frame that it reads from `R`, section by section.
#[derive(Debug)]
pub struct Decoder<R: Read> {
    reader: R,
    header: Header,
    /// Encoded bytes read but not yet used.
    encoded: Vec<u8>,
    /// Decoded bytes, of which the first `given` were handed out.
    decoded: Vec<u8>,
    given: usize,
    total: u64,
    finished: bool,
    threads: usize,
}

/// Bytes asked of the reader at a time. A round number, large beside what a system call costs.
const READ_SIZE: usize = 1 << 18;

impl<R: Read> Decoder<R> {
    /// Reads the frame's header.
    pub fn new(reader: R) -> Result<Self> {
        Self::with_threads(reader, 0)
    }

    /// Reads the frame's header, and decodes with this many threads (0: all cores).
    pub fn with_threads(reader: R, threads: usize) -> Result<Self> {
        let decoder = Self::open(reader, threads)?;
        decoder.header.refuse_reference()?;
        Ok(decoder)
    }

    /// Reads the header of a frame with or without a reference.
    pub(crate) fn open(mut reader: R, threads: usize) -> Result<Self> {
        let mut encoded = Vec::new();
        while encoded.len() < 5 && fill(&mut reader, &mut encoded, 5)? > 0 {}
        let (header, used) = parse(&mut reader, &mut encoded, Header::read)?;
        encoded.drain(..used);
        let decoder = Self {
            reader,
            header,
            encoded,
            decoded: Vec::new(),
            given: 0,
            total: 0,
            finished: false,
            threads,
        };
        Ok(decoder)
    }

    /// What the frame says of itself.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The bytes of the section that was decoded last.
    pub(crate) fn section(&self) -> &[u8] {
        &self.decoded
    }

    /// Decodes the next section; `false` at the end of the frame. `reference` gives the next bytes, up to so
    /// many, of what the frame was coded against.
    pub(crate) fn next_section(
        &mut self,
        reference: &mut dyn FnMut(usize) -> Result<Vec<u8>>,
    ) -> Result<bool> {
        let complete = self.header.length == Some(self.total);
        if !complete && !self.finished {
            let left = self.header.length.map(|declared| declared.saturating_sub(self.total));
            let total = self.total;
            let (head, used) = parse(&mut self.reader, &mut self.encoded, |fields| {
                let head = SectionHead::read(fields, 0, total, left)?;
                // The blocks must be there too.
                let blocks = head.as_ref().map_or(0, SectionHead::blocks_length);
                fields.take(usize::try_from(blocks).unwrap_or(usize::MAX))?;
                Ok(head)
            })?;
            self.given = 0;
            self.decoded = Vec::new();
            if let Some(head) = head {
                self.total += head.length as u64;
                if self.header.length.is_some_and(|declared| self.total > declared) {
                    return Err(Error::corrupt("the sections do not add up to the frame's declared length"));
                }
                let mut decoded = memory::zeroed(head.length)?;
                let (reference, section) = (reference(head.length)?, head.of_frame(&self.encoded)?);
                threads::run(self.threads, || {
                    decode_section(self.header.dtype, section, &reference, &mut decoded)
                })?;
                self.decoded = decoded;
                self.encoded.drain(..used);
                return Ok(true);
            }
            self.encoded.drain(..used);
        }
        self.finished = true;
        if !self.encoded.is_empty() || fill(&mut self.reader, &mut self.encoded, 1)? > 0 {
            return Err(Error::corrupt("unexpected bytes after the frame"));
        }
        Ok(false)
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.given == self.decoded.len() && !out.is_empty() {
            if !self.next_section(&mut |_| Ok(Vec::new())).map_err(into_io)? {
                return Ok(0);
            }
        }
        let rest = &self.decoded[self.given..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}

/// Reads up to `count` more bytes; 0 at the end.
fn fill(reader: &mut impl Read, buffer: &mut Vec<u8>, count: usize) -> Result<usize> {
    // No more than that: a vector that grows by itself may have twice the room of what is in it.
    buffer.try_reserve_exact(count).map_err(|_| Error::out_of_memory(count))?;
    Ok(reader.by_ref().take(count as u64).read_to_end(buffer)?)
}

/// Reads until `read` finds its structure complete at the front of `buffer`; returns what it read and its
/// length.
fn parse<T>(
    reader: &mut impl Read,
    buffer: &mut Vec<u8>,
    read: impl Fn(&mut Reader) -> Result<T>,
) -> Result<(T, usize)> {
    let mut wanted = READ_SIZE;
    loop {
        let mut fields = Reader::new(buffer, "sections");
        match read(&mut fields) {
            Ok(value) => return Ok((value, fields.position())),
            Err(error) if error.kind() == ErrorKind::Truncated && buffer.len() < MAX_ENCODED => {
                if fill(reader, buffer, wanted)? == 0 {
                    return Err(error);
                }
                // Growing by a quarter keeps both the number of attempts and the excess small.
                wanted = wanted.max(buffer.len() / 4);
            }
            Err(error) => return Err(error),
        }
    }
}

/// An error of this crate as one of a stream, with the kind that fits.
fn into_io(error: Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::Truncated => io::ErrorKind::UnexpectedEof,
        ErrorKind::Io => io::ErrorKind::Other,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}
