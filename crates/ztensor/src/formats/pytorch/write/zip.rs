//! The zip archive that `torch.save` writes: members stored as they are, each beginning at a multiple of 64 bytes so that it can be mapped.

use crate::error::{Error, Result};
use crate::output::Output;

/// The folder of all members, as PyTorch calls it where it is given no file name.
const FOLDER: &str = "archive";

/// Where members begin.
const ALIGNMENT: u64 = 64;

/// What does not fit 32 bits stands in a field of its own.
const WIDE: u32 = u32::MAX;

struct Member {
    name: String,
    checksum: u32,
    length: u64,
    offset: u64,
}

/// An archive that is being written.
pub(super) struct Archive<'o> {
    output: &'o mut Output,
    members: Vec<Member>,
}

impl<'o> Archive<'o> {
    pub(super) fn new(output: &'o mut Output) -> Self {
        Archive { output, members: Vec::new() }
    }

    /// Adds a member.
    pub(super) fn add(&mut self, name: &str, data: &[u8]) -> Result<()> {
        let name = format!("{FOLDER}/{name}");
        let (checksum, length) = (crc32fast::hash(data), data.len() as u64);
        let offset = self.output.position();
        let wide = length >= u64::from(WIDE);
        let mut extra = Vec::new();
        if wide {
            extra.extend_from_slice(&[1, 0, 16, 0]);
            extra.extend_from_slice(&length.to_le_bytes());
            extra.extend_from_slice(&length.to_le_bytes());
        }
        // PyTorch's padding: a field called FB. It takes four bytes at least.
        let front = offset + 30 + name.len() as u64 + extra.len() as u64 + 4;
        let padding = front.next_multiple_of(ALIGNMENT) - front;
        extra.extend_from_slice(b"FB");
        extra.extend_from_slice(&(padding as u16).to_le_bytes());
        extra.extend(std::iter::repeat_n(b'Z', padding as usize));

        let mut header = Vec::with_capacity(30 + name.len() + extra.len());
        header.extend_from_slice(b"PK\x03\x04");
        header.extend_from_slice(&common(wide, checksum, length));
        header.extend_from_slice(&(name.len() as u16).to_le_bytes());
        header.extend_from_slice(&(extra.len() as u16).to_le_bytes());
        header.extend_from_slice(name.as_bytes());
        header.extend_from_slice(&extra);
        self.output.write(&header)?;
        self.output.write(data)?;
        self.members.push(Member { name, checksum, length, offset });
        Ok(())
    }

    /// Forty digits that tell archives apart: a hash of the names, and one of the contents.
    pub(super) fn identity(&self) -> String {
        let mut names = crc32fast::Hasher::new();
        let mut contents = (0xCBF2_9CE4_8422_2325u64, 0u64);
        for member in &self.members {
            names.update(member.name.as_bytes());
            contents.0 = (contents.0 ^ u64::from(member.checksum)).wrapping_mul(0x0100_0000_01B3);
            contents.1 = contents.1.wrapping_add(member.length);
        }
        format!("{:020}{:020}", u64::from(names.finalize()), contents.0 ^ contents.1)
    }

    /// Writes the list of the members.
    pub(super) fn finish(self) -> Result<()> {
        let start = self.output.position();
        for member in &self.members {
            let wide = [member.length, member.offset].map(|number| number >= u64::from(WIDE));
            let mut extra = Vec::new();
            if wide[0] {
                extra.extend_from_slice(&member.length.to_le_bytes());
                extra.extend_from_slice(&member.length.to_le_bytes());
            }
            if wide[1] {
                extra.extend_from_slice(&member.offset.to_le_bytes());
            }
            let mut entry = b"PK\x01\x02".to_vec();
            entry.extend_from_slice(&version(wide.contains(&true)).to_le_bytes());
            entry.extend_from_slice(&common(wide.contains(&true), member.checksum, member.length));
            entry.extend_from_slice(&(member.name.len() as u16).to_le_bytes());
            let extra_length = if extra.is_empty() { 0 } else { 4 + extra.len() as u16 };
            entry.extend_from_slice(&extra_length.to_le_bytes());
            entry.extend_from_slice(&[0; 10]); // comment, disk, attributes
            entry.extend_from_slice(&narrow(member.offset).to_le_bytes());
            entry.extend_from_slice(member.name.as_bytes());
            if !extra.is_empty() {
                entry.extend_from_slice(&[1, 0]);
                entry.extend_from_slice(&(extra.len() as u16).to_le_bytes());
                entry.extend_from_slice(&extra);
            }
            self.output.write(&entry)?;
        }
        let end = self.output.position();
        let count = self.members.len() as u64;
        let mut tail = Vec::new();
        if count >= 0xFFFF || end - start >= u64::from(WIDE) || start >= u64::from(WIDE) {
            tail.extend_from_slice(b"PK\x06\x06");
            tail.extend_from_slice(&44u64.to_le_bytes());
            tail.extend_from_slice(&[45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            for number in [count, count, end - start, start] {
                tail.extend_from_slice(&number.to_le_bytes());
            }
            tail.extend_from_slice(b"PK\x06\x07\0\0\0\0");
            tail.extend_from_slice(&end.to_le_bytes());
            tail.extend_from_slice(&1u32.to_le_bytes());
        }
        tail.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        let count = u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes();
        tail.extend_from_slice(&count);
        tail.extend_from_slice(&count);
        tail.extend_from_slice(&narrow(end - start).to_le_bytes());
        tail.extend_from_slice(&narrow(start).to_le_bytes());
        tail.extend_from_slice(&[0, 0]);
        self.output.write(&tail)
    }
}

/// What local headers and the list have in common: version, flags, method, time, checksum, the two lengths.
fn common(wide: bool, checksum: u32, length: u64) -> [u8; 22] {
    /// Names are UTF-8.
    const FLAGS: u16 = 1 << 11;
    /// The first day that zip knows.
    const DATE: u16 = 1 << 5 | 1;
    let mut bytes = [0; 22];
    bytes[0..2].copy_from_slice(&version(wide).to_le_bytes());
    bytes[2..4].copy_from_slice(&FLAGS.to_le_bytes());
    bytes[8..10].copy_from_slice(&DATE.to_le_bytes());
    bytes[10..14].copy_from_slice(&checksum.to_le_bytes());
    bytes[14..18].copy_from_slice(&narrow(length).to_le_bytes());
    bytes[18..22].copy_from_slice(&narrow(length).to_le_bytes());
    bytes
}

fn version(wide: bool) -> u16 {
    if wide { 45 } else { 20 }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(WIDE)
}

/// Refuses a pickle that the format has no room for.
pub(super) fn check_pickle(pickle: &[u8]) -> Result<()> {
    match u32::try_from(pickle.len()) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::argument("the tree has more than 4 GiB besides its tensors")),
    }
}
