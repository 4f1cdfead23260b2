//! How a checkpoint is added, and what came of it.

use crate::content::known::Base;
use z4ai::Effort;
use ztensor::Attributes;

/// How a checkpoint is added.
#[derive(Clone, Debug)]
pub struct AddOptions {
    /// Where bases are looked for.
    pub base: Base,
    /// The user's.
    pub metadata: Attributes,
    /// The trade between size and speed.
    pub effort: Effort,
    /// Deltas that may have to be applied to read a tensor.
    pub deepest: u32,
    /// Store nothing; say what would be stored.
    pub dry_run: bool,
}

impl Default for AddOptions {
    fn default() -> Self {
        AddOptions {
            base: Base::Auto,
            metadata: Attributes::new(),
            effort: Effort::default(),
            deepest: 8,
            dry_run: false,
        }
    }
}

/// What came of an add.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddStats {
    /// The checkpoint that most was taken from.
    pub parent: Option<String>,
    /// Bytes of all files.
    pub original: u64,
    /// Bytes that were put into packs.
    pub stored: u64,
    /// Files.
    pub files: u64,
    /// Tensors in them.
    pub tensors: u64,
    /// Pieces that the store had already, or that occur twice.
    pub duplicates: u64,
    /// Pieces stored as differences.
    pub deltas: u64,
    /// Those of them that are differences to what is computed from others: casts, quantised copies.
    pub computed: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}
