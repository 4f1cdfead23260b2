//! Frequency tables: symbol counts scaled to a power of two, their compact form in a frame, and the two
//! lookup forms that the coder works with. Everything is integer arithmetic, so a table never depends on the
//! machine that made it.

use super::bits::{BitReader, BitWriter};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// Symbols of an alphabet: the values of a byte.
pub(crate) const SYMBOLS: usize = 256;
/// The finest scale of a table, as a power of two; the decoder's table entry has room for no more.
pub(crate) const MAX_PRECISION: u32 = 12;
/// The coarsest scale: all 256 symbols still fit.
pub(crate) const MIN_PRECISION: u32 = 8;

/// How often each symbol occurs.
pub(crate) type Histogram = [u32; SYMBOLS];

/// Frequencies that sum to `2^precision`, with at least two symbols present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrequencyTable {
    pub precision: u32,
    pub frequencies: [u16; SYMBOLS],
}

impl FrequencyTable {
    /// Scales `counts` so that they sum to `2^precision`, giving every symbol that occurs at least 1, and
    /// spending what rounding leaves where it saves most.
    pub fn normalise(counts: &Histogram, precision: u32) -> Self {
        let size = 1u64 << precision;
        let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        let mut frequencies = [0u16; SYMBOLS];
        let mut sum = 0u64;
        for (frequency, &count) in frequencies.iter_mut().zip(counts) {
            if count > 0 {
                let scaled = (u64::from(count) * size + total / 2) / total;
                *frequency = scaled.clamp(1, size - 1) as u16;
                sum += u64::from(*frequency);
            }
        }
        // A lone symbol cannot own the whole range: an entry has no room for frequency 2^12.
        let mut filler = 0;
        while frequencies.iter().filter(|&&frequency| frequency > 0).count() < 2 {
            if frequencies[filler] == 0 {
                frequencies[filler] = 1;
                sum += 1;
            }
            filler += 1;
        }
        // What rounding leaves is a few steps; more than that (very few symbols, or none counted) goes to the
        // most frequent one.
        let most = (0..SYMBOLS).max_by_key(|&symbol| (counts[symbol], frequencies[symbol])).unwrap_or(0);
        if sum + SYMBOLS as u64 <= size {
            frequencies[most] += (size - sum) as u16;
            sum = size;
        }
        let present: Vec<usize> = (0..SYMBOLS).filter(|&symbol| frequencies[symbol] > 0).collect();
        while sum != size {
            let grow = sum < size;
            // The change in cost of one step is about count / frequency; compare fractions by
            // cross-multiplication.
            let mut best: Option<(usize, (u64, u64))> = None;
            for &symbol in &present {
                if !grow && frequencies[symbol] == 1 {
                    continue;
                }
                let middle = 2 * u64::from(frequencies[symbol]) + 1 - 2 * u64::from(!grow);
                let (a, b) = (u64::from(counts[symbol]), middle);
                let better = best.is_none_or(|(_, (c, d))| if grow { a * d > c * b } else { a * d < c * b });
                if better {
                    best = Some((symbol, (a, b)));
                }
            }
            let Some((symbol, _)) = best else { break };
            if grow {
                frequencies[symbol] += 1;
                sum += 1;
            } else {
                frequencies[symbol] -= 1;
                sum -= 1;
            }
        }
        Self { precision, frequencies }
    }

    /// Appends the compact form: the span of symbols, then each frequency in a Rice code whose parameter
    /// follows its neighbours.
    pub fn write(&self, out: &mut Vec<u8>) {
        let first = self.frequencies.iter().position(|&f| f > 0).unwrap_or(0);
        let last = self.frequencies.iter().rposition(|&f| f > 0).unwrap_or(0);
        let mut bits = BitWriter::new(out);
        bits.put(first as u32, 8);
        bits.put(last as u32, 8);
        let mut neighbours = RiceNeighbours::default();
        let mut left = 1u32 << self.precision;
        for &frequency in &self.frequencies[first..last] {
            let frequency = u32::from(frequency);
            bits.put_rice(frequency, neighbours.rice_parameter());
            neighbours.push(frequency);
            left -= frequency;
        }
        debug_assert_eq!(left, u32::from(self.frequencies[last]));
        bits.finish();
    }

