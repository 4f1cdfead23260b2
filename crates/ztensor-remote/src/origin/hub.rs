//! Files of the Hugging Face Hub. A revision is resolved to a commit once, so that all ranges come from one state; the hub then names
//! a signed address, which is asked until it expires. The token goes to the hub only.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use reqwest::header::{CONTENT_LENGTH, ETAG, HeaderMap, LOCATION};
use reqwest::{Response, StatusCode};
use url::Url;
use ztensor::{Error, Kind, Result};

use super::http::{Answer, client, client_without_redirects, refused, unreachable_host};
use super::{Body, Origin, Start};
use crate::failure::Failure;
use crate::location::HubFile;
use crate::options::StorageOptions;

/// Bytes of a list of files: a hundred thousand of them.
const LONGEST_LISTING: usize = 64 << 20;
/// Redirects within the hub (a repository that was renamed).
const REDIRECTS: usize = 5;

/// A file of a repository.
pub(crate) struct Hub {
    endpoint: Url,
    file: HubFile,
    token: Option<String>,
    resolved: OnceLock<Resolved>,
    /// Where the bytes are, until that address expires.
    address: Mutex<Option<Url>>,
}

struct Resolved {
    commit: String,
    length: u64,
    tag: Option<String>,
}

/// What the hub says of a file.
#[derive(Clone, Debug)]
pub(crate) struct Stated {
    pub(crate) commit: String,
    /// The sha256 of a large file; the name that git has for a small one.
    pub(crate) tag: Option<String>,
}

/// The files of a repository.
pub(crate) struct Listing {
    pub(crate) commit: String,
    pub(crate) files: Vec<String>,
}

impl Hub {
    pub(crate) fn new(file: HubFile, options: &StorageOptions) -> Result<Hub> {
        let setting = |names: &[&str], variable: &str| {
            options
                .first(names)
                .map(str::to_string)
                .or_else(|| std::env::var(variable).ok())
                .filter(|v| !v.is_empty())
        };
        let endpoint = setting(&["endpoint_url", "endpoint"], "HF_ENDPOINT")
            .unwrap_or_else(|| "https://huggingface.co".into());
        let endpoint = Url::parse(&endpoint).map_err(|cause| {
            Error::argument(format!("the hub's address \"{endpoint}\" cannot be read: {cause}"))
                .with_hint("Set HF_ENDPOINT to an address such as https://hub.example.org, or unset it.")
        })?;
        let token = setting(&["hf_token", "token"], "HF_TOKEN").or_else(stored_token);
        Ok(Hub { endpoint, file, token, resolved: OnceLock::new(), address: Mutex::new(None) })
    }

    pub(crate) fn name(&self) -> String {
        format!("hf://{}@{}/{}", self.file.repository, self.file.revision.replace('/', "%2F"), self.file.file)
    }

    /// What the hub said of the file when it was opened.
    pub(crate) fn stated(&self) -> Option<Stated> {
        let resolved = self.resolved.get()?;
        Some(Stated { commit: resolved.commit.clone(), tag: resolved.tag.clone() })
    }

