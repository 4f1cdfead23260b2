//! `ztensor diff`

use std::path::PathBuf;

use clap::Args;
use half::{bf16, f16};
use rayon::prelude::*;
use serde_json::{Value as Json, json};
use ztensor::{DType, ElementType, LogicalType, Reader};

use crate::display::{count, say, say_json};
use crate::{Outcome, Result, limits};

#[derive(Args)]
pub(crate) struct Diff {
    /// The first file
    left: PathBuf,
    /// The second file
    right: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// How a tensor that both files have compares.
enum Change {
    Identical,
    /// dtype, shape or layout differ.
    Kind(String),
    /// So many elements differ, by at most so much where their type has values.
    Values {
        elements: u64,
        total: u64,
        largest: Option<f64>,
    },
}

impl Diff {
    pub(crate) fn run(self) -> Result {
        let (left, right) = (limits::open(&self.left)?, limits::open(&self.right)?);
        let removed: Vec<&str> = left.names().filter(|name| !right.contains(name)).collect();
        let added: Vec<&str> = right.names().filter(|name| !left.contains(name)).collect();
        let both: Vec<&str> = left.names().filter(|name| right.contains(name)).collect();
        let compared: Vec<(&str, Change)> = both
            .par_iter()
            .map(|name| compare(&left, &right, name).map(|change| (*name, change)))
            .collect::<ztensor::Result<_>>()?;
        let changed: Vec<&(&str, Change)> =
            compared.iter().filter(|(_, change)| !matches!(change, Change::Identical)).collect();
        let identical = compared.len() - changed.len();
        let outcome = if removed.is_empty() && added.is_empty() && changed.is_empty() {
            Outcome::Done
        } else {
            Outcome::Different
        };
        if self.json {
            say_json(&json!({
                "identical": identical,
                "added": added,
                "removed": removed,
                "changed": changed.iter().map(|(name, change)| describe_json(name, change)).collect::<Vec<_>>(),
            }))?;
            return Ok(outcome);
        }
        for name in &removed {
            say(&format!("- {name}"))?;
        }
        for name in &added {
            say(&format!("+ {name}"))?;
        }
        for (name, change) in &changed {
            say(&format!("~ {name}: {}", describe(change)))?;
        }
        say(&format!(
            "{identical} identical, {} changed, {} added, {} removed",
            changed.len(),
            added.len(),
            removed.len()
        ))?;
        Ok(outcome)
    }
}

fn describe(change: &Change) -> String {
    match change {
        Change::Identical => "identical".to_owned(),
        Change::Kind(text) => text.clone(),
        Change::Values { elements, total, largest } => {
            let largest =
                largest.map(|value| format!(", largest difference {value:.6e}")).unwrap_or_default();
            format!("{} of {} elements differ{largest}", count(*elements), count(*total))
        }
    }
}

fn describe_json(name: &str, change: &Change) -> Json {
    match change {
        Change::Values { elements, total, largest } => {
            json!({ "name": name, "elements": elements, "total": total, "max_difference": largest })
        }
        other => json!({ "name": name, "reason": describe(other) }),
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
            change = difference(&component.element, &x, &y);
        }
    }
    Ok(change)
}

/// Counts differing elements (by their bits) and finds the largest difference of their values.
fn difference(element: &ElementType, x: &[u8], y: &[u8]) -> Change {
    let width = element.bits().map_or(1, |bits| (bits as usize / 8).max(1));
    let pairs = || x.chunks_exact(width).zip(y.chunks_exact(width));
    let elements = pairs().filter(|(a, b)| a != b).count() as u64;
    let gap = |(a, b): (&[u8], &[u8])| {
        let (a, b) = (value(element, a)?, value(element, b)?);
        Some((a - b).abs()).filter(|gap| !gap.is_nan())
    };
    let largest = pairs().filter(|(a, b)| a != b).filter_map(gap).reduce(f64::max);
    Change::Values { elements, total: (x.len() / width) as u64, largest }
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
    value(element, unit).map_or_else(|| format!("0x{}", bytes()), |value| value.to_string())
}

/// One element as a number, for types whose value is plain.
fn value(element: &ElementType, unit: &[u8]) -> Option<f64> {
    if !matches!(element.logical, None | Some(LogicalType::Complex64 | LogicalType::Complex128)) {
        return None;
    }
    Some(match element.storage {
        DType::F64 => f64::from_le_bytes(*unit.first_chunk()?),
        DType::F32 => f32::from_le_bytes(*unit.first_chunk()?).into(),
        DType::F16 => f16::from_le_bytes(*unit.first_chunk()?).into(),
        DType::BF16 => bf16::from_le_bytes(*unit.first_chunk()?).into(),
        DType::I64 => i64::from_le_bytes(*unit.first_chunk()?) as f64,
        DType::I32 => i32::from_le_bytes(*unit.first_chunk()?).into(),
        DType::I16 => i16::from_le_bytes(*unit.first_chunk()?).into(),
        DType::I8 => i8::from_le_bytes(*unit.first_chunk()?).into(),
        DType::U64 => u64::from_le_bytes(*unit.first_chunk()?) as f64,
        DType::U32 => u32::from_le_bytes(*unit.first_chunk()?).into(),
        DType::U16 => u16::from_le_bytes(*unit.first_chunk()?).into(),
        DType::U8 | DType::Bool => f64::from(*unit.first()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
