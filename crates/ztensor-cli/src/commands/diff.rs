//! `ztensor diff`

use std::path::{Path, PathBuf};

use clap::Args;
use rayon::prelude::*;
use serde_json::{Value as Json, json};
use ztensor::folder::Model;
use ztensor::tensor::number;
use ztensor::{DType, ElementDifference, ElementType, Reader};

use super::bases::{Bases, expand};
use super::names::{plain_name, stem};
use crate::display::{count, say, say_json};
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct Diff {
    /// The first file or folder
    left: PathBuf,
    /// The second file or folder
    right: PathBuf,
    #[command(flatten)]
    bases: Bases,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// How a tensor that both files have compares.
enum Change {
    Identical,
    /// dtype, shape or layout differ.
    Kind(String),
    /// Elements differ.
    Values(ElementDifference),
}

/// A model and the name that it is found by.
type Named = (String, Model);

/// The place of the model that each one is compared with: the one of the same name, or else the only one that its format's extension
/// sets apart, as `ztensor convert` leaves it.
fn twins(left: &[Named], right: &[Named]) -> Vec<Option<usize>> {
    let same: Vec<Option<usize>> =
        left.iter().map(|(name, _)| right.iter().position(|(other, _)| other == name)).collect();
    let stem_of = |(name, _): &Named| Path::new(name).with_file_name(stem(Path::new(name)));
    let only = |stem: &Path, models: &[Named], taken: &dyn Fn(usize) -> bool| {
        let mut free = (0..models.len()).filter(|place| !taken(*place) && stem_of(&models[*place]) == stem);
        free.next().filter(|_| free.next().is_none())
    };
    let twin = |(place, found): (usize, &Option<usize>)| {
        found.or_else(|| {
            let stem = stem_of(&left[place]);
            only(&stem, left, &|place| same[place].is_some())?;
            only(&stem, right, &|place| same.contains(&Some(place)))
        })
    };
    same.iter().enumerate().map(twin).collect()
}

/// How two models compare.
struct Comparison {
    identical: usize,
    removed: Vec<String>,
    added: Vec<String>,
    changed: Vec<(String, Change)>,
}

impl Diff {
    pub(crate) fn run(self) -> Result {
        let (left, right) = (self.models(&self.left)?, self.models(&self.right)?);
        if let ([(_, left)], [(_, right)]) = (&left[..], &right[..]) {
            let found = compare_models(&self.bases.open_model(left)?, &self.bases.open_model(right)?)?;
            match self.json {
                true => say_json(&found.document()).map(drop)?,
                false => found.print()?,
            }
            return Ok(found.outcome());
        }
        self.run_several(&left, &right)
    }

    /// The models of a file or folder, by the names they have without the mark of compressed ones.
    fn models(&self, path: &PathBuf) -> Result<Vec<Named>> {
        let name = |model: &Model| {
            let (folder, file) = model.name().rsplit_once('/').map_or(("", model.name()), |parts| parts);
            format!("{folder}/{}", plain_name(file).as_deref().unwrap_or(file))
        };
        Ok(expand(std::slice::from_ref(path))?.into_iter().map(|model| (name(&model), model)).collect())
    }

    /// Compares models that have the same name in two folders.
    fn run_several(&self, left: &[Named], right: &[Named]) -> Result {
        let twins = twins(left, right);
        let mut outcome = Outcome::Done;
        let mut documents = Vec::new();
        for ((_, model), twin) in left.iter().zip(&twins) {
            let Some((_, other)) = twin.map(|place| &right[place]) else {
                outcome = Outcome::Different;
                match self.json {
                    true => documents.push(json!({ "name": model.name(), "removed_model": true })),
                    false => say(&format!("- {}", model.path().display()))?,
                }
                continue;
            };
            let found = compare_models(&self.bases.open_model(model)?, &self.bases.open_model(other)?)?;
            outcome = outcome.max(found.outcome());
            if self.json {
                documents.push(json!({ "name": model.name(), "comparison": found.document() }));
                continue;
            }
            say(&format!("{} and {}:", model.path().display(), other.path().display()))?;
            found.print()?;
        }
        for (_, (_, model)) in right.iter().enumerate().filter(|(place, _)| !twins.contains(&Some(*place))) {
            outcome = Outcome::Different;
            match self.json {
                true => documents.push(json!({ "name": model.name(), "added_model": true })),
                false => say(&format!("+ {}", model.path().display()))?,
            }
        }
        if self.json {
            say_json(&json!({ "models": documents }))?;
        }
        Ok(outcome)
    }
}

impl Comparison {
    fn outcome(&self) -> Outcome {
        match self.removed.is_empty() && self.added.is_empty() && self.changed.is_empty() {
            true => Outcome::Done,
            false => Outcome::Different,
        }
    }

    fn document(&self) -> Json {
        json!({
            "identical": self.identical,
            "added": self.added,
            "removed": self.removed,
            "changed": self.changed.iter().map(|(name, change)| change.document(name)).collect::<Vec<_>>(),
        })
    }

    fn print(&self) -> Result<()> {
        for name in &self.removed {
            say(&format!("- {name}"))?;
        }
        for name in &self.added {
            say(&format!("+ {name}"))?;
        }
        for (name, change) in &self.changed {
            say(&format!("~ {name}: {}", change.text()))?;
        }
        say(&format!(
            "{} identical, {} changed, {} added, {} removed",
            self.identical,
            self.changed.len(),
            self.added.len(),
            self.removed.len()
        ))
    }
}

fn compare_models(left: &Reader, right: &Reader) -> Result<Comparison> {
    let missing = |of: &Reader, from: &Reader| {
        of.names().filter(|name| !from.contains(name)).map(str::to_owned).collect::<Vec<_>>()
    };
    let both: Vec<&str> = left.names().filter(|name| right.contains(name)).collect();
    let compared: Vec<(String, Change)> = both
        .par_iter()
        .map(|name| compare(left, right, name).map(|change| ((*name).to_owned(), change)))
        .collect::<ztensor::Result<_>>()?;
    let total = compared.len();
    let changed: Vec<(String, Change)> =
        compared.into_iter().filter(|(_, change)| !matches!(change, Change::Identical)).collect();
    let identical = total - changed.len();
    Ok(Comparison { identical, removed: missing(left, right), added: missing(right, left), changed })
}

/// How values differ, in words.
pub(super) fn describe(values: &ElementDifference) -> String {
    let ElementDifference { elements, total, largest } = values;
    let largest = largest.map(|value| format!(", largest difference {value:.6e}")).unwrap_or_default();
    format!("{} of {} elements differ{largest}", count(*elements), count(*total))
}

/// How values differ, for programs.
pub(super) fn describe_json(name: &str, values: &ElementDifference) -> Json {
    let ElementDifference { elements, total, largest } = values;
    json!({ "name": name, "elements": elements, "total": total, "max_difference": largest })
}

impl Change {
    fn text(&self) -> String {
        match self {
            Change::Identical => "identical".to_owned(),
            Change::Kind(text) => text.clone(),
            Change::Values(values) => describe(values),
        }
    }

    fn document(&self, name: &str) -> Json {
        match self {
            Change::Values(values) => describe_json(name, values),
            other => json!({ "name": name, "reason": other.text() }),
        }
    }
}

fn compare(left: &Reader, right: &Reader, name: &str) -> ztensor::Result<Change> {
    let (a, b) = (left.object(name)?, right.object(name)?);
    if a.shape != b.shape {
        return Ok(Change::Kind(format!("shape {} became {}", a.shape, b.shape)));
    }
    if a.layout != b.layout {
        return Ok(Change::Kind(format!("layout {} became {}", a.layout, b.layout)));
    }
    let mut change = Change::Identical;
    for (role, component) in &a.components {
        let Some(other) = b.component(role) else {
            return Ok(Change::Kind(format!("component \"{role}\" is gone")));
        };
        if component.element != other.element {
            return Ok(Change::Kind(format!("dtype {} became {}", component.element, other.element)));
        }
        let (x, y) = (left.component_bytes(name, role)?, right.component_bytes(name, role)?);
        if x.len() != y.len() {
            return Ok(Change::Kind(format!("component \"{role}\" has {} bytes, then {}", x.len(), y.len())));
        }
        if x != y && matches!(change, Change::Identical) {
            change = Change::Values(ElementDifference::between(&component.element, &x, &y));
        }
    }
    Ok(change)
}

/// The first values of a buffer as text; types without a plain number show their bytes in hexadecimal.
pub(super) fn values(element: &ElementType, bytes: &[u8], most: usize) -> Vec<String> {
    bytes.chunks_exact(element.storage.width()).take(most).map(|unit| text(element, unit)).collect()
}

fn text(element: &ElementType, unit: &[u8]) -> String {
    // These do not fit a float.
    match (&element.logical, element.storage, unit.first_chunk()) {
        (None, DType::I64, Some(unit)) => return i64::from_le_bytes(*unit).to_string(),
        (None, DType::U64, Some(unit)) => return u64::from_le_bytes(*unit).to_string(),
        (None, DType::Bool, _) => return (unit != [0]).to_string(),
        _ => {}
    }
    let bytes = || unit.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
    number(element, unit).map_or_else(|| format!("0x{}", bytes()), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ztensor::LogicalType;

    #[test]
    fn values_are_shown_as_they_are() {
        let shown = |element: ElementType, bytes: &[u8]| values(&element, bytes, 2).join(" ");
        let large = [u64::MAX.to_le_bytes(), 1u64.to_le_bytes()].concat();
        assert_eq!(shown(DType::U64.into(), &large), "18446744073709551615 1");
        assert_eq!(shown(DType::I64.into(), &large), "-1 1");
        assert_eq!(shown(DType::Bool.into(), &[1, 0]), "true false");
        assert_eq!(shown(DType::F32.into(), &1.5f32.to_le_bytes()), "1.5");
        let packed = ElementType { storage: DType::U8, logical: Some(LogicalType::F8E4M3FN) };
        assert_eq!(shown(packed, &[0x38, 0x05]), "0x38 0x05");
    }
}
