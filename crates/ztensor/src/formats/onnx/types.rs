//! ONNX data types: the element type of each number, and the typed field that holds it when the tensor has no raw bytes.

use crate::tensor::{DType, ElementType, Known};

/// The number of strings, which are no tensors here.
pub(super) const STRING: u64 = 8;

/// The typed fields of `TensorProto`, by their field numbers.
pub(super) mod field {
    pub(in super::super) const FLOATS: u32 = 4;
    pub(in super::super) const INT32S: u32 = 5;
    pub(in super::super) const INT64S: u32 = 7;
    pub(in super::super) const DOUBLES: u32 = 10;
    pub(in super::super) const UINT64S: u32 = 11;
}

/// The element type of a data type number and its typed field.
pub(super) fn element_of(data_type: u64) -> Option<(ElementType, u32)> {
    let element = Known::find(|names| names.onnx == Some(data_type))?.element();
    let field = match element.storage {
        DType::F32 => field::FLOATS,
        DType::F64 => field::DOUBLES,
        DType::I64 => field::INT64S,
        DType::U32 | DType::U64 => field::UINT64S,
        _ => field::INT32S,
    };
    Some((element, field))
}
