//! A frame, parsed once: what it says of itself, and all or parts of its data.

use super::header::Header;
use super::read::{Identified, decode};
use super::section::{MAX_ENCODED, SectionHead};
use super::source::BlockSource;
use super::wire::Reader;
use crate::arch::memory;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Effort;
use crate::reference::{Identification, ReferenceId};
use crate::threads;
use crate::transform::Contents;
use std::ops::Range;
use std::sync::OnceLock;

/// A frame whose structure has been read and checked. All of its data or any part can be restored, as often
/// as one likes, from memory or from any [`BlockSource`]; of the latter only the headers and the blocks that
/// a range needs are read.
///
/// ```
/// let data = b"abcdefgh".repeat(100);
/// let bytes = z4ai::compress(&data, &z4ai::Options::default())?;
/// let frame = z4ai::Frame::open(&bytes)?.threads(1);
/// let mut slice = [0; 4];
/// frame.read_into(8..12, &mut slice)?;
/// assert_eq!(&slice, b"abcd");
/// assert_eq!(frame.read()?, data);
/// # Ok::<(), z4ai::Error>(())
/// ```
#[derive(Debug)]
pub struct Frame<S> {
    pub(super) source: S,
    pub(super) header: Header,
    pub(super) sections: Vec<SectionHead>,
    /// The models of the sections, of sources that are not in memory.
    pub(super) models: Vec<Vec<u8>>,
    length: u64,
    threads: usize,
}

/// What a frame holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The type of the elements; `None` for opaque bytes.
    pub dtype: Option<Dtype>,
    /// The shape, if the writer gave one.
    pub shape: Option<Vec<u64>>,
    /// The NumPy dtype, if the writer gave one.
    pub numpy_dtype: Option<String>,
    /// The effort it was compressed with.
    pub effort: Effort,
    /// Which buffer a delta was made against; `None` for frames that decode by themselves.
    pub reference: Option<ReferenceId>,
    /// Bytes once decoded.
    pub length: u64,
}

/// Bytes that are read where a header begins; few are longer. A round number: a request to a server costs
/// more than as many bytes.
const HEAD: usize = 1 << 14;

impl<S: BlockSource> Frame<S> {
    /// Reads the structure of a frame, and nothing of its blocks.
    pub fn open(source: S) -> Result<Self, S::Error> {
        let mut window = HeaderWindow { source: &source, bytes: Vec::new(), start: 0 };
        let (header, mut at) = window.parse(0, Header::read)?;
        let (mut sections, mut models, mut length) = (Vec::new(), Vec::new(), 0u64);
        while header.length.is_none_or(|declared| length < declared) {
            let left = header.length.map(|declared| declared - length);
            let (head, after) = window.parse(at, |reader| SectionHead::read(reader, at, length, left))?;
            at = after;
            let Some(head) = head else { break };
            length = length
                .checked_add(head.length as u64)
                .filter(|&sum| header.length.is_none_or(|declared| sum <= declared))
                .ok_or_else(|| Error::corrupt("the sections exceed the frame's declared length"))?;
            at = head.end();
            if at > source.length() {
                return Err(Error::truncated("sections").into());
            }
            if source.bytes().is_none() {
                models.push(head.model.clone().map_or(Vec::new(), |model| window.kept(model)));
            }
            sections.push(head);
        }
        if at != source.length() {
            let after = source.length() - at;
            return Err(Error::corrupt(format!("{after} unexpected bytes after the sections")).into());
        }
        Ok(Self { source, header, sections, models, length, threads: 0 })
    }

    /// Restores data with so many threads (0, as if this was not called: all cores).
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// The frame of a delta with its reference, which is refused if it has another length than the one that
    /// the delta was made against. That it is the same in other respects is found out while data is restored.
    ///
    /// ```
    /// let (old, new) = (b"abcdefgh".repeat(100), b"abcdefgi".repeat(100));
    /// let bytes = z4ai::compress_delta(&new, &old, &z4ai::Options::default())?;
    /// assert_eq!(z4ai::Frame::open(&bytes)?.against(&old)?.read()?, new);
    /// assert!(z4ai::Frame::open(&bytes)?.against(&new)?.read().is_err());
    /// # Ok::<(), z4ai::Error>(())
    /// ```
    pub fn against<R: BlockSource<Error = S::Error>>(self, reference: R) -> Result<Delta<S, R>, S::Error> {
        self.header.require_reference()?.check_length(reference.length())?;
        Ok(Delta { frame: self, reference, verified: OnceLock::new() })
    }

    /// Restores bytes `range` of the data into `out`, which must be as long; wrong lengths are refused before
    /// anything is written.
    pub fn read_into(&self, range: Range<u64>, out: &mut [u8]) -> Result<(), S::Error> {
        self.header.refuse_reference()?;
        self.check_range_output(&range, out)?;
        self.decode_against(None::<&S>, None, range, out)
    }

