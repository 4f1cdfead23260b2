//! What a frame says of itself before anything is decoded.

use crate::decompress::Layout;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::options::Effort;
use crate::reference::ReferenceId;

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

/// Reads what a frame holds. Nothing is decoded.
///
/// ```
/// use z4ai::{Dtype, Options};
/// let frame = z4ai::compress(&[0; 24], &Options::new(Dtype::F32).shape([2, 3]))?;
/// let description = z4ai::describe(&frame)?;
/// assert_eq!((description.dtype, description.length), (Some(Dtype::F32), 24));
/// assert_eq!(description.shape, Some(vec![2, 3]));
/// # Ok::<(), z4ai::Error>(())
/// ```
pub fn describe(frame: &[u8]) -> Result<Description> {
    let layout = Layout::read(frame)?;
    let header = layout.header;
    Ok(Description {
        dtype: header.dtype,
        shape: header.shape,
        numpy_dtype: header.numpy_dtype,
        effort: header.effort,
        reference: header.reference,
        length: layout.length,
    })
}
