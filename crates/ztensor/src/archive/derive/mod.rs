//! Finding recipes: what a tensor may have been computed from is tried on samples, and the best that pays is kept. Sources are the tensors of the
//! base, under this or another name and of this or another type, and other tensors of the same model.

mod candidates;
mod consensus;
mod kits;
mod low_rank;
mod matrix;
mod merge;
mod names;
mod quantised;
mod samples;
mod trial;
mod within;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use candidates::{Origins, Target, casts};
use kits::Kit;
pub use kits::quantised_weights;
pub use names::canonical as canonical_name;
use samples::Samples;
use trial::{Parent, Source, Trial, sources};

use super::{BaseTensor, Encoded, Original, Run, encode_alone};
use crate::encoding::z4ai_failure;
use crate::error::Result;
use crate::reader::Reader;
use crate::recipe::{Number, Quantiser, Recipe};
use crate::tensor::Shape;

/// Shorter tensors are stored by themselves: a recipe takes as many bytes.
const SHORTEST: u64 = 512;
/// What a recipe costs besides its frames: its bytes, names, and a few numbers.
const OVERHEAD: usize = 64;
/// Merges and low ranks are looked for where a tensor would take more than this share of its bytes.
const WORTH: f64 = 0.02;

/// No other kind of merge is looked for where one gives more than this share of the elements exactly.
const SURE: f64 = 0.9;

/// An operand as it will be stored.
#[derive(Debug)]
pub enum Operand {
    /// A tensor of the base.
    Base(BaseTensor),
    /// The run with this number.
    Piece(usize),
    /// Fields of the tensor itself, compressed.
    Frame {
        /// Their bytes.
        length: u64,
        /// A z4ai frame of them.
        frame: Vec<u8>,
    },
}

impl Operand {
    /// Bytes that are stored of it with the tensor.
    pub fn stored(&self) -> usize {
        match self {
            Operand::Frame { frame, .. } => frame.len(),
            Operand::Base(_) | Operand::Piece(_) => 0,
        }
    }
}

/// Where tensors of a model may come from.
pub struct Derivation<'a> {
    reader: &'a Reader,
    original: &'a Original,
    runs: &'a [Run],
    origins: Vec<Origins<'a>>,
    relatives: Vec<Option<usize>>,
    /// Tensors with the scales of others, by the number of those.
    scales: HashMap<usize, usize>,
    /// Quantised tensors and what lies beside them.
    kits: HashMap<usize, Kit>,
    operands: HashSet<usize>,
}

/// Whether recipes are looked for whose numbers are fitted to a run.
#[derive(Clone, Copy, PartialEq)]
enum Fit {
    None,
    All,
    /// Only such, and only shorter than so many bytes.
    Beyond(usize),
}

/// A recipe that was found for a run.
pub struct Found<'a> {
    trial: Trial<'a>,
    target: Target,
    shape: Shape,
    options: z4ai::Options,
    /// Bytes that the run takes with it, going by samples.
    cost: f64,
    samples: Samples,
}

/// A run as the difference to what a recipe yields.
pub struct Computed {
    /// The encoded recipe.
    pub recipe: Vec<u8>,
    /// What it is applied to.
    pub operands: Vec<Operand>,
    /// The delta against what it yields.
    pub frame: Vec<u8>,
}

impl Computed {
    /// Bytes that are stored of it.
    pub fn stored(&self) -> usize {
        self.operands.iter().map(Operand::stored).sum::<usize>() + self.recipe.len() + self.frame.len()
    }
}

impl<'a> Found<'a> {
    /// The share that the run takes, with what is stored besides, of what it takes by itself.
    pub fn share(&mut self) -> Result<f64> {
        Ok(self.cost / (self.samples.alone()? * self.samples.scale).max(1.0))
    }

    /// About so many bytes the run takes by itself.
    pub fn alone(&mut self) -> Result<u64> {
        Ok((self.samples.alone()? * self.samples.scale) as u64)
    }

