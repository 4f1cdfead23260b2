//! The planner: which model a section gets and how it is cut into blocks, decided by looking at the data,
//! mostly at samples of it. Ordinary dense weights show none of the traces that the cheap tests look for and
//! get their model at once; where several models are plausible, each encodes a sample and the smallest wins.

use super::subnormals::Subnormals;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::options::{Effort, Options};
use crate::record::RecordLayout;
use crate::transform::adaptive::{AdaptiveModel, TensorGeometry};
use crate::transform::cast::Narrowed;
use crate::transform::float::FloatModel;
use crate::transform::grid::GridModel;
use crate::transform::nested::NestedModel;
use crate::transform::opaque::{self, OpaqueModel};
use crate::transform::palette::PaletteModel;
use crate::transform::planes::PlanesModel;
use crate::transform::records::{FieldCode, GivenModel, RecordsModel, gather, whole_records};
use crate::transform::scaled::ScaledModel;
use crate::transform::sparse::SparseModel;
use crate::transform::stored::StoredModel;
use crate::transform::subnormal::SubnormalModel;
use crate::transform::{Model, Position};

/// The fewest elements per block, in sections that have as many: flushing the coder's states costs less than
/// 0.2 %. Weights: half +0.020 %, double -0.018 %, at the price of reading more for a range.
const BLOCK_ELEMENTS: usize = 1 << 17;
/// Elements per block where most may be zeros, so that those that are left fill the coder's lanes.
/// Structured: half +0.13 % where 80 % are zeros, double -0.08 %.
const SPARSE_BLOCK_ELEMENTS: usize = 1 << 19;
/// Blocks consist of whole chunks of the float and nested coders.
const BLOCK_UNIT: usize = 1 << 12;
/// Elements per block of a model that begins to learn anew with each. At maximum effort: half +0.055 % on the
/// set that it changes most, double no gain.
const LEARNING_BLOCK_ELEMENTS: usize = 1 << 20;
/// Bytes per block of opaque data. Text: half +1.4 %, double -0.9 %, at the price of reading more for a
/// range.
const OPAQUE_BLOCK: usize = 1 << 20;
/// The fewest bytes per block of records, in sections that have as many: every field has states of its own to
/// flush. Not tuned.
const RECORDS_BLOCK: usize = 1 << 18;
/// Bytes of each part of a section on which records are compared with bytes: a short block of many fields
/// says little. GGUF blocks of Q4_K: with an eighth they are taken for bytes at fast effort, +2.8 %.
const RECORDS_TRIAL: usize = 1 << 16;
/// Records from which on they are looked at as such.
const FEWEST_RECORDS: usize = 16;

/// Elements of each part of a section on which models are compared: a quarter of all in short sections, but
/// not fewer than the second number. All sets: double of either changes no size.
const TRIAL_ELEMENTS: usize = 1 << 13;
const FEWEST_ELEMENTS: usize = 1 << 12;
/// Parts of a section on which models are compared. All sets: half or double changes no size.
const TRIAL_PARTS: usize = 4;
/// Elements, of no more than 256 values, from which on a grid is looked for. Recorded sets: without it no
/// size changes, and compressing crepe takes 6 % more instructions.
const FEWEST_ON_GRID: usize = 1 << 13;
/// Bytes of each part on which zstd is tried for floats. Weights and structured: half or double changes no
/// size.
const REPETITION_BYTES: usize = 1 << 12;

/// Fast effort codes one-byte floats as nested planes, which decode fastest, unless they take one part in so
/// many more than byte planes, or than bytes in the contexts of rows and columns. The measure is zstd, whose
/// Huffman codes take up to one part in 150 more than byte planes, and which may come close to contexts,
/// since it follows how scales change.
const NESTED_EXCESS: u64 = 256;
const SCALED_EXCESS: u64 = 96;

/// A section's model and block length.
#[derive(Debug)]
pub(crate) struct Plan {
    pub model: Model,
    pub block_length: usize,
}

