//! The element types of PyTorch, by the names of its dtypes (`torch.float32`) and of its older typed storages (`torch.FloatStorage`).

use crate::tensor::{DType, ElementType, LogicalType};

/// One element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scalar {
    /// The dtype's name in PyTorch.
    pub name: &'static str,
    /// Bytes of one element.
    pub width: u64,
    reading: Reading,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Plain(DType),
    Float8(Float8),
    Complex(u64),
    /// Two 4-bit floats in each byte, which PyTorch counts as one element.
    Float4Pair,
    /// Bits that have no meaning of their own, or that are packed in a way of PyTorch's own.
    Opaque,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Float8 {
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    E8M0,
}

impl Scalar {
    /// The element type that stands for it; `None` if there is none.
    pub(super) fn element(&self) -> Option<ElementType> {
        let logical = match self.reading {
            Reading::Plain(dtype) => return Some(dtype.into()),
            Reading::Float8(Float8::E4M3FN) => LogicalType::F8E4M3FN,
            Reading::Float8(Float8::E4M3FNUZ) => LogicalType::F8E4M3FNUZ,
            Reading::Float8(Float8::E5M2) => LogicalType::F8E5M2,
            Reading::Float8(Float8::E5M2FNUZ) => LogicalType::F8E5M2FNUZ,
            Reading::Float8(Float8::E8M0) => LogicalType::F8E8M0,
            Reading::Complex(4) => LogicalType::Complex32,
            Reading::Complex(8) => LogicalType::Complex64,
            Reading::Complex(_) => LogicalType::Complex128,
            Reading::Float4Pair => LogicalType::F4E2M1,
            Reading::Opaque => return None,
        };
        Some(ElementType::logical(logical))
    }

    /// How many logical elements one PyTorch element holds.
    pub(super) fn packed(&self) -> u64 {
        if self.reading == Reading::Float4Pair { 2 } else { 1 }
    }

    /// The bytes that change places between byte orders.
    pub(super) fn swap_width(&self) -> u8 {
        let parts = if matches!(self.reading, Reading::Complex(_)) { 2 } else { 1 };
        (self.width / parts) as u8
    }
}

const fn scalar(name: &'static str, width: u64, reading: Reading) -> Scalar {
    Scalar { name, width, reading }
}

const fn plain(name: &'static str, width: u64, dtype: DType) -> Scalar {
    scalar(name, width, Reading::Plain(dtype))
}

const BYTE: Scalar = plain("uint8", 1, DType::U8);

/// The type of `torch.<name>`.
pub(super) fn dtype(name: &str) -> Option<Scalar> {
    Some(match name {
        "float32" | "float" => plain("float32", 4, DType::F32),
        "float64" | "double" => plain("float64", 8, DType::F64),
        "float16" | "half" => plain("float16", 2, DType::F16),
        "bfloat16" => plain("bfloat16", 2, DType::BF16),
        "int64" | "long" => plain("int64", 8, DType::I64),
        "int32" | "int" => plain("int32", 4, DType::I32),
        "int16" | "short" => plain("int16", 2, DType::I16),
        "int8" => plain("int8", 1, DType::I8),
        "uint64" => plain("uint64", 8, DType::U64),
        "uint32" => plain("uint32", 4, DType::U32),
        "uint16" => plain("uint16", 2, DType::U16),
        "uint8" => BYTE,
        "bool" => plain("bool", 1, DType::Bool),
        "qint8" => plain("qint8", 1, DType::I8),
        "quint8" => plain("quint8", 1, DType::U8),
        "qint32" => plain("qint32", 4, DType::I32),
        "complex32" | "chalf" => scalar("complex32", 4, Reading::Complex(4)),
        "complex64" | "cfloat" => scalar("complex64", 8, Reading::Complex(8)),
        "complex128" | "cdouble" => scalar("complex128", 16, Reading::Complex(16)),
        "float8_e4m3fn" => scalar("float8_e4m3fn", 1, Reading::Float8(Float8::E4M3FN)),
        "float8_e4m3fnuz" => scalar("float8_e4m3fnuz", 1, Reading::Float8(Float8::E4M3FNUZ)),
        "float8_e5m2" => scalar("float8_e5m2", 1, Reading::Float8(Float8::E5M2)),
        "float8_e5m2fnuz" => scalar("float8_e5m2fnuz", 1, Reading::Float8(Float8::E5M2FNUZ)),
        "float8_e8m0fnu" => scalar("float8_e8m0fnu", 1, Reading::Float8(Float8::E8M0)),
        "float4_e2m1fn_x2" => scalar("float4_e2m1fn_x2", 1, Reading::Float4Pair),
        "bcomplex32" => scalar("bcomplex32", 4, Reading::Opaque),
        "bits16" => scalar("bits16", 2, Reading::Opaque),
        "bits8" => scalar("bits8", 1, Reading::Opaque),
        "bits4x2" => scalar("bits4x2", 1, Reading::Opaque),
        "bits2x4" => scalar("bits2x4", 1, Reading::Opaque),
        "bits1x8" => scalar("bits1x8", 1, Reading::Opaque),
        "quint4x2" => scalar("quint4x2", 1, Reading::Opaque),
        "quint2x4" => scalar("quint2x4", 1, Reading::Opaque),
        _ => return None,
    })
}

/// The type of the storage class `torch.<name>`. Untyped storages count bytes; the tensor over them brings its own dtype.
pub(super) fn storage(name: &str) -> Option<Scalar> {
    match name {
        "FloatStorage" => dtype("float32"),
        "DoubleStorage" => dtype("float64"),
        "HalfStorage" => dtype("float16"),
        "BFloat16Storage" => dtype("bfloat16"),
        "LongStorage" => dtype("int64"),
        "IntStorage" => dtype("int32"),
        "ShortStorage" => dtype("int16"),
        "CharStorage" => dtype("int8"),
        "ByteStorage" | "UntypedStorage" => Some(BYTE),
        "BoolStorage" => dtype("bool"),
        "ComplexFloatStorage" => dtype("complex64"),
        "ComplexDoubleStorage" => dtype("complex128"),
        "QInt8Storage" => dtype("qint8"),
        "QUInt8Storage" => dtype("quint8"),
        "QInt32Storage" => dtype("qint32"),
        "QUInt4x2Storage" => dtype("quint4x2"),
        "QUInt2x4Storage" => dtype("quint2x4"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_agree_with_the_element_types() {
        let names = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex32 complex64 \
                     complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2";
        for name in names.split_whitespace() {
            let scalar = dtype(name).unwrap();
            assert_eq!(scalar.element().unwrap().byte_length(scalar.packed()), Some(scalar.width), "{name}");
        }
    }
}
