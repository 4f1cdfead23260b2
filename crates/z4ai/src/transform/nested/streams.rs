//! Symbols to nested bit streams and back, one stream per level.
//!
//! Thirty-two elements share a word of two-bit fields, strided so that byte `b`, field `k` of the four words
//! of 128 elements belongs to element `32 k + b`: unpacking is then a shift and a mask over whole vectors.
//! The fields of a level that say "deeper" mark where the bits of the next level land, so a level is one
//! bit-deposit per word, and because every level has its own stream no level waits for another's position.

use super::code::Code;
use super::steps::Steps;
use crate::error::{Error, Result};

/// Elements are padded to whole groups of this many, the span of one strided plane of single bits.
pub(crate) const NESTED_GROUP: usize = 256;
/// Elements decoded at a time; their working arrays stay in the first-level cache.
pub(crate) const NESTED_CHUNK: usize = 4096;
/// Elements per word of two-bit fields.
const WORD: usize = 32;
/// Words per chunk.
const WORDS_PER_CHUNK: usize = NESTED_CHUNK / WORD;
/// The low bit of every two-bit field.
const FIELD_LOW_BITS: u64 = 0x5555_5555_5555_5555;
/// Every other two-bit field, with room to add up to four bits.
const PAIRS: u64 = 0x3333_3333_3333_3333;
/// Zero bytes after the last stream, so that a reader may always look at sixteen bytes.
pub(crate) const LOOKAHEAD: usize = 16;

/// Bits appended from the low end of each byte up.
#[derive(Debug, Default)]
pub(crate) struct BitStream {
    /// Whole words of eight bytes.
    pub(crate) bytes: Vec<u8>,
    /// The bits after those, and how many they are.
    pub(crate) pending: u64,
    pub(crate) filled: u32,
}

impl BitStream {
    /// An empty stream with room for so many bits.
    pub(crate) fn with_room_for(bits: usize) -> Self {
        Self { bytes: Vec::with_capacity(bits / 8), ..Self::default() }
    }

    fn push(&mut self, bits: u64, count: u32) {
        self.pending |= bits << self.filled;
        if self.filled + count >= 64 {
            self.bytes.extend_from_slice(&self.pending.to_le_bytes());
            self.pending = bits.checked_shr(64 - self.filled).unwrap_or(0);
            self.filled = self.filled + count - 64;
        } else {
            self.filled += count;
        }
    }

    /// The bytes, the last one padded with zero bits.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let used = self.filled.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.pending.to_le_bytes()[..used]);
        self.bytes
    }
}

/// Frequencies of the symbols, counted in four tables because neighbours are often equal.
pub(crate) fn histogram(symbols: &[u8]) -> [u32; 256] {
    let mut tables = [[0_u32; 256]; 4];
    let (fours, rest) = symbols.as_chunks::<4>();
    for four in fours {
        for (table, &symbol) in tables.iter_mut().zip(four) {
            table[usize::from(symbol)] += 1;
        }
    }
    rest.iter().for_each(|&symbol| tables[0][usize::from(symbol)] += 1);
    std::array::from_fn(|symbol| tables.iter().map(|table| table[symbol]).sum())
}

/// Writes `symbols` to one stream per level of `code`, and what escapes every level to `spelled`.
#[inline(always)]
pub(crate) fn encode<K: Steps>(
    kernel: K,
    symbols: &[u8],
    code: &Code,
    levels: &mut [BitStream],
    spelled: &mut Vec<u8>,
) {
    let rank_of = code.ranks();
    let mut ranks = [0_u8; NESTED_CHUNK];
    for chunk in symbols.chunks(NESTED_CHUNK) {
        let padded = chunk.len().next_multiple_of(NESTED_GROUP);
        kernel.ranks_of(&rank_of, chunk, &mut ranks[..chunk.len()]);
        ranks[chunk.len()..padded].fill(0);
        let words = padded / WORD;
        let mut escapes = [FIELD_LOW_BITS; WORDS_PER_CHUNK];
        let mut base = 0_u8;
        for (level, (&width, stream)) in code.widths.iter().zip(levels.iter_mut()).enumerate() {
            let top = (1_u8 << width) - 1;
            for (ranks, escapes) in ranks[..padded].chunks_exact(128).zip(escapes.chunks_exact_mut(4)) {
                let mut bytes = [0_u8; 32];
                for field in 0..4 {
                    for (byte, &rank) in bytes.iter_mut().zip(&ranks[32 * field..32 * field + 32]) {
                        *byte |= rank.saturating_sub(base).min(top) << (2 * field);
                    }
                }
                let words: [u64; 4] = bytemuck::cast(bytes);
                for (escape, fields) in escapes.iter_mut().zip(words.map(u64::from_le)) {
                    let count = escape.count_ones();
                    if width == 1 {
                        stream.push(kernel.extract::<1>(fields, *escape), count);
                        *escape &= fields;
                    } else {
                        // All fields are chosen at the first level.
                        let bits = if level == 0 { fields } else { kernel.extract::<2>(fields, *escape) };
                        stream.push(bits, 2 * count);
                        *escape &= fields & fields >> 1;
                    }
                }
            }
            base += top;
        }
        if code.spelled {
            spell_out(&escapes[..words], chunk.len(), |element| spelled.push(chunk[element]));
        }
    }
}

