//! The operations that change files, each through every crash.

use std::path::Path;

use super::super::record::recorded;
use super::super::{Output, disk, make_durable};
use super::simulation::{Disk, Loss};
use super::{content, footers, survives, write_tensors};
use crate::archive::{ArchiveOptions, archive, restore};
use crate::convert::{Storage, copy_into};
use crate::error::Result;
use crate::{
    Checksum, Compression, DType, Reader, TensorInput, Writer, remove_tensors, repair, replace_tensor,
};

const OLD: &[(&str, &[u8])] = &[("precious", &[5; 700]), ("other", &[6; 3000])];

fn old(path: &Path) {
    write_tensors(path, OLD);
}

fn larger(path: &Path) {
    write_tensors(path, &[("precious", &[5; 700]), ("other", &[6; 3000]), ("ballast", &[8; 9000])]);
}

fn nothing(_: &Path) {}

fn add(writer: &mut Writer, name: &str, bytes: &[u8]) -> Result<()> {
    let input = TensorInput::dense([bytes.len() as u64], DType::U8, bytes);
    writer.write_object(name, &input, Compression::None, Checksum::Crc32c)
}

/// A file whose next blob starts a sector, so that cutting it between sectors leaves whole footers of [`footers`] at the end.
fn aligned(path: &Path) {
    for padding in 0..1024 {
        let mut writer = Writer::in_memory().unwrap();
        writer.set_attribute("padding", "x".repeat(padding));
        OLD.iter().for_each(|(name, bytes)| add(&mut writer, name, bytes).unwrap());
        let bytes = writer.into_bytes().unwrap();
        if bytes.len().next_multiple_of(64).is_multiple_of(512) {
            return std::fs::write(path, bytes).unwrap();
        }
    }
    panic!("no padding fits");
}

fn append_footers(path: &Path) -> Result<()> {
    let mut writer = Writer::append(path)?;
    add(&mut writer, "stranger", &footers(12))?;
    add(&mut writer, "more", &[9; 100])?;
    writer.finish().map(drop)
}

/// What an append leaves that is killed while it writes a tensor with footers in it.
fn interrupted(path: &Path) {
    aligned(path);
    let before = Disk::of(path.parent().unwrap());
    let complete = std::fs::metadata(path).unwrap().len() as usize;
    let (result, events) = recorded(None, || append_footers(path));
    result.unwrap();
    let mut left = None;
    before.crashes(&events, Loss::Process, &mut |disk| {
        let bytes = disk.file(path).unwrap();
        let cut = bytes.ends_with(b"ZTEN1000") && bytes[8..64] != [0; 56] && bytes.len() > complete;
        left = left.take().or_else(|| cut.then(|| bytes.to_vec()));
    });
    std::fs::write(path, left.unwrap()).unwrap();
    assert!(Reader::open(path).unwrap().recovered().is_some());
}

