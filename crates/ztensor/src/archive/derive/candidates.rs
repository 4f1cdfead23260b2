//! Which tensors of the base a tensor may be made of, and how: by names, then by shapes, the most plausible first.

use std::collections::HashMap;
use std::sync::Arc;

use super::names::{alike, canonical, numbers, of_expert, parts_of, wholes_of};
use crate::archive::BaseTensor;
use crate::index::{Format, Object};
use crate::reader::Reader;
use crate::recipe::{Number, Order, Quantiser, Recipe, Rounding};
use crate::tensor::{Layout, Shape, Value};

/// Tensors of the same shape that are tried where no name fits.
const BY_SHAPE: usize = 6;

/// What a tensor is made of: numbers of one type, or blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    Numbers(Number),
    Blocks(&'static Quantiser),
}

impl Target {
    /// `None` for what no recipe yields.
    pub(super) fn of(object: &Object, role: &str) -> Option<Target> {
        let component = object.component(role)?;
        match &object.layout {
            Layout::Dense => Number::of(&component.element).map(Target::Numbers),
            Layout::Other(name) => {
                let block = name.strip_prefix("gguf.")?.strip_suffix("/1")?;
                Quantiser::named(block).map(Target::Blocks)
            }
            _ => None,
        }
    }
}

/// A tensor of floats in the base.
struct Floats {
    name: String,
    canonical: String,
    number: Number,
    shape: Shape,
}

/// Numbers that a tensor may be made of, and the tensors of the base that they come from.
pub(super) struct Origin {
    pub recipe: Recipe,
    pub number: Number,
    pub tensors: Vec<BaseTensor>,
}

/// The base's tensors of floats, by name and by shape.
pub(super) struct Origins<'a> {
    pub base: &'a Arc<Reader>,
    /// Its number among the bases.
    number: usize,
    floats: Vec<Floats>,
    by_name: HashMap<String, Vec<usize>>,
    by_shape: HashMap<Vec<u64>, Vec<usize>>,
    /// How rows of queries and keys are ordered, where the two files differ in it: heads of queries and of keys.
    order: Option<(Order, u64, u64)>,
}

