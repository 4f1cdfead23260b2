//! A good word for files that are no model files, or none that this build reads: what they are, and what to do instead.

use super::Input;
use crate::error::{Error, Hints, Kind};

/// Formats that people have beside their models, or instead of them, by how they begin.
const SIGNATURES: &[(usize, &[u8], &str, &str)] = &[
    (0, b"\x1f\x8b", "this is a gzip file", UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "this is a zstd file", UNPACK),
    (0, b"BZh", "this is a bzip2 file", UNPACK),
    (0, b"\xfd7zXZ\0", "this is an xz file", UNPACK),
    (0, b"\x04\x22\x4d\x18", "this is an lz4 file", UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "this is a 7-Zip archive", UNPACK),
    (0, b"Rar!\x1a\x07", "this is a RAR archive", UNPACK),
    (257, b"ustar", "this is a tar archive", UNPACK),
    (0, b"PK\x03\x04", "this is a zip archive without a model in it that is known here", UNPACK),
    (0, b"PK\x05\x06", "this is an empty zip archive", "Download or copy it again."),
    (4, b"TFL3", "this is a TensorFlow Lite model", "Convert it to ONNX first, for example with tf2onnx."),
    (0, b"lmgg", "this is a ggml file from before GGUF", OLD_GGML),
    (0, b"tjgg", "this is a ggml file from before GGUF", OLD_GGML),
    (0, b"fmgg", "this is a ggml file from before GGUF", OLD_GGML),
    (0, b"\x7fELF", "this is a program or a library", OTHER_FILE),
    (0, b"MZ", "this is a program or a library", OTHER_FILE),
    (0, b"\x89PNG", "this is a PNG image", OTHER_FILE),
    (0, b"\xff\xd8\xff", "this is a JPEG image", OTHER_FILE),
    (0, b"%PDF", "this is a PDF document", OTHER_FILE),
    (0, b"SQLite format 3\0", "this is an SQLite database", OTHER_FILE),
];

const UNPACK: &str = "Unpack it and open the model file inside.";
const OLD_GGML: &str = "Convert the model again with a current llama.cpp.";
const OTHER_FILE: &str = "Open the model file itself.";

/// Says what a file is that no parser takes.
pub(crate) fn unknown(head: &[u8], input: &Input) -> Error {
    if let Some(error) = left_out(head, input) {
        return error;
    }
    let text = head.trim_ascii_start();
    let starts =
        |prefix: &[u8]| text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let error = |message: &str| Error::new(Kind::UnknownFormat, message);
    let signature = SIGNATURES
        .iter()
        .find(|(offset, bytes, _, _)| head.get(*offset..).is_some_and(|rest| rest.starts_with(bytes)));
    if starts(b"version https://git-lfs") {
        error("this is a Git LFS pointer, not the model itself")
            .with_hint("Run `git lfs pull` in the repository to fetch the real file.")
    } else if head.starts_with(b"ZSTN") || head.starts_with(b"Z4DM") {
        error("this is an archive or a model delta of z4ai 0.2 or earlier, which is not read here")
            .with_hints(Hints::new(
                "Restore it with that release, then archive it again with `ztensor::archive::archive`.",
                "Restore it with that release, then archive it again with z4ai.safetensors.compress_file.",
                "Restore it with that release, then archive it again: `ztensor archive`.",
            ))
    } else if z4ai::is_frame(head) {
        error("this is a z4ai frame: compressed bytes, not a model file").with_hints(Hints::new(
            "`z4ai::Info::read` describes it and `z4ai::decompress` restores what was compressed.",
            "z4ai.decompress restores what was compressed.",
            "`z4ai info` describes it and `z4ai decompress` restores what was compressed.",
        ))
    } else if let Some((_, _, what, hint)) = signature {
        error(&format!("{what}, not a model file")).with_hint(*hint)
    } else if let Some(length) = safetensors_length(head) {
        Error::malformed(format!(
            "this begins like a safetensors file, but its header would be {length} bytes long, which no header is"
        ))
        .with_offset(0)
        .with_hint("The first eight bytes are damaged, or stand for something else; download or copy it again.")
    } else if starts(b"<!doctype html") || starts(b"<html") {
        error("this is a web page, not a model file").with_hint(
            "The download was answered with a page (a login or an error); download the file itself.",
        )
    } else if starts(b"<?xml") {
        error("this is an XML document, not a model file").with_hint(
            "An error page of a server looks like that, and so does the description of an OpenVINO model; open the weights themselves.",
        )
    } else if starts(b"{") {
        error("this is a JSON file, but not a shard index")
            .with_hint("Open the weights, or a file named *.safetensors.index.json.")
    } else if !head.is_empty() && head.iter().all(|byte| *byte == 0) {
        error("the file begins with nothing but zeros").with_hint(
            "A download that was broken off, or a disk that filled up, leaves such files; download or copy it again.",
        )
    } else if is_text(head) {
        error("this is a text file, not a model file").with_hint(OTHER_FILE)
    } else if is_message_pack(head) {
        error("this is a msgpack file, as Flax writes it, which is not read here").with_hint(
            "Save the weights as safetensors: safetensors.flax.save_file(flax.traverse_util.flatten_dict(params, sep=\".\"), path).",
        )
    } else {
        error("the content is of no known tensor format").with_hint(
            "Readable are .zt, .safetensors, .pt/.pth/.bin, .gguf, .npz/.npy, .onnx and .h5/.keras; the content decides, not the name.",
        )
    }
}