    /// Reads a compact form from the front of `bytes` and says how many bytes it took.
    pub fn read(bytes: &[u8], precision: u32) -> Result<(Self, usize)> {
        let mut bits = BitReader::new(bytes);
        let first = bits.get(8)? as usize;
        let last = bits.get(8)? as usize;
        let mut frequencies = [0u16; SYMBOLS];
        let mut neighbours = RiceNeighbours::default();
        let mut left = 1u32 << precision;
        let span = frequencies.get_mut(first..=last).unwrap_or_default();
        let Some((rest, front)) = span.split_last_mut() else {
            return Err(Error::corrupt("a frequency table's symbol span is reversed"));
        };
        let mut next = 0;
        loop {
            // Zeros come in runs, each of them a single zero bit once there are two.
            if neighbours.are_zero() {
                next += bits.get_zeros(front.len() - next)?;
            }
            let Some(frequency) = front.get_mut(next) else { break };
            next += 1;
            let value = bits.get_rice(neighbours.rice_parameter())?;
            neighbours.push(value);
            left = left
                .checked_sub(value)
                .filter(|&left| left > 0)
                .ok_or_else(|| Error::corrupt("the frequencies of a table exceed its precision"))?;
            *frequency = value as u16;
        }
        if left == 1 << precision {
            return Err(Error::corrupt("a frequency table has fewer than two symbols"));
        }
        *rest = left as u16;
        Ok((Self { precision, frequencies }, bits.bytes_used()))
    }

    /// Reads a compact form at the reader's position.
    pub fn read_from(reader: &mut Reader, precision: u32) -> Result<Self> {
        let (table, used) = Self::read(reader.peek(), precision)?;
        reader.take(used)?;
        Ok(table)
    }

    /// Appends this table's `2^precision` slots, as the decoder's packed entries: symbol (8 bits), offset of
    /// the slot inside its symbol (12 bits), frequency (12 bits).
    pub fn append_slots(&self, slots: &mut Vec<u32>) {
        for (symbol, &frequency) in self.frequencies.iter().enumerate() {
            let frequency = u32::from(frequency);
            slots.extend((0..frequency).map(|offset| symbol as u32 | offset << 8 | frequency << 20));
        }
    }

    /// The encoder's constants for each symbol.
    pub fn encoder_symbols(&self) -> [EncoderSymbol; SYMBOLS] {
        let mut start = 0u32;
        self.frequencies.map(|frequency| {
            let symbol = EncoderSymbol::new(start, u32::from(frequency), self.precision);
            start += u32::from(frequency);
            symbol
        })
    }
}

/// The last two frequencies, from which the next one's magnitude is guessed.
#[derive(Default)]
struct RiceNeighbours(u32, u32);

impl RiceNeighbours {
    fn rice_parameter(&self) -> u32 {
        let mean = (self.0 + self.1) / 2;
        (32 - mean.leading_zeros()).saturating_sub(1)
    }

    fn are_zero(&self) -> bool {
        self.0 | self.1 == 0
    }

    fn push(&mut self, frequency: u32) {
        self.0 = self.1;
        self.1 = frequency;
    }
}

/// What encoding one symbol needs, with the division by its frequency turned into a multiplication.
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct EncoderSymbol {
    /// The quotient of a state is the high half of its product with this, shifted right.
    pub reciprocal: u32,
    /// The frequency (12 bits), the shift (4 bits) and the bias (16 bits).
    pub fields: u32,
}

impl EncoderSymbol {
    fn new(start: u32, frequency: u32, precision: u32) -> Self {
        let (reciprocal, shift, bias) = match frequency {
            0 => return Self::default(),
            // x / 1 = x: the reciprocal yields x - 1, which the bias makes up for.
            1 => (u32::MAX, 0, start + (1 << precision) - 1),
            _ => {
                let shift = 31 - (frequency - 1).leading_zeros();
                ((1u64 << (shift + 32)).div_ceil(u64::from(frequency)) as u32, shift, start)
            }
        };
        Self { reciprocal, fields: frequency | shift << 12 | bias << 16 }
    }

