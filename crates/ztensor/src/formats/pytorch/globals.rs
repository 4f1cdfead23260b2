//! The names that a checkpoint may mention and what they mean here. A name is looked up, never imported.

use super::pickle::Arena;
use super::types::{self, Scalar};

/// What a global stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// `_rebuild_tensor` and `_rebuild_tensor_v2`: the storage brings the dtype.
    Tensor,
    /// `_rebuild_tensor_v3`: the dtype is an argument.
    TypedTensor,
    QuantizedTensor,
    SparseTensor,
    /// The first argument is the thing itself: parameters, device copies, the type tags of TorchScript.
    First,
    /// `_rebuild_from_type_v2(function, type, arguments, state)`.
    FromType,
    /// `torch.Size`: the first argument holds the dimensions.
    Size,
    /// `_get_layout`: the first argument is the layout's name.
    LayoutName,
    /// A way to make a tensor that is not read, and why.
    Unread(&'static str),
    StorageClass(Scalar),
    Dtype(Scalar),
    PerTensorAffine,
    PerChannelAffine,
    /// `collections.OrderedDict`: its argument, if it has one, is a list of pairs.
    OrderedDict,
    /// `_reconstruct`: the array is in the state.
    NumpyArray,
    /// `_frombuffer(elements, dtype, shape, order)`.
    NumpyBuffer,
    NumpyScalar,
    NumpyDtype,
    /// A class of tensors or arrays that a framework makes by itself.
    OwnClass,
    /// `_codecs.encode`: text that stands for bytes.
    Encode,
    /// `bytes()`: no bytes at all.
    NoBytes,
    Other,
}

/// What each distinct global of a pickle stands for.
pub(super) fn known_in(arena: &Arena<'_>) -> Vec<Known> {
    arena.globals().map(|(module, name)| known(module, name)).collect()
}

/// What a global of this module and name stands for.
pub(super) fn known(module: &str, name: &str) -> Known {
    match (module, name) {
        ("torch._utils", name) => rebuild(name),
        ("torch._tensor", "_rebuild_from_type_v2" | "_rebuild_from_type") => Known::FromType,
        ("torch.nn.parameter", "Parameter" | "Buffer") | ("torch.autograd.variable", "Variable") => {
            Known::First
        }
        ("torch.jit._pickle", name) if name.starts_with("build_") || name == "restore_type_tag" => {
            Known::First
        }
        ("torch" | "torch._tensor", "Tensor") | ("numpy", "ndarray") => Known::OwnClass,
        ("torch", "Size") => Known::Size,
        ("torch", "per_tensor_affine") => Known::PerTensorAffine,
        ("torch", "per_channel_affine" | "per_channel_affine_float_qparams") => Known::PerChannelAffine,
        ("torch.serialization", "_get_layout") => Known::LayoutName,
        ("torch.storage", "_load_from_bytes") => Known::Unread("its storage is a file inside the pickle"),
        ("torch" | "torch.cuda" | "torch.storage", name) => types::storage(name)
            .map(Known::StorageClass)
            .or_else(|| types::dtype(name).map(Known::Dtype))
            .unwrap_or(Known::Other),
        ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => Known::NumpyArray,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Known::NumpyScalar,
        ("numpy", "dtype") => Known::NumpyDtype,
        ("numpy.core.numeric" | "numpy._core.numeric", "_frombuffer") => Known::NumpyBuffer,
        ("_codecs", "encode") => Known::Encode,
        ("builtins" | "__builtin__", "bytes") => Known::NoBytes,
        ("collections", "OrderedDict") => Known::OrderedDict,
        _ => Known::Other,
    }
}

fn rebuild(name: &str) -> Known {
    match name {
        "_rebuild_tensor" | "_rebuild_tensor_v2" => Known::Tensor,
        "_rebuild_tensor_v3" => Known::TypedTensor,
        "_rebuild_qtensor" => Known::QuantizedTensor,
        "_rebuild_sparse_tensor" => Known::SparseTensor,
        "_rebuild_parameter" | "_rebuild_parameter_with_state" | "_rebuild_device_tensor_from_cpu_tensor" => {
            Known::First
        }
        "_rebuild_meta_tensor_no_storage" => {
            Known::Unread("it is a meta tensor, which has a shape but no data")
        }
        "_rebuild_nested_tensor" => Known::Unread("it is a nested tensor; its buffer is listed beneath it"),
        "_rebuild_wrapper_subclass" => Known::Unread(
            "it is a tensor subclass of its own making; the tensors it wraps are listed beneath it",
        ),
        name if name.starts_with("_rebuild") => {
            Known::Unread("it is rebuilt by a function that is not known here")
        }
        _ => Known::Other,
    }
}
