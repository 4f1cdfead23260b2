//! Tensors that are kept in boxes: axis-parallel parts, each with bytes of its own, as every rank of a
//! training job writes those it has. Boxes are disjoint and make up the whole tensor; that is checked here,
//! once, for every format that has them.

use super::Component;
use crate::error::{Error, Kind, Result};
use crate::tensor::{ElementType, Shape};

/// Pairs of boxes that are compared to see that none overlap. A grid of 256 by 256 takes 17 million; more is
/// made up.
const MOST_COMPARISONS: u64 = 1 << 26;

/// A tensor in boxes.
#[derive(Clone, Debug)]
pub struct Boxes {
    /// Dimensions of the tensor.
    pub shape: Shape,
    /// Bytes of one element.
    pub width: u64,
    /// The boxes by ascending offsets; empty ones are left out.
    pub boxes: Vec<StoredBox>,
}

/// One box of a tensor.
#[derive(Clone, Debug)]
pub struct StoredBox {
    /// Its first element in the tensor.
    pub offsets: Shape,
    /// Its dimensions.
    pub sizes: Shape,
    /// Its elements, row-major.
    pub component: Component,
}

impl Boxes {
    /// A tensor in boxes. They must lie inside it, be disjoint, and make it up.
    pub(crate) fn new(shape: Shape, element: &ElementType, mut boxes: Vec<StoredBox>) -> Result<Boxes> {
        let width = element.bits().filter(|bits| bits % 8 == 0).map(|bits| bits / 8);
        let width = width.ok_or_else(|| Error::unsupported(format!("boxes of {element} elements")))?;
        let too_large = || Error::malformed("the dimensions are too large");
        let whole = shape.elements().ok_or_else(too_large)?;
        whole.checked_mul(width).ok_or_else(too_large)?;
        let mut covered = 0u64;
        for stored in &boxes {
            let elements = inside(&shape, stored)?;
            if stored.component.element != *element {
                return Err(wrong(stored, &format!("holds {}, not {element}", stored.component.element)));
            }
            if elements.checked_mul(width) != Some(stored.component.length) {
                return Err(wrong(stored, &format!("has {} bytes", stored.component.length)));
            }
            covered = covered.checked_add(elements).ok_or_else(too_large)?;
        }
        boxes.retain(|stored| stored.component.length > 0);
        boxes.sort_by(|one, other| one.offsets[..].cmp(&other.offsets[..]));
        if let Some((one, other)) = overlapping(&boxes, &shape)? {
            return Err(Error::malformed(format!("{one} and {other} overlap")));
        }
        if covered != whole {
            return Err(Error::malformed(format!(
                "the boxes hold {covered} of the {whole} elements of the tensor"
            )));
        }
        Ok(Boxes { shape, width, boxes })
    }

    /// Bytes of the whole tensor.
    pub(crate) fn length(&self) -> u64 {
        self.boxes.iter().map(|stored| stored.component.length).sum()
    }
}

/// The elements of a box that lies inside the tensor.
fn inside(shape: &[u64], stored: &StoredBox) -> Result<u64> {
    let (offsets, sizes) = (&stored.offsets, &stored.sizes);
    if offsets.len() != shape.len() || sizes.len() != shape.len() {
        return Err(wrong(stored, &format!("does not have the {} dimensions of the tensor", shape.len())));
    }
    let reaches_out = |(dimension, all): (usize, &u64)| {
        offsets[dimension].checked_add(sizes[dimension]).is_none_or(|end| end > *all)
    };
    if shape.iter().enumerate().any(reaches_out) {
        return Err(wrong(stored, &format!("lies outside the tensor of {:?}", Shape::from(shape))));
    }
    sizes.elements().ok_or_else(|| wrong(stored, "is too large"))
}

