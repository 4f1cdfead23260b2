//! Text that is safe to print. Names and metadata come from files that anybody may have made: a line feed in one forges lines, an escape
//! sequence controls the terminal, and marks that turn the direction of writing or have no width make it look like another.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// The text with everything escaped that would not be seen as itself: `\n`, `\u{202e}`.
///
/// ```
/// assert_eq!(ztensor::printable("layer\u{202e}\n"), "layer\\u{202e}\\n");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    // Writing to a string does not fail.
    let _ = Escaping(&mut escaped).write_str(text);
    Cow::Owned(escaped)
}

/// Whether a letter controls something, has no width, or turns the direction of writing.
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Escapes what is written through it.
pub(crate) struct Escaping<'w, W: ?Sized>(pub(crate) &'w mut W);

impl<W: Write + ?Sized> Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((start, letter)) = rest.char_indices().find(|(_, letter)| is_hidden(*letter)) {
            let (plain, hidden) = rest.split_at(start);
            write!(self.0, "{plain}{}", letter.escape_default())?;
            rest = hidden.get(letter.len_utf8()..).unwrap_or_default();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_as_itself_stays_and_all_else_is_escaped() {
        for plain in ["", "model.layers.0", "ünïcode 模型 שלום", "C:\\models", "🙂"] {
            assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain));
        }
        assert_eq!(printable("a\u{1b}[2J\u{9b}b\nü\t"), "a\\u{1b}[2J\\u{9b}b\\nü\\t");
        for hidden in [
            "\u{202e}",
            "\u{2066}",
            "\u{200f}",
            "\u{200b}",
            "\u{2028}",
            "\u{feff}",
            "\u{61c}",
            "\u{e0041}",
            "\r",
        ] {
            let shown = printable(hidden);
            assert!(shown.is_ascii() && shown.starts_with('\\'), "{shown}");
        }
    }
}