impl Plan {
    /// Plans a section.
    pub fn choose(bytes: &[u8], options: &Options) -> Result<Self> {
        let Some(layout) = options.record_layout() else { return Self::choose_elements(bytes, options) };
        let ordinary = Self::choose_elements(bytes, &Options { records: None, ..options.clone() })?;
        let records = whole_records(bytes, layout);
        if records.len() < FEWEST_RECORDS * layout.length() {
            return Ok(ordinary);
        }
        let fields = Self::fields(records, layout, options)?;
        let size = |plan: &Self| trial_of(&plan.model, records, 1, layout.length(), RECORDS_TRIAL);
        Ok(if size(&fields)? <= size(&ordinary)? { fields } else { ordinary })
    }

    /// The plan for whole records: one for the elements of each field.
    fn fields(records: &[u8], layout: &RecordLayout, options: &Options) -> Result<Self> {
        let length = layout.length();
        let mut codes = Vec::with_capacity(layout.fields().len());
        let mut sources = Vec::with_capacity(layout.fields().len());
        for (place, field) in layout.fields().iter().enumerate() {
            let elements = gather(records, field, length)?;
            let given = match options.effort {
                Effort::Fast => None,
                _ => GivenModel::fit(layout, place, &elements, &sources)?,
            };
            let options = Options { effort: options.effort, ..Options::new(field.dtype) };
            codes.push(match given {
                Some(given) => FieldCode::Given(Box::new(given)),
                None => FieldCode::Alone(Self::dense(&elements, field.dtype, &options)?.model),
            });
            sources.push(if layout.is_source(place) { elements } else { Vec::new() });
        }
        let count = records.len() / length;
        let block_length = count.div_ceil((records.len() / RECORDS_BLOCK).max(1)) * length;
        Ok(Self { model: RecordsModel::new(layout.clone(), codes).into(), block_length })
    }

    /// Plans a section of elements.
    fn choose_elements(bytes: &[u8], options: &Options) -> Result<Self> {
        let width = options.scalar_width();
        let elements = &bytes[..bytes.len() / width * width];
        let Some(dtype) = options.dtype.filter(|_| !elements.is_empty()) else {
            return Ok(Self::opaque(options));
        };
        // What structure wide elements have, narrow ones have too; but bytes have no palettes, and
        // subnormals, which are all narrow, have a model of their own.
        let subnormals = Subnormals::of(elements, dtype);
        if options.effort == Effort::Default && subnormals.prevail() {
            // The model of floats would be made in vain, which takes longer than to encode a short section.
            let block_length = section_block(elements, width);
            let subnormal = SubnormalModel::fit(elements, options.row_length(), block_length)?;
            let ordinary = Self { model: subnormal.into(), block_length };
            return Self::with_structures(elements, dtype, options, ordinary);
        }
        // Subnormals have few bits, whatever they come from.
        let narrowed = if subnormals.lead() { None } else { Narrowed::of(elements, dtype)? };
        let ordinary = match narrowed {
            Some(narrowed) => {
                let (narrow, source) = (&narrowed.bytes, narrowed.source());
                let inner = narrowed.options(options);
                let dense = Self::dense(narrow, source.dtype, &inner)?;
                let plan = Self::with_structures(narrow, source.dtype, &inner, dense)?.widened(&narrowed);
                if source.is_decimal() {
                    // Numbers that are far from zero have many decimals by chance.
                    let dense = Self::dense(elements, dtype, options)?;
                    let plain = Self::with_structures(elements, dtype, options, dense)?;
                    let models = [&plan.model, &plain.model];
                    let unit = models.into_iter().find_map(whole_rows).unwrap_or(1) * width;
                    let is_larger = trial(&plan.model, elements, width, unit)?
                        > trial(&plain.model, elements, width, unit)?;
                    return Ok(if is_larger { plain } else { plan });
                }
                if !subnormals.matter() && source.width() > 1 {
                    return Ok(plan);
                }
                plan
            }
            None => Self::dense(elements, dtype, options)?,
        };
        Self::with_structures(elements, dtype, options, ordinary)
    }