#[test]
fn every_crash_leaves_the_old_state_or_the_new() {
    use Loss::{Machine, Process};
    let create = |path: &Path| {
        let mut writer = Writer::create(path)?;
        writer.durable(true);
        add(&mut writer, "a", &[1; 5000])?;
        add(&mut writer, "b", &footers(3))?;
        writer.finish().map(drop)
    };
    let create_quickly = |path: &Path| {
        let mut writer = Writer::create(path)?;
        add(&mut writer, "a", &[1; 5000])?;
        writer.finish().map(drop)
    };
    let append_large = |path: &Path| {
        let mut writer = Writer::append(path)?;
        let mut stream = writer.stream("streamed", &[600 << 10], DType::U8)?;
        stream.write(&vec![3; 300 << 10])?;
        stream.write(&vec![4; 300 << 10])?;
        stream.finish()?;
        writer.finish().map(drop)
    };
    let empty = |path: &Path| Writer::create(path).unwrap().finish().map(drop).unwrap();
    let tied = |path: &Path| {
        let mut writer = Writer::create(path).unwrap();
        add(&mut writer, "precious", &[5; 700]).unwrap();
        writer.add_tied("twin", "precious").unwrap();
        add(&mut writer, "ballast", &[8; 9000]).unwrap();
        writer.finish().unwrap();
    };
    let replace = |path: &Path| replace_tensor(path, "precious", &DType::U8.into(), &[7; 700]);
    let replace_with_footers = |path: &Path| {
        replace_tensor(path, "other", &DType::U8.into(), &[&footers(5), &[0; 440][..]].concat())
    };
    let replace_most = |path: &Path| replace_tensor(path, "ballast", &DType::U8.into(), &[7; 9000]);
    let abandon = |path: &Path| {
        let mut writer = Writer::append(path)?;
        add(&mut writer, "never", &footers(12))?;
        drop(writer);
        Ok(())
    };
    let source = |path: &Path| path.with_file_name("source.zt");
    let with_source = |path: &Path| {
        old(&source(path));
        std::fs::write(path, b"what was there before").unwrap();
    };
    let only_source = |path: &Path| old(&source(path));
    let pack =
        |path: &Path| archive(&source(path), path, &ArchiveOptions::default(), &mut |_| Ok(())).map(drop);
    let packed = |path: &Path| path.with_file_name("packed.zstn");
    let with_archive = |path: &Path| {
        with_source(path);
        pack(&packed(path)).unwrap();
    };
    let unpack = |path: &Path| restore(&packed(path), path, &mut |_| Ok(())).map(drop);
    let convert = |path: &Path| {
        let reader = Reader::open(source(path))?;
        let mut writer = Writer::create(path)?;
        copy_into(&mut writer, &reader, Storage::default(), &mut |_| {})?;
        writer.finish().map(drop)
    };
    let mut opened = Vec::new();
    let mut check = |name, prepare: &dyn Fn(&Path), file, loss, operation: &dyn Fn(&Path) -> Result<()>| {
        opened.push((name, survives(name, prepare, file, loss, operation)));
    };
    check("create", &nothing, "m.zt", Machine, &create);
    check("create without a sync", &nothing, "m.zt", Process, &create_quickly);
    check("create over a file", &old, "m.zt", Machine, &create_quickly);
    check("append", &aligned, "m.zt", Machine, &append_footers);
    check("append a large tensor", &old, "m.zt", Process, &append_large);
    check("append to an empty file", &empty, "m.zt", Machine, &append_footers);
    check("append to an interrupted file", &interrupted, "m.zt", Machine, &append_footers);
    check("abandon an append", &aligned, "m.zt", Machine, &abandon);
    check("replace in a small file", &old, "m.zt", Machine, &replace);
    check("replace", &larger, "m.zt", Machine, &replace);
    check("replace by footers", &larger, "m.zt", Machine, &replace_with_footers);
    check("replace most of a file", &larger, "m.zt", Machine, &replace_most);
    check("replace in an interrupted file", &interrupted, "m.zt", Machine, &replace);
    check("replace a tied tensor", &tied, "m.zt", Machine, &replace);
    check("remove", &old, "m.zt", Machine, &|path| remove_tensors(path, path, &["other"]));
    check("remove from an interrupted file", &interrupted, "m.zt", Machine, &|path| {
        remove_tensors(path, path, &["other"])
    });
    let without_journal = |path: &Path| {
        old(path);
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, [&bytes[..], &[0; 100], &[9; 3000]].concat()).unwrap();
    };
    check("repair", &interrupted, "m.zt", Machine, &|path| repair(path).map(drop));
    check("repair without a journal", &without_journal, "m.zt", Machine, &|path| repair(path).map(drop));
    check("archive", &with_source, "m.bin", Machine, &|path| pack(path));
    check("archive to a new file", &only_source, "m.bin", Process, &|path| pack(path));
    check("restore", &with_archive, "m.bin", Machine, &unpack);
    check("convert", &with_source, "m.bin", Machine, &convert);
    let total: usize = opened.iter().map(|(_, count)| count).sum();
    opened.iter().for_each(|(name, count)| eprintln!("{count:>7} {name}"));
    eprintln!("{total:>7} states after crashes and failures: old or new");
}

#[test]
fn archives_are_removed_when_their_originals_are_on_disk() {
    // What `ztensor hydrate --delete-archives` does.
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let [one, two] = ["one", "two"].map(|name| folder.join(name));
    let originals = [&one, &two].map(|path| {
        old(&path.with_extension("zt"));
        archive(
            &path.with_extension("zt"),
            &path.with_extension("zstn"),
            &ArchiveOptions::default(),
            &mut |_| Ok(()),
        )
        .unwrap();
        let original = std::fs::read(path.with_extension("zt")).unwrap();
        std::fs::remove_file(path.with_extension("zt")).unwrap();
        original
    });
    let before = Disk::of(&folder);
    let hydrate = || -> Result<()> {
        for path in [&one, &two] {
            restore(&path.with_extension("zstn"), path, &mut |_| Ok(()))?;
        }
        let mut index = Output::create(&folder.join("index.json"))?;
        index.write(b"{}")?;
        index.publish(false)?;
        for path in [&one, &two, &folder.join("index.json")] {
            make_durable(path)?;
        }
        for path in [&one, &two] {
            disk::remove(&path.with_extension("zstn"))?;
        }
        Ok(())
    };
    let (result, events) = recorded(None, hydrate);
    result.unwrap();
    let mut opened = 0;
    before.crashes(&events, Loss::Machine, &mut |disk| {
        opened += 1;
        for (path, original) in [&one, &two].into_iter().zip(&originals) {
            let kept = disk.file(&path.with_extension("zstn")).is_some();
            assert!(
                kept || disk.file(path) == Some(original),
                "an archive is gone, but not its original there"
            );
        }
    });
    assert!(content(&one, std::fs::read(&one).ok().as_deref()) == content(&one, Some(&originals[0])));
    eprintln!("{opened} states after crashes: no archive without its original");
}