/// Two boxes that have elements in common. A sweep along the dimension that is cut most often: only boxes
/// that the front has entered and not left are compared.
fn overlapping(boxes: &[StoredBox], shape: &[u64]) -> Result<Option<(String, String)>> {
    let distinct = |dimension: usize| {
        let mut starts: Vec<u64> = boxes.iter().map(|stored| stored.offsets[dimension]).collect();
        starts.sort_unstable();
        starts.dedup();
        starts.len()
    };
    let Some(along) = (0..shape.len()).max_by_key(|dimension| distinct(*dimension)) else {
        // A scalar has one box.
        return Ok((boxes.len() > 1).then(|| (boxes[0].describe(), boxes[1].describe())));
    };
    let mut order: Vec<&StoredBox> = boxes.iter().collect();
    order.sort_by_key(|stored| stored.offsets[along]);
    let mut entered: Vec<&StoredBox> = Vec::new();
    let mut comparisons = 0u64;
    for stored in order {
        entered.retain(|other| other.offsets[along] + other.sizes[along] > stored.offsets[along]);
        comparisons += entered.len() as u64;
        if comparisons > MOST_COMPARISONS {
            return Err(Error::new(Kind::Limit, "there are too many boxes to see that none of them overlap"));
        }
        let meets = |other: &&&StoredBox| {
            (0..shape.len()).all(|dimension| {
                let (a, b) = (stored.offsets[dimension], other.offsets[dimension]);
                a < b + other.sizes[dimension] && b < a + stored.sizes[dimension]
            })
        };
        if let Some(other) = entered.iter().find(meets) {
            return Ok(Some((other.describe(), stored.describe())));
        }
        entered.push(stored);
    }
    Ok(None)
}

impl StoredBox {
    /// As a message names it.
    fn describe(&self) -> String {
        format!("the box of {:?} at {:?}", self.sizes, self.offsets)
    }
}

fn wrong(stored: &StoredBox, what: &str) -> Error {
    Error::malformed(format!("{} {what}", stored.describe()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{FileId, Span};
    use crate::tensor::DType;

    fn stored(offsets: &[u64], sizes: &[u64]) -> StoredBox {
        let length = sizes.iter().product::<u64>() * 4;
        let span = Span { file: FileId(0), offset: 0, length };
        StoredBox {
            offsets: offsets.into(),
            sizes: sizes.into(),
            component: Component::raw(DType::F32, span),
        }
    }

    fn checked(shape: &[u64], boxes: Vec<StoredBox>) -> Result<Boxes> {
        Boxes::new(shape.into(), &DType::F32.into(), boxes)
    }

    #[test]
    fn boxes_make_up_a_tensor_or_are_refused() {
        let grid = vec![stored(&[2, 0], &[2, 5]), stored(&[0, 0], &[2, 3]), stored(&[0, 3], &[2, 2])];
        assert_eq!(checked(&[4, 5], grid).unwrap().boxes[0].offsets[..], [0, 0]);
        assert_eq!(checked(&[], vec![stored(&[], &[])]).unwrap().boxes.len(), 1);
        assert_eq!(checked(&[0], vec![]).unwrap().boxes.len(), 0);
        assert_eq!(checked(&[3], vec![stored(&[0], &[3]), stored(&[3], &[0])]).unwrap().boxes.len(), 1);
        for (shape, boxes, part) in [
            (&[4u64][..], vec![stored(&[0], &[3]), stored(&[2], &[1])], "overlap"),
            (&[4], vec![stored(&[0], &[3])], "hold 3 of the 4"),
            (&[4], vec![stored(&[2], &[3])], "outside"),
            (&[4], vec![stored(&[u64::MAX], &[3])], "outside"),
            (&[4], vec![stored(&[0, 0], &[4, 1])], "dimensions"),
            (&[], vec![stored(&[], &[]), stored(&[], &[])], "overlap"),
            (&[4, 4], vec![stored(&[0, 0], &[4, 3]), stored(&[1, 1], &[2, 2])], "overlap"),
        ] {
            let error = checked(shape, boxes).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
