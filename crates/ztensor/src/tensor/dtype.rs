//! Element types. *Storage* types are the thirteen fixed-width types that every `.zt` reader knows; a *logical* type
//! says how to read them when that is not the whole story (fp8 over bytes, complex over pairs, packed sub-byte types). `registry` has them all.

use std::borrow::Cow;
use std::fmt;

use super::registry::{DType, LogicalType};

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.long_name())
    }
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
