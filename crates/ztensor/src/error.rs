//! One error type for the whole crate: a stable [`Kind`] to match on, a sentence for people, and the context
//! (path, tensor, offset, cause, what to do next) that each layer adds as the error travels up.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::printable::Escaping;

/// The crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as a stable name that programs may match on. Kinds are added, never renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The file, directory or shard does not exist.
    NotFound,
    /// The operating system refused access.
    PermissionDenied,
    /// Any other failure of the operating system.
    Io,
    /// The disk, or the user's quota, is full.
    NoSpace,
    /// The bytes are of no format this library knows.
    UnknownFormat,
    /// The file ends before the data it announces.
    Truncated,
    /// The file breaks a rule of its format.
    Malformed,
    /// The file is legal but uses something this library does not read.
    Unsupported,
    /// A limit that protects the process was reached.
    Limit,
    /// A stored checksum does not match the bytes.
    Checksum,
    /// No tensor, component or attribute of that name.
    NoSuchTensor,
    /// A name is already taken.
    Duplicate,
    /// The tensor's dtype, shape or layout is not what the caller asked for.
    Mismatch,
    /// An argument of the call is not usable.
    InvalidArgument,
    /// A delta needs its base, or another one than was given.
    WrongBase,
    /// Somebody else changed the same thing at the same time.
    Conflict,
    /// It was there, and has been removed.
    Gone,
    /// Whether the change took place could not be found out.
    OutcomeUnknown,
}

impl Kind {
    /// The kind's stable name, as Python sees it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::NotFound => "not_found",
            Kind::PermissionDenied => "permission_denied",
            Kind::Io => "io",
            Kind::NoSpace => "no_space",
            Kind::UnknownFormat => "unknown_format",
            Kind::Truncated => "truncated",
            Kind::Malformed => "malformed",
            Kind::Unsupported => "unsupported",
            Kind::Limit => "limit",
            Kind::Checksum => "checksum",
            Kind::NoSuchTensor => "no_such_tensor",
            Kind::Duplicate => "duplicate",
            Kind::Mismatch => "mismatch",
            Kind::InvalidArgument => "invalid_argument",
            Kind::WrongBase => "wrong_base",
            Kind::Conflict => "conflict",
            Kind::Gone => "gone",
            Kind::OutcomeUnknown => "outcome_unknown",
        }
    }
}

/// Who is told of an error. What to do next is a command at the shell and a call in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Caller {
    Rust,
    Python,
    Shell,
}

/// What to do next, in the words of each [`Caller`].
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Hints {
    pub rust: Cow<'static, str>,
    pub python: Cow<'static, str>,
    pub shell: Cow<'static, str>,
}

impl Hints {
    /// Hints that stand in the source.
    pub const fn new(rust: &'static str, python: &'static str, shell: &'static str) -> Self {
        Hints { rust: Cow::Borrowed(rust), python: Cow::Borrowed(python), shell: Cow::Borrowed(shell) }
    }

    fn of(&self, caller: Caller) -> &str {
        match caller {
            Caller::Rust => &self.rust,
            Caller::Python => &self.python,
            Caller::Shell => &self.shell,
        }
    }
}

/// An error with its context. Build one with [`Error::new`] and the `with_*` methods.
#[derive(Debug)]
pub struct Error(Box<Details>);

