//! What a tensor is, apart from any file: its element type, its shape, its layout and the attributes it carries.

mod compressed;
mod difference;
mod dtype;
mod layout;
mod registry;
mod shape;
mod value;

pub use compressed::Compressed;
pub use difference::{ElementDifference, number};
pub use dtype::{Element, ElementType};
pub use layout::Layout;
pub use registry::{DType, FloatFields, Known, LogicalType, Names, NumpyType};
pub use shape::Shape;
pub use value::{Attributes, Value, text_of};
