//! Frames made by hand, as `spec/z4ai.md` lays them out and without the library: forms that every reader must
//! know, but that the encoder has no use for.

mod casts;
mod contexts;

use super::Random;
use twox_hash::XxHash3_64;

/// A frame, and what it decodes to.
pub struct Handmade {
    pub name: String,
    pub bytes: Vec<u8>,
    pub frame: Vec<u8>,
}

/// Every frame.
pub fn all() -> Vec<Handmade> {
    let mut made = Vec::new();
    for precision in 8..=12 {
        for contexts in [1, 4] {
            made.push(float(precision, contexts));
        }
    }
    (0..4).for_each(|bits| made.push(subnormal(bits)));
    for (widths, spelled) in [
        (&[1][..], true),
        (&[2], false),
        (&[1, 2], true),
        (&[2, 1, 1], false),
        (&[1, 1, 1, 2, 1, 2], false),
        (&[2, 1, 1, 1, 1, 1, 1], true),
        (&[1, 1, 1, 1, 1, 1, 1, 2], true),
    ] {
        made.push(nested(widths, spelled));
    }
    made.push(planes());
    made.push(sparse());
    made.push(cast_from_e4m3());
    made.push(cast_from_e5m2());
    made.extend(casts::all());
    for (bits, parts) in [(0, 0), (1, 1), (2, 2), (4, 3)] {
        made.push(contexts::scaled(bits, parts));
    }
    for (bits, precision) in [(0, 8), (1, 9), (2, 11), (4, 12)] {
        made.push(contexts::given(bits, precision));
    }
    made.push(stored());
    made.push(shape_without_length());
    made
}

const BF16: u8 = 1;
const FP16: u8 = 2;
const U8: u8 = 8;
const U32: u8 = 12;
const HAS_LENGTH: u8 = 1;
const HAS_SHAPE: u8 = 2;

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn zigzag(value: i64) -> Vec<u8> {
    varint(((value << 1) ^ (value >> 63)) as usize)
}

fn sum32(bytes: &[u8]) -> [u8; 4] {
    (XxHash3_64::oneshot(bytes) as u32).to_le_bytes()
}

/// A header of default effort, with these fields between the dtype and the checksum.
fn header(flags: u8, dtype: u8, fields: &[u8]) -> Vec<u8> {
    let mut header = [b"Z4AI\x02", &[flags | 1 << 4, dtype][..], fields].concat();
    header.extend((XxHash3_64::oneshot(&header) as u16).to_le_bytes());
    header
}

/// A frame whose section has a coded block, in the short form.
fn short(name: &str, dtype: u8, bytes: Vec<u8>, model: &[u8], block: &[u8]) -> Handmade {
    let mut frame = header(HAS_LENGTH, dtype, &varint(bytes.len()));
    let block = [&[0], block].concat();
    frame.extend(
        [&[0], &varint(model.len())[..], &varint(block.len()), &sum32(&bytes), model, &block].concat(),
    );
    Handmade { name: name.to_owned(), bytes, frame }
}

/// A section in the long form, of blocks with their decoded bytes; a block length of 0 says that there is
/// one.
fn section(block_length: usize, model: &[u8], blocks: &[(&[u8], &[u8])]) -> Vec<u8> {
    let decoded: usize = blocks.iter().map(|(decoded, _)| decoded.len()).sum();
    let mut bytes = [varint(2 * decoded), varint(block_length), varint(model.len())].concat();
    blocks.iter().for_each(|(_, block)| bytes.extend(varint(block.len())));
    blocks.iter().for_each(|(decoded, _)| bytes.extend(sum32(decoded)));
    bytes.extend_from_slice(model);
    bytes.extend(sum32(&bytes));
    blocks.iter().for_each(|(_, block)| bytes.extend_from_slice(block));
    bytes
}

/// Bits from the least significant one of each byte on.
#[derive(Default)]
struct BitFields {
    bytes: Vec<u8>,
    used: usize,
}

impl BitFields {
    fn put(&mut self, value: u32, width: u32) {
        for bit in 0..width {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= ((value >> bit & 1) as u8) << (self.used % 8);
            }
            self.used += 1;
        }
    }
}

