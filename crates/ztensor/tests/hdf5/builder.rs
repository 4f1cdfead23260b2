//! Makes HDF5 files byte by byte: a superblock of version 0, object headers of version 1, groups with link messages. That is the least that is
//! legal, and everything in it can be made wrong.

/// Message types.
pub const DATASPACE: u16 = 0x01;
pub const DATATYPE: u16 = 0x03;
pub const FILL: u16 = 0x05;
pub const LINK: u16 = 0x06;
pub const LAYOUT: u16 = 0x08;
pub const FILTERS: u16 = 0x0B;
pub const ATTRIBUTE: u16 = 0x0C;
pub const CONTINUATION: u16 = 0x10;
pub const SYMBOL_TABLE: u16 = 0x11;

pub type Message = (u16, Vec<u8>);

/// Little-endian fields one after the other.
pub fn fields(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A file while it is made.
pub struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    pub fn new() -> Self {
        Builder { bytes: vec![0; 96] }
    }

    /// Appends bytes at the next multiple of eight.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let address = self.bytes.len() as u64;
        self.bytes.extend(bytes);
        address
    }

    /// The address of the next object.
    pub fn next(&self) -> u64 {
        self.bytes.len().next_multiple_of(8) as u64
    }

    pub fn header(&mut self, messages: &[Message]) -> u64 {
        let block = block(messages);
        let count = messages.len() as u16;
        self.put(&fields(&[
            &[1, 0],
            &count.to_le_bytes(),
            &1u32.to_le_bytes(),
            &(block.len() as u32).to_le_bytes(),
            &[0; 4],
            &block,
        ]))
    }

    pub fn group(&mut self, links: &[(&str, u64)]) -> u64 {
        let messages: Vec<Message> = links.iter().map(|(name, address)| link(name, *address)).collect();
        self.header(&messages)
    }

    /// A one-dimensional float32 dataset in one piece.
    pub fn dataset(&mut self, values: &[f32]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let address = self.put(&bytes);
        self.header(&[space(&[values.len() as u64]), float32(), contiguous(address, bytes.len() as u64)])
    }

    /// Closes the file.
    pub fn finish(self, root: u64) -> Vec<u8> {
        let end = self.bytes.len() as u64;
        self.finish_with(root, end)
    }

    /// Closes the file with another end than its own.
    pub fn finish_with(mut self, root: u64, end: u64) -> Vec<u8> {
        let superblock = fields(&[
            b"\x89HDF\r\n\x1a\n",
            &[0, 0, 0, 0, 0, 8, 8, 0],
            &[4, 0, 16, 0, 0, 0, 0, 0],
            &0u64.to_le_bytes(),
            &u64::MAX.to_le_bytes(),
            &end.to_le_bytes(),
            &u64::MAX.to_le_bytes(),
            &0u64.to_le_bytes(),
            &root.to_le_bytes(),
        ]);
        self.bytes[..superblock.len()].copy_from_slice(&superblock);
        self.bytes
    }

    /// A file whose root holds one dataset `x` with these messages.
    pub fn one(mut self, messages: &[Message]) -> Vec<u8> {
        let dataset = self.header(messages);
        let root = self.group(&[("x", dataset)]);
        self.finish(root)
    }
}

/// Messages as they stand in a block of a header.
pub fn block(messages: &[Message]) -> Vec<u8> {
    let mut block = Vec::new();
    for (kind, body) in messages {
        let length = body.len().next_multiple_of(8);
        block.extend(fields(&[&kind.to_le_bytes(), &(length as u16).to_le_bytes(), &[0; 4], body]));
        block.resize(block.len().next_multiple_of(8), 0);
    }
    block
}

pub fn link(name: &str, address: u64) -> Message {
    (LINK, fields(&[&[1, 0, name.len() as u8], name.as_bytes(), &address.to_le_bytes()]))
}

pub fn soft_link(name: &str, path: &str) -> Message {
    let length = (path.len() as u16).to_le_bytes();
    (LINK, fields(&[&[1, 8, 1, name.len() as u8], name.as_bytes(), &length, path.as_bytes()]))
}

pub fn space(dimensions: &[u64]) -> Message {
    let mut body = vec![1, dimensions.len() as u8, 0, 0, 0, 0, 0, 0];
    body.extend(dimensions.iter().flat_map(|dimension| dimension.to_le_bytes()));
    (DATASPACE, body)
}

pub fn float32_type() -> Vec<u8> {
    vec![0x11, 0x20, 0x1F, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0]
}

pub fn float32() -> Message {
    (DATATYPE, float32_type())
}

pub fn contiguous(address: u64, length: u64) -> Message {
    (LAYOUT, fields(&[&[3, 1], &address.to_le_bytes(), &length.to_le_bytes()]))
}

pub fn chunked(tree: u64, dimensions: &[u32], width: u32) -> Message {
    let mut body = fields(&[&[3, 2, dimensions.len() as u8 + 1], &tree.to_le_bytes()]);
    body.extend(dimensions.iter().chain([&width]).flat_map(|dimension| dimension.to_le_bytes()));
    (LAYOUT, body)
}

/// Filters by number, without values.
pub fn filters(numbers: &[u16]) -> Message {
    let mut body = vec![1, numbers.len() as u8, 0, 0, 0, 0, 0, 0];
    for number in numbers {
        body.extend(fields(&[&number.to_le_bytes(), &[0; 6]]));
    }
    (FILTERS, body)
}

/// A node of a B-tree: its type, its level, and its keys with their children.
pub fn tree(kind: u8, level: u8, entries: &[(Vec<u8>, u64)]) -> Vec<u8> {
    let mut node = fields(&[b"TREE", &[kind, level], &(entries.len() as u16).to_le_bytes(), &[0xFF; 16]]);
    for (key, child) in entries {
        node.extend(fields(&[key, &child.to_le_bytes()]));
    }
    node
}

/// The key of a chunk: stored bytes, filter mask, and the first element's coordinates.
pub fn chunk_key(length: u32, mask: u32, origin: &[u64]) -> Vec<u8> {
    let mut key = fields(&[&length.to_le_bytes(), &mask.to_le_bytes()]);
    key.extend(origin.iter().chain([&0]).flat_map(|coordinate| coordinate.to_le_bytes()));
    key
}

/// An attribute of 32-bit floats whose value is given in bytes.
pub fn attribute(name: &str, dimensions: &[u64], value: &[u8]) -> Message {
    let (_, space) = space(dimensions);
    let lengths = [name.len() as u16 + 1, 20, space.len() as u16].map(u16::to_le_bytes).concat();
    let name = fields(&[name.as_bytes(), &[0]]);
    (ATTRIBUTE, fields(&[&[3, 0], &lengths, &[0], &name, &float32_type(), &space, value]))
}

/// A local heap with its segment behind it.
pub fn local_heap(builder: &mut Builder, segment: &[u8]) -> u64 {
    let data = builder.put(segment);
    builder.put(&fields(&[
        b"HEAP\0\0\0\0",
        &(segment.len() as u64).to_le_bytes(),
        &u64::MAX.to_le_bytes(),
        &data.to_le_bytes(),
    ]))
}

/// A symbol-table node: positions of names in the heap and the objects they lead to.
pub fn symbol_node(entries: &[(u64, u64)]) -> Vec<u8> {
    let mut node = fields(&[b"SNOD", &[1, 0], &(entries.len() as u16).to_le_bytes()]);
    for (name, object) in entries {
        node.extend(fields(&[&name.to_le_bytes(), &object.to_le_bytes(), &[0; 24]]));
    }
    node
}
