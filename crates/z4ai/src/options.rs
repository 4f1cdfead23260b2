//! What a caller can ask of the encoder.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::record::RecordLayout;

/// The most dimensions a shape may have.
pub const MAX_DIMENSIONS: usize = 64;

/// The trade between size and speed. Every effort decodes with the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Effort {
    /// Fastest to decode.
    Fast,
    /// Close to the smallest, still fast.
    #[default]
    Default,
    /// Smallest; never larger than [`Effort::Default`].
    Max,
}

impl Effort {
    /// Reads an effort's name; `balanced` is another name of the default.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "fast" => Ok(Self::Fast),
            "default" | "balanced" => Ok(Self::Default),
            "max" => Ok(Self::Max),
            _ => Err(Error::new(
                ErrorKind::InvalidEffort,
                format!("unknown effort {name:?}; known are fast, default (or balanced) and max"),
            )),
        }
    }

    /// The canonical name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Default => "default",
            Self::Max => "max",
        }
    }

    pub(crate) fn to_code(self) -> u8 {
        match self {
            Self::Fast => 0,
            Self::Default => 1,
            Self::Max => 2,
        }
    }

    pub(crate) fn from_code(code: u8) -> Result<Self> {
        match code {
            0 => Ok(Self::Fast),
            1 => Ok(Self::Default),
            2 => Ok(Self::Max),
            _ => Err(Error::corrupt(format!("unknown effort code {code}"))),
        }
    }
}

/// How to compress. The default is opaque bytes at default effort on all cores.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The type of the elements; `None` for opaque bytes.
    pub dtype: Option<Dtype>,
    /// The shape of the tensor, row-major. It lets the encoder follow the scale of rows and columns, and is
    /// kept in the frame.
    pub shape: Option<Vec<u64>>,
    /// The layout of the records that the bytes consist of, for dtypes of one byte and opaque bytes.
    pub records: Option<RecordLayout>,
    /// A NumPy dtype string (`<f2`) to keep in the frame for the caller.
    pub numpy_dtype: Option<String>,
    /// The trade between size and speed.
    pub effort: Effort,
    /// The zstd level for data that is not coded as floats; by default one that fits the effort.
    pub level: Option<i32>,
    /// Threads that may work at the same time, the caller among them; 0 is one per core.
    pub threads: usize,
}

impl Options {
    /// Options for elements of `dtype`, everything else by default.
    pub fn new(dtype: Dtype) -> Self {
        Self { dtype: Some(dtype), ..Self::default() }
    }

    /// These options with this shape.
    pub fn shape(mut self, shape: impl Into<Vec<u64>>) -> Self {
        self.shape = Some(shape.into());
        self
    }

    /// These options for records of this layout.
    pub fn records(mut self, layout: RecordLayout) -> Self {
        self.records = Some(layout);
        self
    }

    /// These options with this effort.
    pub fn effort(mut self, effort: Effort) -> Self {
        self.effort = effort;
        self
    }

    /// These options with this many threads.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Bytes per scalar: the unit of the byte planes.
    pub(crate) fn scalar_width(&self) -> usize {
        self.dtype.map_or(1, Dtype::scalar_width)
    }

    /// The layout of records, if elements are bytes.
    pub(crate) fn record_layout(&self) -> Option<&RecordLayout> {
        self.records.as_ref().filter(|_| self.scalar_width() == 1)
    }

    /// The bytes that sections and copies are multiples of: those of a row if these are known, so that
    /// columns stay aligned, else of a record or an element.
    pub(crate) fn cut_unit(&self) -> usize {
        let width = self.scalar_width();
        let least = self.record_layout().map_or(width, RecordLayout::length);
        let row = self.row_length().and_then(|length| length.checked_mul(width));
        row.filter(|row| row.is_multiple_of(least)).unwrap_or(least)
    }

    /// Checks that the shape has as many elements as `length` bytes hold, in no more dimensions than a frame
    /// can say.
    pub(crate) fn check_shape(&self, length: u64) -> Result<()> {
        let Some(shape) = &self.shape else { return Ok(()) };
        if shape.len() > MAX_DIMENSIONS {
            let message = format!("a shape of {} dimensions; there may be {MAX_DIMENSIONS}", shape.len());
            return Err(Error::new(ErrorKind::InvalidShape, message));
        }
        let width = self.dtype.map_or(1, Dtype::width) as u64;
        let bytes = shape.iter().try_fold(width, |product, &size| product.checked_mul(size));
        if bytes == Some(length) {
            return Ok(());
        }
        let dtype = self.dtype.map_or("bytes", Dtype::name);
        Err(Error::new(
            ErrorKind::InvalidShape,
            format!("a {dtype} tensor of shape {shape:?} does not have {length} bytes"),
        ))
    }

    /// Scalars per filter of a convolution, if the shape has one: the product of all dimensions behind the
    /// second.
    pub(crate) fn filter_length(&self) -> Option<usize> {
        let inner = self.shape.as_ref()?.get(2..)?;
        let length = inner.iter().try_fold(1u64, |product, &size| product.checked_mul(size))?;
        usize::try_from(length).ok().filter(|&length| length > 1)
    }

    /// Scalars per line of a convolution's filter: the last dimension.
    pub(crate) fn line_length(&self) -> Option<usize> {
        self.filter_length()?;
        usize::try_from(*self.shape.as_ref()?.last()?).ok()
    }

    /// Scalars per row, if the shape says: the product of all dimensions but the first.
    pub(crate) fn row_length(&self) -> Option<usize> {
        let shape = self.shape.as_ref()?;
        let scalars = self.dtype.map_or(1, |dtype| dtype.width() / dtype.scalar_width()) as u64;
        let (_, inner) = shape.split_first()?;
        let length = inner.iter().try_fold(scalars, |product, &size| product.checked_mul(size))?;
        usize::try_from(length).ok().filter(|&length| length > 1)
    }
}