    /// The plan for elements that may have a structure for which there is a better one than the one for
    /// `ordinary` elements.
    fn with_structures(elements: &[u8], dtype: Dtype, options: &Options, ordinary: Self) -> Result<Self> {
        let width = options.scalar_width();
        let block_length = section_block(elements, width);
        let mut candidates = Self::structures(elements, dtype, options, block_length)?;
        candidates.push(ordinary.model);
        let model = match smallest(candidates, elements, width)? {
            // These two are fitted to a sample so far.
            Model::Sparse(_) => SparseModel::fit(elements, dtype, block_length)?.into(),
            Model::Planes(_) => PlanesModel::fit(elements, width)?.into(),
            model => model,
        };
        let block_length = match model {
            Model::Sparse(_) => block_elements(elements.len() / width, SPARSE_BLOCK_ELEMENTS) * width,
            Model::Cast(_) => ordinary.block_length,
            Model::Grid(ref grid) => grid
                .whole_rows()
                .and_then(|row_length| GridModel::column_block(elements.len(), dtype, row_length))
                .unwrap_or(block_length),
            _ => block_length,
        };
        Ok(Self { model, block_length })
    }

    /// The plan for the elements that were narrowed from the one for what they became.
    pub fn widened(self, narrowed: &Narrowed) -> Self {
        Self { block_length: narrowed.wide_length(self.block_length), model: narrowed.model(self.model) }
    }

    /// The models that fit traces of how the weights were made, and zstd where bytes repeat; none for
    /// ordinary dense weights. Those that any elements could have, sparse ones and planes, are made for the
    /// sample on which models are compared.
    fn structures(elements: &[u8], dtype: Dtype, options: &Options, block: usize) -> Result<Vec<Model>> {
        let palette = match PaletteModel::fit(elements, dtype, block, block_level(options))? {
            Some(palette) if options.effort != Effort::Fast => {
                Some(palette.with_contexts(elements, dtype, options.row_length(), block)?.into())
            }
            palette => palette.map(Model::from),
        };
        let subnormals = Subnormals::of(elements, dtype);
        let tiny = subnormals.abound();
        let few = matches!(&palette, Some(Model::Palette(palette)) if palette.has_one_plane());
        // As few as the levels of four bits: an index takes no more than a level.
        let very_few = matches!(&palette, Some(Model::Palette(palette)) if palette.entries() <= 16);
        let sample = || -> Vec<u8> {
            let length = trial_length(elements, dtype.scalar_width());
            parts(elements, length, dtype.scalar_width()).flat_map(|(_, part)| part).copied().collect()
        };
        // Sparse elements are cheap zeros and a rest; elements that are few in the whole section have no need
        // of that. They may lie on a grid all the same, of small floats above all, whose products recur; a
        // short section would save less than finding it takes. Subnormals lie on a grid whatever they are.
        let short = few && elements.len() / dtype.scalar_width() < FEWEST_ON_GRID;
        let may_have_grid = !tiny && !very_few && !short && !subnormals.lead();
        let grid = may_have_grid.then(|| {
            let row_length = options.row_length();
            let rows = GridModel::fit(elements, dtype, row_length);
            rows.or_else(|| GridModel::fit_columns(elements, dtype, row_length?))
        });
        let grid = grid.flatten();
        let grid = grid.map(Model::from);
        let sparse = if few || !SparseModel::suits(elements, dtype) {
            None
        } else {
            Some(SparseModel::fit(&sample(), dtype, block)?.into())
        };
        // They are small integers, whose high bits are the rare ones.
        let planes =
            if tiny { Some(PlanesModel::fit(&sample(), dtype.scalar_width())?.into()) } else { None };
        let may_be_subnormal = tiny || subnormals.matter();
        let subnormal = match options.effort {
            Effort::Fast => None,
            // It is the ordinary one.
            Effort::Default if subnormals.prevail() => None,
            _ if may_be_subnormal => Some(SubnormalModel::fit(elements, options.row_length(), block)?.into()),
            _ => None,
        };
        // Integers have no model that is likely to win, so zstd always takes part there. Indices of a palette
        // are shorter than elements and repeat as these do.
        let opaque = dtype.float_layout().is_none()
            || !few && (bytes_repeat(elements)? || values_recur(elements, dtype.scalar_width()));
        let opaque = opaque.then(|| OpaqueModel { level: block_level(options), long: false }.into());
        Ok([palette, grid, sparse, planes, subnormal, opaque].into_iter().flatten().collect())
    }