/// Frequencies that sum to a power of two.
struct Frequencies {
    precision: u32,
    each: [u32; 256],
}

impl Frequencies {
    /// About in proportion to the counts of symbols and of two that every table has.
    fn of(symbols: impl Iterator<Item = u8>, always: [u8; 2], precision: u32) -> Self {
        let mut counts = [0u32; 256];
        symbols.chain(always).for_each(|symbol| counts[usize::from(symbol)] += 1);
        let (total, size): (u32, u32) = (counts.iter().sum(), 1 << precision);
        let mut each = counts.map(|count| if count == 0 { 0 } else { (count * size / total).max(1) });
        // What rounding has lost or added is the largest one's.
        let largest = (0..256).max_by_key(|&symbol| each[symbol]).unwrap_or(0);
        each[largest] = size + each[largest] - each.iter().sum::<u32>();
        Self { precision, each }
    }

    fn write(&self) -> Vec<u8> {
        let occurs = |symbol: &usize| self.each[*symbol] > 0;
        let (first, last) = ((0..256).find(occurs).unwrap_or(0), (0..256).rfind(occurs).unwrap_or(0));
        let mut bits = BitFields::default();
        bits.put(first as u32, 8);
        bits.put(last as u32, 8);
        let mut before = [0u32; 2];
        for &value in &self.each[first..last] {
            let parameter = ((before[0] + before[1]) / 2).checked_ilog2().unwrap_or(0);
            if value >> parameter >= 12 {
                bits.put(0xfff, 12);
                bits.put(value, 16);
            } else {
                bits.put((1 << (value >> parameter)) - 1, (value >> parameter) + 1);
                bits.put(value & ((1 << parameter) - 1), parameter);
            }
            before = [before[1], value];
        }
        bits.bytes
    }
}

/// The stream of symbols in their contexts, with the number of lanes that so many have.
fn rans(symbols: &[u8], contexts: &[usize], tables: &[Frequencies]) -> Vec<u8> {
    let lanes = if symbols.len() < 512 { 1 } else { 4 };
    let (mut states, mut words) = (vec![1u32 << 15; lanes], Vec::new());
    for (index, (&symbol, &context)) in symbols.iter().zip(contexts).enumerate().rev() {
        let (table, state) = (&tables[context], &mut states[index % lanes]);
        let frequency = table.each[usize::from(symbol)];
        let start: u32 = table.each[..usize::from(symbol)].iter().sum();
        if u64::from(*state) >= u64::from(frequency) << (31 - table.precision) {
            words.push(*state as u16);
            *state >>= 16;
        }
        *state = ((*state / frequency) << table.precision) + *state % frequency + start;
    }
    let mut stream: Vec<u8> = states.iter().flat_map(|state| state.to_le_bytes()).collect();
    stream.extend(words.iter().rev().flat_map(|word| word.to_le_bytes()));
    [varint(stream.len()), stream].concat()
}

/// A counted plane of bytes as they are.
fn counted_plane(bytes: &[u8]) -> Vec<u8> {
    [&varint(bytes.len())[..], &[0], bytes].concat()
}

fn words(elements: &[u16]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_le_bytes()).collect()
}

/// bf16 weights of about the same magnitude, some of them zero.
fn weights(count: usize, seed: u64) -> Vec<u16> {
    let mut random = Random::new(seed);
    let weight = |random: &mut Random| if random.below(50) == 0 { 0 } else { super::bf16(random.normal()) };
    (0..count).map(|_| weight(&mut random)).collect()
}

