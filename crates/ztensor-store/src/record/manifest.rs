//! A manifest: all that reading a checkpoint needs. Its files are made of entries, its entries lie in packs, and the bases of deltas are entries too.

use std::collections::{BTreeMap, BTreeSet};

use super::encoding::{Encoding, put_encoding, take_encoding};
use super::fields::{Fields, Items, as_bytes, as_list, as_number, as_text, put};
use super::pack::{Pack, PackDigest, pack_value, take_pack};
use super::path::check_paths;
use super::{FORMAT, LEAN, Stamp, WITH_RECIPES};
use crate::id::Id;
use crate::name::Name;
use ztensor::{Attributes, Error, Kind, Result, Value};

/// The longest chain of deltas that is read.
pub(crate) const DEEPEST: u32 = 64;
/// Bytes of one piece, decoded or stored: what decoding holds in memory at once. Writers make parts of 64 MiB.
pub(crate) const LARGEST_PIECE: u64 = 1 << 30;
/// Bytes that decoding one piece may take, those of everything below it counted as often as they are referred to: the longest chain of the largest pieces.
const MOST_WORK: u64 = (DEEPEST as u64 + 1) * LARGEST_PIECE;
/// Shorter pieces count as this many bytes, so that their number is bounded as well.
const LEAST_WORK: u64 = 64 << 10;

/// A checkpoint, or a pin, which has packs only.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Which generation of which name this is.
    pub stamp: Stamp,
    /// Name and root digest of the manifest this checkpoint was stored against.
    pub parent: Option<(Name, [u8; 32])>,
    /// The user's.
    pub metadata: Attributes,
    /// Whether the checkpoint is one file, not a folder.
    pub single: bool,
    /// By path.
    pub files: Vec<File>,
    /// What the entries lie in.
    pub packs: Vec<Pack>,
    /// Stored pieces: those of the files, and what they are decoded from.
    pub entries: Vec<Entry>,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Relative to the checkpoint's folder.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
}

impl File {
    /// Tensors in it.
    pub fn tensors(&self) -> usize {
        match &self.kind {
            FileKind::Regular { pieces, .. } => crate::content::cut::count_tensors(pieces),
            _ => 0,
        }
    }
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Bytes.
    Regular {
        /// Permission bits.
        mode: u32,
        /// The number of bytes.
        length: u64,
        /// Their digest; `None` where those of its entries are enough.
        sha256: Option<[u8; 32]>,
        /// The entry with the bytes between and behind the pieces.
        skeleton: Option<usize>,
        /// Entries, in the order of the file.
        pieces: Vec<Piece>,
    },
    /// A folder that is empty, or has a mode of its own.
    Folder {
        /// Permission bits.
        mode: u32,
    },
    /// A symbolic link to a place in the checkpoint.
    Link {
        /// As it was read.
        target: String,
    },
}

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes of the skeleton that come before it.
    pub gap: u64,
    /// Its bytes.
    pub entry: usize,
    /// The tensor it is.
    pub tensor: Option<String>,
}

/// A stored piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// sha256 of the decoded bytes.
    pub digest: [u8; 32],
    /// Their number.
    pub length: u64,
    /// What they were to the writer.
    pub dtype: String,
    /// Their dimensions.
    pub shape: Vec<u64>,
    /// How they are stored.
    pub encoding: Encoding,
    /// The number of the pack.
    pub pack: usize,
    /// Where in the pack.
    pub offset: u64,
    /// How many bytes there.
    pub stored: u64,
}

