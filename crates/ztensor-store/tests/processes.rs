//! Several processes on one store, and processes that are killed at random moments. A child is this very test program with a task in its environment.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ztensor::{Kind, Writer};
use ztensor_store::protocol::GcOptions;
use ztensor_store::{AddOptions, CreateOptions, Keep, Store};

const GC: GcOptions = GcOptions { now: true, force: true, dry_run: false };

fn create(folder: &Path) -> Store {
    Store::create(folder.join("store"), &CreateOptions { grace: Duration::ZERO, single_writer: false })
        .unwrap()
}

fn model(folder: &Path, seed: u32) -> std::path::PathBuf {
    let path = folder.join(format!("{seed}.zt"));
    let values: Vec<f32> = (0..20_000u32).map(|i| (i.wrapping_mul(2_654_435_761) ^ seed) as f32).collect();
    let mut writer = Writer::create(&path).unwrap();
    writer.add("weight", &[20_000], &values).unwrap();
    writer.finish().unwrap();
    path
}

/// Starts this program with a task.
fn start(task: &str, folder: &Path, number: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env("STORE_TASK", task)
        .env("STORE_FOLDER", folder)
        .env("STORE_NUMBER", number.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// What a child does; in the parent, nothing.
#[test]
fn child() {
    let Ok(task) = std::env::var("STORE_TASK") else { return };
    let folder = std::path::PathBuf::from(std::env::var("STORE_FOLDER").unwrap());
    let number = std::env::var("STORE_NUMBER").unwrap();
    let store = Store::open(folder.join("store")).unwrap();
    let add = |name: &str, seed| {
        store
            .add(folder.join(format!("{seed}.zt")), name, &AddOptions::default(), &mut |_| Ok(()))
            .map(|_| ())
    };
    match task.as_str() {
        "same" => match add("name", number.parse::<usize>().unwrap() % 2) {
            Ok(()) => std::fs::write(folder.join(format!("won-{number}")), b"").unwrap(),
            Err(error) => assert!(matches!(error.kind(), Kind::Duplicate | Kind::Conflict), "{error}"),
        },
        "own" => add(&format!("own/{number}"), 0).unwrap(),
        "many" => {
            for round in 0.. {
                if add(&format!("many/{number}-{round}"), round % 4).is_err() {
                    return;
                }
                std::fs::write(folder.join(format!("added-{number}-{round}")), b"").unwrap();
            }
        }
        "prune" => {
            for round in 0..usize::MAX {
                let keep = Keep { last: 3, ..Keep::default() };
                // The name may be taken by a child that was killed, and others collect at the same time.
                let _ = add(&format!("run/{number}-{round}"), round % 4);
                let _ = store.prune("run", &keep, false);
            }
        }
        _ => loop {
            // Others may be faster; what counts is what is lost.
            let _ = store.gc(GC);
        },
    }
}

#[test]
fn of_processes_that_add_one_name_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    (0..2).for_each(|seed| drop(model(folder.path(), seed)));
    let children: Vec<Child> = (0..4).map(|number| start("same", folder.path(), number)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let won = std::fs::read_dir(folder.path()).unwrap();
    let won =
        won.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("won")).count();
    assert_eq!(won, 1);
    assert!(store.verify(true, &mut |_| Ok(())).unwrap().is_empty());
}

#[test]
fn eight_processes_add_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    model(folder.path(), 0);
    let children: Vec<Child> = (0..8).map(|number| start("own", folder.path(), number)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(store.list().unwrap().len(), 8);
    assert!(store.verify(true, &mut |_| Ok(())).unwrap().is_empty());
}

#[test]
fn processes_killed_at_any_moment_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    (0..4).for_each(|seed| drop(model(folder.path(), seed)));
    // Three processes a round.
    let rounds = std::env::var("ROUNDS").map_or(10, |count| count.parse().unwrap());
    for round in 0..rounds {
        let tasks = ["many", "gc", "prune"];
        let mut children: Vec<Child> = tasks.iter().map(|task| start(task, folder.path(), round)).collect();
        std::thread::sleep(Duration::from_millis(60 + 37 * (round as u64 * 7 % 13)));
        children.iter_mut().for_each(|child| child.kill().unwrap());
        for child in &mut children {
            child.wait().unwrap();
        }
    }
    let is_restored = |name: &str, seed: u32| {
        let target = folder.path().join("restored");
        store.get(name, &target, &mut |_| Ok(())).unwrap();
        let original = folder.path().join(format!("{seed}.zt"));
        assert!(std::fs::read(&target).unwrap() == std::fs::read(original).unwrap(), "{name}");
        std::fs::remove_file(&target).unwrap();
    };
    let seed = |name: &str| name.rsplit('-').next().unwrap().parse::<u32>().unwrap() % 4;
    let names: Vec<String> = store.list().unwrap().iter().map(|listing| listing.name.to_string()).collect();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(added) = name.strip_prefix("added-") {
            let name = format!("many/{added}");
            assert!(names.contains(&name), "{name} was added and is gone");
            is_restored(&name, seed(&name));
        }
    }
    // What is pruned at the same time may be any of a run, but what is listed is whole.
    names.iter().filter(|name| name.starts_with("run/")).for_each(|name| is_restored(name, seed(name)));
    assert!(store.verify(true, &mut |_| Ok(())).unwrap().is_empty());
    store.gc(GC).unwrap();
    store.gc(GC).unwrap();
    assert!(store.gc(GC).unwrap().deleted.is_empty(), "garbage stays");
}

#[test]
fn a_copy_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(folder.path());
    store.add(model(folder.path(), 0), "a", &AddOptions::default(), &mut |_| Ok(())).unwrap();
    store.add(model(folder.path(), 1), "b", &AddOptions::default(), &mut |_| Ok(())).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(folder.path().join("store"))
        .arg(folder.path().join("copy"))
        .status();
    assert!(copied.unwrap().success());
    let copy = Store::open(folder.path().join("copy")).unwrap();
    assert!(copy.verify(true, &mut |_| Ok(())).unwrap().is_empty());
    copy.add(model(folder.path(), 2), "c", &AddOptions::default(), &mut |_| Ok(())).unwrap();
    copy.remove("a").unwrap();
    copy.gc(GC).unwrap();
    copy.get("b", folder.path().join("restored"), &mut |_| Ok(())).unwrap();
    assert_eq!(
        std::fs::read(folder.path().join("restored")).unwrap(),
        std::fs::read(folder.path().join("1.zt")).unwrap()
    );
    assert_eq!((store.list().unwrap().len(), copy.list().unwrap().len()), (2, 2));
}
