//! Data in other files: `external_data` names a file beneath the model's folder, an offset and a length.

use std::collections::HashMap;

use super::wire::Wire;
use crate::error::{Error, Kind, Result};
use crate::formats::Input;
use crate::index::{FileId, Span};

/// The external files opened so far, by the names the model gives them.
#[derive(Default)]
pub(super) struct ExternalFiles {
    opened: HashMap<String, FileId>,
}

impl ExternalFiles {
    /// The range of a tensor that needs `needed` bytes.
    pub(super) fn locate<'a>(
        &mut self,
        wire: &'a Wire<'a>,
        input: &mut Input,
        entries: &[Span],
        needed: u64,
    ) -> Result<Span> {
        let (mut location, mut offset, mut length) = (None, 0, None);
        for &entry in entries {
            let (key, value) = text_pair(wire, entry)?;
            match key.as_str() {
                "location" => location = Some(value),
                "offset" => offset = number(&key, &value, entry)?,
                "length" => length = Some(number(&key, &value, entry)?),
                _ => {}
            }
        }
        let first = entries.first().map_or(0, |entry| entry.offset);
        let location = location.filter(|name| !name.is_empty()).ok_or_else(|| {
            Error::malformed("the data is external, but no location is given").with_offset(first)
        })?;
        // A length of zero is how some writers say "as much as the shape needs".
        if let Some(stated) = length.filter(|&stated| stated != needed && stated != 0) {
            return Err(Error::malformed(format!(
                "the shape needs {needed} bytes, but the external data is said to have {stated}"
            ))
            .with_offset(first));
        }
        let file = match self.opened.get(&location) {
            Some(&file) => file,
            None => {
                let file = input.beneath(&location).map_err(|error| match error.kind() {
                    Kind::NotFound => error.with_hint("Put the external data file beside the model."),
                    _ => error,
                })?;
                self.opened.insert(location, file);
                file
            }
        };
        input.span(file, offset, needed)
    }
}

fn number(key: &str, value: &str, entry: Span) -> Result<u64> {
    value.trim().parse().map_err(|_| {
        Error::malformed(format!("the {key} of external data is not a number: \"{value}\""))
            .with_offset(entry.offset)
    })
}

/// A key and a value, as `StringStringEntryProto` holds them.
pub(super) fn text_pair<'a>(wire: &'a Wire<'a>, entry: Span) -> Result<(String, String)> {
    let (mut key, mut value) = (String::new(), String::new());
    let mut message = wire.message_in(entry);
    while let Some(field) = message.next()? {
        match field.number {
            1 => key = wire.text(field.bytes()?)?,
            2 => value = wire.text(field.bytes()?)?,
            _ => {}
        }
    }
    Ok((key, value))
}
