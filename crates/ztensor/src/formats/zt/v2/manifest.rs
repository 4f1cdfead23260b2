//! The version 2 manifest, both ways, in the Core Deterministic Encoding.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::cbor::{Decoder, Encoder};
use super::super::manifest::intern;
use super::{Z4AI, ZSTD_SEEKABLE};
use crate::error::{Error, Kind, Result};
use crate::index::{Component, Content, Coverage, Data, Digest, DigestValue, FileId, Object, Span};
use crate::limits::Budget;
use crate::tensor::{Attributes, DType, ElementType, Layout, LogicalType, Shape};

/// Nesting that the format allows, from the manifest's root.
const DEPTH: usize = 32;
/// Dimensions that the format allows.
const RANK: usize = 64;
const LONGEST_NAME: usize = 1024;
const LONGEST_SHARD_NAME: usize = 64;
/// What 1.2 calls `quantized_group` has no profile of its own in version 2.
const QUANTIZED_GROUP: &str = "ztensor.quantized_group/1";

/// A parsed manifest.
pub(super) struct Manifest {
    pub attributes: Attributes,
    pub shards: Vec<Shard>,
    pub objects: Vec<Entry>,
}

/// One entry of the object table.
pub(super) struct Entry {
    pub name: String,
    /// Parts of unknown encodings stand in it as if they were raw: where they lie is checked all the same.
    pub object: Object,
    /// Why the object cannot be read, if it cannot.
    pub unreadable: Option<String>,
}

/// One entry of the shard table.
pub(super) struct Shard {
    pub name: String,
    pub size: u64,
    /// The checksum of the whole shard; `None` for an unknown algorithm.
    pub digest: Option<DigestValue>,
}

impl Manifest {
    /// Parses a manifest. Parts in shard *n* of the table get `FileId(n + 1)`; spans are not yet checked.
    pub(super) fn parse(bytes: &[u8], budget: &mut Budget) -> Result<Manifest> {
        let mut attributes = Attributes::new();
        let mut shards = Vec::new();
        let mut objects = None;
        let mut decoder = Decoder::strict(bytes, DEPTH);
        // Keys are sorted, shorter ones first: the shards are known before the objects that name them.
        decoder.map(|decoder, key| {
            match &*key {
                "shards" => shards = shard_table(decoder)?,
                "objects" => objects = Some(object_table(decoder, &shards, budget)?),
                "attributes" => attributes = checked_attributes(decoder)?,
                _ => decoder.skip()?,
            }
            Ok(())
        })?;
        decoder.finish()?;
        let objects = objects.ok_or_else(|| Error::malformed("the manifest has no \"objects\""))?;
        Ok(Manifest { attributes, shards, objects })
    }
}

fn shard_table(decoder: &mut Decoder<'_>) -> Result<Vec<Shard>> {
    let mut shards = Vec::new();
    decoder.map(|decoder, name| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if name.is_empty()
            || name.len() > LONGEST_SHARD_NAME
            || name.starts_with('.')
            || !name.bytes().all(plain)
        {
            return Err(decoder.error(&format!("\"{name}\" is not a shard name")));
        }
        let (mut size, mut digest) = (None, None);
        decoder.map(|decoder, key| {
            match &*key {
                "size" => size = Some(decoder.unsigned()?),
                "digest" => digest = Some(parse_digest(decoder)?),
                _ => decoder.skip()?,
            }
            Ok(())
        })?;
        match (size, digest) {
            (Some(size), Some(digest)) => shards.push(Shard { name: name.into_owned(), size, digest }),
            _ => return Err(decoder.error("a shard without size or digest")),
        }
        Ok(())
    })?;
    Ok(shards)
}

fn object_table(decoder: &mut Decoder<'_>, shards: &[Shard], budget: &mut Budget) -> Result<Vec<Entry>> {
    let mut objects = Vec::new();
    decoder.map(|decoder, name| {
        budget.charge_object()?;
        budget.charge(name.len() as u64 + 256)?;
        check_name(decoder, &name)?;
        let (object, unreadable) = object(decoder, shards).map_err(|error| error.with_tensor(&name))?;
        objects.push(Entry { name: name.into_owned(), object, unreadable });
        Ok(())
    })?;
    Ok(objects)
}

