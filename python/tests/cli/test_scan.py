"""``ztensor scan`` on malicious files of the published kinds, compared with the verdicts of fickling and picklescan."""

from __future__ import annotations

import io
import json
import pickle
import struct
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from scanners import THEIR_VERDICTS, Evil, literal, others, reduced, scan, zipped

import ztensor
from ztensor.numpy import save_file as save_arrays
from ztensor.torch import load_file

#: Calls that published exploits and advisories make.
CALLS: list[tuple[str, str, tuple[object, ...]]] = [
    ("os", "system", ("echo pwned",)),
    ("posix", "system", ("echo pwned",)),
    ("nt", "system", ("echo pwned",)),
    ("os", "popen", ("echo pwned",)),
    ("subprocess", "Popen", (["sh", "-c", "echo pwned"],)),
    ("subprocess", "check_output", (["id"],)),
    ("commands", "getoutput", ("id",)),
    ("builtins", "eval", ("print(1)",)),
    ("builtins", "exec", ("import os",)),
    ("__builtin__", "compile", ("1", "x", "eval")),
    ("builtins", "getattr", ("os", "system")),
    ("builtins", "__import__", ("os",)),
    ("builtins", "open", ("/etc/passwd",)),
    ("builtins", "breakpoint", ()),
    ("runpy", "_run_code", ("import os", {})),
    ("pty", "spawn", ("sh",)),
    ("webbrowser", "open", ("http://localhost",)),
    ("requests.api", "get", ("http://localhost",)),
    ("urllib.request", "urlopen", ("http://localhost",)),
    ("httplib", "HTTPSConnection", ("localhost",)),
    ("socket", "create_connection", (("localhost", 1),)),
    ("ssl", "get_server_certificate", (("localhost", 1),)),
    ("shutil", "rmtree", ("/tmp/nothing",)),
    ("sys", "exit", ()),
    ("marshal", "loads", (b"\xe3",)),
    ("types", "CodeType", (0,)),
    ("importlib", "import_module", ("os",)),
    ("operator", "attrgetter", ("system",)),
    ("_operator", "methodcaller", ("system", "id")),
    ("functools", "partial", ("x",)),
    ("ctypes", "CDLL", ("evil.so",)),
    ("pickle", "loads", (b"cos\nsystem\n(S'id'\ntR.",)),
    ("_pickle", "loads", (b"N.",)),
    ("cloudpickle.cloudpickle", "subimport", ("os",)),
    ("dill", "loads", (b"N.",)),
    ("joblib", "load", ("evil",)),
    ("asyncio.unix_events", "_UnixSubprocessTransport._start", ()),
    ("aiohttp", "request", ("GET", "x")),
    ("timeit", "timeit", ("import os",)),
    ("cProfile", "run", ("import os",)),
    ("profile", "runctx", ("import os", {}, {})),
    ("pdb", "run", ("import os",)),
    ("bdb", "Bdb", ()),
    ("trace", "Trace.run", ("import os",)),
    ("code", "InteractiveInterpreter.runcode", ("x",)),
    ("doctest", "debug_script", ("import os",)),
    ("pydoc", "pipepager", ("x", "sh")),
    ("pkgutil", "resolve_name", ("os:system",)),
    ("imaplib", "IMAP4_stream", ("sh",)),
    ("uuid", "_get_command_stdout", ("sh",)),
    ("logging", "FileHandler", ("/tmp/nothing",)),
    ("_io", "FileIO", ("/etc/passwd",)),
    ("distutils.file_util", "write_file", ("/tmp/nothing", ["x"])),
    ("ensurepip", "_run_pip", (["x"],)),
    ("pip", "main", (["install", "evil"],)),
    ("venv", "create", ("/tmp/nothing",)),
    ("idlelib.pyshell", "ModifiedInterpreter.runcode", ("x",)),
    ("lib2to3.pgen2.grammar", "Grammar.loads", (b"x",)),
    ("test.support.script_helper", "assert_python_ok", ("-c", "1")),
    ("numpy.testing._private.utils", "runstring", ("import os", {})),
    ("numpy.f2py.crackfortran", "getlincoef", ("x", [])),
    ("torch.serialization", "load", ("evil.pt",)),
    ("torch.hub", "load", ("evil/repo",)),
    ("torch._inductor.codecache", "compile_file", ("", "", ["sh"])),
    ("torch._dynamo.guards", "GuardBuilder.get", ("x",)),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv.evaluate_guards_expression", ("x", [])),
    ("torch.jit.unsupported_tensor_ops", "execWrapper", ("x", {}, {})),
    ("torch.utils._config_module", "ConfigModule.load_config", (b"x",)),
    ("torch.utils.bottleneck.__main__", "run_cprofile", ("x", {})),
    ("torch.utils.collect_env", "run", ("sh",)),
    ("torch.utils.data.datapipes.utils.decoder", "basichandlers", ("pkl", b"x")),
    ("_osx_support", "_read_output", ("id",)),
    ("_aix_support", "_read_cmd_output", ("id",)),
    ("_pyrepl.pager", "pipe_pager", ("x", "sh")),
    ("multiprocessing.util", "spawnv_passfds", (b"sh", [], [])),
    ("sqlite3", "connect", ("/tmp/nothing",)),
    ("atexit", "register", ("x",)),
    ("picklescan.scanner", "_unsafe_globals", ()),
]


