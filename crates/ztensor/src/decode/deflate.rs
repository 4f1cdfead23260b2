//! Raw deflate streams, as zip members hold them. The output length is known in advance, so a zip bomb cannot expand past it.

use flate2::{Decompress, FlushDecompress, Status};

use crate::error::{Error, Result};

/// Inflates a whole stream into a buffer of exactly its length.
pub(crate) fn inflate(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let mut stream = Decompress::new(false);
    let status = stream
        .decompress(stored, out, FlushDecompress::Finish)
        .map_err(|cause| Error::malformed("the deflate stream is damaged").with_cause(cause))?;
    match status {
        Status::StreamEnd if stream.total_out() == out.len() as u64 => Ok(()),
        Status::StreamEnd => Err(Error::malformed("the deflate stream is shorter than its announced length")),
        _ if stream.total_out() == out.len() as u64 => {
            Err(Error::malformed("the deflate stream is longer than its announced length"))
        }
        _ => Err(Error::truncated("the deflate stream ends early")),
    }
}