#[derive(Debug)]
struct Details {
    kind: Kind,
    message: String,
    path: Option<PathBuf>,
    tensor: Option<String>,
    offset: Option<u64>,
    hint: Option<Hint>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

#[derive(Debug)]
enum Hint {
    ForAll(String),
    ByCaller(Box<Hints>),
}

impl Hint {
    fn of(&self, caller: Caller) -> &str {
        match self {
            Hint::ForAll(text) => text,
            Hint::ByCaller(hints) => hints.of(caller),
        }
    }
}

impl Error {
    /// An error of a kind, with a sentence that says what is wrong.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Details {
            kind,
            message: message.into(),
            path: None,
            tensor: None,
            offset: None,
            hint: None,
            cause: None,
        }))
    }

    /// The file breaks a rule of its format.
    pub fn malformed(message: impl Into<String>) -> Self {
        Error::new(Kind::Malformed, message)
    }

    /// The file ends before the data it announces.
    pub fn truncated(message: impl Into<String>) -> Self {
        Error::new(Kind::Truncated, message).with_hint(
            "The file is incomplete; download or copy it again and compare its size with the original.",
        )
    }

    /// The file is legal but uses something that is not read here.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Error::new(Kind::Unsupported, message)
    }

    /// An argument of the call is not usable.
    pub fn argument(message: impl Into<String>) -> Self {
        Error::new(Kind::InvalidArgument, message)
    }

    /// The tensor is not what the caller asked for.
    pub fn mismatch(message: impl Into<String>) -> Self {
        Error::new(Kind::Mismatch, message)
    }

    /// An operating-system failure while doing something to a path.
    pub fn io(doing: &str, path: &Path, cause: std::io::Error) -> Self {
        Error::from(cause).with_context(doing).with_path(path)
    }

    /// Puts what was being done in front of the message.
    #[must_use]
    pub fn with_context(mut self, doing: &str) -> Self {
        self.0.message = format!("{doing}: {}", self.0.message);
        self
    }

    /// Names the file, unless an inner layer already did.
    #[must_use]
    pub fn with_path(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_path_buf());
        self
    }

    /// Names the tensor, unless an inner layer already did.
    #[must_use]
    pub fn with_tensor(mut self, name: &str) -> Self {
        self.0.tensor.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Names the byte offset in the file, unless an inner layer already did.
    #[must_use]
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Says what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(Hint::ForAll(hint.into()));
        self
    }

    /// Says what the user can do about it where that is another thing in Rust, in Python and at the shell.
    #[must_use]
    pub fn with_hints(mut self, hints: Hints) -> Self {
        self.0.hint = Some(Hint::ByCaller(Box::new(hints)));
        self
    }

    /// Attaches the error that caused this one.
    #[must_use]
    pub fn with_cause(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.cause = Some(Box::new(cause));
        self
    }

    /// The stable kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What is wrong, without path, tensor, offset and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file the error is about.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The tensor the error is about.
    pub fn tensor(&self) -> Option<&str> {
        self.0.tensor.as_deref()
    }

    /// The byte offset in the file the error is about.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// What the user can do about it, in Rust.
    pub fn hint(&self) -> Option<&str> {
        self.hint_for(Caller::Rust)
    }

    /// What the user can do about it, in the language of the caller.
    pub fn hint_for(&self, caller: Caller) -> Option<&str> {
        self.0.hint.as_ref().map(|hint| hint.of(caller))
    }

    /// The whole message with the hint in the language of the caller.
    pub fn told(&self, caller: Caller) -> impl fmt::Display + '_ {
        Told { details: &self.0, caller }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.told(Caller::Rust).fmt(f)
    }
}

struct Told<'e> {
    details: &'e Details,
    caller: Caller,
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = self.details;
        let f = &mut Escaping(f);
        if let Some(path) = &details.path {
            write!(f, "\"{}\": ", path.display())?;
        }
        if let Some(tensor) = &details.tensor {
            write!(f, "tensor \"{tensor}\": ")?;
        }
        write!(f, "{}", details.message)?;
        if let Some(offset) = details.offset {
            write!(f, " (at byte {offset})")?;
        }
        if let Some(hint) = &details.hint {
            write!(f, ". {}", hint.of(self.caller))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as _)
    }
}

impl From<std::io::Error> for Error {
    fn from(cause: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let kind = match cause.kind() {
            ErrorKind::NotFound => Kind::NotFound,
            ErrorKind::PermissionDenied => Kind::PermissionDenied,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Kind::NoSpace,
            ErrorKind::UnexpectedEof => Kind::Truncated,
            _ => Kind::Io,
        };
        let message = match kind {
            Kind::NotFound => "no such file or directory".to_owned(),
            Kind::PermissionDenied => "permission denied".to_owned(),
            Kind::NoSpace => "no space left on the device".to_owned(),
            _ => cause.to_string(),
        };
        Error::new(kind, message).with_cause(cause)
    }
}