    /// The names of all files of the repository at the revision, and the commit that it stands for.
    pub(crate) async fn list(&self) -> Result<Listing, Failure> {
        let mut url = self.endpoint.clone();
        let repository = &self.file.repository;
        let kind = if repository.split('/').count() > 2 { "" } else { "models/" };
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("api").extend(format!("{kind}{repository}").split('/'));
            path.push("revision").push(&self.file.revision);
        }
        let mut request = client()?.get(url.clone());
        if let Some(token) = self.token_for(&url) {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(|cause| unreachable_host(&cause))?;
        if !response.status().is_success() {
            return Err(self.explain(response.status(), response.headers()));
        }
        let mut body = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            body.extend_from_slice(&chunk.map_err(|cause| unreachable_host(&cause))?);
            if body.len() > LONGEST_LISTING {
                return Err(Failure::last(Error::new(Kind::Limit, "the hub's list of files is too long")));
            }
        }
        listing(&body).ok_or_else(|| {
            Failure::last(Error::malformed(format!("the hub does not list the files of {repository}")))
        })
    }

    /// Asks the hub where the bytes are.
    async fn resolve(&self) -> Result<Url, Failure> {
        let revision = self.resolved.get().map_or(self.file.revision.as_str(), |resolved| &resolved.commit);
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(self.file.repository.split('/')).push("resolve").push(revision);
            path.extend(self.file.file.split('/'));
        }
        let mut found: Option<Resolved> = None;
        for _ in 0..REDIRECTS {
            let response = self.head(&url).await?;
            let (status, headers) = (response.status(), response.headers());
            if !status.is_success() && !status.is_redirection() {
                return Err(self.explain(status, headers));
            }
            let next = header(headers, LOCATION.as_str()).and_then(|target| url.join(target).ok());
            if let (Some(commit), Some(length)) =
                (header(headers, "x-repo-commit"), length_of(headers, status))
            {
                let tag = header(headers, "x-linked-etag").or_else(|| header(headers, ETAG.as_str()));
                let tag = tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_string());
                found = Some(Resolved { commit: commit.to_string(), length, tag });
            }
            match (next, found.take()) {
                (next, Some(resolved)) => {
                    let pinned = self.resolved.get_or_init(|| Resolved { ..resolved });
                    if let Some(place) = next.filter(|_| status.is_redirection()) {
                        return Ok(place);
                    }
                    return Ok(self.at_commit(&url, &pinned.commit));
                }
                (Some(next), None) if status.is_redirection() && next.host() == self.endpoint.host() => {
                    url = next
                }
                _ => break,
            }
        }
        Err(Failure::last(Error::new(Kind::Io, "the hub did not say which commit and length the file has")))
    }

    /// The file's address at a commit, where the hub serves it itself.
    fn at_commit(&self, url: &Url, commit: &str) -> Url {
        let mut url = url.clone();
        let count = self.file.repository.split('/').count()
            + 1
            + self.endpoint.path_segments().map_or(0, |parts| parts.filter(|part| !part.is_empty()).count());
        let parts: Vec<String> =
            url.path_segments().map(|parts| parts.map(str::to_string).collect()).unwrap_or_default();
        if let Ok(mut path) = url.path_segments_mut() {
            path.clear();
            for (number, part) in parts.iter().enumerate() {
                path.push(if number == count { commit } else { part });
            }
        }
        url
    }

    /// The token, for addresses of the hub itself.
    fn token_for(&self, url: &Url) -> Option<&str> {
        self.token.as_deref().filter(|_| url.origin() == self.endpoint.origin())
    }

    async fn head(&self, url: &Url) -> Result<Response, Failure> {
        let mut request = client_without_redirects()?.head(url.clone());
        if let Some(token) = self.token_for(url) {
            request = request.bearer_auth(token);
        }
        request.send().await.map_err(|cause| unreachable_host(&cause))
    }

    async fn ask(&self, range: Range<u64>) -> Result<Answer, Failure> {
        let known = self.address.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let fresh = known.is_none();
        let address = match known {
            Some(address) => address,
            None => self.resolve().await?,
        };
        match self.ask_at(&address, range.clone()).await {
            Err(failure) if !fresh && failure.error.kind() == Kind::PermissionDenied => {
                // A signed address that expired: the hub names another.
                let address = self.resolve().await?;
                self.ask_at(&address, range).await
            }
            answer => answer,
        }
    }

    async fn ask_at(&self, address: &Url, range: Range<u64>) -> Result<Answer, Failure> {
        let mut request = client()?.get(address.clone());
        if let Some(token) = self.token_for(address) {
            request = request.bearer_auth(token);
        }
        let answer = Answer::ask(request, range).await?;
        let length = self.resolved.get().map(|resolved| resolved.length);
        if answer.length().is_some_and(|answered| Some(answered) != length) {
            return Err(Failure::changed());
        }
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = Some(address.clone());
        Ok(answer)
    }

    fn explain(&self, status: StatusCode, headers: &HeaderMap) -> Failure {
        let code = header(headers, "x-error-code").unwrap_or_default();
        let repository = &self.file.repository;
        let message = match (code, status.as_u16()) {
            ("RepoNotFound", _) => format!("the hub has no repository {repository}, or it is private"),
            ("RevisionNotFound", _) => format!("{repository} has no revision {}", self.file.revision),
            ("EntryNotFound", _) => format!("{repository} has no file {}", self.file.file),
            ("GatedRepo", _) => format!("{repository} is gated: its terms have to be accepted first"),
            (_, 401 | 403) => format!("the hub refuses access to {repository}"),
            _ => return refused(status, headers),
        };
        let kind = match code {
            "RevisionNotFound" | "EntryNotFound" => Kind::NotFound,
            "RepoNotFound" => Kind::NotFound,
            _ => Kind::PermissionDenied,
        };
        let hint = match (kind, &self.token) {
            (Kind::NotFound, Some(_)) => "Check the name, and that the token may read it.",
            (_, None) => {
                "Check the name; for private and gated repositories set HF_TOKEN, or log in with `hf auth login`."
            }
            (_, Some(_)) => "Check that the token in HF_TOKEN, or the one you logged in with, may read it.",
        };
        Failure::last(Error::new(kind, message).with_hint(hint))
    }
}

