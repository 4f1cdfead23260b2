//! What the opcodes do to the stack, to containers and to the memo. Nothing is taken from below the last mark.

use std::borrow::Cow;

use super::arena::{Arena, Call, Id, Node};
use super::literal::{self, Integer};
use super::machine::Machine;
use crate::error::{Error, Kind, Result};
use crate::formats::pytorch::trust::COMPUTED;

impl<'a> Machine<'a> {
    #[inline]
    pub(super) fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn top(&self) -> Result<Id> {
        match self.stack.last() {
            Some(top) if self.stack.len() > self.floor() => Ok(*top),
            _ => Err(underflow()),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Result<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    pub(super) fn pop_mark(&mut self) -> Result<usize> {
        self.marks.pop().ok_or_else(|| Error::malformed("the pickle refers to a mark that it did not set"))
    }

    pub(super) fn pop_to_mark(&mut self) -> Result<Vec<Id>> {
        let height = self.pop_mark()?;
        Ok(self.stack.split_off(height.min(self.stack.len())))
    }

    pub(super) fn pop_entries(&mut self) -> Result<Vec<(Id, Id)>> {
        let items = self.pop_to_mark()?;
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(Error::malformed("the pickle sets a key without a value"));
        };
        Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect())
    }

    #[inline]
    pub(super) fn push(&mut self, node: Node<'a>) -> Result<()> {
        let position = u32::try_from(self.arena.nodes.len()).ok().filter(|position| *position < u32::MAX);
        let id = Id::at(position.ok_or_else(too_many)?);
        self.arena.nodes.push(node);
        self.stack.push(id);
        Ok(())
    }

    #[inline]
    pub(super) fn push_shared(&mut self, id: Id) -> Result<()> {
        self.stack.push(id);
        Ok(())
    }

    pub(super) fn push_integer(&mut self, integer: Integer<'a>) -> Result<()> {
        self.push(match integer {
            Integer::Small(value) => Node::Integer(value),
            Integer::Wide(value) => Node::WideInteger(Box::new(value)),
            Integer::Huge(bytes) => Node::HugeInteger(bytes),
            Integer::HugeDecimal(digits) => Node::HugeDecimal(digits),
        })
    }

    pub(super) fn push_long<const WIDTH: usize>(&mut self) -> Result<()> {
        let bytes = self.cursor.prefixed::<WIDTH>()?;
        self.push_integer(literal::two_complement(bytes))
    }

    /// A Python 2 string, which may be text or bytes.
    pub(super) fn push_string<const WIDTH: usize>(&mut self) -> Result<()> {
        let bytes = self.cursor.prefixed::<WIDTH>()?;
        self.push(match std::str::from_utf8(bytes) {
            Ok(text) => Node::Text(text),
            Err(_) => Node::Bytes(bytes),
        })
    }

    pub(super) fn push_text<const WIDTH: usize>(&mut self) -> Result<()> {
        let bytes = self.cursor.prefixed::<WIDTH>()?;
        self.push(text(bytes))
    }

    pub(super) fn push_bytes<const WIDTH: usize>(&mut self) -> Result<()> {
        let bytes = self.cursor.prefixed::<WIDTH>()?;
        self.push(Node::Bytes(bytes))
    }

    pub(super) fn push_short_tuple(&mut self, count: usize) -> Result<()> {
        let height = self.stack.len().checked_sub(count).filter(|height| *height >= self.floor());
        self.push_tuple(height.ok_or_else(underflow)?)
    }

    /// Makes a tuple of everything above a height of the stack.
    pub(super) fn push_tuple(&mut self, height: usize) -> Result<()> {
        let start = u32::try_from(self.arena.tuple_items.len()).map_err(|_| too_many())?;
        self.arena.tuple_items.extend(self.stack.drain(height.min(self.stack.len())..));
        let end = u32::try_from(self.arena.tuple_items.len()).map_err(|_| too_many())?;
        self.push(Node::Tuple { start, count: end - start })
    }

    pub(super) fn push_list(&mut self, items: Vec<Id>, kind: fn(u32) -> Node<'a>) -> Result<()> {
        let slot = u32::try_from(self.arena.lists.len()).map_err(|_| too_many())?;
        self.arena.lists.push(items);
        self.push(kind(slot))
    }

    pub(super) fn push_dict(&mut self, entries: Vec<(Id, Id)>) -> Result<()> {
        let slot = u32::try_from(self.arena.dicts.len()).map_err(|_| too_many())?;
        self.arena.dicts.push(entries);
        self.push(Node::Dict(slot))
    }

    pub(super) fn push_global(&mut self, module: Cow<'a, str>, name: Cow<'a, str>) -> Result<()> {
        let (slot, _) = self.arena.globals.insert_full((module, name));
        self.push(Node::Global(u32::try_from(slot).map_err(|_| too_many())?))
    }

