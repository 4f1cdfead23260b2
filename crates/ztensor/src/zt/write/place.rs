//! Where the bytes of tensors go: aligned, once, and with their checksums.

use std::borrow::Cow;

use super::encode::Encoded;
use super::{Checksum, TensorInput, Version, Writer};
use crate::encoding::{Hasher, check_content};
use crate::error::{Error, Result};
use crate::formats::zt::read::ALIGNMENT;
use crate::formats::zt::{rules, v2};
use crate::index::{Component, Components, Coverage, Data, Digest, FileId, Object, Span};

/// Raw blobs of at least this size start on a page of their own.
const LARGE: u64 = 256 << 10;
const PAGE: u64 = 4096;
/// Bytes that are written between two reports of progress.
const PIECE: usize = 32 << 20;

/// Where a blob of version 1 may start.
pub(in crate::zt) fn alignment(length: u64, raw: bool) -> u64 {
    if raw && length >= LARGE { PAGE } else { ALIGNMENT }
}

impl Writer {
    pub(super) fn align(&mut self, length: u64, raw: bool) -> Result<()> {
        self.output.align(match self.version {
            Version::Two => v2::CANONICAL_ALIGNMENT,
            Version::One => alignment(length, raw),
        })
    }

    pub(super) fn store(
        &mut self,
        name: &str,
        tensor: &TensorInput<'_>,
        encoded: Vec<Encoded<'_>>,
        checksum: Checksum,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut components = Components::with_capacity(encoded.len());
        for ((role, element, _), encoded) in tensor.components.iter().zip(&encoded) {
            let span = Span { file: FileId(0), offset: 0, length: encoded.bytes.len() as u64 };
            let component = Component::encoded(element.clone(), (encoded.place)(span), encoded.decoded);
            components.push((Cow::Owned(role.clone().into_owned()), component));
        }
        let mut object = Object {
            shape: tensor.shape.clone(),
            layout: tensor.layout.clone(),
            attributes: tensor.attributes.clone(),
            components,
        };
        // The writer keeps the reader's rules, so that it cannot make a file that does not open.
        rules::check_object(&object).map_err(|error| Error::argument(error.message()).with_tensor(name))?;
        if self.version == Version::Two {
            for (_, element, decoded) in &tensor.components {
                check_content(v2::content(&tensor.layout, &tensor.shape, element), 0, decoded)
                    .map_err(|error| Error::argument(error.message()).with_tensor(name))?;
            }
        }
        for (((_, component), encoded), (_, _, decoded)) in
            object.components.iter_mut().zip(encoded).zip(&tensor.components)
        {
            let placed = match self.version {
                Version::One => self.place(component, &encoded, checksum, progress),
                Version::Two => self.place_once(component, &encoded, decoded, checksum, progress),
            };
            placed.inspect_err(|_| self.broken = true)?;
        }
        self.objects.insert(name.to_owned(), object);
        Ok(())
    }

    fn place(
        &mut self,
        component: &mut Component,
        encoded: &Encoded<'_>,
        checksum: Checksum,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let length = encoded.bytes.len() as u64;
        self.align(length, matches!(component.data, Data::Raw(_)))?;
        component.data = (encoded.place)(Span { file: FileId(0), offset: self.output.position(), length });
        self.put(encoded, progress)?;
        component.digest = checksum.hasher().map(|mut hasher| {
            hasher.update(&encoded.bytes);
            Digest { value: hasher.finish(), over: Coverage::Stored }
        });
        Ok(())
    }

    /// Places a component of version 2: a digest over the decoded bytes, and no second copy of bytes that are
    /// already there.
    fn place_once(
        &mut self,
        component: &mut Component,
        encoded: &Encoded<'_>,
        decoded: &[u8],
        checksum: Checksum,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut hasher = if checksum == Checksum::Sha256 { Hasher::sha256() } else { Hasher::xxh3() };
        hasher.update(decoded);
        let value = hasher.finish();
        component.digest = Some(Digest { value: value.clone(), over: Coverage::Decoded });
        let key = (encoded.bytes.len() as u64, value);
        for span in self.known.get(&key).into_iter().flatten().copied().collect::<Vec<_>>() {
            // Equal digests make a candidate; only equal bytes are shared.
            if self.output.holds(span.offset, &encoded.bytes)? {
                component.data = (encoded.place)(span);
                return Ok(());
            }
        }
        self.align(encoded.bytes.len() as u64, true)?;
        let span =
            Span { file: FileId(0), offset: self.output.position(), length: encoded.bytes.len() as u64 };
        component.data = (encoded.place)(span);
        self.known.entry(key).or_default().push(span);
        self.put(encoded, progress)
    }

    /// Writes what is stored of a component. What is stored as it is has no other step to tell of.
    fn put(&mut self, encoded: &Encoded<'_>, progress: &mut dyn FnMut(u64)) -> Result<()> {
        for piece in encoded.bytes.chunks(PIECE) {
            self.output.write(piece)?;
            if encoded.bytes.len() as u64 == encoded.decoded {
                progress(piece.len() as u64);
            }
        }
        Ok(())
    }

    /// Copies a component as it is stored in another container: same encoding, same checksum.
    pub(in crate::zt) fn copy_stored(&mut self, component: &Component, stored: &[u8]) -> Result<Component> {
        let raw = matches!(component.data, Data::Raw(_));
        self.align(stored.len() as u64, raw)?;
        let span = Span { file: FileId(0), offset: self.output.position(), length: stored.len() as u64 };
        self.output.write(stored).inspect_err(|_| self.broken = true)?;
        let data = match component.data {
            // A seekable stream is plain zstd to a reader of version 1.
            Data::Zstd(_) | Data::ZstdSeekable(_) => Data::Zstd(span),
            Data::Z4ai(_) => Data::Z4ai(span),
            _ => Data::Raw(span),
        };
        // Version 1 knows checksums over stored bytes only.
        let digest = component.digest.as_ref().map(|digest| match digest.over {
            Coverage::Stored => digest.clone(),
            Coverage::Decoded => {
                let mut hasher = Hasher::crc32c();
                hasher.update(stored);
                Digest { value: hasher.finish(), over: Coverage::Stored }
            }
        });
        Ok(Component { data, digest, ..component.clone() })
    }
}
