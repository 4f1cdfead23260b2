//! Fetching a range for certain: tries again where that may help, goes on where a body broke off, and gives up after a while rather than wait
//! for ever.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use ztensor::{Error, Kind, Result, Scratch};

use crate::failure::{Failure, Retry};
use crate::origin::{Body, Origin, Start};
use crate::process::within;
use crate::whole::Terms;

/// Bytes of one request. Shorter ones pay the round trip too often; longer ones lose more when they break off, and keep fewer in flight.
pub(crate) const PART: usize = 8 << 20;
/// Requests at once.
pub(crate) const CONCURRENT: usize = 8;
/// How long the head of an answer may take.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a body may pause.
pub(crate) const STALL: Duration = Duration::from_secs(20);
/// Failures in a row, without a byte between them, after which a range is given up.
const TRIES: u32 = 6;
/// The first pause before another try; it doubles each time.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause, also where the server asks for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// Fills a buffer with the bytes from `offset` on, several parts at once.
pub(crate) async fn fetch(origin: &dyn Origin, offset: u64, buffer: &mut [u8]) -> Result<()> {
    let mut parts = Vec::new();
    for (number, part) in buffer.chunks_mut(PART).enumerate() {
        parts.push(fetch_part(origin, offset + (number * PART) as u64, part).boxed());
    }
    stream::iter(parts).buffer_unordered(CONCURRENT).try_collect().await
}

/// Fills a buffer with one request, or as many as it takes.
pub(crate) async fn fetch_part(origin: &dyn Origin, offset: u64, part: &mut [u8]) -> Result<()> {
    let mut done = 0;
    let mut patience = Patience::new();
    while done < part.len() {
        let before = done;
        let rest = offset + done as u64..offset + part.len() as u64;
        let failure = match answer(origin.get(rest)).await {
            Ok(body) => match copy(body, part, &mut done).await {
                Ok(()) if done == part.len() => return Ok(()),
                Ok(()) => Failure::passing(Error::new(Kind::Io, "the server's answer ended early")),
                Err(failure) => failure,
            },
            Err(failure) => failure,
        };
        patience.wait(failure, done > before).await?;
    }
    Ok(())
}

/// What opening a file brings.
pub(crate) enum Opened {
    /// Its length and its first bytes; ranges of it can be asked for.
    InParts(u64, Vec<u8>),
    /// All of it.
    Whole(Scratch),
}

/// Opens a file; at most so many bytes of one that is served in parts.
pub(crate) async fn open(origin: &dyn Origin, most: u64, terms: &Terms) -> Result<Opened> {
    let mut patience = Patience::new();
    loop {
        let failure = match answer(origin.open(most)).await {
            // Without ranges there is no going on where a body broke off: it begins anew, with whatever state of the file is there then.
            Ok(Start::Whole(whole)) => match terms.read(whole).await {
                Ok(copy) => return Ok(Opened::Whole(copy)),
                Err(failure) => failure,
            },
            Ok(Start::InParts(length, body)) => {
                let mut head = vec![0; length.min(most) as usize];
                let mut done = 0;
                match copy(body, &mut head, &mut done).await {
                    Ok(()) if done == head.len() => return Ok(Opened::InParts(length, head)),
                    Ok(()) => Failure::passing(Error::new(Kind::Io, "the server's answer ended early")),
                    Err(failure) => failure,
                }
            }
            Err(failure) => failure,
        };
        patience.wait(failure, false).await?;
    }
}

/// How long a file is, as far as the head of the server's answer tells.
pub(crate) async fn length(origin: &dyn Origin) -> Result<Option<u64>> {
    let start = insist(|| origin.open(1)).await?;
    Ok(match start {
        Start::InParts(length, _) => Some(length),
        Start::Whole(whole) => whole.length,
    })
}

/// Asks until there is an answer, or no hope of one.
pub(crate) async fn insist<T, F: Future<Output = Result<T, Failure>>>(request: impl Fn() -> F) -> Result<T> {
    let mut patience = Patience::new();
    loop {
        match answer(request()).await {
            Ok(found) => return Ok(found),
            Err(failure) => patience.wait(failure, false).await?,
        }
    }
}

pub(crate) async fn answer<T>(request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let late =
        || Failure::passing(Error::new(Kind::Io, format!("no answer for {} seconds", ANSWER.as_secs())));
    within(ANSWER, request).await.unwrap_or_else(|| Err(late()))
}

/// A body that paused for too long.
pub(crate) fn stalled() -> Failure {
    let message = format!("the answer paused for more than {} seconds", STALL.as_secs());
    Failure::passing(Error::new(Kind::Io, message))
}

/// Copies a body behind the bytes that are there already.
pub(crate) async fn copy(mut body: Body, out: &mut [u8], done: &mut usize) -> Result<(), Failure> {
    loop {
        let next = within(STALL, body.next()).await.ok_or_else(stalled)?;
        let Some(chunk) = next.transpose()? else { return Ok(()) };
        let Some(room) = out.get_mut(*done..).and_then(|rest| rest.get_mut(..chunk.len())) else {
            return Err(Failure::last(Error::new(Kind::Io, "the server sent more than it was asked for")));
        };
        room.copy_from_slice(&chunk);
        *done += chunk.len();
    }
}

/// How often and how long to go on after failures.
pub(crate) struct Patience {
    failures: u32,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience { failures: 0 }
    }

    /// Waits before the next try, or gives the failure back.
    pub(crate) async fn wait(&mut self, failure: Failure, progress: bool) -> Result<()> {
        self.failures = if progress { 1 } else { self.failures + 1 };
        let pause = match failure.retry {
            Retry::Never => return Err(failure.error),
            _ if self.failures >= TRIES => {
                return Err(failure.error.with_context(&format!("gave up after {TRIES} tries")));
            }
            Retry::Soon => PAUSE * 2u32.pow(self.failures.min(8) - 1),
            Retry::After(named) => named.max(PAUSE),
        };
        tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
        Ok(())
    }
}