    /// A name that both processes agreed on beforehand by number.
    pub(super) fn push_extension<const WIDTH: usize>(&mut self) -> Result<()> {
        self.calls.extension += 1;
        let code = self.cursor.unsigned::<WIDTH>()?;
        self.push_global(Cow::Borrowed("copyreg"), Cow::Owned(format!("extension {code}")))
    }

    pub(super) fn push_persistent(&mut self) -> Result<()> {
        let reference = self.pop()?;
        self.push(Node::Persistent(reference))
    }

    /// Notes the call of what lies below the top of the stack with the arguments on top.
    pub(super) fn push_call(&mut self) -> Result<()> {
        let (arguments, callable) = (self.pop()?, self.pop()?);
        let slot = u32::try_from(self.arena.calls.len()).map_err(|_| too_many())?;
        self.arena.calls.push(Call {
            callable,
            arguments,
            state: None,
            items: Vec::new(),
            entries: Vec::new(),
        });
        self.push(Node::Call(slot))
    }

    pub(super) fn global_part(&mut self) -> Result<Cow<'a, str>> {
        Ok(String::from_utf8_lossy(self.cursor.line()?))
    }

    /// A part of a name taken from the stack. One that is not a text was computed by the pickle itself.
    pub(super) fn computed_name(&self, id: Id) -> Cow<'a, str> {
        match self.arena.get(id) {
            Node::Text(text) => Cow::Borrowed(text),
            Node::OwnedText(text) => Cow::Owned(text.as_ref().to_owned()),
            _ => Cow::Borrowed(COMPUTED),
        }
    }

    pub(super) fn call_slot(&mut self, id: Id) -> Option<&mut Call> {
        match self.arena.get(id) {
            Node::Call(slot) => {
                let slot = *slot as usize;
                self.arena.calls.get_mut(slot)
            }
            _ => None,
        }
    }

    pub(super) fn extend(&mut self, items: &[Id]) -> Result<()> {
        let (target, lenient) = (self.top()?, self.lenient);
        let list = match self.arena.get(target) {
            Node::List(slot) | Node::Set(slot) | Node::FrozenSet(slot) => {
                let slot = *slot as usize;
                self.arena.lists.get_mut(slot)
            }
            _ => self.call_slot(target).map(|call| &mut call.items),
        };
        match list {
            Some(list) => {
                list.extend_from_slice(items);
                Ok(())
            }
            None if lenient => Ok(()),
            None => Err(Error::malformed("the pickle appends to something that is not a list")),
        }
    }

    pub(super) fn set(&mut self, entries: &[(Id, Id)]) -> Result<()> {
        let (target, lenient) = (self.top()?, self.lenient);
        let dict = match self.arena.get(target) {
            Node::Dict(slot) => {
                let slot = *slot as usize;
                self.arena.dicts.get_mut(slot)
            }
            _ => self.call_slot(target).map(|call| &mut call.entries),
        };
        match dict {
            Some(dict) => {
                dict.extend_from_slice(entries);
                Ok(())
            }
            None if lenient => Ok(()),
            None => Err(Error::malformed("the pickle sets a key of something that is not a dict")),
        }
    }

    pub(super) fn memo_number(&mut self) -> Result<u64> {
        match literal::decimal(self.cursor.line()?)? {
            Integer::Small(number) if number >= 0 => Ok(number as u64),
            _ => Err(Error::malformed("a memo number in the pickle is not a number")),
        }
    }

    #[inline]
    pub(super) fn recall(&mut self, number: u64) -> Result<()> {
        match self.memo.get(number) {
            Some(id) => self.push_shared(id),
            None => {
                let what = format!("the pickle recalls memo {number}, which it did not store");
                if !self.lenient {
                    return Err(Error::malformed(what));
                }
                self.unfollowed.get_or_insert(what);
                self.push_shared(Arena::NONE)
            }
        }
    }

    #[inline]
    pub(super) fn remember(&mut self, number: u64) -> Result<()> {
        let top = self.top()?;
        self.memo.put(number, top);
        Ok(())
    }
}

/// Text that is meant to be UTF-8. Python also writes halves of surrogate pairs, which have no character of their own.
pub(super) fn text(bytes: &[u8]) -> Node<'_> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Node::Text(text),
        Err(_) => Node::OwnedText(String::from_utf8_lossy(bytes).into()),
    }
}

pub(super) fn underflow() -> Error {
    Error::malformed("the pickle takes more from its stack than it put there")
}

fn too_many() -> Error {
    Error::new(Kind::Limit, "the pickle has more than four thousand million values")
}