    /// Whether a grid is what elements have in common, rather than that they are few.
    pub fn has_grid(elements: &[u8], dtype: Dtype, options: &Options) -> Result<bool> {
        let width = dtype.scalar_width();
        let block = section_block(elements, width);
        let palette = PaletteModel::fit(elements, dtype, block, block_level(options))?;
        let few = palette.is_some_and(|palette| palette.has_one_plane());
        let may_have = !few && !Subnormals::of(elements, dtype).abound();
        Ok(may_have && GridModel::fit(elements, dtype, options.row_length()).is_some())
    }

    /// The plan for ordinary elements.
    fn dense(elements: &[u8], dtype: Dtype, options: &Options) -> Result<Self> {
        let block_length = section_block(elements, dtype.scalar_width());
        let nested = match options.effort {
            Effort::Fast => NestedModel::fit(elements, Some(dtype), options.row_length()),
            _ => None,
        };
        let nested = match nested {
            // One-byte floats are mostly exponents, so planes of them are no slower than zstd, which would
            // be the next to be tried.
            Some(nested) if dtype.scalar_width() == 1 => {
                let row_length = options.row_length();
                let (other, excess) = match ScaledModel::fit(elements, dtype, row_length, block_length)? {
                    Some(scaled) => (scaled.into(), SCALED_EXCESS),
                    None => (PlanesModel::fit(elements, 1)?.into(), NESTED_EXCESS),
                };
                let nested = nested.into();
                let [size, least] = [&nested, &other].map(|model| trial(model, elements, 1, 1));
                let (size, least) = (size?, least?);
                Some(if size > least + least / excess { other } else { nested })
            }
            nested => nested.map(Model::from),
        };
        let model = match (nested, dtype.float_layout()) {
            (Some(model), _) => model,
            (None, Some(layout)) => {
                let (row, filter) = (options.row_length(), options.filter_length());
                FloatModel::fit(layout, elements, row, filter, options.effort, block_length)?.into()
            }
            (None, None) => {
                let contexts = match options.effort {
                    Effort::Fast => None,
                    _ => ScaledModel::fit(elements, dtype, options.row_length(), block_length)?,
                };
                match contexts {
                    Some(contexts) => contexts.into(),
                    None => PlanesModel::fit(elements, dtype.scalar_width())?.into(),
                }
            }
        };
        Ok(Self { model, block_length })
    }

    /// A plan that learns from element to element in place of one with tables, for maximum effort.
    pub fn with_learning(&self, bytes: &[u8], options: &Options) -> Result<Option<Self>> {
        if options.effort != Effort::Max {
            return Ok(None);
        }
        let width = options.scalar_width();
        let elements = &bytes[..bytes.len() / width * width];
        if let (Model::Cast(cast), Some(dtype)) = (&self.model, options.dtype) {
            let (source, inner) = cast.inner();
            let narrowed = Narrowed::from_source(elements, dtype, source)?;
            let plan = Self::learning(inner, &narrowed.bytes, &narrowed.options(options))?;
            return Ok(plan.map(|plan| plan.widened(&narrowed)));
        }
        Self::learning(&self.model, elements, options)
    }

    /// A plan whose model learns, in place of a model with tables for whole elements.
    fn learning(model: &Model, elements: &[u8], options: &Options) -> Result<Option<Self>> {
        let found = match model {
            Model::Float(model) => model.row_length(),
            Model::Subnormal(model) => model.row_length(),
            _ => return Ok(None),
        };
        let layout = options.dtype.and_then(Dtype::float_layout);
        let Some(layout) = layout.filter(|&layout| AdaptiveModel::supports(layout)) else { return Ok(None) };
        let geometry = TensorGeometry {
            row_length: options.row_length().or(found),
            filter_length: options.filter_length(),
            line_length: options.line_length(),
        };
        let block = LEARNING_BLOCK_ELEMENTS * layout.width;
        let (model, block_length) = AdaptiveModel::fit(layout, elements, geometry, block)?;
        Ok(Some(Self { model: model.into(), block_length }))
    }

