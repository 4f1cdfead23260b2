//! Frames and deltas of every model, dtype and effort from a few bytes, the other forms that the same data
//! may take, and mutants of them behind the checksums. Every implementation of the hot loops must restore the
//! same from each of them, from and into memory that is exactly as long as it must be.

use super::choices::Choices;
use super::data::{self, Make};
use super::parts::{BlockParts, Parts, SectionParts, put};
use crate::arch::Kernel;
use crate::dtype::Dtype;
use crate::frame::unchecked;
use crate::options::{Effort, Options};

/// Mutants of each frame.
const MUTANTS: usize = 12;
/// Mutants that claim to be longer are not decoded.
const LARGEST_MUTANT: u64 = 1 << 20;

/// A buffer and what it is coded with.
struct Case {
    options: Options,
    current: Vec<u8>,
    /// What a delta is made against.
    reference: Option<Vec<u8>>,
}

/// Tries one case and its mutants, and says which models it came to, as `model dtype effort`. Panics if
/// something is wrong.
pub fn run(input: &[u8]) -> Vec<String> {
    let mut choices = Choices(input);
    let case = Case::read(&mut choices, None);
    let kernels = super::portable_and_one(choices.byte());
    let parts = case.parts(&kernels);
    let reference = case.reference.as_deref().unwrap_or_default();
    // The donor of the other forms and of mutants: another frame of the same dtype, or of any.
    let donor_dtype = if choices.below(4) == 0 { None } else { Some(case.options.dtype) };
    let donor = (choices.below(4) == 0).then(|| {
        let case = Case { reference: None, ..Case::read(&mut choices, donor_dtype) };
        let parts = case.parts(&kernels[..1]);
        (case, parts)
    });
    let (form, expected) = another_form(&case, &parts, donor.as_ref(), &mut choices);
    let decoded = super::decompress_against(&form.frame(), reference);
    assert!(decoded == Some(expected), "a frame in another form decodes to other bytes");
    for _ in 0..MUTANTS {
        if choices.is_empty() {
            break;
        }
        let (mut mutant, mut reference) = (parts.clone(), reference.to_vec());
        for _ in 0..1 + choices.below(3) {
            mutate(&mut mutant, donor.as_ref().map(|(_, parts)| parts), &mut choices);
        }
        if choices.below(16) == 0 {
            reference.truncate(choices.below(reference.len() + 1));
            reference.shrink_to_fit();
        }
        unchecked(|| survive(&mutant, &reference, choices.below(4) == 0));
    }
    parts.sections.iter().flat_map(|section| sightings(section, &case.options)).collect()
}

impl Case {
    fn read(choices: &mut Choices, dtype: Option<Option<Dtype>>) -> Self {
        let dtypes: Vec<Option<Dtype>> = Dtype::all().map(Some).chain([None]).collect();
        let any = choices.pick(&dtypes);
        let dtype = dtype.unwrap_or(any);
        let effort = choices.pick(&[Effort::Fast, Effort::Default, Effort::Max]);
        let (make, seed) = (choices.pick(&Make::ALL), choices.short() as u64);
        let mut count = match choices.byte() {
            0..=63 => choices.below(80),
            64..=151 => choices.below(700),
            152..=231 => choices.below(6000),
            // Where eight lanes, 32 and 64 begin.
            232..=249 => 8192 + choices.below(3000),
            250..=254 => 32_768 + choices.below(3000),
            255 => 98_304 + choices.below(5000),
        };
        let width = dtype.map_or(1, Dtype::width);
        // A second for one case would be most of what a fuzzer does.
        count = count.min(if effort == Effort::Max { 1 << 16 } else { 1 << 18 } / width);
        let (row, is_kernel) = match choices.byte() {
            0..=79 => (0, false),
            80..=159 => (1 + choices.below(200), false),
            160..=223 => (32 * (1 + choices.below(8)), false),
            224.. => (9 * (1 + choices.below(20)), true),
        };
        let mut options = Options { dtype, effort, threads: 1, ..Options::default() };
        if width == 1 && choices.below(4) == 0 {
            options.records = data::record_layout(choices.below(4));
        }
        if let Some(rows) = count.checked_div(row) {
            count = rows * row;
            let (rows, row) = (rows as u64, row as u64);
            options.shape = Some(if is_kernel { vec![rows, row / 9, 3, 3] } else { vec![rows, row] });
        }
        let mut base = data::buffer(make, dtype, count, row.max(1), seed);
        match choices.byte() {
            // What occurs twice is stored once.
            0..=15 if row == 0 => base.extend_from_within(..),
            16..=31 if row == 0 => {
                let other = choices.pick(&Make::ALL);
                base.extend(data::buffer(other, dtype, count, 1, seed + 1));
            }
            // An unfinished element.
            32..=63 if row == 0 => base.extend((0..choices.below(width) as u8).map(|byte| byte ^ seed as u8)),
            64..=71 => options.numpy_dtype = Some("<f2".to_owned()),
            _ => {}
        }
        let (current, reference) = match choices.byte() {
            0..=159 => (base, None),
            160..=167 => (base.clone(), Some(base)),
            168..=175 => {
                (base, Some(data::buffer(choices.pick(&Make::ALL), dtype, count, row.max(1), seed + 2)))
            }
            176.. => {
                let (reach, rarity) = (1 + choices.below(40) as u32, [1, 2, 30, 700][choices.below(4)]);
                let current = data::moved(&base, width, reach, rarity, seed);
                // A reference may be shorter or longer.
                match choices.below(8) {
                    0 => base.truncate(choices.below(base.len() + 1)),
                    1 => base.extend_from_slice(&[7; 33]),
                    _ => {}
                }
                base.shrink_to_fit();
                (current, Some(base))
            }
        };
        Self { options, current, reference }
    }

