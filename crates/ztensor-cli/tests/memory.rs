//! What operations on files larger than memory take of it. Each runs in a child process, whose anonymous memory is watched and must stay a fraction of the file; the pages of a mapped file
//! are not counted, since the kernel takes them back when it needs them. Besides, the child has a limit on private memory (`RLIMIT_DATA`), so that what asks for too much fails at once
//! instead of hurting the machine.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ztensor::{Checksum, Compression, DType, Reader, TensorInput, Writer};

const MIB: u64 = 1 << 20;
/// Tensors of a model, and bytes of each.
const TENSORS: u64 = 40;
const TENSOR: u64 = 8 * MIB;
/// The name of the variable that makes a child of this program, and says which operation it does.
const OPERATION: &str = "ZTENSOR_MEMORY_OPERATION";
/// Where the child finds its files.
const FOLDER: &str = "ZTENSOR_MEMORY_FOLDER";

/// For what looks at a file: a tensor to copy into, or the blocks of a slice. Measured: 1 MiB to open, 17 to copy and 10 for a slice.
const READING: u64 = 32 * MIB;
/// For what goes over a file in windows of 64 MiB, of which it holds the compressed form. Measured: 58 MiB for an archive, 34 to restore it.
const WINDOWS: u64 = 96 * MIB;
/// For streams of the codec, which hold a section of 64 MiB, its frame and what the coders need. Measured: 139 MiB to compress and 116 to decompress, 69 for deltas.
const STREAMS: u64 = 176 * MIB;

/// Elements of bf16 that look like weights: half of their bits are noise.
fn weights(seed: u64) -> impl Iterator<Item = u16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let magnitude = (state >> 40 & 0xffff).max(1).ilog2() as u16;
        (state as u16 & 0x807f) | (110 + magnitude) << 7
    })
}

/// Tensor `number` of a model; a later version of it has one element in eight changed a little.
fn tensor(number: u64, version: u64) -> Vec<u8> {
    let mut noise = weights(1000 + number);
    let elements = weights(number).take(TENSOR as usize / 2);
    let later = |element: u16| match noise.next() {
        Some(random) if version > 0 && random % 8 == 0 => element ^ random >> 3 & 3,
        _ => element,
    };
    elements.map(later).flat_map(u16::to_le_bytes).collect()
}