    /// This plan with one block for the whole section, if that may find more repeats.
    pub fn with_long_distances(&self, length: usize) -> Option<Self> {
        let Model::Opaque(opaque) = &self.model else { return None };
        let level = opaque.level - LEVEL_BONUS;
        (!opaque.long && length > self.block_length)
            .then(|| Self { model: OpaqueModel { level, long: true }.into(), block_length: length })
    }

    fn opaque(options: &Options) -> Self {
        let model = OpaqueModel { level: block_level(options), long: false };
        Self { model: model.into(), block_length: OPAQUE_BLOCK }
    }
}

/// Bytes per block of a section of these elements.
fn section_block(elements: &[u8], width: usize) -> usize {
    block_elements(elements.len() / width, BLOCK_ELEMENTS) * width
}

/// Elements per block, `fewest` in sections that have as many: blocks of about the same length, since a short
/// last one would cost more and decode more slowly than its share.
fn block_elements(elements: usize, fewest: usize) -> usize {
    let blocks = (elements / fewest).max(1);
    elements.div_ceil(blocks).next_multiple_of(BLOCK_UNIT)
}

/// How much higher the zstd level of blocks is than that of a whole section, to make up for what blocks
/// cannot see of each other. Text: 1 takes 4.0 % more, 4 takes 4.5 % less and longer.
const LEVEL_BONUS: i32 = 2;

/// The zstd level for independent blocks.
fn block_level(options: &Options) -> i32 {
    let level = options.level.unwrap_or(match options.effort {
        Effort::Fast => 1,
        Effort::Default => 3,
        Effort::Max => 19,
    });
    level + LEVEL_BONUS
}

/// The candidate that makes a sample of the section smallest; a single one is not tried at all.
fn smallest(mut candidates: Vec<Model>, elements: &[u8], width: usize) -> Result<Model> {
    let Some(mut best) = candidates.pop() else { return Ok(StoredModel.into()) };
    if candidates.is_empty() {
        return Ok(best);
    }
    let unit = candidates.iter().chain([&best]).find_map(whole_rows).unwrap_or(1) * width;
    let mut least = trial(&best, elements, width, unit)?;
    for model in candidates {
        let size = trial(&model, elements, width, unit)?;
        if size < least {
            (best, least) = (model, size);
        }
    }
    Ok(best)
}

/// Elements of the rows that blocks of a model have to consist of.
fn whole_rows(model: &Model) -> Option<usize> {
    match model {
        Model::Grid(grid) => grid.whole_rows(),
        Model::Cast(cast) => whole_rows(cast.inner().1),
        _ => None,
    }
}

/// The size that the section would have with this model, from a sample of it. Its parts begin and end between
/// units of so many bytes, and are elements of `width` bytes.
fn trial(model: &Model, elements: &[u8], width: usize, unit: usize) -> Result<u64> {
    trial_of(model, elements, width, unit, trial_length(elements, width))
}

/// What [`trial`] gives, from parts of `length` bytes.
fn trial_of(model: &Model, elements: &[u8], width: usize, unit: usize, length: usize) -> Result<u64> {
    let (mut shared, mut blocks) = (Vec::new(), Vec::new());
    model.write(&mut shared)?;
    let mut sampled = 0;
    for (offset, part) in parts(elements, length.next_multiple_of(unit), unit) {
        model.encode(part, Position::element(offset / width), &mut blocks)?;
        sampled += part.len();
    }
    let scaled = blocks.len() as u128 * elements.len() as u128 / sampled.max(1) as u128;
    Ok(shared.len() as u64 + scaled as u64)
}

/// Bytes of each part of a section on which models are compared.
fn trial_length(elements: &[u8], width: usize) -> usize {
    (elements.len() / width / (4 * TRIAL_PARTS)).clamp(FEWEST_ELEMENTS, TRIAL_ELEMENTS) * width
}

/// Whether zstd, at its fastest, halves a sample, which it does not do with numbers that differ.
fn bytes_repeat(elements: &[u8]) -> Result<bool> {
    let mut sample = Vec::with_capacity(TRIAL_PARTS * REPETITION_BYTES);
    parts(elements, REPETITION_BYTES, 1).for_each(|(_, part)| sample.extend_from_slice(part));
    Ok(words_repeat(&sample) && opaque::encode(&sample, 1, false)?.len() < sample.len() / 2)
}

