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

/// How far a global can be trusted, as `scan` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Rebuilds tensors or plain containers and cannot do anything else.
    Harmless,
    /// Not known: an unpickler would import the module and run the code it finds there.
    Unknown,
    /// Reaches the system, other code or the interpreter itself.
    Dangerous,
}

/// Modules whose functions reach the system, the network, other code or the interpreter.
const DANGEROUS_MODULES: &[&str] = &[
    "_io",
    "_pickle",
    "_posixsubprocess",
    "aiohttp",
    "asyncio",
    "bdb",
    "cProfile",
    "code",
    "codeop",
    "commands",
    "cloudpickle",
    "ctypes",
    "dill",
    "distutils",
    "ensurepip",
    "ftplib",
    "gc",
    "httplib",
    "http",
    "idlelib",
    "imaplib",
    "importlib",
    "imp",
    "inspect",
    "io",
    "joblib",
    "lib2to3",
    "linecache",
    "marshal",
    "multiprocessing",
    "nt",
    "operator",
    "os",
    "pdb",
    "pickle",
    "pip",
    "pkgutil",
    "platform",
    "popen2",
    "posix",
    "posixpath",
    "profile",
    "pty",
    "pydoc",
    "requests",
    "runpy",
    "select",
    "shelve",
    "shutil",
    "signal",
    "site",
    "smtplib",
    "socket",
    "socketserver",
    "sqlite3",
    "ssl",
    "subprocess",
    "sys",
    "tempfile",
    "telnetlib",
    "threading",
    "timeit",
    "trace",
    "types",
    "urllib",
    "urllib2",
    "venv",
    "webbrowser",
    "zipimport",
];

/// Builtins that only make values.
const HARMLESS_BUILTINS: &[&str] = &[
    "bool",
    "bytearray",
    "bytes",
    "complex",
    "dict",
    "float",
    "frozenset",
    "int",
    "list",
    "long",
    "object",
    "range",
    "set",
    "slice",
    "str",
    "tuple",
    "unicode",
    "xrange",
];

/// How far a global can be trusted.
pub(super) fn trust(module: &str, name: &str) -> Trust {
    match (known(module, name), name) {
        // It loads the pickle that it is given.
        (_, "_load_from_bytes") => Trust::Unknown,
        (Known::Other, _) => trust_of_others(module, name),
        _ => Trust::Harmless,
    }
}

fn trust_of_others(module: &str, name: &str) -> Trust {
    let root = module.split('.').next().unwrap_or(module);
    match (module, name) {
        ("collections", "Counter" | "defaultdict" | "deque") => Trust::Harmless,
        ("copyreg" | "copy_reg", "_reconstructor") => Trust::Harmless,
        ("builtins" | "__builtin__", name) if HARMLESS_BUILTINS.contains(&name) => Trust::Harmless,
        ("builtins" | "__builtin__", _) => Trust::Dangerous,
        ("numpy", "ndarray" | "bool_") => Trust::Harmless,
        ("torch", "Tensor" | "device" | "per_tensor_symmetric" | "per_channel_symmetric") => Trust::Harmless,
        ("torch" | "torch.cuda" | "torch.sparse" | "torch.cuda.sparse", name) if name.ends_with("Tensor") => {
            Trust::Harmless
        }
        ("torch.storage", "TypedStorage" | "_TypedStorage" | "_UntypedStorage") => Trust::Harmless,
        // A dotted name walks from one object to the next, which is how allowed modules are turned into forbidden ones.
        (_, name) if name.contains('.') => Trust::Dangerous,
        // TorchScript keeps its own classes under this name; an unpickler resolves them inside the archive.
        (module, _) if module == "__torch__" || module.starts_with("__torch__.") => Trust::Harmless,
        _ if DANGEROUS_MODULES.contains(&root) => Trust::Dangerous,
        (
            "torch.hub" | "torch.package" | "torch.utils.cpp_extension" | "torch.utils.bottleneck.__main__",
            _,
        ) => Trust::Dangerous,
        ("torch" | "torch.serialization", "load") | ("numpy", "load") => Trust::Dangerous,
        _ if module == "<computed>" || name == "<computed>" => Trust::Dangerous,
        _ => Trust::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_reaches_the_system_is_dangerous() {
        let dangerous = [
            ("os", "system"),
            ("posix", "system"),
            ("builtins", "eval"),
            ("__builtin__", "getattr"),
            ("subprocess", "Popen"),
            ("collections", "OrderedDict.__init__.__globals__"),
            ("torch.hub", "load"),
            ("<computed>", "system"),
        ];
        for (module, name) in dangerous {
            assert_eq!(trust(module, name), Trust::Dangerous, "{module}.{name}");
        }
    }

    #[test]
    fn what_torch_save_writes_is_harmless() {
        let harmless = [
            ("torch._utils", "_rebuild_tensor_v2"),
            ("collections", "OrderedDict"),
            ("torch", "FloatStorage"),
            ("torch", "float8_e5m2"),
            ("torch.storage", "UntypedStorage"),
            ("__torch__.model", "Model"),
            ("torch", "Size"),
            ("numpy", "dtype"),
        ];
        for (module, name) in harmless {
            assert_eq!(trust(module, name), Trust::Harmless, "{module}.{name}");
        }
        assert_eq!(trust("my_package.model", "Net"), Trust::Unknown);
    }
}
