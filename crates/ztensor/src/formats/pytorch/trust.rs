//! How far a name can be trusted that an unpickler would import. What only makes values is on a list; whatever reaches the system, the network,
//! other code or the interpreter is on another; the rest is not known. `python/tests/cli/test_scan.py` compares with what other scanners flag.

use super::globals::{Known, known};

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

/// Modules of Python whose functions do harm when a file chooses their arguments; their submodules do too.
#[rustfmt::skip]
const DANGEROUS_MODULES: &[&str] = &[
    // Processes, threads, signals and the interpreter.
    "_aix_support", "_ctypes", "_osx_support", "_posixsubprocess", "_pyrepl", "_signal", "_thread", "_winapi",
    "_interpreters", "_xxsubinterpreters", "asynchat", "asyncio", "asyncore", "atexit", "commands", "concurrent", "ctypes", "faulthandler", "gc",
    "multiprocessing", "nt", "os", "pexpect", "pipes", "popen2", "posix", "pty", "select", "selectors", "signal", "site",
    "subprocess", "sys", "sysconfig", "thread", "threading", "tkinter", "Tkinter", "_tkinter", "tracemalloc", "uuid", "winreg", "_winreg",
    // Code that compiles, finds, traces or runs other code.
    "_frozen_importlib", "_frozen_importlib_external", "_imp", "_operator", "antigravity", "bdb", "cProfile", "cgitb", "code", "codeop",
    "compileall", "doctest", "functools", "idlelib", "imp", "importlib", "inspect", "lib2to3", "linecache", "marshal",
    "modulefinder", "operator", "pdb", "pkgutil", "profile", "py_compile", "pyclbr", "pydoc", "rlcompleter", "runpy", "test", "timeit", "trace",
    "turtledemo", "types", "unittest", "zipapp", "zipimport",
    // Other pickles.
    "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "jsonpickle", "pickle", "shelve",
    // Files and databases.
    "_io", "_sqlite3", "anydbm", "bz2", "dbm", "difflib", "filecmp", "fileinput", "glob", "gzip", "io", "logging", "lzma", "mmap", "ntpath",
    "platform", "posixpath", "shutil", "sqlite3", "syslog", "tarfile", "tempfile", "zipfile",
    // The network.
    "BaseHTTPServer", "CGIHTTPServer", "SimpleHTTPServer", "SocketServer", "aiohttp", "ftplib", "http", "httplib", "httpx", "imaplib",
    "mailcap", "nntplib", "poplib", "requests", "smtplib", "socket", "socketserver", "ssl", "telnetlib", "urllib", "urllib2", "urllib3",
    "webbrowser", "wsgiref", "xmlrpc", "xmlrpclib",
    // Installing things.
    "distutils", "ensurepip", "pip", "pkg_resources", "setuptools", "venv",
    // Whoever imports a scanner means to switch it off.
    "fickling", "model_unpickler", "modelaudit", "modelscan", "picklescan", "saferpickle",
];

/// Names that are as bad as an attribute of another package, because that is how packages hand on what they have imported themselves.
#[rustfmt::skip]
const DANGEROUS_ANYWHERE: &[&str] = &[
    "__builtin__", "__builtins__", "__import__", "__loader__", "__main__", "__spec__", "_ctypes", "_operator", "_pickle", "builtins", "cPickle",
    "cloudpickle", "compile", "ctypes", "dill", "distutils", "eval", "exec", "execfile", "functools", "getattr", "importlib", "joblib", "marshal",
    "multiprocessing", "nt", "os", "pickle", "posix", "pty", "runpy", "shutil", "socket", "subprocess", "sys", "webbrowser",
];

/// Parts of packages that run what they are given.
#[rustfmt::skip]
const DANGEROUS_PARTS: &[&str] = &[
    "keras.models", "keras.saving", "keras.src.saving", "keras.src.utils", "keras.utils", "numpy.ctypeslib", "numpy.distutils", "numpy.f2py",
    "numpy.lib._datasource", "numpy.lib._npyio_impl", "numpy.lib.npyio", "numpy.testing", "pandas.core.computation", "pandas.io",
    "torch._dynamo", "torch._inductor", "torch.compile", "torch.distributed.elastic", "torch.distributed.rpc",
    "torch.fx", "torch.hub", "torch.jit", "torch.package", "torch.utils._config_module",
    "torch.utils.bottleneck", "torch.utils.collect_env", "torch.utils.cpp_extension", "torch.utils.data.datapipes", "yaml",
];

/// Single functions of that kind in packages that are otherwise not known.
#[rustfmt::skip]
const DANGEROUS_FUNCTIONS: &[(&str, &str)] = &[
    ("copy_reg", "add_extension"), ("copy_reg", "constructor"), ("copy_reg", "pickle"), ("copyreg", "add_extension"),
    ("copyreg", "constructor"), ("copyreg", "pickle"), ("numpy", "DataSource"), ("numpy", "fromfile"), ("numpy", "load"), ("numpy", "memmap"), ("numpy", "save"), ("numpy", "savez"),
    ("pandas", "eval"), ("pandas", "read_pickle"), ("torch", "compile"), ("torch", "load"), ("torch", "save"),
    ("torch.serialization", "load"), ("torch.serialization", "save"), ("torch._ops", "load_library"),
];

