"""What is published of attacks on scanners: the files that picklescan and fickling are tested with, rebuilt from their advisories and
tests, in every protocol and in every disguise of an archive. Whatever one of the two flags is dangerous here.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import marshal
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import save as to_safetensors
from scanners import THEIR_VERDICTS, Evil, literal, others, reduced, scan, zipped

EVIL = pickle.dumps(Evil())

#: Names of the advisories and tests of both, beyond those in test_scan.py.
CALLS: dict[str, tuple[str, str, tuple[object, ...]]] = {
    "GHSA-4whj-rm5r-c2v8": ("torch.utils.bottleneck.__main__", "run_autograd_prof", ("x", {})),
    "GHSA-jhph-76pp-mggw": ("torch.utils.collect_env", "run_and_read_all", ("x", "id")),
    "GHSA-g344-hcph-8vgg": ("trace", "Trace.runctx", ("import os", {}, {})),
    "GHSA-x696-vm39-cp64": ("profile", "Profile.run", ("import os",)),
    "GHSA-6vqj-c2q5-j97w": ("profile", "Profile.runctx", ("import os", {}, {})),
    "GHSA-7wx9-6375-f5wh": ("profile", "run", ("import os",)),
    "GHSA-9w88-8rmg-7g2p": ("cProfile", "runctx", ("import os", {}, {})),
    "GHSA-3vg9-h568-4w9m": ("idlelib.debugobj", "ObjectTreeItem.SetText", ("x",)),
    "GHSA-6w4w-5w54-rjvr": ("idlelib.autocomplete", "AutoComplete.get_entity", ("x",)),
    "GHSA-7cq8-mj8x-j263": ("idlelib.autocomplete", "AutoComplete.fetch_completions", ("x", 0)),
    "GHSA-8r4j-24qv-fmq9": ("idlelib.calltip", "Calltip.fetch_tip", ("x",)),
    "GHSA-9xph-j2h6-g47v": ("idlelib.calltip", "get_entity", ("x",)),
    "GHSA-j343-8v2j-ff7w": ("idlelib.pyshell", "ModifiedInterpreter.runcommand", ("x",)),
    "GHSA-m869-42cg-3xwr": ("idlelib.run", "Executive.runcode", ("x",)),
    "GHSA-p9w7-82w4-7q8m": ("lib2to3.pgen2.pgen", "ParserGenerator.make_label", ("x", "y")),
    "GHSA-84r2-jw7c-4r5q": ("pydoc", "locate", ("os.system",)),
    "GHSA-5hvc-6wx8-mvv4": ("pydoc", "locate", ("ctypes.windll.kernel32.WinExec",)),
    "GHSA-wfq2-52f7-7qvj": ("runpy", "run_path", ("/tmp/x.py",)),
    "GHSA-q5qq-mvfm-j35x": ("code", "InteractiveInterpreter", ()),
    "run_module": ("runpy", "run_module", ("os",)),
    "execv": ("os", "execv", ("/bin/sh", ["/bin/sh", "-c", "id"])),
    "subprocess.call": ("subprocess", "call", (["id"],)),
    "subprocess.run": ("subprocess", "run", (["id"],)),
    "FunctionType": ("types", "FunctionType", (0, {})),
    "find_library": ("ctypes.util", "find_library", ("c",)),
    "find_spec": ("importlib.util", "find_spec", ("os",)),
    "InteractiveConsole": ("code", "InteractiveConsole", ()),
    "socket": ("socket", "socket", ()),
    "modules": ("sys", "modules", ()),
    "ClientSession": ("aiohttp.client", "ClientSession", ()),
    "Bdb.run": ("bdb", "Bdb.run", ("import os",)),
    "itemgetter": ("operator", "itemgetter", (0,)),
    "exec": ("__builtin__", "exec", ("import os",)),
    "apply": ("__builtin__", "apply", ("x", ())),
    "create_venv": ("venv", "create", ("/tmp/nothing",)),
    "cloudpickle_function": ("cloudpickle.cloudpickle", "_make_function", (0,)),
    "cloudpickle_type": ("cloudpickle.cloudpickle", "_builtin_type", ("CodeType",)),
    # Names that are handed out by number: neither of the two sees what this one prepares.
    "extension": ("copyreg", "add_extension", ("os", "system", 5)),
}


def in_protocol(protocol: int, module: str, name: str, arguments: tuple[object, ...]) -> bytes:
    """A call as a pickler of this protocol writes it."""
    head = b"" if protocol < 2 else bytes([0x80, protocol])
    written = pickle.dumps(arguments, protocol=protocol)
    payload = written[len(head) : -1] if protocol < 4 else written[11:-1]
    if protocol < 4:
        return head + f"c{module}\n{name}\n".encode() + payload + b"R."
    parts = b"".join(b"\x8c" + bytes([len(part)]) + part.encode() + b"\x94" for part in (module, name))
    # Numbers of the memo start anew in the arguments, which are written without one.
    return head + parts + b"\x93\x94" + literal(arguments) + b"R."


def word(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def imported(module: str, name: str) -> bytes:
    return word(module) + word(name) + b"\x93"


def attribute(value: bytes, name: str) -> bytes:
    return imported("builtins", "getattr") + value + word(name) + b"\x86R"


def chains() -> dict[str, bytes]:
    """Attacks that reach their goal in several steps."""
    code = marshal.dumps(compile('import os\nos.system("id")', "<string>", "exec"))
    system = imported("os", "system") + word("id") + b"\x85R."
    return {
        "GHSA-r7v6-mfhq-g3m2": b"\x80\x04" + imported("pty", "spawn") + word("id") + b"\x85R" + word("gottem") + b"b.",
        "pty_object": b"(cpty\nspawn\nS'id'\no.",
        "GHSA-565g-hwwr-4pp3": b"\x80\x04"
        + (imported("types", "FunctionType") + imported("marshal", "loads") + literal((code,)) + b"R}\x86R)R."),
        "ctypes_chain": b"\x80\x05"
        + attribute(imported("ctypes", "CDLL") + word("libc.so.6") + b"\x85R", "system")
        + b"C\x02id\x85R.",
        "importlib_chain": b"\x80\x05"
        + attribute(imported("importlib", "import_module") + word("os") + b"\x85R", "system")
        + word("id")
        + b"\x85R.",
        "interpreter_chain": b"\x80\x05"
        + attribute(imported("code", "InteractiveInterpreter") + b")R", "runsource")
        + word("import os")
        + b"\x85R.",
        "GHSA-955r-x9j8-7rhh": b"\x80\x04"
        + (imported("_operator", "methodcaller") + word("system") + word("id") + b"\x86R")
        + (imported("builtins", "__import__") + word("os") + b"\x85R\x85R."),
        "GHSA-46h3-79wf-xr6c": b"\x80\x04"
        + (imported("_operator", "attrgetter") + word("system") + b"\x85R")
        + (imported("builtins", "__import__") + word("os") + b"\x85R\x85R" + word("id") + b"\x85R."),
        # The first name is put together from things that are no text, or from what the memo does not have.
        "keyerror": b"\x80\x04h\x63" + word("os") + b"\x93\x80\x04" + system,
        "type_confusion": b"\x80\x04K*" + word("os") + b"\x930\x80\x04" + system,
        "number_for_a_module": b"\x80\x04" + word("os") + b"0K*" + word("system") + b"\x93.",
        "invalid_bytes": b"cos\nsystem\n(S'id'\ntR.\xff\xfe\xfd and more",
        "magic_number_by_eval": b"\x80\x02c__builtin__\neval\nU\x160x1950A86A20F9469CFC6C\x85R."
        + b"\x80\x02M\xe9\x03."
        + EVIL,
        "sys_modules": b"csys\nmodules\n(S'__main__'\nN.",
        "two_names_for_one": b"\x80\x02ctorch\n_utils\n0ctorch._utils\n_rebuild_tensor\n0cos\nsystem\n(S'id'\ntR.",
        "dictionary": b"(dS'a'\n(cos\nsystem\nS'id'\nos.",
        "extension": b"\x80\x02ccopyreg\nadd_extension\n(X\2\0\0\0osX\6\0\0\0systemK\5tR0\x82\5X\2\0\0\0id\x85R.",
        "doubling": b"\x80\x02" + b"(cos\nsystem\n(S'id'\ntRt" + b"2\x86" * 60 + b".",
    }


def pickles() -> dict[str, bytes]:
    files = {f"{label}.pkl": reduced(*call) for label, call in CALLS.items()}
    files |= {
        f"protocol{protocol}_{module}.{name}.pkl": in_protocol(protocol, module, name, arguments)
        for protocol in range(6)
        for module, name, arguments in (
            ("os", "system", ("id",)),
            ("nt", "system", ("id",)),
            ("builtins", "eval", ("1",)),
            ("subprocess", "Popen", (["id"],)),
            ("socket", "create_connection", (("localhost", 1),)),
            ("runpy", "run_path", ("x.py",)),
            ("ctypes", "CDLL", ("x.so",)),
        )
    }
    return files | {f"chain_{name}.pkl": content for name, content in chains().items()}


def marked(content: bytes, bits: int, *, in_the_member_too: bool) -> bytes:
    """An archive of one member whose flags are set in its directory."""
    changed = bytearray(content)
    changed[changed.find(b"PK\x01\x02") + 8] |= bits
    if in_the_member_too:
        changed[6] |= bits
    return bytes(changed)


def wrong_checksum(content: bytes) -> bytes:
    changed = bytearray(content)
    directory = changed.find(b"PK\x01\x02")
    changed[directory + 16 : directory + 20] = bytes(byte ^ 0xFF for byte in changed[directory + 16 : directory + 20])
    return bytes(changed)


def by_another_method(content: bytes) -> bytes:
    """An archive whose member says that it is compressed in a way that is not read."""
    changed = bytearray(content)
    changed[8] = changed[content.find(b"PK\x01\x02") + 10] = 93
    return bytes(changed)


def packed(name: str, method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(name, EVIL)
    return out.getvalue()


def disguises(folder: Path) -> dict[str, bytes]:
    """Archives that one reader accepts and another does not, and files that are two things."""
    methods = {
        "stored": zipfile.ZIP_STORED,
        "deflated": zipfile.ZIP_DEFLATED,
        "bzip2": zipfile.ZIP_BZIP2,
        "lzma": zipfile.ZIP_LZMA,
    }
    files: dict[str, bytes] = {}
    for method, number in methods.items():
        files[f"{method}.zip"] = packed("data.pkl", number)
        # By its name it is no pickle.
        files[f"{method}_text.zip"] = packed("notes.txt", number)
        if method in ("stored", "deflated"):
            files[f"{method}_checksum.zip"] = wrong_checksum(packed("data.pkl", number))
            files[f"{method}_renamed.zip"] = packed("data.pkl", number).replace(b"data.pkl", b"datap.kl", 1)
            for bits in (0x1, 0x20, 0x40):
                for twice in (False, True):
                    name = f"{method}_{bits:#x}_{'both' if twice else 'directory'}.zip"
                    files[name] = marked(packed("data.pkl", number), bits, in_the_member_too=twice)

    whole = packed("data.pkl")
    weights = {"weight": np.ones(3, np.float32)}
    array = io.BytesIO()
    np.save(array, weights["weight"])
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    writer.add_tensor("weight", weights["weight"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for name, front in {
        "pickle.pkl": pickle.dumps({}),
        "safetensors.safetensors": to_safetensors(weights),
        "array.npy": array.getvalue(),
        "gguf.gguf": (folder / "model.gguf").read_bytes(),
        "text.txt": b"read me\n",
    }.items():
        files[f"archive_behind_{name}"] = front + whole
    (folder / "model.gguf").unlink()

    plain = io.BytesIO()
    torch.save(weights | {"tensor": torch.ones(3)}, plain)
    for member in ("archive/extra.p", "archive/data/99", "archive/data/evil.pkl", "elsewhere/data.pkl"):
        changed = io.BytesIO(plain.getvalue())
        with zipfile.ZipFile(changed, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, EVIL)
        files[f"beside_{member.replace('/', '_')}.pt"] = changed.getvalue()
    files["twice_nested.zip"] = zipped({"one.bin": zipped({"two.bin": packed("three.bin", zipfile.ZIP_DEFLATED)})})
    return files


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("published")
    files = pickles() | disguises(folder)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in files}


def test_every_one_is_dangerous(published: dict[str, Path]) -> None:
    assert len(published) > 120
    found = scan(*published.values(), code=1)
    assert {name for name in published if found[name].get("verdict") != "dangerous"} == set()


def test_whatever_the_others_flag_is_flagged(published: dict[str, Path]) -> None:
    theirs = others(THEIR_VERDICTS, next(iter(published.values())).parent)
    flagged = {name for name, flags in theirs.items() if flags}
    assert len(flagged) > 110
    found = scan(*published.values(), code=1)
    assert {name for name in flagged if found[name].get("verdict") != "dangerous"} == set()


def test_what_cannot_be_looked_into_is_not_called_safe(tmp_path: Path) -> None:
    files = {
        "joblib.pkl": zlib.compress(EVIL, 3),
        "model.pkl.gz": gzip.compress(EVIL),
        "model.pkl.bz2": bz2.compress(EVIL),
        "model.pkl.xz": lzma.compress(EVIL),
        "model.7z": b"7z\xbc\xaf\x27\x1c" + bytes(100),
        "long.pkl": b"\x80\x05\x8e" + struct.pack("<Q", 1 << 40) + b"abc",
        "other_method.zip": by_another_method(packed("notes.txt")),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for name in files:
        scan(tmp_path / name, code=2)
    # In a folder they are not passed over either; what holds no code is.
    (tmp_path / "README.md").write_text("# A model\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    found = scan(tmp_path, code=2)
    assert set(found) == set(files)
    shown = subprocess.run([sys.executable, "-m", "ztensor", "scan", tmp_path], capture_output=True, text=True)
    assert "2 other files of no format with a place for code" in shown.stdout


def test_ordinary_archives_stay_safe(tmp_path: Path) -> None:
    """Compressed arrays, text that looks like a pickle, storages that do."""
    weights = np.frombuffer(EVIL[:2] + b"}." + bytes(60), np.uint8)
    np.savez_compressed(tmp_path / "arrays.npz", a=np.zeros((300, 300)), b=weights)
    torch.save({"weight": torch.from_numpy(weights.copy())}, tmp_path / "model.pt")
    (tmp_path / "texts.zip").write_bytes(
        zipped({"notes.txt": b"cos\nsystem is a module\n", "data.bin": weights.tobytes()})
    )
    (tmp_path / "array.npy").write_bytes(b"")
    np.save(tmp_path / "array.npy", weights)
    found = scan(*tmp_path.iterdir(), code=0)
    assert {entry["verdict"] for entry in found.values()} == {"safe"} and len(found) == 4
    assert [part["name"] for part in found["model.pt"]["parts"]] == ["model/data.pkl"]


def test_keeping_to_the_limits(tmp_path: Path) -> None:
    """A thousand broken archives inside each other take no longer than their bytes."""
    inner = wrong_checksum(packed("data.pkl", zipfile.ZIP_DEFLATED))
    (tmp_path / "many.zip").write_bytes(inner * 1000)
    found = scan(tmp_path / "many.zip", code=1)
    assert json.dumps(found).count("echo pwned") >= 1