/// Calls `each` with the chosen elements below `count`, in the order of the words and of the fields in each.
#[inline(always)]
fn spell_out(escapes: &[u64], count: usize, mut each: impl FnMut(usize)) {
    for (word, &escape) in escapes.iter().enumerate() {
        let mut remaining = escape;
        while remaining != 0 {
            let field = remaining.trailing_zeros() as usize / 2;
            let element = word / 4 * 128 + word % 4 * 8 + field / 4 + field % 4 * 32;
            if element < count {
                each(element);
            }
            remaining &= remaining - 1;
        }
    }
}

/// Where each stream stands in the block while it is decoded.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    /// The whole block.
    pub(crate) block: &'a [u8],
    /// Next bit of each level, counted from the start of the block.
    pub(crate) levels: Vec<usize>,
    /// Next spelled-out symbol.
    pub(crate) spelled: usize,
}

#[cold]
fn past_the_end() -> Error {
    Error::corrupt("a nested bit stream runs past its block")
}

/// Decodes the next `symbols.len()` symbols; whole groups except at the end of a block.
#[inline(always)]
pub(crate) fn decode<K: Steps>(
    kernel: K,
    cursor: &mut Cursor<'_>,
    code: &Code,
    symbols: &mut [u8],
) -> Result<()> {
    let words = symbols.len().next_multiple_of(NESTED_GROUP) / WORD;
    let mut ranks = Ranks {
        escapes: [FIELD_LOW_BITS; WORDS_PER_CHUNK],
        low: [0; WORDS_PER_CHUNK],
        high: [0; WORDS_PER_CHUNK],
    };
    for (level, (&width, position)) in code.widths.iter().zip(&mut cursor.levels).enumerate() {
        match (level, width) {
            (0, 1) => ranks.first_narrow(cursor.block, position, words)?,
            (0, _) => ranks.first_wide(cursor.block, position, words)?,
            (_, 1) => ranks.descend::<K, 1>(kernel, cursor.block, position, words)?,
            (_, _) => ranks.descend::<K, 2>(kernel, cursor.block, position, words)?,
        }
    }
    ranks.look_up(kernel, &code.symbols, symbols);
    if code.spelled {
        let count = symbols.len();
        let mut missing = false;
        spell_out(&ranks.escapes[..words], count, |element| {
            match cursor.block.get(cursor.spelled) {
                Some(&symbol) => symbols[element] = symbol,
                None => missing = true,
            }
            cursor.spelled += 1;
        });
        if missing {
            return Err(past_the_end());
        }
    }
    Ok(())
}

/// The elements of a chunk while the levels are read: which still escape, and the ranks summed so far in
/// four-bit fields, those of even and of odd two-bit fields apart.
struct Ranks {
    escapes: [u64; WORDS_PER_CHUNK],
    low: [u64; WORDS_PER_CHUNK],
    high: [u64; WORDS_PER_CHUNK],
}

impl Ranks {
    /// A first level of two-bit fields is stored as it is used.
    #[inline(always)]
    fn first_wide(&mut self, block: &[u8], position: &mut usize, words: usize) -> Result<()> {
        let start = *position / 8;
        let bytes = block.get(start..start + words * 8).ok_or_else(past_the_end)?;
        for (word, bytes) in bytes.as_chunks::<8>().0.iter().enumerate().take(WORDS_PER_CHUNK) {
            let fields = u64::from_le_bytes(*bytes);
            self.escapes[word] = fields & fields >> 1 & FIELD_LOW_BITS;
            self.low[word] = fields & PAIRS;
            self.high[word] = fields >> 2 & PAIRS;
        }
        *position += words * 64;
        Ok(())
    }

