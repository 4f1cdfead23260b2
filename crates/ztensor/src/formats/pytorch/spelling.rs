//! Values of a pickle as Python would spell them, for people who want to see what would have been called with what. Values can share and contain
//! each other, so the text is bounded in depth and in length.

use super::pickle::{Arena, Call, Id, Node};

/// Containers inside containers that are spelled out.
const DEEPEST: usize = 6;
/// Characters of one text.
const LONGEST: usize = 400;
/// Characters of one string inside it.
const LONGEST_STRING: usize = 200;

/// A call with its arguments, such as `os.system('id')`.
pub(crate) fn call(arena: &Arena<'_>, call: &Call) -> String {
    let mut text = Text { arena, out: String::new() };
    text.call(call, 0);
    text.finish()
}

/// The name of a global, or the expression that gives what is called.
pub(crate) fn value(arena: &Arena<'_>, id: Id) -> String {
    let mut text = Text { arena, out: String::new() };
    text.value(id, 0);
    text.finish()
}

struct Text<'p, 'a> {
    arena: &'p Arena<'a>,
    out: String,
}

impl Text<'_, '_> {
    fn finish(mut self) -> String {
        if let Some((end, _)) = self.out.char_indices().nth(LONGEST) {
            self.out.truncate(end);
            self.out.push('…');
        }
        self.out
    }

    /// Nothing is added once the text is long enough, so spelling costs no more than what is shown.
    fn is_full(&self) -> bool {
        self.out.len() > 4 * LONGEST
    }

    fn call(&mut self, call: &Call, depth: usize) {
        self.value(call.callable, depth);
        self.out.push('(');
        match self.arena.items(call.arguments) {
            Some(items) => self.list(items, depth),
            None => {
                self.out.push('*');
                self.value(call.arguments, depth + 1);
            }
        }
        self.out.push(')');
    }

    fn list(&mut self, items: &[Id], depth: usize) {
        for (position, item) in items.iter().enumerate() {
            if self.is_full() {
                return;
            }
            if position > 0 {
                self.out.push_str(", ");
            }
            self.value(*item, depth + 1);
        }
    }

    fn value(&mut self, id: Id, depth: usize) {
        if depth > DEEPEST || self.is_full() {
            self.out.push('…');
            return;
        }
        match self.arena.get(id) {
            Node::None => self.out.push_str("None"),
            Node::Bool(true) => self.out.push_str("True"),
            Node::Bool(false) => self.out.push_str("False"),
            Node::Integer(value) => self.out.push_str(&value.to_string()),
            Node::WideInteger(value) => self.out.push_str(&value.to_string()),
            Node::HugeInteger(_) | Node::HugeDecimal(_) => {
                self.out.push_str("<an integer of more than 128 bits>")
            }
            Node::Float(value) => self.out.push_str(&format!("{value:?}")),
            Node::Text(text) => self.string("", text.chars()),
            Node::OwnedText(text) => self.string("", text.chars()),
            Node::Bytes(bytes) => self.string("b", bytes.iter().map(|byte| char::from(*byte))),
            Node::OwnedBytes(bytes) => self.string("b", bytes.iter().map(|byte| char::from(*byte))),
            Node::ByteArray(bytes) => {
                self.out.push_str("bytearray(");
                self.string("b", bytes.iter().map(|byte| char::from(*byte)));
                self.out.push(')');
            }
            Node::Tuple { .. } => self.items(id, "(", ")", depth),
            Node::List(_) => self.items(id, "[", "]", depth),
            Node::Set(_) | Node::FrozenSet(_) => self.items(id, "{", "}", depth),
            Node::Dict(_) => {
                self.out.push('{');
                for (position, (key, value)) in self.arena.entries(id).unwrap_or_default().iter().enumerate()
                {
                    if self.is_full() {
                        break;
                    }
                    if position > 0 {
                        self.out.push_str(", ");
                    }
                    self.value(*key, depth + 1);
                    self.out.push_str(": ");
                    self.value(*value, depth + 1);
                }
                self.out.push('}');
            }
            Node::Global(_) => {
                if let Some((module, name)) = self.arena.global(id) {
                    self.out.push_str(module);
                    self.out.push('.');
                    self.out.push_str(name);
                }
            }
            Node::Call(_) => {
                if let Some(call) = self.arena.call(id) {
                    self.call(call, depth + 1);
                }
            }
            Node::Persistent(_) => self.out.push_str("<a reference to outside the pickle>"),
        }
    }

    fn items(&mut self, id: Id, open: &str, close: &str, depth: usize) {
        self.out.push_str(open);
        self.list(self.arena.items(id).unwrap_or_default(), depth);
        self.out.push_str(close);
    }

    fn string(&mut self, prefix: &str, mut letters: impl Iterator<Item = char>) {
        self.out.push_str(prefix);
        self.out.push('\'');
        for letter in letters.by_ref().take(LONGEST_STRING) {
            match (letter, prefix) {
                ('"', _) => self.out.push('"'),
                (' '..='~', _) | (_, "") => self.out.extend(letter.escape_debug()),
                (byte, _) => self.out.push_str(&format!("\\x{:02x}", u32::from(byte))),
            }
        }
        self.out.push('\'');
        if letters.next().is_some() {
            self.out.push('…');
        }
    }
}