    /// Codes all of the run; `None` where that is no delta after all.
    pub fn compute(self, bytes: &[u8]) -> Result<Option<Computed>> {
        let reference = self.trial.reference(0, bytes.len())?;
        let (frame, is_delta) =
            z4ai::compress_delta_if_useful(bytes, &reference, &self.options).map_err(z4ai_failure)?;
        if !is_delta {
            return Ok(None);
        }
        let recipe = self.trial.recipe.encode();
        let (target, options, shape) = (self.target, &self.options, &self.shape);
        let operands = self.trial.sources.into_iter().map(|source| {
            Ok(match source {
                Source::Base(_, tensor, _) => Operand::Base(tensor),
                Source::Run(piece, _) => Operand::Piece(piece),
                Source::Field(number, count, bytes) => {
                    let frame = field_frame(&bytes, (number, count), target, options, shape)?;
                    Operand::Frame { length: bytes.len() as u64, frame }
                }
            })
        });
        Ok(Some(Computed { recipe, operands: operands.collect::<Result<_>>()?, frame }))
    }
}

impl<'a> Derivation<'a> {
    /// Of the tensors of a base, and of the model's own.
    pub(crate) fn new(
        reader: &'a Reader,
        original: &'a Original,
        runs: &'a [Run],
        bases: &'a [Arc<Reader>],
    ) -> Result<Derivation<'a>> {
        Ok(Derivation::with_relatives(reader, original, runs, bases, within::relatives(runs, original)?))
    }

    /// Of the tensors of a base, with scales of the model's own.
    pub fn from_base(
        reader: &'a Reader,
        original: &'a Original,
        runs: &'a [Run],
        base: &'a Arc<Reader>,
    ) -> Derivation<'a> {
        Derivation::with_relatives(reader, original, runs, std::slice::from_ref(base), vec![None; runs.len()])
    }

    fn with_relatives(
        reader: &'a Reader,
        original: &'a Original,
        runs: &'a [Run],
        bases: &'a [Arc<Reader>],
        mut relatives: Vec<Option<usize>>,
    ) -> Derivation<'a> {
        let (scales, kits) = (scales(runs), kits::kits(runs));
        // Operands are made of no pieces themselves: scales of quantised tensors are alike, and worth more as what they are.
        for operand in scales.values().copied().chain(kits.values().flat_map(Kit::operands)) {
            relatives[operand] = None;
        }
        let operands = relatives.iter().flatten().chain(scales.values()).copied();
        let operands = operands.chain(kits.values().flat_map(Kit::operands)).collect();
        let bases = bases.iter().enumerate();
        let origins = bases.map(|(number, base)| Origins::new(number, base, reader)).collect();
        Derivation { reader, original, runs, origins, relatives, scales, kits, operands }
    }

    /// Whether other pieces may be made of this one.
    pub fn is_operand(&self, number: usize) -> bool {
        self.operands.contains(&number)
    }

    /// Stores a run, the one with this number, against what a recipe yields; `None` where none is found that pays. Of a run that takes `known` bytes
    /// as a difference to its namesake, only recipes that are fitted to it are tried.
    pub(crate) fn encode(
        &self,
        number: usize,
        run: &Run,
        bytes: &[u8],
        options: &z4ai::Options,
        known: Option<usize>,
    ) -> Result<Option<Encoded>> {
        let fit = known.map_or(Fit::All, Fit::Beyond);
        let Some(found) = self.find(number, run, bytes, options, fit)? else { return Ok(None) };
        let (alone, options) = (found.samples.alone_at_least() * found.samples.scale, found.options.clone());
        let Some(computed) = found.compute(bytes)? else { return Ok(None) };
        let taken = computed.stored() + OVERHEAD;
        let Computed { recipe, operands, frame } = computed;
        let mut encoded = Encoded::Derived { recipe, operands, frame };
        // Samples say well enough what is twice as long; the rest is weighed.
        if taken as f64 * 2.0 > alone {
            let alone = encode_alone(bytes, &options)?;
            if alone.length(bytes.len()) <= taken {
                encoded = alone;
            }
        }
        let pays = known.is_none_or(|known| encoded.length(bytes.len()) + OVERHEAD < known);
        Ok(pays.then_some(encoded))
    }

    /// Finds a recipe for a run: the one with this number, or a part of it. `None` where none pays. None is fitted to the numbers.
    pub fn search(
        &self,
        number: usize,
        run: &Run,
        bytes: &[u8],
        options: &z4ai::Options,
    ) -> Result<Option<Found<'_>>> {
        self.find(number, run, bytes, options, Fit::None)
    }

    fn find(
        &self,
        number: usize,
        run: &Run,
        bytes: &[u8],
        options: &z4ai::Options,
        fit: Fit,
    ) -> Result<Option<Found<'_>>> {
        let Some((name, role)) = run.tensor.as_ref().filter(|_| run.length >= SHORTEST) else {
            return Ok(None);
        };
        let object = self.reader.object(name)?;
        let target = match self.kits.get(&number).is_some_and(Kit::is_packed) {
            true => Target::Numbers(Number::U8),
            false => match Target::of(object, role) {
                Some(target) => target,
                None => return Ok(None),
            },
        };
        let Some(part) = self.part(number, run, target) else { return Ok(None) };
        if self.origins.is_empty() && self.relatives.get(number).is_none_or(Option::is_none) {
            return Ok(None);
        }
        if let Fit::Beyond(known) = fit
            && known as f64 <= WORTH * bytes.len() as f64
        {
            return Ok(None);
        }
        let options = match target {
            Target::Numbers(of) if of != Number::U8 => options.clone(),
            _ => z4ai::Options { dtype: Some(z4ai::Dtype::U8), shape: None, ..options.clone() },
        };
        let tensor = (name.as_str(), &object.shape, target);
        let trials = match fit {
            Fit::None | Fit::All => self.trials(number, tensor, part, bytes)?,
            Fit::Beyond(_) => Vec::new(),
        };
        let fitted = if fit != Fit::None && part.is_none() { Some(tensor) } else { None };
        if trials.is_empty() && fitted.is_none() {
            return Ok(None);
        }
        let mut samples = Samples::new(bytes, &options);
        if let Fit::Beyond(known) = fit {
            samples.bound(known as f64 / samples.scale)?;
        }
        let mut found = samples.best(trials)?;
        if let Some(tensor) = fitted
            && samples.least()? > WORTH * samples.bytes.len() as f64
        {
            found = samples.best(self.fitted(tensor, bytes)?)?.or(found);
        }
        let Some(trial) = found else { return Ok(None) };
        let cost = samples.least()? * samples.scale;
        Ok(Some(Found { trial, target, shape: object.shape.clone(), options, cost, samples }))
    }

    /// Recipes whose numbers are fitted to the tensor: merges of several bases, and low ranks.
    fn fitted(&self, (name, shape, target): (&str, &Shape, Target), bytes: &[u8]) -> Result<Vec<Trial<'_>>> {
        let Target::Numbers(to) = target else { return Ok(Vec::new()) };
        if !matches!(to, Number::F32 | Number::F16 | Number::Bf16) {
            return Ok(Vec::new());
        }
        let mut parents: Vec<Parent<'_>> = Vec::new();
        for origins in &self.origins {
            let mut likest: Option<Parent<'_>> = None;
            for origin in origins.find(name, shape) {
                let Some(parent) = Parent::new(origins.base, &origin, to, bytes)? else { continue };
                if likest.as_ref().is_none_or(|known| parent.likeness > known.likeness) {
                    likest = Some(parent);
                }
            }
            parents.extend(likest);
        }
        let merged = merge::find(&parents, to, bytes)?;
        let is_sure = merged.as_ref().is_some_and(|(share, _)| *share > SURE);
        let mut trials: Vec<Trial<'_>> = merged.into_iter().map(|(_, trial)| trial).collect();
        if !is_sure {
            trials.extend(consensus::find(&parents, to, bytes)?);
        }
        if trials.is_empty()
            && let Some(likest) = parents.iter().max_by(|one, other| one.likeness.total_cmp(&other.likeness))
        {
            trials.extend(low_rank::find(likest, to, shape, bytes)?);
        }
        Ok(trials)
    }

    /// Which numbers of its tensor a run has, where it is not all of it.
    fn part(&self, number: usize, run: &Run, target: Target) -> Option<Option<(u64, u64)>> {
        let whole = self.runs.get(number)?;
        if whole.length == run.length {
            return Some(None);
        }
        let (elements, bytes) = match target {
            Target::Numbers(number) => (1, number.width() as u64),
            Target::Blocks(quantiser) => (quantiser.elements as u64, quantiser.bytes as u64),
        };
        let start = run.offset.checked_sub(whole.offset)?;
        let is_whole = start.is_multiple_of(bytes) && run.length.is_multiple_of(bytes);
        is_whole.then_some(Some((start / bytes * elements, run.length / bytes * elements)))
    }

    /// The recipes to try, the most plausible first.
    fn trials(
        &self,
        number: usize,
        (name, shape, target): (&str, &Shape, Target),
        part: Option<(u64, u64)>,
        bytes: &[u8],
    ) -> Result<Vec<Trial<'_>>> {
        let mut trials = Vec::new();
        if let (Some(kit), Target::Numbers(to)) = (self.kits.get(&number), target) {
            trials = self.quantised(kit, (to, shape), part)?;
            if kit.is_packed() {
                return Ok(fitting(trials, bytes));
            }
        }
        let fields: Option<Vec<Arc<Vec<u8>>>> = match target {
            Target::Blocks(quantiser) => Some(quantiser.split(bytes).into_iter().map(Arc::new).collect()),
            Target::Numbers(_) => None,
        };
        let found = self.origins.iter().flat_map(|origins| {
            origins.find(name, shape).into_iter().map(move |origin| (origins.base, origin))
        });
        for (base, mut origin) in found {
            let Some(tensors) = sources(base, &origin) else { continue };
            if let Some((first, count)) = part {
                origin.recipe = origin.recipe.slice(first, count);
            }
            let sources = || tensors.clone();
            match target {
                Target::Numbers(to) => {
                    if let Some((recipe, scales)) =
                        self.scaled(number, to, (shape, part), &origin.recipe, origin.tensors.len())?
                    {
                        let sources = sources().into_iter().chain([scales]).collect();
                        trials.push(Trial::new(recipe, sources));
                    }
                    for recipe in casts(origin.number, to, &origin.recipe) {
                        trials.push(Trial::new(recipe, sources()));
                    }
                }
                Target::Blocks(quantiser) => {
                    if quantiser.computes_fields() {
                        let recipe = origin.recipe.clone().blocks(quantiser, Vec::new());
                        trials.push(Trial::new(recipe, sources()));
                    }
                    let mut sources = sources();
                    let places = (sources.len()..).zip(quantiser.fields);
                    let nodes = places.map(|(place, field)| Recipe::operand(place, field.number)).collect();
                    let recipe = origin.recipe.clone().blocks(quantiser, nodes);
                    for (field, bytes) in quantiser.fields.iter().zip(fields.iter().flatten()) {
                        sources.push(Source::Field(field.number, field.count, Arc::clone(bytes)));
                    }
                    trials.push(Trial::new(recipe, sources));
                }
            }
        }
        if let (Target::Numbers(to), Some(Some(relative))) = (target, self.relatives.get(number)) {
            let other = &self.runs[*relative];
            if let Some(of) = Number::of(&other.element) {
                let operand = Recipe::operand(0, of);
                let operand = match part {
                    Some((first, count)) => operand.slice(first, count),
                    None => operand,
                };
                for recipe in casts(of, to, &operand) {
                    let bytes = self.original.bytes(other.offset, other.length)?;
                    trials.push(Trial::new(recipe, vec![Source::Run(*relative, bytes)]));
                }
            }
        }
        Ok(fitting(trials, bytes))
    }

    /// Numbers divided by the scales that another tensor of the model holds.
    fn scaled(
        &self,
        number: usize,
        to: Number,
        (shape, part): (&Shape, Option<(u64, u64)>),
        recipe: &Recipe,
        operand: usize,
    ) -> Result<Option<(Recipe, Source<'_>)>> {
        let Some((place, run)) = self.scales.get(&number).map(|place| (*place, &self.runs[*place])) else {
            return Ok(None);
        };
        let (Some(of), [rows, row]) = (Number::of(&run.element), &shape[..]) else { return Ok(None) };
        let Some(groups) = groups(*rows, *row, &run.shape) else { return Ok(None) };
        let scales = Recipe::operand(operand, of);
        // The scales of a part: those of its rows, which begin where a group does.
        let scales = match (part, groups) {
            (None, _) | (_, (0, _)) => scales,
            (Some((first, count)), (down, across)) => {
                let columns = if across == 0 { 1 } else { row.div_ceil(across) };
                let (first, rows) = (first / row, count.div_ceil(*row));
                if !first.is_multiple_of(down) || !count.is_multiple_of(*row) {
                    return Ok(None);
                }
                scales.slice(first / down * columns, rows.div_ceil(down) * columns)
            }
        };
        let bytes = self.original.bytes(run.offset, run.length)?;
        Ok(Some((recipe.clone().scaled(to, *row, groups, scales), Source::Run(place, bytes))))
    }
}

