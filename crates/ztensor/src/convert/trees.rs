//! What goes with the tensors of a file: the tree that holds them together, and which entries of the metadata say more than it does.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::{Selection, TieKey, text_of, tie_key};
use crate::error::{Error, Result};
use crate::reader::Reader;
use crate::tensor::Value;
use crate::tree::{self, Tree};

/// The tree of a file with the names that its tensors get; `None` if the file has none. It is an error if a tensor of the tree is not selected.
pub fn carried_tree(reader: &Reader, selection: &Selection<'_>) -> Result<Option<Tree>> {
    let Some(mut tree) = reader.tree()? else { return Ok(None) };
    let names: HashMap<&str, &str> = selection.iter().map(|(old, new)| (*old, new.as_ref())).collect();
    match tree.rename(&|name| names.get(name).copied()) {
        Ok(()) => Ok(Some(tree)),
        Err(name) if reader.contains(&name) => {
            Err(Error::argument("the tree has tensors that are not selected").with_tensor(&name))
        }
        Err(name) => {
            Err(Error::malformed(format!("the tree names \"{name}\", which the file does not hold"))
                .with_tensor(&name))
        }
    }
}

/// The tensors among some that a tree does not mention, neither them nor others with the same bytes.
pub fn unmentioned<'s>(reader: &Reader, selection: &'s Selection<'_>, tree: &Tree) -> Vec<&'s str> {
    let mentioned: HashSet<&str> = tree.tensors().into_iter().collect();
    let key = |(old, _): &(&str, Cow<'_, str>)| reader.object(old).ok().and_then(tie_key);
    let known = selection.iter().filter(|(_, new)| mentioned.contains(new.as_ref()));
    let known: HashSet<TieKey> = known.filter_map(key).collect();
    let left = selection.iter().filter(|(_, new)| !mentioned.contains(new.as_ref()));
    let left = left.filter(|tensor| key(tensor).is_none_or(|key| !known.contains(&key)));
    left.map(|(_, new)| new.as_ref()).collect()
}

/// The entries of a file's metadata that a tree does not hold. A pickle's plain values are in its tree and among its metadata,
/// under the paths that lead to them.
pub fn metadata_outside<'r>(reader: &'r Reader, tree: &Tree) -> Vec<&'r str> {
    let mut values = HashMap::new();
    plain_values(tree, &mut String::new(), 0, &mut values);
    let held = |key: &str, value: &Value| {
        // By text, because that is what formats have whose metadata are nothing else.
        values.get(key).is_some_and(|held| text_of(held) == text_of(value))
    };
    let entries = reader.attributes().iter().filter(|(key, _)| *key != tree::KEY);
    entries.filter(|(key, value)| !held(key, value)).map(|(key, _)| key.as_str()).collect()
}

/// The plain values of a tree by the keys and positions that lead to them, joined by dots; lists of such values are one.
fn plain_values(tree: &Tree, path: &mut String, depth: usize, values: &mut HashMap<String, Value>) {
    let length = path.len();
    let enter = |path: &mut String, segment: &str, value: &Tree, values: &mut HashMap<String, Value>| {
        if depth > 0 {
            path.push('.');
        }
        path.push_str(segment);
        plain_values(value, path, depth + 1, values);
        path.truncate(length);
    };
    match tree {
        Tree::Dict(entries) | Tree::Ordered(entries, _) => {
            for (position, (key, value)) in entries.iter().enumerate() {
                let segment: Cow<'_, str> = match key {
                    Tree::Text(text) | Tree::Integer(text) => text.into(),
                    Tree::Bool(true) => "True".into(),
                    Tree::Bool(false) => "False".into(),
                    Tree::None => "None".into(),
                    Tree::Float(value) => value.to_string().into(),
                    Tree::Bytes(bytes) => String::from_utf8_lossy(bytes),
                    _ => format!("#{position}").into(),
                };
                enter(path, &segment, value, values);
            }
        }
        Tree::List(items) | Tree::Tuple(items) | Tree::Set(items) | Tree::FrozenSet(items) => {
            let plain: Option<Vec<Value>> = items.iter().map(plain_value).collect();
            match plain {
                Some(plain) if !plain.is_empty() => {
                    values.insert(path.clone(), Value::List(plain));
                }
                _ => {
                    for (position, item) in items.iter().enumerate() {
                        enter(path, &position.to_string(), item, values);
                    }
                }
            }
        }
        other => values.extend(plain_value(other).map(|value| (path.clone(), value))),
    }
}

fn plain_value(tree: &Tree) -> Option<Value> {
    Some(match tree {
        Tree::None => Value::Null,
        Tree::Bool(value) => Value::Bool(*value),
        Tree::Integer(digits) => Value::Integer(digits.parse().ok()?),
        Tree::Float(value) => Value::Float(*value),
        Tree::Text(text) => Value::from(text.as_str()),
        Tree::Bytes(bytes) | Tree::ByteArray(bytes) => Value::Bytes(bytes.clone()),
        Tree::Typed(name, bytes) => Value::of_number(name, bytes)?,
        _ => return None,
    })
}
