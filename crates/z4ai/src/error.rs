//! What can go wrong, as a stable kind for programs and a sentence for people.

use std::borrow::Cow;

/// The stable class of an [`Error`]; messages may change, kinds do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes do not begin like a z4ai frame.
    NotAFrame,
    /// A z4ai frame of a version this library does not read.
    UnsupportedVersion,
    /// The frame ends before its contents do.
    Truncated,
    /// The frame breaks a rule of the format.
    Corrupt,
    /// The frame is well formed, but a checksum does not match.
    ChecksumMismatch,
    /// An unknown dtype, or one that does not fit the request.
    InvalidDtype,
    /// An unknown effort.
    InvalidEffort,
    /// A shape that does not match the bytes.
    InvalidShape,
    /// The caller's buffer has the wrong length.
    WrongOutputSize,
    /// A byte range outside the decoded data.
    OutOfRange,
    /// The frame needs a reference buffer, or another one than was given.
    WrongReference,
    /// Memory could not be reserved.
    OutOfMemory,
    /// Reading or writing a stream failed.
    Io,
}

impl ErrorKind {
    /// The kind's name in snake case, for logs and foreign bindings.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAFrame => "not_a_frame",
            Self::UnsupportedVersion => "unsupported_version",
            Self::Truncated => "truncated",
            Self::Corrupt => "corrupt",
            Self::ChecksumMismatch => "checksum_mismatch",
            Self::InvalidDtype => "invalid_dtype",
            Self::InvalidEffort => "invalid_effort",
            Self::InvalidShape => "invalid_shape",
            Self::WrongOutputSize => "wrong_output_size",
            Self::OutOfRange => "out_of_range",
            Self::WrongReference => "wrong_reference",
            Self::OutOfMemory => "out_of_memory",
            Self::Io => "io",
        }
    }
}

/// Any failure of this crate.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    #[source]
    source: Option<std::io::Error>,
}

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The stable class of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    pub(crate) fn corrupt(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    pub(crate) fn out_of_memory(bytes: usize) -> Self {
        Self::new(ErrorKind::OutOfMemory, format!("cannot reserve {bytes} bytes of memory"))
    }

    pub(crate) fn truncated(what: &'static str) -> Self {
        Self::new(ErrorKind::Truncated, format!("the frame ends inside its {what}"))
    }
}

impl From<std::io::Error> for Error {
    fn from(source: std::io::Error) -> Self {
        let kind = match source.kind() {
            std::io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
            _ => ErrorKind::Io,
        };
        Self { kind, message: source.to_string().into(), source: Some(source) }
    }
}
