//! The one table of element types: how wide each is, where the fields of a float lie, and what every format and library calls it. Readers, writers
//! and the extension module look names up here; what the table does not say of a type, nobody knows. A new type is a row.

use super::ElementType;

/// The fields of a float, from the top: a sign (`F8E8M0` has none), the exponent, the mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatFields {
    /// Bits of the exponent.
    pub exponent: u8,
    /// Bits of the mantissa, without the leading one.
    pub mantissa: u8,
    /// What is added to exponents.
    pub bias: u32,
}

/// A type of NumPy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumpyType {
    /// Its name, such as `float32`.
    pub name: &'static str,
    /// Whether it comes with the package `ml_dtypes` instead of NumPy.
    pub from_ml_dtypes: bool,
}

/// What an element type is called elsewhere; `None` where there is no such type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The fields, of a float.
    pub float: Option<FloatFields>,
    /// In `.safetensors` headers.
    pub safetensors: Option<&'static str>,
    /// Among PyTorch's dtypes.
    pub torch: Option<&'static str>,
    /// Among NumPy's types and those of `ml_dtypes`.
    pub numpy: Option<NumpyType>,
    /// In `.npy` headers, without the byte order. Types that NumPy itself does not know are told by what it writes instead, always with `<`.
    pub npy: Option<&'static str>,
    /// ggml's number.
    pub gguf: Option<u32>,
    /// The number in `TensorProto.DataType`.
    pub onnx: Option<u64>,
    /// Whether HDF5 files state the type by the fields of the float.
    pub hdf5_by_fields: Option<bool>,
    /// What the codec takes the elements for; plain bytes where it is `None`.
    pub codec: Option<z4ai::Dtype>,
}

impl Names {
    const NONE: Names = Names {
        float: None,
        safetensors: None,
        torch: None,
        numpy: None,
        npy: None,
        gguf: None,
        onnx: None,
        hdf5_by_fields: None,
        codec: None,
    };
}

/// An element type and all that is known of it: a row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    storage: DType,
    logical: Option<LogicalType>,
    /// Bits of one element.
    pub bits: u64,
    /// What it is called elsewhere.
    pub names: Names,
}

impl Known {
    /// Every element type: the storage types, then the logical ones.
    pub fn all() -> &'static [Known] {
        TABLE
    }

    /// The first element type of which something is true.
    pub fn find(is_wanted: impl Fn(&Names) -> bool) -> Option<&'static Known> {
        TABLE.iter().find(|known| is_wanted(&known.names))
    }

    /// The row of an element type; `None` for a logical type that is not known, or not over this storage.
    pub fn of(element: &ElementType) -> Option<&'static Known> {
        TABLE.iter().find(|known| known.storage == element.storage && known.logical == element.logical)
    }

    /// The element type.
    pub fn element(&self) -> ElementType {
        ElementType { storage: self.storage, logical: self.logical.clone() }
    }

    /// Bytes of the unit that changes between byte orders: of a complex number, one of its two.
    pub fn swap_width(&self) -> usize {
        self.storage.width()
    }
}

const fn fields(exponent: u8, mantissa: u8, bias: u32) -> FloatFields {
    FloatFields { exponent, mantissa, bias }
}

const fn numpy(name: &'static str) -> NumpyType {
    NumpyType { name, from_ml_dtypes: false }
}

const fn ml_dtypes(name: &'static str) -> NumpyType {
    NumpyType { name, from_ml_dtypes: true }
}

macro_rules! element_types {
    (
        storage { $($variant:ident $short:literal $long:literal $width:literal { $($column:ident: $value:expr),* $(,)? })* }
        logical { $($meaning:ident $name:literal over $over:ident, $bits:literal bits { $($field:ident: $entry:expr),* $(,)? })* }
    ) => {
        /// A storage type: how wide an element is and what its bytes mean by default.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum DType { $($variant),* }

        impl DType {
            /// Every storage type.
            pub const ALL: &'static [DType] = &[$(DType::$variant),*];

            /// The name in `.zt` manifests, such as `f32`.
            pub fn short_name(self) -> &'static str {
                match self { $(DType::$variant => $short),* }
            }

            /// The name NumPy and PyTorch users know, such as `float32`.
            pub fn long_name(self) -> &'static str {
                match self { $(DType::$variant => $long),* }
            }

            /// Bytes per element.
            pub fn width(self) -> usize {
                match self { $(DType::$variant => $width),* }
            }

            /// The type of a short name (`f32`).
            pub fn parse_short(name: &str) -> Option<DType> {
                match name { $($short => Some(DType::$variant),)* _ => None }
            }

            /// The type of a short (`f32`) or long (`float32`) name.
            pub fn parse(name: &str) -> Option<DType> {
                DType::ALL.iter().copied().find(|dtype| name == dtype.short_name() || name == dtype.long_name())
            }
        }

        /// How storage elements are to be read when their storage type does not say it all. The set is open:
        /// names this library does not know are carried, listed and written back unchanged.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum LogicalType { $($meaning,)* Other(Box<str>) }

        impl LogicalType {
            /// The name in `.zt` manifests, such as `f8_e4m3fn`.
            pub fn name(&self) -> &str {
                match self { $(LogicalType::$meaning => $name,)* LogicalType::Other(name) => name }
            }

            /// The type of a name; unknown names become [`LogicalType::Other`].
            pub fn parse(name: &str) -> LogicalType {
                match name { $($name => LogicalType::$meaning,)* other => LogicalType::Other(other.into()) }
            }

            /// Bits of one logical element and the storage type it lies over; `None` for unknown types.
            pub fn geometry(&self) -> Option<(u64, DType)> {
                match self { $(LogicalType::$meaning => Some(($bits, DType::$over)),)* LogicalType::Other(_) => None }
            }
        }

        #[allow(clippy::needless_update, reason = "some rows say everything")]
        static TABLE: &[Known] = &[
            $(Known {
                storage: DType::$variant,
                logical: None,
                bits: 8 * $width,
                names: Names { $($column: Some($value),)* ..Names::NONE },
            },)*
            $(Known {
                storage: DType::$over,
                logical: Some(LogicalType::$meaning),
                bits: $bits,
                names: Names { $($field: Some($entry),)* ..Names::NONE },
            },)*
        ];
    };
}

