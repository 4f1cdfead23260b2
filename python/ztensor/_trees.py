"""Trees of dicts, lists, tuples, scalars and tensors in a tensor file: a JSON text, which is in the file's metadata or made of a
pickle by the core, says what the tree is and names its tensors. Nothing is executed to read one. ``spec/tree.md`` has the form.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from . import _native
from ._errors import SkippedTensorWarning, ZTensorError, from_core

#: Under which name the tree is among the metadata.
KEY = "ztensor.tree"

#: What a tensor in a tree is told by: its tag, what tells that two places hold the same one, what is stored, and the attributes that
#: a program gave it. ``None`` for other values.
Leaf: TypeAlias = tuple[str, object, Any, dict[str, Any]] | None

#: The form of a value that only a framework has, such as a dtype, by its tag. ``None`` for other values.
Special: TypeAlias = tuple[str, Any] | None

#: NumPy's own types of numbers, whose scalars are stored in the text.
_TYPED = {
    np.dtype(code).name for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
}


class Unread:
    """Stands in a tree for something that a tree does not express, such as an object of a pickle. ``what`` says what it is."""

    __module__ = "ztensor"
    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        return f"<not read: {_native.printable(self.what)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unread) and self.what == other.what

    def __hash__(self) -> int:
        return hash(self.what)


class _Attribute(str):
    """The name of an attribute in the path to a value."""

    __slots__ = ()


#: Levels of nesting; Python's own recursion, and readers in other languages, end not much later.
_DEEPEST = 200


def take_apart(
    tree: Any,
    leaf_of: Callable[[Any], Leaf],
    special_of: Callable[[Any], Special] = lambda value: None,
    filename: Any = None,
) -> tuple[str, dict[str, Any]]:
    """The text of a tree, and its tensors by name. Who gets a pickle with NumPy's values in it is told what that means."""
    taken = _Taken(leaf_of, special_of)
    form = taken.form(tree, ())
    _warn_of_unread("not stored", taken.unread, "")
    if taken.numpy is not None and str(filename).lower().endswith((".pt", ".pth", ".bin", ".ckpt")):
        message = (
            f'"{filename}": tree{taken.numpy} is NumPy\'s, so that torch.load(..., weights_only=True) wants its classes to be'
            " allowed by torch.serialization.add_safe_globals; load_tree does not. Plain numbers and tensors need nothing."
        )
        warnings.warn(_native.printable(message), UserWarning, stacklevel=3)
    return json.dumps(form, ensure_ascii=False, separators=(",", ":"), allow_nan=False), taken.tensors


def put_together(
    text: str,
    path: str,
    tensor_of: Callable[[str, str], Any],
    special_from: Callable[[str, Any], Any],
    another: Callable[[Any], Any] | None = None,
) -> Any:
    """The tree of a text; ``tensor_of`` is asked for tensors by tag and name, once for each, ``special_from`` for what a framework
    has for a size, a dtype or a device, and ``another`` for a second object over a tensor's memory, which gets attributes of its own.
    A framework without it has tensors without attributes.
    """
    try:
        form = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"it is no JSON text ({error})") from None
    given: dict[tuple[str, str], Any] = {}

    def tensor(tag: str, name: str) -> Any:
        if (tag, name) not in given:
            given[tag, name] = tensor_of(tag, name)
        return given[tag, name]

    value = _Value(tensor, special_from, another)
    tree = value.of(form, ())
    _warn_of_unread(
        f'"{path}": not loaded', value.unread, "; ztensor.Unread stands in the place" if value.stands_in else ""
    )
    return tree


def _warn_of_unread(what: str, unread: dict[str, str], consequence: str) -> None:
    if unread:
        where, reason = next(iter(unread.items()))
        others = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
        message = f"{what}: tree{where} ({reason}){others}{consequence}."
        warnings.warn(_native.printable(message), SkippedTensorWarning, stacklevel=4)


