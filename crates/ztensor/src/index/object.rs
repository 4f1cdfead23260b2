//! One tensor: its components, what their elements are, and what the file says about their bytes.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::{Data, Span};
use crate::tensor::{Attributes, ElementType, Layout, Shape};

/// Roles and components. Nearly all tensors have one component; it takes no allocation of its own.
pub type Components = SmallVec<[(Cow<'static, str>, Component); 1]>;

/// One tensor: a shape, a layout, and the components that make it up.
#[derive(Clone, Debug)]
pub struct Object {
    /// The logical shape, row-major.
    pub shape: Shape,
    /// How the components make one tensor.
    pub layout: Layout,
    /// The object's own metadata.
    pub attributes: Attributes,
    /// The components with their roles, in file order.
    pub components: Components,
}

impl Object {
    /// A dense tensor with its one component `data`.
    pub fn dense(shape: impl Into<Shape>, data: Component) -> Self {
        Object {
            shape: shape.into(),
            layout: Layout::Dense,
            attributes: Attributes::new(),
            components: Components::from([(Cow::Borrowed("data"), data)]),
        }
    }

    /// The component of a role.
    pub fn component(&self, role: &str) -> Option<&Component> {
        self.components.iter().find(|(name, _)| name == role).map(|(_, component)| component)
    }

    /// The component that carries the values: `data`, `values`, `packed_weight`, or the first.
    pub fn principal(&self) -> Option<&Component> {
        ["data", "values", "packed_weight"]
            .iter()
            .find_map(|role| self.component(role))
            .or_else(|| self.components.first().map(|(_, component)| component))
    }

    /// What the elements are, under the name that users know: `float32`, `bfloat16`, `Q4_K`.
    pub fn dtype(&self) -> String {
        let block = match &self.layout {
            Layout::Other(name) => name.strip_prefix("gguf.").and_then(|name| name.strip_suffix("/1")),
            _ => None,
        };
        match block {
            Some(block) => block.to_ascii_uppercase(),
            None => self.principal().map(|component| component.element.to_string()).unwrap_or_default(),
        }
    }

    /// The shape of one component's array, as NumPy should show it: the tensor's own for dense data, a vector
    /// otherwise. Elements smaller than a byte show as their packed bytes.
    pub fn component_shape(&self, role: &str) -> Option<Shape> {
        let component = self.component(role)?;
        let whole_bytes = component.element.bits().is_some_and(|bits| bits >= 8);
        let count = if whole_bytes {
            component.elements()?
        } else {
            component.length / component.element.storage.width() as u64
        };
        Some(match (&self.layout, role) {
            (Layout::Dense, "data") if whole_bytes => self.shape.clone(),
            // Quantised integers, one for each element.
            (Layout::Other(_), "data") if whole_bytes && self.shape.elements() == Some(count) => {
                self.shape.clone()
            }
            (Layout::SparseCoo, "coords") if !self.shape.is_empty() => {
                let rank = self.shape.len() as u64;
                Shape::from([rank, count / rank])
            }
            _ => Shape::from([count]),
        })
    }

    /// Bytes of all components once decoded.
    pub fn decoded_length(&self) -> u64 {
        self.components.iter().map(|(_, component)| component.length).fold(0, u64::saturating_add)
    }

    /// Bytes of all components as stored.
    pub fn stored_length(&self) -> u64 {
        self.components
            .iter()
            .map(|(_, component)| component.data.stored_length())
            .fold(0, u64::saturating_add)
    }
}

/// One array of an object: its element type and its bytes.
#[derive(Clone, Debug)]
pub struct Component {
    /// What the elements are.
    pub element: ElementType,
    /// Where the bytes are and how they are encoded.
    pub data: Data,
    /// Bytes once decoded: little-endian, row-major, contiguous.
    pub length: u64,
    /// A stored checksum, if there is one.
    pub digest: Option<Digest>,
    /// What the format says about the values beyond their type.
    pub content: Content,
}

/// What a format says about a component's bytes beyond the type of its elements. It is checked when a
/// checksum would be: when the component is first read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    #[default]
    Any,
    /// Every byte is 0 or 1.
    Booleans,
    /// The upper half of the last byte is zero: an odd number of elements of four bits leaves it over.
    HalfByteLeft,
}

impl Component {
    /// Bytes that lie plainly in the file.
    pub fn raw(element: impl Into<ElementType>, span: Span) -> Self {
        Component {
            element: element.into(),
            data: Data::Raw(span),
            length: span.length,
            digest: None,
            content: Content::Any,
        }
    }

    /// The number of logical elements; `None` when their type is unknown.
    pub fn elements(&self) -> Option<u64> {
        self.element.bits().map(|bits| (u128::from(self.length) * 8 / u128::from(bits)) as u64)
    }

    /// Whether something has to be checked when the component is first read.
    pub fn is_checked(&self) -> bool {
        self.digest.is_some() || self.content != Content::Any
    }

    /// Whether there is a checksum that can be checked without decoding.
    pub(crate) fn checks_stored_bytes(&self) -> bool {
        self.digest.as_ref().is_some_and(|digest| digest.over == Coverage::Stored)
    }

    /// Encoded bytes that decode to `length` bytes.
    pub fn encoded(element: impl Into<ElementType>, data: Data, length: u64) -> Self {
        Component { element: element.into(), data, length, digest: None, content: Content::Any }
    }
}

/// A checksum as a file stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The value, which names its algorithm.
    pub value: DigestValue,
    /// Whether it is over the bytes as stored or as decoded.
    pub over: Coverage,
}

/// A checksum value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum DigestValue {
    Crc32c(u32),
    Sha256(Box<[u8; 32]>),
    Xxh3(u64),
}

/// Which bytes a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Coverage {
    Stored,
    Decoded,
}
