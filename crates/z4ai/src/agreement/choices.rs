//! Numbers from a fuzzer's bytes, and from a generator where many are needed.

/// Reads choices from bytes; there is no end of them, past the last byte all are 0.
#[derive(Debug)]
pub(super) struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub fn short(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        if bound <= 256 { usize::from(self.byte()) % bound.max(1) } else { self.short() % bound }
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// A small generator: the same seed gives the same numbers on every machine.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() & 0xff_ffff) as f32 / (1 << 24) as f32
    }
}