/// Formats that are known but not in this build.
fn left_out(head: &[u8], input: &Input) -> Option<Error> {
    let found: &[(bool, bool, &str, &str)] = &[
        (cfg!(feature = "gguf"), head.starts_with(b"GGUF"), "a GGUF file", "gguf"),
        (cfg!(feature = "hdf5"), head.starts_with(b"\x89HDF\r\n\x1a\n"), "an HDF5 file", "hdf5"),
        (cfg!(feature = "npz"), head.starts_with(b"\x93NUMPY"), "a NumPy array", "npz"),
        (
            cfg!(feature = "pytorch"),
            matches!(head, [0x80, 2..=5, ..]) && head.get(8) != Some(&b'{'),
            "a PyTorch file",
            "pytorch",
        ),
        (
            cfg!(feature = "safetensors"),
            head.get(8..10) == Some(b"{\"") && head.get(4..8) == Some(&[0; 4]),
            "a safetensors file",
            "safetensors",
        ),
        (
            cfg!(feature = "onnx"),
            input.extension() == "onnx" && head.first() == Some(&8),
            "an ONNX model",
            "onnx",
        ),
        (cfg!(feature = "pytorch"), has_member(head, input, b"/data.pkl"), "a PyTorch file", "pytorch"),
        (cfg!(feature = "npz"), has_member(head, input, b".npy"), "an archive of NumPy arrays", "npz"),
        (cfg!(feature = "hdf5"), has_member(head, input, b"model.weights.h5"), "a Keras model", "hdf5"),
    ];
    let (_, _, what, feature) = found.iter().find(|(built, matches, _, _)| !built && *matches)?;
    let other = format!("This build of ztensor leaves {what} out; use one with all formats.");
    Some(
        Error::unsupported(format!(
            "this is {what}, and the cargo feature \"{feature}\" that reads it is off"
        ))
        .with_hints(Hints {
            rust: format!("Add it in Cargo.toml: ztensor = {{ features = [\"{feature}\"] }}.").into(),
            python: other.clone().into(),
            shell: other.into(),
        }),
    )
}

/// Whether a zip archive has a member whose name ends so. Without a reader of archives, the first name has to do.
fn has_member(head: &[u8], input: &Input, end: &[u8]) -> bool {
    #[cfg(any(feature = "hdf5", feature = "npz", feature = "pytorch"))]
    return super::zip::matches(head) && super::zip::any_name(&input.source(), |name| name.ends_with(end));
    #[cfg(not(any(feature = "hdf5", feature = "npz", feature = "pytorch")))]
    {
        let _ = input;
        let length =
            head.get(26..28).map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])));
        head.starts_with(b"PK\x03\x04") && head.get(30..30 + length).is_some_and(|name| name.ends_with(end))
    }
}

