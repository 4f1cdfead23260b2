//! What people see: sizes in human units, tables, and output that survives a closed pipe.

use std::io::Write;
use std::path::Path;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::{Map, Value as Json, json};
use ztensor::{Attributes, Value, is_hidden, printable};

use crate::{Outcome, Result, envelope};

/// Writes a line to standard output. A reader that has seen enough (`| head`) ends the program quietly. Whatever the line holds, it stays one: names
/// and metadata come from files that anybody may have made.
pub(crate) fn say(line: &str) -> Result<()> {
    print(&printable(line))
}

/// Writes a table to standard output.
pub(crate) fn say_table(table: &Listing) -> Result<()> {
    print(&table.0.to_string())
}

fn print(text: &str) -> Result<()> {
    Ok(to_pipe(writeln!(std::io::stdout().lock(), "{text}"))?)
}

/// What came of writing to standard output; a reader that has seen enough ends the program.
pub(crate) fn to_pipe<T>(result: std::io::Result<T>) -> std::io::Result<T> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other,
    }
}

/// Writes a line to standard error.
pub(crate) fn complain(text: &str) {
    // If even standard error is gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr().lock(), "{}", printable(text));
}

/// Prints the result of a command as JSON, in the envelope that all commands share.
pub(crate) fn say_json(document: &Json) -> Result {
    print(&json_text(&envelope::result(document)))?;
    Ok(Outcome::Done)
}

/// Prints the failure of a command in the same envelope.
pub(crate) fn say_error(document: &Json) -> Result<()> {
    print(&json_text(&envelope::error(document)))
}

/// A document as text, in which letters that are not seen as themselves are escaped; they occur inside strings only.
fn json_text(document: &Json) -> String {
    let text = format!("{document:#}");
    let hidden = |letter: char| is_hidden(letter) && letter != '\n';
    if !text.contains(hidden) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if hidden(letter) {
            letter
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Notes a file that cannot be read, where others are looked at all the same: among the documents, or as a complaint.
pub(crate) fn note_unreadable(path: &Path, error: &ztensor::Error, documents: Option<&mut Vec<Json>>) {
    match documents {
        Some(documents) => documents.push(json!({
            "path": path.display().to_string(),
            "error": envelope::describe(error),
        })),
        None => complain(&format!("ztensor: {}", error.told(ztensor::Caller::Shell))),
    }
}

/// A byte count in human units.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// So many tensors, in words.
pub(crate) fn tensors(number: usize) -> String {
    counted(number, "tensor")
}

/// So many things, in words.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    format!("{} {thing}{}", count(number as u64), if number == 1 { "" } else { "s" })
}

/// A number with thousands separated.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A plain table; `right` names the columns that hold numbers.
pub(crate) fn table(header: &[&str], right: &[usize]) -> Listing {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for &column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Listing(table)
}

/// A table whose cells are lines.
pub(crate) struct Listing(Table);

impl Listing {
    pub(crate) fn add_row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.0.add_row(cells.into_iter().map(|cell| printable(cell.as_ref()).into_owned()));
    }
}

/// A metadata value as JSON.
pub(crate) fn json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
            (Ok(value), _) => Json::from(value),
            (_, Ok(value)) => Json::from(value),
            _ => Json::from(value.to_string()),
        },
        Value::Float(value) => Json::from(*value),
        Value::Text(text) => Json::from(text.as_str()),
        Value::Bytes(bytes) => Json::from(bytes.as_slice()),
        Value::List(values) => Json::from(values.iter().map(json).collect::<Vec<_>>()),
        Value::Map(map) => json_map(map),
    }
}

/// Metadata as a JSON object.
pub(crate) fn json_map(attributes: &Attributes) -> Json {
    Json::Object(attributes.iter().map(|(key, value)| (key.clone(), json(value))).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_printed_so_that_nothing_in_it_is_hidden() {
        let document = json!({ "name": "a\u{202e}\n\u{7f}ü\u{e0041}" });
        let text = json_text(&document);
        assert!(text.contains(r#""a\u202e\n\u007fü\udb40\udc41""#), "{text}");
        assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), document);
    }

    #[test]
    fn sizes_and_counts_are_for_people() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(5 << 30), "5.0 GiB");
        assert_eq!(count(0), "0");
        assert_eq!(count(1234567), "1,234,567");
        assert_eq!(tensors(1), "1 tensor");
        assert_eq!(tensors(2000), "2,000 tensors");
    }
}