    /// A first level of single bits has them in every other place.
    #[inline(always)]
    fn first_narrow(&mut self, block: &[u8], position: &mut usize, words: usize) -> Result<()> {
        let start = *position / 8;
        let bytes = block.get(start..start + words * 4).ok_or_else(past_the_end)?;
        for (word, bytes) in bytes.as_chunks::<4>().0.iter().enumerate().take(WORDS_PER_CHUNK) {
            let mut fields = u64::from(u32::from_le_bytes(*bytes));
            fields = (fields | fields << 16) & 0x0000_ffff_0000_ffff;
            fields = (fields | fields << 8) & 0x00ff_00ff_00ff_00ff;
            fields = (fields | fields << 4) & 0x0f0f_0f0f_0f0f_0f0f;
            fields = (fields | fields << 2) & PAIRS;
            fields = (fields | fields << 1) & FIELD_LOW_BITS;
            self.escapes[word] = fields;
            self.low[word] = fields & PAIRS;
            self.high[word] = fields >> 2 & PAIRS;
        }
        *position += words * 32;
        Ok(())
    }

    /// Reads the next level for the elements that still escape. Depositing the bits is one loop, since each
    /// position depends on the last; what follows from them is another, which fills vectors.
    #[inline(always)]
    fn descend<K: Steps, const WIDTH: u32>(
        &mut self,
        kernel: K,
        block: &[u8],
        position: &mut usize,
        words: usize,
    ) -> Result<()> {
        let mut next = *position;
        for word in self.escapes.iter_mut().take(words) {
            let escapes = *word;
            let count = WIDTH * escapes.count_ones();
            let window = block.get(next / 8..next / 8 + LOOKAHEAD).ok_or_else(past_the_end)?;
            *word = kernel.deposit::<WIDTH>(bits_at(window, (next % 8) as u32, count), escapes);
            next += count as usize;
        }
        *position = next;
        for ((word, low), high) in self.escapes.iter_mut().zip(&mut self.low).zip(&mut self.high) {
            let fields = *word;
            *low += fields & PAIRS;
            *high += fields >> 2 & PAIRS;
            *word = if WIDTH == 1 { fields } else { fields & fields >> 1 & FIELD_LOW_BITS };
        }
        Ok(())
    }

    #[inline(always)]
    fn look_up<K: Steps>(&self, kernel: K, table: &[u8; 16], symbols: &mut [u8]) {
        let each = self.low.as_chunks::<4>().0.iter().zip(self.high.as_chunks::<4>().0);
        let (whole, tail) = symbols.as_chunks_mut::<128>();
        let complete = whole.len();
        for ((low, high), out) in each.clone().zip(whole) {
            kernel.symbols_of_ranks(low, high, table, out);
        }
        if let Some((low, high)) = each.clone().nth(complete) {
            let mut last = [0; 128];
            kernel.symbols_of_ranks(low, high, table, &mut last);
            tail.copy_from_slice(&last[..tail.len()]);
        }
    }
}

/// The `count` bits that start `skip` bits into the window, with bits of no meaning above them.
#[inline(always)]
fn bits_at(window: &[u8], skip: u32, count: u32) -> u64 {
    let word = |bytes: &[u8]| bytes.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let low = word(window) >> skip;
    if count > 56 {
        return low | word(&window[8..]) << 1 << (63 - skip);
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_any_length_are_appended_in_order() {
        let mut writer = BitStream::default();
        let mut expected = Vec::new();
        let mut state = 1_u64;
        for _ in 0..500 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            let count = (state >> 40) as u32 % 65;
            let bits = state.rotate_left(17) & u64::MAX.checked_shr(64 - count).unwrap_or(0);
            writer.push(bits, count);
            expected.extend((0..count).map(|bit| bits >> bit & 1));
        }
        let bytes = writer.finish();
        assert_eq!(bytes.len(), expected.len().div_ceil(8));
        for (index, &bit) in expected.iter().enumerate() {
            assert_eq!(u64::from(bytes[index / 8] >> (index % 8) & 1), bit);
        }
    }
}