/// Builtins that only make values.
#[rustfmt::skip]
const HARMLESS_BUILTINS: &[&str] = &[
    "Ellipsis", "NotImplemented", "abs", "all", "any", "bin", "bool", "bytearray", "bytes", "chr", "complex", "dict", "divmod", "enumerate", "float",
    "frozenset", "hash", "hex", "int", "len", "list", "long", "max", "min", "object", "oct", "ord", "pow", "range", "reversed", "round", "set",
    "slice", "sorted", "str", "sum", "tuple", "unicode", "xrange", "zip",
];

/// Classes of the standard library that only hold values.
#[rustfmt::skip]
const HARMLESS_CLASSES: &[(&str, &str)] = &[
    ("_io", "BytesIO"), ("_io", "StringIO"), ("io", "BytesIO"), ("io", "StringIO"),
    ("argparse", "Namespace"), ("collections", "Counter"), ("collections", "defaultdict"), ("collections", "deque"),
    ("copy_reg", "_reconstructor"), ("copyreg", "_reconstructor"), ("datetime", "date"), ("datetime", "datetime"), ("datetime", "time"),
    ("datetime", "timedelta"), ("datetime", "timezone"), ("decimal", "Decimal"), ("fractions", "Fraction"), ("numpy", "bool_"), ("numpy", "ndarray"),
    ("pathlib", "Path"), ("pathlib", "PosixPath"), ("pathlib", "PurePath"), ("pathlib", "PurePosixPath"),
    ("pathlib", "PureWindowsPath"), ("pathlib", "WindowsPath"), ("torch", "Tensor"), ("torch", "device"), ("torch", "per_channel_symmetric"),
    ("torch", "per_tensor_symmetric"), ("torch.storage", "TypedStorage"), ("torch.storage", "_TypedStorage"),
    ("torch.storage", "_UntypedStorage"),
];

/// How far a global can be trusted.
pub(crate) fn trust(module: &str, name: &str) -> Trust {
    match (known(module, name), name) {
        // It loads the file that it is given, which is looked at too.
        (_, "_load_from_bytes") => Trust::Unknown,
        (Known::Other, _) => trust_of_others(module, name),
        _ => Trust::Harmless,
    }
}

fn trust_of_others(module: &str, name: &str) -> Trust {
    let root = module.split('.').next().unwrap_or(module);
    let inside =
        |part: &str| module.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    match (module, name) {
        ("builtins" | "__builtin__" | "__builtins__", name) => {
            match HARMLESS_BUILTINS.contains(&name) || is_exception(name) {
                true => Trust::Harmless,
                false => Trust::Dangerous,
            }
        }
        _ if HARMLESS_CLASSES.contains(&(module, name)) => Trust::Harmless,
        ("torch" | "torch.cuda" | "torch.sparse" | "torch.cuda.sparse", name) if name.ends_with("Tensor") => {
            Trust::Harmless
        }
        // A dotted name walks from one object to the next, which is how allowed modules are turned into forbidden ones.
        (_, name) if name.contains('.') => Trust::Dangerous,
        // TorchScript keeps its own classes under this name; an unpickler resolves them inside the archive.
        (module, _) if module == "__torch__" || module.starts_with("__torch__.") => Trust::Harmless,
        _ if module == COMPUTED || name == COMPUTED => Trust::Dangerous,
        _ if DANGEROUS_MODULES.contains(&root) => Trust::Dangerous,
        _ if module.split('.').chain([name]).any(|part| DANGEROUS_ANYWHERE.contains(&part)) => {
            Trust::Dangerous
        }
        _ if DANGEROUS_PARTS.iter().any(|part| inside(part))
            || DANGEROUS_FUNCTIONS.contains(&(module, name)) =>
        {
            Trust::Dangerous
        }
        _ => Trust::Unknown,
    }
}

/// What stands for a part of a name that the pickle put together itself.
pub(super) const COMPUTED: &str = "<computed>";

fn is_exception(name: &str) -> bool {
    name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Warning")
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
            ("torch.jit._script", "RecursiveScriptModule"),
            ("xmlrpc.server", "SimpleXMLRPCServer"),
            ("some.package", "os"),
            ("some.package.subprocess", "run"),
            ("numpy", "load"),
            (COMPUTED, "system"),
        ];
        for (module, name) in dangerous {
            assert_eq!(trust(module, name), Trust::Dangerous, "{module}.{name}");
        }
    }

    #[test]
    fn what_torch_save_writes_is_harmless() {
        let harmless = [
            ("torch._utils", "_rebuild_tensor_v2"),
            ("torch.jit._pickle", "build_intlist"),
            ("collections", "OrderedDict"),
            ("torch", "FloatStorage"),
            ("torch", "float8_e5m2"),
            ("torch.storage", "UntypedStorage"),
            ("__torch__.model", "Model"),
            ("torch", "Size"),
            ("numpy", "dtype"),
            ("argparse", "Namespace"),
            ("builtins", "ValueError"),
        ];
        for (module, name) in harmless {
            assert_eq!(trust(module, name), Trust::Harmless, "{module}.{name}");
        }
        assert_eq!(trust("my_package.model", "Net"), Trust::Unknown);
        assert_eq!(trust("my_package.logging", "Log"), Trust::Unknown);
    }
}
