//! safetensors dtype names.

use crate::tensor::{ElementType, Known};

/// The element type of a dtype name, if it is known.
pub(crate) fn element_of(name: &str) -> Option<ElementType> {
    Known::find(|names| names.safetensors == Some(name)).map(Known::element)
}

/// The dtype name of an element type, if safetensors has one.
pub fn name_of(element: &ElementType) -> Option<&'static str> {
    Known::of(element)?.names.safetensors
}

/// dtype names as the reference implementation orders them; its files hold the tensors of the last ones first.
#[rustfmt::skip]
const ORDER: [&str; 22] = [
    "BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ",
    "F8_E5M2FNUZ", "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64",
];

/// Where an element type stands in the order of dtypes.
pub(super) fn rank(element: &ElementType) -> Option<usize> {
    let name = name_of(element)?;
    ORDER.iter().position(|known| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_place_in_the_order() {
        let named: Vec<&Known> = Known::all().iter().filter(|row| row.names.safetensors.is_some()).collect();
        assert!(named.iter().all(|row| rank(&row.element()).is_some()));
        assert_eq!(named.len(), ORDER.len());
    }
}
