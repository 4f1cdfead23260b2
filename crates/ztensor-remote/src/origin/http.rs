//! Files behind HTTP. A source of our own, because queries (signed URLs) and redirects have to be kept exactly as they are.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue,
    LAST_MODIFIED, RANGE, RETRY_AFTER, TRANSFER_ENCODING,
};
use reqwest::{Client, Response, StatusCode, Version};
use url::Url;
use ztensor::{Error, Kind, Result};

use super::{Body, Origin, Start};
use crate::failure::Failure;
use crate::options::{HEADER, StorageOptions};
use crate::process::PerProcess;
use crate::whole::Whole;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// A file behind HTTP.
pub(crate) struct Http {
    url: Url,
    headers: HeaderMap,
    pin: OnceLock<Pin>,
}

impl Http {
    pub(crate) fn new(url: Url, options: &StorageOptions) -> Result<Http> {
        let mut headers = HeaderMap::new();
        for (name, value) in options.iter() {
            let Some(name) = name.strip_prefix(HEADER) else { continue };
            let bad = || Error::argument(format!("\"{name}\" is no HTTP header, or its value is not text"));
            let name = HeaderName::try_from(name).map_err(|_| bad())?;
            headers.insert(name, HeaderValue::try_from(value).map_err(|_| bad())?);
        }
        Ok(Http { url, headers, pin: OnceLock::new() })
    }
}

impl Origin for Http {
    fn get(&self, range: Range<u64>) -> BoxFuture<'_, Result<Body, Failure>> {
        async move {
            let answer =
                Answer::ask(client()?.get(self.url.clone()).headers(self.headers.clone()), range).await?;
            match self.pin.get() {
                Some(pin) if *pin == answer.pin => answer.part(),
                _ => Err(Failure::changed()),
            }
        }
        .boxed()
    }

    fn open(&self, most: u64) -> BoxFuture<'_, Result<Start, Failure>> {
        async move {
            let answer =
                Answer::ask(client()?.get(self.url.clone()).headers(self.headers.clone()), 0..most).await?;
            // What comes whole comes from one state, whichever.
            if !answer.is_whole() && *self.pin.get_or_init(|| answer.pin.clone()) != answer.pin {
                return Err(Failure::changed());
            }
            Ok(answer.start())
        }
        .boxed()
    }

    /// By a strong tag only: times are no finer than a second, and weak tags stand for what is alike, not the same.
    fn identity(&self) -> Option<String> {
        let tag = self.pin.get()?.tag.as_ref()?.to_str().ok()?;
        (!tag.starts_with("W/")).then(|| format!("{}\n{tag}", self.url))
    }
}

/// What tells one state of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pin {
    /// `None` where the server sends the whole file and does not say how long that is.
    length: Option<u64>,
    tag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
}

/// An answer to a request for a range.
pub(super) struct Answer {
    pin: Pin,
    body: Body,
    /// Whether it is the whole file in place of the range.
    whole: bool,
}

impl Answer {
    /// Sends a request for a range and checks that the answer is that range, or all of the file in answer to a request for its front.
    pub(super) async fn ask(request: reqwest::RequestBuilder, range: Range<u64>) -> Result<Answer, Failure> {
        let wanted = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let response =
            request.header(RANGE, wanted).send().await.map_err(|cause| unreachable_host(&cause))?;
        Answer::read(response, &range)
    }

    fn read(response: Response, range: &Range<u64>) -> Result<Answer, Failure> {
        let headers = response.headers();
        let pinned = |length| Pin {
            length,
            tag: headers.get(ETAG).cloned(),
            modified: headers.get(LAST_MODIFIED).cloned(),
        };
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {
                check_encoding(headers)?;
                let described = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
                let (start, length) = described.and_then(parse_content_range).ok_or_else(|| {
                    Failure::last(Error::new(
                        Kind::Io,
                        "the server sent a part of the file without saying which",
                    ))
                })?;
                if start != range.start {
                    return Err(Failure::last(Error::new(
                        Kind::Io,
                        "the server sent another part than was asked for",
                    )));
                }
                Ok(Answer { pin: pinned(Some(length)), body: body(response), whole: false })
            }
            StatusCode::OK if range.start == 0 => {
                check_encoding(headers)?;
                let length = response.content_length();
                if length.is_none() && !has_end(&response) {
                    return Err(Failure::last(Error::unsupported(
                        "the server says neither how long the file is nor where it ends, so that nothing tells a part of it from the whole",
                    ).with_hint("Download the file, and check that it is complete.")));
                }
                // The same thing where the file is no longer than what was asked for.
                let whole = length.is_none_or(|length| length > range.end);
                Ok(Answer { pin: pinned(length), body: body(response), whole })
            }
            StatusCode::OK => Err(only_whole()),
            StatusCode::RANGE_NOT_SATISFIABLE if range.start == 0 => {
                Ok(Answer { pin: pinned(Some(0)), body: futures_util::stream::empty().boxed(), whole: false })
            }
            StatusCode::RANGE_NOT_SATISFIABLE => Err(Failure::changed()),
            status => Err(refused(status, headers)),
        }
    }

    /// How long the file is, where the server says it.
    pub(super) fn length(&self) -> Option<u64> {
        self.pin.length
    }

    fn is_whole(&self) -> bool {
        self.whole
    }

    /// The answer to a request for the front of a file.
    pub(super) fn start(self) -> Start {
        match self.pin.length {
            Some(length) if !self.whole => Start::InParts(length, self.body),
            length => Start::Whole(Whole { length, body: self.body }),
        }
    }

    /// The answer to a request for a range of a file that is served in parts.
    pub(super) fn part(self) -> Result<Body, Failure> {
        if self.whole { Err(only_whole()) } else { Ok(self.body) }
    }
}

