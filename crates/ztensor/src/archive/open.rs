//! Opening: from the objects of an archive to a source that reads like the original.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::base::Base;
use super::derived::{self, Derived};
use super::description::{Description, PIECES, SKELETON, TABLE, damaged};
use super::table::{OperandEntry, Stored, Table};
use crate::encoding;
use crate::error::{Error, Result};
use crate::index::{Component, Coverage, Data, Digest, DigestValue, Index, Span};
use crate::limits::Meter;
use crate::source::Source;
use crate::source::assembly::{Announcement, Assembly, Piece};
use crate::tensor::DType;

/// A file of an original, by its name.
pub(crate) type NamedSource = (String, Arc<Source>);

/// Puts the files of the original together from an archive's index and files, and for a delta from its base.
pub(crate) fn assemble(
    description: &Description,
    index: &Index,
    files: &[Arc<Source>],
    bases: &[Base],
    meter: &Arc<Meter>,
) -> Result<Vec<NamedSource>> {
    let archive = Arc::new(files.to_vec());
    let table = Table::decode(&small_object(index, files, TABLE, meter)?, description.bases.len())?;
    let skeleton: Arc<[u8]> = small_object(index, files, SKELETON, meter)?.into();
    let Data::Raw(mut room) = object(index, PIECES)?.data else {
        return Err(damaged("its pieces are not stored plainly"));
    };
    let mut bones = Skeleton { bytes: skeleton, taken: 0 };
    let mut parts = Parts::new(description);
    let mut spans = Vec::with_capacity(table.pieces.len());
    for entry in &table.pieces {
        spans.push(take(&mut room, entry.stored.length(entry.length))?);
    }
    let mut pieces: Vec<Option<Arc<dyn Piece>>> = vec![None; table.pieces.len()];
    // Those that are made of other pieces come behind all others, which they may stand before; twins behind what they are twins of.
    let mut order: Vec<usize> = (0..table.pieces.len()).collect();
    order.sort_by_key(|number| {
        let stored = table.pieces.get(*number).map(|entry| &entry.stored);
        let twin_of = match stored {
            Some(Stored::Twin { piece }) => table.pieces.get(*piece).map(|entry| &entry.stored),
            _ => stored,
        };
        (twin_of.is_some_and(Stored::refers_to_pieces), *number)
    });
    for number in order {
        let (Some(entry), Some(span)) = (table.pieces.get(number), spans.get(number).copied()) else {
            continue;
        };
        let encoded = |data: Data, digest: Option<Digest>| -> Arc<dyn Piece> {
            let component = Component { digest, ..Component::encoded(DType::U8, data, entry.length) };
            Arc::new(StoredPiece { files: Arc::clone(&archive), component })
        };
        let listed = |tensor: usize| {
            let tensor =
                table.base.get(tensor).ok_or_else(|| damaged("a tensor of the base is not listed"))?;
            let base = bases.get(tensor.base);
            Ok::<_, Error>((tensor, base.ok_or_else(|| damaged("it refers to a base but names none"))?))
        };
        let reference = |tensor: usize| {
            let (tensor, base) = listed(tensor)?;
            base.tensor(tensor, entry.length)
        };
        let piece = match &entry.stored {
            Stored::Raw { crc32c } => {
                let value = DigestValue::Crc32c(*crc32c);
                encoded(Data::Raw(span), Some(Digest { value, over: Coverage::Stored }))
            }
            Stored::Frame { .. } => encoded(Data::Z4ai(span), None),
            Stored::Twin { piece } => {
                let twin = pieces.get(*piece).and_then(Option::as_ref);
                Arc::clone(twin.ok_or_else(|| damaged("a piece has no twin"))?)
            }
            Stored::Copy { tensor, digest } => reference(*tensor)?.copy(*digest),
            Stored::Delta { tensor, .. } => reference(*tensor)?.delta(Arc::clone(&archive), span),
            Stored::Derived { recipe, operands, .. } => {
                let mut span = span;
                let mut found = Vec::with_capacity(operands.len());
                for operand in operands {
                    found.push(match operand {
                        OperandEntry::Base { tensor } => {
                            let (tensor, base) = listed(*tensor)?;
                            let (reader, length) = base.operand(tensor)?;
                            derived::Operand::Base { reader, tensor: tensor.clone(), length }
                        }
                        OperandEntry::Piece { piece } => {
                            let piece = pieces.get(*piece).and_then(Option::as_ref);
                            let piece =
                                piece.ok_or_else(|| damaged("a piece is made of one that is missing"))?;
                            derived::Operand::Piece(Arc::clone(piece))
                        }
                        OperandEntry::Frame { length, stored } => {
                            let part = take(&mut span, *stored)?;
                            let component = Component::encoded(DType::U8, Data::Z4ai(part), *length);
                            let files = Arc::clone(&archive);
                            derived::Operand::Field(Arc::new(StoredPiece { files, component }))
                        }
                    });
                }
                Arc::new(Derived::new(recipe, found, entry.length, Arc::clone(&archive), span)?)
            }
        };
        if let Some(place) = pieces.get_mut(number) {
            *place = Some(piece);
        }
    }
    for (entry, piece) in table.pieces.iter().zip(pieces) {
        parts.add_skeleton(&mut bones, entry.gap)?;
        parts.add(piece.ok_or_else(|| damaged("a piece is missing"))?)?;
    }
    let rest = bones.bytes.len() as u64 - bones.taken;
    parts.add_skeleton(&mut bones, rest)?;
    if room.length != 0 {
        return Err(damaged("bytes follow its last piece"));
    }
    // What stands behind the original: the archive, and the bases that it is made from.
    let stored = files.iter().map(|file| file.total_stored()).fold(0, u64::saturating_add);
    let stored = bases.iter().map(Base::length).fold(stored, u64::saturating_add);
    let path = files.first().and_then(|file| file.path());
    let originals = parts.finish(description, path, stored, meter)?;
    let remote = files.iter().any(|file| file.is_remote()) || bases.iter().any(Base::is_remote);
    Ok(originals.into_iter().map(|(name, file)| (name, Arc::new(file.over_network(remote)))).collect())
}

