//! The index: what a parser returns and everything else works from. It is plain data: names → objects → components, each
//! with its element type, shape, and a [`Data`] tree that says where the bytes lie and how they are encoded. Nothing
//! here reads tensor data; `encoding` is the one place that turns a `Data` into bytes.

mod archived;

pub use archived::{ArchiveInfo, BaseInfo, FileInfo};

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use smallvec::SmallVec;

use crate::error::{Error, Kind, Result};
use crate::tensor::{Attributes, ElementType, Layout, Shape};

/// The file formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Format {
    Zt,
    Safetensors,
    Pytorch,
    Gguf,
    Npz,
    Onnx,
    Hdf5,
}

impl Format {
    /// The name that `Reader.format` reports.
    pub fn name(self) -> &'static str {
        match self {
            Format::Zt => "zt",
            Format::Safetensors => "safetensors",
            Format::Pytorch => "pickle",
            Format::Gguf => "gguf",
            Format::Npz => "npz",
            Format::Onnx => "onnx",
            Format::Hdf5 => "hdf5",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// All that is known of a file before any tensor is read.
#[derive(Clone, Debug)]
pub struct Index {
    /// The format the file was recognised as.
    pub format: Format,
    /// The format's version as the file states it, such as `1.2.0`; empty where the format has none.
    pub version: Cow<'static, str>,
    /// The tensors, in the order the format defines (file order where it has one).
    pub objects: IndexMap<String, Object>,
    /// The file's own metadata.
    pub attributes: Attributes,
    /// Whether the file has a place for metadata, be it empty: safetensors tells an empty map from none.
    pub states_attributes: bool,
    /// What the file holds but this library does not read, with reasons.
    pub skipped: Vec<Skipped>,
    /// Stored checksums of whole files beside the one that was opened. They are checked on request only.
    pub file_digests: Vec<(FileId, DigestValue)>,
    /// Set where a write to the file is not finished: the index is that of the state before it.
    pub recovered: Option<Recovered>,
}

/// A write that was interrupted, or is going on in another process: the file was opened in its last complete state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// What the write does.
    pub edit: Edit,
    /// Bytes behind the last complete state.
    pub unfinished: u64,
}

/// What changes a file in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edit {
    /// Tensors are appended.
    Append,
    /// A tensor is replaced.
    Replace,
    /// An incomplete write is cut off.
    Repair,
    /// Something that a later version of this library does.
    Other,
}

impl Edit {
    /// What it is called: `append`, `replace`, `repair` or `other`.
    pub fn name(self) -> &'static str {
        match self {
            Edit::Append => "append",
            Edit::Replace => "replace",
            Edit::Repair => "repair",
            Edit::Other => "other",
        }
    }
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.edit {
            Edit::Append => "an append",
            Edit::Replace => "a replacement",
            Edit::Repair => "a repair",
            Edit::Other => "a write",
        };
        write!(
            f,
            "{what} was interrupted or is still going on: this is the last complete state, without the {} bytes behind it",
            self.unfinished
        )
    }
}

impl Index {
    /// An empty index.
    pub fn new(format: Format, version: impl Into<Cow<'static, str>>) -> Self {
        Index {
            format,
            version: version.into(),
            objects: IndexMap::new(),
            attributes: Attributes::new(),
            states_attributes: false,
            skipped: Vec::new(),
            file_digests: Vec::new(),
            recovered: None,
        }
    }

    /// Adds an object; a second one of the same name is refused.
    pub fn insert(&mut self, name: String, object: Object) -> Result<()> {
        match self.objects.entry(name) {
            indexmap::map::Entry::Vacant(entry) => {
                entry.insert(object);
                Ok(())
            }
            indexmap::map::Entry::Occupied(entry) => {
                Err(Error::new(Kind::Duplicate, "the name occurs twice in the file").with_tensor(entry.key()))
            }
        }
    }

    /// Notes something that is not read, and why.
    pub fn skip(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push(Skipped { name: name.into(), reason: reason.into(), is_code: false });
    }

    /// Notes code that another reader of the file would run.
    pub fn skip_code(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push(Skipped { name: name.into(), reason: reason.into(), is_code: true });
    }
}

/// Something the file holds that is not read here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its name in the file.
    pub name: String,
    /// Why it is not read.
    pub reason: String,
    /// Whether it is code that another reader of the file would run; `scan` tells all about it.
    pub is_code: bool,
}

