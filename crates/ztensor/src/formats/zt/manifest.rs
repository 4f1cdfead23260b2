//! The 1.2 manifest as CBOR, both ways. Reading keeps the raw bytes of each object, so that an append copies what it does not
//! change, including fields a newer writer may have added.

use std::borrow::Cow;
use std::ops::Range;

use super::cbor::{Decoder, Encoder};
use crate::error::{Error, Kind, Result};
use crate::index::{Component, Components, Coverage, Data, Digest, DigestValue, FileId, Object, Span};
use crate::limits::Budget;
use crate::tensor::{Attributes, DType, ElementType, Layout, LogicalType};

/// The version this library writes.
pub(crate) const VERSION: &str = "1.2.0";

/// A parsed manifest.
pub(crate) struct Manifest {
    pub version: String,
    pub attributes: Attributes,
    pub entries: Vec<Entry>,
    /// Top-level fields this library does not know: the key and its value as CBOR.
    pub unknown: Vec<(String, Vec<u8>)>,
}

/// One object of a manifest.
pub(crate) struct Entry {
    pub name: String,
    /// The object, or why it cannot be read.
    pub object: Result<Object, String>,
    /// Its value in the manifest's bytes.
    pub raw: Range<usize>,
}

impl Manifest {
    /// Parses a manifest. Spans are not yet checked against the file.
    pub(crate) fn parse(bytes: &[u8], budget: &mut Budget) -> Result<Manifest> {
        let mut entries = Vec::new();
        let mut manifest = Manifest::walk(bytes, budget, &mut |entry| {
            entries.push(entry);
            Ok(())
        })?;
        manifest.entries = entries;
        Ok(manifest)
    }

    /// Parses a manifest and hands out its objects one by one; they are not collected.
    pub(crate) fn walk(
        bytes: &[u8],
        budget: &mut Budget,
        visit: &mut dyn FnMut(Entry) -> Result<()>,
    ) -> Result<Manifest> {
        let depth = budget.limits().depth;
        let mut decoder = Decoder::new(bytes, depth);
        let mut version = None;
        let mut attributes = None;
        let mut objects_seen = false;
        let mut unknown = Vec::new();
        decoder.map(|decoder, key| {
            let repeated = match &*key {
                "version" => version.replace(decoder.text()?.into_owned()).is_some(),
                "attributes" => attributes.replace(decoder.attributes()?).is_some(),
                "objects" => {
                    objects(decoder, budget, visit)?;
                    std::mem::replace(&mut objects_seen, true)
                }
                _ => {
                    let start = decoder.position();
                    decoder.skip()?;
                    unknown.push((key.into_owned(), bytes[start..decoder.position()].to_vec()));
                    false
                }
            };
            if repeated { Err(decoder.error("a field occurs twice")) } else { Ok(()) }
        })?;
        decoder.finish()?;
        if !objects_seen {
            return Err(Error::malformed("the manifest has no \"objects\""));
        }
        let version = version.ok_or_else(|| Error::malformed("the manifest has no \"version\""))?;
        if version.split('.').next() != Some("1") {
            return Err(Error::unsupported(format!(
                "this is version {version} of the container; versions 0.1, 1.x and 2 are read"
            ))
            .with_hint("Update ztensor."));
        }
        Ok(Manifest { version, attributes: attributes.unwrap_or_default(), entries: Vec::new(), unknown })
    }
}

fn objects(
    decoder: &mut Decoder<'_>,
    budget: &mut Budget,
    visit: &mut dyn FnMut(Entry) -> Result<()>,
) -> Result<()> {
    decoder.map(|decoder, name| {
        budget.charge_object()?;
        budget.charge(name.len() as u64 + 256)?;
        let start = decoder.position();
        let object = object(decoder).map_err(|error| error.with_tensor(&name))?;
        visit(Entry { name: name.into_owned(), object, raw: start..decoder.position() })
    })
}

