//! The code itself: which exponent symbols get short codewords, and how many bits each nesting level spends.
//!
//! Symbols are ranked by frequency. A level of width `w` names the next `2^w - 1` ranks and keeps one value
//! to say "look in the next level"; what is left after the last level is either one single symbol or spelled
//! out as a byte. The widths are chosen to minimise the size of this very block, so a skewed exponent gets
//! one-bit levels and a spread one gets two.

use crate::error::{Error, Result};

/// Most levels a block may have; the ranks must also fit a four-bit field.
pub(crate) const MAX_LEVELS: usize = 8;
/// Ranks are summed over the levels in four-bit fields.
const MAX_RANKS: usize = 15;

/// A nested code for one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Code {
    /// Width in bits (1 or 2) of each level.
    pub(crate) widths: Vec<u32>,
    /// The symbol of each rank. The entry after the last named rank is the symbol of elements that escape
    /// every level, when there is only one such symbol.
    pub(crate) symbols: [u8; 16],
    /// Whether elements that escape every level are spelled out as bytes.
    pub(crate) spelled: bool,
}

impl Code {
    /// How many ranks the levels name.
    pub(crate) fn named_ranks(&self) -> usize {
        self.widths.iter().map(|&width| (1 << width) - 1).sum()
    }

    /// The smallest code for symbols with these frequencies. Each level costs decoding time, so it must earn
    /// its place.
    pub(crate) fn design(histogram: &[u32; 256]) -> Self {
        let mut order: Vec<u8> = (0..=255).collect();
        order.sort_by_key(|&symbol| (std::cmp::Reverse(histogram[usize::from(symbol)]), symbol));
        let total: u64 = histogram.iter().map(|&count| u64::from(count)).sum();
        let mut rest = [0_u64; 258];
        for rank in (0..256).rev() {
            rest[rank] = rest[rank + 1] + u64::from(histogram[usize::from(order[rank])]);
        }
        let level_price = total / 40;
        let mut best = [[u64::MAX; MAX_RANKS + 1]; MAX_LEVELS + 1];
        let mut choice = [[0_u32; MAX_RANKS + 1]; MAX_LEVELS + 1];
        for used in (0..=MAX_LEVELS).rev() {
            for rank in (0..=MAX_RANKS).rev() {
                let single = rest[rank + 1] == 0;
                best[used][rank] = if single { 0 } else { 8 * rest[rank] };
                if used == MAX_LEVELS || single {
                    continue;
                }
                for width in [1_u32, 2] {
                    let next = rank + (1 << width) - 1;
                    if next > MAX_RANKS {
                        continue;
                    }
                    let cost = u64::from(width) * rest[rank] + level_price + best[used + 1][next];
                    if cost < best[used][rank] {
                        best[used][rank] = cost;
                        choice[used][rank] = width;
                    }
                }
            }
        }
        let mut widths = Vec::with_capacity(MAX_LEVELS);
        let mut rank = 0;
        while let Some(&width) =
            choice.get(widths.len()).and_then(|row| row.get(rank)).filter(|&&width| width > 0)
        {
            widths.push(width);
            rank += (1 << width) - 1;
        }
        let spelled = rest[rank + 1] > 0;
        let mut symbols = [0; 16];
        let known = rank + usize::from(!spelled);
        symbols[..known].copy_from_slice(&order[..known]);
        Self { widths, symbols, spelled }
    }

    /// The rank of every symbol; symbols without a codeword get the rank that escapes every level.
    pub(crate) fn ranks(&self) -> [u8; 256] {
        let named = self.named_ranks();
        let mut ranks = [named as u8; 256];
        for (rank, &symbol) in self.symbols.iter().take(named).enumerate() {
            ranks[usize::from(symbol)] = rank as u8;
        }
        ranks
    }

    /// Appends the stored form: level count and flag, widths, symbols.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let wide = self
            .widths
            .iter()
            .enumerate()
            .fold(0, |bits, (level, &width)| bits | ((width as u8 - 1) << level));
        out.push(self.widths.len() as u8 | u8::from(self.spelled) << 7);
        out.push(wide);
        out.extend_from_slice(&self.symbols[..self.named_ranks() + usize::from(!self.spelled)]);
    }

    /// Reads the stored form from the front of `bytes` and returns what follows it.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let short = || Error::corrupt("a nested block ends inside its code");
        let (&[head, wide], rest) = bytes.split_first_chunk::<2>().ok_or_else(short)?;
        let levels = usize::from(head & 0x7f);
        if levels > MAX_LEVELS || u32::from(wide) >> levels != 0 {
            return Err(Error::corrupt("a nested block has at most eight levels"));
        }
        let widths: Vec<u32> = (0..levels).map(|level| 1 + u32::from(wide >> level & 1)).collect();
        let mut code = Self { widths, symbols: [0; 16], spelled: head & 0x80 != 0 };
        let named = code.named_ranks();
        if named > MAX_RANKS {
            return Err(Error::corrupt("a nested block names at most fifteen ranks"));
        }
        let stored = named + usize::from(!code.spelled);
        let (symbols, rest) = rest.split_at_checked(stored).ok_or_else(short)?;
        code.symbols.iter_mut().zip(symbols).for_each(|(slot, &symbol)| *slot = symbol);
        Ok((code, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_symbol_needs_no_level() {
        let mut histogram = [0; 256];
        histogram[77] = 1000;
        let code = Code::design(&histogram);
        assert_eq!((code.widths.len(), code.symbols[0], code.spelled), (0, 77, false));
    }

    #[test]
    fn skew_takes_a_narrow_first_level() {
        let mut histogram = [0; 256];
        histogram[1] = 10_000;
        histogram[2] = 800;
        histogram[3] = 700;
        assert_eq!(Code::design(&histogram).widths[0], 1);
        histogram = [0; 256];
        histogram[10..14].fill(5000);
        assert_eq!(Code::design(&histogram).widths, [2]);
    }

    #[test]
    fn stored_form_reads_back_and_every_truncation_is_refused() {
        let mut histogram = [0; 256];
        for (symbol, count) in histogram.iter_mut().enumerate() {
            *count = 1_000_000 >> (symbol / 3).min(19);
        }
        let code = Code::design(&histogram);
        assert!(code.spelled);
        let mut bytes = Vec::new();
        code.write(&mut bytes);
        assert_eq!(Code::read(&bytes).unwrap(), (code, &[][..]));
        for end in 0..bytes.len() {
            assert!(Code::read(&bytes[..end]).is_err());
        }
    }
}