class _Taken:
    """What was found in a tree so far."""

    def __init__(self, leaf_of: Callable[[Any], Leaf], special_of: Callable[[Any], Special]) -> None:
        self.leaf_of = leaf_of
        self.special_of = special_of
        self.tensors: dict[str, Any] = {}
        self.names: dict[object, str] = {}
        #: What is not stored, by its place.
        self.unread: dict[str, str] = {}
        #: Where the first value of NumPy's is.
        self.numpy: str | None = None
        # Kept so that no two tensors get the same identity because one of them is gone.
        self.held: list[Any] = []

    def form(self, value: Any, path: tuple[Any, ...]) -> Any:
        if len(path) > _DEEPEST:
            raise _refused(path[:4], f"it is nested more than {_DEEPEST} levels deep, or contains itself")
        if isinstance(value, np.generic) and value.dtype.name in _TYPED:
            self.numpy = self.numpy or _where(path)
            little = np.asarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
            return {"typed": [value.dtype.name, _base64(little.tobytes())]}
        special = self.special_of(value)
        if special is not None:
            return {special[0]: special[1]}
        leaf = self.leaf_of(value)
        if leaf is not None:
            name = self._name(leaf, value, path)
            if leaf[0] in ("numpy", "scalar"):
                self.numpy = self.numpy or _where(path)
            form = {leaf[0]: [name, bool(value.requires_grad)] if leaf[0] == "parameter" else name}
            return self._attributed(form, leaf[3], path) if leaf[3] else form
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if kind is complex:
            return {"complex": [self.form(value.real, path), self.form(value.imag, path)]}
        if kind in (bytes, bytearray):
            return {kind.__name__: _base64(value)}
        if kind is list:
            return self._items(value, path)
        if kind in (set, frozenset):
            return {kind.__name__: [self._key(item, path) for item in value]}
        if kind is tuple or (isinstance(value, tuple) and not hasattr(value, "_fields")):
            return {"tuple": self._items(value, path)}
        if kind is OrderedDict:
            pairs = self._pairs(value, path)
            attributes = (*path, _Attribute("__dict__"))
            return {"ordered": [pairs, self.form(vars(value), attributes)] if vars(value) else [pairs]}
        if isinstance(value, Mapping):
            if all(type(key) is str for key in value):
                return {"dict": {key: self.form(item, (*path, key)) for key, item in value.items()}}
            return {"pairs": self._pairs(value, path)}
        if kind is Unread:
            return {"unread": value.what}
        what = f"{kind.__module__}.{kind.__qualname__}"
        raise _refused(
            path, f"a {what} cannot be stored: dicts, lists, tuples, numbers, text, bytes, None and tensors can"
        )

    def _attributed(self, form: Any, attributes: dict[str, Any], path: tuple[Any, ...]) -> Any:
        for name, attribute in attributes.items():
            if type(attribute) is Unread:
                self.unread[_where((*path, _Attribute(name)))] = attribute.what
        forms = {name: self.form(attribute, (*path, _Attribute(name))) for name, attribute in attributes.items()}
        return {"attributed": [form, {"dict": forms}]}

    def _items(self, items: Iterable[Any], path: tuple[Any, ...]) -> list[Any]:
        return [self.form(item, (*path, number)) for number, item in enumerate(items)]

    def _pairs(self, value: Mapping[Any, Any], path: tuple[Any, ...]) -> list[Any]:
        return [[self._key(key, path), self.form(item, (*path, key))] for key, item in value.items()]

    def _key(self, key: Any, path: tuple[Any, ...]) -> Any:
        form = self.form(key, (*path, "key"))
        if isinstance(form, list) or (isinstance(form, dict) and not form.keys() <= _KEYS):
            raise _refused(path, f"{key!r} cannot be a key")
        return form

    def _name(self, leaf: tuple[str, object, Any, Any], value: Any, path: tuple[Any, ...]) -> str:
        _, identity, stored, _ = leaf
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