/// The model of bf16 weights in rows of 50 whose scales differ by steps, and their block.
fn float_parts(elements: &[u16], precision: u32, contexts: usize) -> (Vec<u8>, Vec<u8>) {
    const BASE: i64 = 4 * 126;
    const ROW: usize = 50;
    let rows = elements.len().div_ceil(ROW);
    let expected = |index: usize| BASE + (index / ROW % 6) as i64 - 2;
    let (mut symbols, mut of_context, mut escapes, mut fields) = (vec![], vec![], vec![], vec![]);
    for (index, &element) in elements.iter().enumerate() {
        let (exponent, mantissa) = (i64::from(element >> 7 & 0xff), element & 0x7f);
        let part = exponent + 48 - expected(index).div_euclid(4);
        // Few parts, so that their symbols fit the coarsest precision.
        let part = if (40..52).contains(&part) { part as u8 } else { 0 };
        if part == 0 {
            escapes.push(exponent as u8);
        }
        symbols.push(part << 2 | (mantissa >> 5) as u8);
        of_context.push(expected(index).rem_euclid(4) as usize % contexts);
        fields.push(u32::from(mantissa & 0x1f | element >> 15 << 5));
    }
    let tables: Vec<Frequencies> = (0..contexts)
        .map(|context| {
            let mine = symbols.iter().zip(&of_context).filter(|(_, of)| **of == context);
            Frequencies::of(mine.map(|(symbol, _)| *symbol), [0, 1], precision)
        })
        .collect();
    let mut model = vec![2, (u8::from(contexts == 4) << 2) | (precision as u8) << 3];
    model.extend(zigzag(BASE));
    // Rows, in a plane of bytes as they are.
    model.push(1);
    model.extend(varint(ROW));
    model.push(0);
    model.extend((0..rows).map(|row| (row % 6) as u8).map(|step| step.wrapping_sub(2)));
    tables.iter().for_each(|table| model.extend(table.write()));
    let mut block = rans(&symbols, &of_context, &tables);
    block.extend(counted_plane(&escapes));
    // Fields of six bits: four, then two, strided.
    for chunk in fields.chunks(4096) {
        let mut taken = 0;
        for width in [4, 2] {
            let stride = (chunk.len() * width).div_ceil(8);
            block.extend((0..stride).map(|byte| {
                let field = |place: usize| chunk.get(byte + place * stride).copied().unwrap_or(0);
                let part = |place: usize| (field(place) >> taken & ((1 << width) - 1)) << (place * width);
                (0..8 / width).map(part).sum::<u32>() as u8
            }));
            taken += width;
        }
    }
    (model, block)
}

fn float(precision: u32, contexts: usize) -> Handmade {
    let elements = weights(700, u64::from(precision));
    let (model, block) = float_parts(&elements, precision, contexts);
    short(&format!("float-{precision}-bits-{contexts}"), BF16, words(&elements), &model, &block)
}

/// fp16 numbers of small magnitude in rows whose expectations choose among `2^bits` contexts and beyond them.
fn subnormal(bits: u32) -> Handmade {
    const ROW: usize = 40;
    let mut random = Random::new(u64::from(bits) + 100);
    let elements: Vec<u16> = (0..600)
        .map(|index| (random.below(2 << (index / ROW % 12)) as u16) | (random.below(2) as u16) << 15)
        .collect();
    let (contexts, rows) = (1usize << bits, elements.len() / ROW);
    let (mut symbols, mut of_context, mut verbatim) = (vec![], vec![], BitFields::default());
    for (index, &element) in elements.iter().enumerate() {
        let magnitude = element & 0x7fff;
        let (exponent, mantissa) = match magnitude.checked_ilog2() {
            None => (0, 0),
            Some(highest) if highest < 10 => (highest + 1, u32::from(magnitude) << (10 - highest) & 0x3ff),
            Some(_) => (u32::from(magnitude >> 10) + 10, u32::from(magnitude & 0x3ff)),
        };
        symbols.push((exponent << 2 | mantissa >> 8) as u8);
        of_context.push((index / ROW % 12).saturating_sub(1).min(contexts - 1));
        verbatim.put(u32::from(element >> 15), 1);
        let width = exponent.saturating_sub(3).min(8);
        verbatim.put(u32::from(magnitude) & ((1 << width) - 1), width);
    }
    let tables: Vec<Frequencies> = (0..contexts)
        .map(|context| {
            let mine = symbols.iter().zip(&of_context).filter(|(_, of)| **of == context);
            // Symbols that no magnitude has, such as 1, must have no frequency; 0 and 4 are those of 0 and 1.
            Frequencies::of(mine.map(|(symbol, _)| *symbol), [0, 4], 10)
        })
        .collect();
    let mut model = vec![11, (bits as u8) << 2];
    model.extend(zigzag(20));
    model.extend([1, ROW as u8, 0]);
    model.extend((0..rows).map(|row| (row % 12) as u8));
    model.extend(zigzag(21));
    tables.iter().for_each(|table| model.extend(table.write()));
    let block = [rans(&symbols, &of_context, &tables), verbatim.bytes].concat();
    short(&format!("subnormal-{contexts}-contexts"), FP16, words(&elements), &model, &block)
}

