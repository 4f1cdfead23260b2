//! Quantised tensors and what lies beside them: which tensors of a file hold levels, and which their scales and zero points, by the names that
//! compressed-tensors, GPTQ, AWQ, bitsandbytes and gpt-oss give them.

use std::collections::HashMap;

use super::names::canonical;
use crate::archive::Run;
use crate::recipe::Number;
use crate::tensor::DType;

/// How a tensor holds levels, or what else is computed for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Words of 32 bits of neighbours of a row: compressed-tensors.
    Words,
    /// Words of the transposed matrix, of what lies below each other or of neighbours: GPTQ, AWQ.
    Transposed,
    /// Pairs of floats of four bits, E2M1: compressed-tensors, gpt-oss.
    Pairs,
    /// Pairs of indices into NormalFloat's table, or that of FP4, in blocks that the largest magnitude scales: bitsandbytes.
    Normal,
    Floats,
    /// Integers of eight bits by rows: bitsandbytes.
    Rows,
    /// The scales themselves.
    Scales,
}

/// A quantised tensor's companions, as numbers of runs, and the name of the tensor that it was.
#[derive(Clone, Debug)]
pub(super) struct Kit {
    pub kind: Kind,
    pub weight: String,
    pub scales: usize,
    pub zeros: Option<usize>,
    /// One scale of all scales.
    pub global: Option<usize>,
}

impl Kit {
    /// Whether the tensor holds words, not numbers.
    pub(super) fn is_packed(&self) -> bool {
        !matches!(self.kind, Kind::Rows | Kind::Scales)
    }

    /// The pieces that a recipe for it may refer to.
    pub(super) fn operands(&self) -> impl Iterator<Item = usize> {
        let scales = (self.kind != Kind::Scales).then_some(self.scales);
        scales.into_iter().chain(self.global)
    }
}

/// All kits of a file, by the number of the run.
pub(super) fn kits(runs: &[Run]) -> HashMap<usize, Kit> {
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for (place, run) in runs.iter().enumerate() {
        if let Some((name, _)) = &run.tensor {
            by_name.insert(name, place);
        }
    }
    let mut kits = HashMap::new();
    for (place, run) in runs.iter().enumerate() {
        let Some((name, _)) = &run.tensor else { continue };
        if let Some(kit) = packed(name, run.element.storage, &by_name).or_else(|| scales(name, place, run)) {
            kits.insert(place, kit);
        }
    }
    kits
}

/// The weights that quantised tensors of a file were: by the number of the run their canonical name, and how many elements they most likely had.
pub fn quantised_weights(runs: &[Run]) -> HashMap<usize, (String, u64)> {
    let found = kits(runs).into_iter().filter(|(_, kit)| kit.kind != Kind::Scales);
    let of = found.map(|(place, kit)| {
        // Words of 32 bits hold eight numbers of four bits but rarely others, bytes two.
        let each = match kit.kind {
            Kind::Words | Kind::Transposed => 8,
            Kind::Pairs | Kind::Normal | Kind::Floats => 2,
            Kind::Rows | Kind::Scales => 1,
        };
        let elements = runs[place].shape.elements().unwrap_or(0).saturating_mul(each);
        (place, (canonical(&kit.weight), elements))
    });
    of.collect()
}

fn packed(name: &str, storage: DType, by_name: &HashMap<&str, usize>) -> Option<Kit> {
    let known = |name: String| by_name.get(name.as_str()).copied();
    let kit = |kind, weight: String, scales, zeros, global| Kit { kind, weight, scales, zeros, global };
    if let Some(stem) = name.strip_suffix(".weight_packed") {
        let scales = known(format!("{stem}.weight_scale"))?;
        let weight = format!("{stem}.weight");
        return Some(match storage {
            DType::U8 => kit(Kind::Pairs, weight, scales, None, known(format!("{stem}.weight_global_scale"))),
            _ => kit(Kind::Words, weight, scales, known(format!("{stem}.weight_zero_point")), None),
        });
    }
    if let Some(stem) = name.strip_suffix(".qweight") {
        let (scales, zeros) = (known(format!("{stem}.scales"))?, known(format!("{stem}.qzeros")));
        return Some(kit(Kind::Transposed, format!("{stem}.weight"), scales, zeros, None));
    }
    if let Some(stem) = name.strip_suffix("_blocks") {
        let scales = known(format!("{stem}_scales"))?;
        return Some(kit(Kind::Pairs, stem.to_owned(), scales, None, None));
    }
    let stem = name.strip_suffix(".weight")?;
    match storage {
        DType::U8 => {
            let scales = known(format!("{name}.absmax"))?;
            let is_normal = known(format!("{name}.quant_state.bitsandbytes__fp4")).is_none();
            let kind = if is_normal { Kind::Normal } else { Kind::Floats };
            Some(kit(kind, name.to_owned(), scales, None, None))
        }
        DType::I8 => Some(kit(Kind::Rows, name.to_owned(), known(format!("{stem}.SCB"))?, None, None)),
        _ => None,
    }
}

fn scales(name: &str, place: usize, run: &Run) -> Option<Kit> {
    if !matches!(Number::of(&run.element), Some(Number::F32 | Number::F16 | Number::Bf16)) {
        return None;
    }
    let ends = ["_scale", "_scale_inv", ".absmax"];
    let weight =
        ends.iter().find_map(|end| name.strip_suffix(end)).filter(|weight| weight.ends_with("weight"));
    let weight =
        weight.map(str::to_owned).or_else(|| Some(format!("{}.weight", name.strip_suffix(".SCB")?)))?;
    Some(Kit { kind: Kind::Scales, weight, scales: place, zeros: None, global: None })
}
