//! The element types of PyTorch, by the names of its dtypes (`torch.float32`) and of its older typed storages (`torch.FloatStorage`).

use crate::tensor::{ElementType, Known};

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
    Known(&'static Known),
    /// Bits that have no meaning of their own, or that are packed in a way of PyTorch's own.
    Opaque,
}

impl Scalar {
    /// The element type that stands for it; `None` if there is none.
    pub(super) fn element(&self) -> Option<ElementType> {
        match self.reading {
            Reading::Known(known) => Some(known.element()),
            Reading::Opaque => None,
        }
    }

    /// How many logical elements one PyTorch element holds: of types narrower than a byte, as many as fill one.
    pub(super) fn packed(&self) -> u64 {
        match self.reading {
            Reading::Known(known) => (8 / known.bits).max(1),
            Reading::Opaque => 1,
        }
    }

    /// The bytes that change places between byte orders.
    pub(super) fn swap_width(&self) -> u8 {
        match self.reading {
            Reading::Known(known) => known.swap_width() as u8,
            Reading::Opaque => self.width as u8,
        }
    }
}

/// The type of `torch.<name>`.
pub(super) fn dtype(name: &str) -> Option<Scalar> {
    let known = |name: &str| Known::find(|names| names.torch == Some(name));
    let scalar = |name, known: &'static Known| Scalar {
        name,
        width: known.bits.div_ceil(8),
        reading: Reading::Known(known),
    };
    let opaque = |name, width| Some(Scalar { name, width, reading: Reading::Opaque });
    match name {
        "float" => dtype("float32"),
        "double" => dtype("float64"),
        "half" => dtype("float16"),
        "long" => dtype("int64"),
        "int" => dtype("int32"),
        "short" => dtype("int16"),
        "chalf" => dtype("complex32"),
        "cfloat" => dtype("complex64"),
        "cdouble" => dtype("complex128"),
        "qint8" => known("int8").map(|known| scalar("qint8", known)),
        "quint8" => known("uint8").map(|known| scalar("quint8", known)),
        "qint32" => known("int32").map(|known| scalar("qint32", known)),
        "bcomplex32" => opaque("bcomplex32", 4),
        "bits16" => opaque("bits16", 2),
        "bits8" => opaque("bits8", 1),
        "bits4x2" => opaque("bits4x2", 1),
        "bits2x4" => opaque("bits2x4", 1),
        "bits1x8" => opaque("bits1x8", 1),
        "quint4x2" => opaque("quint4x2", 1),
        "quint2x4" => opaque("quint2x4", 1),
        _ => known(name).and_then(|known| Some(scalar(known.names.torch?, known))),
    }
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
        "ByteStorage" | "UntypedStorage" => dtype("uint8"),
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
        for name in Known::all().iter().filter_map(|row| row.names.torch) {
            let scalar = dtype(name).unwrap();
            assert_eq!(scalar.element().unwrap().byte_length(scalar.packed()), Some(scalar.width), "{name}");
        }
    }
}
