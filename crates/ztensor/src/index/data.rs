//! Where bytes lie, and how they become elements.

use std::sync::Arc;

use super::Boxes;
use crate::tensor::Shape;

/// Which of the opened files: 0 is the one that was asked for; shards and external data follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A byte range of one of the opened files. Parsers make them only after checking them against the file's
/// length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

/// Where bytes lie and how they become little-endian, row-major, contiguous elements.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Data {
    /// The bytes themselves.
    Raw(Span),
    /// One or more concatenated zstd frames.
    Zstd(Span),
    /// Zstd frames of equal size, each with a checksum, and a seek table behind them.
    ZstdSeekable(Span),
    /// One z4ai frame.
    Z4ai(Span),
    /// A raw deflate stream (a zip member).
    Deflate(Span),
    /// A compressed zip member, behind a header that the parser has already read.
    PackedMember(Box<PackedMember>),
    /// Bytes that the parser already has, because the format spreads them over the file.
    Inline(Arc<[u8]>),
    /// One element repeated, such as an HDF5 fill value.
    Fill(Arc<[u8]>),
    /// Several ranges one after the other.
    Pieces(Arc<[Span]>),
    /// Protobuf varints, each narrowed to an element of the component's storage type.
    Varints(Arc<[VarintRun]>),
    /// Row-major positions in a tensor, to be spread into one coordinate list per dimension (u64 each).
    Unraveled(Box<Unraveled>),
    /// Elements of another byte order.
    Swapped {
        /// The width of the unit to reverse (4 for complex64).
        width: u8,
        /// The big-endian bytes.
        inner: Box<Data>,
    },
    /// Blocks of fixed size with fields of another byte order, such as the scales of big-endian GGUF blocks.
    SwappedBlocks(Box<SwappedBlocks>),
    /// A view with strides into a buffer, such as a transposed or sliced tensor.
    Strided(Box<Strided>),
    /// Elements whose sign (or imaginary part's sign) is flipped on reading.
    Negated {
        /// `true`: only the imaginary parts, as a conjugated complex tensor has it.
        imaginary_only: bool,
        /// The bytes before the flip.
        inner: Box<Data>,
    },
    /// HDF5 chunks with their filters.
    Chunked(Arc<Chunked>),
    /// Axis-parallel parts, each with bytes of its own.
    Boxes(Arc<Boxes>),
}

/// Row-major positions in a tensor.
#[derive(Clone, Debug)]
pub struct Unraveled {
    /// The dimensions of the tensor.
    pub shape: Shape,
    /// One u64 per position.
    pub inner: Data,
}

/// Blocks with fields of another byte order.
#[derive(Clone, Debug)]
pub struct SwappedBlocks {
    /// Bytes of one block.
    pub block: usize,
    /// What to reverse in each.
    pub fields: &'static [SwappedFields],
    /// The blocks as stored.
    pub inner: Data,
}

/// Neighbouring fields of one width inside a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwappedFields {
    /// Where the first begins in the block.
    pub offset: usize,
    /// Bytes of each.
    pub width: usize,
    /// How many there are.
    pub count: usize,
}

/// A view with strides into a buffer.
#[derive(Clone, Debug)]
pub struct Strided {
    /// The buffer.
    pub inner: Data,
    /// The buffer's length once decoded.
    pub inner_length: u64,
    /// Byte offset of the first element in the buffer.
    pub offset: u64,
    /// The view's dimensions.
    pub shape: Shape,
    /// Byte strides, one per dimension, outermost first. The parser has checked that every element lies in
    /// the buffer.
    pub strides: Vec<i64>,
}

/// How a zip member is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Packing {
    Deflate,
    Bzip2,
    Lzma,
}

/// A compressed zip member of which the first bytes are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedMember {
    /// How it is compressed.
    pub packing: Packing,
    /// The compressed stream.
    pub span: Span,
    /// Decoded bytes to leave out.
    pub skip: u64,
    /// CRC-32 of all decoded bytes. Deflate itself would not notice most damage.
    pub crc32: u32,
}

/// Consecutive protobuf varints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VarintRun {
    /// Their bytes.
    pub span: Span,
    /// Whether a field tag of one byte stands before each value, as it does in fields that are not packed.
    pub tagged: bool,
}

/// An HDF5 dataset stored in chunks.
#[derive(Clone, Debug)]
pub struct Chunked {
    /// Dimensions of the dataset, in elements.
    pub shape: Shape,
    /// Dimensions of one chunk, in elements; same rank.
    pub chunk_shape: Shape,
    /// Bytes of one element.
    pub width: usize,
    /// The filters in the order the writer applied them.
    pub filters: Vec<Filter>,
    /// The chunks that exist, by rising number; the others hold the fill value.
    pub chunks: Vec<Chunk>,
    /// One element as it stands in chunks that do not exist.
    pub fill: Vec<u8>,
}

/// One stored chunk.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Its place in the grid of chunks, counted in row-major order.
    pub number: u64,
    /// Where its filtered bytes lie.
    pub span: Span,
    /// Bit *i* set: filter *i* was not applied to this chunk.
    pub filter_mask: u32,
}

/// An HDF5 filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Filter {
    Deflate,
    Shuffle { width: usize },
    Fletcher32,
    Lzf,
}

impl Data {
    /// The name listings show: `raw`, `zstd`, `z4ai`, `deflate`, …
    pub fn encoding_name(&self) -> &'static str {
        match self {
            Data::Raw(_) => "raw",
            Data::Zstd(_) | Data::ZstdSeekable(_) => "zstd",
            Data::Z4ai(_) => "z4ai",
            Data::Deflate(_) => "deflate",
            Data::PackedMember(member) => match member.packing {
                Packing::Deflate => "deflate",
                Packing::Bzip2 => "bzip2",
                Packing::Lzma => "lzma",
            },
            Data::Inline(_) => "inline",
            Data::Fill(_) => "fill",
            Data::Pieces(_) => "pieces",
            Data::Varints(_) => "varint",
            Data::Unraveled(_) => "unraveled",
            Data::Swapped { .. } | Data::SwappedBlocks(_) => "big-endian",
            Data::Strided(_) => "strided",
            Data::Negated { imaginary_only: true, .. } => "conjugated",
            Data::Negated { .. } => "negated",
            Data::Chunked(_) => "chunked",
            Data::Boxes(_) => "boxes",
        }
    }
}