/// A server that served parts when the file was opened.
fn only_whole() -> Failure {
    Failure::last(
        Error::new(Kind::Io, "the server sent the whole file in place of a part of it")
            .with_hint("Open the file again, or download it."),
    )
}

/// Ranges and lengths are those of the file itself: compressed on its way, it would be another.
fn check_encoding(headers: &HeaderMap) -> Result<(), Failure> {
    let encoding = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim());
    match encoding {
        None | Some("" | "identity") => Ok(()),
        Some(other) => Err(Failure::last(
            Error::unsupported(format!("the server sends the file compressed (content-encoding {other})"))
                .with_hint("Let the server send it as it is, or download it with a program that undoes that, such as `curl --compressed`."),
        )),
    }
}

/// Whether the protocol tells the end of a body of unknown length from a connection that broke off.
fn has_end(response: &Response) -> bool {
    let chunked = response.headers().get(TRANSFER_ENCODING).and_then(|value| value.to_str().ok());
    response.version() >= Version::HTTP_2
        || chunked.is_some_and(|how| how.to_ascii_lowercase().contains("chunked"))
}

/// The failure that a status stands for.
pub(super) fn refused(status: StatusCode, headers: &HeaderMap) -> Failure {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Failure::status(
        status.as_u16(),
        status.canonical_reason().unwrap_or_default(),
        seconds.map(Duration::from_secs),
    )
}

pub(super) fn unreachable_host(cause: &reqwest::Error) -> Failure {
    // The client's own sentence names the URL, which may hold a signature; its causes say what happened.
    let mut reasons = Vec::new();
    let mut next = std::error::Error::source(cause);
    while let Some(reason) = next {
        reasons.push(reason.to_string());
        next = reason.source();
    }
    let reason = reasons.pop().unwrap_or_else(|| "the connection failed".into());
    let error = Error::new(Kind::Io, format!("the server cannot be reached: {reason}"));
    if cause.is_builder() || cause.is_redirect() { Failure::last(error) } else { Failure::passing(error) }
}

fn body(response: Response) -> Body {
    let broken = |cause: reqwest::Error| {
        Failure::passing(Error::new(
            Kind::Io,
            format!("the server's answer broke off: {}", cause.without_url()),
        ))
    };
    response.bytes_stream().map(move |chunk| chunk.map_err(broken)).boxed()
}

/// `bytes 0-99/1234` → where the part starts and how long the file is.
fn parse_content_range(text: &str) -> Option<(u64, u64)> {
    let (part, length) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = part.split_once('-')?;
    let (start, end, length): (u64, u64, u64) =
        (start.parse().ok()?, end.parse().ok()?, length.parse().ok()?);
    (start <= end && end < length).then_some((start, length))
}

/// The client of this process. Redirects are followed; credentials do not go along to another host.
pub(super) fn client() -> Result<&'static Client, Failure> {
    static CLIENT: PerProcess<Client> = PerProcess::new();
    CLIENT.get(|| build(reqwest::redirect::Policy::limited(10))).map_err(Failure::last)
}

/// A client that hands redirects to its caller.
pub(super) fn client_without_redirects() -> Result<&'static Client, Failure> {
    static CLIENT: PerProcess<Client> = PerProcess::new();
    CLIENT.get(|| build(reqwest::redirect::Policy::none())).map_err(Failure::last)
}

fn build(redirects: reqwest::redirect::Policy) -> Result<Client> {
    use_ring();
    let agent = concat!("ztensor/", env!("CARGO_PKG_VERSION"));
    // Files as they are: compressed ones have other ranges.
    let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]);
    Client::builder()
        .user_agent(agent)
        .default_headers(headers)
        .connect_timeout(CONNECT)
        .redirect(redirects)
        .build()
        .map_err(|cause| Error::new(Kind::Io, "the HTTP client cannot be set up").with_cause(cause))
}

/// TLS needs to be told which cryptography to use. A program that has chosen already keeps its choice.
pub(super) fn use_ring() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may be quicker; then its choice stands.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_checked() {
        assert_eq!(parse_content_range("bytes 5-9/10"), Some((5, 10)));
        for wrong in ["bytes 5-10/10", "bytes 9-5/10", "bytes */10", "5-9/10", "bytes 5-9/*", "bytes -1-9/10"]
        {
            assert_eq!(parse_content_range(wrong), None, "{wrong}");
        }
    }
}
