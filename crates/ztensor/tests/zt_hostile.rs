//! Hostile `.zt` and `.safetensors` input: every truncation, every flipped byte, and files that break one rule each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use ztensor::{Checksum, Compression, Kind, Reader, Writer};

fn sample() -> Vec<u8> {
    let mut writer = Writer::in_memory().unwrap();
    writer.set_attribute("k", "v");
    writer
        .add_with("a", &[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])
        .checksum(Checksum::Crc32c)
        .write()
        .unwrap();
    writer
        .add_with("z", &[200], &[7u8; 200])
        .compress(Compression::Zstd(3))
        .checksum(Checksum::Sha256)
        .write()
        .unwrap();
    writer.add_csr("s", [2, 3], &[1f32, 2.0], &[0, 2], &[0, 1, 2]).unwrap();
    writer.into_bytes().unwrap()
}

fn safetensors() -> Vec<u8> {
    let header = br#"{"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header);
    bytes.extend_from_slice(&[0; 11]);
    bytes
}

fn read_everything(bytes: Vec<u8>) -> ztensor::Result<Vec<Vec<u8>>> {
    let reader = Reader::from_bytes(bytes)?;
    let mut all = Vec::new();
    for (name, object) in reader.objects() {
        for (role, _) in &object.components {
            all.push(reader.component_bytes(name, role)?.into_owned());
        }
    }
    Ok(all)
}

