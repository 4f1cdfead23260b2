//! The machine itself: one opcode after the other over a stack of value numbers.

use std::borrow::Cow;

use super::arena::{Arena, Call, Id, Node};
use super::cursor::Cursor;
use super::literal::{self, Integer};
use super::memo::Memo;
use super::opcode::*;
use crate::error::{Error, Kind, Result};
use crate::limits::Budget;

/// What one opcode may leave behind: a value, a stack slot, a memo slot and a place in a container.
const COST_OF_A_STEP: u64 = 64;
/// Steps that are charged at once.
const STEPS_AT_ONCE: u64 = 256;

/// How often each of the opcodes occurred that make an unpickler run code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Calls {
    pub reduce: u64,
    pub build: u64,
    pub new_object: u64,
    pub instance: u64,
    pub extension: u64,
}

impl Calls {
    /// The counts under the opcodes' names.
    pub(in super::super) fn by_opcode(&self) -> [(&'static str, u64); 5] {
        [
            ("REDUCE", self.reduce),
            ("BUILD", self.build),
            ("NEWOBJ", self.new_object),
            ("INST", self.instance),
            ("EXT", self.extension),
        ]
    }
}

/// A pickle that ran to its end.
pub(in super::super) struct Pickle<'a> {
    pub arena: Arena<'a>,
    /// The value that an unpickler would return.
    pub root: Id,
    /// Bytes up to and including the STOP opcode.
    pub length: usize,
}

/// The state of a run. After a failed one, `arena` and `calls` tell what an unpickler would have done up to there.
pub(in super::super) struct Machine<'a> {
    pub arena: Arena<'a>,
    pub calls: Calls,
    cursor: Cursor<'a>,
    stack: Vec<Id>,
    /// Heights of the stack at each MARK.
    marks: Vec<usize>,
    memo: Memo,
}

impl<'a> Machine<'a> {
    pub(in super::super) fn new(bytes: &'a [u8]) -> Self {
        Machine {
            arena: Arena::new(bytes.len()),
            calls: Calls::default(),
            cursor: Cursor::new(bytes),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::default(),
        }
    }

