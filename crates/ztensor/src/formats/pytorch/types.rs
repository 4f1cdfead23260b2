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

/// The typed storages by the dtypes of their elements. PyTorch gives later dtypes no class of their own, but untyped storages.
const STORAGES: [(&str, &str); 17] = [
    ("FloatStorage", "float32"),
    ("DoubleStorage", "float64"),
    ("HalfStorage", "float16"),
    ("BFloat16Storage", "bfloat16"),
    ("LongStorage", "int64"),
    ("IntStorage", "int32"),
    ("ShortStorage", "int16"),
    ("CharStorage", "int8"),
    ("ByteStorage", "uint8"),
    ("BoolStorage", "bool"),
    ("ComplexFloatStorage", "complex64"),
    ("ComplexDoubleStorage", "complex128"),
    ("QInt8Storage", "qint8"),
    ("QUInt8Storage", "quint8"),
    ("QInt32Storage", "qint32"),
    ("QUInt4x2Storage", "quint4x2"),
    ("QUInt2x4Storage", "quint2x4"),
];

/// The type of the storage class `torch.<name>`. Untyped storages count bytes; the tensor over them brings its own dtype.
pub(super) fn storage(name: &str) -> Option<Scalar> {
    match name {
        "UntypedStorage" => dtype("uint8"),
        _ => STORAGES.iter().find(|(class, _)| *class == name).and_then(|(_, name)| dtype(name)),
    }
}

/// The storage class for elements of a dtype; `None` where PyTorch takes an untyped one.
pub(super) fn storage_class(scalar: Scalar) -> Option<&'static str> {
    STORAGES.iter().find(|(_, name)| *name == scalar.name).map(|(class, _)| *class)
}

/// The dtype whose elements are of a type.
pub(super) fn of_element(element: &ElementType) -> Option<Scalar> {
    dtype(Known::of(element)?.names.torch?)
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