/// The commonest object by far, a raw dense tensor as writers spell it, recognised as a whole: this halves the time to open a file of many tensors.
/// Anything else, damage included, is left to the walk in [`object`].
fn plain(decoder: &mut Decoder<'_>) -> Option<Object> {
    let accept = |decoder: &mut Decoder<'_>, encoded: &[u8]| decoder.accept(encoded).then_some(());
    accept(decoder, b"\xA3\x65shape")?;
    let shape = decoder.shape().ok()?;
    accept(decoder, b"\x66format\x65dense\x6Acomponents\xA1\x64data")?;
    let with_digest = decoder.accept(b"\xA4");
    accept(decoder, if with_digest { b"" } else { b"\xA3" })?;
    accept(decoder, b"\x65dtype")?;
    let storage = DType::parse_short(&decoder.text().ok()?)?;
    accept(decoder, b"\x66offset")?;
    let offset = decoder.unsigned().ok()?;
    accept(decoder, b"\x66length")?;
    let length = decoder.unsigned().ok()?;
    let mut component = Component::raw(storage, Span { file: FileId(0), offset, length });
    if with_digest {
        accept(decoder, b"\x66digest")?;
        let value = DigestValue::parse(&decoder.text().ok()?)?;
        component.digest = Some(Digest { value, over: Coverage::Stored });
    }
    Some(Object::dense(shape, component))
}

fn object(decoder: &mut Decoder<'_>) -> Result<Result<Object, String>> {
    if let Some(object) = decoder.attempt(plain) {
        return Ok(Ok(object));
    }
    let (mut shape, mut layout, mut attributes) = (None, None, None);
    let mut components: Option<Components> = None;
    let mut unreadable = None;
    decoder.fields(|decoder, key| {
        let repeated = match &*key {
            b"shape" => shape.replace(decoder.shape()?).is_some(),
            b"format" => layout.replace(Layout::parse(&decoder.text()?)).is_some(),
            b"attributes" => attributes.replace(decoder.attributes()?).is_some(),
            b"components" => {
                let mut list = Components::new();
                decoder.map(|decoder, role| {
                    match component(decoder)? {
                        Ok(component) => list.push((intern(role), component)),
                        Err(reason) => unreadable = Some(format!("component \"{role}\": {reason}")),
                    }
                    Ok(())
                })?;
                components.replace(list).is_some()
            }
            _ => {
                decoder.unknown_field(key)?;
                false
            }
        };
        if repeated { Err(decoder.error("a field of an object occurs twice")) } else { Ok(()) }
    })?;
    let missing = |field: &str| Error::malformed(format!("the object has no \"{field}\""));
    let object = Object {
        shape: shape.ok_or_else(|| missing("shape"))?,
        layout: layout.ok_or_else(|| missing("format"))?,
        attributes: attributes.unwrap_or_default(),
        components: components.ok_or_else(|| missing("components"))?,
    };
    for (position, (role, _)) in object.components.iter().enumerate() {
        if object.components[..position].iter().any(|(other, _)| other == role) {
            return Err(Error::new(Kind::Duplicate, format!("component \"{role}\" occurs twice")));
        }
    }
    Ok(unreadable.map_or(Ok(object), Err))
}

fn component(decoder: &mut Decoder<'_>) -> Result<Result<Component, String>> {
    let (mut storage, mut logical, mut offset, mut length, mut decoded) = (None, None, None, None, None);
    let mut encoding: Option<Cow<'_, str>> = None;
    let mut digest: Option<Cow<'_, str>> = None;
    decoder.fields(|decoder, key| {
        let repeated = match &*key {
            b"dtype" => storage.replace(decoder.text()?).is_some(),
            b"type" => logical.replace(LogicalType::parse(&decoder.text()?)).is_some(),
            b"offset" => offset.replace(decoder.unsigned()?).is_some(),
            b"length" => length.replace(decoder.unsigned()?).is_some(),
            b"uncompressed_length" => decoded.replace(decoder.unsigned()?).is_some(),
            b"encoding" => encoding.replace(decoder.text()?).is_some(),
            b"digest" => digest.replace(decoder.text()?).is_some(),
            _ => {
                decoder.unknown_field(key)?;
                false
            }
        };
        if repeated { Err(decoder.error("a field of a component occurs twice")) } else { Ok(()) }
    })?;
    let missing = |field: &str| Error::malformed(format!("the component has no \"{field}\""));
    let storage_name = storage.ok_or_else(|| missing("dtype"))?;
    let offset = offset.ok_or_else(|| missing("offset"))?;
    let length = length.ok_or_else(|| missing("length"))?;
    let span = Span { file: FileId(0), offset, length };
    let (data, decoded) = match encoding.as_deref().unwrap_or("raw") {
        "raw" if decoded.is_some_and(|decoded| decoded != length) => {
            return Err(Error::malformed("a raw component whose uncompressed length is not its length"));
        }
        "raw" => (Data::Raw(span), length),
        "zstd" => (Data::Zstd(span), decoded.ok_or_else(|| missing("uncompressed_length"))?),
        "z4ai" => (Data::Z4ai(span), decoded.ok_or_else(|| missing("uncompressed_length"))?),
        other => return Ok(Err(format!("unknown encoding \"{other}\""))),
    };
    let Some(storage) = DType::parse_short(&storage_name) else {
        return Ok(Err(format!("unknown dtype \"{storage_name}\"")));
    };
    let digest = match digest {
        Some(text) => match DigestValue::parse(&text) {
            Some(value) => Some(Digest { value, over: Coverage::Stored }),
            None if text.starts_with("crc32c:") || text.starts_with("sha256:") => {
                return Err(Error::malformed(format!("\"{text}\" is not a checksum")));
            }
            None => return Ok(Err(format!("unknown checksum \"{text}\""))),
        },
        None => None,
    };
    Ok(Ok(Component { digest, ..Component::encoded(ElementType { storage, logical }, data, decoded) }))
}