    /// Runs to the STOP opcode. `origin` is where the pickle lies in the file, for messages.
    pub(in super::super) fn finish(mut self, origin: u64, budget: &mut Budget) -> Result<Pickle<'a>> {
        let root = self.run(origin, budget)?;
        Ok(Pickle { arena: self.arena, root, length: self.cursor.position() })
    }

    /// As `finish`, keeping the machine for what it noted.
    pub(in super::super) fn run(&mut self, origin: u64, budget: &mut Budget) -> Result<Id> {
        let most = budget.limits().steps;
        let mut steps = 0;
        loop {
            let position = self.cursor.position();
            let locate = |error: Error| error.with_offset(origin.saturating_add(position as u64));
            if steps % STEPS_AT_ONCE == 0 {
                budget.charge(COST_OF_A_STEP * STEPS_AT_ONCE).map_err(locate)?;
            }
            steps += 1;
            if steps > most {
                return Err(locate(Error::new(
                    Kind::Limit,
                    format!("the pickle takes more than {most} steps"),
                )));
            }
            let opcode = self.cursor.byte().map_err(locate)?;
            if opcode == STOP {
                return self.pop().map_err(locate);
            }
            self.step(opcode).map_err(locate)?;
        }
    }

    /// Bytes taken so far.
    pub(in super::super) fn position(&self) -> usize {
        self.cursor.position()
    }

    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            PROTO => match self.cursor.byte()? {
                0..=5 => Ok(()),
                later => {
                    Err(Error::unsupported(format!("pickle protocol {later} is not known; 5 is the latest")))
                }
            },
            FRAME => self.cursor.unsigned::<8>().map(|_| ()),
            MARK => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            POP if self.stack.len() == self.floor() => self.pop_mark().map(|_| ()),
            POP => self.pop().map(|_| ()),
            POP_MARK => {
                let height = self.pop_mark()?;
                self.stack.truncate(height);
                Ok(())
            }
            DUP => {
                let top = self.top()?;
                self.push_shared(top)
            }

            NONE => self.push_shared(Arena::NONE),
            NEWTRUE => self.push_shared(Arena::TRUE),
            NEWFALSE => self.push_shared(Arena::FALSE),
            INT => match self.cursor.line()? {
                b"00" => self.push_shared(Arena::FALSE),
                b"01" => self.push_shared(Arena::TRUE),
                line => self.push_integer(literal::decimal(line)?),
            },
            LONG => {
                let line = self.cursor.line()?;
                self.push_integer(literal::decimal(line)?)
            }
            BININT => {
                let value = i32::from_le_bytes(self.cursor.array()?);
                self.push(Node::Integer(value.into()))
            }
            BININT1 => {
                let value = self.cursor.byte()?;
                self.push_shared(Arena::small(value))
            }
            BININT2 => {
                let value = u16::from_le_bytes(self.cursor.array()?);
                self.push(Node::Integer(value.into()))
            }
            LONG1 => self.push_long::<1>(),
            LONG4 => self.push_long::<4>(),
            FLOAT => {
                let line = self.cursor.line()?;
                self.push(Node::Float(literal::float(line)?))
            }
            BINFLOAT => {
                let value = f64::from_be_bytes(self.cursor.array()?);
                self.push(Node::Float(value))
            }

            STRING => {
                let line = self.cursor.line()?;
                let bytes = literal::quoted(line)?;
                self.push(match String::from_utf8(bytes) {
                    Ok(text) => Node::OwnedText(text.into()),
                    Err(error) => Node::OwnedBytes(error.into_bytes().into()),
                })
            }
            BINSTRING => self.push_string::<4>(),
            SHORT_BINSTRING => self.push_string::<1>(),
            UNICODE => {
                let line = self.cursor.line()?;
                self.push(Node::OwnedText(literal::escaped_unicode(line)?.into()))
            }
            SHORT_BINUNICODE => self.push_text::<1>(),
            BINUNICODE => self.push_text::<4>(),
            BINUNICODE8 => self.push_text::<8>(),
            SHORT_BINBYTES => self.push_bytes::<1>(),
            BINBYTES => self.push_bytes::<4>(),
            BINBYTES8 | BYTEARRAY8 => self.push_bytes::<8>(),
            NEXT_BUFFER | READONLY_BUFFER => {
                Err(Error::unsupported("the pickle refers to buffers that were kept outside of it"))
            }

            EMPTY_TUPLE => self.push_tuple(self.stack.len()),
            TUPLE1 => self.push_short_tuple(1),
            TUPLE2 => self.push_short_tuple(2),
            TUPLE3 => self.push_short_tuple(3),
            TUPLE => {
                let height = self.pop_mark()?;
                self.push_tuple(height)
            }
            EMPTY_LIST => self.push_list(Vec::new(), Node::List),
            EMPTY_SET => self.push_list(Vec::new(), Node::Set),
            LIST => {
                let items = self.pop_to_mark()?;
                self.push_list(items, Node::List)
            }
            FROZENSET => {
                let items = self.pop_to_mark()?;
                self.push_list(items, Node::Set)
            }
            EMPTY_DICT => self.push_dict(Vec::new()),
            DICT => {
                let entries = self.pop_entries()?;
                self.push_dict(entries)
            }
            APPEND => {
                let item = self.pop()?;
                self.extend(&[item])
            }
            APPENDS | ADDITEMS => {
                let items = self.pop_to_mark()?;
                self.extend(&items)
            }
            SETITEM => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[(key, value)])
            }
            SETITEMS => {
                let entries = self.pop_entries()?;
                self.set(&entries)
            }

            GET => {
                let number = self.memo_number()?;
                self.recall(number)
            }
            BINGET => {
                let number = self.cursor.unsigned::<1>()?;
                self.recall(number)
            }
            LONG_BINGET => {
                let number = self.cursor.unsigned::<4>()?;
                self.recall(number)
            }
            PUT => {
                let number = self.memo_number()?;
                self.remember(number)
            }
            BINPUT => {
                let number = self.cursor.unsigned::<1>()?;
                self.remember(number)
            }
            LONG_BINPUT => {
                let number = self.cursor.unsigned::<4>()?;
                self.remember(number)
            }
            MEMOIZE => {
                let top = self.top()?;
                self.memo.append(top);
                Ok(())
            }

            GLOBAL => {
                let (module, name) = (self.global_part()?, self.global_part()?);
                self.push_global(module, name)
            }
            STACK_GLOBAL => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (module, name) = (self.computed_name(module), self.computed_name(name));
                self.push_global(module, name)
            }
            EXT1 => self.push_extension::<1>(),
            EXT2 => self.push_extension::<2>(),
            EXT4 => self.push_extension::<4>(),
            PERSID => {
                let line = self.cursor.line()?;
                self.push(text(line))?;
                self.push_persistent()
            }
            BINPERSID => self.push_persistent(),
            REDUCE => {
                self.calls.reduce += 1;
                self.push_call()
            }
            NEWOBJ => {
                self.calls.new_object += 1;
                self.push_call()
            }
            NEWOBJ_EX => {
                self.calls.new_object += 1;
                // Keyword arguments of a class are of no use to anything that is understood here.
                self.pop()?;
                self.push_call()
            }
            INST => {
                self.calls.instance += 1;
                let (module, name) = (self.global_part()?, self.global_part()?);
                let height = self.pop_mark()?;
                self.push_tuple(height)?;
                let arguments = self.pop()?;
                self.push_global(module, name)?;
                self.stack.push(arguments);
                self.push_call()
            }
            OBJ => {
                self.calls.instance += 1;
                let height = self.pop_mark()?;
                if height >= self.stack.len() {
                    return Err(underflow());
                }
                self.push_tuple(height + 1)?;
                self.push_call()
            }
            BUILD => {
                self.calls.build += 1;
                let (state, target) = (self.pop()?, self.top()?);
                match self.call_slot(target) {
                    Some(call) => {
                        call.state = Some(state);
                        Ok(())
                    }
                    None => {
                        Err(Error::malformed("the pickle gives state to something that is not an object"))
                    }
                }
            }
            other => Err(Error::malformed(format!("0x{other:02x} is not a pickle opcode"))),
        }
    }

    #[inline]
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    #[inline]
    fn top(&self) -> Result<Id> {
        match self.stack.last() {
            Some(top) if self.stack.len() > self.floor() => Ok(*top),
            _ => Err(underflow()),
        }
    }

    #[inline]
    fn pop(&mut self) -> Result<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_mark(&mut self) -> Result<usize> {
        self.marks.pop().ok_or_else(|| Error::malformed("the pickle refers to a mark that it did not set"))
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Id>> {
        let height = self.pop_mark()?;
        Ok(self.stack.split_off(height.min(self.stack.len())))
    }

    fn pop_entries(&mut self) -> Result<Vec<(Id, Id)>> {
        let items = self.pop_to_mark()?;
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(Error::malformed("the pickle sets a key without a value"));
        };
        Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect())
    }

    #[inline]
    fn push(&mut self, node: Node<'a>) -> Result<()> {
        let position = u32::try_from(self.arena.nodes.len()).ok().filter(|position| *position < u32::MAX);
        let id = Id::at(position.ok_or_else(too_many)?);
        self.arena.nodes.push(node);
        self.stack.push(id);
        Ok(())
    }

    #[inline]
    fn push_shared(&mut self, id: Id) -> Result<()> {
        self.stack.push(id);
        Ok(())
    }

    fn push_integer(&mut self, integer: Integer) -> Result<()> {
        self.push(match integer {
            Integer::Small(value) => Node::Integer(value),
            Integer::Wide(value) => Node::WideInteger(Box::new(value)),
            Integer::Huge => Node::HugeInteger,
        })
    }

    fn push_long<const WIDTH: usize>(&mut self) -> Result<()> {
        let bytes = self.cursor.prefixed::<WIDTH>()?;
        self.push_integer(literal::two_complement(bytes))
    }

    /// A Python 2 string, which may be text or bytes.
    fn push_string<const WIDTH: usize>(&mut self) -> Result<()> {
        let bytes = self.cursor.prefixed::<WIDTH>()?;
        self.push(match std::str::from_utf8(bytes) {
            Ok(text) => Node::Text(text),
            Err(_) => Node::Bytes(bytes),
        })
    }

    fn push_text<const WIDTH: usize>(&mut self) -> Result<()> {
        let bytes = self.cursor.prefixed::<WIDTH>()?;
        self.push(text(bytes))
    }

    fn push_bytes<const WIDTH: usize>(&mut self) -> Result<()> {
        let bytes = self.cursor.prefixed::<WIDTH>()?;
        self.push(Node::Bytes(bytes))
    }

    fn push_short_tuple(&mut self, count: usize) -> Result<()> {
        let height = self.stack.len().checked_sub(count).filter(|height| *height >= self.floor());
        self.push_tuple(height.ok_or_else(underflow)?)
    }

    /// Makes a tuple of everything above a height of the stack.
    fn push_tuple(&mut self, height: usize) -> Result<()> {
        let start = u32::try_from(self.arena.tuple_items.len()).map_err(|_| too_many())?;
        self.arena.tuple_items.extend(self.stack.drain(height.min(self.stack.len())..));
        let end = u32::try_from(self.arena.tuple_items.len()).map_err(|_| too_many())?;
        self.push(Node::Tuple { start, count: end - start })
    }

    fn push_list(&mut self, items: Vec<Id>, kind: fn(u32) -> Node<'a>) -> Result<()> {
        let slot = u32::try_from(self.arena.lists.len()).map_err(|_| too_many())?;
        self.arena.lists.push(items);
        self.push(kind(slot))
    }

    fn push_dict(&mut self, entries: Vec<(Id, Id)>) -> Result<()> {
        let slot = u32::try_from(self.arena.dicts.len()).map_err(|_| too_many())?;
        self.arena.dicts.push(entries);
        self.push(Node::Dict(slot))
    }

    fn push_global(&mut self, module: Cow<'a, str>, name: Cow<'a, str>) -> Result<()> {
        let (slot, _) = self.arena.globals.insert_full((module, name));
        self.push(Node::Global(u32::try_from(slot).map_err(|_| too_many())?))
    }

    /// A name that both processes agreed on beforehand by number.
    fn push_extension<const WIDTH: usize>(&mut self) -> Result<()> {
        self.calls.extension += 1;
        let code = self.cursor.unsigned::<WIDTH>()?;
        self.push_global(Cow::Borrowed("copyreg"), Cow::Owned(format!("extension {code}")))
    }

    fn push_persistent(&mut self) -> Result<()> {
        let reference = self.pop()?;
        self.push(Node::Persistent(reference))
    }

    /// Notes the call of what lies below the top of the stack with the arguments on top.
    fn push_call(&mut self) -> Result<()> {
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

    fn global_part(&mut self) -> Result<Cow<'a, str>> {
        Ok(String::from_utf8_lossy(self.cursor.line()?))
    }

    /// A part of a name taken from the stack. One that is not a text was computed by the pickle itself.
    fn computed_name(&self, id: Id) -> Cow<'a, str> {
        match self.arena.get(id) {
            Node::Text(text) => Cow::Borrowed(text),
            Node::OwnedText(text) => Cow::Owned(text.as_ref().to_owned()),
            _ => Cow::Borrowed("<computed>"),
        }
    }

    fn call_slot(&mut self, id: Id) -> Option<&mut Call> {
        match self.arena.get(id) {
            Node::Call(slot) => {
                let slot = *slot as usize;
                self.arena.calls.get_mut(slot)
            }
            _ => None,
        }
    }

    fn extend(&mut self, items: &[Id]) -> Result<()> {
        let target = self.top()?;
        let list = match self.arena.get(target) {
            Node::List(slot) | Node::Set(slot) => {
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
            None => Err(Error::malformed("the pickle appends to something that is not a list")),
        }
    }

    fn set(&mut self, entries: &[(Id, Id)]) -> Result<()> {
        let target = self.top()?;
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
            None => Err(Error::malformed("the pickle sets a key of something that is not a dict")),
        }
    }

    fn memo_number(&mut self) -> Result<u64> {
        match literal::decimal(self.cursor.line()?)? {
            Integer::Small(number) if number >= 0 => Ok(number as u64),
            _ => Err(Error::malformed("a memo number in the pickle is not a number")),
        }
    }

    #[inline]
    fn recall(&mut self, number: u64) -> Result<()> {
        match self.memo.get(number) {
            Some(id) => self.push_shared(id),
            None => {
                Err(Error::malformed(format!("the pickle recalls memo {number}, which it did not store")))
            }
        }
    }

    #[inline]
    fn remember(&mut self, number: u64) -> Result<()> {
        let top = self.top()?;
        self.memo.put(number, top);
        Ok(())
    }
}

/// Text that is meant to be UTF-8. Python also writes halves of surrogate pairs, which have no character of their own.
fn text(bytes: &[u8]) -> Node<'_> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Node::Text(text),
        Err(_) => Node::OwnedText(String::from_utf8_lossy(bytes).into()),
    }
}

fn underflow() -> Error {
    Error::malformed("the pickle takes more from its stack than it put there")
}

fn too_many() -> Error {
    Error::new(Kind::Limit, "the pickle has more than four thousand million values")
}