def handmade() -> dict[str, bytes]:
    """The same few calls in the disguises that scanners have been fooled by."""
    evil = b"cos\nsystem\n(S'echo pwned'\ntR"
    stacked = b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94."
    nested = b"\x80\x02ctorch.storage\n_load_from_bytes\n" + literal((b"\x80\x02" + evil + b".",)) + b"R."
    return {
        "instance": b"(S'echo pwned'\nios\nsystem\n.",
        "object": b"(cos\nsystem\nS'echo pwned'\no.",
        "stack_global": stacked,
        "names_from_the_memo": b"\x80\x04\x8c\x06system\x94\x8c\x02os\x9400h\x01h\x00\x93\x8c\x02id\x85R.",
        "new_object": b"\x80\x04\x8c\nsubprocess\x8c\x05Popen\x93" + literal((["id"],)) + b"\x81.",
        "keyword_arguments": b"\x80\x04\x8c\nsubprocess\x8c\x05Popen\x93)}\x92.",
        "result_thrown_away": b"\x80\x02" + evil + b"0N.",
        "second_pickle": b"\x80\x02N.\x80\x02" + evil + b".",
        "breaks_off": b"\x80\x02" + evil,
        "garbage_behind": b"\x80\x02" + evil + b"\xff\xff.",
        "nested_bytes": nested,
        "state_of_a_module": b"\x80\x02cos\n__dict__\n}U\x06systemNsb.",
        "computed_callable": b"\x80\x02c__builtin__\ngetattr\nc__builtin__\ndict\nU\x03get\x86R(tR.",
        "appends_to_an_object": b"\x80\x02c__builtin__\nobject\n)R" + evil + b"a.",
        "import_alone": b"\x80\x02cos\nsystem\n.",
    }


def archives() -> dict[str, bytes]:
    evil = b"\x80\x02cos\nsystem\n(S'echo pwned'\ntR."
    torch_file = zipped({"m/data.pkl": evil, "m/version": b"3"})
    # PyTorch reads by the directory; a local header that disagrees is how archives hide from strict readers.
    renamed = torch_file.replace(b"m/data.pkl", b"m/DATA.pkl", 1)
    objects = io.BytesIO()
    np.save(objects, np.array([Evil()], dtype=object), allow_pickle=True)
    return {
        "torch.pt": torch_file,
        "broken_header.pt": renamed,
        "nested.zip": zipped({"inner.zip": torch_file}),
        "objects.npy": objects.getvalue(),
        "objects.npz": zipped({"arr_0.npy": objects.getvalue()}),
        "any_name.zip": zipped({"weights.bin": evil}),
    }


def malicious(folder: Path) -> dict[str, Path]:
    files = {
        f"{number:02}_{module}.{name}.pkl": reduced(module, name, arguments)
        for number, (module, name, arguments) in enumerate(CALLS)
    }
    files |= {f"{name}.pkl": content for name, content in handmade().items()} | archives()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in files}


