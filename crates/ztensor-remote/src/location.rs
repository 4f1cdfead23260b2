//! URLs of files: which kind of server, and what of the URL may be shown to people.

use std::path::PathBuf;

use url::Url;
use ztensor::{Error, Result};

/// The schemes that are understood.
const SCHEMES: [&str; 10] = ["s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "http", "https", "hf"];

/// The scheme of a path that is a URL of ours.
pub(crate) fn scheme(path: &str) -> Option<&str> {
    let (scheme, _) = path.split_once("://")?;
    SCHEMES.iter().find(|known| known.eq_ignore_ascii_case(scheme)).copied()
}

/// Where a file is.
pub(crate) enum Location {
    /// An object in a bucket.
    Bucket(Url),
    /// A file behind HTTP, with its query, which may be a signature.
    Http(Url),
    /// A file in a repository of the Hugging Face Hub.
    Hub(HubFile),
}

/// `hf://[datasets/|spaces/]owner/name[@revision]/file`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubFile {
    /// As the hub spells it in URLs: `owner/name`, `datasets/owner/name`.
    pub(crate) repository: String,
    pub(crate) revision: String,
    pub(crate) file: String,
}

/// `[hf://][datasets/|spaces/]owner/name[@revision]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// As the hub spells it in URLs.
    pub(crate) name: String,
    pub(crate) revision: String,
}

impl Repository {
    pub(crate) fn parse(text: &str) -> Option<Repository> {
        let text = text.strip_prefix("hf://").unwrap_or(text);
        // The same rules as for a file in it.
        let found = HubFile::parse(&format!("hf://{text}/file")).filter(|found| found.file == "file")?;
        Some(Repository { name: found.repository, revision: found.revision })
    }
}

impl Location {
    pub(crate) fn parse(text: &str) -> Result<Location> {
        let bad = |reason: String| Error::argument(reason).with_path(&shown(text));
        let scheme = scheme(text).ok_or_else(|| {
            bad(format!(
                "this is no URL that is read here; known are {}",
                SCHEMES.map(|s| format!("{s}://")).join(", ")
            ))
        })?;
        if scheme == "hf" {
            return HubFile::parse(text).map(Location::Hub).ok_or_else(|| {
                bad("a file on the hub is named hf://owner/name/file or hf://owner/name@revision/file".into())
            });
        }
        let url = Url::parse(text).map_err(|cause| bad(format!("the URL cannot be read: {cause}")))?;
        if url.host_str().is_none_or(str::is_empty) {
            return Err(bad("the URL names no host or bucket".into()));
        }
        if url.path().len() <= 1 || url.path().ends_with('/') {
            return Err(bad("the URL names a folder, not a file".into()));
        }
        Ok(if scheme.starts_with("http") { Location::Http(url) } else { Location::Bucket(url) })
    }
}

impl HubFile {
    fn parse(text: &str) -> Option<HubFile> {
        let rest = text.get("hf://".len()..)?;
        let (kind, rest) = match rest.split_once('/')? {
            (kind @ ("datasets" | "spaces" | "models"), rest) => (kind, rest),
            _ => ("models", rest),
        };
        let (owner, rest) = rest.split_once('/')?;
        let (name, file) = rest.split_once('/')?;
        // Revisions such as refs/pr/3 hold slashes; in a URL these are written %2F.
        let (name, revision) = name.split_once('@').unwrap_or((name, "main"));
        let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        let sound = [owner, name, revision].iter().all(|part| plain(part)) && file.split('/').all(plain);
        let prefix = if kind == "models" { String::new() } else { format!("{kind}/") };
        sound.then(|| HubFile {
            repository: format!("{prefix}{owner}/{name}"),
            revision: revision.replace("%2F", "/").replace("%2f", "/"),
            file: file.to_string(),
        })
    }
}

/// A URL as it may be shown: without a password or a query, which may hold a signature.
pub(crate) fn shown(text: &str) -> PathBuf {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match text.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?))) {
        Some((scheme, (user, rest))) if scheme.starts_with("http") && !user.contains('/') => {
            PathBuf::from(format!("{scheme}://{rest}"))
        }
        _ => PathBuf::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(text: &str) -> Option<(String, String, String)> {
        HubFile::parse(text).map(|file| (file.repository, file.revision, file.file))
    }

    #[test]
    fn hub_files_are_named_by_repository_revision_and_path() {
        let parts = |a: &str, b: &str, c: &str| Some((a.to_string(), b.to_string(), c.to_string()));
        assert_eq!(
            hub("hf://owner/name/model.safetensors"),
            parts("owner/name", "main", "model.safetensors")
        );
        assert_eq!(hub("hf://owner/name@v1/a/b.bin"), parts("owner/name", "v1", "a/b.bin"));
        assert_eq!(hub("hf://datasets/o/n@refs%2Fpr%2F3/x"), parts("datasets/o/n", "refs/pr/3", "x"));
        for wrong in
            ["hf://owner/name", "hf://owner//file", "hf://owner/name/", "hf://o/n/../x", "hf://o/n@/x"]
        {
            assert_eq!(hub(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn repositories_are_named_with_and_without_a_scheme() {
        let parse = |text: &str| Repository::parse(text).map(|found| (found.name, found.revision));
        let parts = |name: &str, revision: &str| Some((name.to_string(), revision.to_string()));
        assert_eq!(parse("owner/name"), parts("owner/name", "main"));
        assert_eq!(parse("hf://datasets/owner/name@v1"), parts("datasets/owner/name", "v1"));
        for wrong in ["name", "owner/name/file", "", "../name", "owner/"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(
            shown("https://user:secret@host/a.zt?X-Signature=abc"),
            PathBuf::from("https://host/a.zt")
        );
        assert_eq!(shown("s3://bucket/odd@name.zt"), PathBuf::from("s3://bucket/odd@name.zt"));
        assert_eq!(shown("hf://owner/name@v1/file"), PathBuf::from("hf://owner/name@v1/file"));
    }

    #[test]
    fn folders_and_strangers_are_refused() {
        for wrong in ["s3://bucket", "s3://bucket/folder/", "https:///x", "ftp://host/file", "https://host/"]
        {
            assert!(Location::parse(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(Location::parse("https://host/a?b=c"), Ok(Location::Http(_))));
        assert!(matches!(Location::parse("s3://bucket/a"), Ok(Location::Bucket(_))));
    }
}