    /// Restores all data into `out`, which must be exactly as long.
    pub fn read_all_into(&self, out: &mut [u8]) -> Result<(), S::Error> {
        self.header.refuse_reference()?;
        self.check_output(out)?;
        self.decode_against(None::<&S>, None, 0..self.length, out)
    }

    /// Restores all data.
    pub fn read(&self) -> Result<Vec<u8>, S::Error> {
        self.header.refuse_reference()?;
        let mut out = memory::zeroed(self.addressable_length()?)?;
        self.read_all_into(&mut out)?;
        Ok(out)
    }

    /// Bytes once decoded.
    pub fn decoded_len(&self) -> u64 {
        self.length
    }

    /// What the frame says of itself.
    pub fn description(&self) -> Description {
        let header = &self.header;
        Description {
            dtype: header.dtype,
            shape: header.shape.clone(),
            numpy_dtype: header.numpy_dtype.clone(),
            effort: header.effort,
            reference: header.reference,
            length: self.length,
        }
    }

    /// How many bytes have to be decoded for bytes `range` of the data: those of all blocks that hold them.
    pub fn decoding_cost(&self, range: Range<u64>) -> Result<u64> {
        self.check_range(&range)?;
        let mut cost = 0u64;
        for head in &self.sections {
            let (start, end) = (range.start.max(head.start), range.end.min(head.data_end()));
            if start < end {
                let needed = head.needed((start - head.start) as usize..(end - head.start) as usize);
                let blocks = needed.iter().enumerate().filter(|(_, needed)| **needed);
                cost += blocks.map(|(index, _)| head.decoded_block_length(index) as u64).sum::<u64>();
            }
        }
        Ok(cost)
    }

    /// Where to pause for who reads the data from `offset` on and wants about `most` bytes at a time: at the
    /// end of a block, so that none is decoded twice. A section whose data repeats is best read as a whole.
    ///
    /// ```
    /// let data: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    /// let bytes = z4ai::compress(&data, &z4ai::Options::new(z4ai::Dtype::U32))?;
    /// let frame = z4ai::Frame::open(&bytes)?;
    /// let end = frame.pause(0, 1_000_000);
    /// assert!((1..=1_000_000).contains(&end));
    /// assert_eq!(frame.decoding_cost(0..end)?, end);
    /// # Ok::<(), z4ai::Error>(())
    /// ```
    pub fn pause(&self, offset: u64, most: u64) -> u64 {
        let wanted = offset.saturating_add(most).min(self.length);
        let place = self.sections.partition_point(|head| head.data_end() <= wanted);
        let Some(head) = self.sections.get(place) else { return wanted };
        if !head.copies.is_empty() {
            return if head.start > offset { head.start } else { head.data_end() };
        }
        let end = wanted - (wanted - head.start) % (head.block_length as u64).max(1);
        if end > offset { end } else { wanted }
    }

    /// Decodes `range`, which is inside the data and as long as `out`, against a reference if there is one,
    /// whether or not the header names it.
    pub(crate) fn decode_against<R: BlockSource<Error = S::Error>>(
        &self,
        reference: Option<&R>,
        identification: Option<&Identification>,
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), S::Error> {
        threads::run(self.threads, || decode(self, Identified { reference, identification }, range, out))
    }

    /// [`Self::decode_against`] with the number of threads that the caller has set.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn decode_here(
        &self,
        reference: &[u8],
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), S::Error>
    where
        S: BlockSource<Error = Error>,
    {
        decode(self, Identified { reference: Some(&reference), identification: None }, range, out)
    }

    /// The sections of a frame in memory.
    pub(crate) fn sections(&self) -> &[SectionHead] {
        &self.sections
    }

    /// What a section holds.
    pub(crate) fn contents(&self, section: &SectionHead) -> Contents {
        Contents { dtype: self.header.dtype, length: section.original_length }
    }

    /// Bytes per scalar.
    pub(crate) fn width(&self) -> usize {
        self.header.dtype.map_or(1, Dtype::scalar_width)
    }

    fn addressable_length(&self) -> Result<usize> {
        usize::try_from(self.length).map_err(|_| Error::out_of_memory(usize::MAX))
    }

    /// Fails unless `out` has room for exactly the data.
    fn check_output(&self, out: &[u8]) -> Result<()> {
        if self.length == out.len() as u64 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::WrongOutputSize,
            format!("the frame decodes to {} bytes, the output has {}", self.length, out.len()),
        ))
    }

    /// Fails unless `range` lies inside the data.
    fn check_range(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.length {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::OutOfRange,
            format!("bytes {}..{} of a frame that decodes to {}", range.start, range.end, self.length),
        ))
    }

    /// Fails unless `range` lies inside the data and is as long as `out`.
    fn check_range_output(&self, range: &Range<u64>, out: &[u8]) -> Result<()> {
        self.check_range(range)?;
        if range.end - range.start == out.len() as u64 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::WrongOutputSize,
            format!("a range of {} bytes into an output of {}", range.end - range.start, out.len()),
        ))
    }
}