/// What does not make as many bytes is no recipe for these.
fn fitting<'a>(mut trials: Vec<Trial<'a>>, bytes: &[u8]) -> Vec<Trial<'a>> {
    trials
        .retain(|trial| trial.recipe.length(&trial.lengths).is_ok_and(|length| length == bytes.len() as u64));
    trials
}

/// How many rows and columns have one scale, by the shape of all scales; 0 for all.
fn groups(rows: u64, row: u64, scales: &Shape) -> Option<(u64, u64)> {
    match scales[..] {
        _ if scales.elements() == Some(1) => Some((0, 0)),
        [down] | [down, 1] if down == rows => Some((1, 0)),
        [down, across] if down == rows.div_ceil(128) && across == row.div_ceil(128) => Some((128, 128)),
        [down, across] if down == rows && across > 0 && row.is_multiple_of(across) => Some((1, row / across)),
        _ => None,
    }
}

/// Tensors of narrow numbers whose scales lie beside them under a name that says so.
fn scales(runs: &[Run]) -> HashMap<usize, usize> {
    let name = |run: &'_ Run| run.tensor.as_ref().map(|(name, _)| name.clone());
    let floats = runs.iter().enumerate();
    let floats = floats.filter(|(_, run)| Number::of(&run.element).is_some_and(Number::is_float));
    let by_name: HashMap<String, usize> =
        floats.filter_map(|(place, run)| Some((name(run)?, place))).collect();
    let mut scales = HashMap::new();
    for (place, run) in runs.iter().enumerate() {
        if !matches!(Number::of(&run.element), Some(Number::F8E4M3 | Number::F8E5M2 | Number::I8)) {
            continue;
        }
        let Some(name) = name(run) else { continue };
        let stem = name.strip_suffix(".weight");
        let beside = ["_scale", "_scale_inv", ".scale"].map(|end| Some(format!("{name}{end}")));
        let instead = [stem.map(|stem| format!("{stem}.scale")), stem.map(|stem| format!("{stem}.SCB"))];
        let found = beside.iter().chain(&instead).flatten().find_map(|name| by_name.get(name));
        if let Some(found) = found.filter(|found| **found != place) {
            scales.insert(place, *found);
        }
    }
    scales
}

/// The fields of one kind, with the shape in which they lie beside each other.
fn field_frame(
    bytes: &[u8],
    (number, count): (Number, usize),
    target: Target,
    options: &z4ai::Options,
    shape: &Shape,
) -> Result<Vec<u8>> {
    let elements = match target {
        Target::Blocks(Quantiser { elements, .. }) => *elements as u64,
        Target::Numbers(_) => 1,
    };
    let row = shape.last().map(|row| row / elements * count as u64).filter(|row| *row > 0);
    let all = (bytes.len() / number.width()) as u64;
    let shape = row.filter(|row| all.is_multiple_of(*row)).map(|row| vec![all / row, row]);
    let options = z4ai::Options { dtype: number.codec(), shape, ..options.clone() };
    z4ai::compress(bytes, &options).map_err(z4ai_failure)
}
