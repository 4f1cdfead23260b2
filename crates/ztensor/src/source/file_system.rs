//! What the file system is asked. Which are safe to map: on network and FUSE file systems a file can shrink or a server can vanish while the map is
//! in use, which kills the process with SIGBUS; there, positioned reads return an error instead.
#![allow(unsafe_code)]

use std::fs::File;

#[cfg(target_os = "linux")]
pub(super) fn is_remote(file: &File) -> bool {
    use std::os::fd::AsRawFd;

    const NFS: i64 = 0x6969;
    const SMB: i64 = 0x517B;
    const SMB2: i64 = 0xFE53_4D42;
    const CIFS: i64 = 0xFF53_4D42;
    const FUSE: i64 = 0x6573_5546;
    const CEPH: i64 = 0x00C3_6400;
    const NINE_P: i64 = 0x0102_1997;
    const AFS: i64 = 0x5346_414F;
    const LUSTRE: i64 = 0x0BD0_0BD0;

    let mut status = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open for the length of the call and `status` is a valid place for the result.
    let result = unsafe { libc::fstatfs(file.as_raw_fd(), status.as_mut_ptr()) };
    if result != 0 {
        return false;
    }
    // The field is narrower on some targets.
    #[allow(clippy::unnecessary_cast)]
    // SAFETY: the call succeeded, so the structure is filled in.
    let kind = unsafe { status.assume_init() }.f_type as i64;
    matches!(kind, NFS | SMB | SMB2 | CIFS | FUSE | CEPH | NINE_P | AFS | LUSTRE)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_remote(_file: &File) -> bool {
    false
}

/// Lets the ends of a large file, where formats keep their directories, be read and nothing beside them. Through a map the kernel would read as
/// much around each of them as it reads ahead, megabytes on some machines, before the first tensor is wanted.
#[cfg(target_os = "linux")]
pub(super) fn fetch_ends(file: &File, length: u64) {
    use rustix::fs::{Advice, fadvise};

    const LARGE: u64 = 16 << 20;
    const HEAD: u64 = 64 << 10;
    const TAIL: u64 = 128 << 10;

    if length >= LARGE {
        for (offset, bytes) in [(0, HEAD), (length - TAIL, TAIL)] {
            // Refused, it costs speed only.
            let _ = fadvise(file, offset, std::num::NonZeroU64::new(bytes), Advice::WillNeed);
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn fetch_ends(_file: &File, _length: u64) {}