/// Writes a model as .safetensors.
fn write_model(path: &Path, version: u64) {
    let entry = |number: u64| {
        let (start, end) = (number * TENSOR, (number + 1) * TENSOR);
        format!(r#""t{number}":{{"dtype":"BF16","shape":[2048,2048],"data_offsets":[{start},{end}]}}"#)
    };
    let header = format!("{{{}}}", (0..TENSORS).map(entry).collect::<Vec<_>>().join(","));
    let mut file = BufWriter::new(File::create(path).unwrap());
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    (0..TENSORS).for_each(|number| file.write_all(&tensor(number, version)).unwrap());
    file.flush().unwrap();
}

/// Runs a program with a limit on private memory. The map that a reader keeps for arrays counts with the length of its file, whether it is ever written to or not.
fn limited(memory: u64, mapped: u64, program: impl AsRef<OsStr>) -> Command {
    let memory = memory + mapped;
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -d "$0" && exec "$@""#, &(memory / 1024).to_string()]).arg(program);
    // What a thread holds is counted once for each; machines differ in their cores.
    command.env("RAYON_NUM_THREADS", "2");
    command
}

/// Runs a command to its end, and fails if it does, or if it ever has more anonymous memory than it may.
fn succeed(what: &str, memory: u64, command: &mut Command) {
    let mut running = command.stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", running.id());
    let mut peak = 0;
    while running.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = anonymous.and_then(|field| field.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let output = running.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    // Seen with `cargo test -p ztensor-cli --test memory -- --nocapture`.
    println!("{what}: {} MiB of {}", peak.div_ceil(MIB), memory / MIB);
    assert!(output.status.success(), "{what} does not get by with {} MiB: {message}", memory / MIB);
    assert!(peak <= memory, "{what} takes {} MiB; it may take {}", peak / MIB, memory / MIB);
}

/// Does an operation of the library in a child.
fn library(operation: &str, memory: u64, folder: &Path) {
    let mapped = if operation == "too much" { 0 } else { TENSORS * TENSOR + MIB };
    let mut command = limited(memory, mapped, std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(OPERATION, operation).env(FOLDER, folder);
    succeed(operation, memory, command.stdout(Stdio::null()));
}

/// Runs a command that maps at most two models.
fn ztensor(what: &str, arguments: &[&dyn AsRef<OsStr>]) {
    let mut command = limited(WINDOWS, 2 * (TENSORS * TENSOR + MIB), env!("CARGO_BIN_EXE_ztensor"));
    command.args(arguments.iter().map(|argument| argument.as_ref())).stdout(Stdio::null());
    succeed(what, WINDOWS, &mut command);
}

fn assert_same(left: &Path, right: &Path) {
    let (mut left, mut right) = (File::open(left).unwrap(), File::open(right).unwrap());
    assert_eq!(left.metadata().unwrap().len(), right.metadata().unwrap().len());
    let (mut one, mut other) = (vec![0; MIB as usize], vec![0; MIB as usize]);
    loop {
        let read = left.read(&mut one).unwrap();
        right.read_exact(&mut other[..read]).unwrap();
        assert!(one[..read] == other[..read]);
        if read == 0 {
            break;
        }
    }
}

/// One test at a time: each needs almost a gigabyte of disk.
static DISK: Mutex<()> = Mutex::new(());

/// A folder on disk, rather than in memory as `/tmp` may be.
fn folder() -> (tempfile::TempDir, MutexGuard<'static, ()>) {
    let turn = DISK.lock().unwrap_or_else(PoisonError::into_inner);
    (tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), turn)
}

/// Not a test: what children of this program do.
#[test]
fn child() {
    let Some(operation) = std::env::var_os(OPERATION) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let model = || Reader::open(folder.join("model.safetensors")).unwrap();
    match operation.to_str().unwrap() {
        "too much" => assert!(std::hint::black_box(vec![1u8; TENSOR as usize * 40])[5] == 1),
        "open" => assert_eq!(model().len() as u64, TENSORS),
        "view" => {
            let reader = model();
            let sums = reader.names().map(|name| {
                let view = reader.component_view(name, "data").unwrap().expect("it lies plainly in the file");
                view.bytes.iter().step_by(4096).map(|&byte| u64::from(byte)).sum::<u64>()
            });
            assert!(sums.sum::<u64>() > 0);
        }
        "copy" => {
            let reader = model();
            let mut memory = vec![0; TENSOR as usize];
            for number in 0..TENSORS {
                reader.read_into(&format!("t{number}"), &mut memory).unwrap();
                assert!(number > 0 || memory == tensor(number, 0));
            }
        }
        "stream" => {
            let mut writer = Writer::create(folder.join("streamed.zt")).unwrap();
            let mut stream = writer.stream("all", &[TENSORS * TENSOR / 2], DType::BF16).unwrap();
            for number in 0..TENSORS {
                tensor(number, 0).chunks(MIB as usize).for_each(|piece| stream.write(piece).unwrap());
            }
            stream.finish().unwrap();
            writer.finish().unwrap();
        }
        slice => {
            let reader = Reader::open(folder.join(slice)).unwrap();
            let mut part = vec![0; MIB as usize];
            for number in [0, TENSORS / 2, TENSORS - 1] {
                let start = number * TENSOR + 3 * MIB;
                reader.component_range_into("all", "data", start, &mut part).unwrap();
                assert!(part == tensor(number, 0)[3 * MIB as usize..4 * MIB as usize]);
            }
        }
    }
}

#[test]
#[should_panic(expected = "does not get by")]
fn the_limit_is_one() {
    library("too much", STREAMS, Path::new("."));
}

#[test]
fn reading_and_streaming() {
    let (folder, _turn) = folder();
    write_model(&folder.path().join("model.safetensors"), 0);
    for operation in ["open", "view", "copy", "stream"] {
        library(operation, READING, folder.path());
    }
    std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    library("streamed.zt", READING, folder.path());
    let all: Vec<u8> = (0..TENSORS).flat_map(|number| tensor(number, 0)).collect();
    for (name, compression) in [
        ("z4ai.zt", Compression::Z4ai(z4ai::Effort::Default)),
        ("fast.zt", Compression::Z4ai(z4ai::Effort::Fast)),
        ("zstd.zt", Compression::Zstd(1)),
    ] {
        let mut writer = Writer::create(folder.path().join(name)).unwrap();
        let input = TensorInput::dense([all.len() as u64 / 2], DType::BF16, &all);
        writer.write_object("all", &input, compression, Checksum::None).unwrap();
        writer.finish().unwrap();
        library(name, READING, folder.path());
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
}

#[test]
fn archives_and_deltas() {
    let (folder, _turn) = folder();
    let path = |name: &str| folder.path().join(name);
    let (model, archive, restored) = (path("model.safetensors"), path("model.zstn"), path("restored"));
    write_model(&model, 0);
    ztensor("archive", &[&"archive", &model, &"-o", &archive]);
    ztensor("restore", &[&"restore", &archive, &"-o", &restored]);
    assert_same(&model, &restored);
    std::fs::remove_file(&archive).unwrap();
    let (tuned, delta) = (path("tuned.safetensors"), path("tuned.z4dm"));
    write_model(&tuned, 1);
    ztensor("delta make", &[&"delta", &"make", &tuned, &"--base", &model, &"-o", &delta]);
    std::fs::remove_file(&restored).unwrap();
    ztensor("delta apply", &[&"delta", &"apply", &delta, &"--base", &model, &"-o", &restored]);
    assert_same(&tuned, &restored);
}

#[test]
fn pipes() {
    let (folder, _turn) = folder();
    let path = |name: &str| folder.path().join(name);
    let (model, frame, restored) = (path("model.bin"), path("model.z4ai"), path("restored"));
    write_model(&model, 0);
    let piped = |arguments: &[&dyn AsRef<OsStr>], from: &Path, to: &Path| {
        let mut command = limited(STREAMS, 0, env!("CARGO_BIN_EXE_z4ai"));
        command.args(arguments.iter().map(|argument| argument.as_ref()));
        command.stdin(File::open(from).unwrap()).stdout(File::create(to).unwrap());
        succeed(&format!("z4ai {}", arguments[0].as_ref().display()), STREAMS, &mut command);
    };
    piped(&[&"compress", &"-", &"-o", &"-", &"--dtype", &"bf16"], &model, &frame);
    piped(&[&"decompress", &"-", &"-o", &"-"], &frame, &restored);
    assert_same(&model, &restored);
    let tuned = path("tuned.bin");
    write_model(&tuned, 1);
    piped(&[&"delta", &"-", &"--reference", &model, &"-o", &"-", &"--dtype", &"bf16"], &tuned, &frame);
    piped(&[&"apply", &"-", &"--reference", &model, &"-o", &"-"], &frame, &restored);
    assert_same(&tuned, &restored);
}
