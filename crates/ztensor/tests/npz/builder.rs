//! Arrays and archives, written by hand so that they can be wrong in every way.

/// An array of version 1.0 as NumPy writes it.
pub fn array(descr: &str, fortran_order: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran_order { "True" } else { "False" };
    with_header(&format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"), data)
}

/// An array of version 1.0 around some dictionary.
pub fn with_header(dictionary: &str, data: &[u8]) -> Vec<u8> {
    let padding = 64 - (10 + dictionary.len() + 1) % 64;
    let header = format!("{dictionary}{}\n", " ".repeat(padding % 64));
    versioned((1, 0), header.as_bytes(), data)
}

/// An array of any version around the bytes of a header.
pub fn versioned(version: (u8, u8), header: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version.0, version.1]);
    match version.0 {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header);
    bytes.extend(data);
    bytes
}

/// One, two and three as float32.
pub fn three_floats() -> Vec<u8> {
    let data: Vec<u8> = [1f32, 2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    array("'<f4'", false, "(3,)", &data)
}

/// One member of an archive and what its headers say.
#[derive(Clone)]
pub struct Member {
    pub name: String,
    pub method: u16,
    pub stored: Vec<u8>,
    pub decoded_length: u32,
    pub crc32: u32,
}

impl Member {
    pub fn plain(name: &str, content: &[u8]) -> Member {
        Member {
            name: name.to_owned(),
            method: 0,
            stored: content.to_vec(),
            decoded_length: content.len() as u32,
            crc32: crc32fast::hash(content),
        }
    }

    /// Deflated into blocks that are not compressed, which every compressor could have written.
    pub fn deflated(name: &str, content: &[u8]) -> Member {
        let mut stored = Vec::new();
        let blocks: Vec<&[u8]> = if content.is_empty() { vec![&[]] } else { content.chunks(100).collect() };
        for (number, block) in blocks.iter().enumerate() {
            stored.push(u8::from(number + 1 == blocks.len()));
            stored.extend((block.len() as u16).to_le_bytes());
            stored.extend((!(block.len() as u16)).to_le_bytes());
            stored.extend(*block);
        }
        Member { method: 8, stored, ..Member::plain(name, content) }
    }

    /// Deflated by a real compressor.
    pub fn compressed(name: &str, content: &[u8]) -> Member {
        use std::io::Write;
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content).unwrap();
        Member { method: 8, stored: encoder.finish().unwrap(), ..Member::plain(name, content) }
    }
}

/// A zip archive.
pub fn archive(members: &[Member]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for member in members {
        let offset = bytes.len() as u32;
        let mut shared = Vec::new();
        for field in [20u16, 0, member.method, 0, 0x21] {
            shared.extend(field.to_le_bytes());
        }
        for field in [member.crc32, member.stored.len() as u32, member.decoded_length] {
            shared.extend(field.to_le_bytes());
        }
        shared.extend((member.name.len() as u16).to_le_bytes());
        shared.extend(0u16.to_le_bytes());

        bytes.extend(b"PK\x03\x04");
        bytes.extend(&shared);
        bytes.extend(member.name.as_bytes());
        bytes.extend(&member.stored);

        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&shared);
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(member.name.as_bytes());
    }
    let start = bytes.len() as u32;
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend((members.len() as u16).to_le_bytes().repeat(2));
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend(0u16.to_le_bytes());
    bytes
}
