//! Files behind HTTP: what they cost in requests, and what happens when the server is in trouble.

#![allow(clippy::unwrap_used)]

mod server;

use server::{End, Fault, Server};
use ztensor::{Kind, OpenOptions, Reader};
use ztensor_remote::StorageOptions;

/// A `.zt` or `.safetensors` file of 300 tensors, 40 KB each.
fn model(safetensors: bool) -> Vec<u8> {
    let values =
        |layer: usize| -> Vec<f32> { (0..10_000).map(|i| (i * (layer + 1)) as f32 * 0.001).collect() };
    if safetensors {
        let entries = (0..300).map(|layer| {
            let (start, end) = (layer * 40_000, (layer + 1) * 40_000);
            format!(
                r#""{}":{{"dtype":"F32","shape":[100,100],"data_offsets":[{start},{end}]}}"#,
                weight(layer)
            )
        });
        let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend((0..300).flat_map(values).flat_map(f32::to_le_bytes));
        return file;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zt");
    let mut writer = ztensor::Writer::create(&path).unwrap();
    for layer in 0..300 {
        writer.add(&weight(layer), &[100, 100], &values(layer)).unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

fn open(url: &str) -> ztensor::Result<Reader> {
    let source = ztensor_remote::open(url, &StorageOptions::default())?;
    OpenOptions::default().open_source(source)
}

fn weight(layer: usize) -> String {
    format!("model.layers.{layer}.self_attn.q_proj.weight")
}

#[test]
fn an_index_takes_two_requests_and_a_tensor_its_own_bytes() {
    for safetensors in [true, false] {
        let file = model(safetensors);
        let local = Reader::from_bytes(file.clone()).unwrap();
        let server = Server::start(file);
        let reader = open(&server.url("model")).unwrap();
        assert_eq!(reader.len(), 300);
        let (requests, bytes) = server.counted();
        assert!(
            requests <= 2 && bytes <= 256 << 10,
            "safetensors {safetensors}: {requests} requests, {bytes} bytes"
        );
        let name = weight(150);
        assert_eq!(reader.bytes(&name).unwrap(), local.bytes(&name).unwrap());
        let (requests, bytes) = server.counted();
        assert!(requests <= 2 && bytes <= 128 << 10, "one tensor: {requests} requests, {bytes} bytes");
    }
}

#[test]
fn announced_tensors_come_in_few_requests() {
    let file = model(true);
    let local = Reader::from_bytes(file.clone()).unwrap();
    let server = Server::start(file);
    let reader = open(&server.url("model.safetensors")).unwrap();
    server.counted();
    reader.announce(reader.objects().filter_map(|(_, object)| object.component("data")));
    for name in local.names() {
        assert_eq!(reader.bytes(name).unwrap(), local.bytes(name).unwrap());
    }
    let (requests, bytes) = server.counted();
    assert!(requests <= 4, "{requests} requests for {bytes} bytes");
}

#[test]
fn troubles_that_pass_are_waited_out() {
    let file = model(true);
    let local = Reader::from_bytes(file.clone()).unwrap();
    let server = Server::start(file);
    server.fail(&[Fault::Status(503), Fault::Drop, Fault::Truncate(100), Fault::Status(429)]);
    let reader = open(&server.url("model")).unwrap();
    server.fail(&[Fault::Truncate(5000), Fault::Status(500), Fault::Drop, Fault::Truncate(1)]);
    assert_eq!(reader.bytes(&weight(299)).unwrap(), local.bytes(&weight(299)).unwrap());
}

#[test]
fn troubles_that_stay_are_an_error() {
    let server = Server::start(model(true));
    server.fail(vec![Fault::Drop; 50].as_slice());
    let error = open(&server.url("model")).unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
    assert!(error.to_string().contains("gave up after"), "{error}");
}

#[test]
fn answers_are_named() {
    let server = Server::start(model(true));
    for (status, kind) in
        [(404, Kind::NotFound), (403, Kind::PermissionDenied), (401, Kind::PermissionDenied), (400, Kind::Io)]
    {
        server.fail(&[Fault::Status(status)]);
        let error = open(&server.url("model?signature=secret")).unwrap_err();
        assert_eq!(error.kind(), kind, "{status}: {error}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    let error = open("http://127.0.0.1:1/model").unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
}

#[test]
fn a_file_that_changes_is_an_error() {
    let file = model(true);
    let server = Server::start(file.clone());
    let reader = open(&server.url("model")).unwrap();
    let mut other = file;
    other.reverse();
    server.replace(other);
    let error = reader.bytes(&weight(299)).unwrap_err();
    assert!(error.to_string().contains("changed while it was open"), "{error}");
}

fn open_with(url: &str, name: &str, value: &str) -> ztensor::Result<Reader> {
    let options = StorageOptions::new([(name.to_string(), value.to_string())])?;
    OpenOptions::default().open_source(ztensor_remote::open(url, &options)?)
}

#[test]
fn a_server_without_ranges_is_read_once() {
    let file = model(true);
    let local = Reader::from_bytes(file.clone()).unwrap();
    for end in [End::Length, End::Chunks] {
        let server = Server::start(file.clone());
        server.without_ranges();
        server.end_with(end);
        let reader = open(&server.url("model?signature=secret")).unwrap();
        for name in local.names() {
            assert_eq!(reader.bytes(name).unwrap(), local.bytes(name).unwrap());
        }
        assert_eq!(server.counted(), (1, file.len() as u64), "{end:?}");
        let error = reader.bytes("none").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}

#[test]
fn what_is_read_whole_has_a_bound() {
    for end in [End::Length, End::Chunks] {
        let server = Server::start(model(true));
        server.without_ranges();
        server.end_with(end);
        let url = server.url("model");
        for bound in ["1MB", "false"] {
            let error = open_with(&url, "whole", bound).unwrap_err();
            assert_eq!(error.kind(), Kind::Limit, "{end:?} {bound}: {error}");
            for (caller, option) in [
                (ztensor::Caller::Python, "{\"whole\": True}"),
                (ztensor::Caller::Shell, "ZTENSOR_WHOLE=true"),
            ] {
                assert!(error.told(caller).to_string().contains(option), "{error}");
            }
        }
        assert_eq!(open_with(&url, "whole", "true").unwrap().len(), 300);
        assert_eq!(open_with(&url, "whole", "20 MB").unwrap().len(), 300);
        assert_eq!(open_with(&url, "whole", "much").unwrap_err().kind(), Kind::InvalidArgument);
    }
}

#[test]
fn a_whole_file_that_ends_early_begins_again_or_is_an_error() {
    let file = model(true);
    for end in [End::Length, End::Chunks] {
        let server = Server::start(file.clone());
        server.without_ranges();
        server.end_with(end);
        server.fail(&[Fault::Truncate(5_000_000), Fault::Status(503), Fault::Drop]);
        assert_eq!(open(&server.url("model")).unwrap().len(), 300);
        assert_eq!(server.counted().0, 4);
        // The bound is on what is kept, not on what was lost on the way.
        server.fail(&[Fault::Truncate(11_000_000); 3]);
        assert_eq!(open_with(&server.url("model"), "whole", "13 MB").unwrap().len(), 300);
        server.fail(&[Fault::Truncate(file.len() - 1); 50]);
        let error = open(&server.url("model")).unwrap_err();
        assert_eq!(error.kind(), Kind::Io);
        assert!(error.to_string().contains("gave up after"), "{error}");
    }
}

#[test]
fn a_whole_file_whose_end_nobody_can_tell_is_refused() {
    let server = Server::start(model(true));
    server.without_ranges();
    server.end_with(End::Close);
    let error = open(&server.url("model")).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    assert!(error.hint().is_some(), "{error}");
}

#[test]
fn files_that_are_compressed_on_the_way_are_refused() {
    let server = Server::start(model(true));
    assert!(open(&server.url("model")).is_ok());
    assert!(server.heads().iter().all(|head| head.to_lowercase().contains("accept-encoding: identity")));
    for ranges in [true, false] {
        if !ranges {
            server.without_ranges();
        }
        server.encode_as("identity");
        assert!(open(&server.url("model")).is_ok());
        server.encode_as("gzip");
        let error = open(&server.url("model")).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains("gzip"), "{error}");
    }
}

#[test]
fn a_server_that_forgets_ranges_is_an_error() {
    let server = Server::start(model(true));
    let reader = open(&server.url("model")).unwrap();
    server.without_ranges();
    let error = reader.bytes(&weight(299)).unwrap_err();
    assert!(error.to_string().contains("in place of a part"), "{error}");
}

#[test]
fn an_empty_file_is_empty() {
    let server = Server::start(Vec::new());
    assert!(ztensor_remote::open(&server.url("model"), &StorageOptions::default()).unwrap().is_empty());
}

#[test]
fn redirects_are_followed_and_keep_the_query() {
    let file = model(true);
    let (front, back) = (Server::start(Vec::new()), Server::start(file));
    front.redirect_to(&back.url("real?signature=abc"));
    let options =
        StorageOptions::new([("header.authorization".to_string(), "Bearer token".to_string())]).unwrap();
    let source = ztensor_remote::open(&front.url("model"), &options).unwrap();
    assert_eq!(OpenOptions::default().open_source(source).unwrap().len(), 300);
    assert!(front.heads().iter().all(|head| head.to_lowercase().contains("authorization: bearer token")));
    let seen = back.heads();
    assert!(seen.iter().all(|head| head.starts_with("GET /real?signature=abc ")), "{seen:?}");
}

#[test]
fn reading_works_inside_an_asynchronous_program() {
    let server = Server::start(model(true));
    let url = server.url("model");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(async { open(&url).unwrap().len() }), 300);
}
