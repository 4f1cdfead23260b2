//! ONNX data types: the element type of each number, and the typed field that holds it when the tensor has no raw bytes.

use crate::tensor::{DType, ElementType, LogicalType};

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
    use field::{DOUBLES, FLOATS, INT32S, INT64S, UINT64S};
    let plain = |dtype: DType, field| Some((dtype.into(), field));
    let logical = |logical, field| Some((ElementType::logical(logical), field));
    match data_type {
        1 => plain(DType::F32, FLOATS),
        2 => plain(DType::U8, INT32S),
        3 => plain(DType::I8, INT32S),
        4 => plain(DType::U16, INT32S),
        5 => plain(DType::I16, INT32S),
        6 => plain(DType::I32, INT32S),
        7 => plain(DType::I64, INT64S),
        9 => plain(DType::Bool, INT32S),
        10 => plain(DType::F16, INT32S),
        11 => plain(DType::F64, DOUBLES),
        12 => plain(DType::U32, UINT64S),
        13 => plain(DType::U64, UINT64S),
        14 => logical(LogicalType::Complex64, FLOATS),
        15 => logical(LogicalType::Complex128, DOUBLES),
        16 => plain(DType::BF16, INT32S),
        17 => logical(LogicalType::F8E4M3FN, INT32S),
        18 => logical(LogicalType::F8E4M3FNUZ, INT32S),
        19 => logical(LogicalType::F8E5M2, INT32S),
        20 => logical(LogicalType::F8E5M2FNUZ, INT32S),
        21 => logical(LogicalType::U4, INT32S),
        22 => logical(LogicalType::I4, INT32S),
        23 => logical(LogicalType::F4E2M1, INT32S),
        24 => logical(LogicalType::F8E8M0, INT32S),
        25 => logical(LogicalType::U2, INT32S),
        26 => logical(LogicalType::I2, INT32S),
        27 => logical(LogicalType::F6E2M3, INT32S),
        28 => logical(LogicalType::F6E3M2, INT32S),
        _ => None,
    }
}