/// A [`Frame`] together with the reference that its data was coded against.
#[derive(Debug)]
pub struct Delta<S, R> {
    frame: Frame<S>,
    reference: R,
    /// Set once the reference has proved to be the right one, or is taken for it.
    verified: OnceLock<()>,
}

impl<S: BlockSource, R: BlockSource<Error = S::Error>> Delta<S, R> {
    /// Takes the reference for the right one without comparing its digest, which would take all of it. Should
    /// it differ where it is needed, that is an error all the same: every block has a checksum.
    pub fn trusted(self) -> Self {
        Self { verified: OnceLock::from(()), ..self }
    }

    /// See [`Frame::threads`].
    pub fn threads(self, threads: usize) -> Self {
        Self { frame: self.frame.threads(threads), ..self }
    }

    /// The frame.
    pub fn frame(&self) -> &Frame<S> {
        &self.frame
    }

    /// Restores bytes `range` of the data into `out`, which must be as long. Unless the reference is trusted,
    /// its digest is compared before the first range is handed out; if all data is restored, on the way.
    pub fn read_into(&self, range: Range<u64>, out: &mut [u8]) -> Result<(), S::Error> {
        self.frame.check_range_output(&range, out)?;
        if self.verified.get().is_some() {
            return self.frame.decode_against(Some(&self.reference), None, range, out);
        }
        let id = self.frame.header.require_reference()?;
        if let (Some(bytes), true) = (self.reference.bytes(), range == (0..self.frame.length)) {
            let identification = Identification::new(bytes);
            let decoded = self.frame.decode_against(Some(&self.reference), Some(&identification), range, out);
            // Should the reference prove to be a wrong one, that is the error, whatever else failed.
            id.check(&identification.finish(self.frame.threads))?;
            self.verified.set(()).ok();
            return decoded;
        }
        id.check(&self.identity()?)?;
        self.verified.set(()).ok();
        self.frame.decode_against(Some(&self.reference), None, range, out)
    }

    /// Restores all data into `out`, which must be exactly as long. What `out` holds after a failure is of no
    /// use.
    pub fn read_all_into(&self, out: &mut [u8]) -> Result<(), S::Error> {
        self.frame.check_output(out)?;
        self.read_into(0..self.frame.length, out)
    }

    /// Restores all data.
    pub fn read(&self) -> Result<Vec<u8>, S::Error> {
        let mut out = memory::zeroed(self.frame.addressable_length()?)?;
        self.read_all_into(&mut out)?;
        Ok(out)
    }

    /// The identity of the reference that there is.
    fn identity(&self) -> Result<ReferenceId, S::Error> {
        match self.reference.bytes() {
            Some(bytes) => Ok(ReferenceId::of(bytes, self.frame.threads)?),
            None => ReferenceId::of_source(&self.reference),
        }
    }
}

/// The part of a frame in which headers are read.
struct HeaderWindow<'s, S> {
    source: &'s S,
    bytes: Vec<u8>,
    /// Where in the frame the bytes begin.
    start: u64,
}

impl<S: BlockSource> HeaderWindow<'_, S> {
    /// Reads a structure at `at`, and returns it with where it ends. As long as it proves to be cut off, more
    /// is read.
    fn parse<T>(&mut self, at: u64, read: impl Fn(&mut Reader) -> Result<T>) -> Result<(T, u64), S::Error> {
        if let Some(bytes) = self.source.bytes() {
            let mut reader = Reader::new(bytes, "sections");
            reader.take(usize::try_from(at).unwrap_or(usize::MAX))?;
            let value = read(&mut reader)?;
            return Ok((value, reader.position() as u64));
        }
        let mut wanted = HEAD;
        loop {
            let there = self.bytes_at(at);
            let mut reader = Reader::new(there, "sections");
            let found = read(&mut reader);
            let known = there.len();
            let complete = at.saturating_add(known as u64) >= self.source.length();
            match found {
                Ok(value) => return Ok((value, at + reader.position() as u64)),
                Err(error) if error.kind() != ErrorKind::Truncated && known >= 4 => return Err(error.into()),
                Err(error) if complete || known >= MAX_ENCODED => return Err(error.into()),
                Err(_) => {}
            }
            wanted = wanted.max(2 * known);
            let left = self.source.length() - at;
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(wanted);
            let mut bytes = memory::zeroed(length)?;
            let kept = there.len().min(length);
            bytes[..kept].copy_from_slice(&there[..kept]);
            self.source.read_at(at + kept as u64, &mut bytes[kept..])?;
            (self.bytes, self.start) = (bytes, at);
        }
    }

    /// What has been read from `at` on.
    fn bytes_at(&self, at: u64) -> &[u8] {
        let skip = at.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| self.bytes.get(skip..)).unwrap_or_default()
    }

    /// A copy of a part of the structure that was read last.
    fn kept(&self, range: Range<u64>) -> Vec<u8> {
        let length = (range.end - range.start) as usize;
        self.bytes_at(range.start).get(..length).unwrap_or_default().to_vec()
    }
}
