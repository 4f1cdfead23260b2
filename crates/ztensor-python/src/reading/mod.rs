//! Reading: from components of an opened file to NumPy arrays, tensors of torch and `ztensor.Tensor`.

pub(crate) mod arrays;
pub(crate) mod blocks;
pub(crate) mod booleans;
pub(crate) mod components;
pub(crate) mod destinations;
pub(crate) mod load;
pub(crate) mod objects;
pub(crate) mod packed;
pub(crate) mod quantized;
pub(crate) mod regions;
pub(crate) mod single;
pub(crate) mod slices;
pub(crate) mod sparse;
