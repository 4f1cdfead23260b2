//! A frame as its fields: taken apart, changed, and put together again with checksums that are right. It
//! follows `spec/z4ai.md` and shares no code with the reader that it is there to test.

use crate::frame::checksum;

/// A frame's fields.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    pub effort: u8,
    pub dtype: u8,
    pub length: Option<u64>,
    pub shape: Option<Vec<u64>>,
    pub numpy_dtype: Option<Vec<u8>>,
    pub reference: Option<(u64, [u8; 16])>,
    pub sections: Vec<SectionParts>,
}

/// A section's fields.
#[derive(Debug, Clone)]
pub(super) struct SectionParts {
    /// Whether it has the short form.
    pub short: bool,
    pub length: u64,
    pub copies: Vec<[u64; 3]>,
    pub block_length: u64,
    pub model: Vec<u8>,
    pub blocks: Vec<BlockParts>,
}

#[derive(Debug, Clone)]
pub(super) struct BlockParts {
    pub payload: Vec<u8>,
    pub checksum: u32,
}

impl SectionParts {
    /// Bytes that the blocks decode to.
    pub fn originals(&self) -> u64 {
        self.length - self.copies.iter().map(|copy| copy[1]).sum::<u64>()
    }
}

impl Parts {
    /// Takes apart a frame that this library made.
    pub fn of(frame: &[u8]) -> Self {
        let mut bytes = FieldReader(&frame[5..]);
        let (flags, dtype) = (bytes.byte(), bytes.byte());
        let has = |bit: u8| flags & bit != 0;
        let plain_length = (has(1) && !has(2)).then(|| bytes.varint());
        let shape: Option<Vec<u64>> = has(2).then(|| (0..bytes.varint()).map(|_| bytes.varint()).collect());
        let numpy_dtype = has(4).then(|| {
            let length = bytes.varint();
            bytes.take(length)
        });
        let reference = has(8).then(|| (bytes.varint(), bytes.take(16).try_into().expect("16 bytes")));
        bytes.take(2);
        let width = crate::Dtype::from_code(dtype).expect("a dtype").map_or(1, crate::Dtype::width) as u64;
        let length = shape.as_ref().filter(|_| has(1)).map(|shape| width * shape.iter().product::<u64>());
        let length = length.or(plain_length);
        let mut sections = Vec::new();
        let mut left = length;
        while left != Some(0)
            && let Some(section) = SectionParts::next(&mut bytes, left)
        {
            left = left.map(|left| left - section.length);
            sections.push(section);
        }
        Self { effort: flags >> 4, dtype, length, shape, numpy_dtype, reference, sections }
    }

    /// Puts the frame together.
    pub fn frame(&self) -> Vec<u8> {
        let flags = [
            self.length.is_some(),
            self.shape.is_some(),
            self.numpy_dtype.is_some(),
            self.reference.is_some(),
        ];
        let flags = flags.iter().rev().fold(self.effort, |flags, &flag| flags << 1 | u8::from(flag));
        let mut out = [b"Z4AI\x02".as_slice(), &[flags, self.dtype]].concat();
        match (&self.shape, self.length) {
            (Some(shape), _) => {
                put(&mut out, shape.len() as u64);
                shape.iter().for_each(|&size| put(&mut out, size));
            }
            (None, length) => length.iter().for_each(|&length| put(&mut out, length)),
        }
        if let Some(name) = &self.numpy_dtype {
            put(&mut out, name.len() as u64);
            out.extend_from_slice(name);
        }
        if let Some((length, digest)) = &self.reference {
            put(&mut out, *length);
            out.extend_from_slice(digest);
        }
        let sum = checksum(&out) as u16;
        out.extend_from_slice(&sum.to_le_bytes());
        self.sections.iter().for_each(|section| section.write(&mut out));
        if self.length.is_none() {
            out.push(0);
        }
        // Exactly as long as it is: what reads past it meets the end of its memory.
        out.shrink_to_fit();
        out
    }
}

impl SectionParts {
    fn next(bytes: &mut FieldReader, left: Option<u64>) -> Option<Self> {
        let first = bytes.varint();
        if let Some(length) = left.filter(|_| first <= 1) {
            let (model, encoded) = if first == 1 { (0, length) } else { (bytes.varint(), bytes.varint()) };
            let checksum = bytes.sum();
            let model = if first == 1 { vec![0] } else { bytes.take(model) };
            let blocks = vec![BlockParts { payload: bytes.take(encoded), checksum }];
            return Some(Self { short: true, length, copies: Vec::new(), block_length: 0, model, blocks });
        }
        if first == 0 {
            return None;
        }
        let mut section = Self {
            short: false,
            length: first >> 1,
            copies: Vec::new(),
            block_length: 0,
            model: Vec::new(),
            blocks: Vec::new(),
        };
        if first & 1 == 1 {
            section.copies = (0..bytes.varint()).map(|_| [(); 3].map(|()| bytes.varint())).collect();
        }
        section.block_length = bytes.varint();
        let model = bytes.varint();
        let count = match section.block_length {
            0 => 1,
            several => section.originals().div_ceil(several),
        };
        let lengths: Vec<u64> = (0..count).map(|_| bytes.varint()).collect();
        let sums: Vec<u32> = (0..count).map(|_| bytes.sum()).collect();
        section.model = bytes.take(model);
        bytes.take(4);
        let blocks = lengths.into_iter().zip(sums);
        section.blocks =
            blocks.map(|(length, checksum)| BlockParts { payload: bytes.take(length), checksum }).collect();
        Some(section)
    }

    fn write(&self, out: &mut Vec<u8>) {
        if let ([block], true) = (&self.blocks[..], self.short) {
            let stored = self.model == [0];
            out.push(u8::from(stored));
            if !stored {
                put(out, self.model.len() as u64);
                put(out, block.payload.len() as u64);
            }
            out.extend_from_slice(&block.checksum.to_le_bytes());
            out.extend_from_slice(if stored { &[] } else { &self.model });
            out.extend_from_slice(&block.payload);
            return;
        }
        let start = out.len();
        put(out, self.length << 1 | u64::from(!self.copies.is_empty()));
        if !self.copies.is_empty() {
            put(out, self.copies.len() as u64);
            self.copies.iter().flatten().for_each(|&field| put(out, field));
        }
        put(out, self.block_length);
        put(out, self.model.len() as u64);
        self.blocks.iter().for_each(|block| put(out, block.payload.len() as u64));
        self.blocks.iter().for_each(|block| out.extend_from_slice(&block.checksum.to_le_bytes()));
        out.extend_from_slice(&self.model);
        let sum = checksum(&out[start..]);
        out.extend_from_slice(&sum.to_le_bytes());
        self.blocks.iter().for_each(|block| out.extend_from_slice(&block.payload));
    }
}

/// What is left of a frame that is known to be whole.
struct FieldReader<'a>(&'a [u8]);

impl FieldReader<'_> {
    fn take(&mut self, length: u64) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(length as usize);
        self.0 = rest;
        taken.to_vec()
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn sum(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().expect("4 bytes"))
    }

    fn varint(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
}

/// Appends a varint.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
