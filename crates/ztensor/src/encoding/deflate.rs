//! Raw deflate streams, as zip members hold them. The output length is known in advance, so a zip bomb cannot expand past it.

use flate2::{Decompress, FlushDecompress, Status};

use crate::error::{Error, Result};
use crate::index::PackedMember;

/// Inflates a whole stream into a buffer of exactly its length.
pub(crate) fn inflate(stored: &[u8], out: &mut [u8]) -> Result<()> {
    finish(&mut Decompress::new(false), stored, out)
}

/// Inflates the first bytes of a stream, fewer if it ends earlier, whatever stands behind it.
#[cfg(feature = "pytorch")]
pub(crate) fn inflate_start(stored: &[u8], most: usize) -> Result<Vec<u8>> {
    let mut stream = Decompress::new(false);
    let mut out = super::allocate(most as u64)?;
    stream.decompress(stored, &mut out, FlushDecompress::None).map_err(damaged)?;
    out.truncate(stream.total_out() as usize);
    Ok(out)
}

/// Inflates a zip member, leaves out its first bytes and checks the whole against its checksum.
pub(super) fn inflate_tail(stored: &[u8], member: &PackedMember, out: &mut [u8]) -> Result<()> {
    let mut stream = Decompress::new(false);
    let mut head = super::allocate(member.skip)?;
    stream.decompress(stored, &mut head, FlushDecompress::None).map_err(damaged)?;
    if stream.total_out() != member.skip {
        return Err(Error::malformed("the deflate stream is shorter than the header in it"));
    }
    let rest = usize::try_from(stream.total_in()).ok().and_then(|taken| stored.get(taken..));
    finish(&mut stream, rest.unwrap_or_default(), out)?;
    member.check(&head, out)
}

/// Inflates the rest of a stream into a buffer of exactly its length. One call of the decompressor takes and gives 4 GiB at most.
fn finish(stream: &mut Decompress, mut stored: &[u8], mut out: &mut [u8]) -> Result<()> {
    loop {
        let (taken, given) = (stream.total_in(), stream.total_out());
        let status = stream.decompress(stored, out, FlushDecompress::Finish).map_err(damaged)?;
        let (taken, given) = ((stream.total_in() - taken) as usize, (stream.total_out() - given) as usize);
        stored = stored.get(taken..).unwrap_or_default();
        out = out.get_mut(given..).unwrap_or_default();
        match status {
            Status::StreamEnd if !out.is_empty() => {
                return Err(Error::malformed("the deflate stream is shorter than its announced length"));
            }
            Status::StreamEnd if !stored.is_empty() => {
                return Err(Error::malformed("other bytes stand behind the deflate stream"));
            }
            Status::StreamEnd => return Ok(()),
            _ if taken + given > 0 => {}
            _ if out.is_empty() => {
                return Err(Error::malformed("the deflate stream is longer than its announced length"));
            }
            _ => return Err(Error::truncated("the deflate stream ends early")),
        }
    }
}

fn damaged(cause: flate2::DecompressError) -> Error {
    Error::malformed("the deflate stream is damaged").with_cause(cause)
}