/// The parts of each file of the original, as they come.
struct Parts {
    /// The lengths of the files.
    lengths: Vec<u64>,
    files: Vec<Vec<Arc<dyn Piece>>>,
    /// Bytes that the last file still needs.
    open: u64,
}

impl Parts {
    fn new(description: &Description) -> Parts {
        let lengths: Vec<u64> = match description.files.is_empty() {
            true => vec![description.original.length],
            false => description.files.iter().map(|file| file.identity.length).collect(),
        };
        let open = lengths.first().copied().unwrap_or_default();
        Parts { lengths, files: vec![Vec::new()], open }
    }

    /// Goes on to the next file that needs any bytes.
    fn advance(&mut self) {
        while self.open == 0 && self.files.len() < self.lengths.len() {
            self.open = self.lengths[self.files.len()];
            self.files.push(Vec::new());
        }
    }

    fn add(&mut self, piece: Arc<dyn Piece>) -> Result<()> {
        self.advance();
        let open = self.open.checked_sub(piece.length());
        self.open = open.ok_or_else(|| match self.lengths.len() {
            1 => damaged("its pieces do not make up the original's length"),
            _ => damaged("a piece lies in two of its files"),
        })?;
        if let Some(file) = self.files.last_mut() {
            file.push(piece);
        }
        Ok(())
    }

    /// Adds so many bytes of the skeleton, which may lie in several files.
    fn add_skeleton(&mut self, bones: &mut Skeleton, mut length: u64) -> Result<()> {
        while length > 0 {
            self.advance();
            let part = length.min(self.open);
            match bones.take(part)? {
                Some(piece) => self.add(piece)?,
                None => return Err(damaged("its pieces do not make up the original's length")),
            }
            length -= part;
        }
        Ok(())
    }

    /// The files; the path is the archive's, and `stored` bytes stand behind all of them.
    fn finish(
        mut self,
        description: &Description,
        archive: Option<&Path>,
        stored: u64,
        meter: &Arc<Meter>,
    ) -> Result<Vec<(String, Source)>> {
        self.advance();
        if self.open != 0 || self.files.len() != self.lengths.len() {
            return Err(damaged("its pieces do not make up the original's length"));
        }
        if description.files.is_empty() {
            let path = archive.map(original_path);
            let parts = self.files.pop().unwrap_or_default();
            let source =
                Source::from_assembly(Assembly::new(parts, Arc::clone(meter))?, path.as_deref(), stored);
            return Ok(vec![(String::new(), source)]);
        }
        let folder = archive.and_then(Path::parent);
        let sources = description.files.iter().zip(self.files).map(|(file, parts)| {
            let path = folder.map(|folder| folder.join(&file.name));
            let source =
                Source::from_assembly(Assembly::new(parts, Arc::clone(meter))?, path.as_deref(), stored);
            Ok((file.name.clone(), source))
        });
        sources.collect()
    }
}