/// The commonest object by far, a raw dense tensor in this file, recognised as a whole: the deterministic encoding has one spelling for it.
/// Anything else, damage included, is left to the walk in [`object`].
fn plain(decoder: &mut Decoder<'_>) -> Option<Object> {
    let accept = |decoder: &mut Decoder<'_>, encoded: &[u8]| decoder.accept(encoded).then_some(());
    accept(decoder, b"\xA3\x65parts\xA1\x64data")?;
    let with_digest = decoder.accept(b"\xA3");
    accept(decoder, if with_digest { b"" } else { b"\xA2" })?;
    accept(decoder, b"\x64blob\x82")?;
    let (offset, length) = (decoder.unsigned().ok()?, decoder.unsigned().ok()?);
    accept(decoder, b"\x65dtype")?;
    let storage = storage_type(&decoder.text().ok()?)?;
    let mut component = Component::raw(storage, Span { file: FileId(0), offset, length });
    if with_digest {
        accept(decoder, b"\x66digest")?;
        component.digest = decoded_digest(parse_digest(decoder).ok()?);
    }
    accept(decoder, b"\x65shape")?;
    let shape = decoder.shape().ok().filter(|shape| shape.len() <= RANK)?;
    accept(decoder, b"\x66layout\x65dense")?;
    Some(Object::dense(shape, component))
}

