//! The frame header: what the bytes are (dtype, shape), how long, and how they were compressed.

use super::wire::{Reader, put_length, put_varint};
use super::{MAGIC, VERSION, checksum};
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Effort, MAX_DIMENSIONS, Options};
use crate::reference::ReferenceId;

const HAS_LENGTH: u8 = 1;
const HAS_SHAPE: u8 = 2;
const HAS_NUMPY_DTYPE: u8 = 4;
const HAS_REFERENCE: u8 = 8;
const EFFORT_SHIFT: u32 = 4;

/// What the first bytes of a frame say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub dtype: Option<Dtype>,
    pub effort: Effort,
    /// Decoded bytes; `None` in a frame whose writer did not know.
    pub length: Option<u64>,
    pub shape: Option<Vec<u64>>,
    pub numpy_dtype: Option<String>,
    pub reference: Option<ReferenceId>,
}

impl Header {
    pub fn new(options: &Options, length: Option<u64>) -> Self {
        Self {
            dtype: options.dtype,
            effort: options.effort,
            length,
            shape: options.shape.clone(),
            numpy_dtype: options.numpy_dtype.clone(),
            reference: None,
        }
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        let fields = [
            (HAS_LENGTH, self.length.is_some()),
            (HAS_SHAPE, self.shape.is_some()),
            (HAS_NUMPY_DTYPE, self.numpy_dtype.is_some()),
            (HAS_REFERENCE, self.reference.is_some()),
        ];
        let flags = fields.iter().filter(|(_, present)| *present).fold(0, |flags, (flag, _)| flags | flag);
        out.push(flags | self.effort.to_code() << EFFORT_SHIFT);
        out.push(Dtype::to_code(self.dtype));
        match &self.shape {
            Some(shape) => {
                put_length(out, shape.len());
                shape.iter().for_each(|&size| put_varint(out, size));
            }
            None => self.length.iter().for_each(|&length| put_varint(out, length)),
        }
        if let Some(name) = &self.numpy_dtype {
            put_length(out, name.len());
            out.extend_from_slice(name.as_bytes());
        }
        if let Some(reference) = &self.reference {
            put_varint(out, reference.length);
            out.extend_from_slice(&reference.digest);
        }
        let sum = checksum(&out[start..]) as u16;
        out.extend_from_slice(&sum.to_le_bytes());
    }

    /// Fails for frames that only decode together with the buffer they were coded against.
    pub fn refuse_reference(&self) -> Result<()> {
        if self.reference.is_none() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::WrongReference, "the frame is a delta; it decodes with its reference only"))
    }

    /// The reference of a delta; fails for frames that need none.
    pub fn require_reference(&self) -> Result<&ReferenceId> {
        self.reference.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::WrongReference, "the frame is not a delta; it decodes without a reference")
        })
    }

    /// Reads the header at the front of a frame; the reader is left behind it.
    pub fn read(reader: &mut Reader) -> Result<Self> {
        let start = *reader;
        if earlier(reader.peek()) {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                "a version 1 frame, as z4ai 0.2 and earlier write it; decompress it with that release and compress it again",
            ));
        }
        match reader.array::<4>() {
            Ok(MAGIC) => {}
            _ => {
                return Err(Error::new(
                    ErrorKind::NotAFrame,
                    "not a z4ai frame: it does not begin with \"Z4AI\"",
                ));
            }
        }
        match reader.u8()? {
            VERSION => {}
            version => {
                return Err(Error::new(
                    ErrorKind::UnsupportedVersion,
                    format!("a frame of version {version}; this library reads version {VERSION}"),
                ));
            }
        }
        let flags = reader.u8()?;
        let effort = Effort::from_code(flags >> EFFORT_SHIFT)?;
        let dtype = Dtype::from_code(reader.u8()?)?;
        let has_length = flags & HAS_LENGTH != 0;
        let (length, shape) = if flags & HAS_SHAPE != 0 {
            let shape = read_shape(reader)?;
            // A shape says how long the data is.
            (if has_length { Some(shape_bytes(&shape, dtype)?) } else { None }, Some(shape))
        } else {
            (if has_length { Some(reader.varint()?) } else { None }, None)
        };
        let numpy_dtype = if flags & HAS_NUMPY_DTYPE != 0 {
            let length = reader.length()?;
            let name = std::str::from_utf8(reader.take(length)?);
            Some(name.map_err(|_| Error::corrupt("the NumPy dtype is not UTF-8"))?.to_owned())
        } else {
            None
        };
        let reference = if flags & HAS_REFERENCE != 0 {
            Some(ReferenceId { length: reader.varint()?, digest: reader.array()? })
        } else {
            None
        };
        let covered = reader.position() - start.position();
        let sum = checksum(start.peek().get(..covered).unwrap_or_default());
        if u16::from_le_bytes(reader.array()?) != sum as u16 {
            return Err(Error::new(
                ErrorKind::ChecksumMismatch,
                "the frame header's checksum does not match",
            ));
        }
        Ok(Self { dtype, effort, length, shape, numpy_dtype, reference })
    }
}