impl Origin for Hub {
    fn get(&self, range: Range<u64>) -> BoxFuture<'_, Result<Body, Failure>> {
        async move { self.ask(range).await?.part() }.boxed()
    }

    fn open(&self, most: u64) -> BoxFuture<'_, Result<Start, Failure>> {
        async move {
            let mut start = self.ask(0..most).await?.start();
            if let Start::Whole(whole) = &mut start {
                whole.length = self.resolved.get().map(|resolved| resolved.length);
            }
            Ok(start)
        }
        .boxed()
    }

    /// A commit holds one state of each file.
    fn identity(&self) -> Option<String> {
        let commit = &self.resolved.get()?.commit;
        Some(format!("{}\n{}\n{commit}\n{}", self.endpoint, self.file.repository, self.file.file))
    }
}

/// What the hub's description of a repository says of its files.
fn listing(body: &[u8]) -> Option<Listing> {
    let described: serde_json::Value = serde_json::from_slice(body).ok()?;
    let files = described.get("siblings")?.as_array()?.iter();
    let name = |file: &serde_json::Value| Some(file.get("rfilename")?.as_str()?.to_string());
    let commit = described.get("sha")?.as_str()?.to_string();
    Some(Listing { commit, files: files.map(name).collect::<Option<_>>()? })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Large files live elsewhere, and the hub names their length in a header of its own.
fn length_of(headers: &HeaderMap, status: StatusCode) -> Option<u64> {
    let own = status.is_success().then_some(CONTENT_LENGTH.as_str());
    let length = header(headers, "x-linked-size").or_else(|| header(headers, own?))?;
    length.parse().ok()
}

/// The folder that the Hugging Face tools keep things in.
pub(crate) fn hub_folder() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE")).map(PathBuf::from);
    std::env::var_os("HF_HOME").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        Some(cache.or_else(|| Some(home()?.join(".cache")))?.join("huggingface"))
    })
}

/// The token that `hf auth login` stored.
fn stored_token() -> Option<String> {
    let folder = hub_folder()?;
    let file = std::env::var_os("HF_TOKEN_PATH").map_or_else(|| folder.join("token"), PathBuf::from);
    let token = std::fs::read_to_string(file).ok()?;
    Some(token.trim().to_string()).filter(|token| !token.is_empty())
}
