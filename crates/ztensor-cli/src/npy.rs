//! One tensor as a `.npy` file, for `ztensor cat`.

use ztensor::{DType, Error, LogicalType, Result, Shape};

/// The header of a `.npy` file (version 1.0) for elements of a type and shape.
pub(crate) fn header(element: &ztensor::ElementType, shape: &Shape) -> Result<Vec<u8>> {
    let descriptor = match (&element.logical, element.storage) {
        (None, DType::F64) => "<f8",
        (None, DType::F32) => "<f4",
        (None, DType::F16) => "<f2",
        // NumPy has no bfloat16 of its own; ml_dtypes reads and writes it as two opaque bytes.
        (None, DType::BF16) => "<V2",
        (None, DType::I64) => "<i8",
        (None, DType::I32) => "<i4",
        (None, DType::I16) => "<i2",
        (None, DType::I8) => "|i1",
        (None, DType::U64) => "<u8",
        (None, DType::U32) => "<u4",
        (None, DType::U16) => "<u2",
        (None, DType::U8) => "|u1",
        (None, DType::Bool) => "|b1",
        (Some(LogicalType::Complex64), _) => "<c8",
        (Some(LogicalType::Complex128), _) => "<c16",
        (Some(logical), DType::U8) if logical.geometry().is_some_and(|(bits, _)| bits == 8) => "|V1",
        _ => {
            return Err(Error::unsupported(format!(".npy has no type for {element}"))
                .with_hint("Use --raw for the bytes."));
        }
    };
    let dimensions: String = shape.iter().map(|dimension| format!("{dimension}, ")).collect();
    let dictionary =
        format!("{{'descr': '{descriptor}', 'fortran_order': False, 'shape': ({dimensions}), }}");
    let length = (10 + dictionary.len() + 1).next_multiple_of(64) - 10;
    let announced =
        u16::try_from(length).map_err(|_| Error::unsupported("a shape of so many dimensions in .npy"))?;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&announced.to_le_bytes());
    bytes.extend_from_slice(dictionary.as_bytes());
    bytes.resize(10 + length - 1, b' ');
    bytes.push(b'\n');
    Ok(bytes)
}
