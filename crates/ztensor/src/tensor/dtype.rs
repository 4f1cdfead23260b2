//! Element types. *Storage* types are the thirteen fixed-width types that every `.zt` reader knows; a *logical* type
//! says how to read them when that is not the whole story (fp8 over bytes, complex over pairs, packed sub-byte types).

use std::borrow::Cow;
use std::fmt;

macro_rules! storage_types {
    ($($variant:ident $short:literal $long:literal $width:literal;)*) => {
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
    };
}

storage_types! {
    F64 "f64" "float64" 8;
    F32 "f32" "float32" 4;
    F16 "f16" "float16" 2;
    BF16 "bf16" "bfloat16" 2;
    I64 "i64" "int64" 8;
    I32 "i32" "int32" 4;
    I16 "i16" "int16" 2;
    I8 "i8" "int8" 1;
    U64 "u64" "uint64" 8;
    U32 "u32" "uint32" 4;
    U16 "u16" "uint16" 2;
    U8 "u8" "uint8" 1;
    Bool "bool" "bool" 1;
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.long_name())
    }
}

macro_rules! logical_types {
    ($($variant:ident $name:literal over $storage:ident, $bits:literal bits;)*) => {
        /// How storage elements are to be read when their storage type does not say it all. The set is open:
        /// names this library does not know are carried, listed and written back unchanged.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum LogicalType { $($variant,)* Other(Box<str>) }

        impl LogicalType {
            /// The name in `.zt` manifests, such as `f8_e4m3fn`.
            pub fn name(&self) -> &str {
                match self { $(LogicalType::$variant => $name,)* LogicalType::Other(name) => name }
            }

            /// The type of a name; unknown names become [`LogicalType::Other`].
            pub fn parse(name: &str) -> LogicalType {
                match name { $($name => LogicalType::$variant,)* other => LogicalType::Other(other.into()) }
            }

            /// Bits of one logical element and the storage type it lies over; `None` for unknown types.
            pub fn geometry(&self) -> Option<(u64, DType)> {
                match self { $(LogicalType::$variant => Some(($bits, DType::$storage)),)* LogicalType::Other(_) => None }
            }
        }
    };
}

logical_types! {
    F8E4M3FN "f8_e4m3fn" over U8, 8 bits;
    F8E5M2 "f8_e5m2" over U8, 8 bits;
    F8E4M3FNUZ "f8_e4m3fnuz" over U8, 8 bits;
    F8E5M2FNUZ "f8_e5m2fnuz" over U8, 8 bits;
    F8E8M0 "f8_e8m0" over U8, 8 bits;
    F4E2M1 "f4_e2m1" over U8, 4 bits;
    F6E2M3 "f6_e2m3" over U8, 6 bits;
    F6E3M2 "f6_e3m2" over U8, 6 bits;
    I4 "i4" over U8, 4 bits;
    U4 "u4" over U8, 4 bits;
    I2 "i2" over U8, 2 bits;
    U2 "u2" over U8, 2 bits;
    Complex32 "complex32" over F16, 32 bits;
    Complex64 "complex64" over F32, 64 bits;
    Complex128 "complex128" over F64, 128 bits;
}

/// A storage type together with its optional logical type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementType {
    /// The fixed-width type the bytes are stored as.
    pub storage: DType,
    /// How to read them, when the storage type does not say it all.
    pub logical: Option<LogicalType>,
}

impl ElementType {
    /// A storage type read as itself.
    pub const fn plain(storage: DType) -> Self {
        ElementType { storage, logical: None }
    }

    /// A known logical type over its usual storage type. Unknown names lie over bytes.
    pub fn logical(logical: LogicalType) -> Self {
        let storage = logical.geometry().map_or(DType::U8, |(_, storage)| storage);
        ElementType { storage, logical: Some(logical) }
    }

    /// The type of a [`name`](ElementType::name).
    pub fn parse(name: &str) -> Self {
        match DType::parse(name) {
            Some(storage) => ElementType::plain(storage),
            None => ElementType::logical(LogicalType::parse(name)),
        }
    }

    /// Bits of one element; `None` when the logical type is unknown or does not fit the storage type.
    pub fn bits(&self) -> Option<u64> {
        match &self.logical {
            None => Some(self.storage.width() as u64 * 8),
            Some(logical) => {
                logical.geometry().filter(|(_, over)| *over == self.storage).map(|(bits, _)| bits)
            }
        }
    }

    /// Bytes of `elements` elements, rounded up to whole bytes for packed types; `None` on overflow or unknown types.
    pub fn byte_length(&self, elements: u64) -> Option<u64> {
        let bits = u128::from(elements) * u128::from(self.bits()?);
        u64::try_from(bits.div_ceil(8)).ok()
    }

    /// The name people know: the logical type's, or the storage type's long name.
    pub fn name(&self) -> Cow<'_, str> {
        match &self.logical {
            Some(logical) => Cow::Borrowed(logical.name()),
            None => Cow::Borrowed(self.storage.long_name()),
        }
    }
}

impl From<DType> for ElementType {
    fn from(storage: DType) -> Self {
        ElementType::plain(storage)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// A Rust type that can stand for one element of a tensor.
pub trait Element: bytemuck::Pod + Send + Sync {
    /// The element type it stands for.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => { $(impl Element for $rust { const DTYPE: DType = DType::$dtype; })* };
}

elements! {
    f64 => F64, f32 => F32, half::f16 => F16, half::bf16 => BF16,
    i64 => I64, i32 => I32, i16 => I16, i8 => I8,
    u64 => U64, u32 => U32, u16 => U16, u8 => U8,
}
