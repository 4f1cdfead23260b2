//! What can go wrong with one request, and whether another try may help.

use std::time::Duration;

use ztensor::{Error, Kind};

/// A failed request.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) retry: Retry,
}

/// Whether a request is worth repeating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// The answer was final.
    Never,
    /// The server, or the way to it, was in trouble.
    Soon,
    /// The server named a time.
    After(Duration),
}

impl Failure {
    pub(crate) fn last(error: Error) -> Failure {
        Failure { error, retry: Retry::Never }
    }

    pub(crate) fn passing(error: Error) -> Failure {
        Failure { error, retry: Retry::Soon }
    }

    /// The file is not the one that was opened: its bytes must not be mixed with those read before.
    pub(crate) fn changed() -> Failure {
        Failure::last(
            Error::new(Kind::Io, "the file changed while it was open")
                .with_hint("Open it again; to keep reading one state, pin a version or a revision."),
        )
    }

    /// An HTTP status other than success.
    pub(crate) fn status(status: u16, reason: &str, retry_after: Option<Duration>) -> Failure {
        let said = if reason.is_empty() { status.to_string() } else { format!("{status} {reason}") };
        let error = match status {
            401 => {
                Error::new(Kind::PermissionDenied, format!("the server wants credentials (status {said})"))
            }
            403 => Error::new(Kind::PermissionDenied, format!("the server refused access (status {said})")),
            404 | 410 => Error::new(Kind::NotFound, format!("there is no such file (status {said})")),
            _ => Error::new(Kind::Io, format!("the server answered with status {said}")),
        };
        let error = match status {
            401 | 403 => error.with_hint(
                "Check the credentials, and whether they may read this file; a signed URL may have expired.",
            ),
            404 | 410 => {
                error.with_hint("Check the address: host, bucket or repository, and the file's name.")
            }
            429 => error.with_hint("The server limits how often it is asked; try again later."),
            _ => error,
        };
        let retry = match status {
            408 | 425 | 429 | 500 | 502 | 503 | 504 => retry_after.map_or(Retry::Soon, Retry::After),
            _ => Retry::Never,
        };
        Failure { error, retry }
    }
}