/// Well-known roles are not allocated for each tensor.
pub(crate) fn intern(role: Cow<'_, str>) -> Cow<'static, str> {
    const KNOWN: [&str; 8] =
        ["data", "values", "indices", "indptr", "coords", "packed_weight", "scales", "zeros"];
    match KNOWN.iter().find(|known| **known == role) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(role.into_owned()),
    }
}

/// What goes into a manifest for one name: an object to encode, or bytes to copy.
pub(crate) enum Item<'a> {
    Object(&'a Object),
    Raw(&'a [u8]),
}

/// Encodes a manifest.
pub(crate) fn encode<'a>(
    attributes: &Attributes,
    items: impl ExactSizeIterator<Item = (&'a str, Item<'a>)>,
    unknown: &[(String, Vec<u8>)],
) -> Result<Vec<u8>> {
    let mut encoder = Encoder::new();
    encoder.map(2 + usize::from(!attributes.is_empty()) + unknown.len());
    encoder.text("version");
    encoder.text(VERSION);
    if !attributes.is_empty() {
        encoder.text("attributes");
        encoder.attributes(attributes);
    }
    for (key, raw) in unknown {
        encoder.text(key);
        encoder.raw(raw);
    }
    encoder.text("objects");
    encoder.map(items.len());
    for (name, item) in items {
        encoder.text(name);
        match item {
            Item::Raw(raw) => encoder.raw(raw),
            Item::Object(object) => {
                encode_object(&mut encoder, object).map_err(|error| error.with_tensor(name))?
            }
        }
    }
    Ok(encoder.finish())
}

/// Encodes one object.
pub(crate) fn encode_object(encoder: &mut Encoder, object: &Object) -> Result<()> {
    encoder.map(3 + usize::from(!object.attributes.is_empty()));
    encoder.text("shape");
    encoder.unsigned_list(&object.shape);
    encoder.text("format");
    encoder.text(object.layout.name());
    if !object.attributes.is_empty() {
        encoder.text("attributes");
        encoder.attributes(&object.attributes);
    }
    encoder.text("components");
    encoder.map(object.components.len());
    for (role, component) in &object.components {
        encoder.text(role);
        encode_component(encoder, component)?;
    }
    Ok(())
}

fn encode_component(encoder: &mut Encoder, component: &Component) -> Result<()> {
    let (span, encoding) = match component.data {
        Data::Raw(span) => (span, None),
        Data::Zstd(span) => (span, Some("zstd")),
        Data::Z4ai(span) => (span, Some("z4ai")),
        _ => return Err(Error::argument("the component is not stored in this file")),
    };
    let (logical, digest) = (&component.element.logical, &component.digest);
    let fields = 3
        + usize::from(logical.is_some())
        + 2 * usize::from(encoding.is_some())
        + usize::from(digest.is_some());
    encoder.map(fields);
    encoder.text("dtype");
    encoder.text(component.element.storage.short_name());
    if let Some(logical) = logical {
        encoder.text("type");
        encoder.text(logical.name());
    }
    encoder.text("offset");
    encoder.unsigned(span.offset);
    encoder.text("length");
    encoder.unsigned(span.length);
    if let Some(encoding) = encoding {
        encoder.text("uncompressed_length");
        encoder.unsigned(component.length);
        encoder.text("encoding");
        encoder.text(encoding);
    }
    if let Some(digest) = digest {
        encoder.text("digest");
        encoder.text(&digest.value.to_string());
    }
    Ok(())
}