    /// The fields of the frame, which all of `kernels` make and restore.
    fn parts(&self, kernels: &[Kernel]) -> Parts {
        let frame = match &self.reference {
            Some(reference) => {
                super::compress_delta_on_each(&self.current, reference, &self.options, kernels)
            }
            None => super::compress_on_each(&self.current, &self.options, kernels),
        };
        let parts = Parts::of(&frame);
        assert!(parts.frame() == frame, "a frame that comes apart gives another one");
        parts
    }
}

/// A frame that an encoder may write just as well, and what it decodes to.
fn another_form(
    case: &Case,
    parts: &Parts,
    donor: Option<&(Case, Parts)>,
    choices: &mut Choices,
) -> (Parts, Vec<u8>) {
    let mut long = Parts { shape: None, ..parts.clone() };
    long.sections.iter_mut().for_each(|section| section.short = false);
    let whole = case.current.len().is_multiple_of(case.options.scalar_width());
    match (choices.below(4), donor, &mut long.sections[..]) {
        (0, _, _) => long.length = None,
        // A section can follow another one only between elements.
        (1, Some((other, tail)), _)
            if whole && case.reference.is_none() && case.options.dtype == other.options.dtype =>
        {
            long.length = Some((case.current.len() + other.current.len()) as u64);
            long.sections.extend_from_slice(&tail.sections);
            return (long, [&case.current[..], &other.current].concat());
        }
        (2, _, [section]) if case.reference.is_none() && section.copies.is_empty() => {
            let length = case.current.len();
            let (gap, copied) = (choices.below(length + 1), 1 + choices.below(length));
            let source = choices.below(length - copied + 1);
            section.copies = vec![[gap as u64, copied as u64, source as u64]];
            section.length += copied as u64;
            let (before, after) = case.current.split_at(gap);
            let expected = [before, &case.current[source..source + copied], after].concat();
            long.length = Some(expected.len() as u64);
            return (long, expected);
        }
        _ => {}
    }
    (long, case.current.clone())
}

