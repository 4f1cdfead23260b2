//! The tree of modules that the names of tensors spell, with what each holds. Numbered siblings that are alike are folded into one line.

use std::collections::BTreeMap;

use ztensor::index::Object;

use crate::Result;
use crate::display::{count, say, size};

/// A module: what its tensors come to, and the modules in it.
#[derive(Default, PartialEq)]
struct Module {
    parameters: u64,
    bytes: u64,
    /// The dtype and shape, if it is a tensor.
    tensor: Option<String>,
    children: BTreeMap<Key, Module>,
}

/// A part of a name; numbers sort as numbers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u64),
    Text(String),
}

impl Key {
    fn new(part: &str) -> Key {
        part.parse().map_or_else(|_| Key::Text(part.to_owned()), Key::Number)
    }

    fn text(&self) -> String {
        match self {
            Key::Number(number) => number.to_string(),
            Key::Text(text) => text.clone(),
        }
    }
}

/// Prints the tree down to a depth.
pub(crate) fn show(tensors: &[(&str, &Object)], depth: usize) -> Result<()> {
    let mut root = Module::default();
    for (name, object) in tensors {
        let separator = if name.contains('/') && !name.contains('.') { '/' } else { '.' };
        let (parameters, bytes) = (object.shape.elements().unwrap_or(0), object.decoded_length());
        let mut module = &mut root;
        module.add(parameters, bytes);
        for part in name.split(separator) {
            module = module.children.entry(Key::new(part)).or_default();
            module.add(parameters, bytes);
        }
        module.tensor = Some(format!("{} {}", object.dtype(), object.shape));
    }
    root.show(0, depth)
}

impl Module {
    fn add(&mut self, parameters: u64, bytes: u64) {
        self.parameters = self.parameters.saturating_add(parameters);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn show(&self, level: usize, depth: usize) -> Result<()> {
        if level >= depth {
            return Ok(());
        }
        let mut children = self.children.iter().peekable();
        while let Some((key, child)) = children.next() {
            let (mut last, mut times) = (key, 1);
            while let (Key::Number(_), Some((next, _))) =
                (key, children.next_if(|(next, other)| matches!(next, Key::Number(_)) && *other == child))
            {
                (last, times) = (next, times + 1);
            }
            let name = if times == 1 {
                key.text()
            } else {
                format!("{}-{} ({times} alike)", key.text(), last.text())
            };
            let what = match &child.tensor {
                Some(tensor) if child.children.is_empty() => tensor.clone(),
                _ => format!("{} parameters", count(child.parameters.saturating_mul(times))),
            };
            say(&format!(
                "{}{name}: {what}, {}",
                "  ".repeat(level),
                size(child.bytes.saturating_mul(times))
            ))?;
            child.show(level + 1, depth)?;
        }
        Ok(())
    }
}
