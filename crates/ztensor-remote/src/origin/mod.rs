//! Where remote files come from: one file per kind of server. Each answers one question: the bytes of a range, as a stream, of the very file
//! that was opened.

pub(crate) mod bucket;
pub(crate) mod connection;
mod credentials;
pub(crate) mod http;
pub(crate) mod hub;

use std::ops::Range;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use crate::failure::Failure;
use crate::whole::Whole;

/// The bytes of a range, as they arrive.
pub(crate) type Body = BoxStream<'static, Result<Bytes, Failure>>;

/// How a file begins.
pub(crate) enum Start {
    /// Its length, and the bytes that were asked for.
    InParts(u64, Body),
    /// All of it, from a server that does not serve parts.
    Whole(Whole),
}

/// A file on a server.
pub(crate) trait Origin: Send + Sync {
    /// Asks for a range; the answer begins at its start and may end early.
    fn get(&self, range: Range<u64>) -> BoxFuture<'_, Result<Body, Failure>>;

    /// Asks for the first bytes, and fixes which state of the file all later answers must come from.
    fn open(&self, most: u64) -> BoxFuture<'_, Result<Start, Failure>>;

    /// What tells this state of the file from every other file and state, once it is opened; `None` where the server does not say enough.
    fn identity(&self) -> Option<String> {
        None
    }
}
