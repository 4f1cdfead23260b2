"""Trees of dicts, lists, tuples, scalars and tensors in a tensor file: a JSON text in the file's metadata says what the tree is and
names its tensors. Nothing is executed to read one. ``spec/tree.md`` has the form.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ._errors import ZTensorError, from_core

#: Under which name the tree is among the metadata.
KEY = "ztensor.tree"

#: What a tensor in a tree is told by: its tag, what tells that two places hold the same one, and what is stored. ``None`` for other
#: values.
Leaf: TypeAlias = tuple[str, object, Any] | None

#: Levels of nesting; Python's own recursion, and readers in other languages, end not much later.
_DEEPEST = 200


def take_apart(tree: Any, leaf_of: Callable[[Any], Leaf]) -> tuple[str, dict[str, Any]]:
    """The text of a tree, and its tensors by name."""
    taken = _Taken(leaf_of)
    form = taken.form(tree, ())
    return json.dumps(form, ensure_ascii=False, separators=(",", ":"), allow_nan=False), taken.tensors


def put_together(text: str, tensor_of: Callable[[str, str], Any]) -> Any:
    """The tree of a text; ``tensor_of`` is asked for tensors by tag and name, once for each."""
    try:
        form = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"it is no JSON text ({error})") from None
    given: dict[tuple[str, str], Any] = {}

    def tensor(tag: str, name: str) -> Any:
        if (tag, name) not in given:
            given[tag, name] = tensor_of(tag, name)
        return given[tag, name]

    return _value(form, tensor, 0)


class _Taken:
    """What was found in a tree so far."""

    def __init__(self, leaf_of: Callable[[Any], Leaf]) -> None:
        self.leaf_of = leaf_of
        self.tensors: dict[str, Any] = {}
        self.names: dict[object, str] = {}
        # Kept so that no two tensors get the same identity because one of them is gone.
        self.held: list[Any] = []

    def form(self, value: Any, path: tuple[Any, ...]) -> Any:
        if len(path) > _DEEPEST:
            raise _refused(path[:4], f"it is nested more than {_DEEPEST} levels deep, or contains itself")
        leaf = self.leaf_of(value)
        if leaf is not None:
            return {leaf[0]: self._name(leaf, value, path)}
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if kind in (bytes, bytearray):
            return {"bytes": base64.b64encode(value).decode()}
        if kind is list:
            return [self.form(item, (*path, number)) for number, item in enumerate(value)]
        if kind is tuple or (isinstance(value, tuple) and not hasattr(value, "_fields")):
            return {"tuple": [self.form(item, (*path, number)) for number, item in enumerate(value)]}
        if isinstance(value, Mapping):
            if all(type(key) is str for key in value):
                return {"dict": {key: self.form(item, (*path, key)) for key, item in value.items()}}
            return {"pairs": [[self._key(key, path), self.form(item, (*path, key))] for key, item in value.items()]}
        what = f"{kind.__module__}.{kind.__qualname__}"
        raise _refused(
            path, f"a {what} cannot be stored: dicts, lists, tuples, numbers, text, bytes, None and tensors can"
        )

    def _key(self, key: Any, path: tuple[Any, ...]) -> Any:
        form = self.form(key, (*path, "key"))
        if isinstance(form, list) or (isinstance(form, dict) and form.keys() <= {"tensor", "numpy", "scalar", "dict"}):
            raise _refused(path, f"{key!r} cannot be a key")
        return form

    def _name(self, leaf: tuple[str, object, Any], value: Any, path: tuple[Any, ...]) -> str:
        _, identity, stored = leaf
        if identity is not None and identity in self.names:
            return self.names[identity]
        wanted = ".".join(map(str, path)) or "tensor"
        name, number = wanted, 1
        while name in self.tensors:
            number += 1
            name = f"{wanted}#{number}"
        self.tensors[name] = stored
        self.held.append(value)
        if identity is not None:
            self.names[identity] = name
        return name


def _value(form: Any, tensor: Callable[[str, str], Any], depth: int) -> Any:
    if depth > _DEEPEST:
        raise _malformed(f"it is nested more than {_DEEPEST} levels deep")
    if form is None or isinstance(form, bool | int | float | str):
        return form
    if isinstance(form, list):
        return [_value(item, tensor, depth + 1) for item in form]
    if len(form) != 1:
        raise _malformed("a value has more than one tag")
    tag, content = next(iter(form.items()))
    expected = _CONTENTS.get(tag)
    if expected is None:
        raise from_core("unsupported", f'the tree has a value of the unknown kind "{tag}"', None, None, None, None)
    if not isinstance(content, expected):
        raise _malformed(f'"{tag}" holds a {type(content).__name__}')
    match tag:
        case "dict":
            return {key: _value(item, tensor, depth + 1) for key, item in content.items()}
        case "pairs":
            return dict(_pair(pair, tensor, depth) for pair in content)
        case "tuple":
            return tuple(_value(item, tensor, depth + 1) for item in content)
        case "bytes":
            try:
                return base64.b64decode(content, validate=True)
            except binascii.Error as error:
                raise _malformed(f"some bytes are no base64 ({error})") from None
        case "float":
            if content not in ("nan", "inf", "-inf"):
                raise _malformed(f'"{content}" is no number')
            return float(content)
    return tensor(tag, content)


#: What each tag holds.
_CONTENTS: dict[str, Any] = {
    "dict": dict,
    "pairs": list,
    "tuple": list,
    "bytes": str,
    "float": str,
    "tensor": str,
    "numpy": str,
    "scalar": str,
}


def _pair(pair: Any, tensor: Callable[[str, str], Any], depth: int) -> tuple[Any, Any]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise _malformed("a pair of a dict is no pair")
    key = _value(pair[0], tensor, depth + 1)
    try:
        hash(key)
    except TypeError:
        raise _malformed(f"a {type(key).__name__} is no key") from None
    return key, _value(pair[1], tensor, depth + 1)


def tree_of(metadata: Mapping[str, Any], path: str) -> str:
    """The text of the tree among a file's metadata."""
    text = metadata.get(KEY)
    if not isinstance(text, str):
        hint = "load_file loads the tensors of any file; save_tree writes trees."
        raise from_core("mismatch", f'"{path}" holds no tree. {hint}', path, None, None, hint)
    return text


def with_tree(metadata: Mapping[str, str] | None, text: str) -> dict[str, str]:
    """Metadata of a file together with its tree."""
    if metadata and KEY in metadata:
        raise from_core(
            "invalid_argument", f'the metadata has an entry "{KEY}", which is the tree\'s', None, None, None, None
        )
    return {**(metadata or {}), KEY: text}


def _malformed(what: str) -> ZTensorError:
    return from_core("malformed", f"the tree cannot be read: {what}", None, None, None, None)


def _refused(path: tuple[Any, ...], what: str) -> ZTensorError:
    where = "".join(f"[{part!r}]" for part in path)
    return from_core("invalid_argument", f"tree{where}: {what}", None, None, None, None)
