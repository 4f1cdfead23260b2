//! From the JSON text to a tree. A reader of its own, because numbers must keep every digit, and because a tag says what may follow it.

use super::base64;
use super::integer::MOST_DIGITS;
use super::{DEEPEST, Leaf, Tree, malformed, too_deep};
use crate::error::{Error, Result};

impl Tree {
    /// The tree of a text.
    pub fn parse(text: &str) -> Result<Tree> {
        let mut parser = Parser { text, at: 0 };
        let tree = parser.value(0)?;
        match parser.peek() {
            None => Ok(tree),
            Some(_) => Err(parser.wrong("something follows it")),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn value(&mut self, depth: usize) -> Result<Tree> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        match self.peek() {
            Some(b'"') => Ok(Tree::Text(self.string()?)),
            Some(b'[') => Ok(Tree::List(self.list(depth)?)),
            Some(b'{') => self.tagged(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [("null", Tree::None), ("true", Tree::Bool(true)), ("false", Tree::Bool(false))];
                for (word, value) in words {
                    if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err(self.wrong("a value is expected"))
            }
        }
    }

    fn tagged(&mut self, depth: usize) -> Result<Tree> {
        self.take(b'{')?;
        if self.peek() == Some(b'}') {
            return Err(malformed("a value has no tag"));
        }
        let tag = self.string()?;
        self.take(b':')?;
        let value = self.content(&tag, depth)?;
        match self.peek() {
            Some(b',') => Err(malformed("a value has more than one tag")),
            _ => self.take(b'}').map(|()| value),
        }
    }

    fn content(&mut self, tag: &str, depth: usize) -> Result<Tree> {
        Ok(match tag {
            "dict" => {
                let mut entries = Vec::new();
                self.items([b'{', b'}'], |parser| {
                    let key = Tree::Text(parser.string()?);
                    parser.take(b':')?;
                    entries.push((key, parser.value(depth + 1)?));
                    Ok(())
                })?;
                Tree::Dict(entries)
            }
            "pairs" => Tree::Dict(self.pairs(depth)?),
            "ordered" => {
                self.take(b'[')?;
                let entries = self.pairs(depth)?;
                let attributes = match self.peek() {
                    Some(b',') => {
                        self.take(b',')?;
                        Some(Box::new(self.value(depth + 1)?))
                    }
                    _ => None,
                };
                if !attributes.as_deref().is_none_or(has_text_keys) {
                    return Err(malformed("the attributes of a dict are no dict of texts"));
                }
                self.take(b']')?;
                Tree::Ordered(entries, attributes)
            }
            "tuple" => Tree::Tuple(self.list(depth)?),
            "set" | "frozenset" => {
                let items = self.list(depth)?;
                if !items.iter().all(Tree::is_key) {
                    return Err(malformed("a member of a set cannot be one"));
                }
                if tag == "set" { Tree::Set(items) } else { Tree::FrozenSet(items) }
            }
            "size" => {
                let items = self.list(depth)?;
                if !items.iter().all(|item| matches!(item, Tree::Integer(_))) {
                    return Err(malformed("a dimension is no integer"));
                }
                Tree::Size(items)
            }
            "bytes" => Tree::Bytes(self.bytes()?),
            "bytearray" => Tree::ByteArray(self.bytes()?),
            "float" => Tree::Float(self.special()?),
            "complex" => {
                self.take(b'[')?;
                let real = self.value(depth + 1)?;
                self.take(b',')?;
                let imaginary = self.value(depth + 1)?;
                self.take(b']')?;
                match (real, imaginary) {
                    (Tree::Float(real), Tree::Float(imaginary)) => Tree::Complex(real, imaginary),
                    _ => return Err(malformed("a complex number is no pair of numbers")),
                }
            }
            "tensor" => Tree::Tensor(Leaf::Tensor, self.string()?),
            "numpy" => Tree::Tensor(Leaf::Numpy, self.string()?),
            "scalar" => Tree::Tensor(Leaf::Scalar, self.string()?),
            "parameter" => {
                self.take(b'[')?;
                let name = self.string()?;
                self.take(b',')?;
                let Tree::Bool(trained) = self.value(depth + 1)? else {
                    return Err(malformed("whether a parameter is trained is neither true nor false"));
                };
                self.take(b']')?;
                Tree::Tensor(Leaf::Parameter { trained }, name)
            }
            "attributed" => {
                self.take(b'[')?;
                let tensor = self.value(depth + 1)?;
                if !matches!(tensor, Tree::Tensor(..)) {
                    return Err(malformed("something else than a tensor has attributes"));
                }
                self.take(b',')?;
                let attributes = match self.value(depth + 1)? {
                    Tree::Dict(entries) => entries.into_iter().map(|(key, value)| match key {
                        Tree::Text(name) => Ok((name, value)),
                        _ => Err(malformed("the name of an attribute is no text")),
                    }),
                    _ => return Err(malformed("the attributes of a tensor are no dict")),
                };
                let attributes = attributes.collect::<Result<_>>()?;
                self.take(b']')?;
                Tree::Attributed(Box::new(tensor), attributes)
            }
            "typed" => {
                self.take(b'[')?;
                let dtype = self.string()?;
                self.take(b',')?;
                let bytes = self.bytes()?;
                self.take(b']')?;
                Tree::Typed(dtype, bytes)
            }
            "dtype" => Tree::Dtype(self.string()?),
            "device" => Tree::Device(self.string()?),
            "unread" => Tree::Unread(self.string()?),
            other => {
                return Err(Error::unsupported(format!(
                    "the tree has a value of the unknown kind \"{other}\""
                )));
            }
        })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Tree>> {
        let mut items = Vec::new();
        self.items([b'[', b']'], |parser| {
            items.push(parser.value(depth + 1)?);
            Ok(())
        })?;
        Ok(items)
    }

    fn pairs(&mut self, depth: usize) -> Result<Vec<(Tree, Tree)>> {
        let mut entries = Vec::new();
        self.items([b'[', b']'], |parser| {
            parser.take(b'[').map_err(|_| malformed("a pair of a dict is no pair"))?;
            let key = parser.value(depth + 1)?;
            if !key.is_key() {
                return Err(malformed("a value cannot be the key that it is"));
            }
            parser.take(b',')?;
            entries.push((key, parser.value(depth + 1)?));
            parser.take(b']')
        })?;
        Ok(entries)
    }

    fn items(&mut self, [open, close]: [u8; 2], mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.take(open)?;
        if self.peek() == Some(close) {
            return self.take(close);
        }
        loop {
            item(self)?;
            match self.peek() {
                Some(b',') => self.take(b',')?,
                _ => return self.take(close),
            }
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        base64::decode(&self.string()?).ok_or_else(|| malformed("some bytes are no base64"))
    }

    fn special(&mut self) -> Result<f64> {
        match self.string()?.as_str() {
            "nan" => Ok(f64::NAN),
            "inf" => Ok(f64::INFINITY),
            "-inf" => Ok(f64::NEG_INFINITY),
            other => Err(malformed(format!("\"{other}\" is no number"))),
        }
    }

    fn number(&mut self) -> Result<Tree> {
        let rest = &self.text[self.at..];
        let length = rest
            .bytes()
            .take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            .count();
        let number = &rest[..length];
        let digits = number.strip_prefix('-').unwrap_or(number);
        let whole = digits.bytes().take_while(u8::is_ascii_digit).count();
        let (integer, fraction) = digits.split_at(whole);
        let padded = integer.len() > 1 && integer.starts_with('0');
        let bare_point =
            fraction.strip_prefix('.').is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
        if integer.is_empty() || padded || bare_point {
            return Err(self.wrong("a number is expected"));
        }
        self.at += length;
        if fraction.is_empty() {
            return match integer.len() <= MOST_DIGITS {
                true => Ok(Tree::Integer(number.to_owned())),
                false => Err(malformed(format!("an integer has more than {MOST_DIGITS} digits"))),
            };
        }
        number.parse().map(Tree::Float).map_err(|_| malformed(format!("\"{number}\" is no number")))
    }

    fn string(&mut self) -> Result<String> {
        self.take(b'"')?;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain =
                rest.bytes().take_while(|byte| *byte >= 0x20 && !matches!(byte, b'"' | b'\\')).count();
            text.push_str(&rest[..plain]);
            self.at += plain + 1;
            match rest.as_bytes().get(plain) {
                Some(b'"') => return Ok(text),
                Some(b'\\') => text.push(self.escaped()?),
                _ => return Err(self.wrong("a text does not end")),
            }
        }
    }

    fn escaped(&mut self) -> Result<char> {
        let escape = self.text.as_bytes().get(self.at).copied();
        self.at += 1;
        Ok(match escape {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.unit()?;
                let code = match first {
                    0xD800..0xDC00 if self.text.as_bytes()[self.at..].starts_with(b"\\u") => {
                        self.at += 2;
                        let second = self.unit()?;
                        char::decode_utf16([first, second]).next().and_then(|pair| pair.ok())
                    }
                    code => char::from_u32(code.into()),
                };
                code.ok_or_else(|| malformed("a text has half of a surrogate pair"))?
            }
            _ => return Err(self.wrong("a text has an unknown escape")),
        })
    }

    fn unit(&mut self) -> Result<u16> {
        let digits = self
            .text
            .as_bytes()
            .get(self.at..self.at + 4)
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        self.at += 4;
        unit.ok_or_else(|| malformed("a text has an incomplete escape"))
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, expected: u8) -> Result<()> {
        if self.peek() != Some(expected) {
            return Err(self.wrong(&format!("'{}' is expected", char::from(expected))));
        }
        self.at += 1;
        Ok(())
    }

    fn wrong(&self, what: &str) -> Error {
        malformed(format!("at byte {} of its text {what}", self.at))
    }
}

fn has_text_keys(tree: &Tree) -> bool {
    matches!(tree, Tree::Dict(entries) if entries.iter().all(|(key, _)| matches!(key, Tree::Text(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_there_and_back() {
        let name = || Tree::Text("é\n\"\\\u{1F600}\0".to_owned());
        let tree = Tree::Dict(vec![
            (
                name(),
                Tree::List(vec![
                    Tree::None,
                    Tree::Bool(true),
                    Tree::Integer("-123456789012345678901".into()),
                ]),
            ),
            (
                Tree::Text("f".into()),
                Tree::List([0.1, -0.0, 1e300, 5e-324, 1.0, f64::INFINITY].map(Tree::Float).into()),
            ),
            (Tree::Text("c".into()), Tree::Complex(1.0, f64::NEG_INFINITY)),
            (Tree::Text("t".into()), Tree::Tuple(vec![Tree::Bytes(vec![0, 255]), Tree::ByteArray(vec![])])),
            (Tree::Text("s".into()), Tree::Set(vec![Tree::FrozenSet(vec![Tree::Integer("1".into())])])),
            (
                Tree::Text("o".into()),
                Tree::Ordered(
                    vec![(
                        Tree::Integer("1".into()),
                        Tree::Tensor(Leaf::Parameter { trained: true }, "w".into()),
                    )],
                    Some(Box::new(Tree::Dict(vec![(Tree::Text("_metadata".into()), Tree::Dict(vec![]))]))),
                ),
            ),
            (Tree::Text("n".into()), Tree::Typed("float32".into(), vec![0, 0, 128, 63])),
            (
                Tree::Text("u".into()),
                Tree::List(vec![Tree::Unread("a.B".into()), Tree::Dtype("float32".into())]),
            ),
            (Tree::Text("z".into()), Tree::Size(vec![Tree::Integer("3".into())])),
            (
                Tree::Text("a".into()),
                Tree::Attributed(
                    Box::new(Tree::Tensor(Leaf::Tensor, "x".into())),
                    vec![("tag".into(), Tree::Unread("c.D".into()))],
                ),
            ),
        ]);
        assert_eq!(Tree::parse(&tree.text()).unwrap(), tree);
        assert_eq!(tree.tensors(), ["w", "x"]);
        assert_eq!(tree.unread(), [("['u'][0]".to_owned(), "a.B"), ("['a'].tag".to_owned(), "c.D")]);
        let spaced = " { \"dict\" : { \"a\" : [ 1 , 2.5e-1 ] , \"b\\u00e9\\ud83d\\ude00\" : null } } ";
        let Tree::Dict(entries) = Tree::parse(spaced).unwrap() else { panic!() };
        assert_eq!(entries[1].0, Tree::Text("bé\u{1F600}".into()));
    }

    #[test]
    fn malformed_texts() {
        let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
        let long = "9".repeat(5000);
        for text in [
            "",
            "{",
            "{}",
            "[1",
            "[1,]",
            "nul",
            "01",
            "1.",
            "-",
            "1e",
            ".5",
            "+1",
            "NaN",
            "1 2",
            "\"a",
            "\"\\q\"",
            "\"\\ud800\"",
            "\"\\u12\"",
            "\"\n\"",
            "{\"tuple\":[],\"bytes\":\"\"}",
            "{\"bytes\":\"?\"}",
            "{\"float\":\"1\"}",
            "{\"dict\":[1]}",
            "{\"pairs\":[[1]]}",
            "{\"pairs\":[[[1],2]]}",
            "{\"size\":[1.5]}",
            "{\"set\":[[1]]}",
            "{\"ordered\":[[],1]}",
            "{\"parameter\":[\"w\"]}",
            "{\"complex\":[1]}",
            "{\"tensor\":[\"x\"]}",
            "{\"attributed\":[{\"tensor\":\"x\"}]}",
            "{\"attributed\":[{\"tensor\":\"x\"},{\"pairs\":[[1,2]]}]}",
            "{\"attributed\":[1,{\"dict\":{}}]}",
            deep.as_str(),
            long.as_str(),
        ] {
            assert!(Tree::parse(text).is_err(), "{text:.40}");
        }
        let error = Tree::parse("{\"call\":\"os.system\"}").unwrap_err();
        assert_eq!(error.kind(), crate::Kind::Unsupported);
    }
}
