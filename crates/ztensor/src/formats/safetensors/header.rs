//! The JSON header: parsed strictly (duplicate keys refused) and straight into entries, without an intermediate tree.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::canonical;
use crate::error::{Error, Result};
use crate::tensor::Shape;

/// One tensor as the header describes it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The dtype's name.
    pub dtype: Cow<'static, str>,
    /// The dimensions.
    pub shape: Shape,
    /// First byte, counted from the start of the data.
    pub begin: u64,
    /// One past the last byte.
    pub end: u64,
}

/// A whole header.
#[derive(Clone, Debug, Default)]
pub struct Header {
    /// The `__metadata__` map, in file order. An empty one is not the same as none.
    pub metadata: Option<Vec<(String, String)>>,
    /// The tensors in the order of their data.
    pub entries: Vec<(String, Entry)>,
}

impl Header {
    /// Parses a header; padding spaces after the JSON are allowed, anything else is not.
    pub fn parse(json: &[u8]) -> Result<Header> {
        if json.first() != Some(&b'{') {
            return Err(Error::malformed("the header does not start with '{'").with_offset(8));
        }
        let mut header = match canonical::parse(json) {
            Some(header) => header,
            None => serde_json::from_slice::<Header>(json).map_err(|cause| {
                Error::malformed(format!("the header is not valid: {cause}")).with_offset(8).with_cause(cause)
            })?,
        };
        header.entries.sort_by_key(|(_, entry)| (entry.begin, entry.end));
        Ok(header)
    }

    /// Checks that the tensors tile the data exactly: no holes, no overlaps, nothing behind the last one.
    pub fn check_tiling(&self, data: u64) -> Result<()> {
        let mut position = 0;
        for (name, entry) in &self.entries {
            let rule = if entry.begin > entry.end {
                Some("the data offsets are reversed")
            } else if entry.begin > position {
                Some("there is a hole in the data before this tensor")
            } else if entry.begin < position {
                Some("the tensor overlaps the one before it")
            } else {
                None
            };
            if let Some(rule) = rule {
                return Err(Error::malformed(rule).with_tensor(name));
            }
            position = entry.end;
        }
        match position.cmp(&data) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less => {
                Err(Error::malformed(format!("{} bytes follow the last tensor", data - position)))
            }
            std::cmp::Ordering::Greater => Err(Error::truncated(format!(
                "the header announces {position} bytes of data, the file has {data}"
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        let mut seen = false;
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                if std::mem::replace(&mut seen, true) {
                    return Err(A::Error::custom("\"__metadata__\" occurs twice"));
                }
                header.metadata = map.next_value::<Metadata>()?.0;
            } else {
                header.entries.push((name, map.next_value()?));
            }
        }
        Ok(header)
    }
}

struct Metadata(Option<Vec<(String, String)>>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut entries = Vec::new();
                let mut seen = std::collections::HashSet::new();
                while let Some((key, text)) = map.next_entry::<String, String>()? {
                    if !seen.insert(key.clone()) {
                        return Err(A::Error::custom(format!("metadata key \"{key}\" occurs twice")));
                    }
                    entries.push((key, text));
                }
                Ok(Metadata(Some(entries)))
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Metadata, E> {
                Ok(Metadata(None))
            }
        }
        deserializer.deserialize_any(Texts)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tensor with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        while let Some(Key(field)) = map.next_key::<Key>()? {
            let repeated = match field {
                Field::Dtype => dtype.replace(map.next_value::<DtypeName>()?.0).is_some(),
                Field::Shape => shape.replace(map.next_value::<Dimensions>()?.0).is_some(),
                Field::Offsets => offsets.replace(map.next_value::<(u64, u64)>()?).is_some(),
                Field::Unknown => {
                    map.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if repeated {
                return Err(A::Error::custom("a field of a tensor occurs twice"));
            }
        }
        let dtype = dtype.ok_or_else(|| A::Error::missing_field("dtype"))?;
        let shape = shape.ok_or_else(|| A::Error::missing_field("shape"))?;
        let (begin, end) = offsets.ok_or_else(|| A::Error::missing_field("data_offsets"))?;
        Ok(Entry { dtype, shape, begin, end })
    }
}

enum Field {
    Dtype,
    Shape,
    Offsets,
    Unknown,
}

struct Key(Field);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Key, E> {
                Ok(Key(match name {
                    "dtype" => Field::Dtype,
                    "shape" => Field::Shape,
                    "data_offsets" => Field::Offsets,
                    _ => Field::Unknown,
                }))
            }
        }
        deserializer.deserialize_str(Name)
    }
}

/// A dtype's name. Known ones are not allocated: a header with 100,000 tensors repeats a handful of them.
pub(super) fn dtype_name(name: &str) -> Cow<'static, str> {
    let known = super::element_of(name).and_then(|element| super::name_of(&element));
    known.map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed)
}

struct DtypeName(Cow<'static, str>);

impl<'de> Deserialize<'de> for DtypeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = DtypeName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a dtype name")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<DtypeName, E> {
                Ok(DtypeName(dtype_name(name)))
            }
        }
        deserializer.deserialize_str(Name)
    }
}

/// Dimensions, read without a size hint so that the list is as long as the text that spells it.
struct Dimensions(Shape);

impl<'de> Deserialize<'de> for Dimensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Dimensions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Dimensions, A::Error> {
                let mut dimensions = Shape::default();
                while let Some(dimension) = list.next_element()? {
                    dimensions.push(dimension).map_err(serde::de::Error::custom)?;
                }
                Ok(Dimensions(dimensions))
            }
        }
        deserializer.deserialize_seq(List)
    }
}