fn object(decoder: &mut Decoder<'_>, shards: &[Shard]) -> Result<(Object, Option<String>)> {
    if let Some(object) = decoder.attempt(plain) {
        return Ok((object, None));
    }
    let (mut shape, mut layout, mut attributes) = (None, None, Attributes::new());
    let mut parts = None;
    let mut unreadable = None;
    decoder.map(|decoder, key| {
        match &*key {
            "shape" => shape = Some(decoder.shape()?),
            "layout" => layout = Some(decoder.text()?),
            "attributes" => attributes = checked_attributes(decoder)?,
            "parts" => {
                let mut list: Vec<(Cow<'static, str>, Component)> = Vec::new();
                decoder.map(|decoder, role| {
                    check_name(decoder, &role)?;
                    let (component, reason) = part(decoder, shards)?;
                    if let Some(reason) = reason {
                        unreadable = Some(format!("part \"{role}\": {reason}"));
                    }
                    list.push((intern(role), component));
                    Ok(())
                })?;
                if list.is_empty() {
                    return Err(decoder.error("an object without parts"));
                }
                parts = Some(list);
            }
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    let missing = |field: &str| Error::malformed(format!("the object has no \"{field}\""));
    let shape = shape.ok_or_else(|| missing("shape"))?;
    if shape.len() > RANK {
        return Err(Error::malformed(format!("the tensor has {} dimensions, more than {RANK}", shape.len())));
    }
    let mut object = Object {
        shape,
        layout: layout_of(&layout.ok_or_else(|| missing("layout"))?),
        attributes,
        components: parts.ok_or_else(|| missing("parts"))?.into(),
    };
    expect_content(&mut object);
    Ok((object, unreadable))
}

/// A part, and why it cannot be read if its encoding is unknown.
fn part(decoder: &mut Decoder<'_>, shards: &[Shard]) -> Result<(Component, Option<String>)> {
    let (mut dtype, mut logical, mut blob, mut shard) = (None, None, None, None);
    let (mut encoding, mut decoded, mut digest) = (None, None, None);
    decoder.map(|decoder, key| {
        match &*key {
            "dtype" => dtype = Some(decoder.text()?),
            "type" => logical = Some(decoder.text()?),
            "blob" => blob = Some(decoder.unsigned_list()?),
            "shard" => shard = Some(decoder.text()?),
            "encoding" => encoding = Some(decoder.text()?),
            "decoded_length" => decoded = Some(decoder.unsigned()?),
            "digest" => digest = Some(parse_digest(decoder)?),
            _ => decoder.skip()?,
        }
        Ok(())
    })?;
    let missing = |field: &str| Error::malformed(format!("the part has no \"{field}\""));
    let dtype = dtype.ok_or_else(|| missing("dtype"))?;
    let storage =
        storage_type(&dtype).ok_or_else(|| Error::malformed(format!("\"{dtype}\" is not a storage type")))?;
    let blob = blob.ok_or_else(|| missing("blob"))?;
    let &[offset, length] = &blob[..] else {
        return Err(Error::malformed("\"blob\" is not a pair of offset and length"));
    };
    let file = match &shard {
        None => FileId(0),
        Some(name) => {
            // The table is sorted as its keys are: shorter names first.
            let order = |shard: &Shard| (shard.name.len(), &*shard.name).cmp(&(name.len(), name));
            let position = shards.binary_search_by(order);
            FileId(
                position
                    .map_err(|_| Error::malformed(format!("shard \"{name}\" is not in the shard table")))?
                    as u32
                    + 1,
            )
        }
    };
    if encoding.is_some() != decoded.is_some() {
        return Err(Error::malformed("\"encoding\" and \"decoded_length\" come together or not at all"));
    }
    let element = match logical.as_deref() {
        None => ElementType::plain(storage),
        // 1.2 has a storage type for it; the same tensor looks the same whichever version it came from.
        Some("bool") if storage == DType::U8 => ElementType::plain(DType::Bool),
        Some("bool") => return Err(Error::malformed(format!("logical type \"bool\" over {storage}"))),
        Some(name) => {
            let logical = LogicalType::parse(name);
            if logical.geometry().is_some_and(|(_, over)| over != storage) {
                return Err(Error::malformed(format!("logical type \"{name}\" over {storage}")));
            }
            ElementType { storage, logical: Some(logical) }
        }
    };
    let span = Span { file, offset, length };
    let (data, unreadable) = match encoding.as_deref() {
        None => (Data::Raw(span), None),
        Some(ZSTD_SEEKABLE) => (Data::ZstdSeekable(span), None),
        Some(Z4AI) => (Data::Z4ai(span), None),
        Some(other) => (Data::Raw(span), Some(format!("unknown encoding \"{other}\""))),
    };
    let component = Component {
        digest: decoded_digest(digest.flatten()),
        ..Component::encoded(element, data, decoded.unwrap_or(length))
    };
    Ok((component, unreadable))
}

/// A storage type by name; booleans are a logical type here.
fn storage_type(name: &str) -> Option<DType> {
    DType::parse_short(name).filter(|storage| *storage != DType::Bool)
}

fn decoded_digest(value: Option<DigestValue>) -> Option<Digest> {
    value.map(|value| Digest { value, over: Coverage::Decoded })
}

/// Notes what the logical types say about values: booleans are 0 or 1, and an odd number of four-bit elements leaves half a byte of zeros.
fn expect_content(object: &mut Object) {
    for (_, component) in &mut object.components {
        component.content = content(&object.layout, &object.shape, &component.element);
    }
}

/// What a component of this element type holds, for the reader to check and the writer to keep to.
pub(crate) fn content(layout: &Layout, shape: &Shape, element: &ElementType) -> Content {
    match (element.storage, &element.logical) {
        (DType::Bool, _) => Content::Booleans,
        (_, Some(LogicalType::F4E2M1))
            if *layout == Layout::Dense && shape.elements().is_some_and(|count| count % 2 == 1) =>
        {
            Content::HalfByteLeft
        }
        _ => Content::Any,
    }
}

fn checked_attributes(decoder: &mut Decoder<'_>) -> Result<Attributes> {
    let attributes = decoder.attributes()?;
    attributes.keys().try_for_each(|key| check_name(decoder, key))?;
    Ok(attributes)
}

fn check_name(decoder: &Decoder<'_>, name: &str) -> Result<()> {
    match name {
        "" => Err(decoder.error("an empty name")),
        _ if name.len() > LONGEST_NAME => Err(decoder.error("a name is longer than 1024 bytes")),
        _ if name.contains('\0') => Err(decoder.error("a name contains a zero byte")),
        _ => Ok(()),
    }
}

/// A digest; `None` for algorithms this library does not know.
fn parse_digest(decoder: &mut Decoder<'_>) -> Result<Option<DigestValue>> {
    let text = decoder.text()?;
    let Some((algorithm, value)) = text.split_once(':') else {
        return Err(decoder.error("a digest without an algorithm"));
    };
    let lowercase = value.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    match (algorithm, DigestValue::parse(&text)) {
        ("xxh3" | "sha256", Some(value)) if lowercase => Ok(Some(value)),
        ("xxh3" | "sha256", _) => Err(decoder.error(&format!("\"{text}\" is not a digest"))),
        _ => Ok(None),
    }
}

fn layout_of(name: &str) -> Layout {
    match name {
        "dense" => Layout::Dense,
        "zt.sparse_csr/1" => Layout::SparseCsr,
        "zt.sparse_coo/1" => Layout::SparseCoo,
        QUANTIZED_GROUP => Layout::QuantizedGroup,
        other => Layout::Other(other.into()),
    }
}

fn layout_name(layout: &Layout) -> &str {
    match layout {
        Layout::Dense => "dense",
        Layout::SparseCsr => "zt.sparse_csr/1",
        Layout::SparseCoo => "zt.sparse_coo/1",
        Layout::QuantizedGroup => QUANTIZED_GROUP,
        Layout::Other(name) => name,
    }
}

/// Encodes a manifest.
pub(crate) fn encode<'a>(
    attributes: &Attributes,
    objects: impl Iterator<Item = (&'a str, &'a Object)>,
) -> Result<Vec<u8>> {
    let objects: BTreeMap<(usize, &str), &Object> =
        objects.map(|(name, object)| ((name.len(), name), object)).collect();
    let mut encoder = Encoder::deterministic();
    encoder.map(1 + usize::from(!attributes.is_empty()));
    // Deterministic order is shorter keys first.
    encoder.text("objects");
    encoder.map(objects.len());
    for ((_, name), object) in objects {
        encoder.text(name);
        encode_object(&mut encoder, object).map_err(|error| error.with_tensor(name))?;
    }
    if !attributes.is_empty() {
        encoder.text("attributes");
        encoder.attributes(attributes);
    }
    Ok(encoder.finish())
}

fn encode_object(encoder: &mut Encoder, object: &Object) -> Result<()> {
    if object.shape.len() > RANK {
        return Err(Error::new(Kind::InvalidArgument, format!("version 2 allows {RANK} dimensions")));
    }
    encoder.map(3 + usize::from(!object.attributes.is_empty()));
    encoder.text("parts");
    let parts: BTreeMap<(usize, &str), &Component> =
        object.components.iter().map(|(role, component)| ((role.len(), &**role), component)).collect();
    encoder.map(parts.len());
    for ((_, role), component) in parts {
        encoder.text(role);
        encode_part(encoder, component)?;
    }
    encoder.text("shape");
    encoder.unsigned_list(&object.shape);
    encoder.text("layout");
    encoder.text(layout_name(&object.layout));
    if !object.attributes.is_empty() {
        encoder.text("attributes");
        encoder.attributes(&object.attributes);
    }
    Ok(())
}

fn encode_part(encoder: &mut Encoder, component: &Component) -> Result<()> {
    let (span, encoding) = match component.data {
        Data::Raw(span) => (span, None),
        Data::ZstdSeekable(span) => (span, Some(ZSTD_SEEKABLE)),
        Data::Z4ai(span) => (span, Some(Z4AI)),
        _ => return Err(Error::argument("the component is not stored in this file")),
    };
    let (dtype, logical) = match (&component.element.logical, component.element.storage) {
        (None, DType::Bool) => ("u8", Some("bool")),
        (logical, storage) => (storage.short_name(), logical.as_ref().map(|logical| logical.name())),
    };
    let digest = component.digest.as_ref().filter(|digest| digest.over == Coverage::Decoded);
    encoder.map(
        2 + usize::from(logical.is_some())
            + 2 * usize::from(encoding.is_some())
            + usize::from(digest.is_some()),
    );
    encoder.text("blob");
    encoder.unsigned_list(&[span.offset, span.length]);
    if let Some(logical) = logical {
        encoder.text("type");
        encoder.text(logical);
    }
    encoder.text("dtype");
    encoder.text(dtype);
    if let Some(digest) = digest {
        encoder.text("digest");
        encoder.text(&digest.value.to_string());
    }
    if let Some(encoding) = encoding {
        encoder.text("encoding");
        encoder.text(encoding);
        encoder.text("decoded_length");
        encoder.unsigned(component.length);
    }
    Ok(())
}
