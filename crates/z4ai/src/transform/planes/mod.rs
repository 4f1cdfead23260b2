//! Byte planes for elements that are not wide floats (integers, 8-bit floats): the n-th bytes of all elements
//! together, each plane with the model that suits it. The high bytes of small integers vanish, and 8-bit
//! floats are entropy coded whole.

mod decode;
mod encode;
mod fit;
mod model;

pub(crate) use model::PlanesModel;