/// Changes one thing about a frame.
fn mutate(parts: &mut Parts, donor: Option<&Parts>, choices: &mut Choices) {
    let donated = donor.and_then(|donor| donor.sections.get(choices.below(donor.sections.len())));
    let index = choices.below(parts.sections.len());
    let Some(section) = parts.sections.get_mut(index) else {
        return mutate_header(parts, choices);
    };
    let index = choices.below(section.blocks.len());
    match choices.byte() {
        // The model is short and steers everything.
        0..=95 => mutate_bytes(&mut section.model, choices),
        96..=175 => mutate_bytes(&mut section.blocks[index].payload, choices),
        176..=183 => section.length = number(section.length, choices) % (1 << 29),
        184..=191 => section.block_length = number(section.block_length, choices) % (1 << 29),
        192..=199 => {
            let copy = [(); 3].map(|()| number(choices.short() as u64, choices) % (1 << 29));
            section.copies.push(copy);
            section.short = false;
        }
        200..=207 => section.model = donated.map_or_else(Vec::new, |donated| donated.model.clone()),
        208..=215 => {
            let donated = donated.and_then(|donated| donated.blocks.first());
            section.blocks[index].payload = donated.map_or_else(Vec::new, |block| block.payload.clone());
        }
        216..=223 => section.model.splice(..section.model.len().min(1), [choices.byte() % 13]).for_each(drop),
        224..=231 => {
            let payload = &mut section.blocks[index].payload;
            payload.splice(..payload.len().min(1), [choices.byte() % 5]).for_each(drop);
        }
        232..=239 => section.blocks.push(BlockParts { payload: vec![choices.byte()], checksum: 0 }),
        240.. => mutate_header(parts, choices),
    }
}

fn mutate_header(parts: &mut Parts, choices: &mut Choices) {
    match choices.below(6) {
        0 => parts.dtype = choices.byte() % 20,
        1 => parts.length = parts.length.map(|length| number(length, choices)),
        2 => parts.length = None,
        3 => parts.effort = choices.byte() % 4,
        4 => parts.shape = Some((0..choices.below(5)).map(|_| number(3, choices)).collect()),
        _ => parts.reference = if parts.reference.is_some() { None } else { Some((9, [0; 16])) },
    }
}

/// A number near this one, or one at which things change.
fn number(from: u64, choices: &mut Choices) -> u64 {
    match choices.below(4) {
        0 => from.wrapping_add(choices.byte().into()),
        1 => from.wrapping_sub(choices.byte().into()),
        2 => 1u64.wrapping_shl(choices.byte().into()).wrapping_sub(u64::from(choices.byte() & 1)),
        _ => choices.short() as u64,
    }
}

/// Changes bytes in one of the ways that hit readers of packed fields.
fn mutate_bytes(bytes: &mut Vec<u8>, choices: &mut Choices) {
    // Fields stand in front of streams.
    let span = if choices.below(2) == 0 { bytes.len().min(48) } else { bytes.len() };
    let at = choices.below(span.max(1));
    let end = (at + 1 + choices.below(8)).min(bytes.len());
    let Some(byte) = bytes.get_mut(at) else { return bytes.push(choices.byte()) };
    match choices.below(8) {
        0 | 1 => *byte ^= 1 << choices.below(8),
        2 => *byte = choices.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        3 => *byte = choices.byte(),
        4 => {
            let mut varint = Vec::new();
            put(&mut varint, number(u64::from(*byte), choices));
            bytes.splice(at..end, varint).for_each(drop);
        }
        5 => bytes.truncate(at),
        6 => bytes.drain(at..end).for_each(drop),
        _ => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece).for_each(drop);
        }
    }
}

/// Decodes what may be anything, without checksums, so that nothing keeps the decoder from it.
fn survive(mutant: &Parts, reference: &[u8], describe: bool) {
    let mut mutant = mutant.clone();
    let blocks = mutant.sections.iter_mut().flat_map(|section| &mut section.blocks);
    blocks.for_each(|block| block.checksum = 0);
    let frame = mutant.frame();
    if crate::Frame::open(&frame).is_ok_and(|frame| frame.decoded_len() <= LARGEST_MUTANT) {
        super::decompress_against(&frame, reference);
        if describe {
            let _ = crate::Info::read(&frame);
        }
    }
}