class _Value:
    """Makes values of their forms."""

    def __init__(
        self,
        tensor: Callable[[str, str], Any],
        special_from: Callable[[str, Any], Any],
        another: Callable[[Any], Any] | None,
    ) -> None:
        self.tensor = tensor
        self.special_from = special_from
        self.another = another
        #: Tensors with attributes, by their texts.
        self.attributed: dict[str, Any] = {}
        #: What is not there, by its place.
        self.unread: dict[str, str] = {}
        #: Whether something stands in the place of any of it.
        self.stands_in = False

    def of(self, form: Any, path: tuple[Any, ...]) -> Any:
        if len(path) > _DEEPEST:
            raise _malformed(f"it is nested more than {_DEEPEST} levels deep")
        if form is None or isinstance(form, bool | int | float | str):
            return form
        if isinstance(form, list):
            return self._items(form, path)
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
                return {key: self.of(item, (*path, key)) for key, item in content.items()}
            case "pairs":
                return dict(self._pairs(content, path))
            case "ordered":
                return self._ordered(content, path)
            case "tuple":
                return tuple(self._items(content, path))
            case "set":
                return set(self._keys(content, path))
            case "frozenset":
                return frozenset(self._keys(content, path))
            case "bytes":
                return _bytes(content)
            case "bytearray":
                return bytearray(_bytes(content))
            case "float":
                if content not in ("nan", "inf", "-inf"):
                    raise _malformed(f'"{content}" is no number')
                return float(content)
            case "complex":
                parts = self._items(content, path)
                if len(parts) != 2 or not all(isinstance(part, float) for part in parts):
                    raise _malformed("a complex number is no pair of numbers")
                return complex(*parts)
            case "typed":
                return _typed(content)
            case "attributed":
                return self._attributed(content, path)
            case "parameter":
                if len(content) != 2 or not isinstance(content[0], str) or not isinstance(content[1], bool):
                    raise _malformed("a parameter is no name with a flag")
                return self.tensor("trained" if content[1] else "frozen", content[0])
            case "size":
                if not all(type(item) is int for item in content):
                    raise _malformed("a dimension is no integer")
                return self.special_from(tag, content)
            case "dtype" | "device":
                return self.special_from(tag, content)
            case "unread":
                self.unread[_where(path)] = content
                self.stands_in = True
                return Unread(content)
        return self.tensor(tag, content)

    def _attributed(self, content: list[Any], path: tuple[Any, ...]) -> Any:
        match content:
            case [{"tensor": _} | {"parameter": _} | {"numpy": _} | {"scalar": _} as form, {"dict": dict(forms)}]:
                pass
            case _:
                raise _malformed("the attributes of a tensor are no tensor with a dict")
        text = json.dumps(content)
        if text in self.attributed:
            return self.attributed[text]
        tensor = self.of(form, path)
        if self.another is not None and "numpy" not in form and "scalar" not in form:
            tensor = self.another(tensor)
        self.attributed[text] = tensor
        for name, form in forms.items():
            place = (*path, _Attribute(name))
            if name == "requires_grad":
                if self.another is not None and form is True:
                    self._require_gradients(tensor, place)
            elif isinstance(form, dict) and "unread" in form and hasattr(type(tensor), name):
                # What belongs to every tensor, such as its class, has nothing to stand in its place.
                self.unread[_where(place)] = str(form["unread"])
            elif self.another is None or not hasattr(tensor, "__dict__"):
                self.unread[_where(place)] = "an array has no attributes"
            elif hasattr(type(tensor), name):
                self.unread[_where(place)] = "tensors have something else of that name"
            else:
                vars(tensor)[name] = self.of(form, place)
        return tensor

    def _require_gradients(self, tensor: Any, place: tuple[Any, ...]) -> None:
        try:
            tensor.requires_grad_(True)
        except (AttributeError, RuntimeError) as error:
            self.unread[_where(place)] = str(error).splitlines()[0]

    def _items(self, items: list[Any], path: tuple[Any, ...]) -> list[Any]:
        return [self.of(item, (*path, number)) for number, item in enumerate(items)]

    def _keys(self, items: list[Any], path: tuple[Any, ...]) -> list[Any]:
        return [self._key(item, path) for item in items]

    def _key(self, form: Any, path: tuple[Any, ...]) -> Any:
        key = self.of(form, (*path, "key"))
        try:
            hash(key)
        except TypeError:
            raise _malformed(f"a {type(key).__name__} is no key") from None
        if isinstance(form, dict) and not form.keys() <= _KEYS:
            raise _malformed(f"a {type(key).__name__} is no key")
        return key

    def _pairs(self, pairs: list[Any], path: tuple[Any, ...]) -> list[tuple[Any, Any]]:
        entries = []
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise _malformed("a pair of a dict is no pair")
            key = self._key(pair[0], path)
            entries.append((key, self.of(pair[1], (*path, key))))
        return entries

    def _ordered(self, content: list[Any], path: tuple[Any, ...]) -> OrderedDict[Any, Any]:
        if len(content) not in (1, 2) or not isinstance(content[0], list):
            raise _malformed("an ordered dict is no list of pairs")
        ordered = OrderedDict(self._pairs(content[0], path))
        if len(content) == 2:
            attributes = self.of(content[1], (*path, _Attribute("__dict__")))
            if type(attributes) is not dict or not all(type(key) is str for key in attributes):
                raise _malformed("the attributes of a dict are no dict of texts")
            vars(ordered).update(attributes)
        return ordered


#: What each tag holds.
_CONTENTS: dict[str, Any] = {
    "dict": dict,
    "pairs": list,
    "ordered": list,
    "tuple": list,
    "set": list,
    "frozenset": list,
    "size": list,
    "bytes": str,
    "bytearray": str,
    "float": str,
    "complex": list,
    "typed": list,
    "tensor": str,
    "attributed": list,
    "parameter": list,
    "numpy": str,
    "scalar": str,
    "dtype": str,
    "device": str,
    "unread": str,
}

#: The tags of values that can be keys of dicts and members of sets.
_KEYS = {"tuple", "frozenset", "size", "bytes", "float", "complex", "typed", "dtype", "device"}


def _base64(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise _malformed(f"some bytes are no base64 ({error})") from None


def _typed(content: list[Any]) -> Any:
    if len(content) != 2 or not all(isinstance(part, str) for part in content) or content[0] not in _TYPED:
        raise _malformed("a typed number is no type with its bytes")
    dtype, data = np.dtype(content[0]), _bytes(content[1])
    if len(data) != dtype.itemsize:
        raise _malformed(f"{len(data)} bytes are no {dtype.name}")
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)[0]


def special_from(tag: str, content: Any) -> Any:
    """What stands for PyTorch's own values where PyTorch is not used: tuples, and texts such as ``"torch.float32"``."""
    return tuple(content) if tag == "size" else f"torch.{content}" if tag == "dtype" else content


def tree_of(reader: _native.Reader, path: str) -> str:
    """The text of the tree that a file holds."""
    text = reader.tree()
    if text is None:
        hint = "load_file loads the tensors of any file; save_tree writes trees."
        message = _native.printable(f'"{path}" holds no tree. {hint}')
        raise from_core("mismatch", message, path, None, None, hint)
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
    return from_core("invalid_argument", f"tree{_where(path)}: {what}", None, None, None, None)


def _where(path: tuple[Any, ...]) -> str:
    return "".join(f".{part}" if isinstance(part, _Attribute) else f"[{part!r}]" for part in path)
