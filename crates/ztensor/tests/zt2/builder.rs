//! Files of version 2 put together by hand, so that each can break one rule.

/// An item of CBOR, encoded deterministically unless it says otherwise.
#[derive(Clone)]
pub enum Item {
    Number(u64),
    Text(String),
    List(Vec<Item>),
    /// Entries are sorted when they are encoded.
    Map(Vec<(String, Item)>),
    /// Bytes as they are.
    Raw(Vec<u8>),
}

pub fn text(value: &str) -> Item {
    Item::Text(value.to_owned())
}

pub fn numbers(values: &[u64]) -> Item {
    Item::List(values.iter().copied().map(Item::Number).collect())
}

pub fn map(entries: &[(&str, Item)]) -> Item {
    Item::Map(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

impl Item {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Item::Number(value) => head(0, *value),
            Item::Text(value) => [head(3, value.len() as u64), value.as_bytes().to_vec()].concat(),
            Item::List(items) => {
                let items: Vec<u8> = items.iter().flat_map(Item::encode).collect();
                [head(4, self.count()), items].concat()
            }
            Item::Map(entries) => {
                let mut entries: Vec<_> =
                    entries.iter().map(|(key, value)| (text(key).encode(), value.encode())).collect();
                entries.sort();
                let entries: Vec<u8> =
                    entries.into_iter().flat_map(|(key, value)| [key, value].concat()).collect();
                [head(5, self.count()), entries].concat()
            }
            Item::Raw(bytes) => bytes.clone(),
        }
    }

    fn count(&self) -> u64 {
        match self {
            Item::List(items) => items.len() as u64,
            Item::Map(entries) => entries.len() as u64,
            _ => 0,
        }
    }

    /// The same map with a field replaced, or left out.
    pub fn with(&self, key: &str, value: Option<Item>) -> Item {
        let Item::Map(entries) = self else { panic!("only maps have fields") };
        let mut entries: Vec<_> = entries.iter().filter(|(known, _)| known != key).cloned().collect();
        entries.extend(value.map(|value| (key.to_owned(), value)));
        Item::Map(entries)
    }
}

/// The shortest head of an item.
pub fn head(major: u8, value: u64) -> Vec<u8> {
    let first = |low: u8| vec![major << 5 | low];
    match value {
        0..=23 => first(value as u8),
        24..=0xFF => [first(24), vec![value as u8]].concat(),
        0x100..=0xFFFF => [first(25), (value as u16).to_be_bytes().to_vec()].concat(),
        0x1_0000..=0xFFFF_FFFF => [first(26), (value as u32).to_be_bytes().to_vec()].concat(),
        _ => [first(27), value.to_be_bytes().to_vec()].concat(),
    }
}

/// A file under construction: blobs on pages of their own, then the manifest and the footer.
pub struct Builder {
    bytes: Vec<u8>,
    objects: Vec<(String, Item)>,
    pub root: Vec<(&'static str, Item)>,
}

impl Builder {
    pub fn new() -> Builder {
        Builder { bytes: super::corpus::MAGIC.to_vec(), objects: Vec::new(), root: Vec::new() }
    }

    /// Adds a blob; returns its place as a part states it.
    pub fn blob(&mut self, bytes: &[u8]) -> Item {
        self.bytes.resize(self.bytes.len().next_multiple_of(4096), 0);
        let place = numbers(&[self.bytes.len() as u64, bytes.len() as u64]);
        self.bytes.extend_from_slice(bytes);
        place
    }

    /// A part over a blob of its own.
    pub fn part(&mut self, dtype: &str, bytes: &[u8]) -> Item {
        map(&[("dtype", text(dtype)), ("blob", self.blob(bytes))])
    }

    pub fn object(&mut self, name: &str, object: Item) {
        self.objects.push((name.to_owned(), object));
    }

    /// Adds a dense tensor whose part may be changed.
    pub fn dense(&mut self, name: &str, shape: &[u64], part: Item) {
        let parts = map(&[("data", part)]);
        self.object(name, map(&[("shape", numbers(shape)), ("layout", text("dense")), ("parts", parts)]));
    }

    /// The blobs as a shard: a file whose footer names no manifest.
    pub fn finish_shard(self) -> Vec<u8> {
        let mut bytes = self.bytes;
        bytes.extend([0; 24]);
        bytes.extend(2u32.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(super::corpus::MAGIC);
        bytes
    }

    pub fn finish(self) -> Vec<u8> {
        let objects = Item::Map(self.objects);
        let mut root = vec![("objects".to_owned(), objects)];
        for (key, value) in self.root {
            root.retain(|(known, _)| known != key);
            root.push((key.to_owned(), value));
        }
        finish(self.bytes, &Item::Map(root).encode())
    }
}

/// Puts a manifest and a footer behind the blobs of a file.
pub fn finish(mut bytes: Vec<u8>, manifest: &[u8]) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    let offset = bytes.len() as u64;
    bytes.extend_from_slice(manifest);
    bytes.extend(offset.to_le_bytes());
    bytes.extend((manifest.len() as u64).to_le_bytes());
    bytes.extend(twox_hash::XxHash3_64::oneshot(manifest).to_le_bytes());
    bytes.extend(2u32.to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(super::corpus::MAGIC);
    bytes
}

/// A seekable zstd stream: each frame's content, the size its entry states, and whether it has a checksum.
pub fn seekable(frames: &[(&[u8], u32, bool)]) -> Vec<u8> {
    let (mut stream, mut entries) = (Vec::new(), Vec::new());
    for (content, announced, checksum) in frames {
        // One block that is not compressed, in a frame that states its size in one byte; the checksum is over the content.
        let mut frame = 0xFD2F_B528u32.to_le_bytes().to_vec();
        frame.push(0x20 | if *checksum { 4 } else { 0 });
        frame.push(content.len() as u8);
        frame.extend(&((content.len() as u32) << 3 | 1).to_le_bytes()[..3]);
        frame.extend_from_slice(content);
        if *checksum {
            frame.extend((twox_hash::XxHash64::oneshot(0, content) as u32).to_le_bytes());
        }
        entries.extend((frame.len() as u32).to_le_bytes());
        entries.extend(announced.to_le_bytes());
        stream.extend(frame);
    }
    stream.extend(0x184D_2A5Eu32.to_le_bytes());
    stream.extend((entries.len() as u32 + 9).to_le_bytes());
    stream.extend(entries);
    stream.extend((frames.len() as u32).to_le_bytes());
    stream.push(0);
    stream.extend(0x8F92_EAB1u32.to_le_bytes());
    stream
}