impl Manifest {
    /// A manifest with nothing in it.
    pub fn new(stamp: Stamp) -> Manifest {
        Manifest {
            stamp,
            parent: None,
            metadata: Attributes::new(),
            single: false,
            files: Vec::new(),
            packs: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// The ids of the packs.
    pub fn pack_ids(&self) -> BTreeSet<Id> {
        self.packs.iter().map(|pack| pack.id).collect()
    }

    /// The format of the record: the lowest that has what is in it.
    pub(super) fn format(&self) -> u64 {
        let is_lean = |file: &File| matches!(file.kind, FileKind::Regular { sha256: None, .. });
        let is_derived = |entry: &Entry| matches!(entry.encoding, Encoding::Derived { .. });
        let is_quick = |pack: &Pack| matches!(pack.digest, PackDigest::Xxh3(_));
        if self.packs.iter().any(is_quick) || self.files.iter().any(is_lean) {
            return LEAN;
        }
        if self.entries.iter().any(is_derived) { WITH_RECIPES } else { FORMAT }
    }

    /// Bytes of all files.
    pub fn logical(&self) -> u64 {
        let length = |file: &File| match file.kind {
            FileKind::Regular { length, .. } => length,
            _ => 0,
        };
        self.files.iter().map(length).fold(0, u64::saturating_add)
    }

    /// How many deltas have to be applied, one on the other, to read an entry.
    pub fn depth(&self, entry: usize) -> u32 {
        depth(&self.entries, entry)
    }

    /// The longest chain of deltas.
    pub fn deepest(&self) -> u32 {
        let mut depths: Vec<u32> = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let below = entry.encoding.bases().filter_map(|base| depths.get(base)).max();
            depths.push(below.map_or(0, |below| below.saturating_add(1)));
        }
        depths.into_iter().max().unwrap_or(0)
    }

    pub(super) fn put(&self, map: &mut Attributes) {
        let parent = self
            .parent
            .as_ref()
            .map(|(name, root)| Value::List(vec![Value::from(name.as_str()), Value::Bytes(root.to_vec())]));
        put(map, "parent", parent.unwrap_or(Value::Null));
        put(map, "metadata", Value::Map(self.metadata.clone()));
        put(map, "single", self.single);
        put(map, "files", Value::List(self.files.iter().map(file_value).collect()));
        put(map, "packs", Value::List(self.packs.iter().map(pack_value).collect()));
        put(map, "entries", Value::List(self.entries.iter().map(entry_value).collect()));
    }

    pub(super) fn take(stamp: Stamp, fields: &mut Fields, format: u64) -> Result<Manifest> {
        let parent = match fields.take("parent")? {
            Value::Null => None,
            value => {
                let mut items = Items::new(value)?;
                let name = Name::new(&as_text(items.next()?)?)?;
                let root = as_bytes(items.next()?)?;
                items.finish()?;
                Some((name, root))
            }
        };
        let Value::Map(metadata) = fields.take("metadata")? else {
            return Err(Error::malformed("the metadata is not a map"));
        };
        let Value::Bool(single) = fields.take("single")? else {
            return Err(Error::malformed("\"single\" is neither true nor false"));
        };
        let lean = format >= LEAN;
        let files = fields.list("files")?.into_iter().map(|file| take_file(file, lean));
        let files = files.collect::<Result<_>>()?;
        let packs = fields.list("packs")?.into_iter().map(|pack| take_pack(pack, lean));
        let packs = packs.collect::<Result<_>>()?;
        let mut entries = Vec::new();
        for value in fields.list("entries")? {
            entries.push(take_entry(value, &entries, format)?);
        }
        let manifest = Manifest { stamp, parent, metadata, single, files, packs, entries };
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks everything that numbers in a manifest refer to.
    pub(crate) fn check(&self) -> Result<()> {
        check_paths(&self.files, self.single)?;
        if !self.files.is_sorted_by(|a, b| a.path < b.path) {
            return Err(Error::malformed("the files are not in order"));
        }
        if self.pack_ids().len() != self.packs.len() {
            return Err(Error::malformed("a pack occurs twice"));
        }
        // Of each entry, the deltas that are applied one on the other, and the bytes that are decoded.
        let mut below: Vec<(u32, u64)> = Vec::with_capacity(self.entries.len());
        for (number, entry) in self.entries.iter().enumerate() {
            let wrong = |what: &str| Error::malformed(format!("entry {number}: {what}"));
            let pack = self.packs.get(entry.pack).ok_or_else(|| wrong("its pack does not exist"))?;
            if entry.offset.checked_add(entry.stored).is_none_or(|end| end > pack.length) {
                return Err(wrong("it lies outside its pack"));
            }
            if entry.length.max(entry.stored) > LARGEST_PIECE {
                return Err(wrong("it is too long"));
            }
            if entry.encoding == Encoding::Raw && entry.stored != entry.length {
                return Err(wrong("it is raw, but not as long as it is stored"));
            }
            let (mut depth, mut work) = (0, entry.length.max(LEAST_WORK));
            for base in entry.encoding.bases() {
                let (deltas, bytes) =
                    below.get(base).ok_or_else(|| wrong("its base is not an earlier entry"))?;
                (depth, work) = (depth.max(deltas + 1), work.saturating_add(*bytes));
            }
            entry
                .encoding
                .check(entry, &self.entries[..number])
                .map_err(|error| error.with_context(&format!("entry {number}")))?;
            if depth > DEEPEST || work > MOST_WORK {
                return Err(Error::new(
                    Kind::Limit,
                    format!("entry {number}: its chain of deltas is too long"),
                ));
            }
            below.push((depth, work));
        }
        self.files.iter().try_for_each(|file| self.check_file(file))
    }

    fn check_file(&self, file: &File) -> Result<()> {
        let FileKind::Regular { length, skeleton, pieces, mode, .. } = &file.kind else { return Ok(()) };
        let wrong = |what: &str| Error::malformed(format!("file \"{}\": {what}", file.path));
        let entry = |number: usize| self.entries.get(number).ok_or_else(|| wrong("an entry does not exist"));
        let bones = skeleton.map(entry).transpose()?.map_or(0, |entry| entry.length);
        let (mut gaps, mut total) = (0u64, bones);
        for piece in pieces {
            gaps = gaps.checked_add(piece.gap).ok_or_else(|| wrong("its gaps are too long"))?;
            let more = entry(piece.entry)?.length;
            total = total.checked_add(more).ok_or_else(|| wrong("its pieces are too long"))?;
        }
        if gaps > bones || total != *length {
            return Err(wrong("its pieces do not make up its length"));
        }
        if *mode > 0o777 {
            return Err(wrong("its mode has more than permission bits"));
        }
        Ok(())
    }
}

/// An entry of these and all that it is decoded from, ascending: bases come before what needs them.
pub(crate) fn needed(entries: &[Entry], entry: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut next = vec![entry];
    while let Some(number) = next.pop() {
        if found.insert(number) {
            next.extend(entries.get(number).into_iter().flat_map(|entry| entry.encoding.bases()));
        }
    }
    found
}

/// How many deltas have to be applied, one on the other, to read one of these entries.
pub(crate) fn depth(entries: &[Entry], entry: usize) -> u32 {
    let mut depths: BTreeMap<usize, u32> = BTreeMap::new();
    for number in needed(entries, entry) {
        let bases = entries.get(number).into_iter().flat_map(|entry| entry.encoding.bases());
        let deepest = bases.filter_map(|base| depths.get(&base)).max();
        depths.insert(number, deepest.map_or(0, |deepest| deepest + 1));
    }
    depths.get(&entry).copied().unwrap_or(0)
}

fn file_value(file: &File) -> Value {
    let mut items = vec![Value::from(file.path.as_str())];
    match &file.kind {
        FileKind::Regular { mode, length, sha256, skeleton, pieces } => {
            let skeleton = skeleton.map_or(Value::Null, |entry| Value::from(entry as u64));
            let pieces = pieces.iter().map(piece_value).collect();
            items.extend([Value::from(0u64), Value::from(u64::from(*mode)), Value::from(*length)]);
            let sha256 = sha256.map_or(Value::Null, |digest| Value::Bytes(digest.to_vec()));
            items.extend([sha256, skeleton, Value::List(pieces)]);
        }
        FileKind::Folder { mode } => items.extend([Value::from(1u64), Value::from(u64::from(*mode))]),
        FileKind::Link { target } => items.extend([Value::from(2u64), Value::from(target.as_str())]),
    }
    Value::List(items)
}

/// Reads a file. Records before `lean` ones have a digest of each.
fn take_file(value: Value, lean: bool) -> Result<File> {
    let mut items = Items::new(value)?;
    let path = as_text(items.next()?)?;
    let mode = |items: &mut Items| -> Result<u32> {
        let mode = u32::try_from(items.number()?).ok().filter(|mode| *mode <= 0o777);
        mode.ok_or_else(|| Error::malformed("a mode has more than permission bits"))
    };
    let kind = match items.number()? {
        0 => FileKind::Regular {
            mode: mode(&mut items)?,
            length: items.number()?,
            sha256: match items.next()? {
                Value::Null if lean => None,
                digest => Some(as_bytes(digest)?),
            },
            skeleton: match items.next()? {
                Value::Null => None,
                number => Some(as_index(number)?),
            },
            pieces: as_list(items.next()?)?.into_iter().map(take_piece).collect::<Result<_>>()?,
        },
        1 => FileKind::Folder { mode: mode(&mut items)? },
        2 => FileKind::Link { target: as_text(items.next()?)? },
        other => return Err(Error::malformed(format!("{other} is no kind of file"))),
    };
    items.finish()?;
    Ok(File { path, kind })
}

fn piece_value(piece: &Piece) -> Value {
    let mut items = vec![Value::from(piece.gap), Value::from(piece.entry as u64)];
    items.extend(piece.tensor.as_deref().map(Value::from));
    Value::List(items)
}

fn take_piece(value: Value) -> Result<Piece> {
    let mut items = Items::new(value)?;
    let (gap, entry) = (items.number()?, as_index(items.next()?)?);
    let tensor = items.optional().map(as_text).transpose()?;
    items.finish()?;
    Ok(Piece { gap, entry, tensor })
}

fn entry_value(entry: &Entry) -> Value {
    let shape = entry.shape.iter().map(|size| Value::from(*size)).collect();
    let (encoding, rest) = put_encoding(&entry.encoding);
    let mut items = vec![
        Value::Bytes(entry.digest.to_vec()),
        Value::from(entry.length),
        Value::from(entry.dtype.as_str()),
        Value::List(shape),
        Value::from(encoding),
        Value::from(entry.pack as u64),
        Value::from(entry.offset),
        Value::from(entry.stored),
    ];
    items.extend(rest);
    Value::List(items)
}

/// Reads an entry, which comes behind these.
fn take_entry(value: Value, before: &[Entry], format: u64) -> Result<Entry> {
    let mut items = Items::new(value)?;
    let digest = as_bytes(items.next()?)?;
    let length = items.number()?;
    let dtype = as_text(items.next()?)?;
    let shape = as_list(items.next()?)?.into_iter().map(as_number).collect::<Result<_>>()?;
    let encoding = items.number()?;
    let (pack, offset, stored) = (as_index(items.next()?)?, items.number()?, items.number()?);
    let encoding = take_encoding(encoding, items, &dtype, before, format)?;
    Ok(Entry { digest, length, dtype, shape, encoding, pack, offset, stored })
}

pub(super) fn as_index(value: Value) -> Result<usize> {
    usize::try_from(as_number(value)?).map_err(|_| Error::malformed("a number is too large"))
}