/// Which model a section has and how its blocks are coded.
fn sightings(section: &SectionParts, options: &Options) -> Vec<String> {
    const MODELS: [&str; 15] = [
        "stored",
        "opaque",
        "float",
        "planes",
        "fast",
        "palette",
        "grid",
        "sparse",
        "difference",
        "reference",
        "adaptive",
        "subnormal",
        "cast",
        "records",
        "scaled",
    ];
    const MODES: [&str; 4] = ["coded", "verbatim", "constant", "unchanged"];
    let (dtype, effort) = (options.dtype.map_or("bytes", Dtype::name), options.effort.name());
    let tag = usize::from(section.model[0]);
    let mode = |block: &BlockParts| usize::from(if tag == 0 { 1 } else { block.payload[0] });
    let coded = section.blocks.iter().any(|block| mode(block) == 0 || tag == 0);
    let model = coded.then(|| format!("{} {dtype} {effort}", MODELS[tag]));
    let copies = (!section.copies.is_empty()).then(|| "copies".to_owned());
    model
        .into_iter()
        .chain(copies)
        .chain(section.blocks.iter().map(|block| MODES[mode(block)].to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::choices::Random;
    use super::*;
    use std::collections::BTreeMap;

    /// Cases of each dtype, effort and make, each with up to [`MUTANTS`] mutants.
    const ROUNDS: usize = 5;

    #[test]
    fn frames_of_every_model_and_their_mutants() {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let (dtypes, efforts, makes) = (Dtype::all().count() + 1, 3, Make::ALL.len());
        for case in 0..dtypes * efforts * makes * ROUNDS {
            let mut random = Random::new(case as u64);
            let mut input: Vec<u8> = (0..64).map(|_| random.next() as u8).collect();
            input[0] = (case % dtypes) as u8;
            input[1] = (case / dtypes % efforts) as u8;
            input[2] = (case / dtypes / efforts % makes) as u8;
            for sighting in run(&input) {
                *seen.entry(sighting).or_default() += 1;
            }
        }
        let table: String = seen.iter().map(|(sighting, times)| format!("{times:6} {sighting}\n")).collect();
        for (model, dtypes, efforts) in EXPECTED {
            for dtype in dtypes.split(' ') {
                let prefix = format!("{model} {dtype} ");
                assert!(seen.keys().any(|key| key.starts_with(&prefix)), "no {prefix}among\n{table}");
            }
            for effort in efforts.split(' ') {
                let found = |key: &String| key.starts_with(model) && key.ends_with(effort);
                assert!(seen.keys().any(found), "no {model} at {effort} among\n{table}");
            }
        }
        for form in ["copies", "coded", "verbatim", "constant", "unchanged"] {
            assert!(seen.contains_key(form), "no {form} among\n{table}");
        }
        // Seen with `cargo test frames_of_every_model -- --nocapture`.
        println!("{table}");
    }

    /// What a fuzzer finds is committed there, and tried here from then on.
    #[test]
    fn committed_inputs() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/z4ai_structure");
        let mut seen = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            seen.extend(run(&std::fs::read(entry.unwrap().path()).unwrap()));
        }
        for (model, ..) in EXPECTED {
            assert!(seen.iter().any(|sighting| sighting.starts_with(model)), "no seed has the model {model}");
        }
    }

    /// The dtypes and efforts that each model is met with, wherever the encoder has a use for them.
    const EXPECTED: [(&str, &str, &str); 14] = [
        ("scaled", "fp8_e4m3 fp8_e5m2", "default max"),
        (
            "stored",
            "bytes bf16 fp16 fp32 fp64 fp8_e4m3 fp8_e5m2 int8 uint8 int16 uint16 int32 uint32 bool",
            ALL,
        ),
        ("opaque", "bytes bf16 fp16 fp32 fp64 int8 uint8 int16 uint16 int32 uint32 int64 uint64", ALL),
        ("float", "bf16 fp16 fp32 fp64 complex64 complex128", ALL),
        ("planes", "fp8_e4m3 fp8_e5m2 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool", ALL),
        ("fast", "bf16 fp16 fp32 complex64 fp8_e4m3", "fast"),
        ("palette", "bf16 fp16 fp32 fp64 int16 uint16 int32 uint32 int64 uint64 complex64 complex128", ALL),
        ("grid", "bf16 fp16 fp32", ALL),
        ("sparse", "bf16 fp16 fp32 fp64 fp8_e4m3 fp8_e5m2 int8 uint8 complex64 complex128 bool", ALL),
        ("difference", "bytes int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool", ALL),
        ("reference", "bf16 fp16 fp32 fp64 fp8_e4m3 fp8_e5m2 complex64 complex128", ALL),
        ("adaptive", "bf16 fp16 fp32 complex64", "max"),
        ("subnormal", "fp16", "default max"),
        ("cast", "fp16 fp32 fp64 complex64 complex128", ALL),
    ];
    const ALL: &str = "fast default max";
}
