//! A tree as its JSON text.

use super::base64;
use super::{Leaf, Tree};

impl Tree {
    /// The text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Tree::None => out.push_str("null"),
            Tree::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Tree::Integer(digits) => out.push_str(digits),
            Tree::Float(value) if value.is_finite() => out.push_str(&format!("{value:?}")),
            Tree::Float(value) => tagged(out, "float", |out| quote(out, &spelled(*value))),
            Tree::Complex(real, imaginary) => tagged(out, "complex", |out| {
                pair(out, |out| Tree::Float(*real).write(out), |out| Tree::Float(*imaginary).write(out));
            }),
            Tree::Text(text) => quote(out, text),
            Tree::Bytes(bytes) => tagged(out, "bytes", |out| encoded(out, bytes)),
            Tree::ByteArray(bytes) => tagged(out, "bytearray", |out| encoded(out, bytes)),
            Tree::List(items) => list(out, items),
            Tree::Tuple(items) => tagged(out, "tuple", |out| list(out, items)),
            Tree::Set(items) => tagged(out, "set", |out| list(out, items)),
            Tree::FrozenSet(items) => tagged(out, "frozenset", |out| list(out, items)),
            Tree::Size(items) => tagged(out, "size", |out| list(out, items)),
            Tree::Dict(entries) if entries.iter().all(|(key, _)| matches!(key, Tree::Text(_))) => {
                tagged(out, "dict", |out| object(out, entries, |key, out| key.write(out)));
            }
            Tree::Dict(entries) => tagged(out, "pairs", |out| pairs(out, entries)),
            Tree::Ordered(entries, attributes) => tagged(out, "ordered", |out| {
                out.push('[');
                pairs(out, entries);
                if let Some(attributes) = attributes {
                    out.push(',');
                    attributes.write(out);
                }
                out.push(']');
            }),
            Tree::Tensor(Leaf::Parameter { trained }, name) => tagged(out, "parameter", |out| {
                pair(out, |out| quote(out, name), |out| Tree::Bool(*trained).write(out));
            }),
            Tree::Attributed(tensor, attributes) => tagged(out, "attributed", |out| {
                let attributes = |out: &mut String| object(out, attributes, |name, out| quote(out, name));
                pair(out, |out| tensor.write(out), |out| tagged(out, "dict", attributes));
            }),
            Tree::Tensor(leaf, name) => tagged(out, leaf.tag(), |out| quote(out, name)),
            Tree::Typed(dtype, bytes) => tagged(out, "typed", |out| {
                pair(out, |out| quote(out, dtype), |out| encoded(out, bytes));
            }),
            Tree::Dtype(name) => tagged(out, "dtype", |out| quote(out, name)),
            Tree::Device(name) => tagged(out, "device", |out| quote(out, name)),
            Tree::Unread(what) => tagged(out, "unread", |out| quote(out, what)),
        }
    }
}

impl Leaf {
    fn tag(self) -> &'static str {
        match self {
            Leaf::Tensor => "tensor",
            Leaf::Parameter { .. } => "parameter",
            Leaf::Numpy => "numpy",
            Leaf::Scalar => "scalar",
        }
    }
}

/// How Python spells what JSON has no number for.
fn spelled(value: f64) -> String {
    match (value.is_nan(), value > 0.0) {
        (true, _) => "nan".to_owned(),
        (false, true) => "inf".to_owned(),
        (false, false) => "-inf".to_owned(),
    }
}

fn tagged(out: &mut String, tag: &str, content: impl FnOnce(&mut String)) {
    out.push_str("{\"");
    out.push_str(tag);
    out.push_str("\":");
    content(out);
    out.push('}');
}

fn list(out: &mut String, items: &[Tree]) {
    out.push('[');
    separated(out, items, |out, item| item.write(out));
    out.push(']');
}

/// The members of a JSON object.
fn object<K>(out: &mut String, entries: &[(K, Tree)], key: impl Fn(&K, &mut String)) {
    out.push('{');
    separated(out, entries, |out, (name, value)| {
        key(name, out);
        out.push(':');
        value.write(out);
    });
    out.push('}');
}

fn pairs(out: &mut String, entries: &[(Tree, Tree)]) {
    out.push('[');
    separated(out, entries, |out, (key, value)| pair(out, |out| key.write(out), |out| value.write(out)));
    out.push(']');
}

fn pair(out: &mut String, first: impl FnOnce(&mut String), second: impl FnOnce(&mut String)) {
    out.push('[');
    first(out);
    out.push(',');
    second(out);
    out.push(']');
}

fn separated<T>(out: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        write(out, item);
    }
}

fn quote(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn encoded(out: &mut String, bytes: &[u8]) {
    out.push('"');
    base64::encode(bytes, out);
    out.push('"');
}
