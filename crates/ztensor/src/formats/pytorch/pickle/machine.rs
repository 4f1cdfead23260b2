//! The machine itself: one opcode after the other over a stack of value numbers.

use super::arena::{Arena, Id, Node};
use super::cursor::Cursor;
use super::literal;
use super::memo::Memo;
use super::opcode::*;
use super::stack::{text, underflow};
use crate::error::{Error, Kind, Result};
use crate::limits::Budget;

/// What one opcode may leave behind: a value, a stack slot, a memo slot and a place in a container.
const COST_OF_A_STEP: u64 = 64;
/// Steps that are charged at once.
const STEPS_AT_ONCE: u64 = 256;

/// How often each of the opcodes occurred that make an unpickler run code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub reduce: u64,
    pub build: u64,
    pub new_object: u64,
    pub instance: u64,
    pub extension: u64,
}

impl Calls {
    /// The counts under the opcodes' names.
    pub(crate) fn by_opcode(&self) -> [(&'static str, u64); 5] {
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
pub(crate) struct Pickle<'a> {
    pub arena: Arena<'a>,
    /// The value that an unpickler would return.
    pub root: Id,
    /// Bytes up to and including the STOP opcode.
    pub length: usize,
}

/// The state of a run. After a failed one, `arena` and `calls` tell what an unpickler would have done up to there.
pub(crate) struct Machine<'a> {
    pub arena: Arena<'a>,
    pub calls: Calls,
    /// Goes on where a real object might allow what no plain value does. Readers stop there; whoever asks what would be run must not.
    pub(super) lenient: bool,
    /// Names whose attributes the pickle changes: what they stand for is then no longer theirs to say.
    pub changed_globals: Vec<Id>,
    /// Why an unpickler would stop at a place that a lenient machine went past.
    pub unfollowed: Option<String>,
    pub(super) cursor: Cursor<'a>,
    pub(super) stack: Vec<Id>,
    /// Heights of the stack at each MARK.
    pub(super) marks: Vec<usize>,
    pub(super) memo: Memo,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Machine {
            arena: Arena::new(bytes.len()),
            calls: Calls::default(),
            lenient: false,
            changed_globals: Vec::new(),
            unfollowed: None,
            cursor: Cursor::new(bytes),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::default(),
        }
    }

    /// A machine that notes as much as it can of what an unpickler would do.
    pub(crate) fn lenient(bytes: &'a [u8]) -> Self {
        Machine { lenient: true, ..Machine::new(bytes) }
    }

    /// Runs to the STOP opcode. `origin` is where the pickle lies in the file, for messages.
    pub(crate) fn finish(mut self, origin: u64, budget: &mut Budget) -> Result<Pickle<'a>> {
        let root = self.run(origin, budget)?;
        Ok(Pickle { arena: self.arena, root, length: self.cursor.position() })
    }

    /// As `finish`, keeping the machine for what it noted.
    pub(crate) fn run(&mut self, origin: u64, budget: &mut Budget) -> Result<Id> {
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
    pub(crate) fn position(&self) -> usize {
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
            BINBYTES8 => self.push_bytes::<8>(),
            BYTEARRAY8 => {
                let bytes = self.cursor.prefixed::<8>()?;
                self.push(Node::ByteArray(bytes))
            }
            NEXT_BUFFER if self.lenient => self.push_shared(Arena::NONE),
            READONLY_BUFFER if self.lenient => Ok(()),
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
                self.push_list(items, Node::FrozenSet)
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
                let lenient = self.lenient;
                match self.call_slot(target) {
                    Some(call) => {
                        call.state = Some(state);
                        Ok(())
                    }
                    None if lenient => {
                        if matches!(self.arena.get(target), Node::Global(_)) {
                            self.changed_globals.push(target);
                        }
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
}
