//! safetensors dtype names.

use crate::tensor::{DType, ElementType, LogicalType};

/// The element type of a dtype name, if it is known.
pub(crate) fn element_of(name: &str) -> Option<ElementType> {
    let logical = |logical| Some(ElementType::logical(logical));
    match name {
        "BOOL" => Some(DType::Bool.into()),
        "U8" => Some(DType::U8.into()),
        "I8" => Some(DType::I8.into()),
        "I16" => Some(DType::I16.into()),
        "U16" => Some(DType::U16.into()),
        "F16" => Some(DType::F16.into()),
        "BF16" => Some(DType::BF16.into()),
        "I32" => Some(DType::I32.into()),
        "U32" => Some(DType::U32.into()),
        "F32" => Some(DType::F32.into()),
        "F64" => Some(DType::F64.into()),
        "I64" => Some(DType::I64.into()),
        "U64" => Some(DType::U64.into()),
        "F8_E5M2" => logical(LogicalType::F8E5M2),
        "F8_E4M3" => logical(LogicalType::F8E4M3FN),
        "F8_E8M0" => logical(LogicalType::F8E8M0),
        "F8_E4M3FNUZ" => logical(LogicalType::F8E4M3FNUZ),
        "F8_E5M2FNUZ" => logical(LogicalType::F8E5M2FNUZ),
        "F4" => logical(LogicalType::F4E2M1),
        "F6_E2M3" => logical(LogicalType::F6E2M3),
        "F6_E3M2" => logical(LogicalType::F6E3M2),
        "C64" => logical(LogicalType::Complex64),
        _ => None,
    }
}

/// The dtype name of an element type, if safetensors has one.
pub fn name_of(element: &ElementType) -> Option<&'static str> {
    Some(match &element.logical {
        None => match element.storage {
            DType::Bool => "BOOL",
            DType::U8 => "U8",
            DType::I8 => "I8",
            DType::I16 => "I16",
            DType::U16 => "U16",
            DType::F16 => "F16",
            DType::BF16 => "BF16",
            DType::I32 => "I32",
            DType::U32 => "U32",
            DType::F32 => "F32",
            DType::F64 => "F64",
            DType::I64 => "I64",
            DType::U64 => "U64",
        },
        Some(LogicalType::F8E5M2) => "F8_E5M2",
        Some(LogicalType::F8E4M3FN) => "F8_E4M3",
        Some(LogicalType::F8E8M0) => "F8_E8M0",
        Some(LogicalType::F8E4M3FNUZ) => "F8_E4M3FNUZ",
        Some(LogicalType::F8E5M2FNUZ) => "F8_E5M2FNUZ",
        Some(LogicalType::F4E2M1) => "F4",
        Some(LogicalType::F6E2M3) => "F6_E2M3",
        Some(LogicalType::F6E3M2) => "F6_E3M2",
        Some(LogicalType::Complex64) => "C64",
        Some(_) => return None,
    })
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