use z4ai::Dtype as Codec;

#[rustfmt::skip]
element_types! {
    storage {
        F64 "f64" "float64" 8 { float: fields(11, 52, 1023), hdf5_by_fields: true, safetensors: "F64", torch: "float64", numpy: numpy("float64"), npy: "f8", gguf: 28, onnx: 11, codec: Codec::F64 }
        F32 "f32" "float32" 4 { float: fields(8, 23, 127), hdf5_by_fields: true, safetensors: "F32", torch: "float32", numpy: numpy("float32"), npy: "f4", gguf: 0, onnx: 1, codec: Codec::F32 }
        F16 "f16" "float16" 2 { float: fields(5, 10, 15), hdf5_by_fields: true, safetensors: "F16", torch: "float16", numpy: numpy("float16"), npy: "f2", gguf: 1, onnx: 10, codec: Codec::F16 }
        BF16 "bf16" "bfloat16" 2 { float: fields(8, 7, 127), hdf5_by_fields: true, safetensors: "BF16", torch: "bfloat16", numpy: ml_dtypes("bfloat16"), npy: "V2", gguf: 30, onnx: 16, codec: Codec::Bf16 }
        I64 "i64" "int64" 8 { safetensors: "I64", torch: "int64", numpy: numpy("int64"), npy: "i8", gguf: 27, onnx: 7, codec: Codec::I64 }
        I32 "i32" "int32" 4 { safetensors: "I32", torch: "int32", numpy: numpy("int32"), npy: "i4", gguf: 26, onnx: 6, codec: Codec::I32 }
        I16 "i16" "int16" 2 { safetensors: "I16", torch: "int16", numpy: numpy("int16"), npy: "i2", gguf: 25, onnx: 5, codec: Codec::I16 }
        I8 "i8" "int8" 1 { safetensors: "I8", torch: "int8", numpy: numpy("int8"), npy: "i1", gguf: 24, onnx: 3, codec: Codec::I8 }
        U64 "u64" "uint64" 8 { safetensors: "U64", torch: "uint64", numpy: numpy("uint64"), npy: "u8", onnx: 13, codec: Codec::U64 }
        U32 "u32" "uint32" 4 { safetensors: "U32", torch: "uint32", numpy: numpy("uint32"), npy: "u4", onnx: 12, codec: Codec::U32 }
        U16 "u16" "uint16" 2 { safetensors: "U16", torch: "uint16", numpy: numpy("uint16"), npy: "u2", onnx: 4, codec: Codec::U16 }
        U8 "u8" "uint8" 1 { safetensors: "U8", torch: "uint8", numpy: numpy("uint8"), npy: "u1", onnx: 2, codec: Codec::U8 }
        Bool "bool" "bool" 1 { safetensors: "BOOL", torch: "bool", numpy: numpy("bool"), npy: "b1", onnx: 9, codec: Codec::Bool }
    }
    logical {
        F8E4M3FN "f8_e4m3fn" over U8, 8 bits { float: fields(4, 3, 7), hdf5_by_fields: true, safetensors: "F8_E4M3", torch: "float8_e4m3fn", numpy: ml_dtypes("float8_e4m3fn"), onnx: 17, codec: Codec::F8E4M3 }
        F8E5M2 "f8_e5m2" over U8, 8 bits { float: fields(5, 2, 15), hdf5_by_fields: true, safetensors: "F8_E5M2", torch: "float8_e5m2", numpy: ml_dtypes("float8_e5m2"), npy: "f1", onnx: 19, codec: Codec::F8E5M2 }
        F8E4M3FNUZ "f8_e4m3fnuz" over U8, 8 bits { float: fields(4, 3, 8), safetensors: "F8_E4M3FNUZ", torch: "float8_e4m3fnuz", numpy: ml_dtypes("float8_e4m3fnuz"), onnx: 18, codec: Codec::F8E4M3 }
        F8E5M2FNUZ "f8_e5m2fnuz" over U8, 8 bits { float: fields(5, 2, 16), safetensors: "F8_E5M2FNUZ", torch: "float8_e5m2fnuz", numpy: ml_dtypes("float8_e5m2fnuz"), onnx: 20, codec: Codec::F8E5M2 }
        F8E8M0 "f8_e8m0" over U8, 8 bits { float: fields(8, 0, 127), safetensors: "F8_E8M0", torch: "float8_e8m0fnu", numpy: ml_dtypes("float8_e8m0fnu"), onnx: 24, codec: Codec::U8 }
        // With infinities, as IEEE 754 has them. HDF5 files say no more than what `F8E4M3FN` has as well.
        F8E4M3 "f8_e4m3" over U8, 8 bits { float: fields(4, 3, 7), numpy: ml_dtypes("float8_e4m3"), codec: Codec::F8E4M3 }
        F8E3M4 "f8_e3m4" over U8, 8 bits { float: fields(3, 4, 3), hdf5_by_fields: true, numpy: ml_dtypes("float8_e3m4"), codec: Codec::U8 }
        F4E2M1 "f4_e2m1" over U8, 4 bits { float: fields(2, 1, 1), safetensors: "F4", torch: "float4_e2m1fn_x2", numpy: ml_dtypes("float4_e2m1fn"), onnx: 23 }
        F6E2M3 "f6_e2m3" over U8, 6 bits { float: fields(2, 3, 1), safetensors: "F6_E2M3", numpy: ml_dtypes("float6_e2m3fn"), onnx: 27 }
        F6E3M2 "f6_e3m2" over U8, 6 bits { float: fields(3, 2, 3), safetensors: "F6_E3M2", numpy: ml_dtypes("float6_e3m2fn"), onnx: 28 }
        I4 "i4" over U8, 4 bits { numpy: ml_dtypes("int4"), onnx: 22 }
        U4 "u4" over U8, 4 bits { numpy: ml_dtypes("uint4"), onnx: 21 }
        I2 "i2" over U8, 2 bits { numpy: ml_dtypes("int2"), onnx: 26 }
        U2 "u2" over U8, 2 bits { numpy: ml_dtypes("uint2"), onnx: 25 }
        Complex32 "complex32" over F16, 32 bits { torch: "complex32", numpy: ml_dtypes("complex32") }
        Complex64 "complex64" over F32, 64 bits { safetensors: "C64", torch: "complex64", numpy: numpy("complex64"), npy: "c8", onnx: 14, codec: Codec::Complex64 }
        Complex128 "complex128" over F64, 128 bits { torch: "complex128", numpy: numpy("complex128"), npy: "c16", onnx: 15, codec: Codec::Complex128 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fmt::Debug;
    use std::hash::Hash;

    use super::*;

    fn assert_distinct<T: Eq + Hash + Debug>(what: &str, names: impl Iterator<Item = Option<T>>) {
        let mut seen = HashSet::new();
        for name in names.flatten() {
            let text = format!("{name:?}");
            assert!(seen.insert(name), "two element types are {text} in {what}");
        }
    }

    #[test]
    fn every_name_stands_for_one_type() {
        let column = |of: fn(&Names) -> Option<&'static str>| TABLE.iter().map(move |row| of(&row.names));
        assert_distinct("safetensors", column(|names| names.safetensors));
        assert_distinct("torch", column(|names| names.torch));
        assert_distinct("NumPy", column(|names| names.numpy.map(|numpy| numpy.name)));
        assert_distinct("npy", column(|names| names.npy));
        assert_distinct("GGUF", TABLE.iter().map(|row| row.names.gguf));
        assert_distinct("ONNX", TABLE.iter().map(|row| row.names.onnx));
        assert_distinct("zt", TABLE.iter().map(|row| Some(row.element().name().into_owned())));
        let by_fields = TABLE.iter().filter(|row| row.names.hdf5_by_fields == Some(true));
        let fields = by_fields.map(|row| row.names.float.map(|f| (f.exponent, f.mantissa, f.bias)));
        assert_distinct("HDF5", fields);
    }

    #[test]
    fn widths_agree() {
        for row in TABLE {
            let element = row.element();
            assert_eq!(Known::of(&element), Some(row));
            assert_eq!(element.bits(), Some(row.bits), "{element}");
            if let Some(fields) = row.names.float {
                let sign = u64::from(fields.mantissa > 0);
                let bits = sign + u64::from(fields.exponent) + u64::from(fields.mantissa);
                assert_eq!(bits, row.bits, "{element}");
            }
            if let Some(codec) = row.names.codec {
                assert_eq!(codec.width() as u64 * 8, row.bits, "{element}");
            }
        }
    }
}