/// bf16 weights in the code of levels with so many bits.
fn nested(widths: &[u32], spelled: bool) -> Handmade {
    let elements = weights(4500, widths.len() as u64);
    let padded = elements.len().next_multiple_of(256);
    let ranks: u32 = widths.iter().map(|width| (1 << width) - 1).sum();
    let ranks = ranks as usize;
    // The most frequent exponents of the weights come first; without spelling the last rank is all others',
    // which must be one.
    let exponent = |element: u16| (element >> 7) as u8;
    let symbols: Vec<u8> = (0..=ranks).map(|rank| 126u8.wrapping_sub(rank as u8)).collect();
    let known = |element: u16| symbols[..=ranks].contains(&exponent(element));
    let elements: Vec<u16> = elements
        .into_iter()
        .map(|element| {
            if spelled || known(element) {
                element
            } else {
                element & 0x807f | u16::from(symbols[ranks]) << 7
            }
        })
        .collect();
    let rank = |index: usize| {
        let Some(&element) = elements.get(index) else { return 0 };
        symbols[..ranks].iter().position(|symbol| *symbol == exponent(element)).unwrap_or(ranks)
    };
    let (mut levels, mut spellings): (Vec<BitFields>, Vec<u8>) =
        (widths.iter().map(|_| BitFields::default()).collect(), vec![]);
    for start in (0..padded).step_by(128) {
        for place in 0..128 {
            let (word, byte, part) = (place >> 5, place >> 2 & 7, place & 3);
            let index = start + 8 * word + byte + 32 * part;
            let mut left = rank(index) as u32;
            let mut named = false;
            for (level, &width) in levels.iter_mut().zip(widths) {
                let escape = (1 << width) - 1;
                level.put(left.min(escape), width);
                if left < escape {
                    named = true;
                    break;
                }
                left -= escape;
            }
            if spelled && !named {
                spellings.push(exponent(elements[index]));
            }
        }
    }
    let two_bits =
        widths.iter().enumerate().fold(0, |bits, (level, &width)| bits | u8::from(width == 2) << level);
    let mut block = vec![widths.len() as u8 | u8::from(spelled) << 7, two_bits];
    block.extend_from_slice(&symbols[..ranks + usize::from(!spelled)]);
    levels[1..].iter().for_each(|level| block.extend((level.bytes.len() as u32).to_le_bytes()));
    if spelled {
        block.extend((spellings.len() as u32).to_le_bytes());
    }
    // Chunks without zeros at the end of the mantissa, and with their signs.
    block.extend([0, 0]);
    levels[1..].iter().for_each(|level| block.extend_from_slice(&level.bytes));
    block.extend_from_slice(&spellings);
    block.extend_from_slice(&levels[0].bytes);
    block.extend(elements.iter().map(|element| (element & 0x7f) as u8 | (element >> 15 << 7) as u8));
    block.extend([0; 16]);
    let block = [varint(block.len()), block].concat();
    let name = format!("nested-{}-levels{}", widths.len(), if spelled { "-spelled" } else { "" });
    short(&name, BF16, words(&elements), &[4, 0, 0], &block)
}

/// Integers with a plane of each kind.
fn planes() -> Handmade {
    let mut random = Random::new(7);
    let skewed: Vec<u8> = (0..300).map(|_| (random.below(4) * random.below(4)) as u8).collect();
    let noise: Vec<u8> = (0..300).map(|_| random.below(256) as u8).collect();
    let table = Frequencies::of(skewed.iter().copied(), [0, 1], 12);
    let model = [&[3, 0, 2][..], &table.write(), &[1, 9, 0]].concat();
    let block = [&noise[..], &rans(&skewed, &[0; 300], &[table]), &noise].concat();
    let bytes = noise.iter().zip(&skewed).flat_map(|(&noise, &skewed)| [noise, skewed, 9, noise]).collect();
    short("planes-of-each-kind", U32, bytes, &model, &block)
}