/// Whether a frame is one of the first version, of which there are several kinds: plain ones and those in
/// chunks, with transforms of their own, and deltas.
fn earlier(frame: &[u8]) -> bool {
    const MAGICS: [&[u8]; 7] = [b"Z4AI\x01", b"Z4AIM", b"ZARA\x01", b"ZSP1", b"ZPL1", b"ZRT1", b"Z4DL"];
    MAGICS.iter().any(|magic| frame.starts_with(magic))
}

fn read_shape(reader: &mut Reader) -> Result<Vec<u64>> {
    let dimensions = reader.length()?;
    if dimensions > MAX_DIMENSIONS {
        return Err(Error::corrupt(format!("a shape of {dimensions} dimensions")));
    }
    (0..dimensions).map(|_| reader.varint()).collect()
}

/// The bytes of a tensor.
fn shape_bytes(shape: &[u64], dtype: Option<Dtype>) -> Result<u64> {
    let width = dtype.map_or(1, Dtype::width) as u64;
    let bytes = shape.iter().try_fold(width, |product, &size| product.checked_mul(size));
    bytes.ok_or_else(|| Error::corrupt("a shape of more bytes than there can be"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            dtype: Some(Dtype::Bf16),
            effort: Effort::Max,
            length: Some(42 << 30),
            shape: Some(vec![3, 1 << 30, 7]),
            numpy_dtype: Some("<V2".into()),
            reference: Some(ReferenceId { length: 9, digest: [7; 16] }),
        }
    }

    #[test]
    fn survives_and_every_flip_is_noticed() {
        let mut bytes = Vec::new();
        header().write(&mut bytes);
        let mut reader = Reader::new(&bytes, "header");
        assert_eq!(Header::read(&mut reader).unwrap(), header());
        reader.finish().unwrap();
        for index in 0..bytes.len() {
            for bit in 0..8 {
                bytes[index] ^= 1 << bit;
                assert!(Header::read(&mut Reader::new(&bytes, "header")).is_err());
                bytes[index] ^= 1 << bit;
            }
            assert!(Header::read(&mut Reader::new(&bytes[..index], "header")).is_err());
        }
    }

    #[test]
    fn other_versions_are_named() {
        for earlier in [&b"Z4AI\x01\0\0\0\0"[..], b"Z4AIMF01\0", b"ZARA\x01\0", b"Z4DL\x02\0"] {
            let error = Header::read(&mut Reader::new(earlier, "header")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
            assert!(error.to_string().contains("0.2"));
        }
        let error = Header::read(&mut Reader::new(b"Z4AI\x09\0\0\0\0", "header")).unwrap_err();
        assert!(error.to_string().contains("version 9"));
        let error = Header::read(&mut Reader::new(b"PK\x03\x04", "header")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAFrame);
    }
}
