//! A parser for the Python literals that `.npy` headers are written in: dictionaries, tuples, lists, strings, integers, `True`, `False` and
//! `None`. Nothing is evaluated; depth is bounded; the result borrows from the text.

/// Deepest nesting that is followed. Structured types of structured types use a handful.
const DEEPEST: usize = 32;

/// A literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal<'a> {
    None,
    Bool(bool),
    Integer(i128),
    /// The text between the quotes, escapes as written.
    Text(&'a str),
    Tuple(Vec<Literal<'a>>),
    List(Vec<Literal<'a>>),
    Dictionary(Vec<(Literal<'a>, Literal<'a>)>),
}

/// What is wrong with the text, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    pub rule: &'static str,
    pub position: usize,
}

/// Parses a text that is one literal with white space around it.
pub(super) fn parse(text: &str) -> Result<Literal<'_>, Flaw> {
    let mut parser = Parser { text, position: 0 };
    let literal = parser.literal(0)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(literal),
        Some(_) => Err(parser.flaw("something stands behind the literal")),
    }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Parser<'a> {
    fn literal(&mut self, depth: usize) -> Result<Literal<'a>, Flaw> {
        if depth > DEEPEST {
            return Err(self.flaw("literals are nested too deep"));
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.dictionary(depth),
            Some(b'(') => self.tuple(depth),
            Some(b'[') => {
                self.position += 1;
                let (items, _) = self.items(b']', depth)?;
                Ok(Literal::List(items))
            }
            Some(b'\'' | b'"') => self.text().map(Literal::Text),
            Some(b'-' | b'+' | b'0'..=b'9') => self.integer(),
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.word(),
            _ => Err(self.flaw("a literal is expected")),
        }
    }

    fn dictionary(&mut self, depth: usize) -> Result<Literal<'a>, Flaw> {
        self.position += 1;
        let mut entries = Vec::new();
        loop {
            self.skip_space();
            if self.take(b'}') {
                return Ok(Literal::Dictionary(entries));
            }
            let key = self.literal(depth + 1)?;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.flaw("a colon is expected behind a key"));
            }
            let value = self.literal(depth + 1)?;
            entries.push((key, value));
            self.separator(b'}')?;
        }
    }

    /// Parentheses: a tuple if there is a comma or nothing in them, otherwise what is in them.
    fn tuple(&mut self, depth: usize) -> Result<Literal<'a>, Flaw> {
        self.position += 1;
        let (mut items, comma) = self.items(b')', depth)?;
        match (items.len(), comma) {
            (1, false) => Ok(items.remove(0)),
            _ => Ok(Literal::Tuple(items)),
        }
    }

    /// Items up to the closing bracket, and whether there was a comma.
    fn items(&mut self, close: u8, depth: usize) -> Result<(Vec<Literal<'a>>, bool), Flaw> {
        let mut items = Vec::new();
        let mut comma = false;
        loop {
            self.skip_space();
            if self.take(close) {
                return Ok((items, comma));
            }
            items.push(self.literal(depth + 1)?);
            comma |= self.separator(close)?;
        }
    }

    /// A comma, or nothing before the closing bracket.
    fn separator(&mut self, close: u8) -> Result<bool, Flaw> {
        self.skip_space();
        match self.peek() {
            Some(b',') => {
                self.position += 1;
                Ok(true)
            }
            Some(byte) if byte == close => Ok(false),
            _ => Err(self.flaw("a comma or a closing bracket is expected")),
        }
    }

    fn text(&mut self) -> Result<&'a str, Flaw> {
        let quote = self.peek();
        let start = self.position + 1;
        self.position = start;
        while let Some(byte) = self.peek() {
            if Some(byte) == quote {
                let text = self.text.get(start..self.position).unwrap_or_default();
                self.position += 1;
                return Ok(text);
            }
            self.position += if byte == b'\\' { 2 } else { 1 };
        }
        Err(Flaw { rule: "a string does not end", position: start })
    }

    fn integer(&mut self) -> Result<Literal<'a>, Flaw> {
        let start = self.position;
        self.position += 1;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.position += 1;
        }
        let digits = self.text.get(start..self.position).unwrap_or_default();
        let value = digits.parse().map_err(|_| Flaw { rule: "not an integer", position: start })?;
        // Python 2 marked long integers.
        self.take(b'L');
        Ok(Literal::Integer(value))
    }

    /// `True`, `False`, `None`, or a string behind the prefix `u` or `b`.
    fn word(&mut self) -> Result<Literal<'a>, Flaw> {
        let rest = self.text.get(self.position..).unwrap_or_default();
        for (word, literal) in
            [("True", Literal::Bool(true)), ("False", Literal::Bool(false)), ("None", Literal::None)]
        {
            if rest.starts_with(word) {
                self.position += word.len();
                return Ok(literal);
            }
        }
        if matches!(rest.as_bytes(), [b'u' | b'b', b'\'' | b'"', ..]) {
            self.position += 1;
            return self.text().map(Literal::Text);
        }
        Err(self.flaw("an unknown word"))
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.position += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn flaw(&self, rule: &'static str) -> Flaw {
        Flaw { rule, position: self.position }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_ages_are_read() {
        let text =
            "{'descr': [('x', u'<f4'), (\"y\", '|S3', (2L, ))], 'fortran_order': False, 'shape': (), }  \n";
        let Ok(Literal::Dictionary(entries)) = parse(text) else { panic!("{:?}", parse(text)) };
        assert_eq!(entries[1], (Literal::Text("fortran_order"), Literal::Bool(false)));
        assert_eq!(entries[2].1, Literal::Tuple(vec![]));
        let Literal::List(fields) = &entries[0].1 else { panic!() };
        assert_eq!(fields[0], Literal::Tuple(vec![Literal::Text("x"), Literal::Text("<f4")]));
        assert_eq!(parse("(7)"), Ok(Literal::Integer(7)), "parentheses alone make no tuple");
        assert_eq!(parse("(7,)"), Ok(Literal::Tuple(vec![Literal::Integer(7)])));
        assert_eq!(parse("-5"), Ok(Literal::Integer(-5)));
        assert_eq!(parse(r"'it\'s'"), Ok(Literal::Text(r"it\'s")));
    }

    #[test]
    fn everything_else_is_refused() {
        for text in
            ["", "(", "{'a'}", "{'a': 1 'b': 2}", "'open", "'open\\", "1 2", "__import__", "(1 2)", "-", "é"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"(".repeat(100_000)).is_err());
        assert!(parse(&"9".repeat(100)).is_err());
    }
}
