//! The on-disk structures of a frame, one per file, each with its own read and write: a header, then sections
//! of independent blocks. [`Frame`] is the door for readers: `open` parses it, `read` decodes what a range
//! needs, from the `source` where its bytes are. `spec/z4ai.md` describes them bit by bit.

mod copies;
pub(crate) mod header;
mod open;
mod read;
pub(crate) mod section;
mod source;
pub(crate) mod wire;

pub use open::{Delta, Description, Frame};
pub(crate) use read::decode_section;
pub use source::{BlockSource, Fetch};

/// The first bytes of every frame.
pub(crate) const MAGIC: [u8; 4] = *b"Z4AI";
/// The version that this library reads and writes.
pub(crate) const VERSION: u8 = 2;
/// The most bytes that a section decodes to: the bound on what a small hostile section can claim.
pub(crate) const MAX_SECTION: usize = 256 << 20;
/// The bytes of a section unless there is a reason for more: the unit of memory for streams.
pub(crate) const FULL_SECTION: usize = 64 << 20;

/// The model tag of a section whose blocks are the data itself.
pub(crate) const STORED: u8 = 0;

/// The 32-bit checksum of every part of a frame: the low half of XXH3-64.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    // Fuzzers cannot guess checksums.
    #[cfg(any(test, fuzzing))]
    if cfg!(fuzzing) || UNCHECKED.get() {
        return 0;
    }
    twox_hash::XxHash3_64::oneshot(bytes) as u32
}

#[cfg(any(test, fuzzing))]
thread_local! {
    static UNCHECKED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `work`, in which every checksum on this thread is 0, as all are in fuzzing builds.
#[cfg(any(test, fuzzing))]
pub(crate) fn unchecked<R>(work: impl FnOnce() -> R) -> R {
    UNCHECKED.set(true);
    let result = work();
    UNCHECKED.set(false);
    result
}