/// The header length of what would be a safetensors file if the length were possible.
fn safetensors_length(head: &[u8]) -> Option<u64> {
    let (length, json) = head.split_first_chunk::<8>()?;
    let json = json.strip_prefix(b"{")?.trim_ascii_start();
    // Text files have no bytes below the space where a length has most of its own.
    (json.starts_with(b"\"") && !is_text(length)).then(|| u64::from_le_bytes(*length))
}

/// Whether the bytes are those of text in UTF-8; a character may be cut at the end.
fn is_text(head: &[u8]) -> bool {
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !valid.is_empty()
        && valid
            .chars()
            .all(|letter| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t' | '\x0c' | '\x1b'))
}

/// Whether the bytes begin with a map whose first key is text.
fn is_message_pack(head: &[u8]) -> bool {
    let key = match head {
        [0x81..=0x8f, rest @ ..] | [0xde, _, _, rest @ ..] | [0xdf, _, _, _, _, rest @ ..] => rest,
        _ => return false,
    };
    let (length, text) = match key {
        [short @ 0xa1..=0xbf, rest @ ..] => (usize::from(short & 0x1f), rest),
        [0xd9, length, rest @ ..] => (usize::from(*length), rest),
        _ => return false,
    };
    text.get(..length).is_some_and(is_text)
}

#[cfg(test)]
mod tests {
    use crate::error::{Caller, Kind};
    use crate::open::OpenOptions;

    fn said(bytes: &[u8]) -> (Kind, String) {
        let error = OpenOptions::default().open_bytes(bytes.to_vec()).unwrap_err();
        (error.kind(), error.told(Caller::Shell).to_string())
    }

    #[test]
    fn files_that_are_no_models_are_named() {
        let mut tar = vec![0; 512];
        tar[..9].copy_from_slice(b"notes.txt");
        tar[257..262].copy_from_slice(b"ustar");
        let cases: &[(&[u8], &str)] = &[
            (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "gzip"),
            (b"\x28\xb5\x2f\xfd\x04\0", "zstd"),
            (b"BZh91AY&SY", "bzip2"),
            (&tar, "tar archive"),
            (b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "empty zip"),
            (b"\x20\0\0\0TFL3\0\0\0\0", "TensorFlow Lite"),
            (b"# My model\nIt is good.\n", "text file"),
            ("Gr\u{fc}\u{df}e\n".as_bytes(), "text file"),
            (&[0; 4096], "nothing but zeros"),
            (b"\x81\xa6params\x80", "msgpack"),
            (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
            (b"<!DOCTYPE html><html>", "web page"),
            (b"{\"a\": 1}", "JSON"),
            (b"\xde\xad\xbe\xef\x01\x02", "no known tensor format"),
        ];
        for (bytes, what) in cases {
            let (kind, text) = said(bytes);
            assert_eq!(kind, Kind::UnknownFormat, "{text}");
            assert!(text.contains(what), "{what}: {text}");
        }
    }

    #[cfg(feature = "safetensors")]
    #[test]
    fn an_impossible_header_length_is_named() {
        let (kind, text) = said(b"\xff\xff\xff\xff\xff\xff\xff\x7f{\"a\":{}}");
        assert_eq!(kind, Kind::Malformed);
        assert!(text.contains("9223372036854775807 bytes long"), "{text}");
    }

    #[test]
    fn a_format_that_is_not_built_names_its_feature() {
        let files: &[(bool, &[u8], &str)] = &[
            (cfg!(feature = "gguf"), b"GGUF\x03\0\0\0", "gguf"),
            (cfg!(feature = "hdf5"), b"\x89HDF\r\n\x1a\n\0\0\0\0", "hdf5"),
            (cfg!(feature = "npz"), b"\x93NUMPY\x01\0", "npz"),
            (cfg!(feature = "pytorch"), b"\x80\x02}q\0.", "pytorch"),
            (cfg!(feature = "safetensors"), b"\x08\0\0\0\0\0\0\0{\"a\":{}}", "safetensors"),
        ];
        for (_, bytes, feature) in files.iter().filter(|(built, _, _)| !built) {
            let error = OpenOptions::default().open_bytes(bytes.to_vec()).unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported);
            assert!(error.to_string().contains(&format!("features = [\"{feature}\"]")), "{error}");
        }
    }
}
