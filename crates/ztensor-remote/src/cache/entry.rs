//! One block of a file on disk: a magic number, a checksum, the bytes. The checksum is bound to the key and the block's number, so that
//! an entry under another's name is no entry.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::SystemTime;

use twox_hash::XxHash3_64;
use ztensor::{Error, Output, Result};

const MAGIC: &[u8; 8] = b"ztrange1";
const HEADER: usize = 16;

/// How long the file of an entry is.
pub(super) fn length(bytes: usize) -> u64 {
    (HEADER + bytes) as u64
}

/// The bytes of an entry; `None` where there is none, or none that is whole.
pub(super) fn read(path: &Path, key: &[u8; 32], number: u64, length: usize) -> Result<Option<Vec<u8>>> {
    let fail = |cause| Error::io("cannot read the cache of ranges", path, cause);
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(fail(cause)),
    };
    let mut header = [0; HEADER];
    let mut bytes = vec![0; length];
    let mut rest = [0; 1];
    let read = file
        .read_exact(&mut header)
        .and_then(|()| file.read_exact(&mut bytes))
        .and_then(|()| file.read(&mut rest));
    match read {
        Ok(0) => {}
        Ok(_) => return Ok(None),
        Err(cause) if cause.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(cause) => return Err(fail(cause)),
    }
    if header != self::header(key, number, &bytes) {
        return Ok(None);
    }
    // The time of the last use. Where it cannot be set the entry is as old as it is written: it leaves earlier, and that is all.
    let _ = file.set_modified(SystemTime::now());
    Ok(Some(bytes))
}

/// Puts an entry in place. It need not survive a crash of the machine: what is torn is no entry.
pub(super) fn write(path: &Path, key: &[u8; 32], number: u64, bytes: &[u8]) -> Result<()> {
    let put = || {
        let mut output = Output::create(path)?;
        output.write(&header(key, number, bytes))?;
        output.write(bytes)?;
        output.publish(false)
    };
    put().map_err(|error| {
        error.with_context("the cache of ranges").with_hint(
            "Name another folder in ZTENSOR_CACHE or storage_options={\"cache\": …}, or a smaller size; \"cache\": False reads without one.",
        )
    })
}

fn header(key: &[u8; 32], number: u64, bytes: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let mut seed = [0; 8];
    seed.copy_from_slice(&key[..8]);
    let checksum = XxHash3_64::oneshot_with_seed(u64::from_le_bytes(seed).wrapping_add(number), bytes);
    header[..8].copy_from_slice(MAGIC);
    header[8..].copy_from_slice(&checksum.to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_not_whole_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entry");
        let (key, bytes) = ([7; 32], b"some bytes".to_vec());
        assert_eq!(read(&path, &key, 3, bytes.len()).unwrap(), None);
        write(&path, &key, 3, &bytes).unwrap();
        assert_eq!(read(&path, &key, 3, bytes.len()).unwrap(), Some(bytes.clone()));
        assert_eq!(read(&path, &key, 4, bytes.len()).unwrap(), None);
        assert_eq!(read(&path, &[8; 32], 3, bytes.len()).unwrap(), None);
        let whole = std::fs::read(&path).unwrap();
        for position in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[position] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path, &key, 3, bytes.len()).unwrap(), None, "byte {position}");
            std::fs::write(&path, &whole[..position]).unwrap();
            assert_eq!(read(&path, &key, 3, bytes.len()).unwrap(), None, "cut at {position}");
        }
        std::fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert_eq!(read(&path, &key, 3, bytes.len()).unwrap(), None);
        write(&path, &key, 3, &bytes).unwrap();
        assert_eq!(read(&path, &key, 3, bytes.len()).unwrap(), Some(bytes));
    }
}