    /// The state after this symbol, from a state that is small enough to take it.
    #[inline(always)]
    pub fn push(self, state: u32, precision: u32) -> u32 {
        let product = u64::from(state) * u64::from(self.reciprocal);
        let quotient = (product >> 32) as u32 >> (self.fields >> 12 & 15);
        let complement = (1 << precision) - self.frequency();
        state.wrapping_add(self.fields >> 16).wrapping_add(quotient.wrapping_mul(complement))
    }

    /// The symbol's share of the range.
    #[inline(always)]
    pub fn frequency(self) -> u32 {
        self.fields & 0xfff
    }
}

/// Bits that `counts` cost under their own ideal code, to 1/1024 bit; integer, so that plans never differ
/// between machines.
pub(crate) fn entropy_bits(counts: &[u32]) -> u64 {
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let cost: u64 =
        counts.iter().map(|&count| u64::from(count) * u64::from(log2_1024(u64::from(count)))).sum();
    (total * u64::from(log2_1024(total))).saturating_sub(cost) / 1024
}

/// `1024 * log2(value)`.
pub(crate) fn log2_1024(value: u64) -> u32 {
    /// For the counts of small tensors, whose tables would take longer to estimate than to use.
    static SMALL: [u32; 2048] = {
        let mut table = [0; 2048];
        let mut value = 0;
        while value < table.len() {
            table[value] = square_repeatedly(value as u64);
            value += 1;
        }
        table
    };
    let small = usize::try_from(value).ok().and_then(|value| SMALL.get(value));
    small.copied().unwrap_or_else(|| square_repeatedly(value))
}

/// The bits of the logarithm, by repeated squaring of the mantissa.
const fn square_repeatedly(value: u64) -> u32 {
    if value < 2 {
        return 0;
    }
    let exponent = value.ilog2();
    let mut mantissa = if exponent > 31 { value >> (exponent - 31) } else { value << (31 - exponent) };
    let mut fraction = 0;
    let mut bit = 0;
    while bit < 10 {
        bit += 1;
        mantissa = (mantissa * mantissa) >> 31;
        fraction <<= 1;
        if mantissa >> 32 != 0 {
            mantissa >>= 1;
            fraction |= 1;
        }
    }
    exponent * 1024 + fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn logarithms_are_close() {
        for value in [2u64, 3, 5, 1000, 65535, 1 << 40, u64::MAX] {
            let exact = (value as f64).log2() * 1024.0;
            assert!((f64::from(log2_1024(value)) - exact).abs() < 2.0, "{value}");
        }
        assert_eq!(entropy_bits(&[512, 512]), 1024);
    }

    proptest! {
        #[test]
        fn tables_sum_and_survive(
            counts in proptest::collection::vec((0usize..256, 1u32..1_000_000), 1..256),
            precision in MIN_PRECISION..=MAX_PRECISION,
        ) {
            let mut histogram = [0u32; SYMBOLS];
            for (symbol, count) in counts {
                histogram[symbol] = count;
            }
            let table = FrequencyTable::normalise(&histogram, precision);
            let sum: u32 = table.frequencies.iter().map(|&f| u32::from(f)).sum();
            prop_assert_eq!(sum, 1 << precision);
            for (&count, &frequency) in histogram.iter().zip(&table.frequencies) {
                prop_assert!(count == 0 || frequency > 0);
            }
            let mut bytes = Vec::new();
            table.write(&mut bytes);
            let (read, used) = FrequencyTable::read(&bytes, precision).unwrap();
            prop_assert_eq!(&read, &table);
            prop_assert_eq!(used, bytes.len());
        }

        #[test]
        fn any_bytes_give_a_table_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok((table, _)) = FrequencyTable::read(&bytes, 11) {
                let sum: u32 = table.frequencies.iter().map(|&f| u32::from(f)).sum();
                prop_assert_eq!(sum, 2048);
            }
        }
    }
}
