//! How the files that belong to a model are called: archives, the compressed variant that transformers loads, restored files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ztensor::archive::ArchiveInfo;
use ztensor::source::{is_url, url_file_name};

/// What marks compressed files in a folder of a model, as transformers marks variants of weights.
pub(crate) const VARIANT: &str = "z4ai";
/// The extension of archives.
pub(crate) const ARCHIVE: &str = "zstn";
/// The extension of deltas.
pub(crate) const DELTA: &str = "z4dm";

/// The name of a model without what its format adds: `model` for `model.safetensors`, `model.safetensors.index.json` and
/// `model-00001-of-00002.safetensors`.
pub(crate) fn stem(path: &Path) -> OsString {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) => OsString::from(whole_name(name).0),
        // A name that is not text stays what it is.
        None => path.file_stem().unwrap_or_default().to_owned(),
    }
}

/// The name that a model in several files would have in one, in two halves: stem and extension.
fn whole_name(name: &str) -> (String, String) {
    if let Some((stem, _)) = name.split_once(".safetensors.index.") {
        return (stem.to_owned(), ".safetensors".to_owned());
    }
    let (front, extension) = match name.rsplit_once('.') {
        Some((front, extension)) => (front, format!(".{extension}")),
        None => (name, String::new()),
    };
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|digit| digit.is_ascii_digit());
    let whole = front.rsplit_once("-of-").filter(|(_, count)| digits(count));
    let whole = whole.and_then(|(front, _)| front.rsplit_once('-')).filter(|(_, number)| digits(number));
    (whole.map_or(front, |(stem, _)| stem).to_owned(), extension)
}

/// Where the outputs of an input are named after it: beside a file, and for a URL in the current folder.
pub(crate) fn local(path: &Path) -> PathBuf {
    if is_url(path) { url_file_name(path) } else { path.to_path_buf() }
}

/// The name of a model's archive.
pub(crate) fn archive_name(path: &Path) -> PathBuf {
    let path = &local(path);
    let name = path.file_name().unwrap_or_default();
    let mut archive = match name.to_str().map(whole_name) {
        Some((stem, extension)) => OsString::from(format!("{stem}{extension}")),
        None => name.to_owned(),
    };
    archive.push(format!(".{ARCHIVE}"));
    path.with_file_name(archive)
}

/// The name of a file that an archive or a delta restores, if its own name tells.
pub(crate) fn restored_name(archive: &Path, info: &ArchiveInfo) -> Option<PathBuf> {
    let archive = &local(archive);
    let name = archive.file_name()?.to_str()?;
    if let Some(plain) = plain_name(name) {
        return Some(archive.with_file_name(plain));
    }
    let stem = name.strip_suffix(DELTA)?.strip_suffix('.').filter(|stem| !stem.is_empty())?;
    let extension = match info.format.as_str() {
        "pickle" => "pt",
        "hdf5" => "h5",
        other => other,
    };
    let extension = format!(".{extension}");
    let stem = stem.strip_suffix(&extension).unwrap_or(stem);
    Some(archive.with_file_name(format!("{stem}{extension}")))
}

/// The name without the mark of a compressed file; `None` for other files.
pub(crate) fn plain_name(name: &str) -> Option<String> {
    if let Some(plain) = name.strip_suffix(ARCHIVE).and_then(|plain| plain.strip_suffix('.')) {
        return (!plain.is_empty()).then(|| plain.to_owned());
    }
    let (front, back) = name.split_once(&format!(".{VARIANT}"))?;
    let marked = back == ".json" || back.ends_with(".safetensors");
    (marked && back.starts_with(['.', '-'])).then(|| format!("{front}{back}"))
}

/// The name that transformers looks for when it is asked for the variant; `None` for what is neither a safetensors file nor its index.
pub(crate) fn variant_name(name: &str) -> Option<String> {
    if let Some(front) = name.strip_suffix(".safetensors.index.json") {
        return Some(format!("{front}.safetensors.index.{VARIANT}.json"));
    }
    let front = name.strip_suffix(".safetensors")?;
    let (stem, _) = whole_name(name);
    let numbers = front.strip_prefix(&stem)?;
    Some(format!("{stem}.{VARIANT}{numbers}.safetensors"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_put_on_and_taken_off() {
        for (plain, marked) in [
            ("model.safetensors", "model.z4ai.safetensors"),
            ("model-00001-of-00002.safetensors", "model.z4ai-00001-of-00002.safetensors"),
            ("model.safetensors.index.json", "model.safetensors.index.z4ai.json"),
            ("diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.z4ai.safetensors"),
            ("model.fp16.safetensors", "model.fp16.z4ai.safetensors"),
        ] {
            assert_eq!(variant_name(plain).as_deref(), Some(marked));
            assert_eq!(plain_name(marked).as_deref(), Some(plain));
        }
        assert_eq!(plain_name("model.gguf.zstn").as_deref(), Some("model.gguf"));
        for other in
            ["model.safetensors", "config.json", "model.z4ainot.safetensors", "weights.z4ai", ".zstn"]
        {
            assert_eq!(plain_name(other), None, "{other}");
        }
        assert_eq!(variant_name("config.json"), None);
    }

    #[test]
    fn a_model_in_several_files_is_called_by_what_they_share() {
        let archive = |name: &str| archive_name(Path::new(name)).display().to_string();
        assert_eq!(archive("a/model.gguf"), "a/model.gguf.zstn");
        assert_eq!(archive("a/model.safetensors.index.json"), "a/model.safetensors.zstn");
        assert_eq!(archive("m-00001-of-00003.gguf"), "m.gguf.zstn");
        assert_eq!(stem(Path::new("a/model.safetensors.index.json")), "model");
        assert_eq!(stem(Path::new("a/model.v2.pt")), "model.v2");
    }

    #[test]
    fn outputs_of_urls_lie_in_the_current_folder() {
        let archive = |name: &str| archive_name(Path::new(name)).display().to_string();
        assert_eq!(archive("s3://bucket/a/model.gguf"), "model.gguf.zstn");
        assert_eq!(archive("https://host/a/model.gguf?X-Signature=a/b"), "model.gguf.zstn");
        assert_eq!(archive("hf://owner/name@v1/model.safetensors.index.json"), "model.safetensors.zstn");
    }
}