THEIR_NAMES = """
import json
from fickling.fickle import UNSAFE_IMPORTS
from fickling.analysis import ScannerDeactivation, UnsafeImportsML
from picklescan.scanner import _unsafe_globals
names = [(module, "anything") for module in [*UNSAFE_IMPORTS, *UnsafeImportsML.UNSAFE_MODULES, *ScannerDeactivation.SCANNER_MODULES]]
names += [(module, name) for module, found in UnsafeImportsML.UNSAFE_IMPORTS.items() for name in found]
for module, found in _unsafe_globals.items():
    names += [(module, "anything")] if found == "*" else [(module, name) for name in ([found] if isinstance(found, str) else found)]
print(json.dumps(names))
"""


def test_published_attacks_are_dangerous_and_shown_with_their_arguments(tmp_path: Path) -> None:
    files = malicious(tmp_path)
    assert len(files) > 90
    found = scan(*files.values(), code=1)
    assert {name: entry.get("verdict") for name, entry in found.items() if entry.get("verdict") != "dangerous"} == {}
    calls = [call["call"] for part in found["torch.pt"]["parts"] for call in part["calls"]]
    assert calls == ["os.system('echo pwned')"]
    assert any(
        "posix.system('echo pwned')" in call["call"] for part in found["objects.npz"]["parts"] for call in part["calls"]
    )
    nested = found["nested_bytes.pkl"]["parts"]
    assert [part["verdict"] for part in nested] == ["safe", "dangerous"]


def test_whatever_other_scanners_flag_is_flagged(tmp_path: Path) -> None:
    files = malicious(tmp_path)
    theirs = others(THEIR_VERDICTS, tmp_path)
    found = scan(*files.values(), code=1)
    flagged = {name for name, flags in theirs.items() if flags}
    assert len(flagged) > 80
    assert {name for name in flagged if found[name].get("verdict") != "dangerous"} == set()


def test_every_name_on_the_lists_of_other_scanners_is_dangerous(tmp_path: Path) -> None:
    names = others(THEIR_NAMES)
    assert len(names) > 150
    paths = []
    for number, (module, name) in enumerate(names):
        # The nested file of this one is looked at instead; it is not there.
        path = tmp_path / f"{number}.pkl"
        path.write_bytes(reduced(module, name, ("x",)))
        paths.append(path)
    found = scan(*paths, code=1)
    missed = [names[int(Path(name).stem)] for name, entry in found.items() if entry["verdict"] != "dangerous"]
    # Its argument is read as the pickle that it is, which is more than a list of names can do.
    assert missed == [["torch.storage", "_load_from_bytes"]]


def test_ordinary_files_are_safe(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "arguments": Namespace(rate=0.1)},
        tmp_path / "checkpoint.pt",
    )
    torch.save(model.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "script.pt")
    (tmp_path / "tensor.pkl").write_bytes(pickle.dumps({"weight": torch.ones(3), "array": np.ones(3)}))
    np.save(tmp_path / "array.npy", np.ones(3))
    np.savez(tmp_path / "arrays.npz", a=np.ones(3), b=np.array(["text"]))
    save_arrays({"weight": np.ones(3, np.float32)}, tmp_path / "model.zt")
    save_arrays({"weight": np.ones(3, np.float32)}, tmp_path / "model.safetensors")
    found = scan(*tmp_path.iterdir(), code=0)
    assert {entry["verdict"] for entry in found.values()} == {"safe"} and len(found) == 9


def test_exit_codes_and_the_worst_of_many(tmp_path: Path) -> None:
    safe, unknown, evil, text = (tmp_path / name for name in ("safe.pkl", "unknown.pkl", "evil.pkl", "notes.txt"))
    safe.write_bytes(pickle.dumps([1, 2]))
    unknown.write_bytes(reduced("my_package.model", "Net", ()))
    evil.write_bytes(reduced("os", "system", ("id",)))
    text.write_text("just words\n")
    assert scan(safe, code=0)["safe.pkl"]["verdict"] == "safe"
    assert scan(unknown, code=2)["unknown.pkl"]["verdict"] == "could_not_tell"
    assert scan(text, code=2)["notes.txt"]["error"]["kind"] == "unknown_format"
    assert scan(safe, unknown, code=2)
    assert scan(evil, unknown, text, safe, code=1)
    shown = subprocess.run([sys.executable, "-m", "ztensor", "scan", evil], capture_output=True, text=True).stdout
    assert "would call os.system('id')" in shown and "DANGEROUS" in shown