/// Whether an eighth of the words of four bytes have been seen shortly before. It is told from a small table
/// of the last word with each hash, which takes much less time than zstd does to refuse.
fn words_repeat(sample: &[u8]) -> bool {
    const BITS: u32 = 11;
    let mut recent = [0u32; 1 << BITS];
    let (mut seen, mut looked) = (0, 0);
    // Elements have two bytes or more, so whatever repeats does so after an even number of bytes.
    for word in sample.windows(4).step_by(2) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let slot = &mut recent[(word.wrapping_mul(0x9e37_79b1) >> (32 - BITS)) as usize];
        seen += usize::from(*slot == word);
        *slot = word;
        looked += 1;
    }
    seen * 8 >= looked
}

/// Whether a sixteenth of some evenly spread elements occur more than once among them, however far apart:
/// tables of sines do, trained weights of four bytes or more do not. Narrower elements recur whatever they
/// are.
fn values_recur(elements: &[u8], width: usize) -> bool {
    const ELEMENTS: usize = 4096;
    if width < 4 {
        return false;
    }
    let step = (elements.len() / width).div_ceil(ELEMENTS).max(1);
    let spread = elements.chunks_exact(width).step_by(step);
    let number = |element: &[u8]| element.iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
    // A table of the values so far, in which each is found from its hash on; twice as many places as values.
    let looked = spread.len();
    let bits = (2 * looked).next_power_of_two().trailing_zeros().max(1);
    let mut values = vec![0u64; 1 << bits];
    let (mut recurring, mut has_zero) = (0, false);
    for value in spread.map(number) {
        if value == 0 {
            recurring += usize::from(std::mem::replace(&mut has_zero, true));
            continue;
        }
        let mut place = (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize;
        while values[place] != 0 && values[place] != value {
            place = (place + 1) & (values.len() - 1);
        }
        recurring += usize::from(values[place] == value);
        values[place] = value;
    }
    recurring * 16 >= looked.max(1)
}

/// Evenly spread parts of `elements` of `length` bytes each, with their offsets; all of them as one part if
/// there are not many more.
fn parts(elements: &[u8], length: usize, width: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let whole = elements.len() <= TRIAL_PARTS * length;
    let (count, length) = if whole { (1, elements.len()) } else { (TRIAL_PARTS, length) };
    let step = elements.len() / count / width * width;
    (0..count).filter_map(move |index| {
        // From the middle of each stretch.
        let offset = index * step + (step.saturating_sub(length)) / 2 / width * width;
        elements.get(offset..offset + length).map(|part| (offset, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from all over the range below `end`.
    fn numbers(count: usize, end: u32) -> impl Iterator<Item = u16> {
        (0..count as u32).map(move |at| ((at.wrapping_mul(2_654_435_761) >> 8) % end) as u16)
    }

    #[test]
    fn few_subnormals_among_zeros_are_not_looked_at_as_something_else() {
        // They are integers below 200, one in a hundred elements.
        let sparse = numbers(1 << 16, 20_000).map(|number| if number < 200 { number } else { 0 });
        let bytes: Vec<u8> = sparse.flat_map(u16::to_le_bytes).collect();
        let subnormals = Subnormals::of(&bytes, Dtype::F16);
        assert!(!subnormals.abound() && subnormals.lead());
        for effort in [Effort::Fast, Effort::Default] {
            let options = Options::new(Dtype::F16).shape(vec![256, 256]).effort(effort);
            let block = section_block(&bytes, 2);
            let found = Plan::structures(&bytes, Dtype::F16, &options, block).unwrap();
            assert!(!found.iter().any(|model| matches!(model, Model::Grid(_))));
            assert!(!matches!(Plan::choose(&bytes, &options).unwrap().model, Model::Cast(_)));
        }
        // Numbers of which half are zeros and a third of the others are subnormal are ordinary ones.
        let mixed = numbers(1 << 16, 6).map(|number| [0, 0, 0, 0x3c01, 0x200, 0xbc03][usize::from(number)]);
        assert!(!Subnormals::of(&mixed.flat_map(u16::to_le_bytes).collect::<Vec<_>>(), Dtype::F16).lead());
    }
}
