//! Version 2 of the container: read strictly, written on request. Everything the format lets a reader refuse is refused; what it lets a
//! reader not understand (layouts, types, encodings) is listed, never interpreted.

mod manifest;
mod read;

pub(crate) use manifest::{content, encode};
pub(crate) use read::index;

/// First and last bytes of the file.
pub(crate) const MAGIC: &[u8; 8] = b"\x89ZT2\r\n\x1a\n";
/// Bytes of the footer.
pub(crate) const FOOTER: u64 = 40;
/// The version the footer states.
pub(crate) const VERSION: u32 = 2;
/// Every blob starts at a multiple of this.
pub(crate) const ALIGNMENT: u64 = 4096;
/// Where canonical files put blobs: no two share a page on any platform.
pub(crate) const CANONICAL_ALIGNMENT: u64 = 65536;

/// The name of the seekable zstd encoding.
const ZSTD_SEEKABLE: &str = "zt.zstd-seekable/1";
/// The name under which a z4ai frame is stored.
const Z4AI: &str = "z4ai/2";

/// The footer of a file whose manifest lies at `offset`.
pub(crate) fn footer(offset: u64, manifest: &[u8]) -> [u8; FOOTER as usize] {
    let mut footer = [0; FOOTER as usize];
    footer[..8].copy_from_slice(&offset.to_le_bytes());
    footer[8..16].copy_from_slice(&(manifest.len() as u64).to_le_bytes());
    footer[16..24].copy_from_slice(&twox_hash::XxHash3_64::oneshot(manifest).to_le_bytes());
    footer[24..28].copy_from_slice(&VERSION.to_le_bytes());
    footer[32..].copy_from_slice(MAGIC);
    footer
}