def keras_config(layer: dict[str, Any]) -> str:
    return json.dumps(
        {
            "module": "keras",
            "class_name": "Sequential",
            "config": {"name": "model", "layers": [layer]},
            "registered_name": None,
        }
    )


KERAS_LAYERS: dict[str, tuple[dict[str, Any], str]] = {
    "dense": (
        {"module": "keras.layers", "class_name": "Dense", "config": {"units": 3}, "registered_name": None},
        "safe",
    ),
    "lambda": (
        {
            "module": "keras.layers",
            "class_name": "Lambda",
            "config": {"function": {"class_name": "__lambda__", "config": {"code": "4wEAAAA="}}},
        },
        "dangerous",
    ),
    "function": (
        {"module": "os", "class_name": "function", "config": "system", "registered_name": "system"},
        "dangerous",
    ),
    "class": (
        {"module": "subprocess", "class_name": "Popen", "config": {"args": ["id"]}, "registered_name": None},
        "dangerous",
    ),
    "custom": (
        {"module": "my_package", "class_name": "Mine", "config": {}, "registered_name": "my_package>Mine"},
        "could_not_tell",
    ),
    "get_file": (
        {"module": "keras.utils", "class_name": "function", "config": "get_file", "registered_name": "get_file"},
        "dangerous",
    ),
}


@pytest.mark.parametrize("name", KERAS_LAYERS)
def test_keras_models_that_bring_code(tmp_path: Path, name: str) -> None:
    layer, verdict = KERAS_LAYERS[name]
    weights = tmp_path / "weights.h5"
    with h5py.File(weights, "w") as file:
        file["layers/dense/vars/0"] = np.ones((2, 3), np.float32)
    model = tmp_path / "model.keras"
    model.write_bytes(
        zipped(
            {
                "config.json": keras_config(layer).encode(),
                "metadata.json": b"{}",
                "model.weights.h5": weights.read_bytes(),
            }
        )
    )
    old = tmp_path / "model.h5"
    with h5py.File(old, "w") as file:
        file.attrs["model_config"] = keras_config(layer)
        file["w"] = np.ones(3)
    code = {"safe": 0, "dangerous": 1, "could_not_tell": 2}[verdict]
    found = scan(model, old, code=code)
    assert {entry["verdict"] for entry in found.values()} == {verdict}
    if verdict != "safe":
        assert layer["class_name" if layer["class_name"] != "function" else "config"] in str(
            found["model.h5"]["parts"][0]["calls"]
        )


def test_reading_a_malicious_file_says_what_was_left_out(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"weight": torch.ones(3), "extra": Evil()}, path)
    with pytest.warns(ztensor.SkippedTensorWarning, match=r"system\('echo pwned'\).*ztensor\.scan"):
        loaded = load_file(path)
    assert set(loaded) == {"weight"}
    done = subprocess.run([sys.executable, "-m", "ztensor", "info", path], capture_output=True, text=True)
    assert "posix.system('echo pwned')" in done.stdout and f"`ztensor scan {path}`" in done.stdout
    report = ztensor.scan(path)
    assert report["verdict"] == "dangerous"
    assert report["parts"][0]["calls"] == {"posix.system('echo pwned')": "dangerous"}
    for name, save in (("a.npz", np.savez), ("a.npy", np.save)):
        save(tmp_path / name, np.array([Evil()], dtype=object))
        with pytest.warns(ztensor.SkippedTensorWarning, match=r"an array of Python objects.*ztensor\.scan"):
            ztensor.numpy.load_file(tmp_path / name)
        done = subprocess.run(
            [sys.executable, "-m", "ztensor", "info", tmp_path / name], capture_output=True, text=True
        )
        assert f"`ztensor scan {tmp_path / name}`" in done.stdout


def test_a_safetensors_file_that_begins_like_a_pickle_is_safe(tmp_path: Path) -> None:
    # The header's length is also a protocol number and an opcode.
    header = b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
    start = b"\x80\x02U\x01"
    length = struct.unpack("<Q", start + bytes(4))[0]
    body = header.ljust(length, b" ")
    path = tmp_path / "model.safetensors"
    path.write_bytes(start + bytes(4) + body)
    assert ztensor.open(path).keys() == ["w"]
    assert scan(path, code=0)["model.safetensors"]["verdict"] == "safe"