#[test]
fn every_truncation_is_an_error() {
    for bytes in [sample(), safetensors()] {
        for length in 0..bytes.len() {
            let error = read_everything(bytes[..length].to_vec()).unwrap_err();
            assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn every_flipped_byte_is_survived_and_checksums_notice_damaged_data() {
    let bytes = sample();
    let reader = Reader::from_bytes(bytes.clone()).unwrap();
    let checked: Vec<_> =
        ["a", "z"].map(|name| reader.object(name).unwrap().components[0].1.data.only_span().unwrap()).into();
    for position in 0..bytes.len() {
        for mask in [0x01, 0x80, 0xFF] {
            let mut changed = bytes.clone();
            changed[position] ^= mask;
            let result = read_everything(changed);
            if checked
                .iter()
                .any(|span| (span.offset..span.offset + span.length).contains(&(position as u64)))
            {
                assert_eq!(result.unwrap_err().kind(), Kind::Checksum, "byte {position}");
            }
        }
    }
    for position in 0..safetensors().len() {
        let mut changed = safetensors();
        changed[position] ^= 0xFF;
        let _ = read_everything(changed);
    }
}

#[test]
fn a_damaged_tensor_spoils_itself_only() {
    let mut bytes = sample();
    let reader = Reader::from_bytes(bytes.clone()).unwrap();
    let offset = reader.object("a").unwrap().components[0].1.data.first_span().unwrap().offset as usize;
    bytes[offset] ^= 1;
    let reader = Reader::from_bytes(bytes).unwrap();
    let error = reader.bytes("a").unwrap_err();
    assert_eq!(error.kind(), Kind::Checksum);
    assert_eq!(error.tensor(), Some("a"));
    assert_eq!(reader.bytes("z").unwrap().len(), 200);
    let failures = reader.verify_all();
    assert_eq!(failures.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a"]);
}

/// A file with a manifest of our own making: blobs of zeros up to `blobs`, then the CBOR.
fn with_manifest(blobs: usize, manifest: &[u8]) -> Vec<u8> {
    let mut bytes = b"ZTEN1000".to_vec();
    bytes.resize(blobs, 0);
    bytes.extend_from_slice(manifest);
    bytes.extend_from_slice(&(manifest.len() as u64).to_le_bytes());
    bytes.extend_from_slice(b"ZTEN1000");
    bytes
}

/// Checks that the files under `conformance/reject` are these, each named after its rule. With the environment variable `ZTENSOR_WRITE_CORPUS`
/// set, missing files are written.
fn check_corpus(format: &str, files: &[(&str, Vec<u8>)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/reject").join(format);
    for (rule, bytes) in files {
        let path = folder.join(format!("{}.{format}", rule.replace(' ', "-")));
        if std::env::var_os("ZTENSOR_WRITE_CORPUS").is_some() && !path.exists() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, bytes).unwrap();
        }
        let found = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(found == *bytes, "{} differs", path.display());
    }
    // The table of what is wrong with them is not one of them.
    let found =
        folder.read_dir().unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != "expected.tsv");
    assert_eq!(found.count(), files.len(), "files nobody knows in {}", folder.display());
}

/// CBOR in a readable notation: maps as pairs, just what the cases below need.
enum Cbor<'a> {
    Number(u64),
    Text(&'a str),
    List(Vec<Cbor<'a>>),
    Map(Vec<(&'a str, Cbor<'a>)>),
}

fn encode(item: &Cbor<'_>, out: &mut Vec<u8>) {
    let mut head = |major: u8, value: u64| {
        out.push(major << 5 | 27);
        out.extend_from_slice(&value.to_be_bytes());
    };
    match item {
        Cbor::Number(value) => head(0, *value),
        Cbor::Text(text) => {
            head(3, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        Cbor::List(items) => {
            head(4, items.len() as u64);
            items.iter().for_each(|item| encode(item, out));
        }
        Cbor::Map(pairs) => {
            head(5, pairs.len() as u64);
            for (key, value) in pairs {
                encode(&Cbor::Text(key), out);
                encode(value, out);
            }
        }
    }
}

fn tensor<'a>(shape: &[u64], offset: u64, length: u64) -> Cbor<'a> {
    tensor_with(
        shape,
        vec![
            ("dtype", Cbor::Text("f32")),
            ("offset", Cbor::Number(offset)),
            ("length", Cbor::Number(length)),
        ],
    )
}

fn tensor_with<'a>(shape: &[u64], component: Vec<(&'a str, Cbor<'a>)>) -> Cbor<'a> {
    Cbor::Map(vec![
        ("shape", Cbor::List(shape.iter().map(|d| Cbor::Number(*d)).collect())),
        ("format", Cbor::Text("dense")),
        ("components", Cbor::Map(vec![("data", Cbor::Map(component))])),
    ])
}

fn open(objects: Vec<(&str, Cbor<'_>)>) -> ztensor::Result<Reader> {
    Reader::from_bytes(container(objects))
}

fn container(objects: Vec<(&str, Cbor<'_>)>) -> Vec<u8> {
    let mut manifest = Vec::new();
    encode(
        &Cbor::Map(vec![("version", Cbor::Text("1.2.0")), ("objects", Cbor::Map(objects))]),
        &mut manifest,
    );
    with_manifest(256, &manifest)
}

#[test]
fn each_rule_is_enforced() {
    assert_eq!(
        open(vec![
            ("ok", tensor(&[4], 64, 16)),
            ("tied", tensor(&[4], 64, 16)),
            ("empty", tensor(&[0], 64, 0))
        ])
        .unwrap()
        .len(),
        3
    );
    let refused: Vec<(&str, Vec<(&str, Cbor<'_>)>)> = vec![
        ("misaligned", vec![("t", tensor(&[4], 65, 16))]),
        ("over the magic", vec![("t", tensor(&[4], 0, 16))]),
        ("over the manifest", vec![("t", tensor(&[64], 64, 256))]),
        ("beyond the file", vec![("t", tensor(&[4], 1 << 62, 16))]),
        (
            "offset overflow",
            vec![("t", tensor(&[u64::MAX / 64 * 16], u64::MAX / 64 * 64, u64::MAX / 64 * 64))],
        ),
        ("shape overflow", vec![("t", tensor(&[1 << 32, 1 << 32], 64, 0))]),
        ("shape overflow behind a zero", vec![("t", tensor(&[1 << 63, 4, 0], 64, 0))]),
        ("size equation", vec![("t", tensor(&[5], 64, 16))]),
        ("overlap", vec![("a", tensor(&[32], 64, 128)), ("b", tensor(&[16], 128, 64))]),
        ("duplicate name", vec![("t", tensor(&[4], 64, 16)), ("t", tensor(&[4], 128, 16))]),
        (
            "zstd without its decoded length",
            vec![(
                "t",
                tensor_with(
                    &[4],
                    vec![
                        ("dtype", Cbor::Text("f32")),
                        ("offset", Cbor::Number(64)),
                        ("length", Cbor::Number(16)),
                        ("encoding", Cbor::Text("zstd")),
                    ],
                ),
            )],
        ),
        (
            "no components",
            vec![("t", Cbor::Map(vec![("shape", Cbor::List(vec![])), ("format", Cbor::Text("dense"))]))],
        ),
    ];
    let mut corpus = Vec::new();
    for (rule, objects) in refused {
        let bytes = container(objects);
        let error = Reader::from_bytes(bytes.clone()).err().unwrap_or_else(|| panic!("{rule} was accepted"));
        assert!(matches!(error.kind(), Kind::Malformed | Kind::Duplicate), "{rule}: {error}");
        corpus.push((rule, bytes));
    }
    check_corpus("zt", &corpus);
}

#[test]
fn what_is_not_understood_is_listed_with_its_reason() {
    let odd = |field, value| {
        tensor_with(
            &[4],
            vec![
                ("dtype", Cbor::Text(if field == "dtype" { value } else { "f32" })),
                ("offset", Cbor::Number(64)),
                ("length", Cbor::Number(16)),
                if field == "dtype" { ("note", Cbor::Text("")) } else { (field, Cbor::Text(value)) },
            ],
        )
    };
    let reader = open(vec![
        ("good", tensor(&[4], 64, 16)),
        ("enc", odd("encoding", "brotli")),
        ("dt", odd("dtype", "f128")),
    ])
    .unwrap();
    assert_eq!(reader.names().collect::<Vec<_>>(), ["good"]);
    let reasons: Vec<_> = reader
        .skipped()
        .iter()
        .map(|skipped| (skipped.name.as_str(), skipped.reason.contains("unknown")))
        .collect();
    assert_eq!(reasons, [("enc", true), ("dt", true)]);
    assert_eq!(reader.bytes("enc").unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn tensors_have_as_many_dimensions_as_arrays_may_have() {
    let ones = |count: usize| vec![1u64; count];
    assert_eq!(*open(vec![("t", tensor(&ones(64), 64, 4))]).unwrap().object("t").unwrap().shape, *ones(64));
    for count in [65, 200_000] {
        let error = open(vec![("t", tensor(&ones(count), 64, 4))]).unwrap_err();
        assert!(error.to_string().contains("more than 64 dimensions"), "{error}");
        let header = format!(r#"{{"t":{{"dtype":"U8","shape":{:?},"data_offsets":[0,1]}}}}"#, ones(count));
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0]].concat();
        let error = Reader::from_bytes(file).unwrap_err();
        assert!(error.to_string().contains("more than 64 dimensions"), "{error}");
    }
    let mut writer = Writer::in_memory().unwrap();
    assert_eq!(writer.add("t", &ones(65), &[0u8]).unwrap_err().kind(), Kind::InvalidArgument);
}

fn compressed<'a>(length: u64) -> Cbor<'a> {
    tensor_with(
        &[length],
        vec![
            ("dtype", Cbor::Text("u8")),
            ("encoding", Cbor::Text("z4ai")),
            ("uncompressed_length", Cbor::Number(length)),
            ("offset", Cbor::Number(64)),
            ("length", Cbor::Number(100)),
        ],
    )
}

#[test]
fn what_looks_like_a_bomb_is_not_decoded() {
    let small = [compressed(1 << 20), compressed(700 << 20)];
    let [small, large] =
        small.map(|tensor| open(vec![("t", tensor)]).unwrap().bytes("t").unwrap_err().kind());
    assert_eq!((small, large), (Kind::Malformed, Kind::Malformed), "a gigabyte is always decoded");

    // One tensor out of proportion spoils itself, many that are so together spoil the file.
    let reader = open(vec![("a", compressed(3 << 30)), ("b", compressed(1 << 20))]).unwrap();
    let error = reader.bytes("a").unwrap_err();
    assert!(error.kind() == Kind::Limit && error.tensor() == Some("a"), "{error}");
    assert!(error.told(ztensor::Caller::Shell).to_string().contains("--limit ratio="), "{error}");
    let mut out = [0; 4];
    assert_eq!(reader.component_range_into("a", "data", 0, &mut out).unwrap_err().kind(), Kind::Limit);
    assert_eq!(reader.bytes("b").unwrap_err().kind(), Kind::Malformed);
    assert_eq!(reader.verify_all()[0].1.kind(), Kind::Limit);

    let names: Vec<String> = (0..30).map(|number| format!("{number}")).collect();
    let bytes = container(names.iter().map(|name| (name.as_str(), compressed(900 << 20))).collect());
    let reader = Reader::from_bytes(bytes.clone()).unwrap();
    assert_eq!(reader.bytes("7").unwrap_err().kind(), Kind::Limit);
    let mut options = ztensor::OpenOptions::default();
    options.limits.ratio = u64::MAX;
    assert_eq!(options.open_bytes(bytes).unwrap().bytes("7").unwrap_err().kind(), Kind::Malformed);

    let mut options = ztensor::OpenOptions::default();
    options.limits.decoded_bytes = 1000;
    let reader = options.open_bytes(sample()).unwrap();
    assert_eq!(reader.bytes("z").unwrap().len(), 200);
    options.limits.decoded_bytes = 100;
    let reader = options.open_bytes(sample()).unwrap();
    assert_eq!(reader.bytes("a").unwrap().len(), 24, "what lies plainly in memory is not decoded");
    assert_eq!(reader.bytes("z").unwrap_err().kind(), Kind::Limit);
}

#[test]
fn absurd_manifests_are_refused_before_they_cost_anything() {
    let nested = with_manifest(64, &[0x81; 200_000]);
    assert_eq!(Reader::from_bytes(nested).unwrap_err().kind(), Kind::Malformed);
    let mut huge = with_manifest(64, b"\xa0");
    let at = huge.len() - 16;
    huge[at..at + 8].copy_from_slice(&(1u64 << 62).to_le_bytes());
    assert_eq!(Reader::from_bytes(huge).unwrap_err().kind(), Kind::Malformed);
    let counted = with_manifest(64, b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff");
    assert_eq!(Reader::from_bytes(counted).unwrap_err().kind(), Kind::Malformed);
    let other = with_manifest(64, b"\xa2\x67version\x653.0.0\x67objects\xa0");
    assert_eq!(Reader::from_bytes(other).unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn zstd_that_lies_about_its_length_is_refused() {
    let frame = zstd_frame(&[5; 1000]);
    for announced in [999u64, 1001, 1 << 40] {
        let mut bytes = b"ZTEN1000".to_vec();
        bytes.resize(64, 0);
        bytes.extend_from_slice(&frame);
        let component = Cbor::Map(vec![
            ("dtype", Cbor::Text("u8")),
            ("offset", Cbor::Number(64)),
            ("length", Cbor::Number(frame.len() as u64)),
            ("encoding", Cbor::Text("zstd")),
            ("uncompressed_length", Cbor::Number(announced)),
        ]);
        let object = Cbor::Map(vec![
            ("shape", Cbor::List(vec![Cbor::Number(announced)])),
            ("format", Cbor::Text("dense")),
            ("components", Cbor::Map(vec![("data", component)])),
        ]);
        let mut manifest = Vec::new();
        encode(
            &Cbor::Map(vec![("version", Cbor::Text("1.2.0")), ("objects", Cbor::Map(vec![("t", object)]))]),
            &mut manifest,
        );
        bytes.extend_from_slice(&manifest);
        bytes.extend_from_slice(&(manifest.len() as u64).to_le_bytes());
        bytes.extend_from_slice(b"ZTEN1000");
        let error = Reader::from_bytes(bytes).unwrap().bytes("t").unwrap_err();
        assert!(matches!(error.kind(), Kind::Malformed | Kind::Limit), "{announced}: {error}");
    }
}

fn zstd_frame(bytes: &[u8]) -> Vec<u8> {
    let mut writer = Writer::in_memory().unwrap();
    writer.add_with("x", &[bytes.len() as u64], bytes).compress(Compression::Zstd(1)).write().unwrap();
    let file = writer.into_bytes().unwrap();
    let reader = Reader::from_bytes(file.clone()).unwrap();
    let span = reader.object("x").unwrap().components[0].1.data.only_span().unwrap();
    file[span.offset as usize..][..span.length as usize].to_vec()
}

#[test]
fn safetensors_rules_are_enforced() {
    let written = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    };
    let file = |header: &str, data: usize| Reader::from_bytes(written(header, data));
    let entry = |offsets: &str| format!(r#""x":{{"dtype":"U8","shape":[4],"data_offsets":[{offsets}]}}"#);
    assert_eq!(file(&format!("{{{}}}   ", entry("0,4")), 4).unwrap().len(), 1);
    assert_eq!(file(r#"{"q":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}"#, 2).unwrap().len(), 1);
    let refused = [
        ("a hole", format!("{{{}}}", entry("1,5")), 5),
        ("trailing bytes", format!("{{{}}}", entry("0,4")), 5),
        ("missing bytes", format!("{{{}}}", entry("0,4")), 3),
        ("reversed offsets", format!("{{{}}}", entry("4,0")), 4),
        ("duplicate names", format!("{{{},{}}}", entry("0,4"), entry("4,8")), 8),
        ("a size that does not fit", format!("{{{}}}", entry("0,5")), 5),
        ("half a byte", r#"{"q":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}"#.to_owned(), 2),
        ("metadata that is not text", r#"{"__metadata__":{"a":1}}"#.to_owned(), 0),
        ("duplicate metadata", r#"{"__metadata__":{"a":"1","a":"2"}}"#.to_owned(), 0),
        ("nested junk", format!("{{\"x\":{}", "[".repeat(10_000)), 0),
        ("text behind the header", "{} x".to_owned(), 0),
    ];
    let mut corpus = Vec::new();
    for (rule, header, data) in refused {
        let bytes = written(&header, data);
        assert!(Reader::from_bytes(bytes.clone()).is_err(), "{rule} was accepted");
        corpus.push((rule, bytes));
    }
    check_corpus("safetensors", &corpus);
    let reader = file(r#"{"x":{"dtype":"F128","shape":[1],"data_offsets":[0,16]}}"#, 16).unwrap();
    assert_eq!(reader.skipped().len(), 1);
}

#[test]
fn what_is_not_a_model_file_is_named() {
    let hint = |bytes: &[u8]| {
        let error = Reader::from_bytes(bytes.to_vec()).unwrap_err();
        format!("{} | {}", error.message(), error.hint().unwrap_or_default())
    };
    assert!(
        hint(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n").contains("git lfs pull")
    );
    assert!(hint(b"<!DOCTYPE html><html><body>404</body></html>").contains("web page"));
    assert!(hint(b"").contains("empty"));
    assert!(hint(b"hello, world, this is a text file").contains("this is a text file"));
    assert!(hint(b"\x01\x02\x03\xff\xfe bytes of nothing").contains("no known tensor format"));
}
