//! Packs on their way into the store: pieces are written as they are encoded, so that encoding and uploading overlap.

use crate::backend::{Backend, Upload};
use crate::id::Id;
use crate::protocol::Protocol;
use crate::record::{Pack, PackHasher};
use ztensor::zt::enclose_bytes;
use ztensor::{Attributes, Result, Value};

/// The one object of a pack.
const PIECES: &str = "z4ai.store/pieces";
/// A pack that has so many bytes is finished: a collector deletes whole packs only.
const LARGE: u64 = 128 << 20;

/// Writes packs, one after the other.
pub(crate) struct PackWriter<'a> {
    protocol: &'a Protocol,
    backend: &'a dyn Backend,
    open: Option<Open<'a>>,
    attributes: Attributes,
    finished: Vec<Pack>,
}

struct Open<'a> {
    id: Id,
    upload: Box<dyn Upload + 'a>,
    hasher: PackHasher,
    position: u64,
    front: u64,
}

impl<'a> PackWriter<'a> {
    pub(crate) fn new(protocol: &'a Protocol) -> PackWriter<'a> {
        let mut about = Attributes::new();
        about.insert("version".into(), Value::from(1u64));
        about.insert("store".into(), Value::from(protocol.store().to_string()));
        let attributes = Attributes::from([("z4ai.store".to_owned(), Value::Map(about))]);
        PackWriter {
            protocol,
            backend: protocol.backend().as_ref(),
            open: None,
            attributes,
            finished: Vec::new(),
        }
    }

    /// Writes a piece; returns the pack and the place in it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(Id, u64)> {
        if self.open.as_ref().is_some_and(|open| open.position >= LARGE) {
            self.finish_open()?;
        }
        if self.open.is_none() {
            let id = self.protocol.id()?;
            let (front, _) = enclose_bytes(PIECES, 0, &self.attributes)?;
            let upload = self.backend.put(&Pack::key(id))?;
            let mut open =
                Open { id, upload, hasher: PackHasher::new(), position: 0, front: front.len() as u64 };
            open.write(&front)?;
            self.open = Some(open);
        }
        let Some(open) = &mut self.open else { return Err(ztensor::Error::argument("no pack is open")) };
        let place = (open.id, open.position);
        open.write(bytes)?;
        Ok(place)
    }

    /// The packs that are complete.
    pub(crate) fn finished(&self) -> &[Pack] {
        &self.finished
    }

    /// Completes the last pack.
    pub(crate) fn finish_open(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let (_, back) = enclose_bytes(PIECES, open.position - open.front, &self.attributes)?;
        open.write(&back)?;
        let Open { id, upload, hasher, position, .. } = open;
        upload.finish()?;
        self.finished.push(Pack { id, length: position, digest: hasher.finish() });
        Ok(())
    }
}

impl Open<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.position += bytes.len() as u64;
        self.upload.write(bytes)
    }
}