fn object<'a>(index: &'a Index, name: &str) -> Result<&'a Component> {
    let component = index.objects.get(name).and_then(|object| object.component("data"));
    component.ok_or_else(|| damaged(&format!("it has no object \"{name}\"")))
}

/// An object that is held in memory, once its checksum was found right.
fn small_object(index: &Index, files: &[Arc<Source>], name: &str, meter: &Meter) -> Result<Vec<u8>> {
    let component = object(index, name)?;
    meter.charge(component.length)?;
    encoding::verify(files, component, None)?;
    Ok(encoding::bytes(files, component)?.into_owned())
}

/// Cuts the next piece off the stored bytes.
fn take(room: &mut Span, length: u64) -> Result<Span> {
    let rest = room.length.checked_sub(length).ok_or_else(|| damaged("its pieces are cut off"))?;
    let span = Span { length, ..*room };
    *room = Span { file: room.file, offset: room.offset + length, length: rest };
    Ok(span)
}

/// Where the original would lie: formats that name a tensor after the file see the original's name.
fn original_path(archive: &Path) -> PathBuf {
    match archive.extension() {
        Some(extension) if extension == "zstn" => archive.with_extension(""),
        _ => archive.to_path_buf(),
    }
}

/// The bytes that belong to no piece, as far as they have been handed out.
struct Skeleton {
    bytes: Arc<[u8]>,
    taken: u64,
}

impl Skeleton {
    /// The next bytes, if any are asked for.
    fn take(&mut self, length: u64) -> Result<Option<Arc<dyn Piece>>> {
        let end = self.taken.checked_add(length).filter(|end| *end <= self.bytes.len() as u64);
        let end = end.ok_or_else(|| damaged("its skeleton is too short"))?;
        let bones = Bones { skeleton: Arc::clone(&self.bytes), start: self.taken, length };
        self.taken = end;
        Ok((length > 0).then(|| Arc::new(bones) as Arc<dyn Piece>))
    }
}

struct Bones {
    skeleton: Arc<[u8]>,
    start: u64,
    length: u64,
}

impl Piece for Bones {
    fn length(&self) -> u64 {
        self.length
    }

    fn stored(&self) -> u64 {
        self.length
    }

    fn cost(&self, _start: u64, _length: u64) -> Result<u64> {
        Ok(0)
    }

    fn is_at_hand(&self) -> bool {
        true
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let from = (self.start + start) as usize;
        out.copy_from_slice(&self.skeleton[from..from + out.len()]);
        Ok(())
    }
}

/// Bytes that have to be decoded for a range of what a frame holds. Long frames that are not in memory are not fetched to find out: what a few
/// bytes of theirs decode to is no more than a few times what is asked for, unless somebody took the trouble to send many.
pub(crate) fn decoding_cost(file: &Source, frame: Span, start: u64, length: u64) -> Result<u64> {
    const LONG: u64 = 16 << 20;
    if frame.length > LONG && !file.is_addressable() {
        return Ok(length);
    }
    let bytes = file.bytes(frame.offset, frame.length)?;
    Ok(z4ai::Frame::open(&bytes)
        .and_then(|frame| frame.decoding_cost(start..start.saturating_add(length)))?)
}

/// A piece whose bytes are in the archive.
struct StoredPiece {
    files: Arc<Vec<Arc<Source>>>,
    component: Component,
}

impl Piece for StoredPiece {
    fn length(&self) -> u64 {
        self.component.length
    }

    fn stored(&self) -> u64 {
        self.component.data.stored_length()
    }

    fn encoding(&self) -> &'static str {
        self.component.data.encoding_name()
    }

    fn cost(&self, start: u64, length: u64) -> Result<u64> {
        let Data::Z4ai(span) = self.component.data else { return Ok(self.component.length) };
        let file = self.files.get(span.file.0 as usize);
        file.map_or(Ok(length), |file| decoding_cost(file, span, start, length))
    }

    fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        // Pieces with a checksum of their own are small; frames check each block they decode.
        encoding::verify(&self.files, &self.component, None)?;
        match out.len() as u64 == self.component.length {
            true => encoding::read_into(&self.files, &self.component, out),
            false => encoding::range_into(&self.files, &self.component, start, out),
        }
    }

    fn announce(&self, announcement: &mut Announcement) {
        self.component.data.for_each_span(&mut |span| {
            if let Some(file) = self.files.get(span.file.0 as usize) {
                announcement.add(file, span.offset..span.offset + span.length);
            }
        });
    }
}