impl<'a> Origins<'a> {
    pub(super) fn new(number: usize, base: &'a Arc<Reader>, target: &Reader) -> Origins<'a> {
        let mut origins = Origins {
            base,
            number,
            floats: Vec::new(),
            by_name: HashMap::new(),
            by_shape: HashMap::new(),
            order: row_order(base, target),
        };
        for (name, object) in base.objects() {
            let Some(Target::Numbers(number)) = Target::of(object, "data") else { continue };
            if !number.is_float() || object.shape.elements().is_none_or(|count| count == 0) {
                continue;
            }
            let (place, canonical) = (origins.floats.len(), canonical(name));
            origins.by_name.entry(canonical.clone()).or_default().push(place);
            origins.by_shape.entry(object.shape.to_vec()).or_default().push(place);
            origins.floats.push(Floats {
                name: name.to_owned(),
                canonical,
                number,
                shape: object.shape.clone(),
            });
        }
        origins
    }

    /// What a tensor of this name and shape may be made of, the most plausible first.
    pub(super) fn find(&self, name: &str, shape: &Shape) -> Vec<Origin> {
        let known = canonical(name);
        let mut origins = Vec::new();
        let named = self.by_name.get(&known).into_iter().flatten();
        let same_count = |place: &&usize| self.floats[**place].shape.elements() == shape.elements();
        let named: Vec<usize> = named.filter(same_count).copied().collect();
        for place in &named {
            origins.extend(self.reordered(&known, *place));
            origins.push(self.plain(*place));
        }
        origins.extend(self.experts(&known, shape));
        origins.extend(self.fused(&known, shape));
        origins.extend(self.parts(&known, shape));
        if origins.is_empty() {
            let digits = numbers(&known);
            let of_shape = self.by_shape.get(&shape.to_vec()).into_iter().flatten();
            let mut of_shape: Vec<usize> = of_shape.copied().collect();
            of_shape.sort_by_cached_key(|place| {
                let other = &self.floats[*place].canonical;
                std::cmp::Reverse((numbers(other) == digits, alike(other, &known)))
            });
            origins.extend(of_shape.into_iter().take(BY_SHAPE).map(|place| self.plain(place)));
        }
        origins
    }

    /// The tensors of this name, and their shapes.
    pub(super) fn named(&self, name: &str) -> Vec<(Origin, Shape)> {
        let places = self.by_name.get(&canonical(name)).into_iter().flatten();
        places.map(|place| (self.plain(*place), self.floats[*place].shape.clone())).collect()
    }

    fn plain(&self, place: usize) -> Origin {
        let Floats { name, number, .. } = &self.floats[place];
        let tensors = vec![self.tensor(name)];
        Origin { recipe: Recipe::operand(0, *number), number: *number, tensors }
    }

    /// The rows of queries and keys in the other file's order.
    fn reordered(&self, canonical: &str, place: usize) -> Option<Origin> {
        let (order, queries, keys) = self.order?;
        let heads = match canonical.rsplit_once('.')?.0.rsplit_once('.')?.1 {
            "attn_q" => queries,
            "attn_k" => keys,
            _ => return None,
        };
        let [rows, row] = self.floats[place].shape[..] else { return None };
        if heads == 0 || row < 16 || !rows.is_multiple_of(heads.checked_mul(2)?) {
            return None;
        }
        let origin = self.plain(place);
        Some(Origin { recipe: origin.recipe.rows(order, heads, row), ..origin })
    }

    /// The matrices of all experts in one tensor.
    fn experts(&self, canonical: &str, shape: &Shape) -> Option<Origin> {
        let [experts, rows, row] = shape[..] else { return None };
        if experts == 0 || experts > Recipe::MOST_OPERANDS as u64 / 2 {
            return None;
        }
        let names: Option<Vec<String>> = (0..experts).map(|expert| of_expert(canonical, expert)).collect();
        self.joined(&names?, |part| part.shape[..] == [rows, row])
    }

    /// Queries, keys and values in one tensor, or gates and what they gate.
    fn fused(&self, canonical: &str, shape: &Shape) -> Option<Origin> {
        let (experts, all) = (shape.first().copied()?, shape.elements()?);
        let names = parts_of(canonical, if shape.len() == 3 { experts } else { 0 });
        if names.len() > Recipe::MOST_OPERANDS / 2 {
            return None;
        }
        let row = shape.last().filter(|_| shape.len() > 1);
        let mut left = all;
        let origin = self.joined(&names, |part| {
            let count = part.shape.elements().filter(|count| *count <= left);
            left -= count.unwrap_or(0);
            count.is_some() && row.is_none_or(|row| part.shape.last() == Some(row))
        });
        origin.filter(|_| left == 0)
    }

    /// A part of a tensor in which several are fused.
    fn parts(&self, canonical: &str, shape: &Shape) -> Option<Origin> {
        let count = shape.elements().filter(|count| *count > 0)?;
        for (whole, place) in wholes_of(canonical) {
            let Some(whole) = self.by_name.get(&whole).and_then(|places| places.first()) else { continue };
            let Some(all) = self.floats[*whole].shape.elements().filter(|all| *all > count) else { continue };
            let first = match u64::try_from(place) {
                Ok(place) => place.checked_mul(count),
                Err(_) => place.unsigned_abs().checked_mul(count).and_then(|back| all.checked_sub(back)),
            };
            let Some(first) = first.filter(|first| first.checked_add(count).is_some_and(|end| end <= all))
            else {
                continue;
            };
            let origin = self.plain(*whole);
            return Some(Origin { recipe: origin.recipe.slice(first, count), ..origin });
        }
        None
    }

    /// Tensors one after the other, all of one type.
    fn joined(&self, names: &[String], mut fits: impl FnMut(&Floats) -> bool) -> Option<Origin> {
        let mut parts: Vec<&Floats> = Vec::new();
        for name in names {
            let place = *self.by_name.get(name)?.first()?;
            parts.push(&self.floats[place]);
        }
        let number = parts.first()?.number;
        if parts.iter().any(|part| part.number != number || !fits(part)) {
            return None;
        }
        let nodes = (0..parts.len()).map(|place| Recipe::operand(place, number)).collect();
        let tensors = parts.iter().map(|part| self.tensor(&part.name)).collect();
        Some(Origin { recipe: Recipe::join(nodes), number, tensors })
    }

    fn tensor(&self, name: &str) -> BaseTensor {
        BaseTensor { base: self.number, name: name.to_owned(), role: "data".into() }
    }
}

/// llama.cpp interleaves the rows of each head's queries and keys; where just one file is its own, they differ.
fn row_order(base: &Reader, target: &Reader) -> Option<(Order, u64, u64)> {
    let (order, described) = match (base.format() == Format::Gguf, target.format() == Format::Gguf) {
        (false, true) => (Order::Interleaved, target),
        (true, false) => (Order::Separated, base),
        _ => return None,
    };
    let heads = |end: &str| {
        let found = described.attributes().iter().find(|(key, _)| key.ends_with(end));
        found.and_then(|(_, value)| match value {
            Value::List(all) => all.first().and_then(Value::as_u64),
            one => one.as_u64(),
        })
    };
    let queries = heads(".attention.head_count")?;
    Some((order, queries, heads(".attention.head_count_kv").unwrap_or(queries)))
}

/// The ways to make a target of numbers, without the fields that blocks may have.
pub(super) fn casts(number: Number, to: Number, recipe: &Recipe) -> Vec<Recipe> {
    if number == to {
        return vec![recipe.clone()];
    }
    let mut casts = vec![recipe.clone().cast(to, Rounding::Nearest)];
    if to.width() < number.width() {
        casts.push(recipe.clone().cast(to, Rounding::TowardsZero));
    }
    casts
}