/// Roles and components. Nearly all tensors have one component; it takes no allocation of its own.
pub type Components = SmallVec<[(Cow<'static, str>, Component); 1]>;

/// One tensor: a shape, a layout, and the components that make it up.
#[derive(Clone, Debug)]
pub struct Object {
    /// The logical shape, row-major.
    pub shape: Shape,
    /// How the components make one tensor.
    pub layout: Layout,
    /// The object's own metadata.
    pub attributes: Attributes,
    /// The components with their roles, in file order.
    pub components: Components,
}

impl Object {
    /// A dense tensor with its one component `data`.
    pub fn dense(shape: impl Into<Shape>, data: Component) -> Self {
        Object {
            shape: shape.into(),
            layout: Layout::Dense,
            attributes: Attributes::new(),
            components: Components::from([(Cow::Borrowed("data"), data)]),
        }
    }

    /// The component of a role.
    pub fn component(&self, role: &str) -> Option<&Component> {
        self.components.iter().find(|(name, _)| name == role).map(|(_, component)| component)
    }

    /// The component that carries the values: `data`, `values`, `packed_weight`, or the first.
    pub fn principal(&self) -> Option<&Component> {
        ["data", "values", "packed_weight"]
            .iter()
            .find_map(|role| self.component(role))
            .or_else(|| self.components.first().map(|(_, component)| component))
    }

    /// What the elements are, under the name that users know: `float32`, `bfloat16`, `Q4_K`.
    pub fn dtype(&self) -> String {
        let block = match &self.layout {
            Layout::Other(name) => name.strip_prefix("gguf.").and_then(|name| name.strip_suffix("/1")),
            _ => None,
        };
        match block {
            Some(block) => block.to_ascii_uppercase(),
            None => self.principal().map(|component| component.element.to_string()).unwrap_or_default(),
        }
    }

    /// The shape of one component's array, as NumPy should show it: the tensor's own for dense data, a vector otherwise. Elements
    /// smaller than a byte show as their packed bytes.
    pub fn component_shape(&self, role: &str) -> Option<Shape> {
        let component = self.component(role)?;
        let whole_bytes = component.element.bits().is_some_and(|bits| bits >= 8);
        let count = if whole_bytes {
            component.elements()?
        } else {
            component.length / component.element.storage.width() as u64
        };
        Some(match (&self.layout, role) {
            (Layout::Dense, "data") if whole_bytes => self.shape.clone(),
            // Quantised integers, one for each element.
            (Layout::Other(_), "data") if whole_bytes && self.shape.elements() == Some(count) => {
                self.shape.clone()
            }
            (Layout::SparseCoo, "coords") if !self.shape.is_empty() => {
                let rank = self.shape.len() as u64;
                Shape::from([rank, count / rank])
            }
            _ => Shape::from([count]),
        })
    }

    /// Bytes of all components once decoded.
    pub fn decoded_length(&self) -> u64 {
        self.components.iter().map(|(_, component)| component.length).fold(0, u64::saturating_add)
    }

    /// Bytes of all components as stored.
    pub fn stored_length(&self) -> u64 {
        self.components
            .iter()
            .map(|(_, component)| component.data.stored_length())
            .fold(0, u64::saturating_add)
    }
}

/// One array of an object: its element type and its bytes.
#[derive(Clone, Debug)]
pub struct Component {
    /// What the elements are.
    pub element: ElementType,
    /// Where the bytes are and how they are encoded.
    pub data: Data,
    /// Bytes once decoded: little-endian, row-major, contiguous.
    pub length: u64,
    /// A stored checksum, if there is one.
    pub digest: Option<Digest>,
    /// What the format says about the values beyond their type.
    pub content: Content,
}

/// What a format says about a component's bytes beyond the type of its elements. It is checked when a checksum would be: when the component is
/// first read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    #[default]
    Any,
    /// Every byte is 0 or 1.
    Booleans,
    /// The upper half of the last byte is zero: an odd number of elements of four bits leaves it over.
    HalfByteLeft,
}

impl Component {
    /// Bytes that lie plainly in the file.
    pub fn raw(element: impl Into<ElementType>, span: Span) -> Self {
        Component {
            element: element.into(),
            data: Data::Raw(span),
            length: span.length,
            digest: None,
            content: Content::Any,
        }
    }

    /// The number of logical elements; `None` when their type is unknown.
    pub fn elements(&self) -> Option<u64> {
        self.element.bits().map(|bits| (u128::from(self.length) * 8 / u128::from(bits)) as u64)
    }

    /// Whether something has to be checked when the component is first read.
    pub fn is_checked(&self) -> bool {
        self.digest.is_some() || self.content != Content::Any
    }

    /// Whether there is a checksum that can be checked without decoding.
    pub(crate) fn checks_stored_bytes(&self) -> bool {
        self.digest.as_ref().is_some_and(|digest| digest.over == Coverage::Stored)
    }

    /// Encoded bytes that decode to `length` bytes.
    pub fn encoded(element: impl Into<ElementType>, data: Data, length: u64) -> Self {
        Component { element: element.into(), data, length, digest: None, content: Content::Any }
    }
}

/// Which of the opened files: 0 is the one that was asked for; shards and external data follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A byte range of one of the opened files. Parsers make them only after checking them against the file's length.
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
    /// Byte strides, one per dimension, outermost first. The parser has checked that every element lies in the buffer.
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
    /// Bytes taken in the file.
    pub fn stored_length(&self) -> u64 {
        let mut length = match self {
            Data::Inline(bytes) => bytes.len() as u64,
            _ => 0,
        };
        self.for_each_span(&mut |span| length = length.saturating_add(span.length));
        length
    }

    /// Visits every byte range that the elements are read from.
    pub(crate) fn for_each_span(&self, visit: &mut dyn FnMut(Span)) {
        match self {
            Data::Raw(span)
            | Data::Zstd(span)
            | Data::ZstdSeekable(span)
            | Data::Z4ai(span)
            | Data::Deflate(span) => visit(*span),
            Data::PackedMember(member) => visit(member.span),
            Data::Inline(_) | Data::Fill(_) => {}
            Data::Pieces(spans) => spans.iter().for_each(|span| visit(*span)),
            Data::Varints(runs) => runs.iter().for_each(|run| visit(run.span)),
            Data::Unraveled(positions) => positions.inner.for_each_span(visit),
            Data::SwappedBlocks(blocks) => blocks.inner.for_each_span(visit),
            Data::Swapped { inner, .. } | Data::Negated { inner, .. } => inner.for_each_span(visit),
            Data::Strided(view) => view.inner.for_each_span(visit),
            Data::Chunked(chunked) => chunked.chunks.iter().for_each(|chunk| visit(chunk.span)),
        }
    }

    /// Counts the files of byte ranges from `by` on.
    pub(crate) fn shift_files(&mut self, by: u32) {
        let moved = |span: Span| Span { file: FileId(span.file.0 + by), ..span };
        match self {
            Data::Raw(span)
            | Data::Zstd(span)
            | Data::ZstdSeekable(span)
            | Data::Z4ai(span)
            | Data::Deflate(span) => *span = moved(*span),
            Data::PackedMember(member) => member.span = moved(member.span),
            Data::Inline(_) | Data::Fill(_) => {}
            Data::Pieces(spans) => *spans = spans.iter().map(|span| moved(*span)).collect(),
            Data::Varints(runs) => {
                let run = |run: &VarintRun| VarintRun { span: moved(run.span), ..*run };
                *runs = runs.iter().map(run).collect();
            }
            Data::Unraveled(positions) => positions.inner.shift_files(by),
            Data::SwappedBlocks(blocks) => blocks.inner.shift_files(by),
            Data::Swapped { inner, .. } | Data::Negated { inner, .. } => inner.shift_files(by),
            Data::Strided(view) => view.inner.shift_files(by),
            Data::Chunked(chunked) => {
                let mut own: Chunked = (**chunked).clone();
                own.chunks.iter_mut().for_each(|chunk| chunk.span = moved(chunk.span));
                *chunked = Arc::new(own);
            }
        }
    }

    /// The first byte in the file, to read tensors in file order.
    pub fn first_span(&self) -> Option<Span> {
        match self {
            Data::Raw(span)
            | Data::Zstd(span)
            | Data::ZstdSeekable(span)
            | Data::Z4ai(span)
            | Data::Deflate(span) => Some(*span),
            Data::PackedMember(member) => Some(member.span),
            Data::Inline(_) | Data::Fill(_) => None,
            Data::Pieces(spans) => spans.first().copied(),
            Data::Varints(runs) => runs.first().map(|run| run.span),
            Data::Unraveled(positions) => positions.inner.first_span(),
            Data::SwappedBlocks(blocks) => blocks.inner.first_span(),
            Data::Swapped { inner, .. } | Data::Negated { inner, .. } => inner.first_span(),
            Data::Strided(view) => view.inner.first_span(),
            Data::Chunked(chunked) => chunked.chunks.first().map(|chunk| chunk.span),
        }
    }

    /// The byte range, where the stored bytes are exactly one.
    pub fn only_span(&self) -> Option<Span> {
        match self {
            Data::Raw(span)
            | Data::Zstd(span)
            | Data::ZstdSeekable(span)
            | Data::Z4ai(span)
            | Data::Deflate(span) => Some(*span),
            Data::Swapped { inner, .. } | Data::Negated { inner, .. } => inner.only_span(),
            _ => None,
        }
    }

    /// The same, to be moved.
    pub(crate) fn span_mut(&mut self) -> Option<&mut Span> {
        match self {
            Data::Raw(span)
            | Data::Zstd(span)
            | Data::ZstdSeekable(span)
            | Data::Z4ai(span)
            | Data::Deflate(span) => Some(span),
            _ => None,
        }
    }

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
        }
    }
}

/// A checksum as a file stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The value, which names its algorithm.
    pub value: DigestValue,
    /// Whether it is over the bytes as stored or as decoded.
    pub over: Coverage,
}

/// A checksum value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum DigestValue {
    Crc32c(u32),
    Sha256(Box<[u8; 32]>),
    Xxh3(u64),
}

/// Which bytes a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Coverage {
    Stored,
    Decoded,
}
