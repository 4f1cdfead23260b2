//! The 0.1 container: read, and migrated by rewriting. Big-endian data and zstd both occur.

use super::cbor::Decoder;
use super::{read::ALIGNMENT, rules};
use crate::error::{Error, Result};
use crate::formats::Input;
use crate::index::{
    Component, Components, Coverage, Data, Digest, DigestValue, FileId, Format, Index, Object, Span,
};
use crate::tensor::{Attributes, DType, ElementType, Layout};

/// First bytes of a 0.1 file.
pub(crate) const MAGIC: &[u8; 8] = b"ZTEN0001";

/// Indexes a 0.1 file.
pub(crate) fn index(input: &mut Input) -> Result<Index> {
    let source = input.source();
    let length_at = source
        .len()
        .checked_sub(8)
        .filter(|at| *at >= 8)
        .ok_or_else(|| Error::truncated("the file is too short"))?;
    let length = source.bytes(length_at, 8)?.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let offset = length_at.checked_sub(length).filter(|offset| *offset >= 8).ok_or_else(|| {
        Error::truncated(format!("the tensor list of {length} bytes does not fit the file"))
            .with_offset(length_at)
    })?;
    input.budget.check_header(length)?;
    let bytes = source.bytes(offset, length)?;
    let mut index = Index::new(Format::Zt, "0.1");
    let mut decoder = Decoder::new(&bytes, input.budget.limits().depth);
    decoder.list(|decoder| {
        input.budget.charge_object()?;
        input.budget.charge(256)?;
        let (name, object) = tensor(decoder)?;
        match object {
            Ok(object) => {
                rules::check_object(&object).map_err(|error| error.with_tensor(&name))?;
                index.insert(name, object)
            }
            Err(reason) => {
                index.skip(name, reason);
                Ok(())
            }
        }
    })?;
    decoder.finish()?;
    for (name, object) in &index.objects {
        for (_, component) in &object.components {
            let Some(span) = component.data.first_span() else { continue };
            if span.offset % ALIGNMENT != 0
                || span.offset < 8
                || span.offset.checked_add(span.length).is_none_or(|end| end > offset)
            {
                return Err(Error::malformed(format!(
                    "its {} bytes at offset {} are misplaced",
                    span.length, span.offset
                ))
                .with_tensor(name)
                .with_offset(span.offset));
            }
        }
    }
    Ok(index)
}

fn tensor(decoder: &mut Decoder<'_>) -> Result<(String, Result<Object, String>)> {
    let mut fields = Attributes::new();
    let mut shape = None;
    decoder.map(|decoder, key| {
        let repeated = match &*key {
            "shape" => shape.replace(decoder.shape()?).is_some(),
            _ => {
                let value = decoder.value()?;
                fields.insert(key.into_owned(), value).is_some()
            }
        };
        if repeated { Err(decoder.error("a field of a tensor occurs twice")) } else { Ok(()) }
    })?;
    let text = |field: &str| fields.get(field).and_then(|value| value.as_text());
    let missing = |field: &str| Error::malformed(format!("a tensor has no \"{field}\""));
    let number =
        |field: &str| fields.get(field).and_then(|value| value.as_u64()).ok_or_else(|| missing(field));
    let name = text("name").ok_or_else(|| missing("name"))?.to_owned();
    let shape = shape.ok_or_else(|| missing("shape"))?;
    let span = Span { file: FileId(0), offset: number("offset")?, length: number("size")? };
    let dtype = text("dtype").ok_or_else(|| missing("dtype"))?;
    let Some(storage) = DType::parse(dtype) else {
        return Ok((name, Err(format!("unknown dtype \"{dtype}\""))));
    };
    let element = ElementType::plain(storage);
    let decoded = shape.elements().and_then(|count| element.byte_length(count));
    let decoded = decoded.ok_or_else(|| {
        Error::malformed(format!("the product of shape {shape} overflows")).with_tensor(&name)
    })?;
    match text("layout").unwrap_or("dense") {
        "dense" => {}
        other => return Ok((name, Err(format!("layout \"{other}\" of version 0.1")))),
    }
    let mut data = match text("encoding").unwrap_or("raw") {
        "raw" if span.length != decoded => {
            return Err(Error::malformed(format!(
                "shape {shape} takes {decoded} bytes, but the data has {}",
                span.length
            ))
            .with_tensor(&name));
        }
        "raw" => Data::Raw(span),
        "zstd" => Data::Zstd(span),
        other => return Ok((name, Err(format!("unknown encoding \"{other}\"")))),
    };
    if text("data_endianness") == Some("big") && storage.width() > 1 {
        data = Data::Swapped { width: storage.width() as u8, inner: Box::new(data) };
    }
    let digest =
        text("checksum").and_then(DigestValue::parse).map(|value| Digest { value, over: Coverage::Stored });
    let component = Component { digest, ..Component::encoded(element, data, decoded) };
    Ok((
        name,
        Ok(Object {
            shape,
            layout: Layout::Dense,
            attributes: Attributes::new(),
            components: Components::from([("data".into(), component)]),
        }),
    ))
}
