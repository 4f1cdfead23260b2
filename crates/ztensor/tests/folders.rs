//! Folders: the model in one opens by its folder, several are named, and everything that is no model is left alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "shared/models.rs"]
mod models;

use std::path::Path;

use models::{safetensors, sharded, weights, write};
use ztensor::archive::{ArchiveOptions, archive};
use ztensor::folder::models as models_in;
use ztensor::{Kind, OpenOptions, Reader};

fn names(folder: &Path) -> Vec<String> {
    models_in(folder).unwrap().iter().map(|model| model.name().to_owned()).collect()
}

/// What lies beside the weights in every repository.
fn other_files(folder: &Path) {
    write(folder, "config.json", r#"{"architectures": ["Llama"], "metadata": {"a": 1}}"#);
    write(folder, "tokenizer.json", r#"{"version": "1.0", "model": {"vocab": {}}}"#);
    write(folder, "README.md", "# A model");
    write(folder, "vocab.txt", "a\nb\n");
    write(folder, "merges.txt", "");
    write(folder, ".gitattributes", "*.bin filter=lfs");
    write(folder, ".git/objects/x.safetensors", safetensors(&[("hidden", &[1.0])]));
    // torch.save of something without tensors, as of training arguments.
    write(folder, "training_args.bin", b"\x80\x02}q\x00X\x02\x00\x00\x00lrq\x01K\x01s.");
}

#[test]
fn the_one_model_in_a_folder_opens() {
    let folder = tempfile::tempdir().unwrap();
    other_files(folder.path());
    let error = Reader::open(folder.path()).unwrap_err();
    assert_eq!((error.kind(), error.path()), (Kind::NotFound, Some(folder.path())));
    let path = write(folder.path(), "weights.of.mine", safetensors(&[("w", &weights(10, 1))]));
    assert_eq!(names(folder.path()), ["weights.of.mine"]);
    assert_eq!(Reader::open(folder.path()).unwrap().read_as::<f32>("w").unwrap(), weights(10, 1));
    archive(&path, &folder.path().join("sub/x.zstn"), &ArchiveOptions::default(), &mut |_| Ok(()))
        .map(|_| ())
        .unwrap_err();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    archive(&path, &folder.path().join("sub/x.zstn"), &ArchiveOptions::default(), &mut |_| Ok(())).unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!(Reader::open(folder.path()).unwrap().read_as::<f32>("w").unwrap(), weights(10, 1));
}

#[test]
fn shards_are_one_model_with_and_without_their_index() {
    let folder = tempfile::tempdir().unwrap();
    other_files(folder.path());
    let [a, b, c] = [weights(90, 1), weights(30, 2), weights(50, 3)];
    let index = sharded(folder.path(), [&a, &b, &c]);
    assert_eq!(names(folder.path()), ["model.safetensors.index.json"]);
    assert_eq!(models_in(folder.path()).unwrap()[0].files().len(), 3);
    let check = || {
        let reader = Reader::open(folder.path()).unwrap();
        assert_eq!(reader.len(), 3);
        assert_eq!(reader.read_as::<f32>("c").unwrap(), c);
    };
    check();
    std::fs::remove_file(&index).unwrap();
    assert_eq!(names(folder.path()), ["model-00001-of-00002.safetensors"]);
    check();
    // Archives of the parts are parts.
    for number in 1..3 {
        let shard = folder.path().join(format!("model-0000{number}-of-00002.safetensors"));
        archive(&shard, &shard, &ArchiveOptions::default(), &mut |_| Ok(())).unwrap();
    }
    check();
    std::fs::remove_file(folder.path().join("model-00001-of-00002.safetensors")).unwrap();
    let error = Reader::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.message().contains("1 of 2 parts"), "{error}");
}

#[test]
fn archived_shards_are_found_beside_their_index() {
    let folder = tempfile::tempdir().unwrap();
    let index = sharded(folder.path(), [&weights(90, 1), &weights(30, 2), &weights(50, 3)]);
    for number in 1..3 {
        let shard = folder.path().join(format!("model-0000{number}-of-00002.safetensors"));
        let packed = folder.path().join(format!("model-0000{number}-of-00002.safetensors.zstn"));
        archive(&shard, &packed, &ArchiveOptions::default(), &mut |_| Ok(())).unwrap();
        std::fs::remove_file(shard).unwrap();
    }
    assert_eq!(Reader::open(&index).unwrap().len(), 3);
    assert_eq!(names(folder.path()), ["model.safetensors.index.json"]);
}

#[test]
fn several_models_are_named() {
    let folder = tempfile::tempdir().unwrap();
    other_files(folder.path());
    let one = safetensors(&[("w", &weights(10, 1))]);
    for path in
        ["unet/diffusion_pytorch_model.safetensors", "text_encoder/model.safetensors", "vae/m.safetensors"]
    {
        write(folder.path(), path, &one);
    }
    write(folder.path(), "model_index.json", r#"{"_class_name": "StableDiffusionPipeline"}"#);
    let expected =
        ["text_encoder/model.safetensors", "unet/diffusion_pytorch_model.safetensors", "vae/m.safetensors"];
    assert_eq!(names(folder.path()), expected);
    let error = Reader::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidArgument);
    for name in expected {
        assert!(error.message().contains(name), "{error}");
    }
    for model in models_in(folder.path()).unwrap() {
        assert_eq!(OpenOptions::default().open_model(&model).unwrap().len(), 1);
    }
    assert_eq!(Reader::open(folder.path().join("unet")).unwrap().len(), 1);
}

#[test]
fn an_index_without_any_of_its_shards_is_no_model() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "pytorch_model.bin.index.json",
        r#"{"weight_map": {"w": "pytorch_model-00001-of-00001.bin"}}"#,
    );
    write(folder.path(), "model.safetensors", safetensors(&[("w", &[1.0])]));
    assert_eq!(names(folder.path()), ["model.safetensors"]);
}

#[cfg(unix)]
#[test]
fn links_to_files_are_followed_and_links_to_folders_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = tempfile::tempdir().unwrap();
    let blob = write(blobs.path(), "0123", safetensors(&[("w", &[1.0])]));
    std::os::unix::fs::symlink(&blob, folder.path().join("model.safetensors")).unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("again")).unwrap();
    assert_eq!(names(folder.path()), ["model.safetensors"]);
}