/// Zeros behind a bitmap that is one byte repeated, with a float model of a coarse precision inside.
fn sparse() -> Handmade {
    let dense = weights(400, 8).into_iter().map(|element| if element == 0 { 1 << 7 } else { element });
    let dense: Vec<u16> = dense.collect();
    let elements: Vec<u16> = dense.iter().flat_map(|&element| [0, element]).collect();
    let (inner, coded) = float_parts(&dense, 9, 1);
    // Its own rows are counted in a section of as many elements as there are with the zeros.
    let (model, block) = (inner, [&[1, 0xaa][..], &counted_plane(&[]), &coded].concat());
    let rows = elements.len().div_ceil(50) - dense.len().div_ceil(50);
    let at = model.iter().position(|&byte| byte == 50).map_or(0, |row| row + 2 + dense.len().div_ceil(50));
    let model = [&[7], &model[..at], &vec![0; rows], &model[at..]].concat();
    short("sparse-constant-bitmap", BF16, words(&elements), &model, &block)
}

/// Casts whose codes are in a plane of bytes as they are, with elements in place of some of what they stand
/// for.
fn cast(
    name: &str,
    dtype: u8,
    source: u8,
    codes: &[u8],
    exceptions: &[(u8, u16)],
    elements: &[u16],
) -> Handmade {
    let mut block = varint(exceptions.len());
    block.extend(exceptions.iter().map(|(gap, _)| gap));
    block.extend(exceptions.iter().flat_map(|(_, element)| element.to_le_bytes()));
    block.extend([&varint(codes.len()), codes].concat());
    short(name, dtype, words(elements), &[12, source, 3, 0], &block)
}

/// Every code of e4m3 in bf16, those of NaN too, which stand for 480; and two exceptions.
fn cast_from_e4m3() -> Handmade {
    let codes: Vec<u8> = (0..=255).collect();
    let number = |code: u8| {
        let (exponent, mantissa) = (i32::from(code >> 3 & 15), f32::from(code & 7));
        let power = |power: i32| f32::from_bits(((127 + power) as u32) << 23);
        let size = if exponent == 0 { mantissa * power(-9) } else { (8.0 + mantissa) * power(exponent - 10) };
        if code > 127 { -size } else { size }
    };
    let mut elements: Vec<u16> = codes.iter().map(|&code| super::bf16(number(code))).collect();
    (elements[100], elements[201]) = (0x7fc0, 0x0001);
    cast("cast-from-e4m3", BF16, 5, &codes, &[(100, 0x7fc0), (100, 1)], &elements)
}

/// Every code of e5m2 that is a number, in fp16, of which they are the upper halves.
fn cast_from_e5m2() -> Handmade {
    let codes: Vec<u8> = (0..=255).filter(|code| code & 0x7f <= 0x7c).collect();
    let elements: Vec<u16> = codes.iter().map(|&code| u16::from(code) << 8).collect();
    cast("cast-from-e5m2", FP16, 6, &codes, &[], &elements)
}

/// Stored blocks of a section in the long form.
fn stored() -> Handmade {
    let bytes: Vec<u8> = words(&weights(90, 9));
    let mut frame = header(HAS_LENGTH, 0, &varint(bytes.len()));
    let blocks: Vec<(&[u8], &[u8])> = bytes.chunks(80).map(|block| (block, block)).collect();
    frame.extend(section(80, &[0], &blocks));
    Handmade { name: "stored-blocks".to_owned(), bytes, frame }
}

/// A shape in a frame that ends with a mark.
fn shape_without_length() -> Handmade {
    let bytes = words(&[0x3f80; 60]);
    let mut frame = header(HAS_SHAPE, BF16, &[2, 6, 10]);
    frame.extend(section(0, &[3, 0, 0], &[(&bytes, &[2, 0x80, 0x3f])]));
    frame.push(0);
    Handmade { name: "shape-without-length".to_owned(), bytes, frame }
}
